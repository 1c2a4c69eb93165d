"""Products by oneDNN: the values and gradients of torch's own products, in every layout, and used only if faster."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attnzoo import fast_products, library_internals
from attnzoo.fast_products import linear, product, suits_onednn
from tests.factory import KINDS, batch_for, make_model


class Called(nn.Module):
    """A module that calls a layer by :func:`linear`."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, values: Tensor) -> Tensor:
        return linear(self.layer, values)


@pytest.fixture(autouse=True)
def onednn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use oneDNN for every product that it supports, of any size."""
    monkeypatch.setenv(fast_products.SWITCH, "1")
    monkeypatch.setattr(fast_products, "LARGE", 1)
    fast_products.onednn_is_faster.cache_clear()
    yield
    fast_products.onednn_is_faster.cache_clear()
    fast_products.int8_is_faster.cache_clear()


def layouts(rows: int, columns: int) -> dict[str, Tensor]:
    """A matrix in its stored layout, transposed, as a part of a wider one, and with one row for all."""
    wide = torch.randn(rows, columns + 3)
    return {
        "whole": torch.randn(rows, columns),
        "transposed": torch.randn(columns, rows).t(),
        "part": wide[:, 1 : columns + 1],
        "part of a transposed one": torch.randn(columns + 3, rows).t()[:, 2 : columns + 2],
        "one row": torch.randn(1, columns).expand(rows, -1),
    }


@pytest.mark.parametrize("right", layouts(1, 1))
@pytest.mark.parametrize("left", layouts(1, 1))
def test_values_and_both_orders_of_gradients_are_those_of_torch(left: str, right: str) -> None:
    torch.manual_seed(0)
    factors = [layouts(5, 7)[left].requires_grad_(), layouts(7, 4)[right].requires_grad_()]
    assert suits_onednn(*factors)
    found = []
    for multiply in (product, torch.matmul):
        total = multiply(*factors).tanh()
        gradients = torch.autograd.grad(total.square().sum(), factors, create_graph=True)
        second = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), factors)
        found.append([total, *gradients, *second])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_layer_and_what_is_more_than_one(bias: bool) -> None:
    layer, values = nn.Linear(7, 4, bias=bias), torch.randn(2, 3, 7)
    assert type(linear(layer, values).grad_fn).__name__ != type(layer(values).grad_fn).__name__
    torch.testing.assert_close(linear(layer, values), layer(values))
    with layer.register_forward_hook(lambda _, inputs, output: -output):
        assert torch.equal(linear(layer, values), layer(values))
    assert torch.equal(linear(torch.tanh, values), values.tanh())


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_step_is_the_same_by_either_library(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(kind).float().train(False)
    batch = batch_for(model)
    gradients = []
    for switch in ("1", "0"):
        monkeypatch.setenv(fast_products.SWITCH, switch)
        fast_products.onednn_is_faster.cache_clear()
        model.zero_grad()
        model(**batch).loss.backward()
        gradients.append([part.grad for part in model.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)


def test_what_looks_at_the_operators_sees_those_of_torch() -> None:
    layer, values = nn.Linear(7, 4), torch.randn(5, 7)
    weights_of = {name: part.detach() for name, part in layer.named_parameters()}

    def total(parts: dict[str, Tensor]) -> Tensor:
        named = {f"layer.{name}": part for name, part in parts.items()}
        return torch.func.functional_call(Called(layer), named, values).square().sum()

    tangents = {name: torch.randn_like(part) for name, part in weights_of.items()}
    _, along = torch.func.jvp(total, (weights_of,), (tangents,))
    gradients = torch.func.grad(total)(weights_of)
    torch.testing.assert_close(along, sum((gradients[name] * tangents[name]).sum() for name in gradients))
    with FlopCounterMode(display=False) as counter:
        linear(layer, values)
    assert counter.get_total_flops() == 2 * 5 * 7 * 4
    traced = torch.jit.trace(Called(layer), values)
    torch.testing.assert_close(traced(values), layer(values))


def test_a_matrix_for_each_row_is_left_to_torch() -> None:
    values = torch.randn(5, 2, 7).transpose(0, 1).requires_grad_()
    weight = torch.randn(7, 4)
    product(values, weight).sum().backward()
    torch.testing.assert_close(product(values, weight), values @ weight)


def test_other_types_small_products_and_a_torch_without_it_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    values, weight = torch.randn(6, 5), torch.randn(5, 4)
    for dtype in (torch.float64, torch.bfloat16):
        assert not suits_onednn(values.to(dtype), weight.to(dtype))
    assert not suits_onednn(values.to("meta"), weight.to("meta"))
    assert not suits_onednn(values.unsqueeze(0), weight.unsqueeze(0))
    with torch.autocast("cpu", torch.bfloat16):
        assert not suits_onednn(values, weight)
    monkeypatch.setattr(fast_products, "LARGE", 6 * 5 * 4 + 1)
    assert not suits_onednn(values, weight)
    monkeypatch.setattr(fast_products, "LARGE", 1)
    monkeypatch.setattr(library_internals, "BLOCKED_LINEAR", "a_name_that_is_gone")
    fast_products.onednn_is_faster.cache_clear()
    assert not suits_onednn(values, weight)
    assert torch.equal(product(values, weight), values @ weight)


@pytest.mark.parametrize("name", ["TRANSFORMS", "DISPATCH_MODES", "DUAL_LEVEL"])
def test_where_torch_does_not_say_what_follows_its_operators_it_multiplies(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert suits_onednn(torch.randn(6, 5), torch.randn(5, 4))
    monkeypatch.setattr(library_internals, name, "a_name_that_is_gone")
    assert not suits_onednn(torch.randn(6, 5), torch.randn(5, 4))


def test_without_a_switch_the_machine_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(fast_products.SWITCH)
    seconds: dict[Any, float] = {}
    monkeypatch.setattr(fast_products.timeit, "repeat", lambda call, **_: [seconds[call.func]])
    for other, onednn, int8 in ((1.1, False, False), (0.8, False, True), (0.5, True, True)):
        seconds |= {fast_products.onednn_product: other, fast_products.int8_product: other, torch.mm: 1.0}
        fast_products.onednn_is_faster.cache_clear()
        fast_products.int8_is_faster.cache_clear()
        assert fast_products.onednn_is_faster() is onednn
        assert fast_products.int8_is_faster() is int8


@pytest.mark.parametrize("switch", ["0", "1"])
def test_the_switch_decides_without_a_measurement(switch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(fast_products.SWITCH, switch)
    monkeypatch.setattr(fast_products.timeit, "repeat", lambda *_, **__: pytest.fail("measured"))
    for is_faster in (fast_products.onednn_is_faster, fast_products.int8_is_faster):
        is_faster.cache_clear()
        assert is_faster() is (switch == "1")


def test_sums_that_overflow_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without instructions for eight bits, oneDNN adds pairs of products in 16 bits."""

    def saturated(left: Tensor, right: Tensor) -> Tensor:
        pairs = (left.int().unsqueeze(2) * right.int().unsqueeze(0)).unflatten(1, (-1, 2)).sum(dim=2)
        return pairs.clamp(-(2**14), 2**14).sum(dim=1)

    for switch in ("1", "0"):
        monkeypatch.setenv(fast_products.SWITCH, switch)
        fast_products.int8_is_faster.cache_clear()
        assert fast_products.int8_is_faster() is (switch == "1")
    monkeypatch.setenv(fast_products.SWITCH, "1")
    monkeypatch.setattr(fast_products, "int8_product", saturated)
    fast_products.int8_is_faster.cache_clear()
    assert not fast_products.int8_is_faster()


def test_without_the_private_name_no_product_is_in_eight_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_internals, "INT8_PRODUCT", "a_name_that_is_gone")
    fast_products.int8_is_faster.cache_clear()
    assert not fast_products.int8_is_faster()
