"""The equations of ``attention.py`` as graphs: scores, windows, the masked softmax and the weighted sum.

Dimensions: B batch, T queries of a row, S source length, A attention width, H query width, V value width.
"""

from typing import Any, NamedTuple

import numpy as np

from ..attention import (
    AdditiveScore,
    DotScore,
    GeneralScore,
    LocationScore,
    MonotonicWindow,
    PredictiveWindow,
    SourceAttention,
)
from .graph import BOOL, FLOAT, Graph, numbers

LOWEST = np.finfo(np.float32).min
# Those that :meth:`AttentionGraph.scores` and :meth:`AttentionGraph.windows` compute.
SCORES = (DotScore, GeneralScore, AdditiveScore, LocationScore)
WINDOWS = (MonotonicWindow, PredictiveWindow)


def attend(g: Graph, scores: str, value: str, mask: str | None, reweight: str | None = None) -> tuple[str, str]:
    """:func:`attnzoo.attention.attend`: context (..., T, V) and weights (..., T, S); 0 where ``mask`` is False."""
    if mask is not None:
        scores = g.op("Where", mask, scores, LOWEST)
    weights = g.op("Softmax", scores, axis=-1)
    if mask is not None:  # all weights of a row with nothing to attend to are 0
        weights = g.op("Where", mask, weights, np.float32(0))
    if reweight is not None:
        weights = g.op("Mul", weights, reweight)
    return g.op("MatMul", weights, value), weights


class Positions(NamedTuple):
    """The rank of every token among the real tokens of its row (B, S), and how many there are (B, 1); int64.

    See :func:`attnzoo.attention.source_positions`.
    """

    ranks: str
    length: str

    @classmethod
    def of(cls, g: Graph, attention_mask: str) -> "Positions":
        count = g.op("CumSum", attention_mask, [1])
        ranks = g.op("Max", g.op("Sub", count, [1]), [0])
        return cls(ranks, g.op("ReduceSum", attention_mask, [1], keepdims=1))


class AttentionGraph:
    """:class:`attnzoo.attention.SourceAttention` as a graph, with a score of ``SCORES`` and a window of ``WINDOWS``."""

    def __init__(self, attention: SourceAttention) -> None:
        self.score: Any = attention.score
        self.window: Any = attention.window
        self.key_proj = getattr(self.score, "key_proj", None)  # None for a score that does not project the key

    def __call__(self, g: Graph, query: str, source: dict[str, str], number: str | None) -> tuple[str, str]:
        """Context (B, T, V) and weights (B, T, S) of the queries (B, T, H) of step ``number`` (R,)."""
        scores = self.scores(g, query, source)
        # What is the same at every step of a loop is computed in the root graph.
        mask, reweight = g.root.unsqueeze(g.root.op("Cast", source["attention_mask"], to=BOOL), 1), None  # (B, 1, S)
        if isinstance(self.score, LocationScore):
            rows = len(self.score.position_key)
            inside = g.op("Less", self.positions(g, source).ranks, [rows])
            mask = g.op("And", mask, g.unsqueeze(inside, 1))
        if self.window is not None:
            window_mask, reweight = self.windows(g, query, self.positions(g, source), number)
            mask = g.op("And", mask, window_mask)
        return attend(g, scores, source["values"], mask, reweight)

    def scores(self, g: Graph, query: str, source: dict[str, str]) -> str:
        """(B, T, S)"""
        score = self.score
        if isinstance(score, AdditiveScore):  # v . tanh(W q + U k)
            query = g.unsqueeze(g.linear(query, score.query_proj), 2)  # (B, T, 1, A)
            pairs = g.op("Tanh", g.op("Add", query, g.unsqueeze(source["keys"], 1)))  # (B, T, S, A)
            return g.op("MatMul", pairs, numbers(score.score_vector))
        if isinstance(score, LocationScore):
            rows = g.product(query, score.position_key)  # (B, T, positions)
            last = [len(score.position_key) - 1]
            ranks = g.unsqueeze(g.op("Min", self.positions(g, source).ranks, last), 1)  # (B, 1, S)
            shape = g.op("Concat", g.size(query, 0), g.size(query, 1), g.size(ranks, 2), axis=0)
            return g.op("GatherElements", rows, g.op("Expand", ranks, shape), axis=2)
        keys = source.get("keys", source["values"])
        return g.op("MatMul", query, g.op("Transpose", keys, perm=[0, 2, 1]))

    def windows(self, g: Graph, query: str, positions: Positions, number: str | None) -> tuple[str, str | None]:
        """The mask (B, T, S) of a window of ``WINDOWS``, and for local-p the Gaussian."""
        window = self.window
        if isinstance(window, PredictiveWindow):
            logit = g.linear(g.op("Tanh", g.linear(query, window.query_proj)), window.position_proj)  # (B, T, 1)
            length = g.unsqueeze(g.op("Cast", positions.length, to=FLOAT), 2)  # (B, 1, 1)
            aligned = g.op("Mul", length, g.op("Sigmoid", logit))
        else:  # all rows are at the same step
            last = g.op("Max", g.op("Sub", positions.length, [1]), [0])
            now = g.op("ReduceMax", number, [0], keepdims=1)  # (1,)
            aligned = g.op("Cast", g.unsqueeze(g.op("Min", now, last), 2), to=FLOAT)  # (B, 1, 1)
        ranks = g.op("Cast", g.unsqueeze(positions.ranks, 1), to=FLOAT)
        distance = g.op("Sub", ranks, aligned)  # (B, T, S)
        mask = g.op("LessOrEqual", g.op("Abs", distance), np.float32(window.window_size))
        if not isinstance(window, PredictiveWindow):
            return mask, None
        square = g.op("Mul", distance, distance)
        return mask, g.op("Exp", g.op("Div", square, np.float32(-2 * (window.window_size / 2) ** 2)))

    def positions(self, g: Graph, source: dict[str, str]) -> Positions:
        return Positions.of(g.root, source["attention_mask"])
