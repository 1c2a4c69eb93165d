"""Lesson 3: Luong's decoder, which trains on a whole target at once and generates word by word.

Write ``forward``, ``step`` and ``reorder``. Both ways must give the same logits:

    h_t = GRU(embedding of word t, h_{t-1})
    score of key s = h_t · W key_s
    context = sum of the keys, weighted by the softmax of their scores
    logits = V tanh(C [context; h_t])                    (Luong et al., 2015, equations 5 to 8)

Dimensions: B batch, T length of the target, S length of the source, D width, V vocabulary.
"""

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
        """Return the state before the first word. This method is complete; do not change it.

        Args:
            source: (B, S), ids
            source_mask: (B, S), 1 on words, 0 on padding

        Returns:
            ``hidden`` (B, D), h_0; ``keys`` (B, S, D), and ``mask`` (B, S), bool
        """
        keys, mask = self.source_embedding(source), source_mask.bool()
        return {"hidden": (keys * mask.unsqueeze(-1)).sum(1).tanh(), "keys": keys, "mask": mask}

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> Tensor:
        """Decode a whole target (B, T), with one call of the GRU and no loop.

        Returns:
            the logits after each word of the target, (B, T, V)
        """
        raise NotImplementedError("write forward")

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Decode one word (B,). Return a new state, and leave the one given as it is: a search may use it again.

        Returns:
            the logits (B, V), and the state after this word
        """
        raise NotImplementedError("write step")

    def reorder(self, state: State, rows: Tensor) -> State:
        """Reorder the state: row i of the new one is row ``rows[i]`` of the given one.

        A beam search calls it after it chose its hypotheses.
        """
        raise NotImplementedError("write reorder")
