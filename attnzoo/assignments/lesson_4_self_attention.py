"""Lesson 4: a sentence attends to itself. Write ``forward``.

Every word is a query, a key and a value. The score of query t and key s is their dot product, divided by the square
root of their width (Vaswani et al., 2017, section 3.2.1). Padding gets the weight 0. Do not use a loop, nor
``scaled_dot_product_attention``.

Dimensions: B batch, T words, D width of a word, K width of a query and of a key.
"""

from torch import Tensor, nn


class SelfAttention(nn.Module):
    """Self-attention with one head, whose queries and keys are narrower than its words."""

    def __init__(self, width: int = 12, key_size: int = 5):
        super().__init__()
        self.query = nn.Linear(width, key_size)
        self.key = nn.Linear(width, key_size)
        self.value = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Attend to all words.

        Args:
            x: (B, T, D)
            mask: (B, T), bool: True on words, False on padding

        Returns:
            the output (B, T, D), and the weights (B, T, T): weights[b, t, s] is that of key s for query t
        """
        raise NotImplementedError("write forward")
