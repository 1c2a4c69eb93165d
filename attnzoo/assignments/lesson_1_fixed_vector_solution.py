"""Lesson 1: read a sentence into one vector. A solution.

Dimensions: B batch, S longest sentence of the batch, E width of an embedding, H hidden size.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence


class Encoder(nn.Module):
    """A bidirectional GRU. The last states of both directions are the vector of a sentence.

    Cho et al. (2014, section 2.2) use one direction.
    """

    def __init__(self, vocab_size: int = 20, embedding_size: int = 8, hidden_size: int = 6):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        self.dropout = nn.Dropout(0.1)
        self.gru = nn.GRU(embedding_size, hidden_size, batch_first=True, bidirectional=True)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """The last states, (B, 2H), of ids (B, S) with lengths (B,)."""
        embedded = self.dropout(self.embedding(ids))  # (B, S, E)
        packed = pack_padded_sequence(embedded, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, states = self.gru(packed)  # (2, B, H)
        return torch.cat([states[0], states[1]], dim=-1)
