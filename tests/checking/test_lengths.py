"""Code that takes few positions, and keys that have no influence: what is judged, and what is an error."""

from typing import Any

import pytest
import torch

import attnzoo
from attnzoo.checking import CannotCallError
from tests.checking.short_and_unused import CutTriangle, LocalOrCut, Returned, ShortLanguageModel


@pytest.mark.parametrize(
    ("code", "kind"),
    [(CutTriangle(3), "self_attention"), (CutTriangle(4), "self_attention"), (ShortLanguageModel(6), "language_model")],
)
def test_code_that_takes_too_few_positions_is_an_error_and_no_fault(code: Any, kind: str) -> None:
    with pytest.raises(CannotCallError, match=r"takes too few positions to be checked .* Make it for longer sequences"):
        attnzoo.check(code, kind)


@pytest.mark.parametrize("batch_first", [True, False])
def test_the_layout_of_code_that_takes_few_positions_is_found(batch_first: bool) -> None:
    torch.manual_seed(0)
    report = attnzoo.check(CutTriangle(7, batch_first=batch_first), "self_attention")
    assert report.passed, report
    assert ("layout: time_first" in report.assumed) != batch_first
    assert {"future", "sum of the weights"} <= {*report.checked}


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_key_without_influence_is_told(is_cut: bool) -> None:
    """It may be outside of a window, so that it is no fault."""
    torch.manual_seed(0)
    report = attnzoo.check(LocalOrCut(is_cut), "attention", width=8)
    assert report.not_checked["real positions"].startswith(f"key {0 if is_cut else 6} has no influence on any output")


def test_the_output_is_what_depends_on_the_keys() -> None:
    torch.manual_seed(0)
    line = "the output is the first part of the result that depends on the keys"
    for returned, is_told in (("hidden, context, weights", True), ("context, weights", False)):
        report = attnzoo.check(Returned(returned), "attention")
        assert report.passed, report
        assert (line in report.assumed) == is_told
    (finding,) = attnzoo.check(Returned("hidden, weights"), "attention", batch_first=True).findings
    assert finding.name == "real_positions_masked"
    assert "context" in finding.explanation
