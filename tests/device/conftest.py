"""The pretended device for the tests of this folder, which `make test` runs in processes of their own."""

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState, GradientState, PartialState

from tests.device import pretended_device

HERE = str(Path(__file__).parent)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(HERE):
            item.add_marker(pytest.mark.pretended)


@pytest.fixture(scope="session")
def device() -> torch.device:
    if pretended_device.MISSING:
        pytest.skip(pretended_device.MISSING)
    return pretended_device.install()


@pytest.fixture
def trains_on(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that lets Accelerate, and so ``Trainer`` and ``attnzoo train``, choose a device."""

    def choose(chosen: torch.device) -> None:
        for state in (AcceleratorState, GradientState, PartialState):
            state._reset_state()
        monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", str(chosen))

    yield choose
    choose(torch.device("cpu"))
