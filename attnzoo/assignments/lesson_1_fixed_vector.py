"""Lesson 1: read a sentence into one vector. Write ``forward``.

The sentences of a batch have different lengths, so short ones end with padding, the id 0. The vector of a sentence must
not depend on its padding, nor on the other sentences of the batch.

Dimensions: B batch, S longest sentence of the batch, H hidden size.
"""

from torch import Tensor, nn


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
        """Read the sentences.

        Args:
            ids: (B, S), the words; 0 is padding, at the end
            lengths: (B,), the number of words of each sentence, in any order

        Returns:
            (B, 2H): the state of the forward GRU after the last word, concatenated with the state of the backward GRU
            after the first word
        """
        raise NotImplementedError("write forward")
