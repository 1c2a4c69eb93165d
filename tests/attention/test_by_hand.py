"""Scores, windows and sums worked by hand."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from attnzoo.attention import (
    AdditiveScore,
    DotScore,
    GeneralScore,
    LocalWindow,
    LocationScore,
    MonotonicWindow,
    PredictiveWindow,
    attend,
    source_positions,
)
from tests.attention.tensors import (
    assert_equal,
)

LN2, LN3 = math.log(2), math.log(3)  # tanh(ln 2) = 3/5, tanh(2 ln 2) = 15/17: tanh(ln a) = (a^2 - 1) / (a^2 + 1)


def tensor(*rows: object) -> Tensor:
    """A batch of one row."""
    return torch.tensor([rows], dtype=torch.float64)


def set_weight(layer: nn.Module, rows: list[list[float]]) -> None:
    set_parameter(layer, "weight", rows)


def set_parameter(module: nn.Module, name: str, values: list[Any]) -> None:
    parameter = nn.Parameter(torch.tensor(values, dtype=torch.float64))
    assert parameter.shape == getattr(module, name).shape
    setattr(module, name, parameter)


def score_of(module: nn.Module, query: Tensor, key: Tensor) -> Tensor:
    positions = source_positions(torch.ones(key.shape[:2], dtype=torch.bool))[0]
    return module(query, module.project_key(key, positions))


def test_dot_by_hand() -> None:
    # (1, 2, 3) . (4, -5, 6) = 4 - 10 + 18 = 12 and (1, 2, 3) . (0, 1, 0) = 2
    assert_equal(score_of(DotScore(3, 3), tensor([1, 2, 3]), tensor([4, -5, 6], [0, 1, 0])), tensor([12, 2]))


def test_general_by_hand() -> None:
    # W_a (1, 1, 2) = (1 + 2, 1 - 2) = (3, -1), and (2, 5) . (3, -1) = 1; W_a (0, 1, 0) = (2, 1), and 4 + 5 = 9
    module = GeneralScore(2, 3)
    set_weight(module.key_proj, [[1, 2, 0], [0, 1, -1]])
    assert_equal(score_of(module, tensor([2, 5]), tensor([1, 1, 2], [0, 1, 0])), tensor([1, 9]))


def test_additive_by_hand() -> None:
    # In units of ln 2: W_a (1, 1) = (1 - 1, 2) = (0, 2), U_a (1, 0, 1) = (1, 0 - 1) = (1, -1), the sum is (1, 1), and
    # (5, 10) . tanh((ln 2, ln 2)) = 5 * 3/5 + 10 * 3/5 = 9. U_a (2, 0, 3) = (2, -3): (5, 10) . (15/17, -3/5)
    module = AdditiveScore(2, 3, 2)
    set_weight(module.query_proj, [[1, -1], [2, 0]])
    set_weight(module.key_proj, [[1, 0, 0], [0, 1, -1]])
    set_parameter(module, "score_vector", [5, 10])
    actual = score_of(module, LN2 * tensor([1, 1]), LN2 * tensor([1, 0, 1], [2, 0, 3]))
    assert_equal(actual, tensor([9, 75 / 17 - 6]))


def test_concat_by_hand() -> None:
    # In units of ln 2, [h_t; h_s] = (1, 0, 2) and W_a with the rows (1 0 0), (0 1 1), (1 1 -1) makes (1, 2, -1) of it:
    # (10, 17, 5) . (3/5, 15/17, -3/5) = 6 + 15 - 3 = 18. W_a's first two columns see h_t, its last one h_s.
    module = AdditiveScore(2, 1, 3)
    set_weight(module.query_proj, [[1, 0], [0, 1], [1, 1]])
    set_weight(module.key_proj, [[0], [1], [-1]])
    set_parameter(module, "score_vector", [10, 17, 5])
    assert_equal(score_of(module, LN2 * tensor([1, 0]), LN2 * tensor([2])), tensor([18]))


def test_location_by_hand() -> None:
    # W_a h_t = (ln 2, ln 3, 0), so exp gives 2, 3, 1 of 6. The fourth token is past the table; the words begin after
    # one token of padding.
    module = LocationScore(2, 3)
    set_parameter(module, "position_key", [[1, 0], [0, 1], [0, 0]])
    mask = torch.tensor([[False, True, True, True, True]])
    positions = source_positions(mask)[0]
    scores = module(tensor([LN2, LN3]), module.project_key(torch.zeros(1, 5, 4), positions))
    _, weights = attend(scores, torch.zeros(1, 5, 4, dtype=torch.float64), mask.unsqueeze(1))
    assert_equal(weights, tensor([0, 1 / 3, 1 / 2, 1 / 6, 0]))


def local_weights(window: LocalWindow, query: Tensor, odds: list[float]) -> Tensor:
    """The weights of a sentence without padding whose tokens have these unnormalised probabilities."""
    mask = torch.ones(1, len(odds), dtype=torch.bool)
    scores = tensor(odds).log().expand(-1, query.shape[1], -1)
    inside, reweight = window(query, torch.arange(query.shape[1]), *source_positions(mask))
    return attend(scores, torch.zeros(1, len(odds), 1, dtype=torch.float64), mask.unsqueeze(1) & inside, reweight)[1]


def test_local_m_by_hand() -> None:
    # Odds 1 to 5, D = 1. p_t = 0, 1, 2, ... and the window of t = 2 is {1, 2, 3} with odds 2, 3, 4 of 9. A target of
    # seven words on a source of five: p_t stops at 4, the last token, with the window {3, 4}.
    weights = local_weights(MonotonicWindow(1), torch.zeros(1, 7, 2), [1, 2, 3, 4, 5])
    assert_equal(
        weights,
        tensor(
            [1 / 3, 2 / 3, 0, 0, 0],
            [1 / 6, 2 / 6, 3 / 6, 0, 0],
            [0, 2 / 9, 3 / 9, 4 / 9, 0],
            [0, 0, 3 / 12, 4 / 12, 5 / 12],
            [0, 0, 0, 4 / 9, 5 / 9],
            [0, 0, 0, 4 / 9, 5 / 9],
            [0, 0, 0, 4 / 9, 5 / 9],
        ),
    )


def test_local_p_by_hand() -> None:
    # W_p h_t = ln 2, tanh is 3/5, times v_p = (5/3) ln 3 gives ln 3, whose sigmoid is 3 / (3 + 1); S = 6, so
    # p_t = 4.5. D = 4: the window [0.5, 8.5] leaves out token 0. The softmax over odds 1, 1, 2, 2, 4 is 1/10, ..., and
    # the Gaussian has sigma = 2, exp(-(s - 4.5)^2 / 8). The weights keep their sum below 1.
    window = PredictiveWindow(1, 4)
    set_weight(window.query_proj, [[1]])
    set_weight(window.position_proj, [[5 / 3 * LN3]])
    weights = local_weights(window, tensor([LN2]), [7, 1, 1, 2, 2, 4])
    expected = [
        0.0,
        0.1 * math.exp(-12.25 / 8),
        0.1 * math.exp(-6.25 / 8),
        0.2 * math.exp(-2.25 / 8),
        0.2 * math.exp(-0.25 / 8),
        0.4 * math.exp(-0.25 / 8),
    ]
    assert_equal(weights, tensor(expected))
    assert weights.sum() < 1


def test_attend_by_hand() -> None:
    # Odds 1 and 3 on the values (4, 0) and (8, 4), the third token masked: (1/4)(4, 0) + (3/4)(8, 4) = (7, 3)
    scores = tensor([0, LN3, 50])
    context, weights = attend(scores, tensor([4, 0], [8, 4], [100, 100]), torch.tensor([[[True, True, False]]]))
    assert_equal(weights, tensor([1 / 4, 3 / 4, 0]))
    assert_equal(context, tensor([7, 3]))
