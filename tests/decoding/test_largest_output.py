"""The largest output of a linear layer, from bounds by a copy of its weight in eight bits."""

import pytest
import torch
from torch import Tensor, nn

from attnzoo.decoding import repeated_product
from attnzoo.decoding.largest_output import LargestOutput
from attnzoo.decoding.repeated_product import RepeatedProduct
from attnzoo.fast_weight_copies import FEW_PRODUCTS

pytestmark = pytest.mark.usefixtures("no_gradients")
NONE = torch.empty(0, dtype=torch.long)


def find(values: Tensor, weight: Tensor, forbidden: Tensor = NONE) -> int | None:
    found = LargestOutput(weight)(values, weight, forbidden)
    return None if found is None else int(found)


def largest(values: Tensor, weight: Tensor, forbidden: Tensor = NONE) -> int:
    return int((values.double() @ weight.double().mT)[0].index_fill(0, forbidden, -torch.inf).argmax())


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e15])
@pytest.mark.parametrize("shape", [(300, 1), (300, 7), (500, 64), (200, 2000)])
def test_it_is_the_largest(shape: tuple[int, int], scale: float) -> None:
    """It is, even if two rows differ by less than one step of the weight in eight bits."""
    torch.manual_seed(shape[1])
    found = 0
    for _ in range(20):
        weight, values = torch.randn(shape) * scale, torch.randn(1, shape[1])
        best = largest(values, weight)
        weight[(best + 1) % len(weight)] = weight[best] + weight[best].abs().mean() * 1e-4 * values[0].sign()
        expected = largest(values, weight)
        assert find(values, weight) in (expected, None)
        found += find(values, weight) is not None
        forbidden = torch.tensor([expected, best])
        assert find(values, weight, forbidden) in (largest(values, weight, forbidden), None)
    assert found > 15 or shape[1] == 2000  # with many inputs of one size the bound is wide


@pytest.mark.parametrize("size", [0.1, 1.0, 1e4])
def test_a_bias_is_added(size: float) -> None:
    torch.manual_seed(0)
    for _ in range(20):
        weight, values, bias = torch.randn(300, 64), torch.randn(1, 64), torch.randn(300) * size
        expected = (values.double() @ weight.double().mT + bias.double())[0]
        found = LargestOutput(weight)(values, weight, NONE, bias)
        assert found is not None
        assert int(found) == int(expected.argmax())


def row(*ends: float, first: float, second: float) -> list[float]:
    return [*ends, *[first] * 32, *[second] * 32]


def test_rounded_weights_may_have_another_order() -> None:
    """With a scale of 1 the integers of the weights make output 0 smaller than output 1, by 32."""
    weight = torch.zeros(50, 65)
    weight[:2] = torch.tensor([row(127.0, first=10.49, second=10.49), row(127.0, first=10.51, second=10.45)])
    values = torch.tensor([row(0.0, first=1.0, second=1.0)])
    assert find(values, weight) == largest(values, weight) == 0


def test_rounded_inputs_may_have_another_order() -> None:
    """With a scale of 1 the integers of the inputs make output 0 smaller than output 1, by 116 * 32."""
    weight = torch.zeros(50, 66)
    weight[:2] = torch.tensor([row(127.0, 0.0, first=120.0, second=0.0), row(127.0, 0.0, first=0.0, second=118.0)])
    values = torch.tensor([row(0.0, 127.0, first=1.49, second=1.51)])
    assert find(values, weight) == largest(values, weight) == 0


def test_of_equal_rows_it_is_the_first() -> None:
    for seed in range(50):
        torch.manual_seed(seed)
        weight, values = torch.randn(400, 256), torch.randn(1, 256)
        best = largest(values, weight)
        weight[[(best + 7) % 400, (best + 90) % 400]] = weight[best].clone()
        first = min(best, (best + 7) % 400, (best + 90) % 400)
        assert find(values, weight) == first


def test_of_equal_outputs_it_is_the_first() -> None:
    weight = torch.randn(200, 8)
    weight[[3, 150]] = 5.0
    values = torch.ones(1, 8)
    assert find(values, weight) == 3
    assert find(values, weight, torch.tensor([3])) == 150


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_numbers_that_are_not_finite_are_left_to_the_whole_product(number: float) -> None:
    weight, values = torch.randn(200, 8), torch.randn(1, 8)
    bad_weight, bad_values = weight.clone(), values.clone()
    bad_weight[5, 2] = bad_values[0, 1] = number
    assert find(values, bad_weight) is None
    assert find(bad_values, weight) is None


def test_outputs_that_are_alike_are_left_to_the_whole_product() -> None:
    assert find(torch.zeros(1, 8), torch.randn(200, 8)) is None
    assert find(torch.randn(1, 8), torch.zeros(200, 8)) is None
    assert find(torch.ones(1, 8), torch.ones(200, 8) + 1e-4 * torch.randn(200, 8)) is None


def test_after_too_many_candidates_it_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_product, "MANY_WEIGHTS", 0)
    monkeypatch.setattr(repeated_product, "int8_is_faster", lambda: True)
    layer, values = nn.Linear(8, 200, bias=False), torch.randn(1, 8)
    product = RepeatedProduct.of(layer)
    for _ in range(FEW_PRODUCTS):
        assert product.largest(values, NONE) is None
    assert int(product.largest(values, NONE)) == largest(values, layer.weight)  # type: ignore[arg-type]
    assert product.largest(torch.randn(2, 8), NONE) is None
    assert product.largest(torch.zeros(1, 8), NONE) is None
    assert product.largest(values, NONE) is None
    again = RepeatedProduct.of(layer)
    assert again.largest(values, NONE) is not None
