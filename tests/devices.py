"""The device on which tests run: ``pytest --device cuda``, or ``make test-gpu``."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

TESTS = str(Path(__file__).parent)
MAKES_A_TENSOR = set(_device_constructors())


class TestTensorsOn(TorchFunctionMode):
    """Moves the tensors that a test makes to the device.

    It does not move the tensors that the package makes: a tensor on a wrong device must fail the test. Random numbers
    are drawn on the CPU, so that they are the same on every device.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        found = function(*args, **(kwargs or {}))
        is_of_test = sys._getframe(1).f_code.co_filename.startswith(TESTS)
        if is_of_test and function in MAKES_A_TENSOR and "device" not in (kwargs or {}):
            return found.to(self.device)
        return found
