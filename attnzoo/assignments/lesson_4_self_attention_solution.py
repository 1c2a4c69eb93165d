"""Lesson 4: a sentence attends to itself. A solution.

Dimensions: B batch, T words, D width of a word, K width of a query and of a key.
"""

import math

from torch import Tensor, nn


class SelfAttention(nn.Module):
    """Self-attention with one head, whose queries and keys are narrower than its words."""

    def __init__(self, width: int = 12, key_size: int = 5):
        super().__init__()
        self.query = nn.Linear(width, key_size)
        self.key = nn.Linear(width, key_size)
        self.value = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The output (B, T, D) and the weights (B, T, T)."""
        query, key, value = self.query(x), self.key(x), self.value(x)
        scores = query @ key.mT / math.sqrt(key.shape[-1])  # (B, T, T)
        weights = scores.masked_fill(~mask.unsqueeze(1), float("-inf")).softmax(dim=-1)
        return weights @ value, weights
