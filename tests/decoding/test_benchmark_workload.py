"""The workload: reproducible, without special tokens among the words, bucketed; and a run of the GPU benchmark."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.benchmarks.workload import SPECIAL, VOCABULARY, batches, padded


@pytest.mark.parametrize("source_length", [21, 128])
def test_batches_are_those_of_their_seed_and_near_their_length(source_length: int) -> None:
    first, again = (batches(2, 8, source_length) for _ in range(2))
    assert first == again
    assert first != batches(2, 8, source_length, seed=2)
    for pairs in first:
        assert len(pairs.sources) == len(pairs.targets) == 8
        lengths = [len(source) for source in pairs.sources]
        assert lengths == sorted(lengths, reverse=True)
        assert 0.8 * source_length < sum(lengths) / 8 < 1.2 * source_length
        assert all(SPECIAL <= word < VOCABULARY for row in (*pairs.sources, *pairs.targets) for word in row)


def test_bucketed_batches_have_little_padding() -> None:
    (bucketed,), (mixed,) = (batches(1, 64, 32, bucketed=b) for b in (True, False))
    assert bucketed.source_padding < 0.1
    assert bucketed.target_padding < 0.1
    assert mixed.target_padding > 0.2


def test_padding_is_on_the_side_that_was_asked_for() -> None:
    assert torch.equal(padded([[5, 6], [7]], 1), torch.tensor([[5, 6], [7, 1]]))
    assert torch.equal(padded([[5, 6], [7]], 1, left=True), torch.tensor([[5, 6], [1, 7]]))


@pytest.mark.slow
def test_the_benchmark_of_a_gpu_compares_equal_models(tmp_path: Path) -> None:
    """The command on a CPU, in a process of its own, since the systems hide packages."""
    command = ["-m", "tests.benchmarks.gpu", "--device", "cpu", "--tiny", "--rounds", "1", "--output"]
    subprocess.run([sys.executable, *command, str(tmp_path / "gpu.json")], check=True)
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert [row["stage"] for row in found["rows"]].count("decoding") == 2
    assert not found["left_out"]
    losses = [
        {name: system.get("first_loss") for name, system in row["systems"].items()}
        for row in found["rows"]
        if row["stage"] == "recurrent_training"
    ]
    assert len(losses) == 2
    for loss in losses:
        assert loss["attnzoo"] == pytest.approx(loss["LSTMCell"], rel=1e-2)
        assert loss["attnzoo"] == pytest.approx(loss["attnzoo, CUDA graph"], rel=1e-6)
        assert loss["attnzoo, no feeding"] == pytest.approx(loss["cuDNN, no feeding"], rel=1e-2)
        assert loss["attnzoo"] != pytest.approx(loss["attnzoo, no feeding"], rel=1e-6)
