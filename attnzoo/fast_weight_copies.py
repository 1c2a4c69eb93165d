"""Copies of weights in another layout, kept between calls for as long as the weights live and do not change.

Dimensions: I input width, O output width.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from .library_internals import version_of

FEW_PRODUCTS = 16  # with unchanged weights; from then on a copy of them pays

Copy = TypeVar("Copy")


class WeightCopies:
    """Copies of some weights, each made when it is first needed. They hold no reference to the weights.

    Attributes:
        products: the number of products made with the weights
        fingerprints: those of the weights when they were copied; None before
        size: the number of elements of all weights
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.places = [_place(weight) for weight in weights]
        self.fingerprints: list[Tensor] | None = None
        self.size = sum(weight.numel() for weight in weights)
        self.made: dict[str, object] = {}
        self.products = 0

    def is_worthwhile(self, values: Tensor) -> bool:
        """Whether to use copies for these values: float32, no autocast, and more than ``FEW_PRODUCTS`` calls so far.

        For fewer products a copy costs more than it saves. Each call is counted.
        """
        if values.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
            return False
        self.products += 1
        return self.products > FEW_PRODUCTS

    def get(self, name: str, weights: Sequence[Tensor], make: Callable[[], Copy]) -> Copy:
        """The copy of this name; ``make`` makes it from the weights the first time."""
        if name not in self.made:
            if self.fingerprints is None:
                self.fingerprints = [_fingerprint(weight) for weight in weights]
            self.made[name] = make()
        return self.made[name]  # type: ignore[return-value]

    def are_of(self, weights: Sequence[Tensor]) -> bool:
        """Whether the weights are still those that were copied.

        Most operations in place change a tensor's version. A fused optimiser's step and edits through ``.data`` or
        numpy do not, so a weighted sum of every column is compared too.
        """
        if self.places != [_place(weight) for weight in weights]:
            return False
        found = zip(self.fingerprints or [], weights, strict=False)
        return all(torch.equal(before, _fingerprint(weight)) for before, weight in found)


_IS_USED = ContextVar("whether copies are used", default=True)


@contextmanager
def copies_if(is_worthwhile: bool) -> Iterator[None]:
    """No copies are used inside if they are not worthwhile: their check reads all weights."""
    token = _IS_USED.set(is_worthwhile)
    try:
        yield
    finally:
        _IS_USED.reset(token)


_KEPT = WeakTensorKeyDictionary()  # the copies by the first of their weights, for as long as that lives


def copies_of(weights: Sequence[Tensor]) -> WeightCopies | None:
    """The copies of the weights, those of an earlier call if they are unchanged; None for weights that are not copied.

    Only parameters of float32 on a CPU are copied.
    """
    if not _IS_USED.get():
        return None
    for weight in weights:
        is_float32 = weight.device.type == "cpu" and weight.dtype == torch.float32
        if type(weight) is not nn.Parameter or not is_float32 or version_of(weight) is None:
            return None
    copies: WeightCopies | None = _KEPT.get(weights[0])
    if copies is None or not copies.are_of(weights):
        copies = _KEPT[weights[0]] = WeightCopies(weights)
    return copies


def _place(weight: Tensor) -> tuple[int, torch.Size, int | None]:
    return weight.data_ptr(), weight.shape, version_of(weight)


def _fingerprint(weight: Tensor) -> Tensor:
    """(I,): a weighted sum of each column of a weight (O, I)."""
    return _factors(len(weight)) @ weight.detach()


@cache
def _factors(count: int) -> Tensor:
    """Factors between 1/2 and 3/2 in no simple relation, so that changes of a column are unlikely to cancel out."""
    with torch.inference_mode(False), torch.no_grad():
        return torch.arange(1, count + 1, dtype=torch.float32, device="cpu").mul_(2**0.5).frac_().add_(0.5)
