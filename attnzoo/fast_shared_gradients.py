"""Products whose gradients are deferred: one after the loop instead of one in every step.

A recurrent loop multiplies with the same weights, keys and values at every step. Plain autograd then makes a gradient
as large as the factor (the weight, key or value) in every step and adds them up. Here the backward pass of a step only
stores its values and its gradient. After the loop one product of all of them makes the gradient of the factor. Autograd
does everything else.

Dimensions: B batch, T steps, n rows of one step, N rows of all steps, I and O widths before and after a product.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pad_sequence

from .fast_additive import PassedKey
from .fast_products import laid_out, product
from .library_internals import blocked_linear, is_transformed
from .packed_rows import PackedRows
from .step_products import GateSum, LayerProducts, StepProducts, multiply

Noted = list[tuple[Tensor, Tensor]]  # values and gradient of every step, the last step first


def loop_products(rows: PackedRows) -> StepProducts:
    """How a loop over these rows multiplies: with deferred gradients where there are gradients and steps to share."""
    # A graph, or a transform of torch.func, has no place for what a step stores.
    is_plain = not torch.compiler.is_compiling() and not is_transformed()
    if torch.is_grad_enabled() and len(rows.sizes) > 1 and is_plain:
        return DeferredProducts(rows.sizes[0])
    return StepProducts()


class DeferredProducts(LayerProducts):
    """The products of a loop in training. No step has more than ``rows`` rows.

    Under autocast the products are in its precision. A factor that needs no gradient stays as it is.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def factor(self, factor: Tensor) -> Any:
        factor = _autocast(factor)  # once, and not at every step
        return DeferredFactor(factor, self.rows) if factor.requires_grad else factor

    def additive_key(self, key: Tensor) -> Any:
        return PassedKey(key)

    def linear(self, layer: nn.Linear) -> Any:
        return DeferredLinear(layer, self)

    def sum(self, bias: Tensor, weight: Tensor, width: int, *others: Tensor) -> GateSum:
        found = GateSum(bias, weight, width, *others)
        return DeferredSum(bias, weight, width, *others) if found.others else found  # else a step adds nothing


class DeferredSum(GateSum):
    """A :class:`GateSum` whose step is one product: its values side by side times the weights side by side.

    The known terms of all steps are outputs of one node of autograd, which gets the gradients of all steps together.
    """

    def known(self, inputs: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
        self.values: dict[int, Tensor] = {}  # of each step, side by side, stored by its backward pass
        self.steps = 0  # so far
        weights = [_autocast(weight) for weight in self.others]
        detached = [weight.detach() for weight in weights]
        self.factors = [laid_out(factor, sizes[0]) for factor in (torch.cat(detached, dim=1).mT, *detached)]
        return _KnownTerms.apply(self.values, sizes, self.known_rows(inputs), *weights)

    def __call__(self, known: Tensor, *values: Tensor) -> Tensor:
        self.steps += 1
        return _Sum.apply(self.values, self.steps, self.factors, known, *values)


class _KnownTerms(torch.autograd.Function):
    """The known terms of all steps, one output for each step. Its backward pass makes the gradients of the weights,
    too.
    """

    @staticmethod
    def forward(
        ctx: Any, values: dict[int, Tensor], sizes: Sequence[int], known: Tensor, *weights: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.values, ctx.dtype, ctx.sizes = values, weights[0].dtype, sizes
        ctx.widths, ctx.width = [weight.shape[1] for weight in weights], known.shape[1]
        ctx.set_materialize_grads(False)
        return known.detach().split(list(sizes))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        steps = [step for step, gradient in enumerate(gradients, 1) if gradient is not None]
        if not steps:
            return None, None, None, *([None] * len(ctx.widths))
        given = torch.cat([gradient for gradient in gradients if gradient is not None])
        values = torch.cat([ctx.values[step] for step in steps])
        ctx.values.clear()
        flat = given.to(ctx.dtype).mT
        of_weights = [
            product(flat, part) if is_needed else None
            for part, is_needed in zip(values.split(ctx.widths, dim=1), ctx.needs_input_grad[3:], strict=True)
        ]
        if len(steps) < len(gradients):  # the loss does not depend on the others
            filled = zip(gradients, ctx.sizes, strict=True)
            given = torch.cat([given.new_zeros(size, ctx.width) if part is None else part for part, size in filled])
        return None, None, given, *of_weights


class _Sum(torch.autograd.Function):
    """One step of a :class:`DeferredSum`.

    ``factors`` are the factor (I, O) of the values side by side and, for each value, the factor (O, I) of its gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, stored: dict[int, Tensor], step: int, factors: Sequence[Tensor], known: Tensor, *values: Tensor
    ) -> Tensor:
        ctx.stored, ctx.step, ctx.dtype = stored, step, values[0].dtype
        factor = factors[0]
        used = (values[0] if len(values) == 1 else torch.cat(values, dim=1)).to(factor.dtype)
        _save(ctx, used, factors[1:])
        if factor.is_mkldnn or known.dtype != used.dtype:
            return known + times(used, factor)
        return torch.addmm(known, used, factor)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        ctx.stored[ctx.step], *factors = _saved(ctx)
        used = gradient.to(factors[0].dtype)
        return None, None, None, gradient, *[times(used, factor).to(ctx.dtype) for factor in factors]


class DeferredFactor:
    """Stands for a factor (I, O) or (B, I, O) in :func:`multiply`, for values (n, I) or (n, N, I)."""

    def __init__(self, factor: Tensor, rows: int) -> None:
        self.factor, self.rows, self.dtype = factor, rows, factor.dtype
        self.noted: Noted = []

    @cached_property
    def mT(self) -> "DeferredFactor":  # noqa: N802
        return DeferredFactor(self.factor.mT, self.rows)

    @cached_property
    def factors(self) -> tuple[Tensor, Tensor]:
        """The factor of the values, and the transposed one of their gradients."""
        detached = self.factor.detach()
        if detached.ndim == 3:  # every row's own factor is small
            return detached, detached.mT
        return laid_out(detached, self.rows), laid_out(detached.mT, self.rows)

    @cached_property
    def link(self) -> Tensor:
        """A scalar passed from step to step. It makes autograd run the steps' backward passes from the last to the
        first, and then that of :class:`_FactorGradient`, when all have stored their gradients.
        """
        return _FactorGradient.apply(self.noted, self.factor)

    def __getitem__(self, rows: slice) -> "DeferredFactor":
        return self  # a product takes as many rows of the factor as the values have

    def product(self, values: Tensor) -> Tensor:
        found, self.link = _Product.apply(self.noted, self.link, self.factors, values)
        return found


class _FactorGradient(torch.autograd.Function):
    """The link of a factor; its backward pass makes the factor's gradient from what the steps stored."""

    @staticmethod
    def forward(ctx: Any, noted: Noted, factor: Tensor) -> Tensor:
        ctx.noted, ctx.dtype, ctx.rows, ctx.has_rows = noted, factor.dtype, len(factor), factor.ndim == 3
        return factor.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_link: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.noted:  # the loss depends on no step
            return None, None
        ctx.noted.reverse()
        if ctx.has_rows:  # a factor of each row
            # (rows, steps, N, ...), of N values for each row: the targets of its source
            padded = (pad_sequence(list(parts)) for parts in zip(*ctx.noted, strict=True))
            values, gradients = (_with_rows(parts, ctx.rows).flatten(1, 2) for parts in padded)
        else:
            values, gradients = (torch.cat(parts).flatten(0, -2) for parts in zip(*ctx.noted, strict=True))
        ctx.noted.clear()
        return None, product(values.mT, gradients.to(ctx.dtype))


class _Product(torch.autograd.Function):
    """One step's product with a :class:`DeferredFactor`. It also passes on the link, which goes through all steps in
    order; its gradient goes back through them.
    """

    @staticmethod
    def forward(
        ctx: Any, noted: Noted, link: Tensor, factors: Sequence[Tensor], values: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.noted, ctx.dtype = noted, values.dtype
        ctx.set_materialize_grads(False)
        factor, transposed = factors
        if factor.ndim == 3 and len(values) < len(factor):
            factor, transposed = factor[: len(values)], transposed[: len(values)]
        used = values.to(factor.dtype)
        _save(ctx, used, (transposed,))
        return times(used, factor).to(ctx.dtype), link

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, grad_link: Tensor | None) -> tuple[Tensor | None, ...]:
        values, transposed = _saved(ctx)
        # No gradient of the link yet: this is the first call of a backward pass, for the last step of the loop. What
        # is already stored comes from an earlier backward pass that did not finish.
        if grad_link is None:
            ctx.noted.clear()
            grad_link = values.new_zeros(())
        if gradient is None:  # the loss does not depend on this step
            return None, grad_link, None, None
        used = gradient.to(transposed.dtype)
        ctx.noted.append((values, used))
        return None, grad_link, None, times(used, transposed).to(ctx.dtype)


class DeferredLinear:
    """A linear layer whose weight has a deferred gradient. Adapters read its weight."""

    def __init__(self, layer: nn.Linear, products: DeferredProducts) -> None:
        self.weight, self.bias, self.factor = layer.weight, layer.bias, products.factor(layer.weight.mT)

    def __call__(self, values: Tensor) -> Tensor:
        found = multiply(values, self.factor)
        return found if self.bias is None else found + self.bias


def times(values: Tensor, factor: Tensor) -> Tensor:
    """The product with a factor from :func:`laid_out`, which has chosen how, or with a factor of each row."""
    return blocked_linear(values, factor, None) if factor.is_mkldnn else values @ factor


def _save(ctx: Any, values: Tensor, factors: Sequence[Tensor]) -> None:
    """Save for :func:`_saved`. Blocks are not ordinary tensors, which hooks of saved tensors expect."""
    ctx.factors = None
    if factors[0].is_mkldnn or factors[-1].is_mkldnn:
        ctx.factors = factors
        ctx.save_for_backward(values)
    else:
        ctx.save_for_backward(values, *factors)


def _saved(ctx: Any) -> Sequence[Tensor]:
    return ctx.saved_tensors if ctx.factors is None else [*ctx.saved_tensors, *ctx.factors]


def _autocast(factor: Tensor) -> Tensor:
    """The factor in the precision of autocast, where that is on."""
    device = factor.device.type
    return factor.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else factor


def _with_rows(values: Tensor, rows: int) -> Tensor:
    """(n, ...) as (rows, ...), with zeros for the rows that have ended."""
    if len(values) == rows:
        return values
    return torch.cat([values, values.new_zeros(rows - len(values), *values.shape[1:])])
