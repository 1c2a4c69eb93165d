"""Which figures are older than the code: ``python -m tests.benchmarks.older_figures``.

The commits at which figures were measured, the newest first, each with the files that name it, and with the files of
the code that have changed since but are not yet printed. Figures may hold in spite of a change: a person decides what
to measure again.
"""

import csv
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CODE = ("attnzoo", "training", "configs")
STORED = ("results/results.csv", "tests/benchmarks/*.json", "docs/*.json", "docs/*.md", "model_cards/*/run.json")


def commits() -> dict[str, list[str]]:
    """For each commit in full, the files that name it.

    Raises:
        CalledProcessError: a commit is not in the history.
    """
    found: dict[str, list[str]] = {}
    for path in (path for pattern in STORED for path in sorted(ROOT.glob(pattern))):
        name = path.relative_to(ROOT).as_posix()
        for commit in sorted({*named(path)}):
            of_commit = found.setdefault(git("rev-parse", "--verify", f"{commit}^{{commit}}")[0], [])
            of_commit += [name] * (name not in of_commit)
    return found


def named(path: Path) -> Iterator[str]:
    """The commits that a file names."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from re.findall(r"\b[Cc]ommit\s([0-9a-f]{7,40})\b", text)
    elif path.suffix == ".csv":
        yield from (row["commit"] for row in csv.DictReader(text.splitlines()))
    else:
        yield from (commit.removesuffix("-dirty") for commit in in_json(json.loads(text)))


def in_json(stored: Any) -> Iterator[str]:
    """The values of the keys ``commit`` and ``git_commit``, at any depth."""
    if isinstance(stored, dict):
        yield from (stored[key] for key in ("commit", "git_commit") if stored.get(key))
    if isinstance(stored, dict | list):
        for value in stored.values() if isinstance(stored, dict) else stored:
            yield from in_json(value)


def git(*arguments: str) -> list[str]:
    """The lines that git prints."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def main() -> None:
    """Print the commits with their files."""
    printed = set[str]()
    found = commits()
    for line in git("log", "--no-walk=sorted", "--format=%H %cs", *found):
        commit, day = line.split()
        changed = {*git("diff", "--name-only", commit, "HEAD", "--", *CODE)}
        print(f"{day} {commit[:7]}: {', '.join(found[commit])}")
        print(
            f"    {len(changed)} files have changed since; not printed yet:",
            *sorted(changed - printed),
            sep="\n        ",
        )
        printed |= changed


if __name__ == "__main__":
    main()
