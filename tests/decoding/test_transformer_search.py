"""``search()`` with the small Transformer: the sequences that Transformers' own loops return."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AttentionInterface, LogitsProcessorList

from attnzoo import search
from attnzoo.decoding import token_search, transformer_steps
from attnzoo.decoding.transformer_steps import TransformerSteps
from tests.decoding.test_decoding import OPTIONS, Overwrite, both
from tests.factory import BOS, CAUSAL, EOS, GENERATING, SEQ2SEQ, padded, tiny_model, words

LEFT_PADDED = [[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 1, 1]]


pytestmark = pytest.mark.usefixtures("no_gradients")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("variant", GENERATING)
def test_search_returns_what_generate_returns(variant: str, options: str, dtype: torch.dtype) -> None:
    """In float32 the products are oneDNN's."""
    for seed in range(2):
        model = tiny_model(variant, seed=seed, std=1.0, dtype=dtype)
        expected, found = both(model, **padded(LEFT_PADDED, seed), **OPTIONS[options])
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("variant", GENERATING)
def test_every_step_is_the_decoders(variant: str, beams: int) -> None:
    """Where all rows run on for many steps, to different words."""
    options: dict[str, Any] = {"num_beams": beams, "max_new_tokens": 12, "suppress_tokens": [EOS]}
    options |= {"no_repeat_ngram_size": 2, "num_return_sequences": beams}
    for dtype in (torch.float32, torch.float64):
        expected, found = both(tiny_model(variant, std=1.0, dtype=dtype), **padded(LEFT_PADDED), **options)
        assert found.tolist() == expected.tolist()
        new = expected[:, -12:].tolist()
        assert all(len(set(row)) > 3 for row in new)
        assert len(set(map(tuple, new))) > 1


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("variant", GENERATING)
def test_under_autocast(variant: str, beams: int) -> None:
    model = tiny_model(variant, std=1.0, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = model.generate(**padded(LEFT_PADDED), num_beams=beams, max_new_tokens=5, custom_generate=search)
    assert torch.isfinite(found.float()).all()
    assert found.shape[0] == len(LEFT_PADDED)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("variant", GENERATING)
def test_sequences_outgrow_their_room_twice(variant: str, beams: int) -> None:
    model = tiny_model(variant, max_position_embeddings=128)
    options: dict[str, Any] = {"num_beams": beams, "max_new_tokens": 100, "min_new_tokens": 100}
    expected, found = both(model, **padded(LEFT_PADDED), **options)
    assert found.tolist() == expected.tolist()
    assert found.shape[1] >= 100


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("variant", GENERATING)
def test_keys_that_no_beam_sees_may_be_dropped_at_every_step(
    variant: str, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transformer_steps, "ROOM", 1)
    model = tiny_model(variant, std=1.0)
    expected, found = both(model, **padded(LEFT_PADDED), **OPTIONS[options])
    assert found.tolist() == expected.tolist()


def test_keys_grow_with_the_length_and_not_with_the_beams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of 12 beams whose tokens are all different would have 12 keys for every token."""
    monkeypatch.setattr(transformer_steps, "ROOM", 1)
    made: list[tuple[int, int]] = []  # keys that are seen, and all keys, where room was made

    class Recorded(TransformerSteps):
        def _make_room(self, number: int) -> None:
            super()._make_room(number)
            assert self.mask is not None
            made.append((int(self.mask.any(dim=2).sum(dim=2).max()), self.length))

    monkeypatch.setitem(token_search.STEPS, "small_transformer", Recorded)
    model = tiny_model(CAUSAL[0], std=1.0, max_position_embeddings=64)
    options: dict[str, Any] = {"num_beams": 12, "max_new_tokens": 60, "min_new_tokens": 60, "custom_generate": search}
    model.generate(words(2, 4), **options)
    assert len(made) == 59
    assert all(seen == kept for seen, kept in made)
    assert made[-1][1] < 4 * 60


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize("variant", SEQ2SEQ)
def test_a_prompt_of_the_target_is_continued(variant: str, is_padded: bool, beams: int) -> None:
    prompt = torch.cat([torch.full((4, 1), BOS), words(4, 3, seed=1)], dim=1)
    options: dict[str, Any] = {"decoder_input_ids": prompt, "num_beams": beams, "min_new_tokens": 2}
    if is_padded:
        options["decoder_attention_mask"] = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 1], [0, 1, 1, 1]])
    expected, found = both(tiny_model(variant), **padded(LEFT_PADDED), **options)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("variant", GENERATING)
def test_scores_of_beams_and_the_output_class(variant: str) -> None:
    model = tiny_model(variant)
    for beams in (1, 4):
        options: dict[str, Any] = {"num_beams": beams, "num_return_sequences": beams, "return_dict_in_generate": True}
        expected, found = both(model, **padded(LEFT_PADDED), **options)
        assert type(found) is type(expected)
        assert torch.equal(found.sequences, expected.sequences)
    scores = model.generate(**padded(LEFT_PADDED), max_new_tokens=9, output_scores=True, **options).sequences_scores
    torch.testing.assert_close(found.sequences_scores, scores)


@pytest.mark.parametrize("variant", GENERATING)
def test_processors_that_look_at_every_beam(variant: str) -> None:
    """All rows are then there from the first step."""
    processors = LogitsProcessorList([Overwrite()])
    expected, found = both(tiny_model(variant), **padded(LEFT_PADDED), num_beams=3, logits_processor=processors)
    assert found.tolist() == expected.tolist()


def test_a_source_of_padding_alone() -> None:
    batch = padded([[1, 1, 1], [0, 0, 0]])
    for beams in (1, 3):
        expected, found = both(tiny_model(SEQ2SEQ[0], std=1.0), **batch, num_beams=beams, min_new_tokens=6)
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("variant", GENERATING)
def test_bfloat16(variant: str) -> None:
    """Where two words are equal but for rounding, either may win: the first new words are compared."""
    model = tiny_model(variant, std=1.0, dtype=torch.bfloat16)
    batch = padded(LEFT_PADDED)
    start = 1 if variant in SEQ2SEQ else batch["input_ids"].shape[1]
    for beams in (1, 3):
        options: dict[str, Any] = {"num_beams": beams, "max_new_tokens": 4, "min_new_tokens": 4}
        expected, found = both(model, **batch, **options)
        same = sum(a[:2] == b[:2] for a, b in zip(found[:, start:].tolist(), expected[:, start:].tolist(), strict=True))
        assert same >= 3


def another_attention(module: nn.Module, *arguments: Any, **options: Any) -> Any:
    """Somebody's."""
    raise AssertionError("not to be called")


def test_another_attention_is_refused() -> None:
    AttentionInterface.register("another", another_attention)
    model = tiny_model(CAUSAL[0])
    model.set_attn_implementation("another")
    with pytest.raises(ValueError, match="attn_implementation='another'"):
        model.generate(**padded(LEFT_PADDED), custom_generate=search, max_new_tokens=3)


class Adapter(nn.Module):
    """A layer in another's place, as those of low rank."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, values: Tensor) -> Tensor:
        return self.layer(values) + 1.0


@pytest.mark.parametrize("variant", GENERATING)
def test_layers_that_are_not_as_they_were_made_are_refused(variant: str) -> None:
    model = tiny_model(variant)
    feed_forward = model.model.decoder.layers[1].feed_forward
    handle = feed_forward.output_proj.register_forward_hook(lambda layer, inputs, output: -output)
    with pytest.raises(ValueError, match="hooks or adapters"):
        model.generate(**padded(LEFT_PADDED), custom_generate=search, max_new_tokens=3)
    handle.remove()
    feed_forward.output_proj = Adapter(feed_forward.output_proj)
    with pytest.raises(ValueError, match="hooks or adapters"):
        model.generate(**padded(LEFT_PADDED), custom_generate=search, max_new_tokens=3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_quantised_layer_is_named() -> None:
    model = tiny_model(SEQ2SEQ[0], dtype=torch.float32)
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    with pytest.raises(ValueError, match=r"quantised layers, here layers\.0\.self_attention\.query_proj.*quantized"):
        quantised.generate(**padded(LEFT_PADDED), custom_generate=search, max_new_tokens=3)


def test_dropout_is_refused() -> None:
    model = tiny_model(CAUSAL[0], dropout=0.1).train()
    with pytest.raises(ValueError, match=r"call model\.eval"):
        model.generate(**padded(LEFT_PADDED), custom_generate=search, max_new_tokens=3)


@pytest.mark.parametrize("variant", CAUSAL)
def test_a_cache_to_go_on_from_and_embeddings_are_refused(variant: str) -> None:
    model = tiny_model(variant)
    prompt = words(2, 4)
    cache = model(prompt[:, :-1], use_cache=True).past_key_values
    with pytest.raises(ValueError, match="past_key_values"):
        model.generate(prompt, past_key_values=cache, custom_generate=search, max_new_tokens=3)
    embeddings = model.get_input_embeddings()(prompt)
    with pytest.raises(ValueError, match="inputs_embeds"):
        model.generate(inputs_embeds=embeddings, custom_generate=search, max_new_tokens=3)


def test_past_the_learned_positions_is_refused() -> None:
    model = tiny_model("causal-pre-learned", max_position_embeddings=6)
    with pytest.raises(ValueError, match="longer than max_position_embeddings=6"):
        model.generate(words(1, 4), custom_generate=search, max_new_tokens=6, eos_token_id=None, pad_token_id=EOS)
