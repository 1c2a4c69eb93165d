"""Ten correct pieces of attention code in different styles. ``check`` must find nothing in any of them."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Additive(nn.Module):
    """Bahdanau's, with a query without an axis of time and a mask that is True on padding."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.u, self.v = nn.Linear(10, 6), nn.Linear(14, 6), nn.Linear(6, 1)

    def forward(self, hidden: Tensor, encoder_outputs: Tensor, pad_mask: Tensor | None = None) -> Any:
        energy = self.v(torch.tanh(self.w(hidden).unsqueeze(1) + self.u(encoder_outputs))).squeeze(-1)
        if pad_mask is not None:
            energy = energy.masked_fill(pad_mask, float("-inf"))
        weights = F.softmax(energy, dim=1)
        return torch.bmm(weights.unsqueeze(1), encoder_outputs).squeeze(1), weights


class EinsumHeads(nn.Module):
    def __init__(self, width: int = 24, heads: int = 4) -> None:
        super().__init__()
        self.num_heads, self.head = heads, width // heads
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(width, heads, self.head) / 5) for _ in range(3))
        self.wo = nn.Parameter(torch.randn(heads, self.head, width) / 5)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        q = torch.einsum("bqd,dhk->bqhk", query, self.wq)
        k = torch.einsum("bsd,dhk->bshk", key, self.wk)
        v = torch.einsum("bsd,dhk->bshk", value, self.wv)
        scores = torch.einsum("bqhk,bshk->bhqs", q, k) / math.sqrt(self.head)
        scores = scores + mask  # 0 or -inf, (B, 1, 1, S)
        return torch.einsum("bhqs,bshk,hkd->bqd", scores.softmax(dim=-1), v, self.wo)


class ViewHeads(nn.Module):
    def __init__(self, width: int = 16, heads: int = 4, dropout: float = 0.1) -> None:
        super().__init__()
        self.h, self.d_k = heads, width // heads
        self.linears = nn.ModuleList(nn.Linear(width, width) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        rows = query.size(0)
        q, k, v = (
            linear(part).view(rows, -1, self.h, self.d_k).transpose(1, 2)
            for linear, part in zip(self.linears, (query, key, value), strict=False)
        )
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        weights = self.dropout(scores.softmax(dim=-1))
        x = torch.matmul(weights, v).transpose(1, 2).contiguous().view(rows, -1, self.h * self.d_k)
        return self.linears[-1](x), weights


class GPTBlock(nn.Module):
    """A block with one product for query, key and value, a buffer for the triangle, and normalisation before it."""

    def __init__(self, width: int = 16, heads: int = 2, longest: int = 32) -> None:
        super().__init__()
        self.n_head = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.register_buffer("bias", torch.tril(torch.ones(longest, longest))[None, None])

    def forward(self, x: Tensor) -> Tensor:
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).split(width, dim=2)
        q, k, v = (p.view(rows, length, self.n_head, -1).transpose(1, 2) for p in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf"))
        y = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(rows, length, width)
        x = x + self.proj(y)
        return x + self.mlp(self.norms[1](x))


class CachedGPT(nn.Module):
    """A small language model with a cache of keys and values, for a check of its steps."""

    def __init__(self, vocabulary: int = 13, width: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.n_head = heads
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(32, width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)

    def attend(self, x: Tensor, past: Any, first: int) -> tuple[Tensor, Any]:
        rows, length, width = x.shape
        q, k, v = (p.view(rows, length, self.n_head, -1).transpose(1, 2) for p in self.qkv(x).chunk(3, dim=-1))
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        sees = torch.arange(k.shape[2]) <= torch.arange(first, first + length)[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=sees)
        return x + self.proj(y.transpose(1, 2).reshape(rows, length, width)), (k, v)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        return self.head(self.attend(x, None, 0)[0])

    def start(self) -> Any:
        return {"past": None, "length": 0}

    def step(self, tokens: Tensor, state: Any) -> Any:
        x = (self.token(tokens) + self.position(torch.tensor(state["length"]))).unsqueeze(1)
        x, past = self.attend(x, state["past"], state["length"])
        return self.head(x[:, 0]), {"past": past, "length": state["length"] + 1}

    def reorder(self, state: Any, rows: Tensor) -> Any:
        return state | {"past": tuple(part.index_select(0, rows) for part in state["past"])}


class LuongDecoder(nn.Module):
    """Luong's decoder with input feeding and the dot score, step by step and by teacher forcing."""

    def __init__(self, vocabulary: int = 15, width: int = 8) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(vocabulary, width), nn.Embedding(vocabulary, width)
        self.cell, self.readout = nn.LSTMCell(2 * width, width), nn.Linear(2 * width, width)
        self.out = nn.Linear(width, vocabulary)

    def start(self, source: Tensor, source_mask: Tensor) -> Any:
        memory = self.source(source)
        zeros = torch.zeros(len(source), memory.shape[-1], dtype=memory.dtype)
        return memory, source_mask, zeros, zeros, zeros

    def step(self, tokens: Tensor, state: Any) -> Any:
        memory, mask, hidden, cell, feed = state
        hidden, cell = self.cell(torch.cat([self.target(tokens), feed], dim=-1), (hidden, cell))
        scores = (memory * hidden[:, None]).sum(-1).masked_fill(mask == 0, float("-inf"))
        context = (scores.softmax(-1)[..., None] * memory).sum(1)
        feed = torch.tanh(self.readout(torch.cat([context, hidden], dim=-1)))
        return self.out(feed), (memory, mask, hidden, cell, feed)

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        state, logits = self.start(source, source_mask), []
        for tokens in target.T:
            each, state = self.step(tokens, state)
            logits.append(each)
        return torch.stack(logits, dim=1)

    def reorder(self, state: Any, rows: Tensor) -> Any:
        return tuple(part[rows] for part in state)


def masked_mean_loss(logits: Tensor, labels: Tensor, ignore_index: int = 0) -> Tensor:
    real = labels != ignore_index
    each = -logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    return (each * real).sum() / real.sum()


class PackedEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(17, 6, padding_idx=0)
        self.gru = nn.GRU(6, 5, bidirectional=True, batch_first=True)

    def forward(self, src: Tensor, src_len: Tensor) -> Any:
        packed = pack_padded_sequence(self.embedding(src), src_len, batch_first=True, enforce_sorted=False)
        outputs, hidden = self.gru(packed)
        return pad_packed_sequence(outputs, batch_first=True, total_length=src.shape[1])[0], hidden


class LinPooling(nn.Module):
    """Structured self-attention: hops over the tokens of a sentence."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(12, 8, bias=False), nn.Linear(8, 3, bias=False)

    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        scores = self.second(torch.tanh(self.first(states))).transpose(1, 2)  # (B, hops, S)
        weights = scores.masked_fill(~mask.bool().unsqueeze(1), float("-inf")).softmax(dim=-1)
        return (weights @ states).flatten(1)


def bool_mask(ids: Tensor, pad_id: int = 0) -> Tensor:
    return (ids != pad_id)[:, None, None, :]


def float_mask(ids: Tensor, pad_id: int = 0) -> Tensor:
    length = ids.shape[1]
    return (ids != pad_id).float()[:, None] * torch.tril(torch.ones(length, length))


def additive_mask(sz: int) -> Tensor:
    return torch.triu(torch.full((sz, sz), float("-inf")), diagonal=1)


# Name, arguments of check.
CORRECT: dict[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "additive": lambda: ((Additive(), "attention"), {}),
    "einsum heads": lambda: ((EinsumHeads(), "attention"), {"mask": "additive"}),
    "einsum heads, detected": lambda: ((EinsumHeads(), "attention"), {}),
    "view heads": lambda: ((ViewHeads(), "attention"), {}),
    "view heads as self-attention": lambda: ((ViewHeads(), "self_attention"), {}),
    "GPT block": lambda: ((GPTBlock(), "self_attention"), {"causal": True}),
    "GPT block, detected": lambda: ((GPTBlock(), "self_attention"), {}),
    "cached GPT": lambda: ((CachedGPT(), "decoder_step"), {}),
    "cached GPT as a language model": lambda: ((CachedGPT(), "language_model"), {}),
    "Luong's decoder": lambda: ((LuongDecoder(), "decoder_step"), {}),
    "Luong's decoder, whole": lambda: ((LuongDecoder(), "encoder_decoder"), {}),
    "masked mean": lambda: ((masked_mean_loss, "loss"), {}),
    "cross entropy": lambda: ((nn.CrossEntropyLoss(ignore_index=2), "loss"), {}),
    "packed encoder": lambda: ((PackedEncoder(), "encoder"), {}),
    "Lin's pooling": lambda: ((LinPooling(), "encoder"), {}),
    "bool mask": lambda: ((bool_mask, "mask"), {}),
    "float mask": lambda: ((float_mask, "mask"), {"causal": True}),
    "additive mask": lambda: ((additive_mask, "mask"), {}),
}
