"""Products in eight bits as the browser computes them, and the alphas that are recorded for them."""

from typing import Any

import numpy as np
import pytest
import torch

from attnzoo.firefox.browser_arithmetic import Int8Linear, in_browser_arithmetic, recorded_alphas
from attnzoo.firefox.int8 import Int8Matrix, is_quantised
from attnzoo.firefox.parameters import to_marian, to_model
from tests.factory import refused
from tests.firefox.models import random_model


def by_loops(layer: Any, matrix: Int8Matrix, bias: list[float], values: list[float], saturates: bool) -> list[float]:
    """The equations, number by number."""
    inputs = [max(-127, min(127, round(layer.alpha.item() * value))) + 127 for value in values]  # ties to even
    found = []
    for n in range(matrix.codes.shape[1]):
        products = [one * int(code) for one, code in zip(inputs, matrix.codes[:, n], strict=True)]
        pairs = [sum(products[i : i + 2]) for i in range(0, len(products), 2)]
        if saturates:
            pairs = [max(-32768, min(32767, pair)) for pair in pairs]
        shift = 127 * sum(int(code) for code in matrix.codes[:, n])
        found.append((sum(pairs) - shift) / (layer.alpha.item() * matrix.multiplier) + bias[n])
    return found


@pytest.mark.parametrize("saturates", [False, True])
def test_a_product_is_that_of_the_loops(saturates: bool) -> None:
    draw = np.random.default_rng(0)
    matrix = Int8Matrix(draw.integers(-127, 128, (6, 5), dtype=np.int8), 50.0)
    matrix.codes[:2, 0], matrix.codes[2:4, 1] = 127, -127  # whose sums do not fit in 16 bits with large inputs
    values = torch.tensor([[4.0, 4.0, 4.0, 4.0, -9.0, 0.0], [0.25, 0.75, 0.125, -0.25, -0.75, 1.0]])
    bias = torch.arange(5.0)
    layer = Int8Linear(matrix, 10.0, bias, saturates)
    expected = [by_loops(layer, matrix, bias.tolist(), row, saturates) for row in values.tolist()]
    torch.testing.assert_close(layer(values), torch.tensor(expected), rtol=1e-5, atol=1e-4)
    other = Int8Linear(matrix, 10.0, bias, not saturates)(values)
    assert (layer(values)[0, :2] - other[0, :2]).abs().min() > 1


def test_alphas_are_those_of_the_largest_inputs() -> None:
    model = to_model(random_model(), 0)
    sources = [[3, 4, 5, 0], [6, 0]]
    alphas = recorded_alphas(model, sources)
    assert alphas.keys() == {name for name in random_model().items if is_quantised(name)}
    stack = model.model.encoder
    embedded = [stack.embed_tokens(torch.tensor([source])) * 8**0.5 for source in sources]
    with torch.no_grad():
        inputs = [stack.position_embedding(one, torch.arange(one.shape[1])[None], one.shape[1]) for one in embedded]
    seen = [float(one.abs().max()) for one in inputs]
    assert alphas["encoder_l1_self_Wq"] == pytest.approx(127 / (np.mean(seen) + 1.1 * np.std(seen)), rel=1e-6)
    assert not any(module._forward_pre_hooks for module in model.modules())
    with refused(ValueError, "give at least one"):
        recorded_alphas(model, [])
    with refused(ValueError, "no matrices in eight bits with alphas"):
        in_browser_arithmetic(model, to_marian(model), True)
