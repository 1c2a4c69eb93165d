"""``attnzoo.check`` finds every fault of the zoo by its name, and nothing in correct code."""

import pytest
import torch

import attnzoo
from tests.checking.correct import CORRECT
from tests.checking.faulty import FAULTY


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
