from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.factory import tiny_model
from tests.hub.server import LoopbackHub, loopback_hub


@pytest.fixture(scope="module")
def hub() -> Iterator[LoopbackHub]:
    with loopback_hub() as running:
        yield running


@pytest.fixture(scope="session")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Tiny models, each with its own weights, since the Hub stores equal files once."""

    def make(seed: int) -> Path:
        folder = tmp_path_factory.mktemp("model")
        tiny_model("luong-lstm-dot", seed=seed, dtype=torch.float32).save_pretrained(folder)
        (folder / "README.md").write_text("---\nlicense: apache-2.0\ntags:\n- attnzoo\n---\n\n# tiny\n")
        return folder

    return make
