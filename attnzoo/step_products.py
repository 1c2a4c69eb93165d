r"""The products of a loop over steps, in their plain form.

A recurrent loop multiplies with the same weights, keys and values in every step. :class:`StepProducts` does it as torch
does. Training takes :class:`DeferredProducts` in its place, and ``search()`` takes :class:`RepeatedProducts`. They
compute the same, faster.

Dimensions: n rows of one step, N rows of all steps, I and O widths before and after a product, G of gates.
"""

import copy
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from .fast_products import add_products, is_untouched


def multiply(values: Tensor, factor: Any) -> Tensor:
    """``values @ factor``, for a tensor or for what :meth:`StepProducts.factor` makes of one."""
    return values @ factor if isinstance(factor, Tensor) else factor.product(values)


class GateSum:
    r"""The sum inside a gate, before its activation: :math:`W x + b`, and what a step adds to it.

    .. math:: W x_t + b + V c_t + U s_{t-1}

    The inputs :math:`x_t` are known before the loop, so the first two terms are made for all steps at once. The others,
    a context and the state, come from the step before.

    Args:
        bias: (G,)
        weight: (G, I + O), of the inputs, of which the first ``width``, I, are known before the loop
        width: I
        others: of the state, (G, H) each
    """

    def __init__(self, bias: Tensor, weight: Tensor, width: int, *others: Tensor) -> None:
        fed = (weight[:, width:],) if width < weight.shape[1] else ()
        self.bias, self.weight, self.others = bias, weight[:, :width], (*fed, *others)
        self.factors: Sequence[Tensor] = [other.mT for other in self.others]

    def known(self, inputs: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
        """W x + b for inputs (N, I), as (n, G) for each step."""
        return self.known_rows(inputs).split(sizes)

    def known_rows(self, inputs: Tensor) -> Tensor:
        """W x + b of all rows, (N, G)."""
        if not self.weight.shape[1]:
            return self.bias.expand(inputs.shape[0], -1)
        return add_products(self.bias, (inputs,), (self.weight.mT,)).to(inputs.dtype)

    def __call__(self, known: Tensor, *values: Tensor) -> Tensor:
        """The sum (n, G), of what is known (n, G) and of a value (n, O) for each of the other weights."""
        return add_products(known, values, self.factors)


class StepProducts:
    """How the steps of a loop multiply: here as torch does, anew in every step."""

    def factor(self, factor: Tensor) -> Any:
        """What :func:`multiply` gets in place of a factor (I, O) or (B, I, O) that is the same in every step."""
        return factor

    def additive_key(self, key: Tensor) -> Any:
        """What :func:`fast_additive_score` gets in place of a key (B, S, A)."""
        return key

    def sum(self, bias: Tensor, weight: Tensor, width: int, *others: Tensor) -> GateSum:
        """What is called in place of a :class:`GateSum`."""
        return GateSum(bias, weight, width, *others)

    def child(self, module: nn.Module) -> Any:
        """What takes the place of a part of a module."""
        return module

    def for_loop(self, module: Any) -> Any:
        """A copy of ``module`` for the loop, in which its parts and its recurrent stack multiply in this way.

        Parameters and hooks are those of ``module``.
        """
        children: dict[str, Any] = {}
        steps: dict[str, Any] = {}
        for name, child in module._modules.items():
            if hasattr(child, "for_steps"):
                steps[name] = child.for_steps(self)  # no module, and so a plain attribute of the copy
            elif child is not None and (part := self.child(child)) is not child:
                children[name] = part
        if not steps and not children:
            return module
        module = copy.copy(module)
        module._modules = module._modules | children
        vars(module).update(steps)
        return module


class LayerProducts(StepProducts):
    """Products that take the place of linear layers, too, wherever they are in a module.

    A layer that is more than a product and a bias (hooks, an adapter, a quantised layer) stays as it is.
    """

    def linear(self, layer: nn.Linear) -> Any:
        """What is called in place of a linear layer."""
        raise NotImplementedError

    def child(self, module: nn.Module) -> Any:
        if isinstance(module, nn.Linear):
            return self.linear(module) if type(module) is nn.Linear and is_untouched(module) else module
        # Somebody's own function in place of ``forward`` knows the module and not its copy.
        return module if "forward" in vars(module) else self.for_loop(module)
