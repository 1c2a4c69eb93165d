"""Code that takes few positions, code that forgets what it attends to, and code that packs its source by lengths.

Dimensions: B batch, T queries, S keys.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

WIDTH = 12
Made = tuple[tuple[Any, ...], dict[str, Any]]


class CutTriangle(nn.Module):
    """Causal attention whose triangle has ``block_size`` positions; ``later`` of them too many are seen."""

    def __init__(self, block_size: int, later: int = 0, batch_first: bool = True) -> None:
        super().__init__()
        self.num_heads, self.batch_first = 3, batch_first
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.register_buffer("triangle", torch.ones(block_size, block_size).tril(later))

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.batch_first else x.transpose(0, 1)
        q, k, v = (part(x).unflatten(-1, (3, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        triangle = self.get_buffer("triangle")[: x.shape[1], : x.shape[1]]
        weights = scores.masked_fill(triangle == 0, float("-inf")).softmax(-1)
        output: Tensor = self.o((weights @ v).transpose(1, 2).flatten(2))
        return output if self.batch_first else output.transpose(0, 1)


class ShortLanguageModel(nn.Module):
    def __init__(self, block_size: int) -> None:
        super().__init__()
        self.embed, self.positions = nn.Embedding(30, WIDTH), nn.Embedding(block_size, WIDTH)
        self.attention, self.out = CutTriangle(block_size), nn.Linear(WIDTH, 30)

    def forward(self, idx: Tensor) -> Tensor:
        x = self.embed(idx) + self.positions(torch.arange(idx.shape[1]))
        logits: Tensor = self.out(x + self.attention(x))
        return logits


class Forgetful(nn.Module):
    """A block that returns its weights, and may forget the context."""

    def __init__(self, fault: str = "", num_heads: int = 3) -> None:
        super().__init__()
        self.fault, self.num_heads = fault, num_heads
        self.attention, self.norm = nn.MultiheadAttention(WIDTH, num_heads, batch_first=True), nn.LayerNorm(WIDTH)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor) -> Any:
        context, weights = self.attention(query, keys, keys, key_padding_mask=~mask)
        return self.norm(query if self.fault else query + context), weights


class ForgetfulOfItself(Forgetful):
    def forward(self, x: Tensor, mask: Tensor) -> Any:  # type: ignore[override]
        return super().forward(x, x, mask)


class Step(nn.Module):
    """A decoder's step; ``returned`` says what it returns, ``fault`` that it forgets the context."""

    def __init__(self, fault: str = "", returned: str = "logits, state, weights") -> None:
        super().__init__()
        self.fault, self.returned = fault, returned
        self.embedding, self.gru, self.out = nn.Embedding(20, 6), nn.GRUCell(6 + 10, 8), nn.Linear(8, 20)
        self.w, self.u, self.v = nn.Linear(8, 7), nn.Linear(10, 7), nn.Linear(7, 1)

    def forward(self, token: Tensor, hidden: Tensor, encoder_outputs: Tensor, mask: Tensor) -> Any:
        scores = self.v(torch.tanh(self.w(hidden)[:, None] + self.u(encoder_outputs)))[..., 0]
        weights = scores.masked_fill(mask == 0, float("-inf")).softmax(-1)
        context = (weights[:, None] @ encoder_outputs)[:, 0]
        if self.fault or "pointer" in self.returned:
            context = torch.zeros_like(context)
        state = self.gru(torch.cat([self.embedding(token), context], dim=-1), hidden)
        results: dict[str, Any] = {
            "logits, state": (self.out(state), state),
            "logits, state, weights": (self.out(state), state, weights),
            "logits of the last state": (self.out(hidden), state, weights),
            "pointer, state": (weights, state),
            "state, pointer": (state, weights),
        }
        return results[self.returned]


class Returned(nn.Module):
    """Additive attention of one query that returns some of its parts."""

    def __init__(self, returned: str) -> None:
        super().__init__()
        self.returned = returned
        self.w, self.u, self.v = nn.Linear(6, 7), nn.Linear(10, 7), nn.Linear(7, 1)

    def forward(self, hidden: Tensor, encoder_outputs: Tensor, mask: Tensor | None = None) -> Any:
        scores = self.v(torch.tanh(self.w(hidden)[:, None] + self.u(encoder_outputs)))[..., 0]
        scores = scores if mask is None else scores.masked_fill(mask == 0, -1e9)
        weights = scores.softmax(-1)
        parts = {"hidden": hidden, "weights": weights, "context": (weights[:, None] @ encoder_outputs)[:, 0]}
        found = tuple(parts[name] for name in self.returned.split(", "))
        return found if len(found) > 1 else found[0]


class Hard(nn.Module):
    """Attention to the key with the highest score alone."""

    def __init__(self) -> None:
        super().__init__()
        self.q = nn.Linear(8, 8)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor | None = None) -> Any:
        scores = self.q(query) @ keys.mT
        scores = scores if mask is None else scores.masked_fill(mask[:, None] == 0, -1e9)
        weights = nn.functional.one_hot(scores.argmax(-1), keys.shape[1]).to(keys.dtype)
        return weights @ keys, weights


class LocalOrCut(nn.Module):
    """Attention to the keys next to the query's position, or to all but the first one."""

    def __init__(self, is_cut: bool) -> None:
        super().__init__()
        self.is_cut, self.q = is_cut, nn.Linear(8, 8)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        keys = keys[:, 1:] if self.is_cut else keys
        scores = self.q(query) @ keys.mT
        if not self.is_cut:
            distance = torch.arange(query.shape[1])[:, None] - torch.arange(keys.shape[1])
            scores = scores.masked_fill(distance.abs() > 1, -1e9)
        return scores.softmax(-1) @ keys


class Packed(nn.Module):
    """An encoder-decoder that packs its source by lengths or a mask, and hides padding by its id."""

    def __init__(self, takes: str = "lengths", pad: int = 0) -> None:
        super().__init__()
        self.takes, self.pad_id = takes, pad
        self.embed, self.embed_target = nn.Embedding(20, 6), nn.Embedding(20, 6)
        self.encoder, self.cell, self.out = nn.GRU(6, 8, batch_first=True), nn.GRUCell(14, 8), nn.Linear(8, 20)

    def forward(self, src: Tensor, src_len: Tensor, trg: Tensor) -> Tensor:
        lengths = src_len if self.takes == "lengths" else src_len.sum(dim=1)
        packed = pack_padded_sequence(self.embed(src), lengths, batch_first=True, enforce_sorted=False)
        outputs, states = self.encoder(packed)
        keys = pad_packed_sequence(outputs, batch_first=True, total_length=src.shape[1])[0]
        state, logits = states[0], []
        for token in trg.T:
            scores = (keys @ state[..., None])[..., 0].masked_fill(src == self.pad_id, -1e10)
            context = (scores.softmax(-1)[:, None] @ keys)[:, 0]
            state = self.cell(torch.cat([self.embed_target(token), context], dim=-1), state)
            logits.append(self.out(state))
        return torch.stack(logits, dim=1)


class PackedByMask(Packed):
    def forward(self, src: Tensor, src_mask: Tensor, trg: Tensor) -> Tensor:  # the names tell what it takes
        return super().forward(src, src_mask, trg)


class SumOfWords(nn.Module):
    """The mean of the words; the vector of padding is zero."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(17, 4, padding_idx=0)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        return self.embed(ids).sum(dim=1) / lengths[:, None]


OWN, CROSS, ATTEND = "self_attention", "attention", {"mask": "attend"}
FAULTS: dict[str, tuple[str, Callable[[], Made]]] = {
    "a short triangle, off by one": ("future_leaked", lambda: ((CutTriangle(8, later=1), OWN), {"causal": True})),
    "context forgotten": ("real_positions_masked", lambda: ((Forgetful("context"), CROSS), ATTEND)),
    "own context forgotten": ("real_positions_masked", lambda: ((ForgetfulOfItself("context"), OWN), ATTEND)),
    "context of one head forgotten": (
        "real_positions_masked",
        lambda: ((ForgetfulOfItself("context", 1), OWN), ATTEND),
    ),
    "step without context": ("real_positions_masked", lambda: ((Step("context"), "decoder_step"), ATTEND)),
    "step without context or weights": (
        "real_positions_masked",
        lambda: ((Step("context", "logits, state"), "decoder_step"), ATTEND),
    ),
}
RIGHT: dict[str, Callable[[], Made]] = {
    **{
        f"triangle of {size}": lambda size=size: ((CutTriangle(size), OWN), {"causal": True})  # type: ignore[misc]
        for size in (7, 8, 10)
    },
    "triangle of 8, time first": lambda: (
        (CutTriangle(8, batch_first=False), OWN),
        {"causal": True, "batch_first": False},
    ),
    "language model of 8": lambda: ((ShortLanguageModel(8), "language_model"), {}),
    "block that returns weights": lambda: ((Forgetful(), CROSS), ATTEND),
    "block of itself that returns weights": lambda: ((ForgetfulOfItself(), OWN), ATTEND),
    **{
        f"step that returns {part}": lambda part=part: ((Step("", part), "decoder_step"), ATTEND)  # type: ignore[misc]
        for part in (
            "logits, state",
            "logits, state, weights",
            "logits of the last state",
            "pointer, state",
            "state, pointer",
        )
    },
    **{
        f"attention that returns {part}": lambda part=part: ((Returned(part), CROSS), ATTEND)  # type: ignore[misc]
        for part in (
            "weights",
            "context, weights",
            "weights, context",
            "hidden, context, weights",
            "weights, hidden",
        )
    },
    "hard attention": lambda: ((Hard(), CROSS), ATTEND),
    "local attention": lambda: ((LocalOrCut(is_cut=False), CROSS), {"width": 8}),
    "packed by lengths": lambda: ((Packed(), "encoder_decoder"), {"pad": 0}),
    "packed by lengths, another id": lambda: ((Packed(pad=1), "encoder_decoder"), {"pad": 1}),
    "packed by a mask": lambda: ((PackedByMask("mask"), "encoder_decoder"), {"pad": 0}),
    "sum of words": lambda: ((SumOfWords(), "encoder"), {}),
}
