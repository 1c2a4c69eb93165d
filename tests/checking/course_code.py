"""Attention as courses write it, in three styles (loops, matrices, modules of torch), right and with a named fault.

``FAULTS`` and ``RIGHT`` hold a function that makes the arguments of check for each; ``FAULTS`` also the fault's name.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)


class Loops(nn.Module):
    """Causal self-attention in loops over rows, heads and queries."""

    def __init__(self, variant: str = "", width: int = 8, num_heads: int = 2) -> None:
        super().__init__()
        self.variant, self.num_heads, self.d_k = variant, num_heads, width // num_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.causal = variant not in ("both ways", "zeroed", "after")

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = []
        for b in range(x.shape[0]):
            q, k, v = self.wq(x[b]), self.wk(x[b]), self.wv(x[b])
            heads = [self.head(q, k, v, h, None if mask is None else mask[b]) for h in range(self.num_heads)]
            rows.append(self.wo(torch.cat(heads, dim=-1)))
        return torch.stack(rows)

    def head(self, q: Tensor, k: Tensor, v: Tensor, h: int, real: Tensor | None) -> Tensor:
        part = slice(h * self.d_k, (h + 1) * self.d_k)
        if self.variant == "wrong view":
            q, k, v = (each.reshape(self.num_heads, -1, self.d_k)[h] for each in (q, k, v))
        else:
            q, k, v = q[:, part], k[:, part], v[:, part]
        if self.variant == "zeroed" and real is not None:
            k, v = k * real[:, None], v * real[:, None]
        outputs = []
        for t in range(len(q)):
            scores = []
            for s in range(len(k)):
                score = torch.dot(q[t], k[s])
                if self.variant == "whole width":
                    score = score / math.sqrt(self.d_k * self.num_heads)
                elif self.variant != "no scale":
                    score = score / math.sqrt(self.d_k)
                later = s > t + (self.variant == "next") and self.causal and self.variant != "no triangle"
                hidden = real is not None and not bool(real[s])
                if self.variant == "joined with or":
                    later, hidden = later and (hidden or real is None), False
                if later or (hidden and self.variant not in ("zeroed", "after")):
                    score = score - 1e9
                scores.append(score)
            weights = torch.softmax(torch.stack(scores), dim=0)
            if self.variant == "sigmoid":
                weights = torch.stack(scores).sigmoid() / len(scores)
            if self.variant == "after" and real is not None:
                weights = weights * real
            outputs.append(sum(weights[s] * v[s] for s in range(len(v))))
        return torch.stack(outputs)


class LoopsOverSource(nn.Module):
    """Bahdanau's score in a loop over the source, for one query."""

    def __init__(self, variant: str = "") -> None:
        super().__init__()
        self.variant = variant
        self.w, self.u, self.v = nn.Linear(6, 7), nn.Linear(10, 7), nn.Linear(7, 1)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor) -> Any:
        scores = []
        for s in range(keys.shape[1]):
            if self.variant == "no tanh around the sum":
                score = self.v(self.w(query)) + self.v(torch.tanh(self.u(keys[:, s])))
            elif self.variant == "keys forgotten":
                score = self.v(torch.tanh(self.w(query) * (s + 1)))
            else:
                score = self.v(torch.tanh(self.w(query) + self.u(keys[:, s])))
            scores.append(score[:, 0])
        plain = torch.stack(scores, dim=1)
        hidden = plain.masked_fill(mask == 0, float("-inf"))
        weights = plain.softmax(dim=1) if self.variant == "weights before the mask" else hidden.softmax(dim=1)
        if self.variant == "over the batch":
            weights = hidden.nan_to_num(neginf=-1e9).softmax(dim=0)
        context = torch.zeros_like(keys[:, 0])
        for s in range(keys.shape[1]):
            context = context + hidden.softmax(dim=1)[:, s, None] * keys[:, s]
        if self.variant == "over the batch":
            context = (weights[..., None] * keys).sum(dim=1)
        return (weights, context) if self.variant == "weights first" else (context, weights)


class Matrices(nn.Module):
    """Self-attention of heads in products of matrices."""

    def __init__(self, variant: str = "", causal: bool = False, width: int = 12, num_heads: int = 3) -> None:
        super().__init__()
        self.variant, self.causal, self.num_heads, self.d_k = variant, causal, num_heads, width // num_heads
        groups = 1 if variant == "grouped queries" else num_heads
        self.q, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.k, self.v = nn.Linear(width, groups * self.d_k), nn.Linear(width, groups * self.d_k)
        self.norm = nn.LayerNorm(width)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], -1, self.d_k).transpose(1, 2)

    def rotate(self, x: Tensor) -> Tensor:
        angles = torch.arange(x.shape[-2])[:, None] / 10.0 ** torch.arange(x.shape[-1] // 2)
        one, two = x.chunk(2, dim=-1)
        return torch.cat([one * angles.cos() - two * angles.sin(), two * angles.cos() + one * angles.sin()], dim=-1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        length, residual = x.shape[1], x
        if self.variant == "batch statistics":
            x = x - x.mean(dim=0)
        if self.variant == "length statistics":
            x = x - x.mean(dim=1, keepdim=True)
        if self.variant == "block":
            x = self.norm(x)
        if self.variant == "input times mask" and mask is not None:
            x = x * mask[..., None]
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        if self.variant == "rotary":
            q, k = self.rotate(q), self.rotate(k)
        if self.variant == "grouped queries":
            k, v = k.expand_as(q), v.expand_as(q)
        if self.variant == "query forgotten":
            q = torch.ones_like(q)
        if self.variant == "key forgotten":
            k = torch.ones_like(k) * torch.arange(1.0, length + 1)[:, None]
        if self.variant == "scale before":
            q *= self.d_k**-0.5
        scores = q @ k.mT
        if self.variant not in ("scale before", "no scale", "scale after"):
            scores = scores / self.d_k**0.5 if self.variant != "divided by d_k" else scores / self.d_k
        distance = torch.arange(length)[:, None] - torch.arange(length)
        if self.variant == "linear biases":
            scores = scores - distance.abs() * torch.tensor([0.5, 0.25, 0.125])[:, None, None]
        allowed = torch.ones(length, length, dtype=torch.bool)
        if self.causal:
            allowed = distance >= (1 if self.variant == "without itself" else 0)
        if self.variant == "window":
            allowed = distance.abs() <= 1
        allowed = allowed.expand(len(x), 1, length, length)
        if mask is not None and self.variant not in ("input times mask", "after", "normalised again", "last column"):
            keys = mask[:, None, None, :].bool()
            if self.variant == "inverted":
                keys = ~keys
            if self.variant == "mask of queries":
                keys = keys.mT
            allowed = allowed | keys if self.variant == "joined with or" else allowed & keys
        if self.variant == "shifted window" and mask is not None:
            allowed = allowed & allowed.roll(1, -1)
        if self.variant == "infinite with nan_to_num":
            weights = scores.masked_fill(~allowed, float("-inf")).softmax(-1).nan_to_num(0.0)
        elif self.variant == "too weak":
            weights = (scores - 10.0 * ~allowed).softmax(-1)
        elif self.variant == "in float32":
            weights = torch.softmax(scores.masked_fill(~allowed, -1e9), -1, dtype=torch.float32).to(x.dtype)
        elif self.variant == "in bfloat16":
            weights = scores.masked_fill(~allowed, -1e9).to(torch.bfloat16).softmax(-1).to(x.dtype)
        elif self.variant == "by hand":
            powers = torch.exp(scores - scores.max(-1, keepdim=True).values) * allowed
            weights = powers / powers.sum(-1, keepdim=True)
        elif self.variant == "squares, by a power":
            powers = (scores**2 + 0.1) * allowed
            weights = powers * powers.sum(-1, keepdim=True) ** -1
        elif self.variant == "by einsum":
            powers = torch.exp(scores) * allowed
            weights = torch.einsum("bhts,bht->bhts", powers, powers.sum(-1).reciprocal())
        elif self.variant in ("divided after the values", "divided by the largest"):
            weights = torch.exp(scores) * allowed
        elif self.variant == "by logarithm":
            weights = scores.masked_fill(~allowed, -1e9).log_softmax(-1).exp()
        elif self.variant == "sigmoid":
            weights = (scores.sigmoid() * allowed) / length
        elif self.variant == "over queries":
            weights = scores.masked_fill(~allowed, -1e9).softmax(-2)
        else:
            weights = scores.masked_fill(~allowed, -1e9).softmax(-1)
        if self.variant == "scale after":
            weights = weights / self.d_k**0.5
        if self.variant == "dropped":
            weights = F.dropout(weights, 0.2)
        if mask is not None and self.variant in ("after", "normalised again"):
            weights = weights * mask[:, None, None, :]
            if self.variant == "normalised again":
                weights = weights / weights.sum(-1, keepdim=True)
        y = weights @ v
        if self.variant == "divided after the values":
            y = y * weights.sum(-1, keepdim=True) ** -1
        if self.variant == "divided by the largest":
            y = y / weights.amax(-1, keepdim=True)
        y = y.reshape(x.shape) if self.variant == "merged wrongly" else y.transpose(1, 2).reshape(x.shape)
        y = self.out(y)
        if self.variant == "normalised over the batch":
            y = (y - y.mean(0)) / (y.std(0) + 1)
        return residual + y if self.variant == "block" else y


class CrossMatrices(nn.Module):
    """Attention of a query to keys and values of other widths, with the mask in several conventions."""

    def __init__(self, variant: str = "") -> None:
        super().__init__()
        self.variant = variant
        self.q, self.k, self.v = nn.Linear(8, 6), nn.Linear(10, 6), nn.Linear(14, 9)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        q, k, v = self.q(query), self.k(key), self.v(value)
        if self.variant == "query statistics":
            q = q - q.mean(dim=1, keepdim=True)
        scores = torch.einsum("btd,bsd->bts", q, k) / math.sqrt(6)
        if self.variant == "query forgotten":
            scores = (k.sum(-1)[:, None] / math.sqrt(6)).expand_as(scores)
        if mask is not None and self.variant == "additive":
            scores = scores + mask
        elif mask is not None and self.variant == "True is hidden":
            scores = scores.masked_fill(mask[:, None], float("-inf"))
        elif mask is not None and self.variant != "mask of values":
            scores = scores.masked_fill(mask[:, None] == 0, float("-inf"))
        if mask is not None and self.variant == "mask of values":
            v = v * mask[..., None]
        weights = scores.softmax(-1)
        if self.variant == "twice the weights":
            weights = 2 * weights
        if self.variant == "relu":
            weights = scores.relu()
        return (weights, weights @ v) if self.variant == "weights first" else weights @ v


class TorchLayer(nn.Module):
    """A layer on nn.MultiheadAttention."""

    def __init__(self, variant: str = "", width: int = 12, num_heads: int = 3) -> None:
        super().__init__()
        self.variant, self.causal = variant, variant.startswith("causal")
        added = variant == "a zero added"
        self.attention = nn.MultiheadAttention(width, num_heads, dropout=0.1, add_zero_attn=added, batch_first=True)
        self.norm, self.mlp = nn.LayerNorm(width), nn.Sequential(nn.Linear(width, 20), nn.ReLU(), nn.Linear(20, width))
        if variant.endswith("from zero"):  # a copy of the module gets other values
            nn.init.zeros_(self.attention.out_proj.weight)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        length = x.shape[1]
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        hidden = None if padding is None else padding.bool()
        if self.variant == "inverted" and hidden is not None:
            hidden = hidden.roll(1, 1)
        if self.variant == "causal, tril":
            later = ~later
        shown = later if self.causal and self.variant != "causal, forgotten" else None
        if self.variant.startswith("padding forgotten"):
            hidden = None
        rate = self.attention.dropout
        if self.variant == "always training":
            self.attention.train()
        y, _ = self.attention(x, x, x, key_padding_mask=hidden, attn_mask=shown, need_weights=False)
        assert rate == self.attention.dropout
        if self.variant == "block":
            return self.norm(x + y) + self.mlp(self.norm(x + y))
        return y


class Sdpa(nn.Module):
    """A layer on F.scaled_dot_product_attention."""

    def __init__(self, variant: str = "", width: int = 12, num_heads: int = 3) -> None:
        super().__init__()
        self.variant, self.num_heads, self.causal = variant, num_heads, variant.startswith("causal")
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        rows, length, width = x.shape
        parts = self.qkv(x).view(rows, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        if self.variant == "wrong view":
            parts = self.qkv(x).view(3, rows, self.num_heads, length, -1)
        shown = None if mask is None else mask[:, None, None, :].bool().expand(-1, 1, length, -1)
        if self.variant == "causal with padding" and shown is not None:
            shown = shown & torch.ones(length, length, dtype=torch.bool).tril()
        if self.variant == "causal, joined with or" and shown is not None:
            shown = shown | torch.ones(length, length, dtype=torch.bool).tril()
        if self.variant == "float in place of bool" and shown is not None:
            shown = shown.to(x.dtype)
        y = F.scaled_dot_product_attention(
            *parts,
            attn_mask=shown,
            is_causal=self.causal and shown is None,
            dropout_p=0.1 if self.variant == "dropped" else 0.0,
            scale=1.0 if self.variant == "no scale" else width**-0.5 if self.variant == "whole width" else None,
        )
        y = y.reshape(x.shape) if self.variant == "merged wrongly" else y.transpose(1, 2).reshape(x.shape)
        return self.proj(y)


def functional_cross(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, mask)


Made = tuple[tuple[Any, ...], dict[str, Any]]


def made(module: Callable[..., nn.Module], variant: str, kind: str = "self_attention", **options: Any) -> Made:
    causal = {"causal": True} if options.pop("causal", False) else {}
    return (module(variant, **causal), kind), options


def self_layer(module: Callable[..., nn.Module], *variants: str, **options: Any) -> dict[str, Callable[[], Made]]:
    kind = options.pop("kind", "self_attention")
    name = module.__name__
    causal = ", causal" if options.get("causal") else ""
    return {f"{name}: {each or 'plain'}{causal}": partial(made, module, each, kind, **options) for each in variants}


def cases(fault: str, *tables: dict[str, Callable[[], Made]]) -> dict[str, tuple[str, Callable[[], Made]]]:
    return {name: (fault, make) for table in tables for name, make in table.items()}


CROSS = {"kind": "attention"}
FAULTS = {
    **cases(
        "padding_attended",
        self_layer(Loops, "zeroed"),
        self_layer(LoopsOverSource, "weights before the mask", **CROSS),
        self_layer(Matrices, "input times mask", "too weak", "mask of queries", "length statistics"),
        self_layer(TorchLayer, "inverted", "padding forgotten", "padding forgotten, from zero"),
        self_layer(Sdpa, "float in place of bool"),
    ),
    **cases(
        "future_leaked",
        self_layer(Loops, "next", "no triangle", "joined with or"),
        self_layer(Matrices, "joined with or", "length statistics", causal=True),
        self_layer(TorchLayer, "causal, forgotten", "causal, tril"),
        self_layer(Sdpa, "causal, joined with or", "causal only without padding"),
    ),
    **cases(
        "weights_not_normalised",
        self_layer(Loops, "sigmoid"),
        self_layer(Matrices, "sigmoid", "divided by the largest"),
        self_layer(Matrices, "sigmoid", causal=True),
        self_layer(CrossMatrices, "twice the weights", "relu", **CROSS),
    ),
    **cases(
        "softmax_wrong_axis",
        self_layer(LoopsOverSource, "over the batch", **CROSS),
        self_layer(Matrices, "over queries"),
    ),
    **cases(
        "scale_missing", self_layer(Loops, "no scale"), self_layer(Matrices, "no scale"), self_layer(Sdpa, "no scale")
    ),
    **cases(
        "scale_wrong",
        self_layer(Loops, "whole width"),
        self_layer(Matrices, "divided by d_k", "scale after"),
        self_layer(Sdpa, "whole width"),
    ),
    **cases(
        "query_ignored",
        self_layer(LoopsOverSource, "no tanh around the sum", **CROSS),
        self_layer(Matrices, "query forgotten"),
        self_layer(CrossMatrices, "query forgotten", **CROSS),
    ),
    **cases(
        "keys_ignored",
        self_layer(LoopsOverSource, "keys forgotten", **CROSS),
        self_layer(Matrices, "key forgotten"),
    ),
    **cases(
        "mask_after_softmax",
        self_layer(Loops, "after"),
        self_layer(Matrices, "after"),
        self_layer(CrossMatrices, "mask of values", **CROSS),
    ),
    **cases(
        "heads_mixed",
        self_layer(Loops, "wrong view"),
        self_layer(Matrices, "merged wrongly"),
        self_layer(Sdpa, "wrong view", "merged wrongly"),
    ),
    **cases("batch_mixed", self_layer(Matrices, "batch statistics", "normalised over the batch")),
    **cases(
        "dropout_in_eval",
        self_layer(Matrices, "dropped"),
        self_layer(TorchLayer, "always training"),
        self_layer(Sdpa, "dropped"),
    ),
    **cases("real_positions_masked", self_layer(Matrices, "without itself", causal=True)),
}
ALLOWED_TOO = {  # names of a second finding that is as true
    "Loops: joined with or": "padding_attended",
    "Matrices: joined with or, causal": "padding_attended",
    "Sdpa: causal, joined with or": "padding_attended",
    "Matrices: length statistics, causal": "padding_attended",
}
RIGHT = {
    **self_layer(Loops, "", "both ways"),
    **self_layer(LoopsOverSource, "", "weights first", **CROSS),
    **self_layer(
        Matrices,
        *("", "rotary", "grouped queries", "scale before", "linear biases", "window", "infinite with nan_to_num"),
        *("in float32", "in bfloat16", "by hand", "by logarithm", "normalised again", "block", "inverted"),
        *("squares, by a power", "by einsum", "divided after the values"),
    ),
    **self_layer(
        Matrices,
        *("", "rotary", "scale before", "linear biases", "infinite with nan_to_num", "in float32", "by hand"),
        causal=True,
    ),
    **self_layer(CrossMatrices, "", "additive", "True is hidden", "weights first", **CROSS),
    **self_layer(TorchLayer, "", "block", "causal", "a zero added"),
    **self_layer(Sdpa, "", "causal with padding"),
    "function of torch": lambda: ((functional_cross, "attention"), {}),
    "value of another width": lambda: ((nn.MultiheadAttention(8, 2, vdim=6), "attention"), {}),
    "key of another width": lambda: ((nn.MultiheadAttention(8, 2, kdim=5, vdim=6, batch_first=True), "attention"), {}),
}
