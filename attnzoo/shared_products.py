"""Products that all steps of a loop share: one gradient after the loop instead of one in every step.

A recurrent loop multiplies with the same weights, keys and values at every step. Plain autograd then makes a gradient
as large as the factor (the weight, key or value) in every step and adds them up. Here the backward pass of a step only
stores a note, its input and its gradient. After the loop one product of all notes makes the gradient of the factor.
Autograd does everything else.

:class:`LoopRows` arranges a padded batch so that a step runs only over the rows that have not ended.
:meth:`LoopRows.share` returns an object that takes the place of a factor in ``values @ factor``.

Dimensions: B batch, T steps, n rows of one step, N rows of all steps, I and O widths before and after a product.
"""

import copy
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import pad_sequence

from .library_internals import is_transformed
from .products import add_product, add_products, is_untouched, laid_out, product

Notes = list[tuple[Tensor, Tensor]]  # input and gradient of every step, the last step first


class LoopRows:
    """The rows of a batch, longest first, so that the rows of step t are the first n_t.

    Packed values are (N, ...): the rows of all steps one below the other.

    Args:
        values: (B, T, ...), for the sizes of the batch
        lengths: (B,), at least 1, where rows end before T; None if none does

    Attributes:
        sizes: n_t of every step, until the longest row ends
        is_shared: whether factors are shared: gradients are wanted and there are steps to share them
    """

    def __init__(self, values: Tensor, lengths: Tensor | None = None) -> None:
        self.shape = batch, steps = values.shape[0], values.shape[1]
        self.order: Tensor | None = None
        self.sizes = [batch] * steps
        if lengths is not None:
            lengths, self.order = lengths.sort(descending=True, stable=True)
            step = torch.arange(int(lengths[0]), device=lengths.device).unsqueeze(1)
            is_open = lengths > step  # (T, B)
            self.sizes = is_open.sum(dim=1).tolist()
            self.places = (self.order * steps + step)[is_open]  # (N,), of packed rows in (B * T, ...)
        # A graph, or a transform of torch.func, has no place for the notes.
        is_plain = not torch.compiler.is_compiling() and not is_transformed()
        self.is_shared = torch.is_grad_enabled() and len(self.sizes) > 1 and is_plain

    def sort(self, values: Tensor) -> Tensor:
        """(B, ...) in the order of the rows."""
        return values if self.order is None else values.index_select(0, self.order)

    def pack(self, values: Tensor) -> Tensor:
        """(B, T, ...) to (N, ...)."""
        if self.order is None:
            return values.transpose(0, 1).flatten(0, 1)
        return values.flatten(0, 1).index_select(0, self.places)

    def unpack(self, values: Tensor) -> Tensor:
        """(N, ...) to (B, T, ...), with zeros where a row has ended."""
        batch, steps = self.shape
        if self.order is None:
            return values.unflatten(0, (steps, batch)).transpose(0, 1)
        whole = values.new_zeros(batch * steps, *values.shape[1:])
        return whole.index_copy(0, self.places, values).unflatten(0, (batch, steps))

    def join(self, steps: Sequence[Tensor]) -> Tensor:
        """Values (n, ...) of every step as (B, T, ...), with zeros where a row has ended."""
        return self.unpack(torch.cat(list(steps)))

    def share(self, factor: Tensor) -> Any:
        """An object that replaces ``factor``, (I, O) or (B, I, O), in the product ``values @ factor`` of every step.

        Values are (n, I) for a weight and (n, 1, I) for a factor of each row. Under autocast the products are in its
        precision. The factor itself comes back where sharing gains nothing: one step, or no gradient of the factor.
        """
        if len(self.sizes) > 1:
            factor = _autocast(factor)  # once, and not at every step
        return SharedFactor(factor, self.sizes[0]) if self.is_shared and factor.requires_grad else factor

    def share_sum(self, base: Tensor, *weights: Tensor) -> Callable[..., Tensor]:
        """A function of step t and values (n_t, I): rows of ``base`` (N, O) plus each value times its weight (O, I).

        If factors are shared, this is one product: the values side by side times the weights side by side.
        """
        if self.is_shared:
            return SharedSum(base, [_autocast(weight) for weight in weights], self.sizes)
        bases, factors = base.split(self.sizes), [self.share(weight.mT) for weight in weights]
        return lambda step, *values: add_products(bases[step], values, factors)

    def share_linears(self, module: Any) -> Any:
        """A copy of ``module`` for this loop, whose linear layers share their products.

        Parameters and hooks are those of ``module``. A layer that is more than a product and a bias (hooks, an
        adapter, a quantised layer) stays as it is.
        """
        if not self.is_shared:
            return module
        if isinstance(module, nn.Linear):
            return self.share_linear(module) if type(module) is nn.Linear and is_untouched(module) else module
        if "forward" in vars(module):  # somebody's own function, which knows the module and not its copy
            return module
        module = copy.copy(module)
        module._modules = {name: child and self.share_linears(child) for name, child in module._modules.items()}
        return module

    def share_linear(self, layer: nn.Linear) -> Callable[[Tensor], Tensor]:
        """A function that replaces a layer which is a product and a bias, and nothing else."""
        return _SharedLinear(layer, self)


class SharedFactor:
    """Stands for a tensor in ``values @ factor`` and ``values @ factor.mT``; see :meth:`LoopRows.share`."""

    def __init__(self, factor: Tensor, rows: int) -> None:
        self.factor, self.rows, self.dtype = factor, rows, factor.dtype
        self.notes: Notes = []

    @cached_property
    def mT(self) -> "SharedFactor":  # noqa: N802
        return SharedFactor(self.factor.mT, self.rows)

    @cached_property
    def factors(self) -> tuple[Tensor, Tensor]:
        """The factor of the values, and the transposed one of their gradients."""
        detached = self.factor.detach()
        if detached.ndim == 3:  # every row's own factor is small
            return detached, detached.mT
        return laid_out(detached, self.rows), laid_out(detached.mT, self.rows)

    @cached_property
    def link(self) -> Tensor:
        """A scalar that links the steps for autograd. Its gradient reaches the factor after all steps made notes."""
        return _FactorGradient.apply(self.notes, None, self.factor.mT)

    def __getitem__(self, rows: slice) -> "SharedFactor":
        return self  # the number of rows is that of the values

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """Called by torch for ``values @ factor``."""
        if function is not Tensor.matmul or not isinstance(args[1], cls):
            return NotImplemented
        values, shared = args
        product, shared.link = _Product.apply(shared.notes, shared.link, None, shared.factors, values)
        return product


class SharedSum:
    """What :meth:`LoopRows.share_sum` gives: the base has one gradient after the loop, too."""

    def __init__(self, base: Tensor, weights: Sequence[Tensor], sizes: list[int]) -> None:
        self.notes: Notes = []
        self.bases, detached = base.detach().split(sizes), [weight.detach() for weight in weights]
        self.factors = [laid_out(factor, sizes[0]) for factor in (torch.cat(detached, dim=1).mT, *detached)]
        self.link = _FactorGradient.apply(self.notes, base, *weights)

    def __call__(self, step: int, *values: Tensor) -> Tensor:
        total, self.link = _Product.apply(self.notes, self.link, self.bases[step], self.factors, *values)
        return total


class _FactorGradient(torch.autograd.Function):
    """The link of the weights (O, I); its backward pass makes their gradients and that of the base from the notes."""

    @staticmethod
    def forward(ctx: Any, notes: Notes, base: Tensor | None, *weights: Tensor) -> Tensor:
        ctx.notes, ctx.dtype = notes, weights[0].dtype
        ctx.widths, ctx.rows = [weight.shape[-1] for weight in weights], len(weights[0] if base is None else base)
        ctx.has_rows = weights[0].ndim == 3
        return weights[0].new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_link: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.notes:  # no step had a part in the loss
            return None, None, *([None] * len(ctx.widths))
        ctx.notes.reverse()
        if ctx.has_rows:  # a factor of each row
            steps = ([part[:, 0] for part in parts] for parts in zip(*ctx.notes, strict=True))
            values, gradients = (_with_rows(pad_sequence(parts), ctx.rows) for parts in steps)  # (rows, steps, ...)
        else:
            values, gradients = (torch.cat(parts).flatten(0, -2) for parts in zip(*ctx.notes, strict=True))
        ctx.notes.clear()
        grad_base = _with_rows(gradients, ctx.rows) if ctx.needs_input_grad[1] else None
        gradients = gradients.to(ctx.dtype).mT
        grad_weights = (
            product(gradients, part) if is_needed else None
            for part, is_needed in zip(values.split(ctx.widths, dim=-1), ctx.needs_input_grad[2:], strict=True)
        )
        return None, grad_base, *grad_weights


class _Product(torch.autograd.Function):
    """The product of values side by side. It also passes on the link.

    The link goes through all steps in order, and its gradient goes back through them. ``factors`` are the factor
    (I, O) of the values side by side and, for each value, the factor (O, I) of its gradient.
    """

    @staticmethod
    def forward(
        ctx: Any, notes: Notes, link: Tensor, base: Tensor | None, factors: Sequence[Tensor], *values: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.notes, ctx.dtype, ctx.has_base = notes, values[0].dtype, base is not None
        ctx.set_materialize_grads(False)
        if factors[0].ndim == 3:
            factors = [factor[: len(values[0])] for factor in factors]
        factor, *factors = factors
        used = (values[0] if len(values) == 1 else torch.cat(values, dim=1)).to(factor.dtype)
        # Blocks are no ordinary tensors, which hooks of saved tensors expect.
        ctx.blocks = [factor if factor.is_mkldnn else None for factor in factors]
        ctx.save_for_backward(used, *(factor for factor in factors if not factor.is_mkldnn))
        found = product(used, factor).to(ctx.dtype) if base is None else add_product(base, used, factor)
        ctx.width = found.shape[-1]
        return found, link

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None, grad_link: Tensor | None) -> tuple[Tensor | None, ...]:
        values, *plain = ctx.saved_tensors
        factors = [plain.pop(0) if blocks is None else blocks for blocks in ctx.blocks]
        # No gradient of the link yet: this is the first call of a backward pass, for the last step of the loop. Notes
        # that are already there come from an earlier backward pass that did not finish.
        if grad_link is None:
            ctx.notes.clear()
            grad_link = values.new_zeros(())
        if gradient is None:  # this step has no part in the loss, but its rows of the base have their place
            if ctx.has_base:
                ctx.notes.append((values, values.new_zeros(len(values), ctx.width)))
            return None, grad_link, None, None, *([None] * len(factors))
        used = gradient.to(factors[0].dtype)
        ctx.notes.append((values, gradient if ctx.has_base else used))
        return None, grad_link, None, None, *(product(used, factor).to(ctx.dtype) for factor in factors)


class _SharedLinear:
    """A linear layer whose weight is shared; adapters read its weight."""

    def __init__(self, layer: nn.Linear, rows: LoopRows) -> None:
        self.weight, self.bias = rows.share(layer.weight), layer.bias

    def __call__(self, values: Tensor) -> Tensor:
        found = values @ self.weight.mT
        return found if self.bias is None else found + self.bias


def _autocast(factor: Tensor) -> Tensor:
    """The factor in the precision of autocast, where that is on."""
    device = factor.device.type
    return factor.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else factor


def first_rows(values: Tensor, rows: int) -> Tensor:
    """The first rows of values; a slice of all of them would copy the gradient once more."""
    return values if values.shape[0] == rows else values[:rows]  # len() would tie an exported graph to one batch size


def _with_rows(values: Tensor, rows: int) -> Tensor:
    """(n, ...) as (rows, ...), with zeros for the rows that have ended."""
    if len(values) == rows:
        return values
    return torch.cat([values, values.new_zeros(rows - len(values), *values.shape[1:])])
