"""Every variant of every family as ONNX graphs, compared with PyTorch; padding anywhere, rows of padding."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.export.compare import arrays, assert_close, assert_generates_as_pytorch, exported
from tests.factory import CLASSIFIER_VARIANTS, EVERY_PADDING, HEADS, inputs, tiny_model
from tests.recurrent import wirings

READING = [name for name, (head, _) in HEADS.items() if not head.__name__.endswith(("Generation", "CausalLM"))]
STACKS = [
    {"norm": norm, "position_embedding": positions, "attention_bias": bias, "activation": activation}
    for norm in ("post", "pre")
    for positions, bias, activation in (
        ("sinusoidal", False, "relu"),
        ("learned", True, "gelu"),
        ("none", False, "gelu"),
    )
]
SSRU = "encoder_decoder-post-halves-ssru"
MARIAN = {"position_embedding": "sinusoidal_halves", "output_bias": True, "zero_start": True, "num_decoder_layers": 1}
ENCODERS = [
    {"wiring": wiring, "cell": cell, **direction, "encoder_layers": depth[0], "decoder_layers": depth[1]}
    for wiring, cell in zip(wirings.WIRINGS, wirings.CELLS, strict=True)
    for direction in wirings.DIRECTIONS.values()
    for depth in wirings.DEPTHS
]


def cases(grid: list[dict[str, Any]]) -> list[Any]:
    """Every seventh case, which covers every choice; the others are slow."""
    marks = [pytest.mark.slow if at % 7 else () for at in range(len(grid))]
    return [pytest.param(case, id=wirings.case_id(case), marks=mark) for case, mark in zip(grid, marks, strict=True)]


@pytest.mark.parametrize("case", cases(wirings.ACCEPTED))
def test_every_wiring_score_window_and_cell(case: dict[str, Any], tmp_path: Path) -> None:
    sizes = wirings.COPIED if case["score"] == "dot" else {}
    assert_generates_as_pytorch(wirings.wired_model(case | sizes), tmp_path / "out")


@pytest.mark.parametrize("case", cases(ENCODERS))
def test_every_encoder_depth_and_start_state(case: dict[str, Any], tmp_path: Path) -> None:
    assert_generates_as_pytorch(wirings.wired_model(case), tmp_path / "out")


@pytest.mark.parametrize("wiring", wirings.WIRINGS)
@pytest.mark.parametrize("cell", wirings.CELLS)
def test_few_tokens(cell: str, wiring: str, tmp_path: Path) -> None:
    """The products of all embeddings with a weight are stored as a table if the table is no larger than both."""
    feeding = {"input_feeding": False} if wiring == "luong" else {}
    model = wirings.wired_model(
        {"wiring": wiring, "cell": cell, "embedding_size": wirings.SIZES["vocab_size"]} | feeding
    )
    assert_generates_as_pytorch(model, tmp_path / "out")


@pytest.mark.parametrize("fields", STACKS, ids=lambda fields: f"{fields['norm']}-{fields['position_embedding']}")
@pytest.mark.parametrize("kind", ["transformer-encoder-decoder", "transformer-causal"])
@pytest.mark.parametrize("is_tied", [True, False], ids=["tied", "untied"])
def test_every_stack(kind: str, fields: dict[str, Any], is_tied: bool, tmp_path: Path) -> None:
    model = tiny_model(kind, **fields, tie_word_embeddings=is_tied, scale_scores=is_tied)
    assert_generates_as_pytorch(model, tmp_path / "out")


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("mixer", ["attention", "ssru"])
def test_parts_of_marian(mixer: str, norm: str, tmp_path: Path) -> None:
    model = tiny_model("transformer-encoder-decoder", **MARIAN, decoder_mixer=mixer, norm=norm)
    with torch.no_grad():  # as at initialisation; tiny_model draws all weights
        model.lm_head.weight[model.config.closed_token] = 0
    assert_generates_as_pytorch(model, tmp_path / "out")


@pytest.mark.parametrize("name", READING)
def test_models_that_read(name: str, tmp_path: Path) -> None:
    model = tiny_model(name)
    found = exported(model, tmp_path / "out")
    batch = inputs(model.config)
    if "pair" in name:  # a row of padding is no pair
        batch = {key: value[:-1] for key, value in batch.items()}
    with torch.no_grad():
        expected = model(**batch, output_attentions=True)
    given = {key: value.numpy() for key, value in batch.items()}
    outputs = found.outputs("model", **given)
    is_real = batch["attention_mask"].bool() if outputs["logits"].ndim == 3 else slice(None)
    assert_close(outputs["logits"][is_real], expected.logits[is_real], "logits")
    if name in CLASSIFIER_VARIANTS:
        assert_close(outputs["attention"], expected.attentions[0][:, 0], "attention")


@pytest.mark.parametrize("weights", ["float16", "int8"])
@pytest.mark.parametrize(
    "name", ["bahdanau-cho_gru-additive", "luong-lstm-dot", SSRU, "encoder_decoder-post-sinusoidal"]
)
def test_smaller_weights_come_near(name: str, weights: str, tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64}
    if "encoder_decoder" not in name:
        sizes = {"embedding_size": 32, "encoder_hidden_size": 16, "decoder_hidden_size": 32, "readout_size": 32}
    model = tiny_model(name, std=0.2, vocab_size=40, **sizes)
    whole, small = (exported(model, tmp_path / w, weights=w) for w in ("float32", weights))
    assert sum(p.stat().st_size for p in small.folder.glob("*.onnx")) < 0.7 * sum(
        p.stat().st_size for p in whole.folder.glob("*.onnx")
    )
    batch = {name: part.numpy() for name, part in inputs(model.config).items()}
    ids, mask, given = batch["input_ids"], batch["attention_mask"], batch["decoder_input_ids"]
    expected, actual = (m.forced_decode(ids, mask, given)[0] for m in (whole, small))
    difference = abs(actual - expected).max() / abs(expected).max()
    assert 0 < difference < {"float16": 2e-3, "int8": 5e-2}[weights]


def test_a_closed_token_does_not_cost_the_other_tokens_their_biases_in_eight_bits(tmp_path: Path) -> None:
    """Its bias is the only large number of a vector that is as long as the vocabulary."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "vocab_size": 300}
    model = tiny_model("transformer-encoder-decoder", **MARIAN, **sizes, std=0.2)
    closed = model.config.closed_token
    with torch.no_grad():
        model.lm_head.weight[closed] = 0
    batch = {name: part.numpy() for name, part in inputs(model.config).items()}
    given = batch["input_ids"], batch["attention_mask"], batch["decoder_input_ids"]
    expected, actual = (
        np.delete(exported(model, tmp_path / weights, weights=weights).forced_decode(*given)[0], closed, axis=-1)
        for weights in ("float32", "int8")
    )
    assert abs(actual - expected).max() / abs(expected).max() < 5e-2


def test_the_rows_of_a_batch_do_not_change_each_other(tmp_path: Path) -> None:
    model = tiny_model("luong-lstm-general-predictive-feeding")
    found = exported(model, tmp_path / "out")
    batch = inputs(model.config)
    together = found.generate(*arrays(batch), num_beams=3, max_new_tokens=6)
    for row, is_real in enumerate(EVERY_PADDING):
        ids, mask = (part[row : row + 1] for part in arrays(batch))
        alone = found.generate(ids, mask, num_beams=3, max_new_tokens=6)
        width = alone.tokens.shape[1]
        assert together.tokens[row, :width].tolist() == alone.tokens[0].tolist(), is_real
