"""``attnzoo.check`` finds every fault of the zoo by its name, and nothing in correct code."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import attnzoo
from tests.checking.correct import CORRECT, ViewHeads
from tests.checking.faulty import FAULTY, CausalHead
from tests.checking.unseen import RIGHT, UNSEEN, Loop, lengths_state


@pytest.mark.parametrize("name", FAULTY)
def test_every_fault_is_found_by_its_name_alone(name: str) -> None:
    torch.manual_seed(0)
    arguments, options = FAULTY[name].make()
    report = attnzoo.check(*arguments, **options)
    assert report.names == [FAULTY[name].fault], report
    assert not report
    assert FAULTY[name].fault in str(report)


@pytest.mark.parametrize("name", CORRECT)
def test_nothing_is_found_in_correct_code(name: str) -> None:
    torch.manual_seed(0)
    arguments, options = CORRECT[name]()
    report = attnzoo.check(*arguments, **options)
    assert report.passed, report
    assert report.checked


@pytest.mark.parametrize("name", UNSEEN)
def test_faults_in_other_conventions_are_found(name: str) -> None:
    torch.manual_seed(0)
    arguments, options = UNSEEN[name].make()
    report = attnzoo.check(*arguments, **options)
    assert report.names == [UNSEEN[name].fault], report


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_found_in_the_same_code_without_the_fault(name: str) -> None:
    torch.manual_seed(0)
    arguments, options = RIGHT[name]()
    report = attnzoo.check(*arguments, **options)
    assert report.passed, report


def test_a_finding_is_reproducible() -> None:
    """The inputs of a finding, given to the code itself, show the fault."""
    torch.manual_seed(0)
    layer = CausalHead(triangle=False).double()
    finding = attnzoo.check(layer, "self_attention", causal=True).findings[0]
    first, second = layer(finding.inputs["x"]), layer(finding.changed_inputs["x"])
    assert finding.inputs["x"].shape[:2] == (1, 2)  # the smallest sequence with a future
    assert not torch.allclose(first[:, 0], second[:, 0])
    assert len(finding.explanation.splitlines()) == 2


def test_the_module_and_the_random_numbers_stay_as_they_were() -> None:
    layer = ViewHeads().train()
    before = {name: part.clone() for name, part in layer.state_dict().items()}
    generator = torch.get_rng_state()
    attnzoo.check(layer, "attention")
    attnzoo.check(lambda query, key, value, mask: layer(query, key, value, mask), "attention", width=16, num_heads=4)
    assert all(module.training for module in layer.modules())
    assert all(torch.equal(part, before[name]) for name, part in layer.state_dict().items())
    assert torch.equal(generator, torch.get_rng_state())


def test_what_is_not_checked_is_said() -> None:
    report = attnzoo.check(lambda query, keys: (query @ keys.mT).softmax(-1) @ keys, "attention")
    assert report.passed
    assert report.not_checked["padding"] == "it takes no mask of padding"
    assert "not checked:" in str(report)
    assert not {*report.checked} & {*report.not_checked}


def test_padding_is_not_judged_of_a_decoder_that_takes_no_mask() -> None:
    """Its source has no padding then; lengths that may be left out are a mask."""
    loop = Loop("mean of all")
    ones = torch.ones(1, 1)
    functions = {
        "start": lambda source: loop.init(source, ones.expand(source.shape)),
        "step": loop.step,
        "whole": lambda source, target: loop.whole(source, ones.expand(source.shape), target),
    }
    report = attnzoo.check(kind="decoder_step", **functions)
    assert report.passed, report
    assert report.not_checked["padding"].startswith("start takes neither a mask nor lengths")
    assert {"batch", "real positions", "step equals teacher forcing"} <= {*report.checked}
    assert attnzoo.check(kind="decoder_step", **functions, pad=0).names == ["padding_attended"]
    assert "padding" in attnzoo.check(kind="decoder_step", **lengths_state(Loop(""))).checked


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": "16"}, "width is a whole number of at least 1, or one for each input, got '16'"),
        ({"width": (8, 0)}, "got (8, 0)"),
        ({"causal": "yes"}, "causal is True, False or None, got 'yes'"),
        ({"scale": float("nan")}, "scale is 'sqrt', a number or None, got nan"),
        ({"num_heads": True}, "num_heads is a whole number of at least 1, got True"),
        ({"vocab_size": 1}, "vocab_size is a whole number of at least 2, got 1"),
        ({"step": 5}, "step is a function, got 5"),
    ],
)
def test_an_option_of_a_wrong_type_is_an_error_of_its_own(options: dict[str, Any], words: str) -> None:
    """Not of the code, which may be right."""
    with pytest.raises(attnzoo.checking.OptionError, match=re.escape(words)):
        attnzoo.check(ViewHeads(), "attention", **options)


def test_a_stated_convention_is_believed() -> None:
    assert attnzoo.check(ViewHeads(), "attention", mask="attend")
    assert attnzoo.check(ViewHeads(), "attention", mask="ignore").names == ["padding_attended"]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: attnzoo.check(torch.nn.Linear(3, 3)), "state the kind of Linear"),
        (lambda: attnzoo.check(torch.nn.Linear(3, 3), "attnetion"), "unknown kind 'attnetion'"),
        (lambda: attnzoo.check(torch.nn.Bilinear(3, 4, 5), "attention"), "def adapter(query, key, value, mask)"),
        (lambda: attnzoo.check(ViewHeads(), "attention", mask="true"), "mask is 'attend', 'ignore' or 'additive'"),
        (lambda: attnzoo.check(torch.nn.Linear(3, 3), "decoder_step"), "needs a function step"),
        (lambda: attnzoo.check(lambda a, b, c, d, e: a, "loss"), "Write an adapter"),
    ],
)
def test_what_cannot_be_checked_is_an_error_that_shows_an_adapter(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        call()
