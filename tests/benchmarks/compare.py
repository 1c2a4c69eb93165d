"""Compare the speed and the memory of two commits, over the rows of ``make bench-quick``.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.compare OLD [NEW] [--rounds 15] [--rows RNN ...]

Each commit runs in a process of its own, in a checkout of its own (``NEW`` is the working tree if it is left out). The
two take turns. A row's ratio is OLD's processor time over NEW's: below 1, NEW is slower. The interval is a bootstrap
interval of the median over the rounds. The exit status is 1 if a row's median is below 0.94, or its interval ends below
0.97, or NEW takes more than 1.03 times the memory of OLD (the peak of the process, after all rows).
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MEDIAN, INTERVAL, MEMORY = 0.94, 0.97, 1.03


def work(chosen: list[str]) -> None:
    """Print the names of the rows; then, for each name on standard input, its seconds; at the end the memory in MiB."""
    sys.path[0] = str(Path.cwd())  # and not the folder of this file, which may belong to the other commit
    from tests.benchmarks import quick

    found: dict[str, Any] = {}
    for rows in (quick.recurrent_training, quick.transformer_training, quick.classifier, quick.decoding):
        found |= {row.name: row for row in rows() if not chosen or any(part in row.name for part in chosen)}
    print(json.dumps(list(found)), flush=True)
    for line in sys.stdin:
        row = found[json.loads(line)]
        start = time.process_time()
        for _ in range(row.repeat):
            row.ours()
        print(time.process_time() - start, flush=True)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, flush=True)


class Commit:
    """A process that runs the rows of one checkout."""

    def __init__(self, folder: Path, chosen: list[str]) -> None:
        command = [sys.executable, __file__, "--work", *chosen]
        environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, cwd=folder, env=environment, **pipes)
        self.rows: list[str] = json.loads(self.answer())

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a benchmark process ended; its error is above")
        return line

    def seconds(self, row: str) -> float:
        """The processor time of one round of a row."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(row) + "\n")
        self.process.stdin.flush()
        return float(self.answer())

    def memory(self) -> float:
        """The peak memory of the process, in MiB. This ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return float(self.answer())


def interval(ratios: list[float], draws: int = 2000) -> tuple[float, float]:
    """The 95 % interval of the median, by the bootstrap, seed 0."""
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(draws))
    return medians[round(0.025 * draws)], medians[round(0.975 * draws) - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a commit")
    parser.add_argument("new", nargs="?", help="a commit; without it the working tree")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--rows", nargs="*", default=[], help="parts of the names of rows; without them all")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folders = {"old": Path(scratch, "old"), "new": ROOT if options.new is None else Path(scratch, "new")}
        for name, commit in (("old", options.old), ("new", options.new)):
            if commit is not None:
                subprocess.run(["git", "clone", "--quiet", "--no-checkout", ROOT, folders[name]], check=True)
                subprocess.run(["git", "checkout", "--quiet", commit], cwd=folders[name], check=True)
        sides = {name: Commit(folder, options.rows) for name, folder in folders.items()}
        rows = [row for row in sides["new"].rows if row in sides["old"].rows]
        has_failed = False
        print("row | old / new | 95 % interval\n---|---|---")
        for row in rows:
            for side in sides.values():
                side.seconds(row)  # to warm up
            ratios = []
            for number in range(options.rounds):
                order = list(sides)[:: 1 if number % 2 else -1]
                seconds = {name: sides[name].seconds(row) for name in order}
                ratios.append(seconds["old"] / seconds["new"])
            median, (low, high) = statistics.median(ratios), interval(ratios)
            is_slower = median < MEDIAN or high < INTERVAL
            has_failed |= is_slower
            print(f"{row} | {median:.3f} | {low:.3f} to {high:.3f}{' SLOWER' if is_slower else ''}", flush=True)
        memory = {name: side.memory() for name, side in sides.items()}
        has_failed |= memory["new"] > MEMORY * memory["old"]
        print(f"memory, MiB: old {memory['old']:.0f}, new {memory['new']:.0f}")
    sys.exit(has_failed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2:])
    else:
        main()
