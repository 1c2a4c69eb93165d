"""Lesson 5: the self-attention of a Transformer's decoder, with several heads. A solution.

Dimensions: B batch, T words, D width of a word, N heads, H width of one head, D / N.
"""

import math

import torch
from torch import Tensor, nn


class CausalSelfAttention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, width: int = 12, num_heads: int = 3):
        super().__init__()
        self.num_heads = num_heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """The output (B, T, D)."""
        rows, length, width = x.shape
        parts = (self.query(x), self.key(x), self.value(x))
        query, key, value = (part.view(rows, length, self.num_heads, -1).transpose(1, 2) for part in parts)
        scores = query @ key.mT / math.sqrt(key.shape[-1])  # (B, N, T, T)
        is_seen = mask[:, None, None] & torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        # Not -inf: padding before the first word sees nothing, and its weights would be NaN.
        weights = scores.masked_fill(~is_seen, torch.finfo(scores.dtype).min).softmax(dim=-1)
        return self.out((weights @ value).transpose(1, 2).reshape(rows, length, width))
