"""Recurrent decoding: its cache, the input feed, alignments of generated sequences."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Cache, DynamicCache, EncoderDecoderCache, LlamaConfig, StaticCache, TextStreamer

from attnzoo import AttentionalRNNForConditionalGeneration
from attnzoo.alignment import generation_alignments
from attnzoo.recurrent_cache import RecurrentDecoderCache
from attnzoo.recurrent_cells import CELLS
from tests.factory import (
    ATTENTION_VARIANTS,
    BOS,
    EOS,
    FED_VARIANTS,
    RNN_VARIANTS,
    alignments_of,
    padded_batch,
    tiny_model,
    words,
)

MODES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "beam": {"num_beams": 4},
    "sampling": {"do_sample": True},
    "beam-sampling": {"do_sample": True, "num_beams": 3},
}
LENGTHS = [5, 3, 1, 7]  # 7 is more than max_source_positions, 1 less than any window


def generate(model: AttentionalRNNForConditionalGeneration, source: Tensor, mask: Tensor | None = None, **options: Any):
    torch.manual_seed(11)
    return model.generate(source, attention_mask=mask, **({"max_new_tokens": 8} | options))


def until_eos(row: Tensor) -> list[int]:
    """The generated tokens up to and including the end token; after it there is padding."""
    tokens = row.tolist()[1:]
    return tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens


def decode_in_chunks(
    model: AttentionalRNNForConditionalGeneration, source: Tensor, mask: Tensor, target: Tensor, sizes: list[int]
) -> tuple[Tensor, Tensor, RecurrentDecoderCache]:
    """Logits and alignments (B, T, S) of the whole target, read through the cache a few tokens at a time."""
    encoder_outputs = model.get_encoder()(source, attention_mask=mask)
    cache, logits, alignments = None, [], []
    for chunk in target.split(sizes, dim=1):
        outputs = model(
            encoder_outputs=encoder_outputs,
            attention_mask=mask,
            decoder_input_ids=chunk,
            past_key_values=cache,
            use_cache=True,
            output_attentions=True,
        )
        cache = outputs.past_key_values
        logits.append(outputs.logits)
        alignments.append(alignments_of(outputs))
    return torch.cat(logits, dim=1), torch.cat(alignments, dim=1), cache


pytestmark = pytest.mark.usefixtures("no_gradients")


# The cache ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", FED_VARIANTS)
def test_what_is_fed_to_the_next_step_needs_its_place_in_the_cache(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Luong's attentional vector, which is 0 in the first step, and Cho's c, which is made for the first step."""
    model = tiny_model(variant, std=1.0)
    source, mask = padded_batch([5, 3, 4, 6, 2, 6, 5, 7], "left")
    target = words(len(source), 4, seed=1)
    correct_ids = generate(model, source, mask, use_cache=False)
    correct_logits = model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
    store = RecurrentDecoderCache.store

    def store_and_forget(cache: RecurrentDecoderCache, *args: Any, **kwargs: Any) -> None:
        store(cache, *args, **kwargs)
        layer: Any = cache.layers[0]
        layer.state = layer.state._replace(input_feed=torch.zeros_like(layer.state.input_feed))

    monkeypatch.setattr(RecurrentDecoderCache, "store", store_and_forget)
    logits, _, _ = decode_in_chunks(model, source, mask, target, [1] * 4)
    torch.testing.assert_close(logits[:, 0], correct_logits[:, 0])  # nothing is taken from the cache yet
    assert (logits[:, 1] - correct_logits[:, 1]).abs().amax(dim=-1).min() > 1e-3
    assert generate(model, source, mask, use_cache=True).tolist() != correct_ids.tolist()


@pytest.mark.parametrize("variant", RNN_VARIANTS)
def test_cache_rows_can_be_selected_and_repeated(variant: str) -> None:
    model = tiny_model(variant)
    source, mask = padded_batch(LENGTHS, "left")
    target = words(len(LENGTHS), 6, seed=1)
    for rows in (torch.tensor([2, 0]), torch.arange(len(LENGTHS)).repeat_interleave(3)):
        _, _, cache = decode_in_chunks(model, source, mask, target[:, :4], [4])
        if len(rows) == 2:
            cache.batch_select_indices(rows)
        else:
            cache.batch_repeat_interleave(3)
        inputs = {"input_ids": source[rows], "attention_mask": mask[rows]}
        whole = model(**inputs, decoder_input_ids=target[rows]).logits
        continued = model(**inputs, decoder_input_ids=target[rows, 4:], past_key_values=cache).logits
        torch.testing.assert_close(continued, whole[:, 4:], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("variant", RNN_VARIANTS)
def test_a_reset_cache_is_like_a_new_one(variant: str) -> None:
    model = tiny_model(variant)
    target = words(2, 4, seed=1)
    _, _, cache = decode_in_chunks(model, words(2, 5), torch.ones(2, 5), target, [4])
    cache.reset()
    assert cache.get_seq_length() == 0
    inputs = {"input_ids": words(2, 3, seed=2), "decoder_input_ids": target}
    torch.testing.assert_close(model(**inputs, past_key_values=cache).logits, model(**inputs).logits, rtol=0, atol=0)
    assert cache.get_seq_length() == 4


# Alignments -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variant", ATTENTION_VARIANTS)
def test_alignments_of_generated_sequences_equal_teacher_forcing(variant: str, mode: str) -> None:
    model = tiny_model(variant, std=1.0)
    source, mask = padded_batch(LENGTHS, "left")
    copies = 1 if mode == "greedy" else 3
    options = MODES[mode] | {"num_return_sequences": copies}
    result = generate(model, source, mask, output_attentions=True, return_dict_in_generate=True, **options)
    rows = torch.arange(len(source)).repeat_interleave(copies)
    whole = model(
        input_ids=source[rows],
        attention_mask=mask[rows],
        decoder_input_ids=result.sequences[:, :-1],
        output_attentions=True,
    )
    expected = whole.cross_attentions[0][:, 0]  # (rows, T, S)
    alignments = generation_alignments(result)
    assert alignments.shape == expected.shape
    for row, sequence in enumerate(result.sequences):
        length = len(until_eos(sequence))  # rows past the end mean nothing
        torch.testing.assert_close(alignments[row, :length], expected[row, :length], rtol=1e-10, atol=1e-12)


def test_alignments_of_a_beam_search_must_follow_the_beams() -> None:
    """Without beam_indices the rows are those of other beams."""
    model = tiny_model("luong-lstm-general-feeding", std=1.0)
    result = generate(model, words(4, 6), num_beams=4, output_attentions=True, return_dict_in_generate=True)
    alignments = generation_alignments(result)
    first_beams = torch.stack([step[0][::4, 0, 0] for step in result.cross_attentions], dim=1)
    assert (alignments - first_beams[:, : alignments.shape[1]]).abs().max() > 1e-3


@pytest.mark.parametrize("mode", ["greedy", "beam"])
def test_alignments_after_a_prompt_begin_with_the_first_new_token(mode: str) -> None:
    model = tiny_model("luong-lstm-general-feeding", std=1.0)
    source = words(3, 6)
    # generate() puts the start token before a prompt that lacks it.
    prompt = torch.cat([torch.full((3, 1), BOS), words(3, 3, seed=1)], dim=1)
    result = generate(
        model,
        source,
        decoder_input_ids=prompt,
        suppress_tokens=[EOS],
        output_attentions=True,
        return_dict_in_generate=True,
        **MODES[mode],
    )
    start = prompt.shape[1] - 1  # the last token of the prompt chooses the first new one
    whole = model(input_ids=source, decoder_input_ids=result.sequences[:, :-1], output_attentions=True)
    expected = whole.cross_attentions[0][:, 0, start:]
    torch.testing.assert_close(generation_alignments(result), expected, rtol=1e-10, atol=1e-12)


def test_alignments_that_were_not_recorded_are_refused() -> None:
    model = tiny_model("luong-lstm-dot")
    with pytest.raises(ValueError, match="output_attentions=True"):
        generation_alignments(generate(model, words(2, 3), return_dict_in_generate=True))
    with pytest.raises(ValueError, match="return_dict_in_generate=True"):
        generation_alignments(generate(model, words(2, 3)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("variant", [variant for variant in RNN_VARIANTS if variant not in ATTENTION_VARIANTS])
def test_a_model_without_attention_generates_without_alignments(variant: str, mode: str) -> None:
    options = {"output_attentions": True, "return_dict_in_generate": True, **MODES[mode]}
    result = generate(tiny_model(variant), words(2, 3), **options)
    assert set(result.cross_attentions) == {None}
    with pytest.raises(ValueError, match="without attention"):
        generation_alignments(result)


# What else generate() promises ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"assistant_model": "itself"}, "assisted generation is not supported with stateful models"),
        ({"prompt_lookup_num_tokens": 2}, "assisted generation is not supported with stateful models"),
        ({"num_beams": 2, "streamer": TextStreamer(None)}, "`streamer` cannot be used with beam search"),
        ({"token_type_ids": torch.zeros(1, 4)}, r"not used by the model: \['token_type_ids'\]"),
    ],
    ids=["assistant", "prompt lookup", "streamer", "unknown argument"],
)
def test_options_that_the_model_cannot_follow_are_refused(options: dict[str, Any], message: str) -> None:
    model = tiny_model("luong-lstm-dot")
    options = {name: model if value == "itself" else value for name, value in options.items()}
    with pytest.raises(ValueError, match=message):
        generate(model, words(1, 4), **options)


def test_a_target_in_two_pieces_has_the_gradient_of_the_whole() -> None:
    """The cache keeps the graph of autograd."""
    source, mask = padded_batch(LENGTHS, "left")
    for variant in RNN_VARIANTS:
        gradients = []
        for pieces in ([4], [1, 3]):
            model, cache, loss = tiny_model(variant), RecurrentDecoderCache(), torch.zeros(()).double()
            with torch.enable_grad():
                for piece in words(len(LENGTHS), 4, seed=1).split(pieces, dim=1):
                    given = {"attention_mask": mask, "decoder_input_ids": piece, "past_key_values": cache}
                    loss = loss + model(source, **given).logits.square().sum()
                loss.backward()
            gradients.append([parameter.grad for parameter in model.parameters()])
        for whole, in_pieces in zip(*gradients, strict=True):
            torch.testing.assert_close(in_pieces, whole, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("implementation", ["static", "dynamic", "quantized"])
def test_another_cache_implementation_is_not_used_and_a_warning_says_so(
    implementation: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, source = tiny_model("luong-lstm-dot"), words(2, 4)
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    caplog.set_level("WARNING", "transformers")
    logging.Logger.warning_once.cache_clear()  # another test may have heard it
    result = generate(model, source, cache_implementation=implementation, return_dict_in_generate=True)
    assert f"`cache_implementation` (set to {implementation}) will be ignored" in caplog.text
    assert isinstance(result.past_key_values, RecurrentDecoderCache)
    # Transformers' hook that keeps another cache away is private: this line fails first if it goes.
    assert AttentionalRNNForConditionalGeneration._supports_default_dynamic_cache() is False
    assert torch.equal(result.sequences, generate(model, source))


KEYS_AND_VALUES = LlamaConfig(hidden_size=8, num_attention_heads=2, num_hidden_layers=1)


@pytest.mark.parametrize(
    "cache",
    [
        DynamicCache(),
        StaticCache(KEYS_AND_VALUES, max_cache_len=9),
        EncoderDecoderCache(DynamicCache(), DynamicCache()),
    ],
    ids=lambda cache: type(cache).__name__,
)
@pytest.mark.parametrize("mode", ["greedy", "beam"])
@pytest.mark.parametrize("variant", ["luong-lstm-dot", "sutskever-lstm-2-layers-reversed"])
def test_a_cache_of_keys_and_values_is_refused_in_words(variant: str, mode: str, cache: Cache) -> None:
    with pytest.raises(TypeError, match=f"RecurrentDecoderCache, got {type(cache).__name__}: .* not keys and values"):
        generate(tiny_model(variant), words(2, 4), past_key_values=cache, **MODES[mode])


def test_greedy_generation_streams_token_by_token() -> None:
    pieces: list[list[int]] = []
    streamer = SimpleNamespace(put=lambda ids: pieces.append(ids.flatten().tolist()), end=lambda: pieces.append([]))
    ids = generate(tiny_model("luong-lstm-general-feeding"), words(1, 4), streamer=streamer)
    assert pieces == [[token] for token in ids[0].tolist()] + [[]]


def test_a_prompt_is_read_as_it_is_in_training_mode_too() -> None:
    """teacher_forcing_ratio applies to training steps, not to generation in training mode."""
    model = tiny_model("luong-lstm-general-feeding", std=1.0, teacher_forcing_ratio=0.0)
    source = words(3, 6)
    prompt = torch.cat([torch.full((3, 1), BOS), words(3, 3, seed=1)], dim=1)
    for use_cache in (True, False):
        expected = generate(model.eval(), source, decoder_input_ids=prompt, use_cache=use_cache)
        assert torch.equal(generate(model.train(), source, decoder_input_ids=prompt, use_cache=use_cache), expected)


@pytest.mark.parametrize("variant", ["cho-cho_gru-forward", "sutskever-lstm-2-layers-reversed", "luong-lstm-dot"])
@pytest.mark.parametrize("cell", list(CELLS))
def test_a_token_at_a_time_under_autocast(variant: str, cell: str) -> None:
    """The encoder's states are then in half precision, and the embeddings are not."""
    model = tiny_model(variant, cell=cell).float()
    source, target = words(2, 4), words(2, 3, seed=1)
    with torch.autocast("cpu", torch.bfloat16):
        encoder_outputs, cache, logits = model.get_encoder()(source), None, []
        for token in target.split(1, dim=1):
            outputs = model(encoder_outputs=encoder_outputs, decoder_input_ids=token, past_key_values=cache)
            cache = outputs.past_key_values
            logits.append(outputs.logits)
    whole = model(input_ids=source, decoder_input_ids=target).logits
    torch.testing.assert_close(torch.cat(logits, dim=1).float(), whole, atol=0.1, rtol=0.1)
