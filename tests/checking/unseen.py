"""Faults in other shapes and conventions, written after ``check`` was finished, to test whether it finds causes."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

from tests.checking.faulty import Faulty


class TimeMajorGeneral(nn.Module):
    """Time first, mask True = hidden, weights not returned; the softmax goes over the targets."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.wa, self.batch_first, self.axis = nn.Linear(9, 9), False, axis

    def forward(self, query: Tensor, memory: Tensor, hidden_mask: Tensor | None = None) -> Tensor:
        energy = torch.einsum("tbd,sbd->tbs", query, self.wa(memory))
        if hidden_mask is not None:
            energy = (
                energy + hidden_mask.transpose(0, 1) * -1e9
                if hidden_mask.ndim == 3
                else energy + hidden_mask[None] * -1e9
            )
        return torch.einsum("tbs,sbd->tbd", energy.softmax(self.axis), memory)


class HandWritten(nn.Module):
    """A softmax by hand, heads merged by einsum, the scale twice."""

    def __init__(self, power: float = 0.5, by_hand_axis: int = -1) -> None:
        super().__init__()
        self.n_heads, self.power, self.axis = 3, power, by_hand_axis
        self.qkv, self.out = nn.Linear(18, 54, bias=False), nn.Linear(18, 18)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.n_heads, d // 3).unbind(2)
        s = torch.einsum("bihd,bjhd->bhij", q * (d // 3) ** (-self.power / 2), k * (d // 3) ** (-self.power / 2))
        if padding_mask is not None:
            s = s - 1e9 * padding_mask[:, None, None, :].to(s.dtype)
        e = torch.exp(s - s.amax(self.axis, keepdim=True))
        a = e / e.sum(self.axis, keepdim=True)
        return self.out(torch.einsum("bhij,bjhd->bihd", a, v).reshape(b, t, d))


class Sigmoid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        return torch.sigmoid(self.q(x) @ self.k(x).mT / math.sqrt(8)) @ x


class TrilAfter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.causal = True
        self.q, self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        w = F.softmax(self.q(x) @ self.k(x).mT / 8**0.5, -1)
        return torch.tril(w) @ self.v(x)


class Pooling(nn.Module):
    """Mean of a biLSTM's outputs over all positions."""

    def __init__(self) -> None:
        super().__init__()
        self.emb, self.lstm = nn.Embedding(20, 6, padding_idx=0), nn.LSTM(6, 4, bidirectional=True, batch_first=True)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        out, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=ids.shape[1])
        return out.mean(dim=1)


class LastOutput(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb, self.lstm = nn.Embedding(20, 6, padding_idx=0), nn.LSTM(6, 4, num_layers=2)

    def forward(self, src: Tensor, src_lengths: Tensor) -> Tensor:
        return self.lstm(self.emb(src.T))[0][-1]


class Translator(nn.Module):
    """Torch's layers, with the mask of padding left out of the cross-attention, or the causal mask."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault, self.pad_idx = fault, 1
        self.emb = nn.Embedding(19, 12)
        self.net = nn.Transformer(12, 2, 1, 1, 16, batch_first=True, dropout=0.1)
        self.out = nn.Linear(12, 19)

    def forward(self, src: Tensor, trg: Tensor) -> Tensor:
        hidden = src == self.pad_idx
        causal = self.net.generate_square_subsequent_mask(trg.shape[1], dtype=self.emb.weight.dtype)
        memory_mask = None if self.fault == "memory" else hidden
        y = self.net(
            self.emb(src),
            self.emb(trg),
            tgt_mask=None if self.fault == "causal" else causal,
            src_key_padding_mask=hidden.to(self.emb.weight.dtype).masked_fill(hidden, float("-inf")),
            memory_key_padding_mask=None if memory_mask is None else memory_mask.to(causal.dtype) * -1e9,
        )
        return self.out(y)


class TutorialDecoder(nn.Module):
    """The step of a tutorial: (input, hidden, encoder_outputs, mask), time first; its mask comes after the softmax."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.embedding, self.gru = nn.Embedding(15, 6), nn.GRU(6 + 10, 8)
        self.energy, self.v, self.fc = nn.Linear(8 + 10, 7), nn.Linear(7, 1, bias=False), nn.Linear(8 + 10 + 6, 15)

    def forward(self, input: Tensor, hidden: Tensor, encoder_outputs: Tensor, mask: Tensor) -> Any:
        embedded = self.embedding(input.unsqueeze(0))
        embedded = F.dropout(embedded, 0.5) if self.fault == "dropout" else embedded
        memory = encoder_outputs.permute(1, 0, 2)
        repeated = hidden[-1].unsqueeze(1).repeat(1, memory.shape[1], 1)
        scores = self.v(torch.tanh(self.energy(torch.cat([repeated, memory], dim=2)))).squeeze(2)
        if mask is not None and self.fault != "after":
            scores = scores.masked_fill(mask == 0, -1e10)
        a = F.softmax(scores, dim=0 if self.fault == "axis" else 1)
        if mask is not None and self.fault == "after":
            a = a * mask
        context = torch.bmm(a.unsqueeze(1), memory).permute(1, 0, 2)
        output, hidden = self.gru(torch.cat([embedded, context], dim=2), hidden)
        return self.fc(torch.cat([output[0], context[0], embedded[0]], dim=1)), hidden, a


def length_mask(lengths: Tensor, max_len: int) -> Tensor:
    """The mask of lengths, with one token too few of every sentence."""
    return torch.arange(max_len)[None, :] < lengths[:, None] - 1


def step_state(model: Any) -> dict[str, Any]:
    def start(source: Tensor, mask: Tensor) -> Any:
        return model.init(source, mask)

    return {"start": start, "step": model.step, "reorder": model.reorder, "whole": model.whole}


def lengths_state(model: Any) -> dict[str, Any]:
    """The functions of a decoder that takes lengths, or none for sentences without padding."""

    def mask_of(source: Tensor, lengths: Tensor | None) -> Tensor:
        if lengths is None:
            return torch.ones(source.shape, dtype=torch.long)
        return (torch.arange(source.shape[1]) < lengths[:, None]).long()

    def start(src: Tensor, src_lengths: Tensor | None = None) -> Any:
        return model.init(src, mask_of(src, src_lengths))

    def whole(src: Tensor, trg: Tensor, src_lengths: Tensor | None = None) -> Tensor:
        found: Tensor = model.whole(src, mask_of(src, src_lengths), trg)
        return found

    return {"start": start, "step": model.step, "whole": whole}


class Loop:
    """An LSTM decoder with functions; its faults are in the source, the reorder, and the place of the update."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.emb, self.cell, self.out = nn.Embedding(14, 6), nn.LSTMCell(12, 6), nn.Linear(12, 14)

    def init(self, source: Tensor, mask: Tensor) -> Any:
        mask = torch.ones_like(mask) if self.fault == "no mask" else mask
        memory = self.emb(source * 0 if self.fault == "no source" else source)
        memory = memory.mean(0, keepdim=True).expand_as(memory) if self.fault == "one source" else memory
        mean = (memory * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        mean = memory.mean(1) if self.fault == "mean of all" else mean
        return {"memory": memory, "mask": mask, "h": mean, "c": mean * 0}

    def look(self, query: Tensor, state: Any) -> Tensor:
        scores = (state["memory"] @ query[..., None])[..., 0].masked_fill(state["mask"] == 0, -1e9)
        return (scores.softmax(-1)[:, None] @ state["memory"])[:, 0]

    def step(self, state: Any, token: Tensor) -> Any:
        context = self.look(state["h"], state)
        h, c = self.cell(torch.cat([self.emb(token), context], -1), (state["h"], state["c"]))
        if self.fault == "order":
            context = self.look(h, state)
        h = h / 0 if self.fault == "not finite" else h
        return self.out(torch.cat([h, context], -1)), {**state, "h": h, "c": c}

    def whole(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        mask = torch.ones_like(mask) if self.fault == "no mask of whole" else mask
        state, logits = self.init(source, mask), []
        for token in target.unbind(1):
            context = self.look(state["h"], state)
            h, c = self.cell(torch.cat([self.emb(token), context], -1), (state["h"], state["c"]))
            state = {**state, "h": h, "c": c}
            logits.append(self.out(torch.cat([h, context], -1)))
        return torch.stack(logits, 1)

    def reorder(self, state: Any, beam_idx: Tensor) -> Any:
        moved = {name: part[beam_idx] for name, part in state.items()}
        return moved | {"c": state["c"]} if self.fault == "cell" else moved


def loop_with(fault: str) -> Any:
    return lambda: ((None, "decoder_step"), step_state(Loop(fault)))


def nll_with_mask(target: Tensor, log_probs: Tensor, mask: Tensor) -> Tensor:
    """The mask is True on padding; the sum is divided by the number of all tokens."""
    each = F.nll_loss(log_probs.flatten(0, 1), target.flatten(), reduction="none")
    return (each * (~mask).flatten()).sum() / mask.numel()


UNSEEN = {
    "time major, softmax over targets": Faulty(
        "softmax_wrong_axis", "variant", lambda: ((TimeMajorGeneral(0), "attention"), {})
    ),
    "scale twice": Faulty("scale_wrong", "variant", lambda: ((HandWritten(1.0), "self_attention"), {})),
    "softmax by hand over queries": Faulty(
        "softmax_wrong_axis", "variant", lambda: ((HandWritten(0.5, -2), "self_attention"), {})
    ),
    "sigmoid": Faulty("weights_not_normalised", "variant", lambda: ((Sigmoid(), "self_attention"), {})),
    "tril after": Faulty("mask_after_softmax", "variant", lambda: ((TrilAfter(), "self_attention"), {})),
    "mean over padding": Faulty("padding_attended", "variant", lambda: ((Pooling(), "encoder"), {})),
    "last output": Faulty("final_state_from_padding", "variant", lambda: ((LastOutput(), "encoder"), {})),
    "memory mask left out": Faulty(
        "padding_attended", "variant", lambda: ((Translator("memory"), "encoder_decoder"), {})
    ),
    "causal mask left out": Faulty("future_leaked", "variant", lambda: ((Translator("causal"), "encoder_decoder"), {})),
    "tutorial, mask after": Faulty(
        "mask_after_softmax", "variant", lambda: ((TutorialDecoder("after"), "decoder_step"), {})
    ),
    "tutorial, axis": Faulty("softmax_wrong_axis", "variant", lambda: ((TutorialDecoder("axis"), "decoder_step"), {})),
    "tutorial, dropout": Faulty(
        "dropout_in_eval", "variant", lambda: ((TutorialDecoder("dropout"), "decoder_step"), {})
    ),
    "one token too few": Faulty("real_positions_masked", "variant", lambda: ((length_mask, "mask"), {})),
    "attention after the update": Faulty(
        "step_differs", "variant", lambda: ((None, "decoder_step"), step_state(Loop("order")))
    ),
    "cell not reordered": Faulty(
        "beam_not_reordered", "variant", lambda: ((None, "decoder_step"), step_state(Loop("cell")))
    ),
    **{
        fault: Faulty(name, "variant", loop_with(fault))
        for fault, name in {
            "no mask": "padding_attended",
            "no mask of whole": "padding_attended",
            "mean of all": "padding_attended",
            "no source": "real_positions_masked",
            "one source": "batch_mixed",
            "not finite": "not_finite",
        }.items()
    },
    "divided by all tokens": Faulty("loss_counts_padding", "variant", lambda: ((nll_with_mask, "loss"), {"pad": 0})),
}
RIGHT = {
    "time major": lambda: ((TimeMajorGeneral(2), "attention"), {}),
    "softmax by hand": lambda: ((HandWritten(), "self_attention"), {}),
    "translator": lambda: ((Translator(""), "encoder_decoder"), {}),
    "tutorial": lambda: ((TutorialDecoder(""), "decoder_step"), {}),
    "loop": lambda: ((None, "decoder_step"), step_state(Loop(""))),
    "loop of lengths": lambda: ((None, "decoder_step"), lengths_state(Loop(""))),
}
