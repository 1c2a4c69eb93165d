r"""The products of a loop over steps, in their plain form.

A recurrent loop multiplies with the same weights, keys and values in every step. :class:`StepProducts` does it as torch
does. A loop in training takes :class:`DeferredProducts` in its place, and ``search()`` takes :class:`RepeatedProducts`.
They compute the same, faster.

Dimensions: n rows of one step, N rows of all steps, I and O widths before and after a product, G of gates.
"""

import copy
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from .fast_products import add_products, is_untouched


def multiply(values: Tensor, factor: Any) -> Tensor:
    """``values @ factor``, where the factor is a tensor or the result of :meth:`StepProducts.factor`."""
    return values @ factor if isinstance(factor, Tensor) else factor.product(values)


class GateSum:
    r"""The sum inside a gate, before its activation: :math:`W x + b`, and the terms that a step adds.

    .. math:: W x_t + b + V c_t + U s_{t-1}

    The inputs :math:`x_t` are known before the loop, so the first two terms are made for all steps at once. The others,
    such as a context and the state, are known only in a step. W is the first ``width`` columns of ``weight``, V the
    rest, U ``others``.

    Args:
        bias: (G,)
        weight: (G, I + O), the weight of the inputs, of which the first ``width``, I, are known before the loop
        width: I
        others: the weights of the state, (G, H) each
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
        """The sum (n, G) of the known term (n, G) and of the products of the other weights with a value (n, O) each."""
        return add_products(known, values, self.factors)


class StepProducts:
    """The products of a loop's steps, here as torch computes them, anew in every step."""

    def factor(self, factor: Tensor) -> Any:
        """The argument of :func:`multiply` for a factor (I, O) or (B, I, O) that is the same in every step."""
        return factor

    def additive_key(self, key: Tensor) -> Any:
        """The argument of :func:`fast_additive_score` for a key (B, S, A)."""
        return key

    def sum(self, bias: Tensor, weight: Tensor, width: int, *others: Tensor) -> GateSum:
        """The :class:`GateSum` of these weights, or what is called in place of it."""
        return GateSum(bias, weight, width, *others)

    def child(self, module: nn.Module) -> Any:
        """The replacement of a part of a module in the copy; here there is none."""
        return module

    def for_loop(self, module: Any) -> Any:
        """A copy of ``module`` for the loop, in which its parts and its recurrent stack multiply in this way, or
        ``module`` itself if nothing changes.

        Parameters and hooks are those of ``module``.
        """
        children: dict[str, Any] = {}
        steps: dict[str, Any] = {}
        for name, child in module._modules.items():
            if hasattr(child, "for_steps"):
                steps[name] = child.for_steps(self)  # not a module, and so a plain attribute of the copy
            elif child is not None and (part := self.child(child)) is not child:
                children[name] = part
        if not steps and not children:
            return module
        module = copy.copy(module)
        module._modules = module._modules | children
        vars(module).update(steps)
        return module


class LayerProducts(StepProducts):
    """Products that also replace linear layers, anywhere in a module.

    A layer that is more than a product and a bias (hooks, an adapter, a quantised layer) stays as it is.
    """

    def linear(self, layer: nn.Linear) -> Any:
        """The function that is called in place of a linear layer."""
        raise NotImplementedError

    def child(self, module: nn.Module) -> Any:
        if isinstance(module, nn.Linear):
            return self.linear(module) if type(module) is nn.Linear and is_untouched(module) else module
        # A ``forward`` that somebody replaced would get the module, not its copy.
        return module if "forward" in vars(module) else self.for_loop(module)
