"""The sum of the attention weights over the keys is one."""

import torch
from torch import Tensor

from .inside import Inside, Weights
from .layer import Sizes
from .layer_checker import LayerChecker, Test
from .report import Finding
from .tracing import PRODUCTS


def check_sums(checker: LayerChecker) -> None:
    """Check that the weights of each query sum to one over the keys."""
    name = "sum of the weights"
    is_scaled_after = "scale_wrong" in checker.report.names and "after the softmax" in str(checker.report)
    for cause in ("mask_after_softmax", "scale_wrong"):
        if cause in checker.report.names and (cause != "scale_wrong" or is_scaled_after):
            return checker.report.skip(name, f"cannot be judged until {cause} is repaired")
    if isinstance(checker.inside, Inside) and checker.inside.adds_keys(checker.sizes):
        return checker.report.skip(name, "the code adds keys of its own, which have weight, too")
    found = any(checker.report.add(checker.smallest(test)) for test in tests_of_sums(checker))
    if not found and not _sums_are_known(checker):
        return checker.report.skip(name, "the weights by which values are multiplied were not recognised")
    return checker.report.done(name)


def tests_of_sums(checker: LayerChecker) -> list[Test]:
    """The tests that can judge the sum of the weights of this layer."""
    if checker.layer.has_value:
        return [_constant_values, _used_weights, _returned_weights]
    tests: list[Test] = [_nothing_normalises, _used_weights, _returned_weights]
    return [*tests, _equal_tokens] if _sees_a_set(checker) else tests


def _sums_are_known(checker: LayerChecker) -> bool:
    """Whether the tests of the sum of the weights would have shown weights that do not sum to one."""
    if checker.layer.has_value or (isinstance(checker.inside, Inside) and checker.inside.used):
        return True
    return _sees_a_set(checker) and _is_affine(checker)


def _nothing_normalises(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """Without a softmax or a quotient, weights that depend on the input do not sum to one."""
    inside = checker.look_inside(sizes)
    if isinstance(inside, str) or inside.normalises or _is_affine(checker):
        return None
    where = "the code has neither a softmax nor a division by a sum"
    return checker.finding("weights_not_normalised", where, checker.layer.inputs(sizes))


def _is_affine(checker: LayerChecker) -> bool:
    """Whether the output for equal tokens is affine in the token; it is if weights sum to a constant.

    After other layers, such as those of a block, it is not.
    """
    query, key, _ = checker.layer.inputs(checker.sizes)
    tokens = key[:1, :1], key[:1, 1:2], (key[:1, :1] + key[:1, 1:2]) / 2
    calls = [token.expand_as(key).contiguous() for token in tokens]
    first, second, middle = (
        checker.layer(each if checker.layer.is_self else query, each, each).context for each in calls
    )
    return not checker.differs((first + second) / 2, middle)


def _used_weights(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """The tensors by which values are multiplied sum to one over the keys."""
    inside = checker.look_inside(sizes)
    if isinstance(inside, str):
        return None
    for weights in inside.used:
        values, axis = weights.values.detach(), weights.key_axis
        if axis is None:
            continue
        sums = values.sum(dim=axis)
        sums = sums[sums != 0]  # a query from which all keys are hidden
        if not len(sums):
            continue
        worst = float(sums[(sums - 1).abs().argmax()])
        if abs(worst - 1) > max(1e-4, checker.tolerance) and not _is_divided_later(inside, weights):
            where = f"the weights of shape {tuple(values.shape)} sum to {worst:.4g} over the keys"
            return checker.finding("weights_not_normalised", where, checker.layer.inputs(sizes))
    return None


def _returned_weights(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """What is returned beside the output are the weights, or their logarithms, and not the scores."""
    calls = checker.layer.inputs(sizes), checker.layer.inputs(sizes, seed=1)
    returned, other = (checker.layer(*call).weights for call in calls)
    if returned is None or other is None or not checker.differs(returned, other):
        return None  # a table of positions does not depend on the input
    if _has_sums_of_one(returned, sizes, checker.tolerance) or _has_sums_of_one(
        returned.exp(), sizes, checker.tolerance
    ):
        return None
    where = f"what is returned beside the output, of shape {tuple(returned.shape)}, does not sum to one over any axis"
    return checker.finding("weights_not_normalised", where, calls[0])


def _has_sums_of_one(weights: Tensor, sizes: Sizes, tolerance: float) -> bool:
    """Whether the sums over some axis are 1, or 0 for a query from which all keys are hidden."""
    finite = weights.nan_to_num()
    sums = (finite.sum(dim=axis) for axis, size in enumerate(finite.shape) if size in sizes and size > 1)
    return float(finite.min()) >= 0 and any(
        bool(((each - 1).abs().minimum(each.abs()) < max(1e-4, tolerance)).all()) and bool(each.any()) for each in sums
    )


def _is_divided_later(inside: Inside, weights: Weights) -> bool:
    """Whether the sum is divided out after the weights are multiplied by the values, as flash attention does.

    The product with normalised weights is computed here, and looked for among the tensors of the call.
    """
    raw, axis = weights.values, weights.key_axis
    assert axis is not None
    normalised = raw.detach() / raw.detach().sum(dim=axis, keepdim=True)
    for number, event in enumerate(inside.events):
        if event.function not in PRODUCTS or not any(part is raw for part in event.tensors):
            continue
        expected = event.function(*(normalised if part is raw else part for part in event.arguments))
        later = (other.result for other in inside.events[number:] if other.result.shape == expected.shape)
        if any(torch.allclose(result, expected, atol=1e-5) for result in later):
            return True
    return False


def _constant_values(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """If all values are one vector, the output is that vector (projected), for any weights."""
    query, key, value = checker.layer.inputs(sizes)
    constant = value[:1, :1].expand_as(value).contiguous()
    others = checker.layer.inputs(sizes, seed=2)
    first = checker.layer(query, key, constant).context
    second = checker.layer(others[0], others[1], constant).context
    is_off = checker.differs(first, second)
    if not is_off and not checker.layer.subject.has_parameters and first.shape[-1] == constant.shape[-1]:
        is_off = checker.differs(first, constant[:, :1].expand_as(first))
    if not is_off:
        return None
    where = "all values are the same vector, but the output still depends on the weights"
    return checker.finding("weights_not_normalised", where, (query, key, constant), (*others[:2], constant))


def _equal_tokens(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """If all tokens are one vector, the output does not depend on how many there are."""
    query, key, _ = checker.layer.inputs(sizes)
    few = checker.fewer_keys(sizes)
    equal = key[:1, :1].expand_as(key)
    parts = [equal[:, :number].contiguous() for number in (few, sizes.keys)]
    calls = [(part if checker.layer.is_self else query, part, part) for part in parts]
    first, second = (checker.layer(*call).context for call in calls)
    if not checker.differs(first[:, -1], second[:, -1]) and not checker.differs(first[:, 0], second[:, 0]):
        return None
    where = f"{few} equal keys give another output than {sizes.keys} equal keys"
    return checker.finding("weights_not_normalised", where, *calls)


def _sees_a_set(checker: LayerChecker) -> bool:
    """Whether the order of the earlier tokens makes no difference."""
    query, key, value = checker.layer.inputs(checker.sizes)
    order = torch.arange(checker.sizes.keys)
    order[:2] = torch.tensor([1, 0])
    queries = query[:, order] if checker.layer.is_self else query
    first = checker.layer(query, key, value).context
    second = checker.layer(queries, key[:, order], value[:, order]).context
    return not checker.differs(first[:, -1], second[:, -1])


def sums_to(weights: Tensor, total: float) -> bool:
    """Whether all sums over the last axis are this number."""
    return bool(((weights.detach().sum(dim=-1) - total).abs() < 1e-5).all())
