"""Lesson 3: Luong's decoder, which trains on a whole target at once and generates word by word. A solution.

Dimensions: B batch, T length of the target, S length of the source, D width, V vocabulary.
"""

import torch
from torch import Tensor, nn

State = dict[str, Tensor]


class LuongDecoder(nn.Module):
    """A decoder with the score ``general``, without input feeding."""

    def __init__(self, vocab_size: int = 20, size: int = 8):
        super().__init__()
        self.source_embedding = nn.Embedding(vocab_size, size)
        self.embedding = nn.Embedding(vocab_size, size)
        self.gru = nn.GRU(size, size, batch_first=True)
        self.general = nn.Linear(size, size, bias=False)
        self.combine = nn.Linear(2 * size, size, bias=False)
        self.out = nn.Linear(size, vocab_size)

    def start(self, source: Tensor, source_mask: Tensor) -> State:
        """The state before the first word."""
        keys, mask = self.source_embedding(source), source_mask.bool()
        return {"hidden": (keys * mask.unsqueeze(-1)).sum(1).tanh(), "keys": keys, "mask": mask}

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """The logits (B, T, V) after each word of a target (B, T)."""
        return self.decode(target, self.start(source, source_mask))[0]

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """The logits (B, V) after one word (B,), and the next state."""
        logits, state = self.decode(tokens.unsqueeze(1), state)
        return logits.squeeze(1), state

    def decode(self, target: Tensor, state: State) -> tuple[Tensor, State]:
        """The logits (B, T, V) of any number of words (B, T), and the state after them."""
        hidden, last = self.gru(self.embedding(target), state["hidden"].unsqueeze(0))  # (B, T, D), (1, B, D)
        scores = hidden @ self.general(state["keys"]).mT  # (B, T, S)
        weights = scores.masked_fill(~state["mask"].unsqueeze(1), float("-inf")).softmax(dim=-1)
        context = weights @ state["keys"]  # (B, T, D)
        logits = self.out(torch.tanh(self.combine(torch.cat([context, hidden], dim=-1))))
        return logits, {**state, "hidden": last.squeeze(0)}

    def reorder(self, state: State, rows: Tensor) -> State:
        """Every tensor of the state, with its rows chosen."""
        return {name: value[rows] for name, value in state.items()}
