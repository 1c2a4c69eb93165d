"""Modules of student code whose author did not know how the check works: verdicts, and the time of each."""

import time

import pytest
import torch

import attnzoo
from tests.checking.mutants.table import FAULTY, RIGHT, Subject

SECONDS = 5.0  # of one core


def checked(subject: Subject) -> attnzoo.checking.Report:
    torch.manual_seed(0)
    module = subject.make()
    began = time.process_time()
    report = attnzoo.check(module, subject.kind, **subject.options)
    assert time.process_time() - began < SECONDS
    return report


@pytest.mark.parametrize("subject", FAULTY, ids=lambda subject: subject.make.__name__)
def test_the_fault_is_named(subject: Subject) -> None:
    report = checked(subject)
    assert report.names, report
    assert {*report.names} <= {*subject.names}, report


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("subject", RIGHT, ids=lambda subject: subject.make.__name__)
def test_right_code_is_not_accused(subject: Subject) -> None:
    assert checked(subject).passed
