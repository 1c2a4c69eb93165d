"""Lesson 2: Bahdanau's attention, for all queries of a batch at once. A solution.

Dimensions: B batch, T queries, S keys, Q width of a query, K width of a key, A width of the hidden layer.
"""

import torch
from torch import Tensor, nn


class AdditiveAttention(nn.Module):
    """Additive attention, with one hidden layer as its score."""

    def __init__(self, query_size: int = 8, key_size: int = 6, attention_size: int = 5):
        super().__init__()
        self.w = nn.Linear(query_size, attention_size, bias=False)
        self.u = nn.Linear(key_size, attention_size, bias=False)
        self.v = nn.Linear(attention_size, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The context (B, T, K) and the weights (B, T, S)."""
        pairs = torch.tanh(self.w(query).unsqueeze(2) + self.u(keys).unsqueeze(1))  # (B, T, S, A)
        scores = self.v(pairs).squeeze(-1)  # (B, T, S)
        weights = scores.masked_fill(~mask.unsqueeze(1), float("-inf")).softmax(dim=-1)
        return weights @ keys, weights
