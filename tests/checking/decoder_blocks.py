"""Decoder blocks (x, memory, masks) as courses write them: how the future is hidden from x differs."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

WIDTH, HEADS = 12, 3


class Heads(nn.Module):
    """Attention with several heads; a mask is 1 where attention is allowed, and ``guarded`` code also takes None."""

    def __init__(self, guarded: bool = True) -> None:
        super().__init__()
        self.guarded = guarded
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (
            part(each).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part, each in ((self.q, query), (self.k, key), (self.v, value))
        )
        scores = q @ k.mT / math.sqrt(WIDTH // HEADS)
        if mask is not None or not self.guarded:
            scores = scores.masked_fill(mask == 0, -1e9)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    """The parts of a block. ``fault`` says what its author did wrong."""

    def __init__(self, fault: str = "", guarded: bool = True) -> None:
        super().__init__()
        self.fault = fault
        self.own, self.cross, self.norm = Heads(guarded), Heads(guarded), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 20), nn.ReLU(), nn.Linear(20, WIDTH))

    def run(self, x: Tensor, memory: Tensor, mask: Tensor | None, memory_mask: Tensor | None) -> Tensor:
        x = x + self.own(x, x, x, mask)
        x = self.norm(x + self.cross(x, memory, memory, memory_mask))
        return x + self.mlp(x)


class OwnTriangle(Block):
    def forward(self, x: Tensor, memory: Tensor, memory_mask: Tensor | None = None) -> Tensor:
        triangle = torch.ones(x.shape[1], x.shape[1]).tril({"": 0, "one too many": 1, "none": 99}[self.fault])
        return self.run(x, memory, triangle, None if memory_mask is None else memory_mask[:, None, None])


class TwoMasks(Block):
    def forward(
        self, x: Tensor, memory: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        return self.run(x, memory, None if self.fault else tgt_mask, src_mask)


class NeedsMasks(Block):
    """Its masks have no default, and None raises an error."""

    def forward(self, trg: Tensor, enc_src: Tensor, trg_mask: Tensor, src_mask: Tensor) -> Tensor:
        return self.run(trg, enc_src, torch.ones_like(trg_mask) if self.fault else trg_mask, src_mask)


class AfterSoftmax(Block):
    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        weights = (self.own.q(x) @ self.own.k(x).mT / math.sqrt(WIDTH)).softmax(-1).tril()
        return self.run(x + weights @ x, memory, torch.ones(x.shape[1], x.shape[1]).tril(), None)


class WithoutItself(Block):
    """It forgets the attention of x to x."""

    def forward(self, x: Tensor, memory: Tensor, memory_mask: Tensor | None = None) -> Tensor:
        return x + self.cross(x, memory, memory, None if memory_mask is None else memory_mask[:, None, None])


class Triangle(Heads):
    """Attention of query, key and value that is always causal."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        shown = torch.ones(query.shape[1], key.shape[1]).tril()
        return super().forward(query, key, value, shown if mask is None else shown * mask[:, None, None])


class PaddingAlone(Heads):
    """It takes a mask of keys (B, S), which cannot hide the future."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_mask: Tensor | None = None) -> Tensor:
        return super().forward(query, key, value, None if key_mask is None else key_mask[:, None, None])


def torch_layer(batch_first: bool) -> nn.Module:
    return nn.TransformerDecoderLayer(WIDTH, HEADS, 20, batch_first=batch_first)


CAUSAL: dict[str, Callable[[], Any]] = {
    "a triangle of its own": OwnTriangle,
    "two masks": TwoMasks,
    "two masks that it needs": lambda: NeedsMasks(guarded=False),
    "torch's layer": lambda: torch_layer(True),
    "torch's layer, time first": lambda: torch_layer(False),
    "attention with a triangle": Triangle,
    "attention with a mask of pairs": Heads,
    "torch's attention": lambda: nn.MultiheadAttention(WIDTH, HEADS, batch_first=True),
    "torch's function": lambda: nn.functional.scaled_dot_product_attention,
}
LEAKY: dict[str, Callable[[], Any]] = {
    "no triangle": lambda: OwnTriangle("none"),
    "one too many": lambda: OwnTriangle("one too many"),
    "a mask that is ignored": lambda: TwoMasks("ignored"),
    "a needed mask that is ignored": lambda: NeedsMasks("ignored", guarded=False),
    "after the softmax": AfterSoftmax,
    "attention that hides padding alone": PaddingAlone,
}
