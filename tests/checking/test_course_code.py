"""Attention as courses write it: every fault is found by its name, and nothing in right code."""

import time

import pytest
import torch

import attnzoo
from tests.checking.course_code import ALLOWED_TOO, FAULTS, RIGHT

SECONDS = 5.0  # of one core


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_found(name: str) -> None:
    torch.manual_seed(0)
    fault, make = FAULTS[name]
    (module, kind), options = make()
    began = time.process_time()
    report = attnzoo.check(module, kind, **options)
    assert time.process_time() - began < SECONDS
    assert {fault} <= {*report.names} <= {fault, ALLOWED_TOO.get(name)}, report


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_not_accused(name: str) -> None:
    torch.manual_seed(0)
    (module, kind), options = RIGHT[name]()
    began = time.process_time()
    report = attnzoo.check(module, kind, **options)
    assert time.process_time() - began < SECONDS
    assert report.passed, report
    assert len(report.checked) >= 7, report


@pytest.mark.parametrize("name", [name for name in FAULTS if not name.startswith("Loops")])  # those take long
def test_the_verdict_is_the_same_every_time_and_for_other_weights(name: str) -> None:
    torch.manual_seed(1)
    fault, make = FAULTS[name]
    (module, kind), options = make()
    first, second = (attnzoo.check(module, kind, **options) for _ in range(2))
    assert first.as_json() == second.as_json()
    assert fault in first.names, first
