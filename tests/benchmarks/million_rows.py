"""What a million sentence pairs take before the first step: seconds and memory of each process.

``python -m tests.benchmarks.million_rows`` writes the pairs to a temporary folder and prepares a training on two CPU
processes of one thread, twice: the second time everything comes from the cache. A row of the output is a process. Its
seconds are by the clock and, in brackets, of the processor; "private" is memory that no file is mapped to, and "most"
also counts mapped files, which the system takes back when it needs room.
"""

import argparse
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
WORDS = 20_000


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is not None:
        print(json.dumps(prepare(options.folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_pairs(Path(folder) / "pairs.tsv", options.rows)
        for run in ("first run", "second run"):
            for rank, row in enumerate(measure(Path(folder), options.processes)):
                print(f"{options.rows:,} rows, {run}, process {rank}: {row}", flush=True)


def write_pairs(path: Path, rows: int) -> None:
    """A number and 1 to 16 words with the frequencies of Zipf's law, and the same in reverse; all different."""
    random = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlucmfwygpbvk"))
    words = ["".join(random.choice(letters, size=random.integers(2, 10))) for _ in range(WORDS)]
    weights = 1 / np.arange(10, WORDS + 10)
    lengths = random.integers(1, 17, size=rows)
    chosen = iter(random.choice(words, size=lengths.sum(), p=weights / weights.sum()).tolist())
    with path.open("w") as file:
        file.write("source\ttarget\n")
        for number, length in enumerate(lengths.tolist()):
            sentence = list(itertools.islice(chosen, length))
            file.write(f"{' '.join(sentence)} {number}\t{number} {' '.join(reversed(sentence))}\n")


def measure(folder: Path, processes: int) -> list[str]:
    """What each of the processes of one training reports."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    shared = {"ACCELERATE_USE_CPU": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "HF_HOME": str(folder)}
    shared["HF_DATASETS_DISABLE_PROGRESS_BARS"] = "1"
    command = [sys.executable, "-m", "tests.benchmarks.million_rows", "--folder", str(folder)]
    started = [
        subprocess.Popen(
            command,
            env=os.environ
            | shared
            | {"LOCAL_WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1"}
            | ({"WORLD_SIZE": str(processes), "RANK": str(rank), "LOCAL_RANK": str(rank)} if processes > 1 else {}),
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for rank in range(processes)
    ]
    reports = []
    for process in started:
        said, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"a process ended with code {process.returncode}")
        reports.append(", ".join(f"{stage} {figure}" for stage, figure in json.loads(said.splitlines()[-1]).items()))
    return reports


def prepare(folder: Path) -> dict[str, str]:
    """Prepare a training in this process; its figures."""
    figures: dict[str, str] = {}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        clock, processor = time.perf_counter(), time.process_time()
        yield
        seconds = time.perf_counter() - clock, time.process_time() - processor
        figures[name] = f"{seconds[0]:.1f} s ({seconds[1]:.1f})"

    with stage("imports"):
        from attnzoo.training.loop.setup import setup
        from attnzoo.training.recipe import load_recipe, make_task
        from attnzoo.training.train import end
    columns = ["task.data.source_column=source", "task.data.target_column=target", "training.precision=fp32"]
    overrides = [f"task.data.path={folder / 'pairs.tsv'}", *columns]
    recipe = load_recipe(str(ROOT / "configs" / "small_transformer_multi30k.yaml"), overrides)
    figures["after imports"] = memory()
    with stage("reading"):
        task = make_task(recipe)
    with stage("preparing"):
        run = setup(recipe, task, folder / "run", resume=False, overwrite=False)
    with stage("first batch"):
        run.state.batches.take(1)
    figures["in the end"] = memory()
    del run.model
    end(run.accelerator)
    return figures


def memory() -> str:
    """The private memory of this process, and the most that it ever had with mapped files."""
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    sizes = {line[0]: int(line[1]) / 1000 for line in lines if line[0] in ("RssAnon:", "VmHWM:")}
    return f"{sizes['RssAnon:']:.0f} MB private, {sizes['VmHWM:']:.0f} MB at most"


if __name__ == "__main__":
    main()
