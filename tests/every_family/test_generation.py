"""Decoding step by step with every model that generates: the cache, every mode of generate(), beam search."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import EncoderDecoderCache, GenerationConfig
from transformers.generation import (
    LogitsProcessorList,
    MaxLengthCriteria,
    NoBadWordsLogitsProcessor,
    StoppingCriteriaList,
)

from attnzoo.cache_names import CACHE
from tests import factory
from tests.every_family.test_outputs import expected_shapes
from tests.factory import (
    BACKENDS,
    BOS,
    COPYING_HEADS,
    EOS,
    GENERATING_HEADS,
    RNN_VARIANTS,
    SEQ2SEQ_HEADS,
    VOCAB_SIZE,
    alignments_of,
    padded,
    tiny_model,
    words,
)

MODES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampling": {"do_sample": True, "num_return_sequences": 3},
    "beam": {"num_beams": 4, "num_return_sequences": 3},
    "beam-sampling": {"num_beams": 4, "do_sample": True, "num_return_sequences": 3},
}
EXACT = {"rtol": 1e-10, "atol": 1e-12}
# 7 tokens are more than max_source_positions, 1 is less than any window.
LEFT = [[0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1, 1]]
RIGHT = [row[::-1] for row in LEFT]
ENDLESS = {"suppress_tokens": [EOS]}
EXAMPLES = ["luong-lstm-general-feeding", "bahdanau-cho_gru-additive", "encoder_decoder-post-sinusoidal"]

every_name = pytest.mark.parametrize("name", GENERATING_HEADS)
every_mode = pytest.mark.parametrize("mode", MODES)


pytestmark = pytest.mark.usefixtures("no_gradients")


def wide_model(name: str, seed: int = 0, **options: Any) -> Any:
    """A model with such large weights that sequences end at different lengths."""
    return tiny_model(name, seed=seed, std=1.0 if name in RNN_VARIANTS else 0.3, **options)


def generate(model: Any, batch: dict[str, Tensor], **options: Any) -> Any:
    torch.manual_seed(11)
    return model.generate(**batch, **({"max_new_tokens": 8} | options))


def prompt_length(model: Any, batch: dict[str, Tensor]) -> int:
    return 1 if model.config.is_encoder_decoder else batch["input_ids"].shape[1]


def new_tokens(model: Any, batch: dict[str, Tensor], row: Tensor) -> list[int]:
    """The tokens generated after the start token or the prompt, up to and including the end token."""
    tokens = row.tolist()[prompt_length(model, batch) :]
    return tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens


def at_once(model: Any, batch: dict[str, Tensor], text: Tensor, **options: Any) -> Any:
    """One pass without a cache: the text is the target, or follows the prompt of a causal model."""
    if model.config.is_encoder_decoder:
        return model(**batch, decoder_input_ids=text, use_cache=False, **options)
    mask = torch.cat([batch["attention_mask"], torch.ones_like(text)], dim=1)
    return model(torch.cat([batch["input_ids"], text], dim=1), mask, use_cache=False, **options)


def log_probabilities(model: Any, batch: dict[str, Tensor], sequences: Tensor) -> Tensor:
    """(rows,) of the new tokens of each sequence, up to and including its end token, by teacher forcing."""
    start = prompt_length(model, batch)
    text = sequences[:, :-1] if model.config.is_encoder_decoder else sequences[:, start:-1]
    logits = at_once(model, batch, text).logits[:, start - 1 :]
    chosen = logits.log_softmax(dim=-1).gather(-1, sequences[:, start:, None]).squeeze(-1)
    is_end = (sequences[:, start:] == EOS).long()
    return (chosen * (is_end.cumsum(dim=1) - is_end == 0)).sum(dim=1)


# The cache ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [[1] * 9, [3, 1, 5]], ids=str)
@pytest.mark.parametrize(("name", "attention"), [case for case in BACKENDS if case[0] in GENERATING_HEADS])
def test_cached_steps_equal_teacher_forcing(name: str, attention: str | None, sizes: list[int]) -> None:
    """Also with left padding, where the place of the first step in the padded row is not its position."""
    model, batch = tiny_model(name, attention=attention), padded(LEFT)
    text = words(len(LEFT), sum(sizes), seed=1)
    whole = at_once(model, batch, text, output_attentions=name in RNN_VARIANTS)
    given, mask, cache = batch, batch["attention_mask"], None
    logits, alignments = [], []
    if name in RNN_VARIANTS:
        given = {"encoder_outputs": model.get_encoder()(**batch), "attention_mask": mask}
    elif not model.config.is_encoder_decoder:
        outputs = model(**batch, use_cache=True)
        cache, logits = outputs.past_key_values, [outputs.logits]
    for chunk in text.split(sizes, dim=1):
        mask = torch.cat([mask, torch.ones_like(chunk)], dim=1)
        step = {"input_ids": chunk, "attention_mask": mask}
        if model.config.is_encoder_decoder:
            step = {**given, "decoder_input_ids": chunk, "output_attentions": name in RNN_VARIANTS}
        outputs = model(**step, past_key_values=cache, use_cache=True)
        cache = outputs.past_key_values
        logits.append(outputs.logits)
        if name in RNN_VARIANTS:
            alignments.append(alignments_of(outputs))
    is_real = torch.ones(whole.logits.shape[:2], dtype=torch.bool)
    if not model.config.is_encoder_decoder:
        is_real = mask.bool()
    torch.testing.assert_close(torch.cat(logits, dim=1)[is_real], whole.logits[is_real], **EXACT)
    assert cache.get_seq_length() == is_real.shape[1]
    if alignments:
        torch.testing.assert_close(torch.cat(alignments, dim=1), alignments_of(whole), **EXACT)


@every_name
def test_a_cache_is_given_by_either_name_of_the_library_and_not_by_both(name: str) -> None:
    """Transformers 5.24 renamed past_key_values to cache, in its ``generate()`` too."""
    model, text = tiny_model(name), words(2, 6)
    source = {"input_ids": words(2, 4, seed=1)} if model.config.is_encoder_decoder else {}
    of_text = "decoder_input_ids" if source else "input_ids"

    def go_on(*names: str) -> Tensor:
        cache = model(**source, **{of_text: text[:, :3]}, use_cache=True)[CACHE]
        return model(**source, **{of_text: text[:, 3:]}, **dict.fromkeys(names, cache)).logits

    whole = model(**source, **{of_text: text}).logits
    for argument in ("past_key_values", "cache"):
        torch.testing.assert_close(go_on(argument), whole[:, 3:], **EXACT)
    with pytest.raises(TypeError, match=f"cache and past_key_values are .* give {CACHE} alone"):
        go_on("past_key_values", "cache")


@every_mode
@every_name
def test_generate_gives_the_same_with_any_cache_and_with_none(name: str, mode: str) -> None:
    model, batch = wide_model(name), padded(LEFT)
    for options in (MODES[mode], MODES[mode] | ENDLESS):  # without an end a token that is read twice shows
        expected = generate(model, batch, use_cache=False, **options)
        assert len(expected) == len(LEFT) * options.get("num_return_sequences", 1)
        assert torch.equal(generate(model, batch, use_cache=None, **options), expected)  # None is the config's
    # A recurrent model has a cache of its own, whatever kind is requested.
    for cache in ("dynamic", "static") if name not in RNN_VARIANTS or mode == "greedy" else ():
        assert torch.equal(generate(model, batch, cache_implementation=cache, **options), expected)


@every_name
def test_beam_search_needs_the_cache_reordered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = wide_model(name), padded(LEFT * 2)
    # Every beam, not only the best, and its score: with the cells of another beam the best tokens may be the same.
    options = {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 10, **ENDLESS}
    options |= {"return_dict_in_generate": True, "output_scores": True}
    correct = generate(model, batch, use_cache=False, **options)
    reordered = generate(model, batch, **options)
    assert torch.equal(reordered.sequences, correct.sequences)
    torch.testing.assert_close(reordered.sequences_scores, correct.sequences_scores)
    cache = generate(model, batch, max_new_tokens=2, return_dict_in_generate=True).past_key_values
    layer = type(cache.layers[0]) if name in RNN_VARIANTS else type(cache)
    if isinstance(cache, EncoderDecoderCache):
        layer = type(cache.self_attention_cache)
    monkeypatch.setattr(layer, "reorder_cache", lambda self, beam_idx: None)
    difference = generate(model, batch, **options).sequences_scores - correct.sequences_scores
    assert difference.abs().max() > 1e-5


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("name", EXAMPLES)
def test_guidance_is_refused_where_the_prompt_is_a_source(name: str, use_cache: bool) -> None:
    """Transformers' unconditional pass would read the generated tokens as a source."""
    with pytest.raises(ValueError, match=r"guidance_scale=1.5 is for models without an encoder"):
        tiny_model(name).generate(words(2, 4), guidance_scale=1.5, use_cache=use_cache, max_new_tokens=3)
    guided = tiny_model("causal-pre-learned").generate(words(1, 4), guidance_scale=2.0, max_new_tokens=4)
    assert guided.shape[1] > 4


@every_name
def test_generation_continues_from_a_returned_cache(name: str) -> None:
    model = tiny_model(name)
    batch = padded(LEFT if name in RNN_VARIANTS else [[1] * 5] * 2)
    whole = generate(model, batch, max_new_tokens=9, **ENDLESS)
    first = generate(model, batch, max_new_tokens=4, return_dict_in_generate=True, **ENDLESS)
    # Without this mask generate() would read all of decoder_input_ids once more.
    read = {"decoder_input_ids": first.sequences, "decoder_attention_mask": torch.ones_like(first.sequences)}
    if not model.config.is_encoder_decoder:
        batch, read = {"input_ids": first.sequences, "attention_mask": torch.ones_like(first.sequences)}, {}
    second = generate(model, batch, past_key_values=first.past_key_values, max_new_tokens=5, **read, **ENDLESS)
    assert torch.equal(second, whole)


# Batches and padding --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["greedy", "beam"])
@every_name
def test_a_padded_batch_generates_what_its_rows_generate_alone(name: str, mode: str) -> None:
    model, options = wide_model(name), MODES[mode] | {"num_return_sequences": 1}
    for side in (LEFT, RIGHT) if model.config.is_encoder_decoder else (LEFT,):
        batch = padded(side)
        together = generate(model, batch, **options)
        for row, ids, mask in zip(together, batch["input_ids"], batch["attention_mask"].bool(), strict=True):
            alone = {"input_ids": ids[mask].unsqueeze(0)}
            found = generate(model, alone, **options)[0]
            assert new_tokens(model, batch, row) == new_tokens(model, alone, found)


@pytest.mark.parametrize("mode", ["sampling", "beam-sampling"])
@pytest.mark.parametrize("name", SEQ2SEQ_HEADS)
def test_padding_side_does_not_matter_to_samples(name: str, mode: str) -> None:
    model, left, right = tiny_model(name), padded(LEFT), padded(RIGHT)
    right["input_ids"][right["attention_mask"].bool()] = left["input_ids"][left["attention_mask"].bool()]
    assert torch.equal(generate(model, left, **MODES[mode]), generate(model, right, **MODES[mode]))


@every_name
def test_other_ways_to_give_the_source_generate_the_same(name: str) -> None:
    model, batch = wide_model(name), padded(LEFT)
    mask = {"attention_mask": batch["attention_mask"]}
    for options in (MODES["greedy"], MODES["beam"]):
        expected = generate(model, batch, **options)
        embedded = {"inputs_embeds": model.get_input_embeddings()(batch["input_ids"])}
        new = expected if model.config.is_encoder_decoder else expected[:, len(LEFT[0]) :]
        if name in COPYING_HEADS:
            with pytest.raises(ValueError, match="copy=True copies tokens of the source and needs them"):
                generate(model, embedded | mask, **options)
        else:
            assert torch.equal(generate(model, embedded | mask, **options), new)
        if model.config.is_encoder_decoder:
            states = {"encoder_outputs": model.get_encoder()(**batch)}
            assert torch.equal(generate(model, states | mask, **options), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@every_name
def test_every_mode_runs_in_half_precision(name: str, dtype: torch.dtype) -> None:
    model, batch = tiny_model(name, dtype=dtype), padded(LEFT)
    for mode in MODES.values():
        requests = dict.fromkeys(("output_logits", "output_attentions", "return_dict_in_generate"), True)
        result = generate(model, batch, max_new_tokens=4, **requests, **mode)
        assert len(result.sequences) == len(LEFT) * mode.get("num_return_sequences", 1)
        assert 0 <= result.sequences.min() <= result.sequences.max() < VOCAB_SIZE
        assert all(logits.isfinite().all() for logits in result.logits)
        steps = getattr(result, "cross_attentions", None) or result.get("attentions") or ()
        assert all(weights.dtype == torch.float32 for step in steps for weights in step or ())


@pytest.mark.parametrize(("name", "attention"), [case for case in BACKENDS if case[0] in SEQ2SEQ_HEADS])
def test_a_source_may_have_several_targets(name: str, attention: str | None) -> None:
    """Four sources with three targets each, in chunks, are twelve sources with one each."""
    model, batch = tiny_model(name, attention=attention), padded(LEFT)
    target = words(3 * len(LEFT), 4, seed=1)
    repeated = {key: tensor.repeat_interleave(3, dim=0) for key, tensor in batch.items()}
    expected = model(**repeated, decoder_input_ids=target, output_attentions=True)
    source: dict[str, Any] = {
        "encoder_outputs": model.get_encoder()(**batch),
        "attention_mask": batch["attention_mask"],
    }
    cache, chunks = None, []
    for chunk in target.split([1, 2, 1], dim=1):
        step = {"decoder_input_ids": chunk, "past_key_values": cache, "use_cache": True, "output_attentions": True}
        chunks.append(model(**source, **step))
        cache = chunks[-1].past_key_values
    torch.testing.assert_close(torch.cat([chunk.logits for chunk in chunks], dim=1), expected.logits, **EXACT)
    for layer, weights in enumerate(expected.cross_attentions or ()):
        found = torch.cat([chunk.cross_attentions[layer] for chunk in chunks], dim=2)
        torch.testing.assert_close(found, weights, **EXACT)
    with pytest.raises(ValueError, match="every source needs one target, or as many as every other"):
        model(**source, decoder_input_ids=target[:3])


# Beam search against all sequences ------------------------------------------------------------------------------------


@every_name
def test_beam_search_equals_brute_force_on_a_tiny_vocabulary(name: str) -> None:
    length, vocab_size, num_best, seed = 4, 5, 6, 3
    model = wide_model(name, seed=seed, vocab_size=vocab_size)
    source = padded([[1] * 4], seed=seed)
    source["input_ids"] %= vocab_size
    new = torch.tensor(list(itertools.product(range(vocab_size), repeat=length)))
    batch = {key: tensor.expand(len(new), -1) for key, tensor in source.items()}
    start = torch.full((len(new), 1), BOS) if model.config.is_encoder_decoder else batch["input_ids"]
    sequences = torch.cat([start, new], dim=1)
    scores = log_probabilities(model, batch, sequences).tolist()
    # Sequences that differ after their end only are one.
    by_tokens = {tuple(new_tokens(model, batch, row)): score for row, score in zip(sequences, scores, strict=True)}
    # Sequences without an end before their last place, and those that end there or are cut.
    assert len(by_tokens) == sum((vocab_size - 1) ** n for n in range(length)) + (vocab_size - 1) ** length
    ranking = sorted(((score, tokens) for tokens, score in by_tokens.items()), reverse=True)[:num_best]
    result = generate(
        model,
        source,
        max_new_tokens=length,
        num_beams=128,  # more than there are prefixes: nothing is ever dropped, and beam search is exact
        num_return_sequences=num_best,
        length_penalty=0.0,  # the score of a sequence is its log-probability, not divided by its length
        return_dict_in_generate=True,
        output_scores=True,
    )
    assert [tuple(new_tokens(model, source, row)) for row in result.sequences] == [tokens for _, tokens in ranking]
    expected = torch.tensor([score for score, _ in ranking])
    torch.testing.assert_close(result.sequences_scores, expected, rtol=1e-5, atol=1e-5)


def test_beam_search_finds_more_than_greedy_search() -> None:
    """Otherwise the test above would pass for a greedy search, or for sequences of one length only."""
    bests, greedies = [], []
    for name in GENERATING_HEADS:
        model, source = wide_model(name, seed=3, vocab_size=5), {"input_ids": words(1, 4, seed=3, vocab_size=5)}
        for beams, found in ((64, bests), (1, greedies)):
            (row,) = generate(model, source, max_new_tokens=4, num_beams=beams, length_penalty=0.0)
            found.append(new_tokens(model, source, row))
    assert bests != greedies
    assert len(set(map(len, bests))) > 1


@every_name
def test_n_best_come_with_their_scores_the_best_first(name: str) -> None:
    """A score is the log-probability, divided by the length to the power of length_penalty."""
    model, batch = tiny_model(name), padded(LEFT)
    options: dict[str, Any] = {"num_beams": 5, "num_return_sequences": 5, "return_dict_in_generate": True}
    repeated = {key: tensor.repeat_interleave(5, dim=0) for key, tensor in batch.items()}
    for length_penalty in (0.0, 1.0):
        result = generate(model, batch, length_penalty=length_penalty, output_scores=True, **options)
        assert len(result.sequences_scores) == len(result.sequences) == 5 * len(LEFT)
        for scores, rows in zip(result.sequences_scores.split(5), result.sequences.split(5), strict=True):
            assert scores.tolist() == sorted(scores.tolist(), reverse=True)
            assert len({tuple(new_tokens(model, batch, row)) for row in rows}) == 5
        lengths = torch.tensor([len(new_tokens(model, batch, row)) for row in result.sequences])
        expected = log_probabilities(model, repeated, result.sequences) / lengths**length_penalty
        torch.testing.assert_close(result.sequences_scores.double(), expected, rtol=1e-5, atol=1e-5)


# What comes with the tokens -------------------------------------------------------------------------------------------


@every_mode
@every_name
def test_generate_returns_all_that_is_requested(name: str, mode: str) -> None:
    model, batch, steps = tiny_model(name), padded(LEFT), 4
    length = len(LEFT[0])
    names = ["output_scores", "output_logits", "output_hidden_states", "output_attentions", "return_dict_in_generate"]
    options = {"max_new_tokens": steps, **ENDLESS, **MODES[mode]}  # so that every step is made
    result = generate(model, batch, **dict.fromkeys(names, True), **options)
    returned = len(LEFT) * MODES[mode].get("num_return_sequences", 1)
    rows = len(LEFT) * MODES[mode]["num_beams"] if "beam" in mode else returned
    assert result.sequences.shape == (returned, prompt_length(model, batch) + steps)
    for per_step in (result.scores, result.logits):
        assert [tuple(step.shape) for step in per_step] == [(rows, VOCAB_SIZE)] * steps
    for step in range(steps):
        seen = step if model.config.is_encoder_decoder else length + step  # tokens before this one
        if model.config.is_encoder_decoder:
            shapes = expected_shapes(model.config, rows, length, target=1)
        else:
            shapes = expected_shapes(model.config, rows, 1 if step else length, target=0)
        for key, expected in shapes.items():
            if key == "copy_attentions":  # generate() collects what Transformers knows
                continue
            if key.startswith("encoder"):
                assert [part.shape for part in getattr(result, key)] == [(len(LEFT), *shape[1:]) for shape in expected]
                continue
            is_growing = key == "decoder_attentions" or (key == "attentions" and step > 0)
            places = seen + model.config.is_encoder_decoder
            found = [tuple(part.shape) for part in getattr(result, key)[step]]
            assert found == [(*shape[:-1], places) if is_growing else shape for shape in expected], key
        for weights in (getattr(result, "cross_attentions", None) or [None] * steps)[step] or ():
            padding = (batch["attention_mask"] == 0).repeat_interleave(rows // len(LEFT), dim=0)
            assert (weights[padding[:, None, None].expand_as(weights)] == 0).all()
    assert result.past_key_values.get_seq_length() == prompt_length(model, batch) + steps - 1
    if "beam" in mode:
        assert result.sequences_scores.shape == (returned,)
        assert result.beam_indices.shape[0] == returned
    assert torch.equal(result.sequences, generate(model, batch, **options))


# Options --------------------------------------------------------------------------------------------------------------

AT_MOST_THREE = StoppingCriteriaList([MaxLengthCriteria(3)])
CONTROLS: dict[str, tuple[dict[str, Any], Callable[[list[int]], bool]]] = {
    "min_new_tokens": ({"min_new_tokens": 4}, lambda new: EOS not in new[:4]),
    "min_length": ({"min_length": 4}, lambda new: EOS not in new[:3]),
    "max_length": ({"max_length": 3, "max_new_tokens": None}, lambda new: len(new) <= 2),
    "no_repeat_ngram_size": ({"no_repeat_ngram_size": 1}, lambda new: len({BOS, *new}) == 1 + len(new)),
    "bad_words_ids": ({"bad_words_ids": [[word] for word in range(3, 9)]}, lambda new: not {*new} & {*range(3, 9)}),
    "forced_bos_token_id": ({"forced_bos_token_id": 7}, lambda new: new[0] == 7),
    "forced_eos_token_id": ({"forced_eos_token_id": 11, "min_new_tokens": 4}, lambda new: new[4] == 11),
    "eos_token_id": ({"eos_token_id": [*range(3, 9)]}, lambda new: not {*new[:-1]} & {*range(3, 9)}),
    "prefix_allowed_tokens_fn": (
        {"prefix_allowed_tokens_fn": lambda row, ids: [3 + row]},
        lambda new: len({*new}) == 1,
    ),
    "logits_processor": (  # of the caller
        {"logits_processor": LogitsProcessorList([NoBadWordsLogitsProcessor([[word] for word in range(3, 9)])])},
        lambda new: not {*new} & {*range(3, 9)},
    ),
    "stopping_criteria": ({"stopping_criteria": AT_MOST_THREE}, lambda new: len(new) <= 2),
    "max_time": ({"max_time": 1e-9}, lambda new: len(new) == 1),
    "sequence_bias": ({"sequence_bias": {(5,): 1e3}}, lambda new: {*new} == {5}),
    "encoder_no_repeat_ngram_size": (
        {"encoder_no_repeat_ngram_size": 1},
        lambda new: not {*new} & {*words(1, 6)[0].tolist()},
    ),
}


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_controls_of_generate_are_obeyed(name: str, control: str) -> None:
    options, holds = CONTROLS[control]
    for num_beams in (1, 3):
        given = {"max_new_tokens": 5, "num_beams": num_beams} | options
        (sequence,) = generate(tiny_model(name), {"input_ids": words(1, 6)}, **given).tolist()
        assert sequence[0] == BOS
        new = sequence[1:]
        assert holds(new[: new.index(EOS) + 1] if EOS in new and control != "forced_eos_token_id" else new)


@pytest.mark.parametrize("name", [*EXAMPLES, "causal-pre-learned"])
def test_a_generation_config_is_used_and_saved(name: str, tmp_path: Path) -> None:
    model, batch = tiny_model(name), padded(LEFT)
    settings = {"num_beams": 3, "max_new_tokens": 4, "length_penalty": 0.5, "num_return_sequences": 2}
    expected = generate(model, batch, **settings)
    as_object = generate(model, batch, generation_config=GenerationConfig(**settings), max_new_tokens=4)
    assert torch.equal(as_object, expected)
    model.generation_config.update(**settings)
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path).to(factory.DEVICE)
    assert torch.equal(loaded.generate(**batch), expected)
    other = GenerationConfig.from_pretrained(tmp_path)
    assert {key: getattr(other, key) for key in settings} == settings
    assert (other.bos_token_id, other.eos_token_id, other.pad_token_id) == (1, 2, 0)
