r"""Every attention mechanism of the zoo: score, mask, normalise, sum.

The mechanisms differ in where query, key and value come from, and in which of two kernels scores them:
:func:`dot_score` (Luong et al., 2015; Lin et al., 2017; Vaswani et al., 2017) or :func:`additive_score`
(Bahdanau et al., 2014; Luong's concat). :func:`attend` does the rest for all of them:

.. math:: c_t = \sum_s \mathrm{softmax}_s(\mathrm{score}(q_t, k_s)) \; v_s

Dimensions: B batch, H heads, T target length (queries), S source length (keys), A attention width, V value
width, R hops. "..." stands for (B,), or (B, H) where there are heads. Masks are bool, True = attend.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .fast_additive import fast_additive_score
from .fast_products import linear
from .packed_rows import PackedRows
from .step_products import StepProducts, multiply


def dot_score(query: Tensor, key: Tensor, scale: float = 1.0) -> Tensor:
    r"""Dot-product score (Luong et al., 2015, section 3.1; Vaswani et al., 2017, section 3.2.1).

    .. math:: e_{ts} = \mathrm{scale} \cdot q_t^\top k_s

    Shape:
        - query: (..., T, A)
        - key: (..., S, A)
        - returns: (..., T, S)
    """
    return multiply(query if scale == 1.0 else query * scale, key.mT)


def additive_score(query: Tensor, key: Tensor, vector: Tensor) -> Tensor:
    r"""Additive score (Bahdanau et al., 2014, appendix A.1.2), query and key already projected.

    .. math:: e_{ts} = v^\top \tanh(q_t + k_s)

    This is the formula, which holds the sums of all pairs, (..., T, S, A), in memory. The models call
    :func:`fast_additive_score`, which computes the same without them; ``tests/attention/test_attention.py`` compares
    both.

    Shape:
        - query: (..., T, A)
        - key: (..., S, A)
        - vector: (A,)
        - returns: (..., T, S)
    """
    return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ vector


def masked_softmax(scores: Tensor, mask: Tensor | None = None) -> Tensor:
    """Softmax over the source, in float32 at least, exactly 0 where ``mask`` is False.

    A row with nothing to attend to gives zeros, never NaN. With a mask, a score of -inf counts as masked.

    Shape:
        - scores: (..., T, S)
        - mask: broadcastable to (..., T, S)
        - returns: (..., T, S), float32 or float64

    Raises:
        TypeError: if ``mask`` is not bool (the 0/1 and 0/-inf conventions cannot be told apart).
    """
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if mask is None:
        return scores.softmax(dim=-1)
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be a bool tensor, True where a token may be attended to; got {mask.dtype}")
    # The most negative finite number instead of -inf keeps a fully masked row finite; the second fill makes it zeros.
    excluded = ~mask | (scores == -math.inf)
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(excluded, lowest).softmax(dim=-1).masked_fill(excluded, 0.0)


def attend(
    scores: Tensor, value: Tensor, mask: Tensor | None = None, reweight: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    r"""Mask, normalise, sum: :math:`c_t = \sum_s a_{ts} v_s`.

    ``reweight`` multiplies the weights after the softmax, without normalising again (Luong's local-p Gaussian);
    ``dropout`` is the rate on the weights in the sum, 0 outside training. The weights come back as they were before
    dropout.

    Shape:
        - scores: (..., T, S)
        - value: (..., S, V)
        - mask, reweight: broadcastable to (..., T, S)
        - returns: context (..., T, V), attention_weights (..., T, S)

    Raises:
        TypeError: if ``mask`` is not bool.
    """
    attention_weights = masked_softmax(scores, mask)
    if reweight is not None:
        attention_weights = attention_weights * reweight
    used = nn.functional.dropout(attention_weights, dropout) if dropout else attention_weights
    return multiply(used.to(value.dtype), value), attention_weights


def source_positions(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Rank of every source token among the real tokens of its row, and how many real tokens the row has.

    Padding may be on the left, on the right or in between. A padding token has no rank: the number at its place is
    meaningless.

    Shape:
        - mask: (B, S)
        - returns: positions (B, S) int64 from 0, length (B,) int64
    """
    return mask.cumsum(dim=-1).sub(1).clamp_(min=0), mask.sum(dim=-1)


class Score(nn.Module):
    """A score function. A subclass is one formula; a line in :data:`SCORES` gives it a name in the config.

    A subclass defines :meth:`forward`, and :meth:`project_key` if the key is projected. It calls its linear layers and
    does not read their weights: in training a decoder's loop then makes one gradient for all steps, and
    ``search()`` replaces the layers by functions, which have no ``weight``. It may own other
    parameters, whose gradients are added step by step; :meth:`init_weights` then sets their first values. Its layers
    begin as those of the model. A subclass whose key has a faster form in a loop can override
    :meth:`key_for_steps`, too. A call may have any number of queries.

    Shape:
        - query: (B, T, query_size)
        - key: (B, S, key_size); positions: (B, S), from :func:`source_positions`
        - projected_key: (B, S, ...), from :meth:`project_key`, once per source
        - returns: scores (B, T, S), before mask and softmax; -inf counts as masked
    """

    def init_weights(self) -> None:
        """Set the first values of the parameters that the score owns, not of its layers.

        Raises:
            NotImplementedError: the subclass owns parameters and does not say how they begin.
        """
        names = ", ".join(name for name, _ in self.named_parameters(recurse=False))
        raise NotImplementedError(
            f"{type(self).__name__} owns {names} and has no init_weights(), which sets their first values; define it, "
            "with functions of torch.nn.init"
        )

    def project_key(self, key: Tensor, positions: Tensor) -> Tensor:
        """The part of the formula that depends on the source alone."""
        return key

    def key_for_steps(self, projected_key: Tensor, products: StepProducts) -> Any:
        """The argument ``projected_key`` of :meth:`forward` in a loop; by default the key itself."""
        return projected_key

    def forward(self, query: Tensor, projected_key: Tensor) -> Tensor:
        """The scores of every query and key: the formula."""
        raise NotImplementedError


class DotScore(Score):
    r"""Luong's dot score (Luong et al., 2015, section 3.1, "dot").

    .. math:: \mathrm{score}(h_t, \bar h_s) = h_t^\top \bar h_s

    Symbols: :math:`h_t` is ``query``, :math:`\bar h_s` is ``key``. No parameters; both must have the same width.

    Shape:
        - query: (B, T, query_size)
        - projected_key: (B, S, key_size), the key itself
        - returns: scores (B, T, S), before mask and softmax

    Raises:
        ValueError: if ``query_size`` and ``key_size`` differ.
    """

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        if query_size != key_size:
            raise ValueError(
                f"the dot score needs query and key of one width, got {query_size} and {key_size}; "
                "the general score maps one onto the other"
            )

    def key_for_steps(self, projected_key: Tensor, products: StepProducts) -> Any:
        return products.factor(projected_key)

    def forward(self, query: Tensor, projected_key: Tensor) -> Tensor:
        return dot_score(query, projected_key)


class GeneralScore(DotScore):
    r"""Luong's general score (Luong et al., 2015, section 3.1, "general"): the dot score of a projected key.

    .. math:: \mathrm{score}(h_t, \bar h_s) = h_t^\top W_a \bar h_s

    Symbols: :math:`h_t` is ``query``, :math:`\bar h_s` is ``key``, :math:`W_a` is the weight of ``key_proj``. It is
    applied to the key, once per source, and not to the query at every step.

    Shape:
        - query: (B, T, query_size)
        - projected_key: (B, S, query_size), from :meth:`project_key`
        - returns: scores (B, T, S), before mask and softmax
    """

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, query_size)  # of the query and the projected key
        self.key_proj = nn.Linear(key_size, query_size, bias=False)

    def project_key(self, key: Tensor, positions: Tensor) -> Tensor:
        return linear(self.key_proj, key)


class AdditiveScore(Score):
    r"""Additive alignment score (Bahdanau et al., 2014, appendix A.1.2); Luong's concat (2015, section 3.1) is the same
    function.

    .. math:: e_{ij} = v_a^\top \tanh(W_a s_{i-1} + U_a h_j)

    Symbols: :math:`s_{i-1}` is ``query``, :math:`h_j` is ``key``; :math:`W_a, U_a` are the weights of ``query_proj``
    and ``key_proj``, without bias, and :math:`v_a` is ``score_vector``. Luong's concat,
    :math:`v_a^\top \tanh(W_a [h_t; \bar h_s])`, is this with his :math:`W_a` cut into its left half (``query_proj``)
    and its right half (``key_proj``).

    With ``coverage`` (See et al., 2017, equation 11) a token's score also depends on the attention :math:`c_{ij}` that
    it had in all earlier steps. :math:`w_c` is ``coverage_vector``:

    .. math:: e_{ij} = v_a^\top \tanh(W_a s_{i-1} + U_a h_j + w_c c_{ij})

    Shape:
        - query: (B, T, query_size)
        - projected_key: (B, S, attention_size), from :meth:`project_key`, once per source
        - coverage: (B * N, S) for N targets of every source, whose queries are (B * N, 1, query_size); or None
        - returns: scores (B, T, S), before mask and softmax; with coverage (B * N, 1, S)
    """

    def __init__(self, query_size: int, key_size: int, attention_size: int, coverage: bool = False) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_size, attention_size, bias=False)
        self.key_proj = nn.Linear(key_size, attention_size, bias=False)
        # ``forward`` reads this vector itself. Accelerate loads offloaded weights only of a module that is called, so
        # the vector belongs to this module and not to a Linear.
        self.score_vector = nn.Parameter(torch.zeros(attention_size))
        self.coverage_vector = nn.Parameter(torch.zeros(attention_size)) if coverage else None

    def project_key(self, key: Tensor, positions: Tensor) -> Tensor:
        return linear(self.key_proj, key)

    def key_for_steps(self, projected_key: Tensor, products: StepProducts) -> Any:
        return products.additive_key(projected_key)

    def forward(self, query: Tensor, projected_key: Tensor, coverage: Tensor | None = None) -> Tensor:
        if coverage is not None and self.coverage_vector is not None:
            targets = coverage.shape[0] // projected_key.shape[0]
            key = projected_key if targets == 1 else projected_key.repeat_interleave(targets, dim=0)
            projected_key = key + coverage.unsqueeze(-1) * self.coverage_vector  # (B * N, S, A)
        return fast_additive_score(self.query_proj(query), projected_key, self.score_vector)


class LocationScore(Score):
    r"""Luong's location score (Luong et al., 2015, section 3.1, "location"): it depends on the target state alone.

    .. math:: a_t = \mathrm{softmax}(W_a h_t)

    Symbols: :math:`h_t` is ``query``; row s of :math:`W_a` is row s of ``position_key``, the learned key of source
    position s. A source shorter than ``max_source_positions`` uses the first rows. Tokens past the last row have the
    score -inf and get no weight: the paper ignores the end of long sentences.

    Shape:
        - query: (B, T, query_size)
        - projected_key: (B, S) int64, the position of every source token: here the position is the key
        - returns: scores (B, T, S), before mask and softmax
    """

    def __init__(self, query_size: int, max_source_positions: int) -> None:
        super().__init__()
        self.position_key = nn.Parameter(torch.zeros(max_source_positions, query_size))

    def project_key(self, key: Tensor, positions: Tensor) -> Tensor:
        return positions

    def forward(self, query: Tensor, projected_key: Tensor) -> Tensor:
        scores = dot_score(query, self.position_key)  # (B, T, max_source_positions)
        scores = nn.functional.pad(scores, (0, 1), value=-math.inf)  # one more entry, for every position past the last
        positions = projected_key.clamp(max=len(self.position_key))
        return scores.gather(-1, positions.unsqueeze(1).expand(-1, query.shape[1], -1))  # (B, T, S)


class LocalWindow(nn.Module):
    r"""A window of Luong's local attention (Luong et al., 2015, section 3.2) around a source position :math:`p_t`.

    It holds the integers s with :math:`|s - p_t| \le D`. A subclass computes :math:`p_t`.

    Symbols: :math:`D` is ``window_size``. Positions s are ranks among the S real tokens of a row, from 0, so that
    padding does not move the window.

    Raises:
        ValueError: if ``window_size`` is below 1.
    """

    def __init__(self, window_size: int) -> None:
        super().__init__()
        if window_size < 1:
            raise ValueError(f"window_size (D) must be at least 1, got {window_size}")
        self.window_size = window_size

    def around(self, aligned_position: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """The window around :math:`p_t` (B, T), as a mask (B, T, S), and the distances :math:`s - p_t` (B, T, S)."""
        distance = positions.unsqueeze(1) - aligned_position.unsqueeze(-1)
        return distance.abs() <= self.window_size, distance


class MonotonicWindow(LocalWindow):
    r"""Luong's local-m (Luong et al., 2015, section 3.2): source and target are roughly in step, :math:`p_t = t`.

    **Differs from the paper**: :math:`p_t` stops at the last real token, as in the authors' released code; by the
    formula alone a target longer than the source would end with empty windows.

    Shape:
        - query: (B, T, query_size), not read; steps: (T,), the target positions of the queries, from 0
        - positions: (B, S); length: (B,), both from :func:`source_positions`
        - returns: mask (B, T, S), None
    """

    def forward(self, query: Tensor, steps: Tensor, positions: Tensor, length: Tensor) -> tuple[Tensor, None]:
        aligned_position = torch.minimum(steps, (length - 1).clamp(min=0).unsqueeze(-1))  # (B, T)
        mask, _ = self.around(aligned_position, positions)
        return mask, None


class PredictiveWindow(LocalWindow):
    r"""Luong's local-p (Luong et al., 2015, section 3.2, equations 9 and 10): the decoder's state predicts :math:`p_t`.

    The Gaussian gives :math:`p_t` a gradient; the window alone gives none.

    .. math:: p_t = S \cdot \sigma(v_p^\top \tanh(W_p h_t)), \qquad
              a_t(s) = \mathrm{align}(h_t, \bar h_s) \exp\left(-\frac{(s - p_t)^2}{2 (D/2)^2}\right)

    Symbols: :math:`W_p, v_p` are the weights of ``query_proj`` and ``position_proj``. The weights :math:`a_t` sum to
    less than 1: the Gaussian comes after the softmax and nothing is normalised again.

    Shape:
        - query: (B, T, query_size); steps: (T,), not read
        - positions: (B, S); length: (B,), both from :func:`source_positions`
        - returns: mask (B, T, S), the Gaussian (B, T, S)
    """

    def __init__(self, query_size: int, window_size: int) -> None:
        super().__init__(window_size)
        self.query_proj = nn.Linear(query_size, query_size, bias=False)
        self.position_proj = nn.Linear(query_size, 1, bias=False)

    def forward(self, query: Tensor, steps: Tensor, positions: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
        logit = self.position_proj(self.query_proj(query).tanh()).squeeze(-1)  # (B, T)
        relative = logit.to(torch.promote_types(logit.dtype, torch.float32)).sigmoid()
        mask, distance = self.around(length.unsqueeze(-1) * relative, positions)
        variance = (self.window_size / 2) ** 2
        return mask, torch.exp(-distance.square() / (2 * variance))


class ScoreSizes(NamedTuple):
    """The sizes that a score is built from."""

    query_size: int
    key_size: int
    attention_size: int  # of additive scores
    max_source_positions: int  # of location scores
    coverage: bool = False  # of additive scores


# Every score by its name in the config.
SCORES: dict[str, Callable[[ScoreSizes], Score]] = {
    "additive": lambda sizes: AdditiveScore(sizes.query_size, sizes.key_size, sizes.attention_size, sizes.coverage),
    "dot": lambda sizes: DotScore(sizes.query_size, sizes.key_size),
    "general": lambda sizes: GeneralScore(sizes.query_size, sizes.key_size),
    "concat": lambda sizes: AdditiveScore(sizes.query_size, sizes.key_size, sizes.attention_size, sizes.coverage),
    "location": lambda sizes: LocationScore(sizes.query_size, sizes.max_source_positions),
}


# Every window by its name in the config: a function of the query's width and ``window_size``. A window keeps nothing
# between steps; of past weights only their sum, the coverage, is carried along. Like a score, it calls its
# linear layers and does not read their weights.
WINDOWS: dict[str, Callable[[int, int], nn.Module | None]] = {
    "global": lambda query_size, window_size: None,
    "monotonic": lambda query_size, window_size: MonotonicWindow(window_size),
    "predictive": lambda query_size, window_size: PredictiveWindow(query_size, window_size),
}


class Source(NamedTuple):
    """What the decoder attends to, made once per source by :meth:`SourceAttention.prepare`.

    Shape:
        - value: (B, S, V), the encoder's outputs
        - projected_key: (B, S, ...), what the score function makes of them
        - mask: (B, S) bool
        - positions: (B, S); length: (B,), ranks among the real tokens and their number
    """

    value: Tensor
    projected_key: Tensor
    mask: Tensor
    positions: Tensor
    length: Tensor

    def first(self, rows: int) -> "Source":
        """The sources of the first rows."""
        return self if rows >= self.mask.shape[0] else Source(*(part[:rows] for part in self))


class SourceAttention(nn.Module):
    r"""Attention to the source: a score function and, for local attention, a window.

    ``score`` is a name in :data:`SCORES`, ``window`` one in :data:`WINDOWS`: "global", "monotonic" (local-m) or
    "predictive" (local-p).

    A source may have N targets that follow each other in the batch, such as the beams of ``search()``. The source is
    not repeated for them, except that with coverage the projected key is. ``generate()`` itself repeats the source
    for each beam.

    If the score takes coverage, the sum of the weights of all earlier steps is passed from step to step (See et al.,
    2017, section 2.3: :math:`c_t = \sum_{t' < t} a_{t'}`), and a call has one query for each target (T = 1).

    Shape:
        - query: (B * N, T, H)
        - coverage: (B * N, S), or None
        - returns: context (B * N, T, V), attention_weights (B * N, T, S)

    Raises:
        ValueError: ``score`` is not in SCORES, ``window`` not in WINDOWS, or the dot score has a query and a key of
            different widths.
    """

    def __init__(self, score: str, window: str, sizes: ScoreSizes, window_size: int) -> None:
        super().__init__()
        if score not in SCORES:
            raise ValueError(f"unknown score {score!r}; choose one of {', '.join(map(repr, SCORES))}")
        if window not in WINDOWS:
            raise ValueError(f"unknown window {window!r}; choose one of {', '.join(map(repr, WINDOWS))}")
        self.score = SCORES[score](sizes)
        self.window = WINDOWS[window](sizes.query_size, window_size)

    def prepare(self, value: Tensor, mask: Tensor) -> Source:
        """The source as every step needs it."""
        positions, length = source_positions(mask)
        # An LSTM's outputs are not contiguous. For such a key torch would copy a frozen weight once for every row.
        return Source(value, self.score.project_key(value.contiguous(), positions), mask, positions, length)

    def for_loop(self, source: Source, rows: PackedRows, products: StepProducts) -> Source:
        """The source as the steps of a loop read it, its rows in the loop's order."""
        if rows.order is not None:
            source = Source(*map(rows.sort, source))
        value, key, *others = source
        if not self.has_coverage:  # with coverage every step has a key of its own
            key = self.score.key_for_steps(key, products)
        return Source(products.factor(value), key, *others)

    @property
    def has_coverage(self) -> bool:
        """Whether the score takes coverage."""
        return getattr(self.score, "coverage_vector", None) is not None

    def no_coverage(self, source: Source, rows: int) -> Tensor | None:
        """The coverage (rows, S) before the first step; None for a score without coverage."""
        if not self.has_coverage:
            return None
        dtype = torch.promote_types(source.value.dtype, torch.float32)
        return source.value.new_zeros(rows, source.mask.shape[1], dtype=dtype)

    def forward(
        self, query: Tensor, source: Source, position: int, coverage: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """``position`` is that of the first query of a row in its target, from 0."""
        targets, length = query.shape[0] // source.mask.shape[0], query.shape[1]

        def beside(rows: Tensor) -> Tensor:
            """The targets of a source beside each other: (B * N, T, ...) to (B, N * T, ...)."""
            return rows if targets == 1 else rows.unflatten(0, (-1, targets)).flatten(1, 2)

        if coverage is None:
            query = beside(query)
            scores = self.score(query, source.projected_key)
        else:  # every target has its own
            scores = beside(self.score(query, source.projected_key, coverage))
            query = beside(query)
        mask, reweight = source.mask.unsqueeze(1), None  # (B, 1, S)
        if self.window is not None:
            steps = torch.arange(position, position + length, device=query.device).repeat(targets)
            window_mask, reweight = self.window(query, steps, source.positions, source.length)
            mask = mask & window_mask
        context, weights = attend(scores, source.value, mask, reweight)
        if targets > 1:
            context, weights = (part.unflatten(1, (targets, length)).flatten(0, 1) for part in (context, weights))
        return context, weights


class StructuredSelfAttention(nn.Module):
    r"""Structured self-attention (Lin et al., 2017, section 2.1): r learned queries attend to the whole sentence.

    .. math:: A = \mathrm{softmax}(W_{s2} \tanh(W_{s1} H^\top)), \qquad M = A H

    Symbols: the rows of :math:`H` are ``states``; :math:`W_{s1}` is the weight of ``key_proj``, and the rows of
    :math:`W_{s2}` are ``hops``, both without bias as in the paper; :math:`A` is the ``annotation_matrix``, its softmax
    over the tokens, :math:`M` the ``sentence_matrix``. One hop is the paper's vector form.

    Shape:
        - states: (B, S, V)
        - mask: (B, S) bool, True on real tokens, or None where all are real
        - returns: sentence_matrix (B, R, V), annotation_matrix (B, R, S); both 0 for a sentence without a token
    """

    def __init__(self, state_size: int, attention_size: int, num_hops: int) -> None:
        super().__init__()
        self.key_proj = nn.Linear(state_size, attention_size, bias=False)
        self.hops = nn.Parameter(torch.zeros(num_hops, attention_size))

    def forward(self, states: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        scores = dot_score(self.hops, linear(self.key_proj, states).tanh())
        return attend(scores, states, None if mask is None else mask.unsqueeze(1))


def redundancy_penalty(annotation_matrix: Tensor) -> Tensor:
    r"""The overlap of the hops of each sentence (Lin et al., 2017, section 2.2).

    .. math:: P = \lVert A A^\top - I \rVert_F^2

    The squares of all R^2 entries are summed, as in the paper. The authors' released code takes their mean, so a
    coefficient there is R^2 times the coefficient here. The penalty is 0 if every hop attends to one token and no two
    hops attend to the same one. In two cases it is a constant: R for a sentence without a token, where :math:`A = 0`,
    and R (R - 1) for a sentence of a single token. It is computed and returned in float32 at least, under autocast too.

    Shape:
        - annotation_matrix: (..., R, S)
        - returns: (...)
    """
    annotation_matrix = annotation_matrix.to(torch.promote_types(annotation_matrix.dtype, torch.float32))
    with torch.autocast(annotation_matrix.device.type, enabled=False):  # which would round a small overlap away
        overlap = annotation_matrix @ annotation_matrix.mT  # (..., R, R)
    identity = torch.eye(overlap.shape[-1], dtype=overlap.dtype, device=overlap.device)
    return (overlap - identity).square().sum(dim=(-2, -1))
