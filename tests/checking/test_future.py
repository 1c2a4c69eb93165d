"""What ``causal=True`` asserts is tested where it can be, and a report is false where it cannot."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnzoo
from tests.checking.decoder_blocks import CAUSAL, LEAKY, OwnTriangle, WithoutItself


def luong(query: Tensor, keys: Tensor) -> Tensor:
    return (query @ keys.mT).softmax(-1) @ keys


class Recurrent(nn.Module):
    def __init__(self, both_ways: bool) -> None:
        super().__init__()
        self.embed, self.rnn = nn.Embedding(20, 6), nn.GRU(6, 5, batch_first=True, bidirectional=both_ways)

    def forward(self, ids: Tensor, lengths: Tensor) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        outputs, state = self.rnn(packed)
        return nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=ids.shape[1])[0], state


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", CAUSAL)
def test_causal_code_is_checked_and_not_accused(name: str) -> None:
    torch.manual_seed(0)
    report = attnzoo.check(CAUSAL[name](), "attention", causal=True)
    assert report.passed, report
    assert "future" in report.checked


@pytest.mark.parametrize("name", LEAKY)
def test_a_decoder_block_that_sees_the_future_is_named(name: str) -> None:
    torch.manual_seed(0)
    report = attnzoo.check(LEAKY[name](), "attention", causal=True)
    assert report.names == ["future_leaked"], report


def test_a_triangle_that_is_off_by_one_is_found_without_a_word() -> None:
    torch.manual_seed(0)
    assert attnzoo.check(OwnTriangle("one too many"), "attention").names == ["future_leaked"]
    assert attnzoo.check(OwnTriangle(), "attention").passed


@pytest.mark.parametrize(
    ("code", "kind", "reason"),
    [
        (luong, "attention", "queries and keys are not the same sequence"),
        (WithoutItself(), "attention", "queries and keys are not the same sequence"),
        (nn.MultiheadAttention(8, 2, kdim=6, vdim=6), "attention", "have the widths (8, 6, 6)"),
        (nn.CrossEntropyLoss(ignore_index=0), "loss", "code of the kind 'loss' is not checked for it"),
    ],
)
def test_a_report_is_false_if_what_is_asserted_cannot_be_judged(code: Any, kind: str, reason: str) -> None:
    assert attnzoo.check(code, kind).passed
    report = attnzoo.check(code, kind, causal=True)
    assert not report
    assert not report.findings
    assert "nothing found, but not judged: future\n" in str(report)
    assert reason in report.not_checked["future"]


def test_a_scale_that_is_asserted_and_cannot_be_judged_makes_the_report_false() -> None:
    def additive(query: Tensor, keys: Tensor) -> Tensor:
        return (query[:, :, None] + keys[:, None]).tanh().sum(-1).softmax(-1) @ keys

    assert attnzoo.check(additive, "attention").passed
    assert attnzoo.check(additive, "attention", scale=0.5).unknown == ["scale"]


def test_encoders_and_masks_are_judged_by_what_is_asserted() -> None:
    torch.manual_seed(0)
    assert "future" in attnzoo.check(Recurrent(False), "encoder", causal=True).checked
    assert attnzoo.check(Recurrent(True), "encoder", causal=True).names == ["future_leaked"]
    assert attnzoo.check(Recurrent(True), "encoder").passed

    def of_padding(ids: Tensor) -> Tensor:
        return (ids != 0)[:, None, None]

    assert attnzoo.check(of_padding, "mask", pad=0).passed
    assert attnzoo.check(of_padding, "mask", pad=0, causal=True).names == ["future_leaked"]
