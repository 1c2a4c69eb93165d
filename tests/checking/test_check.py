"""What a report of ``attnzoo.check`` says, what cannot be judged, and what is an error."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import attnzoo
from attnzoo.checking import CannotCallError
from tests.checking.correct import ViewHeads
from tests.checking.decoder_blocks import OwnTriangle
from tests.checking.faulty import CausalHead
from tests.checking.hidden_faults import FAULTS, Cross, Encoder, HeadsInALoop, OneHead, Own
from tests.checking.score_forms import Leaks, called_before
from tests.checking.unseen import Loop, lengths_state


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


@pytest.mark.parametrize(("module", "kind"), [(Cross, "attention"), (Own, "self_attention")])
def test_a_row_without_keys_that_is_not_finite_is_not_judged_and_said(module: type[Cross | Own], kind: str) -> None:
    torch.manual_seed(0)
    assert "is infinite" in attnzoo.check(module("-inf in hidden rows"), kind).not_checked["rows without keys"]
    assert "rows without keys" not in attnzoo.check(module(), kind).not_checked


@pytest.mark.parametrize("fault", ["one query", "one output for all queries"])
@pytest.mark.parametrize(("module", "kind"), [(Cross, "attention"), (Own, "self_attention")])
def test_one_output_where_each_query_needs_one_is_an_error(module: type[Cross | Own], kind: str, fault: str) -> None:
    with pytest.raises(CannotCallError, match=r"one output for all of \d+ queries: it returned \[\(\d+, 1, 12\)"):
        attnzoo.check(module(fault), kind)


def test_a_decoder_block_as_self_attention_is_an_error() -> None:
    with pytest.raises(CannotCallError, match="takes memory, another sequence; pass kind='attention'"):
        attnzoo.check(OwnTriangle(), "self_attention")


def test_a_causal_pattern_is_not_assumed_of_shared_weights() -> None:
    (_, make) = FAULTS["TriangularHead: weights of query 0"]
    (module, kind), options = make()
    assert "query_ignored" in attnzoo.check(module, kind, **options).not_checked["future"]


def test_heads_whose_number_is_not_known_are_not_judged() -> None:
    module = HeadsInALoop("first head alone")
    del module.num_heads
    assert "Pass num_heads" in attnzoo.check(module, "self_attention").not_checked["heads"]
    assert attnzoo.check(module, "self_attention", num_heads=3).names == ["heads_unused"]


def test_a_state_that_is_the_same_for_all_words_is_told() -> None:
    torch.manual_seed(0)
    report = attnzoo.check(Encoder("state of zeros"), "encoder")
    assert report.passed
    assert "a state that is the same for all words is meant to be" in report.assumed


def test_weights_kept_of_a_call_stay_in_the_module() -> None:
    module = called_before()
    assert attnzoo.check(module, "self_attention")
    assert module.attention.grad_fn is not None
    assert [*map(id, module.kept)] == [id(module.attention)]


def test_lazy_modules_are_called_once_before() -> None:
    module = torch.nn.Sequential(torch.nn.LazyLinear(6), OneHead())
    with pytest.raises(CannotCallError, match="call it once before the check"):
        attnzoo.check(module, "self_attention")


def test_the_padding_of_a_language_model_that_leaks_is_not_judged() -> None:
    report = attnzoo.check(Leaks("convolution"), "language_model")
    assert report.names == ["future_leaked"]
    assert report.not_checked["padding"] == "cannot be judged until future_leaked is repaired"
