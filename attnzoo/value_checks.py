"""When the values of tensors are checked: at once on a CPU, all together on a GPU, not at all in a compiled graph."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor


class Checks(list[tuple[Tensor, Callable[[], Exception]]]):
    """Checks of values on a GPU, each a bool tensor of no dimension, True where it fails, and a function of its error.

    The host waits for the device at every value that it reads. So :meth:`read` reads all of them at once.
    """

    def add(self, is_wrong: Tensor, error: Callable[[], Exception]) -> None:
        """Check a value on a CPU now, another one later."""
        if is_wrong.device.type != "cpu":
            self.append((is_wrong, error))
        elif is_wrong:
            raise error()

    def read(self) -> None:
        """Raise the error of the first check that fails."""
        if self:
            device = self[0][0].device
            failed = torch.stack([is_wrong.to(device) for is_wrong, _ in self])
            if bool(failed.any()):
                raise self[int(failed.int().argmax())][1]()


_ARE_CHECKED = ContextVar("whether the values of inputs are already checked", default=False)


@contextmanager
def values_are_checked() -> Iterator[None]:
    """Inside, ``forward`` reads no value, since ``check_batch`` of model_inputs.py has checked them."""
    token = _ARE_CHECKED.set(True)
    try:
        yield
    finally:
        _ARE_CHECKED.reset(token)


def is_readable(tensor: Tensor) -> bool:
    """Whether to read the tensor's values: not while compiling, on the meta device, or if they are checked already."""
    return not torch.compiler.is_compiling() and not tensor.is_meta and not _ARE_CHECKED.get()


def out_of_range(name: str, wrong: Tensor, of: str, size: int, more: str = "") -> ValueError:
    """The error for ids or labels of which the first of ``wrong`` is named."""
    return ValueError(f"{name} has the id {wrong[0].item()}, out of range for {of} are 0 to {size - 1}{more}")
