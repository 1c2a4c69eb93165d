"""Products with the same weights, and copies of these weights, which are kept as long as the weights do not change."""

import copy
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnzoo import search
from attnzoo.decoding import repeated_product
from attnzoo.decoding.repeated_product import RepeatedProduct
from attnzoo.fast_products import FEW_ROWS, add_products
from attnzoo.fast_weight_copies import _KEPT, FEW_PRODUCTS
from tests.factory import CAUSAL, tiny_model, words

pytestmark = pytest.mark.usefixtures("no_gradients")


def use(*layers: nn.Linear, values: Tensor | None = None) -> RepeatedProduct:
    """A product that was computed often enough for a copy of the weights."""
    product = RepeatedProduct.of(*layers)
    for _ in range(FEW_PRODUCTS + 1):
        product(torch.randn(1, layers[0].in_features) if values is None else values)
    return product


def check(layer: nn.Linear) -> None:
    for rows in (1, 5):
        values = torch.randn(rows, layer.in_features, dtype=layer.weight.dtype)
        torch.testing.assert_close(use(layer, values=values)(values), layer(values))


@pytest.mark.parametrize("large", [0, repeated_product.LARGE], ids=["blocks", "transposed"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 5, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_it_is_its_layers_side_by_side(
    dtype: torch.dtype, rows: int, bias: bool, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_product, "LARGE", large)
    layers = [nn.Linear(24, width, bias=bias, dtype=dtype) for width in (7, 16, 3)]
    values = torch.randn(rows, 24, dtype=dtype)
    for number in (1, 2, 3):
        product = RepeatedProduct.of(*layers[:number])
        expected = torch.cat([layer(values) for layer in layers[:number]], dim=1)
        for _ in range(FEW_PRODUCTS + 2):
            torch.testing.assert_close(product(values), expected)
        is_copied = product.copies is not None and bool(product.copies.made)
        assert is_copied == (dtype == torch.float32)


@pytest.mark.parametrize("large", [0, repeated_product.LARGE], ids=["blocks", "transposed"])
@pytest.mark.parametrize("rows", [1, 5, FEW_ROWS + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_it_is_the_sum_of_products_side_by_side(
    dtype: torch.dtype, rows: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_product, "LARGE", large)
    weights = [nn.Parameter(torch.randn(16, width, dtype=dtype)) for width in (24, 7, 3)]
    bias, values = torch.randn(16, dtype=dtype), torch.randn(rows, 34, dtype=dtype)
    product = RepeatedProduct(weights, bias, is_sum=True)
    expected = values.double() @ torch.cat(weights, dim=1).double().mT + bias.double()
    tolerance = {"atol": 0.2, "rtol": 0.1} if dtype == torch.bfloat16 else {"atol": 1e-5, "rtol": 1e-5}
    for _ in range(FEW_PRODUCTS + 2):
        torch.testing.assert_close(product(values).double(), expected, **tolerance)


def test_a_copy_is_made_after_a_few_products_and_kept_for_the_next_call() -> None:
    layer, values = nn.Linear(8, 4), torch.randn(1, 8)
    for _ in range(FEW_PRODUCTS):
        product = RepeatedProduct.of(layer)
        product(values)
        assert product.copies is not None
        assert not product.copies.made
    product(values)
    assert list(product.copies.made) == ["transposed"]
    again = RepeatedProduct.of(layer)
    assert again.copies is product.copies
    other = RepeatedProduct.of(copy.deepcopy(layer))
    assert other.copies is not product.copies


def by_optimiser(**options: Any) -> Callable[[nn.Linear], None]:
    def step(layer: nn.Linear) -> None:
        optimiser = torch.optim.Adam(layer.parameters(), lr=0.1, **options)
        with torch.enable_grad():
            layer(torch.randn(3, layer.in_features)).sum().backward()
        optimiser.step()

    return step


def by_inference(layer: nn.Linear) -> None:
    with torch.inference_mode():
        layer.weight[2, 1] += 1.0


def by_swap(layer: nn.Linear) -> None:
    layer.weight = nn.Parameter(layer.weight + 1.0)


CHANGES: dict[str, Callable[[nn.Linear], Any]] = {
    "a step": by_optimiser(fused=False, foreach=False),
    "a step of all at once": by_optimiser(foreach=True),
    "a fused step, which counts no version": by_optimiser(fused=True),
    "load_state_dict": lambda layer: layer.load_state_dict({key: -part for key, part in layer.state_dict().items()}),
    "assigned": lambda layer: layer.load_state_dict(
        {key: -part for key, part in layer.state_dict().items()}, assign=True
    ),
    "to and back": lambda layer: layer.to(torch.bfloat16).to(torch.float32),
    "one number in place": lambda layer: layer.weight[2, 1].fill_(9.0),
    "in inference mode": by_inference,
    "all of .data in place": lambda layer: layer.weight.data.mul_(2.0),
    "one number of .data": lambda layer: layer.weight.data[2, 1].fill_(9.0),
    "numbers of .data whose sum is 0": lambda layer: layer.weight.data[:, :3].add_(torch.tensor([1.0, -2.0, 1.0])),
    "one number by numpy": lambda layer: layer.weight.detach().numpy().__setitem__((2, 1), 9.0),
    "rows of .data that change places": lambda layer: layer.weight.data.copy_(layer.weight.data.flip(0)),
    "another .data": lambda layer: setattr(layer.weight, "data", layer.weight.data + 1.0),
    "another parameter": by_swap,
    "new values": lambda layer: nn.init.normal_(layer.weight),
}


@pytest.mark.parametrize("change", CHANGES)
def test_weights_that_change_are_copied_anew(change: str) -> None:
    for shape in ((40, 33), (3, 50), (7, 5)):
        layer = nn.Linear(*shape)
        check(layer)
        CHANGES[change](layer)
        check(layer)


def test_a_search_of_one_step_makes_no_copies() -> None:
    """Their check would take longer than the step."""
    model, prompt, before = tiny_model(CAUSAL[0], dtype=torch.float32), words(1, 3), len(_KEPT)
    for steps, has_copies in ((1, False), (2, True)):
        model.generate(prompt, custom_generate=search, max_new_tokens=steps, min_new_tokens=steps)
        gc.collect()
        assert (len(_KEPT) > before) == has_copies


def test_copies_of_float32_under_another_default() -> None:
    layer = nn.Linear(8, 4)
    torch.set_default_dtype(torch.float64)
    try:
        check(layer)
    finally:
        torch.set_default_dtype(torch.float32)


def test_one_of_several_weights_changes() -> None:
    layers = nn.Linear(8, 4), nn.Linear(8, 3), nn.Linear(8, 5)
    values = torch.randn(2, 8)
    for changed in layers:
        use(*layers)
        changed.weight[0, 0] += 1.0
        expected = torch.cat([layer(values) for layer in layers], dim=1)
        torch.testing.assert_close(use(*layers)(values), expected)


def test_weights_of_inference_mode_have_no_copies() -> None:
    with torch.inference_mode():
        layer = nn.Linear(8, 4)
        assert use(layer).copies is None
        check(layer)


def test_copies_are_dropped_with_their_weights() -> None:
    gc.collect()
    before = len(_KEPT)
    layers = [nn.Linear(8, 4) for _ in range(5)]
    for layer in layers:
        use(layer)
    assert len(_KEPT) == before + 5
    del layer, layers[1:]
    gc.collect()
    assert len(_KEPT) == before + 1


def test_ten_thousand_calls_keep_no_more_than_one() -> None:
    layers = nn.Linear(8, 4), nn.Linear(8, 3)
    values = torch.randn(1, 8)

    def tensors() -> int:
        gc.collect()
        return sum(issubclass(type(part), Tensor) for part in gc.get_objects())

    use(*layers)
    kept, held = len(_KEPT), tensors()
    for call in range(10_000):
        if call % 100 == 0:
            layers[1].weight.add_(1.0)
        RepeatedProduct.of(*layers)(values)
    assert (len(_KEPT), tensors()) == (kept, held)


def test_calls_of_search_keep_no_more_than_one() -> None:
    model, prompt = tiny_model(CAUSAL[0], dtype=torch.float32), words(1, 3)
    gc.collect()
    found: set[int] = set()
    for _ in range(30):
        model.generate(prompt, custom_generate=search, max_new_tokens=2, min_new_tokens=2)
        found.add(len(_KEPT))
    assert len(found) == 1
    del model
    gc.collect()
    assert len(_KEPT) < found.pop()


def test_threads_share_the_copies() -> None:
    model, prompt = tiny_model(CAUSAL[0], std=1.0, dtype=torch.float32), words(2, 3)
    options: dict[str, Any] = {"max_new_tokens": 12, "min_new_tokens": 12, "num_beams": 3}
    expected = model.generate(prompt, **options).tolist()
    found: list[Any] = []

    def decode() -> None:
        found.extend(model.generate(prompt, custom_generate=search, **options).tolist() for _ in range(4))

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 16


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 5, FEW_ROWS + 1])
def test_products_of_few_rows_are_the_same_on_every_machine(
    rows: int, columns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnzoo.fast_products._columns_are_faster", lambda: columns)
    base, values, weight = torch.randn(rows, 7), torch.randn(rows, 5), torch.randn(7, 5)
    torch.testing.assert_close(add_products(base, [values], [weight.mT]), base + values @ weight.T)
