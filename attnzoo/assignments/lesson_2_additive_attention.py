"""Lesson 2: Bahdanau's attention, for all queries of a batch at once. Write ``forward``.

The score of query t and key s is ``v · tanh(W query_t + U key_s)`` (Bahdanau et al., 2014, appendix A.1.2). The softmax
of the scores over s gives the weights, and the context of query t is the weighted sum of the keys. Padding gets the
weight 0. Do not use a loop.

Dimensions: B batch, T queries, S keys, Q width of a query, K width of a key, A width of the hidden layer.
"""

from torch import Tensor, nn


class AdditiveAttention(nn.Module):
    """Additive attention, with one hidden layer as its score."""

    def __init__(self, query_size: int = 8, key_size: int = 6, attention_size: int = 5):
        super().__init__()
        self.w = nn.Linear(query_size, attention_size, bias=False)
        self.u = nn.Linear(key_size, attention_size, bias=False)
        self.v = nn.Linear(attention_size, 1, bias=False)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Attend to the keys.

        Args:
            query: (B, T, Q)
            keys: (B, S, K)
            mask: (B, S), bool: True on words, False on padding

        Returns:
            the context (B, T, K), and the weights (B, T, S)
        """
        raise NotImplementedError("write forward")
