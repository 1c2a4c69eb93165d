"""Lesson 5: the self-attention of a Transformer's decoder, with several heads. Write ``forward``.

Each head attends with its own part of query, key and value, of the width H (Vaswani et al., 2017, section 3.2.2). A
word sees itself and the words before it. Padding gets the weight 0. Do not use a loop, ``nn.MultiheadAttention`` nor
``scaled_dot_product_attention``.

Dimensions: B batch, T words, D width of a word, N heads, H width of one head, D / N.
"""

from torch import Tensor, nn


class CausalSelfAttention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, width: int = 12, num_heads: int = 3):
        super().__init__()
        self.num_heads = num_heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Let each word attend to itself and the words before it.

        Args:
            x: (B, T, D)
            mask: (B, T), bool: True on words, False on padding

        Returns:
            (B, T, D)
        """
        raise NotImplementedError("write forward")
