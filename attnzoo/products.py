"""Matrix products by the faster of the two libraries that torch has for a CPU.

torch multiplies matrices of float32 by BLAS. oneDNN, which it has too, takes half the time on some processors, and on
others as long. So the first large product of a process measures both, once, in some milliseconds. What depends on it
is :func:`product` and :func:`linear`; small products, other types and other devices are left to torch. The environment
variable ``ATTNZOO_ONEDNN`` decides without a measurement: 0 for BLAS, 1 for oneDNN.

Letters in shapes: R rows, I input width, O output width.
"""

import os
import timeit
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from .library_internals import (
    BACKWARD_HOOKS,
    forward_hooks,
    has_onednn_product,
    hooks_of,
    is_transformed,
    onednn_product,
)

LARGE = 2**22  # multiplications; below, oneDNN needs longer to start than it saves
MARGIN = 1.3  # how many times as fast oneDNN must be, so that two processes of one machine decide alike
SWITCH = "ATTNZOO_ONEDNN"


def product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """``left @ right``, of any shapes; of two matrices, (R, I) and (I, O), by the faster library.

    ``out`` is memory that BLAS may write the result to. Then there is no gradient.
    """
    if not suits_onednn(left, right):
        return torch.matmul(left, right, out=out)
    if torch.is_grad_enabled() and (left.requires_grad or right.requires_grad):
        return _OneDNNProduct.apply(left, right)
    return onednn_product(left, right)


def linear(layer: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """A linear layer of values (..., I), by :func:`product`.

    What is more than a product and a bias (a layer with hooks, an adapter, a quantised layer, a function) is called as
    usual.
    """
    if type(layer) is not nn.Linear or values.ndim < 2:
        return layer(values)
    rows, weight = values.flatten(0, -2), layer.weight.mT
    if not suits_onednn(rows, weight) or not is_untouched(layer):
        return layer(values)
    found = product(rows, weight).unflatten(0, values.shape[:-1])
    return found if layer.bias is None else found + layer.bias


def suits_onednn(left: Tensor, right: Tensor) -> bool:
    """Whether oneDNN multiplies these faster: large float32 matrices on a CPU."""
    return (
        not torch.compiler.is_compiling()
        and not is_transformed()
        and left.device.type == right.device.type == "cpu"
        and left.dtype == right.dtype == torch.float32
        and left.numel() * right.shape[-1] >= LARGE
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
    with torch.inference_mode():
        values, weight = torch.ones(64, 512), torch.ones(512, 1024)
        by_onednn, by_blas = (
            min(timeit.repeat(partial(multiply, values, weight), number=2, repeat=7))
            for multiply in (onednn_product, torch.mm)
        )
    return by_blas > MARGIN * by_onednn


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
    return all(
        # This file's own package, and not "attnzoo": beside a model's weights the same code has another name.
        type(part).__module__.startswith((f"{__package__}.", "torch.nn.modules."))
        and "forward" not in vars(part)  # accelerate replaces it where it loads weights on demand
        and not forward_hooks(part)
        and not hooks_of(part, BACKWARD_HOOKS)
        for part in module.modules()
    )


def is_only_its_weight(layer: nn.Module) -> bool:
    """Whether a layer only multiplies with its weight, so that its caller may read the weight instead."""
    return type(layer) is nn.Linear and layer.bias is None and is_untouched(layer)
