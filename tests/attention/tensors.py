"""Random tensors, masks with every kind of padding, and comparisons with a loop: values and gradients."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from attnzoo.attention import (
    AdditiveScore,
    DotScore,
    GeneralScore,
    LocationScore,
)
from tests.reference import attention as reference

TARGET, SOURCE, QUERY, KEY, WIDTH, VALUE = 5, 7, 3, 4, 6, 2  # all different, so that no two can be mixed up


LOCATIONS = 4  # fewer rows than the longest source has tokens


# Every place for padding, no padding, and a row with nothing else.
MASK = torch.tensor(
    [
        [1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 0, 1, 1],
        [0, 1, 1, 0, 1, 0, 1],
        [0, 0, 0, 0, 0, 0, 0],
    ],
    dtype=torch.bool,
)


BATCH = len(MASK)


def random(*shape: int, seed: int) -> Tensor:
    """Reproducible normal numbers in float64, a leaf of autograd."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def randomize(module: nn.Module, seed: int, std: float = 0.5) -> nn.Module:
    """The module in float64 with random weights, so that zeros or identities of the initialisation hide no error."""
    generator = torch.Generator().manual_seed(seed)
    module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(std * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def assert_equal(actual: Tensor, expected: Tensor, name: str = "values") -> None:
    torch.testing.assert_close(
        actual, expected, rtol=1e-10, atol=1e-12, msg=lambda message: f"{name} differ from the reference: {message}"
    )


def assert_equal_with_gradients(
    actual: Sequence[Tensor], expected: Sequence[Tensor], inputs: dict[str, Tensor]
) -> None:
    """Values of all outputs, and the gradients of one random linear function of them with respect to all inputs."""
    assert len(actual) == len(expected)
    generator = torch.Generator().manual_seed(0)
    totals = [torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)]
    for ours, theirs in zip(actual, expected, strict=True):
        assert_equal(ours, theirs)
        direction = torch.randn(theirs.shape, generator=generator, dtype=torch.float64)
        totals = [
            total + (output.masked_fill(output.isinf(), 0.0) * direction).sum()
            for total, output in zip(totals, (ours, theirs), strict=True)
        ]
    leaves = list(inputs.values())
    ours, theirs = (torch.autograd.grad(total, leaves, materialize_grads=True) for total in totals)
    for name, gradient, loop_gradient in zip(inputs, ours, theirs, strict=True):
        assert_equal(gradient, loop_gradient, f"gradients of {name}")
        assert loop_gradient.any(), f"{name} has no part in the result; the comparison says nothing about it"


def loop_scores(score: Callable[..., reference.Score], query: Tensor, *sources: Tensor) -> Tensor:
    """The score of one query and one source token for every pair of a batch; -inf where there is no score."""
    lead = query.shape[:-2]
    queries, *tokens = (tensor.flatten(0, -3) for tensor in (query, *sources))
    rows = []
    for row in range(len(queries)):
        for step in range(query.shape[-2]):
            for place in range(sources[0].shape[-2]):
                value = score(queries[row, step], *(token[row, place] for token in tokens))
                rows.append(torch.tensor(-math.inf, dtype=torch.float64) if value is None else value)
    return torch.stack(rows).view(*lead, query.shape[-2], sources[0].shape[-2])


def loop_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """The reference softmax for every row of scores (..., T, S), over the places where the mask, of the same shape, is
    True.
    """
    rows = []
    for line, allowed in zip(scores.flatten(0, -2), mask.flatten(0, -2), strict=True):
        row = [score if real and score > -math.inf else None for score, real in zip(line, allowed, strict=True)]
        rows.append(torch.stack(reference.softmax(row)))
    return torch.stack(rows).view_as(scores)


def loop_context(weights: Tensor, value: Tensor) -> Tensor:
    values, lines = value.flatten(0, -3), weights.flatten(0, -3)
    rows = [reference.context(list(line), list(values[row])) for row, steps in enumerate(lines) for line in steps]
    return torch.stack(rows).view(*weights.shape[:-1], value.shape[-1])


def score_and_loop(name: str) -> tuple[nn.Module, Callable[..., reference.Score]]:
    """A score module with random weights, and its formula for one query, one key and one position."""
    if name == "dot":
        return DotScore(QUERY, QUERY), lambda h, k, s: reference.dot(h, k)
    if name == "general":
        module = randomize(GeneralScore(QUERY, KEY), seed=5)
        return module, lambda h, k, s: reference.general(h, k, module.key_proj.weight)
    if name == "location":
        module = randomize(LocationScore(QUERY, LOCATIONS), seed=5)
        return module, lambda h, k, s: reference.location(h, int(s), module.position_key)
    module = randomize(AdditiveScore(QUERY, KEY, WIDTH), seed=5)
    w_a, u_a, v_a = module.query_proj.weight, module.key_proj.weight, module.score_vector
    if name == "additive":
        return module, lambda h, k, s: reference.additive(h, k, w_a, u_a, v_a)
    assert name == "concat"
    return module, lambda h, k, s: reference.concat(h, k, torch.cat([w_a, u_a], dim=1), v_a)
