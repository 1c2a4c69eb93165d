"""``search()`` raises an error for everything that it would compute differently from ``generate()``."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AttentionInterface, TextIteratorStreamer

from attnzoo import search
from tests.factory import CAUSAL, EOS, GENERATING, SEQ2SEQ, padded, tiny_model, words


def refuse(model: Any, said: str) -> None:
    """Check that a search of this model raises an error with the text ``said``."""
    with pytest.raises(ValueError, match=said):
        model.generate(**padded([[0, 0, 1], [1, 1, 1]]), custom_generate=search, max_new_tokens=3)


def another_attention(module: nn.Module, *arguments: Any, **options: Any) -> Any:
    """An attention function of a user."""
    raise AssertionError("not to be called")


def test_another_attention_is_refused() -> None:
    AttentionInterface.register("another", another_attention)
    model = tiny_model(CAUSAL[0])
    model.set_attn_implementation("another")
    refuse(model, "attn_implementation='another'")


class Adapter(nn.Module):
    """A layer that replaces another one, like an adapter of low rank."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, values: Tensor) -> Tensor:
        return self.layer(values) + 1.0


@pytest.mark.parametrize("variant", GENERATING)
def test_layers_that_are_not_as_they_were_made_are_refused(variant: str) -> None:
    model = tiny_model(variant)
    feed_forward = model.model.decoder.layers[-1].feed_forward
    with feed_forward.output_proj.register_forward_hook(lambda layer, inputs, output: -output):
        refuse(model, "hooks or adapters")
    feed_forward.output_proj = Adapter(feed_forward.output_proj)
    refuse(model, "hooks or adapters")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_quantised_layer_is_named() -> None:
    model = tiny_model(SEQ2SEQ[0], dtype=torch.float32)
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})
    refuse(quantised, r"quantised layers, here layers\.0\.self_attention\.query_proj.*quantized")


def test_dropout_is_refused() -> None:
    model = tiny_model(CAUSAL[0], dropout=0.1).train()
    refuse(model, r"call model\.eval")


@pytest.mark.parametrize("name", ["luong-gru-concat", *CAUSAL])
def test_a_cache_to_go_on_from_and_embeddings_are_refused(name: str) -> None:
    model = tiny_model(name)
    prompt = words(2, 4)
    cache = model(prompt[:, :-1], use_cache=True).past_key_values
    with pytest.raises(ValueError, match=r"past_key_values|cache"):
        model.generate(prompt, past_key_values=cache, custom_generate=search, max_new_tokens=3)
    if name not in CAUSAL:
        return
    embeddings = model.get_input_embeddings()(prompt)
    with pytest.raises(ValueError, match="inputs_embeds"):
        model.generate(inputs_embeds=embeddings, custom_generate=search, max_new_tokens=3)


def test_past_the_learned_positions_is_refused() -> None:
    model = tiny_model("causal-pre-learned", max_position_embeddings=6)
    with pytest.raises(ValueError, match="longer than max_position_embeddings=6"):
        model.generate(words(1, 4), custom_generate=search, max_new_tokens=6, eos_token_id=None, pad_token_id=EOS)


@pytest.mark.parametrize("name", ["luong-gru-concat", SEQ2SEQ[0], CAUSAL[0]])
def test_a_streamer_is_refused_and_its_reader_does_not_wait(name: str) -> None:
    tokenizer: Any = None
    streamer = TextIteratorStreamer(tokenizer, timeout=1)
    with pytest.raises(ValueError, match="custom_generate=search cannot stream to streamer=TextIteratorStreamer"):
        tiny_model(name).generate(words(1, 4), streamer=streamer, custom_generate=search, max_new_tokens=3)
    assert list(streamer) == [""]
