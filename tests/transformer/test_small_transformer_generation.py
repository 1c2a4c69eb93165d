"""Decoding step by step: the caches, every mode of generate(), beam search against all sequences."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

from tests.transformer.tiny_transformers import BOS, EOS, GENERATING, VOCAB_SIZE, padded, tiny_model, words

MODES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sample": {"do_sample": True, "num_return_sequences": 3},
    "beam": {"num_beams": 4, "num_return_sequences": 3},
    "beam-sample": {"num_beams": 4, "do_sample": True, "num_return_sequences": 3},
}
EXACT = {"rtol": 1e-10, "atol": 1e-12}
LEFT = [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 0, 1], [0, 1, 1, 1, 1]]

every_variant = pytest.mark.parametrize("variant", GENERATING)
every_mode = pytest.mark.parametrize("mode", MODES)


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def generate(model: Any, batch: dict[str, Tensor], **options: Any) -> Any:
    torch.manual_seed(11)
    return model.generate(**batch, **({"max_new_tokens": 7} | options))


def new_tokens(model: Any, batch: dict[str, Tensor], row: Tensor) -> list[int]:
    """What was generated after the start token or the prompt, up to and including the end token."""
    tokens = row.tolist()[1 if model.config.is_encoder_decoder else batch["input_ids"].shape[1] :]
    return tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens


def unpadded(batch: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """The rows of a padded batch as batches of one without padding and without a mask."""
    rows = zip(batch["input_ids"], batch["attention_mask"].bool(), strict=True)
    return [{"input_ids": ids[is_real].unsqueeze(0)} for ids, is_real in rows]


def step_by_step(model: Any, batch: dict[str, Tensor], text: Tensor, sizes: list[int]) -> Tensor:
    """The logits of ``text`` (B, T), read through a cache a few tokens at a time.

    Of an encoder-decoder it is the target; of a causal model it follows the padded prompt of the batch.
    """
    cache, logits, mask = None, [], batch["attention_mask"]
    if not model.config.is_encoder_decoder:
        outputs = model(**batch, use_cache=True)
        cache, logits = outputs.past_key_values, [outputs.logits]
    for chunk in text.split(sizes, dim=1):
        if model.config.is_encoder_decoder:
            outputs = model(**batch, decoder_input_ids=chunk, past_key_values=cache, use_cache=True)
        else:
            mask = torch.cat([mask, torch.ones_like(chunk)], dim=1)
            outputs = model(chunk, mask, past_key_values=cache, use_cache=True)
        cache = outputs.past_key_values
        logits.append(outputs.logits)
    return torch.cat(logits, dim=1)


def at_once(model: Any, batch: dict[str, Tensor], text: Tensor) -> Tensor:
    if model.config.is_encoder_decoder:
        return model(**batch, decoder_input_ids=text, use_cache=False).logits
    mask = torch.cat([batch["attention_mask"], torch.ones_like(text)], dim=1)
    return model(torch.cat([batch["input_ids"], text], dim=1), mask, use_cache=False).logits


def is_real(model: Any, batch: dict[str, Tensor], text: Tensor) -> Tensor:
    if model.config.is_encoder_decoder:
        return torch.ones_like(text).bool()
    return torch.cat([batch["attention_mask"], torch.ones_like(text)], dim=1).bool()


# The cache ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("sizes", [[1] * 6, [3, 1, 2]], ids=str)
@every_variant
def test_cached_steps_equal_teacher_forcing(variant: str, sizes: list[int], attention: str) -> None:
    """With left padding: the first step's places among the padding are not its positions."""
    model, batch = tiny_model(variant, attention=attention), padded(LEFT)
    text = words(len(LEFT), sum(sizes), seed=1)
    real = is_real(model, batch, text)
    torch.testing.assert_close(
        step_by_step(model, batch, text, sizes)[real], at_once(model, batch, text)[real], **EXACT
    )


@every_variant
def test_the_source_is_read_and_projected_once(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = tiny_model(variant), padded(LEFT)
    calls = []
    for name, module in model.named_modules():
        if name.endswith(("cross_attention.key_proj", "encoder.layers.0")):
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    generate(model, batch, suppress_tokens=[EOS])
    assert len(calls) == (3 if model.config.is_encoder_decoder else 0)  # the encoder, two layers' keys


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("variant", [name for name in GENERATING if name.startswith("encoder")])
def test_targets_of_one_source_share_it(variant: str, attention: str) -> None:
    """Three targets to each source, one after the other, as if the source were there three times."""
    model, batch = tiny_model(variant, attention=attention), padded(LEFT)
    target = words(3 * len(LEFT), 4, seed=1)
    repeated = {name: tensor.repeat_interleave(3, dim=0) for name, tensor in batch.items()}
    options = {"decoder_input_ids": target, "output_attentions": True}
    shared, alone = model(**batch, **options), model(**repeated, **options)
    torch.testing.assert_close(shared.logits, alone.logits, **EXACT)
    for one, other in zip(shared.cross_attentions, alone.cross_attentions, strict=True):
        torch.testing.assert_close(one, other, **EXACT)


@every_mode
@every_variant
def test_generate_gives_the_same_with_any_cache_and_with_none(variant: str, mode: str) -> None:
    model, batch = tiny_model(variant, std=1.0), padded(LEFT)
    expected = generate(model, batch, use_cache=False, **MODES[mode])
    for cache in ("dynamic", "static"):
        assert torch.equal(generate(model, batch, cache_implementation=cache, **MODES[mode]), expected)


@every_variant
def test_beam_search_needs_the_cache_reordered(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = tiny_model(variant, std=0.3, seed=1), padded(LEFT)
    options = {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 9}
    correct = generate(model, batch, use_cache=False, **options)
    assert torch.equal(generate(model, batch, **options), correct)
    monkeypatch.setattr(DynamicCache, "reorder_cache", lambda self, beam_idx: None)
    assert generate(model, batch, **options).tolist() != correct.tolist()


@every_variant
def test_generation_continues_from_a_returned_cache(variant: str) -> None:
    model, batch = tiny_model(variant), padded([[1] * 5] * 2)
    endless = {"suppress_tokens": [EOS]}
    whole = generate(model, batch, max_new_tokens=8, **endless)
    first = generate(model, batch, max_new_tokens=3, return_dict_in_generate=True, **endless)
    read = {"decoder_input_ids": first.sequences, "decoder_attention_mask": torch.ones_like(first.sequences)}
    if not model.config.is_encoder_decoder:
        batch = {"input_ids": first.sequences, "attention_mask": torch.ones_like(first.sequences)}
        read = {}
    second = generate(model, batch, past_key_values=first.past_key_values, max_new_tokens=5, **read, **endless)
    assert torch.equal(second, whole)


@every_variant
def test_a_cache_of_fixed_size_with_room_to_spare(variant: str) -> None:
    model, batch = tiny_model(variant), padded(LEFT)
    text = words(len(LEFT), 3, seed=1)
    if model.config.is_encoder_decoder:
        cache: Any = EncoderDecoderCache(*(StaticCache(model.config, max_cache_len=20) for _ in range(2)))
        cache.cross_attention_cache = DynamicCache(config=model.config)
        logits = [model(**batch, decoder_input_ids=step, past_key_values=cache).logits for step in text.split(1, dim=1)]
        torch.testing.assert_close(torch.cat(logits, dim=1), at_once(model, batch, text), **EXACT)
    else:
        cache = StaticCache(model.config, max_cache_len=20)
        torch.testing.assert_close(model(**batch, past_key_values=cache).logits, model(**batch).logits, **EXACT)


@every_variant
def test_assisted_generation_is_greedy_generation(variant: str) -> None:
    """The cache can be rolled back."""
    model, assistant = tiny_model(variant, std=1.0), tiny_model(variant, std=1.0, seed=5)
    batch = {"input_ids": words(1, 5)}
    expected = generate(model, batch)
    assert torch.equal(generate(model, batch, assistant_model=assistant), expected)
    assert torch.equal(generate(model, batch, prompt_lookup_num_tokens=2), expected)


# Batches and padding --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["greedy", "beam"])
@every_variant
def test_a_padded_batch_generates_what_its_rows_generate_alone(variant: str, mode: str) -> None:
    model, batch = tiny_model(variant, std=1.0), padded(LEFT)
    options = MODES[mode] | {"num_return_sequences": 1}
    together = generate(model, batch, **options)
    for row, alone in zip(together, unpadded(batch), strict=True):
        assert new_tokens(model, batch, row) == new_tokens(model, alone, generate(model, alone, **options)[0])


@every_variant
def test_embeddings_instead_of_tokens_generate_the_same(variant: str) -> None:
    model, batch = tiny_model(variant, std=1.0), padded(LEFT)
    embedded = {"inputs_embeds": model.get_input_embeddings()(batch["input_ids"])}
    for options in (MODES["greedy"], MODES["beam"]):
        expected = generate(model, batch, **options)
        result = generate(model, embedded | {"attention_mask": batch["attention_mask"]}, **options)
        new = expected if model.config.is_encoder_decoder else expected[:, batch["input_ids"].shape[1] :]
        assert torch.equal(result, new)


@every_variant
def test_only_the_logits_of_the_last_token_are_made_when_no_others_are_read(variant: str) -> None:
    model, batch = tiny_model(variant), padded(LEFT)
    lengths = []
    model.lm_head.register_forward_hook(lambda _, args, __: lengths.append(args[0].shape[1]))
    generate(model, batch, suppress_tokens=[EOS])
    assert lengths == [1] * 7


# Beam search against all sequences ------------------------------------------------------------------------------------


def log_probability(model: Any, batch: dict[str, Tensor], sequences: Tensor) -> Tensor:
    """(rows,) of the new tokens of each sequence, up to and including its end token, by teacher forcing."""
    if model.config.is_encoder_decoder:
        logits, start = model(**batch, decoder_input_ids=sequences[:, :-1]).logits, 1
    else:
        logits, start = model(sequences[:, :-1]).logits, batch["input_ids"].shape[1]
    new = sequences[:, start:]
    chosen = logits[:, start - 1 :].log_softmax(dim=-1).gather(-1, new.unsqueeze(-1)).squeeze(-1)
    is_end = (new == EOS).long()
    return (chosen * (is_end.cumsum(dim=1) - is_end == 0)).sum(dim=1)


@every_variant
def test_beam_search_equals_brute_force_on_a_tiny_vocabulary(variant: str) -> None:
    length, vocab_size, num_best = 4, 5, 6
    bests, greedies = [], []
    for seed in (3, 4, 5):
        model = tiny_model(variant, std=0.3, seed=seed, vocab_size=vocab_size)
        source = words(1, 4, seed=seed, vocab_size=vocab_size)
        new = torch.tensor(list(itertools.product(range(vocab_size), repeat=length)))
        batch = {"input_ids": source.expand(len(new), -1)}
        start = torch.full((len(new), 1), BOS) if model.config.is_encoder_decoder else batch["input_ids"]
        scores = log_probability(model, batch, torch.cat([start, new], dim=1)).tolist()
        # Sequences that differ after their end only are one.
        by_tokens = {
            tuple(row[: row.index(EOS) + 1] if EOS in row else row): score
            for row, score in zip(new.tolist(), scores, strict=True)
        }
        ranking = sorted(((score, tokens) for tokens, score in by_tokens.items()), reverse=True)[:num_best]
        result = generate(
            model,
            {"input_ids": source},
            max_new_tokens=length,
            num_beams=128,  # more than there are prefixes: nothing is ever dropped, and beam search is exact
            num_return_sequences=num_best,
            length_penalty=0.0,
            return_dict_in_generate=True,
            output_scores=True,
        )
        found = [tuple(new_tokens(model, {"input_ids": source}, row)) for row in result.sequences]
        assert found == [tokens for _, tokens in ranking]
        expected = torch.tensor([score for score, _ in ranking])
        torch.testing.assert_close(result.sequences_scores, expected, rtol=1e-5, atol=1e-5)
        bests.append(found[0])
        greedy = generate(model, {"input_ids": source}, max_new_tokens=length)[0]
        greedies.append(tuple(new_tokens(model, {"input_ids": source}, greedy)))
    assert bests != greedies  # else the test would hold for a beam search that is none


# What comes with the tokens -------------------------------------------------------------------------------------------


@every_mode
@every_variant
def test_generate_returns_all_that_it_is_asked_for(variant: str, mode: str) -> None:
    model, batch, steps = tiny_model(variant), padded(LEFT), 4
    config, length = model.config, len(LEFT[0])
    asked = ["output_scores", "output_logits", "output_hidden_states", "output_attentions", "return_dict_in_generate"]
    options = {"max_new_tokens": steps, "suppress_tokens": [EOS], **MODES[mode]}
    result = generate(model, batch, **dict.fromkeys(asked, True), **options)
    returned = len(LEFT) * MODES[mode].get("num_return_sequences", 1)
    rows = len(LEFT) * MODES[mode]["num_beams"] if "beam" in mode else returned
    heads, width = config.num_attention_heads, config.hidden_size
    assert [tuple(step.shape) for step in result.scores] == [(rows, VOCAB_SIZE)] * steps
    states = result.decoder_hidden_states if config.is_encoder_decoder else result.hidden_states
    weights = result.decoder_attentions if config.is_encoder_decoder else result.attentions
    for step in range(steps):
        before = step + 1 if config.is_encoder_decoder else length + step
        queries = 1 if config.is_encoder_decoder or step else length
        assert [tuple(layer.shape) for layer in states[step]] == [(rows, queries, width)] * 3
        assert [tuple(layer.shape) for layer in weights[step]] == [(rows, heads, queries, before)] * 2
        if config.is_encoder_decoder:
            cross = result.cross_attentions[step]
            assert [tuple(layer.shape) for layer in cross] == [(rows, heads, 1, length)] * 2
            assert all((layer[:, :, 0][batch_mask(batch, rows)] == 0).all() for layer in cross)
    if config.is_encoder_decoder:
        assert [tuple(s.shape) for s in result.encoder_hidden_states] == [(len(LEFT), length, width)] * 3
        assert [tuple(a.shape) for a in result.encoder_attentions] == [(len(LEFT), heads, length, length)] * 2
    assert torch.equal(result.sequences, generate(model, batch, **options))


def batch_mask(batch: dict[str, Tensor], rows: int) -> Tensor:
    """(rows, H, S): where a source is padding, for every beam and both heads."""
    padding = batch["attention_mask"].repeat_interleave(rows // len(LEFT), dim=0) == 0
    return padding.unsqueeze(1).expand(-1, 2, -1)
