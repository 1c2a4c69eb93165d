"""How a matrix product runs on a CPU: by the faster of torch's two libraries, and by the faster layout.

torch multiplies float32 matrices by BLAS. It also has oneDNN, which takes half the time on some processors and about
the same time on others. So the first large product of a process measures both, once, in some milliseconds. Small
products, other types and other devices are left to torch. The environment variable ``ATTNZOO_ONEDNN`` decides without
a measurement: 0 for BLAS, 1 for oneDNN.

Dimensions: R rows, I input width, O output width.
"""

import os
import timeit
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from .library_internals import (
    blocked_linear,
    blocked_weight,
    has_hooks,
    has_int8_product,
    has_onednn_product,
    int8_product,
    is_transformed,
    onednn_product,
)

FEW_ROWS = 8  # up to these, a product with a large weight on a CPU waits for memory, not for arithmetic
LARGE = 2**22  # multiplications; for fewer, oneDNN takes longer to start than it saves
MARGIN = 1.3  # how many times as fast oneDNN must be, so that two processes of one machine decide alike
SWITCH = "ATTNZOO_ONEDNN"
# The package of this file, not "attnzoo": code that comes with a model's weights has another package name.
KNOWN_CODE = f"{__package__}.", "torch.nn.modules."


def product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """``left @ right``, of any shapes; of two matrices, (R, I) and (I, O), by the faster library.

    ``right`` may also come from :func:`laid_out`. ``out`` is memory that BLAS may write the result to; then there is no
    gradient.
    """
    if right.is_mkldnn:
        return blocked_linear(left, right, None)
    return _by_onednn(left, right) if suits_onednn(left, right) else torch.matmul(left, right, out=out)


def laid_out(factor: Tensor, rows: int) -> Tensor:
    """A factor (I, O) that is multiplied many times, without gradients, by values of at most ``rows`` rows.

    It may be in oneDNN's blocks, which :func:`product` reads and ``@`` does not.
    """
    if suits_onednn(factor.new_empty(rows, len(factor)), factor):
        return blocked_weight(factor.mT, rows)
    return factor.contiguous()


def add_product(base: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """``base`` plus the product of two matrices, (R, I) and (I, O)."""
    if right.is_mkldnn or suits_onednn(left, right):
        return base + product(left, right)
    if base.dtype == left.dtype == right.dtype and not torch.is_autocast_enabled(left.device.type):
        return torch.addmm(base, left, right)
    return base + left @ right


def add_products(base: Tensor, values: Sequence[Tensor], factors: Sequence[Tensor]) -> Tensor:
    """``base`` and the products of values (R, I) with transposed weights (I, O)."""
    for value, factor in zip(values, factors, strict=True):
        is_compiling = torch.compiler.is_compiling()  # a graph must fit any number of rows, and every machine
        if not is_compiling and len(value) <= FEW_ROWS and value.device.type == "cpu" and _columns_are_faster():
            base = base + few_rows_product(value, factor.mT)
        else:
            base = add_product(base, value, factor)
    return base


def linear(layer: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """The output of a linear layer for values (..., I), as :func:`product` computes it.

    A single row is left to torch, since memory limits its speed. What is more than a product and a bias (a layer with
    hooks, an adapter, a quantised layer, a function) is called as usual.
    """
    if type(layer) is not nn.Linear or values.ndim < 2 or torch.compiler.is_compiling() or is_transformed():
        return layer(values)
    if values.numel() in (0, values.shape[-1]) or values.numel() * layer.out_features < LARGE:
        return layer(values)  # the checks below would choose the same, in more time
    rows, weight = values.flatten(0, -2), layer.weight.mT
    if not suits_onednn(rows, weight) or not is_untouched(layer):
        return layer(values)
    found = _by_onednn(rows, weight).unflatten(0, values.shape[:-1])
    return found if layer.bias is None else found + layer.bias


def suits_onednn(left: Tensor, right: Tensor) -> bool:
    """Whether oneDNN multiplies these faster: large float32 matrices on a CPU."""
    return (
        not torch.compiler.is_compiling()
        and left.numel() * right.shape[-1] >= LARGE
        and not is_transformed()
        and left.device.type == right.device.type == "cpu"
        and left.dtype == right.dtype == torch.float32
        and left.ndim == right.ndim == 2
        and type(left) in (Tensor, nn.Parameter)
        and type(right) in (Tensor, nn.Parameter)
        and not torch.is_autocast_enabled("cpu")
        and onednn_is_faster()
    )


@cache
def onednn_is_faster() -> bool:
    """Whether oneDNN is clearly faster than BLAS on this machine, measured once a process."""
    if not has_onednn_product():
        return False
    if os.environ.get(SWITCH) in ("0", "1"):
        return os.environ[SWITCH] == "1"
    values, weight = torch.ones(64, 512), torch.ones(512, 1024)
    return _seconds(torch.mm, values, weight) > MARGIN * _seconds(onednn_product, values, weight)


@cache
def int8_is_faster() -> bool:
    """Whether a product with a weight in eight bits is exact, and faster than in float32, measured once a process.

    It is faster on a processor with instructions for eight bits. On another one its sums may overflow 16 bits. oneDNN
    computes it, so ``ATTNZOO_ONEDNN`` decides here too.
    """
    if not has_int8_product() or os.environ.get(SWITCH) == "0":
        return False
    weight, values = torch.full((2048, 512), 127.0), torch.full((512, 1), 127.0)
    weight[::2] *= -1  # the largest sums of either sign
    integers = weight.to(torch.int8), values.to(torch.int8)
    is_exact = torch.equal(int8_product(*integers), torch.mm(weight, values).int())
    return is_exact and (
        os.environ.get(SWITCH) == "1" or _seconds(int8_product, *integers) < _seconds(torch.mm, weight, values)
    )


def few_rows_product(values: Tensor, weight: Tensor) -> Tensor:
    """Values (R, I) times the transpose of a large weight (O, I), for so few rows that memory is the limit.

    On some processors BLAS reads the weight about twice as fast in its stored layout as transposed, and about twice as
    fast for two columns as for one. So a single column is repeated.
    """
    columns = values.expand(max(2, len(values)), -1).contiguous().t()
    return (weight @ columns)[:, : len(values)].t()


@cache
def _columns_are_faster() -> bool:
    """Whether BLAS is faster by :func:`few_rows_product` on this machine, measured once a process in some milliseconds.

    Twice as fast on an AMD processor, a third as fast on an Intel one with AMX.
    """
    values, weight = torch.ones(1, 512), torch.ones(1024, 512)
    return _seconds(few_rows_product, values, weight) < _seconds(nn.functional.linear, values, weight)


@torch.no_grad()
def _seconds(multiply: Callable[[Tensor, Tensor], Tensor], left: Tensor, right: Tensor) -> float:
    return min(timeit.repeat(partial(multiply, left, right), number=2, repeat=7))


def _by_onednn(left: Tensor, right: Tensor) -> Tensor:
    if torch.is_grad_enabled() and (left.requires_grad or right.requires_grad):
        return _OneDNNProduct.apply(left, right)
    return onednn_product(left, right)


class _OneDNNProduct(torch.autograd.Function):
    """The product with its gradients, which are products, too."""

    @staticmethod
    def forward(ctx: FunctionCtx, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        return onednn_product(left, right)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        left, right = ctx.saved_tensors
        of_left, of_right = ctx.needs_input_grad
        return product(gradient, right.mT) if of_left else None, product(left.mT, gradient) if of_right else None


def is_untouched(module: nn.Module) -> bool:
    """Whether the weights of a module may be read without calling the parts of it that hold them.

    False if a part has hooks, which would be bypassed (they may load the weights). False also if a part has another
    ``forward``, or another class than when it was made (an adapter, a quantised layer).
    """
    for part in module.modules():
        is_known = type(part).__module__.startswith(KNOWN_CODE)
        # accelerate replaces ``forward`` where it loads weights on demand
        if not is_known or "forward" in vars(part) or has_hooks(part):
            return False
    return True


def is_plain_linear(layer: Any) -> TypeGuard[nn.Linear]:
    """Whether a layer only has a product and perhaps a bias, so that its caller may read these instead."""
    return type(layer) is nn.Linear and is_untouched(layer)
