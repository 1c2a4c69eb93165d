"""``attnzoo.check`` finds nothing in torch's modules, in models of Transformers and in our own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import attnzoo
from attnzoo.attention import ScoreSizes, SourceAttention, StructuredSelfAttention
from tests.factory import tiny_model
from tests.viewer.tiny_hugging_face import tiny


def without_weights(layer: nn.MultiheadAttention) -> Callable[..., Any]:
    def attention(query: Any, key: Any, value: Any, key_padding_mask: Any = None) -> Any:
        return layer(query, key, value, key_padding_mask=key_padding_mask, need_weights=False)[0]

    return attention


LAYERS: dict[str, Callable[[], Any]] = {
    "batch first": lambda: nn.MultiheadAttention(12, 3, batch_first=True),
    "time first": lambda: nn.MultiheadAttention(12, 3),
    "dropout": lambda: nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.3),
    "function": lambda: nn.functional.scaled_dot_product_attention,
    "encoder layer": lambda: nn.TransformerEncoderLayer(12, 3, 20, batch_first=True),
    "encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 9, batch_first=True), 2),
    "decoder layer": lambda: nn.TransformerDecoderLayer(12, 3, 20, batch_first=True),
    "decoder": lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 9), 2),
    "transformer": lambda: nn.Transformer(12, 3, 1, 1, 20, batch_first=True),
    "transformer, time first": lambda: nn.Transformer(12, 3, 1, 1, 20),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", LAYERS)
def test_nothing_in_modules_of_torch(name: str) -> None:
    torch.manual_seed(0)
    report = attnzoo.check(LAYERS[name]())
    assert report.passed, report


@pytest.mark.parametrize("batch_first", [True, False])
def test_nothing_in_multi_head_attention_without_weights(batch_first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(12, 3, batch_first=batch_first)
    report = attnzoo.check(without_weights(layer), "attention", batch_first=batch_first)
    assert report.passed, report
    assert layer.training
    assert attnzoo.check(layer, "self_attention")


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2", "llama", "bart", "t5"])
def test_nothing_in_models_of_transformers(name: str, attention: str) -> None:
    report = attnzoo.check(tiny(name, attention))
    assert report.passed, report
    assert "padding" in report.checked


@pytest.mark.parametrize(
    "variant",
    [
        "bahdanau-cho_gru-additive",
        "luong-lstm-dot",
        "luong-lstm-general-predictive-feeding",
        "sutskever-lstm-2-layers-reversed",
        "encoder_decoder-post-sinusoidal",
        "causal-pre-learned",
        "bidirectional-post-learned",
        "single",
    ],
)
def test_nothing_in_our_models(variant: str) -> None:
    report = attnzoo.check(tiny_model(variant))
    assert report.passed, report
    assert "padding" in report.checked


def of_score(score: str, window: str = "global") -> Callable[..., Any]:
    layer = SourceAttention(score, window, ScoreSizes(8, 8, 5, 20), 3).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter)

    def attention(query: Any, keys: Any, mask: Any) -> Any:
        mask = torch.ones(keys.shape[:2], dtype=torch.bool) if mask is None else mask
        return layer(query, layer.prepare(keys, mask), 0)

    return attention


@pytest.mark.parametrize("score", ["additive", "dot", "general", "concat", "location"])
def test_nothing_in_our_scores(score: str) -> None:
    report = attnzoo.check(of_score(score), "attention", width=8, mask="attend")
    assert report.passed, report


def test_nothing_in_our_structured_self_attention() -> None:
    layer = StructuredSelfAttention(8, 5, 3)
    nn.init.normal_(layer.hops)
    report = attnzoo.check(lambda states, mask: layer(states, mask)[0], "encoder", width=8, mask="attend")
    assert report.passed, report
