"""``search()``: the sequences that Transformers' own loops return, of every model, mode and option."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    LogitsProcessor,
    LogitsProcessorList,
    MaxLengthCriteria,
    MinLengthLogitsProcessor,
    PrefixConstrainedLogitsProcessor,
    PreTrainedModel,
    StoppingCriteriaList,
)
from transformers.modeling_outputs import BaseModelOutput

from attnzoo import fast_weight_copies, search
from attnzoo.decoding import recurrent_steps, repeated_product, token_search, transformer_steps
from attnzoo.decoding.token_search import BLOCK, _best
from attnzoo.decoding.transformer_steps import TransformerSearchDecoder
from tests import factory
from tests.factory import (
    ATTENTION_VARIANTS,
    BOS,
    CAUSAL,
    EOS,
    GENERATING,
    PAD,
    RNN_SIZES,
    RNN_VARIANTS,
    SEQ2SEQ,
    VOCAB_SIZE,
    padded,
    padded_batch,
    refused,
    tiny_model,
    words,
)

LENGTHS = [5, 3, 1, 7]
LEFT_PADDED = [[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 1, 1]]
FAST = ["luong-lstm-general-feeding", *GENERATING]  # a model of every fast path
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampling": {"do_sample": True, "temperature": 0.8, "top_k": 5, "num_return_sequences": 3},
    "beams": {"num_beams": 4},
    "beams-n-best": {"num_beams": 4, "num_return_sequences": 4},
    "beams-early": {"num_beams": 4, "early_stopping": True, "num_return_sequences": 2},
    "beams-never": {"num_beams": 3, "early_stopping": "never", "length_penalty": 2.0, "num_return_sequences": 3},
    "beams-short": {"num_beams": 3, "length_penalty": -1.0, "num_return_sequences": 3},
    "beams-no-penalty": {"num_beams": 5, "length_penalty": 0.0, "num_return_sequences": 5},
    "at-least": {"num_beams": 3, "min_new_tokens": 5},
    "greedy-at-least": {"min_length": 4},
    "several-ends": {"num_beams": 3, "eos_token_id": [EOS, 5, 6], "num_return_sequences": 3},
    "no-end": {"num_beams": 3, "eos_token_id": None},
    "no-repetition": {"num_beams": 3, "no_repeat_ngram_size": 1, "repetition_penalty": 1.5},
    "suppressed": {"num_beams": 2, "suppress_tokens": [4, 5], "min_new_tokens": 2},
    "none-suppressed": {"suppress_tokens": []},
    "suppressed-outside": {"suppress_tokens": [-1, 5, 10_000]},
    "no-cache": {"num_beams": 2, "use_cache": False},
    "cache-of-the-config": {"use_cache": None, "min_new_tokens": 8},
    "forced-end": {"num_beams": 3, "forced_eos_token_id": EOS, "suppress_tokens": [7]},
}


pytestmark = pytest.mark.usefixtures("no_gradients", "copies_at_once")


@pytest.fixture
def copies_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy weights before their first product, for products of any size."""
    monkeypatch.setattr(fast_weight_copies, "FEW_PRODUCTS", 0)
    monkeypatch.setattr(repeated_product, "LARGE", 0)
    monkeypatch.setattr(repeated_product, "MANY_WEIGHTS", 0)
    monkeypatch.setattr(repeated_product, "int8_is_faster", lambda: True)


def assert_like_generate(model: PreTrainedModel, **options: Any) -> Tensor:
    """search() finds the sequences that generate() finds; returns them."""
    results = []
    for extra in ({}, {"custom_generate": search}):
        torch.manual_seed(11)
        results.append(model.generate(**({"max_new_tokens": 9} | options), **extra))
    expected, found = results
    assert type(found) is type(expected)
    if not isinstance(found, Tensor):
        expected, found = expected.sequences, found.sequences
    assert found.tolist() == expected.tolist()
    return found


# Every option with one model of each wiring; every recurrent model with the three modes. Options know nothing of the
# model. Every option with every Transformer, in one of two precisions: in float32 the products are oneDNN's.
EVERY_OPTION = ["bahdanau-cho_gru-additive", "luong-lstm-general-predictive-feeding", "cho-cho_gru-forward"]
EVERY_OPTION += ["sutskever-lstm-2-layers-reversed"]
PAIRS = [*product(RNN_VARIANTS, ("greedy", "sampling", "beams-n-best")), *product(EVERY_OPTION, OPTIONS)]
SEARCHES = [(name, options, torch.float64) for name, options in dict.fromkeys(PAIRS)]
SEARCHES += [
    (name, options, (torch.float32, torch.float64)[(row + column) % 2])
    for row, name in enumerate(GENERATING)
    for column, options in enumerate(OPTIONS)
]


@pytest.mark.parametrize(("name", "options", "dtype"), SEARCHES)
def test_search_returns_what_generate_returns(name: str, options: str, dtype: torch.dtype) -> None:
    for seed in range(2):
        batch = padded(LEFT_PADDED, seed)
        if name in RNN_VARIANTS:  # a row is longer than the location score's table
            batch = dict(zip(batch, padded_batch(LENGTHS, "left", seed=seed), strict=True))
        assert_like_generate(tiny_model(name, seed=seed, std=1.0, dtype=dtype), **batch, **OPTIONS[options])


@pytest.mark.parametrize("options", ["beams-n-best", "beams-early", "beams-never", "several-ends"])
@pytest.mark.parametrize("vocab_size", [BLOCK * 20, BLOCK * 20 + 7])
def test_a_large_vocabulary_is_searched_in_blocks(vocab_size: int, options: str) -> None:
    model = tiny_model("luong-lstm-general-feeding", std=1.0, vocab_size=vocab_size)
    source = words(20, 6, vocab_size=vocab_size)  # more rows than are called few
    found = assert_like_generate(model, input_ids=source, return_dict_in_generate=True, **OPTIONS[options])
    assert len(set(found.flatten().tolist())) > 10  # they are not all one word


@pytest.mark.parametrize("width", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("vocabulary", [7, BLOCK * 8, BLOCK * 9 + 1])
def test_the_best_are_those_of_a_full_sort(vocabulary: int, width: float) -> None:
    log_probs, before = torch.randn(5, 4, vocabulary), width * torch.randn(5, 4)
    values, beam, token = _best(log_probs, before, 8)
    expected = (log_probs + before.unsqueeze(2)).flatten(1).sort(descending=True)
    torch.testing.assert_close(values, expected.values[:, :8], rtol=0, atol=0)
    assert torch.equal(beam * vocabulary + token, expected.indices[:, :8])


@pytest.mark.parametrize("beams", [1, 3])
def test_forbidden_words_are_not_among_the_best(beams: int) -> None:
    """With whole blocks of -inf, and with fewer allowed words than beams."""
    vocab_size = BLOCK * 20
    model = tiny_model("luong-lstm-dot", vocab_size=vocab_size)
    processors = LogitsProcessorList([PrefixConstrainedLogitsProcessor(lambda row, ids: [4, 7 + BLOCK, EOS], 1)])
    found = assert_like_generate(model, input_ids=words(3, 5), num_beams=beams, logits_processor=processors)
    assert set(found.flatten().tolist()) <= {0, BOS, EOS, 4, 7 + BLOCK}


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("name", FAST)
def test_scores_of_beams_come_with_them(name: str, beams: int) -> None:
    model, source = tiny_model(name, std=1.0), padded(LEFT_PADDED)
    options: dict[str, Any] = {"num_beams": beams, "num_return_sequences": beams, "return_dict_in_generate": True}
    assert_like_generate(model, **source, **options)
    expected = model.generate(**source, max_new_tokens=9, output_scores=True, **options)
    found = model.generate(**source, max_new_tokens=9, custom_generate=search, **options)
    if beams > 1:
        torch.testing.assert_close(found.sequences_scores, expected.sequences_scores)


FULL_PROMPT, PADDED_PROMPT = [[1] * 4] * 4, [[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1], [0, 1, 1, 1]]


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize(
    ("name", "mask"),
    [
        *product(["luong-lstm-general-predictive-feeding"], [None, FULL_PROMPT]),
        *product(SEQ2SEQ, [None, PADDED_PROMPT]),
    ],
)
def test_a_prompt_of_the_target_is_continued(name: str, mask: list[list[int]] | None, beams: int) -> None:
    prompt = torch.cat([torch.full((4, 1), BOS), words(4, 3, seed=1)], dim=1)
    options: dict[str, Any] = {"decoder_input_ids": prompt, "num_beams": beams, "min_new_tokens": 2}
    if mask is not None:
        options["decoder_attention_mask"] = torch.tensor(mask)
    assert_like_generate(tiny_model(name, std=1.0), **padded(LEFT_PADDED), **options)


@pytest.mark.parametrize("name", FAST)
def test_under_autocast(name: str) -> None:
    """Of words or beams that are equal up to rounding either may win: a row may differ, and scores are compared."""
    model, source = tiny_model(name, std=1.0, dtype=torch.float32), padded(LEFT_PADDED)
    options: dict[str, Any] = {"max_new_tokens": 5, "return_dict_in_generate": True}
    beams: dict[str, Any] = options | {"num_beams": 3, "num_return_sequences": 3}
    with torch.autocast("cpu", torch.bfloat16):
        expected, best = model.generate(**source, **options), model.generate(**source, **beams, output_scores=True)
        found, found_best = (model.generate(**source, **given, custom_generate=search) for given in (options, beams))
    same = sum(a == b for a, b in zip(found.sequences.tolist(), expected.sequences.tolist(), strict=True))
    assert same >= len(LEFT_PADDED) - 1
    torch.testing.assert_close(found_best.sequences_scores, best.sequences_scores, rtol=0, atol=0.03)


@pytest.mark.parametrize("beams", [1, 3])
def test_stopping_criteria_are_obeyed(beams: int) -> None:
    criteria = StoppingCriteriaList([MaxLengthCriteria(4)])
    model = tiny_model("luong-gru-concat")
    found = assert_like_generate(model, input_ids=words(2, 5), num_beams=beams, stopping_criteria=criteria)
    assert found.shape[1] <= 4


@pytest.mark.parametrize("name", ["luong-gru-concat", "encoder_decoder-post-sinusoidal"])
def test_labels_have_no_effect(name: str) -> None:
    """A ``Seq2SeqTrainer`` passes them to ``generate()``."""
    assert_like_generate(tiny_model(name), input_ids=words(2, 5), labels=words(2, 4), num_beams=3)


def test_the_output_layer_may_be_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """An output layer with a hook is called; its weight is not read."""
    model = tiny_model("luong-gru-concat")
    source = words(2, 5)
    before = model.generate(source, custom_generate=search, max_new_tokens=9)
    handle = model.lm_head.register_forward_hook(lambda layer, inputs, output: -output)
    assert assert_like_generate(model, input_ids=source).tolist() != before.tolist()
    handle.remove()


@pytest.mark.parametrize("name", [*RNN_VARIANTS, *GENERATING])
def test_bfloat16(name: str) -> None:
    """If two beams are equal up to rounding, either may win, so only the first new words are compared."""
    model = tiny_model(name, std=0.7 if name in RNN_VARIANTS else 1.0, dtype=torch.bfloat16)
    batch = padded(LEFT_PADDED)
    start = batch["input_ids"].shape[1] if name in CAUSAL else 1
    for beams in (1, 3):
        options: dict[str, Any] = {"num_beams": beams, "max_new_tokens": 4, "min_new_tokens": 4}
        expected, found = (model.generate(**batch, **options, **way) for way in ({}, {"custom_generate": search}))
        same = sum(a[:2] == b[:2] for a, b in zip(found[:, start:].tolist(), expected[:, start:].tolist(), strict=True))
        assert same >= len(found) - 1


@pytest.mark.parametrize("variant", RNN_VARIANTS)
def test_single_precision(variant: str) -> None:
    source, mask = padded_batch(LENGTHS)
    for beams in (1, 3):
        model = tiny_model(variant, dtype=torch.float32)
        assert_like_generate(model, input_ids=source, attention_mask=mask, num_beams=beams)


REFUSED: dict[str, dict[str, Any]] = {
    r"beam_sample \(num_beams=3, do_sample=True\); leave": {"do_sample": True, "num_beams": 3},
    "output_scores=True": {"output_scores": True, "return_dict_in_generate": True},
    "output_attentions": {"output_attentions": True, "return_dict_in_generate": True},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_has_not_is_refused(name: str) -> None:
    model = tiny_model("luong-gru-concat")
    with pytest.raises(ValueError, match=name):
        model.generate(words(2, 4), custom_generate=search, **REFUSED[name])


def test_a_place_that_nothing_took_keeps_its_prompt() -> None:
    options: dict[str, Any] = {"num_beams": 2, "num_return_sequences": 2, "max_new_tokens": 1}
    for end in ({"forced_eos_token_id": EOS}, {"eos_token_id": None}):
        assert_like_generate(tiny_model("luong-gru-concat"), input_ids=words(3, 5), **options, **end)


@pytest.mark.parametrize("end", [[EOS, 50], 50, -1])
@pytest.mark.parametrize("custom_generate", [None, search])
def test_ends_outside_the_vocabulary_are_refused(custom_generate: Any, end: Any) -> None:
    """No sequence would end there."""
    model = tiny_model("luong-gru-concat")
    with pytest.raises(ValueError, match="eos_token_id must be within the vocabulary, 0 to 12 for vocab_size=13"):
        model.generate(words(3, 5), custom_generate=custom_generate, eos_token_id=end, pad_token_id=PAD)


def test_nothing_but_the_last_word_is_allowed() -> None:
    """Forbidden words and the padding of the last block are all -inf; only words are chosen."""
    log_probs = torch.full((1, 3, BLOCK * 10 + 3), -torch.inf)
    log_probs[:, :, -1] = 0.0
    _, beam, token = _best(log_probs, torch.zeros(1, 3), 6)
    assert int(token.max()) < log_probs.shape[2]
    assert set(beam[0, :3].tolist()) == {0, 1, 2}
    assert token[0, :3].tolist() == [log_probs.shape[2] - 1] * 3


class Overwrite(LogitsProcessor):
    """Give every word the same logit."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        assert scores.view(-1).shape[0] == scores.numel()
        return torch.zeros_like(scores)


def test_processors_are_obeyed_in_their_order() -> None:
    processors = LogitsProcessorList([Overwrite(), MinLengthLogitsProcessor(5, EOS, device=factory.DEVICE)])
    assert_like_generate(tiny_model("luong-gru-concat"), input_ids=words(1, 4), logits_processor=processors)


@pytest.mark.parametrize("beams", [1, 3])
def test_a_processor_must_return_a_score_for_every_word(beams: int) -> None:
    class First(LogitsProcessor):
        def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
            return scores[:, :2]

    options: dict[str, Any] = {"num_beams": beams, "logits_processor": LogitsProcessorList([First()])}
    with refused(ValueError, "the logits processor First must return scores of shape", f", {VOCAB_SIZE})"):
        tiny_model("luong-gru-concat").generate(words(1, 4), custom_generate=search, max_new_tokens=4, **options)


def test_a_matrix_is_not_taken_for_another_output_layer() -> None:
    model = tiny_model("luong-gru-concat", std=1.0)
    layer = torch.nn.Linear(RNN_SIZES["readout_size"], VOCAB_SIZE, dtype=torch.float64, device=factory.DEVICE)
    torch.nn.init.normal_(layer.bias, std=5.0)
    model.set_output_embeddings(layer)
    source = words(3, 5)
    assert_like_generate(model, input_ids=source)
    labels = words(3, 4, seed=2)
    assert torch.equal(model(source, labels=labels, skip_logits=True).loss, model(source, labels=labels).loss)
    model.lm_head.forward = lambda values: -torch.nn.functional.linear(values, layer.weight)
    assert_like_generate(model, input_ids=source)


def test_what_forward_refuses_is_refused() -> None:
    model = tiny_model("luong-gru-concat")
    source = words(4, 7)
    prompt = torch.cat([torch.full((4, 1), BOS), words(4, 2)], dim=1)
    padded = torch.ones_like(prompt)
    padded[0, 0] = 0
    encoder_outputs = model.get_encoder()(source)
    wrong: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ValueError, "padding before a token", {"decoder_input_ids": prompt, "decoder_attention_mask": padded}),
        (
            ValueError,
            "attention_mask must be",
            {"attention_mask": torch.ones(4, 1), "encoder_outputs": encoder_outputs},
        ),
        (TypeError, "skip_logits", {"skip_logits": True}),
        (TypeError, "what get_encoder", {"encoder_outputs": BaseModelOutput(encoder_outputs.last_hidden_state)}),
    ]
    for error, message, options in wrong:
        with pytest.raises(error, match=message):
            model.generate(source, custom_generate=search, max_new_tokens=3, **options)
    with model.model.decoder.register_forward_hook(lambda *_: None), pytest.raises(ValueError, match="hooks"):
        model.generate(source, custom_generate=search)


@pytest.mark.parametrize(("variant", "beams"), [(name, 1 + 2 * (at % 2)) for at, name in enumerate(ATTENTION_VARIANTS)])
def test_hooks_inside_the_decoder_are_called(variant: str, beams: int) -> None:
    """One module at a time gets a hook that changes its output: the wiring itself, its layers, cells and attention.

    The decoder's embedding and dropout have a hook that reads the number of tokens.
    """
    model = tiny_model(variant, decoder_layers=2)
    options: dict[str, Any] = {"num_beams": beams, "max_new_tokens": 8, "suppress_tokens": [EOS]}
    source, wiring = words(3, 5), model.model.decoder.wiring

    def halved(module: nn.Module, inputs: Any, output: Any) -> Any:
        if isinstance(output, Tensor):
            return output / 2
        kind = type(output)
        parts = [part / 2 if isinstance(part, Tensor) and part.is_floating_point() else part for part in output]
        return kind(*parts) if hasattr(output, "_fields") else kind(parts)

    names = {name for name, _ in wiring.named_modules()} - {"rnn", "rnn.layers", "bridge"}
    for name in sorted(names):
        with wiring.get_submodule(name).register_forward_hook(halved):
            found = model.generate(source, custom_generate=search, **options)
            assert torch.equal(found, model.generate(source, **options)), name
    for module in (model.model.decoder.embed_tokens, model.model.decoder.dropout):
        with module.register_forward_hook(
            lambda _, inputs, output: output * torch.arange(1, output.shape[1] + 1)[:, None]
        ):
            found = model.generate(source, custom_generate=search, **options)
            assert torch.equal(found, model.generate(source, **options))


@pytest.mark.parametrize("beams", [1, 3])
def test_input_feeding_with_coverage(beams: int) -> None:
    model = tiny_model("luong-lstm-concat-copy-coverage", input_feeding=True)
    options: dict[str, Any] = {"num_beams": beams, "max_new_tokens": 8, "suppress_tokens": [EOS]}
    source = words(3, 5)
    found = model.generate(source, custom_generate=search, **options)
    assert torch.equal(found, model.generate(source, **options))


@pytest.mark.parametrize("variant", ["luong-lstm-general-feeding", "bahdanau-lstm-additive-2-layers"])
def test_states_keep_their_precision_under_autocast(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for the states of a loop over many tokens, and for those in the cache of ``generate()``."""
    model, made = tiny_model(variant).float(), []
    make = recurrent_steps.RecurrentSearchDecoder.__init__
    monkeypatch.setattr(
        recurrent_steps.RecurrentSearchDecoder,
        "__init__",
        lambda steps, *given: made.append(steps) or make(steps, *given),
    )
    with torch.autocast("cpu", torch.bfloat16):
        model.generate(words(3, 5), custom_generate=search, max_new_tokens=4)
    assert {part.dtype for parts in made[0].state.layers for part in parts} == {torch.float32}


def test_other_models_are_refused() -> None:
    sizes = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "vocab_size": 20}
    model = BartForConditionalGeneration(BartConfig(**sizes, **heads)).to(factory.DEVICE)
    source: Tensor = words(2, 4)
    with pytest.raises(ValueError, match="got BartForConditionalGeneration"):
        model.generate(source, custom_generate=search)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("variant", GENERATING)
def test_every_step_is_the_decoders(variant: str, beams: int) -> None:
    """All rows run for many steps, to different words."""
    options: dict[str, Any] = {"num_beams": beams, "max_new_tokens": 12, "suppress_tokens": [EOS]}
    options |= {"no_repeat_ngram_size": 2, "num_return_sequences": beams}
    for dtype in (torch.float32, torch.float64):
        found = assert_like_generate(tiny_model(variant, std=1.0, dtype=dtype), **padded(LEFT_PADDED), **options)
        new = found[:, -12:].tolist()
        assert all(len(set(row)) > 3 for row in new)
        assert len(set(map(tuple, new))) > 1


@pytest.mark.parametrize("variant", GENERATING)
def test_sequences_outgrow_their_room_twice(variant: str) -> None:
    model = tiny_model(variant, max_position_embeddings=128)
    options: dict[str, Any] = {"num_beams": 3, "max_new_tokens": 100, "min_new_tokens": 100}
    found = assert_like_generate(model, **padded(LEFT_PADDED), **options)
    assert found.shape[1] >= 100


# What decides which keys are seen: the way of search, and where sequences end.
OF_KEYS = ["greedy", "sampling", "beams-n-best", "beams-early", "beams-never", "several-ends", "no-end"]


@pytest.mark.parametrize("options", OF_KEYS)
@pytest.mark.parametrize("variant", GENERATING)
def test_keys_that_no_beam_sees_may_be_dropped_at_every_step(
    variant: str, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer_steps, "ROOM", 1)
    assert_like_generate(tiny_model(variant, std=1.0), **padded(LEFT_PADDED), **OPTIONS[options])


def test_keys_grow_with_the_length_and_not_with_the_beams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without dropping there would be 12 keys for every token."""
    monkeypatch.setattr(transformer_steps, "ROOM", 1)
    made: list[tuple[int, int]] = []  # keys that are seen, and all keys, where room was made

    class Recorded(TransformerSearchDecoder):
        def _make_room(self, number: int) -> None:
            super()._make_room(number)
            assert self.mask is not None
            made.append((int(self.mask.any(dim=2).sum(dim=2).max()), self.length))

    monkeypatch.setitem(token_search.DECODERS, "small_transformer", Recorded)
    model = tiny_model(CAUSAL[0], std=1.0, max_position_embeddings=64)
    options: dict[str, Any] = {"num_beams": 12, "max_new_tokens": 60, "min_new_tokens": 60, "custom_generate": search}
    model.generate(words(2, 4), **options)
    assert len(made) == 59
    assert all(seen == kept for seen, kept in made)
    assert made[-1][1] < 4 * 60


@pytest.mark.parametrize("variant", GENERATING)
def test_processors_that_look_at_every_beam(variant: str) -> None:
    """Such processors get all rows from the first step on."""
    processors = LogitsProcessorList([Overwrite()])
    assert_like_generate(tiny_model(variant), **padded(LEFT_PADDED), num_beams=3, logits_processor=processors)


@pytest.mark.parametrize("variant", ["luong-lstm-general-feeding", SEQ2SEQ[0]])
def test_an_additive_mask_is_the_mask_that_it_means(variant: str) -> None:
    model, batch = tiny_model(variant, std=1.0), padded([[1, 1, 1, 1, 0, 0], [1] * 6, [1, 0, 0, 0, 0, 0]])
    additive = torch.zeros(3, 6, dtype=torch.float64).masked_fill(batch["attention_mask"] == 0, -1e9)
    for beams in (1, 3):
        options: dict[str, Any] = {"num_beams": beams, "max_new_tokens": 6, "custom_generate": search}
        expected = model.generate(**batch, **options)
        assert torch.equal(model.generate(batch["input_ids"], attention_mask=additive, **options), expected)


def test_a_source_of_padding_alone() -> None:
    batch = padded([[1, 1, 1], [0, 0, 0]])
    for beams in (1, 3):
        assert_like_generate(tiny_model(SEQ2SEQ[0], std=1.0), **batch, num_beams=beams, min_new_tokens=6)
