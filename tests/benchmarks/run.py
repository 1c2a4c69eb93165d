"""Compare attnzoo with other toolkits: training, decoding and memory.

    python -m tests.benchmarks.environments     # once
    python -m tests.benchmarks.run --output bench.json --markdown bench.md
    python -m tests.benchmarks.run --read bench.json --threads 1 --lengths 32 --markdown short.md     # some of its rows

A run that was stopped continues with the same command: rows of the file that have all systems and all rounds stay.
Measure other versions into another file.

Every system is a process that stays alive, and they take turns: in each round every system does the same work, and each
round begins with another system. So other programs on the machine disturb all systems alike. A cell of the table is the
median of the rounds. Time is processor time with one thread and wall-clock time with more.

The sizes, batches and optimiser are the same for all systems (``workload.py``). A ratio is attnzoo's speed over that of
the fastest peer with the same score, the same input feeding, and results that do not depend on padding, which is
measured and not taken from the documentation. The loss is a mean over all real target tokens and the whole vocabulary.
Decoding takes 25 steps with the end token forbidden.

This file imports no torch: a process inherits the peak memory of the one that started it.
"""

import argparse
import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from tests.benchmarks.environments import ENVIRONMENTS, ROOT, interpreter

HEADING = "# Speed compared with other toolkits"  # of what --markdown writes
OURS = "attnzoo"
LIMIT = "limit"  # the matrix products of a training step: no toolkit
PEERS = ("joeynmt", "opennmt", "fairseq", "eole")  # each with an environment, and a file in systems/
SYSTEMS = (OURS, *PEERS, LIMIT)
VARIANTS = {
    "general_feeding": "general, input feeding",
    "additive_feeding": "additive, input feeding",
    "general": "general, no input feeding",
}
UNITS = {"train": "tokens/s", "greedy": "tokens/s", "beam": "tokens/s", "memory": "MB"}
INVARIANT = 1e-5  # of the loss: what padding may change it by, relatively
MEMORY_STEPS = 3
_ORDER = {"sorted": "sorted by source and target length", "unsorted": "as they come"}


@dataclasses.dataclass(frozen=True)
class Cell:
    """The measurement of one row of the table."""

    task: str
    variant: str
    source_length: int
    batch_size: int
    threads: int
    batches: str = "sorted"

    @property
    def title(self) -> str:
        """The name of the row in the table."""
        task = {"train": "training", "beam": "beam 5", "memory": "peak memory"}.get(self.task, self.task)
        return f"{task}, {VARIANTS[self.variant]}" + ("" if self.batches == "sorted" else ", unsorted batches")

    def request(self, options: argparse.Namespace, round_number: int) -> dict[str, Any]:
        """The request of a round; the rounds of a training step go through the batches."""
        common = {"variant": self.variant, "source_length": self.source_length, "batch_size": self.batch_size}
        if self.task in ("greedy", "beam"):
            beams = 1 if self.task == "greedy" else 5
            return common | {"task": "decode", "beams": beams, "repeat": 4 if self.batch_size == 1 else 1}
        training = {"task": "train", "optimiser": options.optimiser, "bucketed": self.batches == "sorted"}
        if self.task == "memory":
            return common | training | {"repeat": MEMORY_STEPS}
        return common | training | {"first": round_number}


class Process:
    """A system in its own environment, ready for requests.

    Attributes:
        about: the system's description of itself.
        checks: for every variant that it has, the change of its loss by padding, and its number of parameters.
    """

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        python = interpreter(name) if name in PEERS else sys.executable
        self.log = ENVIRONMENTS / f"{name}.log"
        self.log.parent.mkdir(exist_ok=True)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [str(python), "-m", f"tests.benchmarks.systems.{name}"],
                cwd=ROOT,
                env=os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.about = self._reply()
        self.checks: dict[str, dict[str, Any]] = {}

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request; {"error": ...} if the toolkit failed."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended, and _reply says so
        return self._reply()

    def check(self) -> None:
        """Measure for every variant whether padding changes the results."""
        for variant in self.about["variants"]:
            self.checks[variant] = self.ask({"task": "check", "variant": variant})

    def is_invariant(self, variant: str) -> bool:
        """Whether the results do not depend on padding."""
        return self.checks[variant].get("difference", 1.0) < INVARIANT

    def can(self, cell: Cell) -> bool:
        """Whether the system can run the measurement of a row."""
        if cell.variant not in self.about["variants"] or (self.name == LIMIT and cell.task == "memory"):
            return False
        return cell.task in ("train", "memory") or bool(self.about["decodes"])

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _reply(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"{self.name} has ended with exit code {self.process.wait()}; {self.log} has what it printed"
            )
        return json.loads(line)


def cells(options: argparse.Namespace, threads: int) -> Iterator[Cell]:
    """The rows of the table, in its order."""
    for task in options.tasks:
        for variant in options.variants:
            for length in options.lengths:
                sizes = options.batch_sizes if task in ("greedy", "beam") else [64]
                for size in sizes:
                    for batches in options.batches if task == "train" else ["sorted"]:
                        yield Cell(task, variant, length, size, threads, batches)


def measure(cell: Cell, processes: list[Process], options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The rounds of one row: for each system the value of every round and its median, or the error."""
    able = [process for process in processes if process.can(cell)]
    results: dict[str, dict[str, Any]] = {process.name: {"rounds": []} for process in able}
    for process in able:  # a round that does not count
        reply = process.ask(cell.request(options, 0))
        if "error" in reply:
            results[process.name] = {"error": reply["error"]}
    able = [process for process in able if "error" not in results[process.name]]
    for number in range(options.rounds):
        for i in range(len(able)):
            process = able[(number + i) % len(able)]
            reply = process.ask(cell.request(options, number))
            if "error" in reply:
                raise RuntimeError(f"{process.name} did {cell.title} once and then failed: {reply['error']}")
            clock = reply["cpu_seconds" if cell.threads == 1 else "seconds"]
            results[process.name]["rounds"].append(reply["tokens"] / sum(clock))
            for share in ("source_padding", "target_padding"):
                if share in reply:
                    results[process.name].setdefault(share, []).append(reply[share])
    for process in able:
        results[process.name]["value"] = statistics.median(results[process.name]["rounds"])
    return results


def measure_memory(cell: Cell, processes: list[Process], options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The peak of a process that only trains, and how much of it came after its imports."""
    results: dict[str, dict[str, Any]] = {}
    for process in processes:
        if process.can(cell):
            fresh = Process(process.name, cell.threads)
            reply = fresh.ask(cell.request(options, 0))
            fresh.close()
            if "error" in reply:
                results[process.name] = {"error": reply["error"]}
            else:
                growth = reply["peak_mb"] - fresh.about["peak_mb"]
                results[process.name] = {"value": reply["peak_mb"], "after_imports": growth}
    return results


def ratio(row: dict[str, Any]) -> float | None:
    """The ratio of attnzoo to the best peer of the same semantics, above 1 if attnzoo is better; None if one is
    missing.
    """
    systems = row["systems"]
    peers = [
        result["value"]
        for name, result in systems.items()
        if name in PEERS and "value" in result and result["is_invariant"]
    ]
    ours = systems.get(OURS, {}).get("value")
    if ours is None or not peers:
        return None
    return min(peers) / ours if row["task"] == "memory" else ours / max(peers)


def table(bench: dict[str, Any]) -> list[list[str]]:
    """The rows of the printed table and of the Markdown table, the header first."""
    names = list(bench["systems"])
    versions = [name if name == LIMIT else f"{name} {bench['systems'][name]['version']}" for name in names]
    rows = [["threads", "what", "source", "batch", "unit", *versions, "attnzoo / best peer"]]
    for row in bench["rows"]:
        values = []
        for name in names:
            result = row["systems"].get(name)
            if result is None:
                values.append("")
            elif "value" not in result:
                values.append("failed")
            else:
                values.append(f"{result['value']:.0f}" + (" *" if name in PEERS and not result["is_invariant"] else ""))
        best = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        where = [str(row["threads"]), row["title"], str(row["source_length"]), str(row["batch_size"])]
        rows.append([*where, UNITS[row["task"]], *values, best])
    return rows


def markdown(bench: dict[str, Any]) -> str:
    """The table as Markdown, with a description of the machine."""
    return "\n".join([markdown_table(*table(bench)), "", *footnotes(bench)]) + "\n"


def markdown_table(*rows: Sequence[str]) -> str:
    """Rows of cells as Markdown, the header first."""
    head, *others = rows
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *others))


def printed(bench: dict[str, Any]) -> str:
    """The table for a terminal."""
    rows = table(bench)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", *footnotes(bench)]) + "\n"


def footnotes(bench: dict[str, Any]) -> list[str]:
    """The notes that a reader of the table needs."""
    machine, settings = bench["machine"], bench["settings"]
    rounds = {
        len(result["rounds"]) for row in bench["rows"] for result in row["systems"].values() if "rounds" in result
    }
    padding = []
    for batches in ("sorted", "unsorted"):
        shares = [
            share
            for row in bench["rows"]
            for result in row["systems"].values()
            for share in result.get("target_padding", [])
            if row["batches"] == batches
        ]
        if shares:
            padding.append(f"{statistics.mean(shares):.0%} of the target is padding in batches {_ORDER[batches]}")
    return [
        f"{machine['processor']}, {machine['processors']} processors, "
        f"torch {machine['torch']}, fp32, {machine['date']}, commit {machine['commit']}. "
        + (f"Medians of {' or '.join(map(str, sorted(rounds)))} interleaved rounds; " if rounds else "")
        + "".join(f"{part}; " for part in padding)
        + f"Adam(fused={settings['optimiser'] == 'fused'}) for all. "
        "Processor time with one thread, wall-clock time with more. "
        "Peak memory is that of a process with all its imports; its ratio is best peer / attnzoo. "
        "* padding changes its results: not in the ratio. "
        "limit: the matrix products of a training step and nothing else."
    ]


def read(options: argparse.Namespace) -> dict[str, Any]:
    """A table that was measured earlier, with the rows that the options name."""
    if not options.read.exists():
        raise FileNotFoundError(f"there is no {options.read}; measure first, with --output {options.read}")
    bench: dict[str, Any] = json.loads(options.read.read_text())
    wanted = {cell for threads in options.threads for cell in cells(options, threads)}
    bench["rows"] = [row for row in bench["rows"] if _cell(row) in wanted]
    return bench


def _is_complete(row: dict[str, Any], options: argparse.Namespace) -> bool:
    """Whether a row has all these systems and this number of rounds."""
    rounds = [len(result["rounds"]) for result in row["systems"].values() if "rounds" in result]
    return set(options.systems) <= set(row["asked"]) and min(rounds, default=options.rounds) >= options.rounds


def _cell(row: dict[str, Any]) -> Cell:
    return Cell(**{field.name: row[field.name] for field in dataclasses.fields(Cell)})


def processor_name() -> str:
    """The name of the processor, with the widest products that it has: "AMD EPYC with AVX-512"."""
    information = Path("/proc/cpuinfo")
    if not information.exists():
        return platform.processor() or platform.machine()
    lines = (line.partition(":") for line in information.read_text().splitlines())
    about = {name.strip(): value.strip() for name, _, value in lines}
    widest = {"amx_tile": "AMX", "avx512f": "AVX-512", "avx2": "AVX2"}
    found = [name for flag, name in widest.items() if flag in about.get("flags", "").split()]
    return " with ".join([about.get("model name", platform.machine()), *found[:1]])


def commit_of_code() -> str:
    """The commit of the checkout, with "-dirty" if the code or the benchmarks have changed since."""
    state = (
        ["rev-parse", "--short", "HEAD"],
        ["status", "--porcelain", "attnzoo", "training", "configs", "tests/*.py"],
    )
    commit, changes = (subprocess.check_output(["git", *part], cwd=ROOT, text=True).strip() for part in state)
    return commit + ("-dirty" if changes else "")


def describe_machine(about: dict[str, Any]) -> dict[str, Any]:
    """The processor, and the versions that all systems share."""
    return {
        "processor": processor_name(),
        "commit": commit_of_code(),
        "processors": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": about["torch"],
        "date": date.today().isoformat(),
    }


def benchmark(options: argparse.Namespace) -> dict[str, Any]:
    """Measure every row of these systems that the file lacks; the file is written after each row."""
    settings = {"optimiser": options.optimiser}
    bench: dict[str, Any] = {"machine": {}, "settings": settings, "systems": {}, "rows": []}
    if options.output.exists():
        bench = json.loads(options.output.read_text())
        measured_at = bench["machine"].get("commit")
        if bench["rows"] and measured_at != commit_of_code():
            raise RuntimeError(f"{options.output} is of commit {measured_at}; delete it, or give another --output")
        if bench["settings"] != settings:
            raise RuntimeError(f"{options.output} was measured with {bench['settings']}; give another --output")
    measured = {_cell(row) for row in bench["rows"] if _is_complete(row, options)}
    for name in options.systems:
        if name in PEERS:
            interpreter(name)  # a missing environment is an error now and not after an hour
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for threads in options.threads:
        missing = [cell for cell in cells(options, threads) if cell not in measured]
        if not missing:
            continue
        processes: list[Process] = []
        try:
            for name in options.systems:
                processes.append(Process(name, threads))
                processes[-1].check()
                bench["systems"][name] = processes[-1].about | {"checks": processes[-1].checks}
            bench["machine"] = describe_machine(processes[0].about)
            for cell in missing:
                results = (measure_memory if cell.task == "memory" else measure)(cell, processes, options)
                for process in processes:
                    if process.name in results:
                        results[process.name]["is_invariant"] = process.is_invariant(cell.variant)
                row = vars(cell) | {"title": cell.title, "asked": options.systems, "systems": results}
                bench["rows"] = [other for other in bench["rows"] if _cell(other) != cell]
                bench["rows"].append(row | {"ratio": ratio(row)})
                options.output.write_text(json.dumps(bench, indent=1) + "\n")
                values = [
                    f"{name} {r['value']:.0f}" if "value" in r else f"{name} failed" for name, r in results.items()
                ]
                print(f"{threads} threads, {cell.title}, {cell.source_length}:", *values, sep="  ", flush=True)
        finally:
            for process in processes:
                process.close()
    return bench


def main() -> None:
    """Read the arguments, measure, print and write."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--tasks", nargs="+", choices=UNITS, default=list(UNITS))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--lengths", nargs="+", type=int, default=[32, 128, 512], help="of the sources, on average")
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[1, 64], help="of decoding; training has 64")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--optimiser", choices=["fused", "plain"], default="fused", help="Adam, the same for all")
    parser.add_argument("--batches", nargs="+", choices=_ORDER, default=list(_ORDER), help="of training, by length")
    output_help = "goes on with the rows that the file does not have"
    parser.add_argument("--output", type=Path, default=ENVIRONMENTS / "bench.json", help=output_help)
    parser.add_argument("--markdown", type=Path, help="write the table there as well, as Markdown")
    parser.add_argument("--read", type=Path, help="measure nothing, but make the table of a file that --output wrote")
    options = parser.parse_args()
    if options.rounds < 1 or min(options.threads) < 1:
        parser.error("--rounds and --threads must be at least 1")
    try:
        bench = read(options) if options.read else benchmark(options)
    except (FileNotFoundError, RuntimeError) as error:
        sys.exit(f"error: {error}")
    print("\n" + printed(bench))
    if options.markdown:
        options.markdown.write_text(f"{HEADING}\n\n{markdown(bench)}")


if __name__ == "__main__":
    main()
