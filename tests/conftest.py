"""Fixtures and settings of all tests."""

import os

# The models are tiny: a second thread would only wait for the first. Set before torch is imported, and inherited by
# the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gc
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from attnzoo.training.train import main

from tests import factory
from tests.device import pretended_device
from tests.devices import TestTensorsOn
from tests.regular_language import SMALL, write_dictionary

ROOT = Path(__file__).parent.parent


find_address = socket.getaddrinfo


def find_loopback(host: Any, *arguments: Any, **options: Any) -> Any:
    """The address of this machine; any other host is unknown at once."""
    if host in (None, "", "localhost", "127.0.0.1", "::1"):
        return find_address(host, *arguments, **options)
    raise socket.gaierror(socket.EAI_NONAME, f"tests have no network, not even {host!r}")


socket.getaddrinfo = find_loopback


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cpu", help="where tiny models and the tensors of tests lie, such as cuda")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--device") == pretended_device.NAME:
        pretended_device.install()
    factory.DEVICE = torch.device(config.getoption("--device"))
    if factory.DEVICE.type != "cpu":
        TestTensorsOn(factory.DEVICE).__enter__()


def freeze() -> None:
    """Exempt all present objects from garbage collection, which every training calls several times."""
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is not None and item.path != nextitem.path:  # a file has imported more modules
        freeze()


@pytest.fixture(scope="session")
def dictionary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The regular language, as a file in CMUdict's format."""
    path = tmp_path_factory.mktemp("data") / "regular.dict"
    write_dictionary(path)
    return path


@pytest.fixture(scope="session")
def run(dictionary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training on the regular language; not to be changed."""
    output = tmp_path_factory.mktemp("run")
    overrides = [*SMALL, f"task.data.path={dictionary}", "training.max_steps=450", "training.evaluations=3"]
    main([str(ROOT / "configs" / "demo.yaml"), "--output", str(output), *(f"--set={item}" for item in overrides)])
    return output


@pytest.fixture
def no_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture
def uninitialised_memory_is_nan() -> Iterator[None]:
    """Make torch.empty return NaN, so that a weight without initialisation cannot pass by chance."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)
