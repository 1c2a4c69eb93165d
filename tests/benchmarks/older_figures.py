"""Which figures are older than the code: ``python -m tests.benchmarks.older_figures``.

The commits at which figures were measured, the newest first, each with the files that name it, and with the files of
the code that have changed since but are not yet printed. A change of comments, docstrings, layout, the version, or a
recipe's ``expected`` figures does not count.

It fails if one of ``OF_A_RELEASE`` is older than the code. The others are of trainings, of GPUs and of processors that
are not at hand: a person decides whether they hold in spite of the changes.
"""

import ast
import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CODE = ("attnzoo", "training", "configs", ":!training/studies/claims")  # a result of a claim has a hash of its code
OF_A_RELEASE = ("results/results.csv", *(f"docs/{name}.json" for name in ("bench", "speeds", "certificates", "demo")))
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


def changed(commit: str, apart_from: set[str]) -> set[str]:
    """The files of the code that have changed since a commit."""
    names = {*git("diff", "--name-only", commit, "HEAD", "--", *CODE)} - apart_from
    return {name for name in names if meaning(name, text_of(name, commit)) != meaning(name, text_of(name, "HEAD"))}


def text_of(name: str, commit: str) -> str | None:
    """A file of a commit; None if the commit does not have it."""
    found = subprocess.run(["git", "show", f"{commit}:{name}"], cwd=ROOT, capture_output=True, text=True)
    return None if found.returncode else found.stdout


def meaning(name: str, text: str | None) -> Any:
    """A file without what changes no figure: code as a tree without docstrings, a recipe without its figures."""
    if text is not None and name.endswith(".py"):
        return ast.dump(WithoutDocstrings().visit(ast.parse(re.sub("^__version__ = .*", "", text, flags=re.MULTILINE))))
    if text is not None and name.endswith(".yaml"):
        return {**yaml.safe_load(text), "expected": None}
    return text


class WithoutDocstrings(ast.NodeTransformer):
    """Takes out every statement that is only a string."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        is_string = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_string else node


def git(*arguments: str) -> list[str]:
    """The lines that git prints."""
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def main() -> None:
    """Print the commits with their files; exit with an error if a figure of a release is older."""
    printed = set[str]()
    found = commits()
    older = {name for name in OF_A_RELEASE if "-dirty" in (ROOT / name).read_text(encoding="utf-8")}
    for line in git("log", "--no-walk=sorted", "--format=%H %cs", *found):
        commit, day = line.split()
        printed |= (new := changed(commit, printed))
        print(f"{day} {commit[:7]}: {', '.join(found[commit])}")
        print(f"    {len(printed)} files have changed since; not printed yet:", *sorted(new), sep="\n        ")
        older |= {name for name in found[commit] if printed and name in OF_A_RELEASE}
    if older:
        sys.exit(f"older than the code: {', '.join(sorted(older))}; measure again")


if __name__ == "__main__":
    main()
