"""One fault has one name, that of its cause, and advice that fits it."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import attnzoo


class SortedEncoder(nn.Module):
    """It sorts rows by their lengths, and puts back the parts that are named."""

    def __init__(self, put_back: str) -> None:
        super().__init__()
        self.put_back = put_back
        self.embed = nn.Embedding(20, 6, padding_idx=0)
        self.rnn = nn.LSTM(6, 5, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor) -> Any:
        lengths, order = (ids != 0).sum(dim=1).sort(descending=True)
        packed, states = self.rnn(pack_padded_sequence(self.embed(ids[order]), lengths, batch_first=True))
        outputs, _ = pad_packed_sequence(packed, batch_first=True, total_length=ids.shape[1])
        back = order.argsort()
        outputs = outputs[back] if "outputs" in self.put_back else outputs
        return outputs, tuple(
            state[:, back] if name in self.put_back else state for name, state in zip("hc", states, strict=True)
        )


@pytest.mark.parametrize("put_back", ["outputs", "outputs h", "hc", ""])
def test_rows_that_stay_sorted_are_mixed(put_back: str) -> None:
    torch.manual_seed(0)
    report = attnzoo.check(SortedEncoder(put_back), "encoder", pad=0)
    assert report.names == ["batch_mixed"], report
    assert "order.argsort()" in report.findings[0].explanation
    assert attnzoo.check(SortedEncoder("outputs hc"), "encoder", pad=0)


class Window(nn.Module):
    """Causal attention to itself and the two positions before, by ``roll``, which wraps around, or by padding."""

    def __init__(self, wraps: bool) -> None:
        super().__init__()
        self.wraps, self.causal, self.qkv = wraps, True, nn.Linear(12, 36)

    def shifts(self, x: Tensor) -> Tensor:
        rolled = [x.roll(steps, 1) for steps in range(3)]
        if not self.wraps:
            for steps, part in enumerate(rolled):
                part[:, :steps] = 0
        return torch.stack(rolled, dim=-1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = (q[..., None] * self.shifts(k)).sum(dim=2) / 12**0.5
        shown = torch.ones(x.shape[:2]) if mask is None else mask.float()
        weights = scores.masked_fill(self.shifts(shown) == 0, -1e9).softmax(dim=-1)
        return (weights[:, :, None] * self.shifts(v)).sum(dim=-1)


def test_a_window_that_wraps_around_sees_the_future_and_hides_padding() -> None:
    torch.manual_seed(0)
    assert attnzoo.check(Window(wraps=True), "self_attention").names == ["future_leaked"]
    assert attnzoo.check(Window(wraps=False), "self_attention")


class LanguageModel(nn.Module):
    """It adds a row of a table for each position, or by mistake for each row of the batch."""

    table: Tensor

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis, self.embed, self.out = axis, nn.Embedding(20, 8), nn.Linear(8, 20)
        self.register_buffer("table", torch.randn(30, 8))

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[self.axis])
        table = self.table[places]
        x = self.embed(ids) + (table if self.axis else table[:, None])
        shown = torch.ones(ids.shape[1], ids.shape[1]).tril()
        return self.out((x @ x.mT / 8**0.5).masked_fill(shown == 0, -1e9).softmax(-1) @ x)


def test_a_table_of_positions_on_the_batch_axis_is_advised() -> None:
    torch.manual_seed(0)
    (finding,) = attnzoo.check(LanguageModel(axis=0), "language_model").findings
    assert finding.name == "batch_mixed"
    assert "x.size(0) in place of x.size(1)" in finding.explanation
    assert "depends on another row" not in finding.explanation
    assert attnzoo.check(LanguageModel(axis=1), "language_model")


class CopiedMask(nn.Module):
    """A layer on nn.MultiheadAttention, with a mask of pairs copied for its heads."""

    def __init__(self, is_interleaved: bool) -> None:
        super().__init__()
        self.is_interleaved, self.attention = is_interleaved, nn.MultiheadAttention(12, 3, batch_first=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        hidden = (mask == 0)[:, None].expand(-1, x.shape[1], -1)
        hidden = hidden.repeat_interleave(3, dim=0) if self.is_interleaved else hidden.repeat(3, 1, 1)
        output: Tensor = self.attention(x, x, x, attn_mask=hidden, need_weights=False)[0]
        return output


class Tagger(nn.Module):
    """A model on that layer."""

    def __init__(self, is_interleaved: bool) -> None:
        super().__init__()
        self.embed, self.layer = nn.Embedding(20, 12), CopiedMask(is_interleaved)

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        output: Tensor = self.layer(self.embed(ids), mask)
        return output


@pytest.mark.parametrize(("code", "kind"), [(CopiedMask, "self_attention"), (Tagger, "encoder")])
def test_a_mask_in_the_order_of_the_heads_is_advised(code: Any, kind: str) -> None:
    torch.manual_seed(0)
    (finding,) = attnzoo.check(code(False), kind, mask="attend").findings
    assert finding.name == "padding_attended"
    assert "repeat_interleave" in finding.explanation
    assert attnzoo.check(code(True), kind, mask="attend")


class Mean(nn.Module):
    """It has no softmax, so that advice on one would not fit."""

    def __init__(self, counts_padding: bool) -> None:
        super().__init__()
        self.counts_padding, self.embed = counts_padding, nn.Embedding(20, 6)

    def forward(self, ids: Tensor) -> Tensor:
        real = (ids != 0)[..., None] | self.counts_padding
        return (self.embed(ids) * real).sum(dim=1) / real.sum(dim=1)


def test_advice_on_padding_speaks_of_a_softmax_only_if_there_is_one() -> None:
    torch.manual_seed(0)
    (finding,) = attnzoo.check(Mean(True), "encoder", pad=0).findings
    assert finding.name == "padding_attended"
    assert "softmax" not in finding.explanation
    assert attnzoo.check(Mean(False), "encoder", pad=0)


class Step(nn.Module):
    """A decoder's step with a dot product, of which no scale is expected."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gru, self.fc = nn.Embedding(15, 6), nn.GRUCell(6 + 8, 8), nn.Linear(8, 15)

    def forward(self, token: Tensor, hidden: Tensor, encoder_outputs: Tensor, mask: Tensor | None = None) -> Any:
        scores = (encoder_outputs @ hidden[..., None])[..., 0]
        scores = scores if mask is None else scores.masked_fill(mask == 0, -1e9)
        context = (scores.softmax(-1)[:, None] @ encoder_outputs)[:, 0]
        hidden = self.gru(torch.cat([self.embedding(token), context], dim=-1), hidden)
        return self.fc(hidden), hidden


def test_a_reason_names_no_argument_that_was_not_passed() -> None:
    report = attnzoo.check(Step(), "decoder_step")
    assert "None" not in report.not_checked["scale"]
    assert "scale=None" in attnzoo.check(Step(), "decoder_step", scale=None).not_checked["scale"]


class Generating(nn.Module):
    """A language model with the methods of Transformers that has two faults, of which one hides those of steps."""

    config = generate = get_encoder = None

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(20, 6), nn.Linear(6, 20)

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embed(input_ids.clamp_(max=15))
        return self.out(x + x.mean(dim=1, keepdim=True))


def test_the_fault_that_keeps_steps_from_being_judged_is_named() -> None:
    report = attnzoo.check(Generating(), "language_model")
    assert report.names == ["input_changed_in_place", "future_leaked"]
    assert report.not_checked["steps"] == "cannot be judged until future_leaked is repaired"


class GrowingWeights(nn.Module):
    """The weights of the first query sum to one, those of the second to two, and so on."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        weights = (self.query(x) @ self.key(x).mT / 8**0.5).softmax(dim=-1)
        return (weights * torch.arange(1, x.shape[1] + 1)[:, None]) @ self.value(x)


def test_the_sum_that_is_not_one_is_told() -> None:
    report = attnzoo.check(GrowingWeights(), "self_attention")
    (finding,) = (each for each in report.findings if each.name == "weights_not_normalised")
    assert f"sum to {finding.inputs['x'].shape[1]} over the keys" in finding.where
