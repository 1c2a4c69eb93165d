"""``attnzoo.check(..., paper=...)``: right steps have the paper's values; of faulty ones the first wrong is named."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnzoo
from attnzoo import AttentionalRNNConfig
from attnzoo.checking.paper_blocks import Grid, Parameter, readings
from attnzoo.checking.paper_steps import parts_of_step
from attnzoo.commands.check import main
from attnzoo.grading import Assignment
from attnzoo.grading.grades import grade
from attnzoo.recurrent_decoder import BahdanauDecoder, DecoderState, LuongDecoder
from tests.checking.paper_steps import FAULTY, GENERAL, MATRICES, RIGHT, Luong, MatrixBahdanau, Step, TutorialBahdanau

NOTES = {  # how the decoders of this package hold the papers' weights
    "bahdanau2014": {
        "attention.score.score_vector": "v_a",
        "attention.score.query_proj.weight": "W_a",
        "attention.score.key_proj.weight": "U_a",
        "rnn.layers.0.weight_input": "W_z C_z; W_r C_r; W C",
        "rnn.layers.0.weight_hidden": "U_z; U_r; U",
        "readout_proj.weight": "U_o V_o C_o",
    },
    "luong2015-global-general": {
        "rnn.layers.0.weight_ih_l0": "W_i C_i; W_f C_f; W_g C_g; W_out C_out",
        "rnn.layers.0.weight_hh_l0": "U_i; U_f; U_g; U_out",
        "attention.score.key_proj.weight": "W_a",
        "output_proj.weight": "W_c1 W_c2",
    },
}


def checked(step: Step) -> attnzoo.checking.Report:
    torch.manual_seed(0)
    return attnzoo.check(step.make(step.variant), **step.options)


def name_of(step: Step) -> str:
    return f"{step.make.__name__} {step.variant}"


@pytest.mark.parametrize("step", RIGHT, ids=name_of)
def test_right_steps_have_the_values_of_the_paper(step: Step) -> None:
    report = checked(step)
    assert report.passed, report
    assert {"scores", "alignment"} <= {*report.checked}
    told = step.options.get("call", "").partition("->")[2]
    assert all(name in report.checked for name in ("state", "readout", "logits") if name in told)


@pytest.mark.parametrize("step", FAULTY, ids=name_of)
def test_the_first_wrong_quantity_is_named(step: Step) -> None:
    report = checked(step)
    assert [finding.broken for finding in report.findings] == [step.quantity], report
    assert step.cause in report.findings[0].where, report
    assert not {*report.checked} & {*report.not_checked}


@pytest.mark.parametrize("paper", ["bahdanau2014", "luong2015-global-general"])
def test_the_step_beside_which_code_is_held_is_that_of_the_models(paper: str) -> None:
    """The parts, one after the other, give the numbers of the decoders of ``recurrent_decoder.py``."""
    torch.manual_seed(0)
    sizes = {"embedding_size": 5, "encoder_hidden_size": 7, "decoder_hidden_size": 6, "readout_size": 4}
    config = AttentionalRNNConfig.from_paper(paper, **sizes, attention_size=3, decoder_layers=1, vocab_size=9)
    decoder = (BahdanauDecoder if paper.startswith("bahdanau") else LuongDecoder)(config).double().eval()
    for parameter in decoder.parameters():
        nn.init.normal_(parameter)
    for name, parameter in decoder.named_parameters():
        if "bias" in name:
            nn.init.zeros_(parameter)
    inputs, state, keys = (torch.randn(3, size).double() for size in (5, 6, config.encoder_output_size))
    keys = torch.stack([keys, keys.flip(0), -keys, keys * 2], dim=1)  # (B, S, V)
    real = torch.arange(4) < torch.tensor([4, 2, 3])[:, None]
    known = {"embedding": inputs, "state": state, "keys": keys, "real": real, "query": state, "previous_state": state}
    has_cell = config.cell == "lstm"
    if has_cell:
        known |= {"cell": torch.randn(3, 6).double(), "feed": torch.randn(3, 4).double()}
    parts = (state, known["cell"]) if has_cell else (state,)
    source = decoder.attention.prepare(keys, real)
    expected = decoder(inputs[:, None], DecoderState((parts,), known.get("feed")), source, 0)
    weights = [Parameter(name, part.detach()) for name, part in decoder.named_parameters() if "bias" not in name]
    found: dict[str, Tensor] = {}
    with torch.no_grad():
        for part in parts_of_step(paper, has_cell, has_cell)[:3]:
            form = part.forms[0]
            lengths = {"E": 5, "H": 6, "V": keys.shape[2], "A": 3} | ({"R": 4} if has_cell else {"M": 8})
            (reading,) = readings(form.grids, weights, lengths, NOTES[paper])
            found |= form.compute(reading.blocks, known)
            known |= {name: values for name, values in found.items() if name != "state"}
            if "state" in found:
                known["new_state"] = found["state"]
                known["query"] = found["state"] if has_cell else state
    assert expected.attention_weights is not None
    assert expected.state is not None
    for ours, theirs in (
        (found["alignment"], expected.attention_weights[:, 0]),
        (found["state"], expected.state.top),
        (found["readout"], expected.readout[:, 0]),
    ):
        assert torch.allclose(ours, theirs, rtol=0, atol=1e-12)


def test_parameters_can_be_told() -> None:
    """A notation that is told is the only one that is tried, and a wrong one makes right code differ."""
    told = {"W_z": "W_z.T; C_z.T", "U_z": "U_z.T", "W_t": "U_o.T; V_o.T; C_o.T"}
    report = attnzoo.check(MatrixBahdanau(), **MATRICES, parameters=told)
    assert report.passed, report
    assert "W_z = W_z.T; C_z.T" in report.assumed
    wrong = attnzoo.check(MatrixBahdanau(), **MATRICES, parameters={"W_a": "U_a.T", "U_a": "W_a.T"})
    assert not wrong
    assert wrong.not_checked["scores"].startswith("no parameters have the shapes of v_a, W_a, U_a"), wrong


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_parameter_of_one_number_keeps_its_value(shape: tuple[int, ...]) -> None:
    """The papers have no temperature; while it is 1, the scores are the paper's."""
    step = nn.Module()
    step.register_parameter("temperature", nn.Parameter(torch.ones(shape)))

    def attend(query: Tensor, keys: Tensor) -> Any:
        weights = ((keys @ query.unsqueeze(-1)) / step.temperature).softmax(dim=1)
        return (weights * keys).sum(dim=1), weights.squeeze(-1)

    report = attnzoo.check(attend, paper="luong2015-global-dot")
    assert report.passed, report
    assert "numbers, which the paper leaves out, keep their values: temperature" in report.assumed
    nn.init.constant_(step.get_parameter("temperature"), 2)
    assert not attnzoo.check(attend, paper="luong2015-global-dot")


def test_matrices_are_read_as_blocks() -> None:
    """A matrix holds both blocks side by side in either order, or turned, if the shape allows it."""
    grid, sizes = Grid((("A", "B"),), ("R",), ("N", "M")), {"N": 2, "M": 3, "R": 2}

    def found(matrix: Tensor) -> dict[str, dict[str, Tensor]]:
        return {each.notes["p"]: each.blocks for each in readings([grid], [Parameter("p", matrix)], sizes, {})}

    matrix = torch.randn(2, 5)
    assert {*found(matrix)} == {"A B", "B A"}
    assert torch.equal(found(matrix)["B A"]["A"], matrix[:, 3:])
    assert torch.equal(found(matrix.T)["A.T; B.T"]["B"], matrix[:, 2:])
    assert not found(torch.randn(3, 5))


def test_a_state_that_is_not_recognised_is_not_checked() -> None:
    """The right state is computed, but what is returned is another tensor."""
    report = attnzoo.check(TutorialBahdanau("state changed"), paper="bahdanau2014")
    assert "state" not in report.checked
    assert "state" in report.not_checked
    assert {"scores", "alignment", "context"} <= {*report.checked}


def test_what_a_paper_asserts_must_be_judged() -> None:
    """Nothing in the code has the paper's shapes: it is not right, and its points are not given."""
    report = attnzoo.check(lambda query, keys: keys.mean(1), paper="bahdanau2014", width=(8, 8))
    assert report.names == []
    assert not report
    assert report.unknown == ["scores", "alignment", "context"]
    result = grade("mean", report.as_json(), Assignment())
    assert (result.points, result.out_of, result.passed) == (1, 4, False)  # one for "dropout in eval mode"


def test_probabilities_are_no_logits_if_it_is_told_that_logits_are_returned() -> None:
    told = attnzoo.check(Luong("probabilities"), **GENERAL)
    assert told.names == ["logits_differ"]
    report = attnzoo.check(Luong("probabilities"), **{**GENERAL, "call": GENERAL["call"].partition(" ->")[0]})
    assert report.passed, report
    assert "the logits are probabilities" in report.not_checked["logits"]


def test_the_weights_of_a_function_stay_as_they_were() -> None:
    step = TutorialBahdanau().train()
    before = {name: part.clone() for name, part in step.state_dict().items()}
    report = attnzoo.check(
        lambda token, hidden, keys, mask: step(token, hidden, keys, mask), paper="bahdanau2014", width=(8, 10)
    )
    assert report.passed, report
    assert step.training
    assert all(torch.equal(part, before[name]) for name, part in step.state_dict().items())


def test_the_properties_of_a_kind_are_checked_too() -> None:
    report = attnzoo.check(TutorialBahdanau("mask after"), "decoder_step", paper="bahdanau2014")
    assert report.names == ["mask_after_softmax", "alignment_differs"], report


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"paper": "bahdanau"}, "paper is one of bahdanau2014"),
        ({"paper": "bahdanau2014", "kind": "loss"}, "needs kind='attention'"),
        ({"call": "state, keys -> context"}, "pass paper=..., too"),
        ({"paper": "bahdanau2014", "call": "token, sate -> state"}, "'sate' in call="),
        ({"paper": "bahdanau2014", "call": "token, state, keys, mask -> words"}, "'words' in call="),
        ({"paper": "bahdanau2014", "parameters": {"w": "W_a"}}, "parameters names 'w', but the module has embedding"),
        ({"paper": "bahdanau2014", "call": "token, state, keys, mask -> state"}, "3 tensors are returned"),
    ],
)
def test_what_cannot_be_read_is_an_error(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        attnzoo.check(TutorialBahdanau(), **options)


def test_the_command_compares_with_a_paper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    imports = (
        "import torch\nfrom torch import Tensor, nn\nfrom typing import Any\nfrom torch.nn import functional as F\n"
    )
    path = tmp_path / "decoder.py"
    path.write_text(
        imports + inspect.getsource(TutorialBahdanau).replace('variant: str = ""', 'variant: str = "no tanh"')
    )
    with pytest.raises(SystemExit) as end:
        main(
            [f"{path}:TutorialBahdanau", "--paper", "bahdanau2014", "--call", "token, state, keys, mask -> _, state, _"]
        )
    assert end.value.code == 1
    told = capsys.readouterr().out
    assert "scores_differ" in told
    assert "no tanh around the sum" in told
