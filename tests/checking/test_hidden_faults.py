"""Every fault that shows on some input only is found by its name, and what cannot be judged is said."""

import time

import pytest
import torch

import attnzoo
from attnzoo.checking import CannotCallError
from tests.checking.decoder_blocks import OwnTriangle
from tests.checking.hidden_faults import FAULTS, RIGHT, Cross, Encoder, HeadsInALoop, Own

SECONDS = 5.0  # of one core


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_found_by_its_name_alone(name: str) -> None:
    torch.manual_seed(0)
    fault, make = FAULTS[name]
    (module, kind), options = make()
    report = attnzoo.check(module, kind, **options)
    assert report.names == [fault], report


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_not_accused(name: str) -> None:
    torch.manual_seed(0)
    (module, kind), options = RIGHT[name]()
    began = time.process_time()
    report = attnzoo.check(module, kind, **options)
    assert time.process_time() - began < SECONDS
    assert report.passed, report


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
