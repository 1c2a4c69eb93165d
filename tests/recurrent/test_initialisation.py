"""The initial weights, as each paper draws them."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration
from attnzoo.attention import SCORES as SCORES_BY_NAME
from attnzoo.attention import DotScore
from tests.factory import RNN_VARIANTS, tiny_config, tiny_model
from tests.recurrent.wirings import CELLS, SCORES

INITIALISED = {
    "vocab_size": 150,
    "embedding_size": 50,
    "encoder_hidden_size": 30,
    "decoder_hidden_size": 60,
    "attention_size": 70,
    "encoder_layers": 2,
    "decoder_layers": 2,
}
SCORED_WIRINGS = [(wiring, "none") for wiring in ("cho", "sutskever")]
SCORED_WIRINGS += product(("bahdanau", "luong"), SCORES)
# Every cell; torch's layers and ours where a checkpoint lacks them; and a spread of the user's, so many times larger.
STARTS = [*((cell, False, 1) for cell in CELLS), ("lstm", True, 1), ("cho_gru", True, 1), ("gru", False, 5)]
every_start = pytest.mark.parametrize(("cell", "is_missing", "factor"), STARTS)


def fresh_model(wiring: str, score: str, **choice: Any) -> AttentionalRNNForConditionalGeneration:
    torch.manual_seed(0)
    window = "global" if score == "none" else "predictive"
    return AttentionalRNNForConditionalGeneration(
        AttentionalRNNConfig(wiring=wiring, score=score, window=window, **INITIALISED, **choice)
    )


def initial_weights(
    folder: Path, is_missing: bool, wiring: str, score: str, **choice: Any
) -> dict[str, nn.Parameter | Tensor]:
    """The weights of a new model, or those that a checkpoint lacks: one half of the weights, then the other."""
    model = fresh_model(wiring, score, **choice)
    weights = dict(model.named_parameters())
    if not is_missing:
        return weights
    model.config.save_pretrained(folder)
    names, found = list(weights), {}
    for missing in (names[::2], names[1::2]):
        others = {name: weight.detach() for name, weight in weights.items() if name not in missing}
        save_file(others, folder / "model.safetensors", metadata={"format": "pt"})
        loaded = AutoModelForSeq2SeqLM.from_pretrained(folder).state_dict()
        found |= {name: loaded[name] for name in missing}
    return found


def assert_spread(parameter: Tensor, std: float, name: str) -> None:
    """Mean 0 and this standard deviation, within five standard errors (of a normal; a uniform's are smaller)."""
    assert abs(parameter.mean()) < 5 * std / parameter.numel() ** 0.5, name
    assert abs(parameter.std() / std - 1) < 5 / (2 * parameter.numel()) ** 0.5, name


@pytest.mark.usefixtures("uninitialised_memory_is_nan")
@every_start
@pytest.mark.parametrize(("wiring", "score"), [choice for choice in SCORED_WIRINGS if choice[0] in ("cho", "bahdanau")])
def test_chos_and_bahdanaus_initialisation(
    wiring: str, score: str, cell: str, is_missing: bool, factor: int, tmp_path: Path
) -> None:
    """N(0, 0.01^2), recurrent matrices orthogonal, biases 0 (Cho et al., 2014, section 4.1.1); the same, except a tenth
    of the standard deviation for W_a and U_a, and 0 for v_a (Bahdanau et al., 2014, appendix B.1).
    """
    seen = set()
    scale = {} if factor == 1 else {"initializer_range": 0.01 * factor}
    for name, parameter in initial_weights(tmp_path, is_missing, wiring, score, cell=cell, **scale).items():
        leaf = name.rsplit(".", 1)[-1]
        if leaf.startswith("bias") or name.endswith("score.score_vector"):
            kind = "zero"
            assert not parameter.any(), name
        elif leaf in ("weight_hidden", "weight_hh_l0"):
            kind = "orthogonal"
            gates = parameter.split(parameter.shape[1])
            assert len(gates) == {"cho_gru": 3, "gru": 3, "lstm": 4, "rnn": 1}[cell]
            for index, gate in enumerate(gates):
                torch.testing.assert_close(gate @ gate.T, torch.eye(len(gate)), rtol=0, atol=1e-5)
                assert all(not torch.allclose(gate, other, atol=0.01) for other in gates[:index]), name
        elif name.endswith(("score.query_proj.weight", "score.key_proj.weight")) and score in ("additive", "concat"):
            kind = "alignment"
            assert_spread(parameter, 0.001 * factor, name)
        else:
            kind = "normal"
            assert_spread(parameter, 0.01 * factor, name)
            if parameter.numel() > 1000:
                assert parameter.abs().max() > 0.025 * factor, name  # normal: a uniform of this spread ends at 0.017
        seen.add(kind)
    assert seen == {"zero", "orthogonal", "normal"} | ({"alignment"} if score in ("additive", "concat") else set())


@pytest.mark.usefixtures("uninitialised_memory_is_nan")
@every_start
@pytest.mark.parametrize(
    ("wiring", "score"), [choice for choice in SCORED_WIRINGS if choice[0] in ("sutskever", "luong")]
)
def test_sutskevers_and_luongs_initialisation(
    wiring: str, score: str, cell: str, is_missing: bool, factor: int, tmp_path: Path
) -> None:
    """Everything uniform, biases too: within 0.08 (Sutskever et al., 2014, section 3.4) or 0.1 (Luong, section 4.1)."""
    scale = {"sutskever": 0.08, "luong": 0.1}[wiring] * factor
    choice = {"cell": cell, "input_feeding": wiring == "luong"} | ({} if factor == 1 else {"initializer_range": scale})
    for name, parameter in initial_weights(tmp_path, is_missing, wiring, score, **choice).items():
        assert parameter.abs().max() <= scale, name
        assert_spread(parameter, scale / 3**0.5, name)


@pytest.mark.parametrize("value", [1.0, 0, -2.5])
@pytest.mark.parametrize(
    ("wiring", "score"), [("cho", "none"), ("sutskever", "none"), ("bahdanau", "dot"), ("luong", "dot")]
)
def test_forget_gates_start_at_the_value_given_and_nothing_else_changes(wiring: str, score: str, value: float) -> None:
    """torch adds two biases: their sum has the value in every LSTM, in its second quarter (i, f, g, o)."""
    plain, model = (fresh_model(wiring, score, cell="lstm", forget_gate_bias=bias) for bias in (None, value))
    seen = []
    for name, lstm in model.named_modules():
        if isinstance(lstm, nn.LSTM):
            size = lstm.hidden_size
            assert (lstm.bias_ih_l0 + lstm.bias_hh_l0).chunk(4)[1].tolist() == [value] * size, name
            seen += [f"{name}.bias_ih_l0", f"{name}.bias_hh_l0"]
    assert len(seen) == 2 * (2 * 2 + 2)  # two layers of the encoder in two directions, two of the decoder
    expected = plain.state_dict()
    for name, parameter in model.state_dict().items():
        for index, (quarter, other) in enumerate(zip(parameter.chunk(4), expected[name].chunk(4), strict=True)):
            if not (name in seen and index == 1):
                assert torch.equal(quarter, other), name


def test_a_forget_gate_bias_does_not_touch_the_weights_of_a_checkpoint(tmp_path: Path) -> None:
    model = tiny_model("luong-lstm-dot", dtype=torch.float32, forget_gate_bias=1.0)
    model.save_pretrained(tmp_path)
    for change in ({}, {"forget_gate_bias": 3.0}):
        loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, **change)
        assert loaded.config.forget_gate_bias == change.get("forget_gate_bias", 1.0)
        assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in loaded.state_dict().items())


class ScaledScore(DotScore):
    """A score that owns a number."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        self.scale = nn.Parameter(torch.tensor(7.0))

    def forward(self, query: Tensor, projected_key: Tensor) -> Tensor:
        return self.scale * super().forward(query, projected_key)


class InitialisedScore(ScaledScore):
    def init_weights(self) -> None:
        nn.init.constant_(self.scale, 7.0)


def test_a_score_of_the_users_sets_the_parameters_that_it_owns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(SCORES_BY_NAME, "scaled", lambda sizes: InitialisedScore(sizes.query_size, sizes.key_size))
    model = AttentionalRNNForConditionalGeneration(tiny_config("luong-lstm-dot", score="scaled"))
    scale = model.model.decoder.wiring.attention.score.scale
    assert scale.item() == 7.0
    scale.data.fill_(3.0)
    model.save_pretrained(tmp_path)
    weights = model.state_dict()
    for kept, expected in ((weights, 3.0), ({name: weights[name] for name in weights if "scale" not in name}, 7.0)):
        save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
        loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
        assert loaded.model.decoder.wiring.attention.score.scale.item() == expected
    monkeypatch.setitem(SCORES_BY_NAME, "scaled", lambda sizes: ScaledScore(sizes.query_size, sizes.key_size))
    with pytest.raises(NotImplementedError, match=r"ScaledScore owns scale and has no init_weights\(\)"):
        AttentionalRNNForConditionalGeneration(tiny_config("luong-lstm-dot", score="scaled"))


@pytest.mark.parametrize("variant", RNN_VARIANTS)
def test_initialisation_is_reproducible_by_seed(variant: str) -> None:
    weights = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        weights.append(AttentionalRNNForConditionalGeneration(tiny_config(variant)).state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    # Biases and v_a may be zero whatever the seed.
    assert all(not torch.equal(weights[0][name], weights[2][name]) for name in weights[0] if weights[0][name].any())
