"""Scores of self-attention in forms that torch and books have: with a mask added, multiplied, or put in later."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (its usual name)

WIDTH, HEADS = 12, 3


class Scores(nn.Module):
    """Self-attention of several heads; ``form`` says how its scores become weights."""

    bias: Tensor

    def __init__(self, form: str, num_heads: int = HEADS) -> None:
        super().__init__()
        self.form, self.num_heads = form, num_heads
        self.qkv, self.o = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("bias", torch.randn(num_heads, 64, 64))

    def weights(self, q: Tensor, k: Tensor) -> Tensor:
        """The weights (B * H, T, T) of queries and keys (B * H, T, D)."""
        length, scale = q.shape[1], q.shape[-1] ** -0.5
        triangle = torch.ones(length, length, dtype=q.dtype).tril()
        bias = self.bias[:, :length, :length].to(q.dtype).repeat(len(q) // self.num_heads, 1, 1)
        if self.form == "added bias":
            return torch.baddbmm(bias, q, k.mT, alpha=scale).softmax(-1)
        if self.form == "added bias, without a scale":
            return torch.baddbmm(bias, q, k.mT).softmax(-1)
        if self.form == "bias that adds them":
            return bias.baddbmm(batch1=q, batch2=k.mT, alpha=scale).softmax(-1)
        if self.form == "added mask":
            return torch.baddbmm(triangle.log().expand_as(bias), q, k.mT, alpha=scale).softmax(-1)
        scores = q @ k.mT * scale
        if self.form == "multiplied scores":
            return (scores * triangle).softmax(-1)
        weights = scores.softmax(-1) * triangle
        return weights / weights.sum(-1, keepdim=True)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (
            part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2).flatten(0, 1)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        out = (self.weights(q, k) @ v).unflatten(0, (-1, self.num_heads)).transpose(1, 2)
        if self.form == "divided again, without the last head":
            out = torch.cat([out[:, :, :-1], out[:, :, :1]], dim=2)
        return self.o(out.flatten(2))


class CausalTorch(nn.Module):
    """torch's own module with a causal mask, and with the weights that it returns by default."""

    def __init__(self, of_floats: bool = False) -> None:
        super().__init__()
        self.of_floats, self.inner = of_floats, nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.full((x.shape[1], x.shape[1]), float("-inf"), dtype=x.dtype).triu(diagonal=1)
        out: Tensor = self.inner(x, x, x, attn_mask=mask if self.of_floats else mask < 0)[0]
        return out


class Kept(nn.Module):
    """It keeps its weights to be drawn; they have a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.kept = nn.Linear(WIDTH, 3 * WIDTH), list[Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        self.attention = (q @ k.mT / math.sqrt(WIDTH)).softmax(-1)
        self.kept.append(self.attention)
        return self.attention @ v


def called_before() -> Kept:
    module = Kept()
    module(torch.randn(2, 4, WIDTH))
    return module


class Leaks(nn.Module):
    """A language model that sees later words, and so padding, too."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault, self.embed, self.out = fault, nn.Embedding(17, 6), nn.Linear(6, 17)
        self.conv = nn.Conv1d(6, 6, 3)
        self.rnn = nn.GRU(6, 3, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        if self.fault == "both directions":
            x = self.rnn(x)[0]
        if self.fault == "mean over time":
            x = x + x.mean(dim=1, keepdim=True)
        if self.fault == "convolution":
            x = self.conv(F.pad(x.mT, (1, 1))).mT
        if self.fault == "attention":
            x = x + (x @ x.mT / math.sqrt(6)).softmax(-1) @ x
        return self.out(x)
