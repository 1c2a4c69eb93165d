"""``attnzoo claims``: list the claims, check one, or check all and write their pages.

Every result is a JSON file with the measurements, the intervals and the verdict, and a figure. ``--all`` makes the
pages and the figures from the JSON files. It runs every claim in a separate process. It does not measure again what
has been measured by the same code with the same budget, but judges it by the rule as it is now. A result of other code
stays as it is if its budget is larger than the one that was asked for.
"""

import ast
import difflib
import functools
import hashlib
import inspect
import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import torch

import attnzoo
from attnzoo.json_files import read_mapping

from ...commands.exits import exit_on_user_error
from ...commands.parsers import claims_parser
from ...loop.checkpoint import write_atomically
from . import NAMES
from .frame import BUDGETS, FAILS, HOLDS, MEASURES, UNDECIDED, Check, Claim, Verdict, load_claim, load_claims
from .style import figure

STUDIES = "attnzoo.training.studies."
NOT_MEASURED, FRAME = f"{STUDIES}claims.style", f"{STUDIES}claims.frame"
JUDGES_AND_DRAWS = ("judge", "draw", "_example", "CLAIM")  # in the file of a claim
OPTIONS = {"seconds": "smoke", "quick": "quick", "full": "full"}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = claims_parser()
    options = parser.parse_args(arguments)
    if options.all and options.name:
        parser.error(f"give a claim or --all, not both: {options.name}")
    if not options.all and not options.name and (options.budget or options.output or options.again):
        parser.error("name a claim, or give --all; attnzoo claims alone lists them")
    budget_name = options.budget or "quick"
    if options.name is not None and options.name not in NAMES:
        close = difflib.get_close_matches(options.name, NAMES, n=1)
        found = f"did you mean {close[0]!r}?" if close else "attnzoo claims lists them"
        parser.error(f"no claim {options.name!r}; {found}")
    with exit_on_user_error():
        if options.all:
            run_all(budget_name, options.output or Path("docs/claims"), options.again)
        elif options.name:
            folder = options.output or Path("runs/claims")
            print_result(options.name, run_one(options.name, budget_name, folder, options.again))
        else:
            for claim in load_claims():
                print(f"{claim.name:<28} {claim.claim}")


def run_one(name: str, budget: str, folder: Path, again: bool = False) -> dict[str, Any]:
    """Run a claim; write NAME.json and NAME.png into the folder, and return what is in the JSON file.

    Raises:
        ValueError: the folder has a result of a larger budget, and ``again`` is False.
    """
    claim = load_claim(name)
    folder.mkdir(parents=True, exist_ok=True)
    stored = None if again else _stored(folder, name)
    if stored and _size(stored["budget"]) > _size(budget):
        has = f"{folder} has a result of {name} with --{stored['budget']}"
        raise ValueError(f"{has}; give --again to replace it, or another --output")
    start = time.perf_counter()
    measurements = claim.run(BUDGETS[budget])
    seconds = time.perf_counter() - start
    result = {
        "claim": name,
        **judged(claim.judge(measurements)),
        "budget": budget,
        "seeds": list(BUDGETS[budget].seeds),
        "measurements": measurements,
        "seconds": round(seconds, 1),
        "peak_memory_mib": _peak_memory(),
        "threads": torch.get_num_threads(),
        "versions": {"attnzoo": attnzoo.__version__, "torch": torch.__version__},
        "code": digest(claim),
    }
    _write(folder, result)
    draw(claim, result, folder / f"{name}.png")
    return result


def judged(verdict: Verdict) -> dict[str, Any]:
    """A verdict with its checks, as it stands in a JSON file."""
    checks = [_row(check, check in verdict.deciding) for check in (*verdict.deciding, *verdict.others)]
    return {"verdict": verdict.text, "margin": _finite(verdict.margin), "checks": checks}


def _write(folder: Path, result: dict[str, Any]) -> None:
    write_atomically(folder / f"{result['claim']}.json", json.dumps(result, indent=1, allow_nan=False) + "\n")


def _stored(folder: Path, name: str) -> dict[str, Any] | None:
    """A stored result, if there is one.

    Raises:
        ValueError: the file is damaged, or of an older form.
    """
    path = folder / f"{name}.json"
    try:
        stored = read_mapping(path) if path.is_file() else None
        if stored is not None and not {"budget", "code", "measurements", "checks"} <= {*stored}:
            raise ValueError("it is of an older form")
    except ValueError as error:
        raise ValueError(f"{path} cannot be used: {error}; give --again to replace it") from error
    return stored


def _size(budget: str) -> int:
    return [*BUDGETS].index(budget)


def _peak_memory() -> int | None:
    """The most memory that this process had, in MiB; None on Windows, where Python does not tell it."""
    if os.name == "nt":
        return None
    import resource

    unit = 1 if sys.platform == "darwin" else 2**10
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**20


def _finite(margin: float) -> float | None:
    return None if margin == float("inf") else margin


def _row(check: Check, is_deciding: bool) -> dict[str, Any]:
    bound = {"side": check.side, "bound": check.bound, "state": check.state, "decides": is_deciding}
    bound["is_range"] = check.is_range  # from the smallest value to the largest, not a confidence interval
    return {"what": check.what, **check.interval._asdict(), **bound, "margin": _finite(check.margin)}


def digest(claim: Claim) -> str:
    """A hash of the code that measures, which shows whether a result is from this code.

    It covers the file of a claim and the modules of the studies that it needs, but not comments, nor what only judges
    and draws; and the weights of the shipped models that these name. The library is not covered; a result has its
    version.
    """
    needed, waiting = {}, [claim.run.__module__]
    while waiting:
        name = waiting.pop()
        needed[name] = _that_measures(name, inspect.getsource(sys.modules[name]), name == claim.run.__module__)
        for value in vars(sys.modules[name]).values():
            other = getattr(value, "__module__", None) or ""
            if other.startswith(STUDIES) and other not in {*needed, NOT_MEASURED}:
                waiting.append(other)
    source = "".join(needed[name] for name in sorted(needed))
    weights = [attnzoo.model_info(name)["sha256"] for name in attnzoo.list_models() if repr(name) in source]
    return hashlib.sha256("".join([source, *weights]).encode()).hexdigest()[:16]


@functools.cache
def _that_measures(name: str, source: str, is_claim: bool) -> str:
    """The part of a module's source that :func:`digest` covers."""
    tree = ast.parse(source)
    if name == FRAME:
        tree.body = [part for part in tree.body if {*_names(part)} & {*MEASURES}]
    if is_claim:
        tree.body = [part for part in tree.body if not {*_names(part)} & {*JUDGES_AND_DRAWS}]
        tree.body = [part for part in tree.body if not isinstance(part, ast.Import | ast.ImportFrom)]
    return ast.unparse(tree)


def _names(part: ast.stmt) -> list[str]:
    """What a statement of a module defines."""
    if isinstance(part, ast.FunctionDef | ast.ClassDef):
        return [part.name]
    return [target.id for target in getattr(part, "targets", ()) if isinstance(target, ast.Name)]


def draw(claim: Claim, result: dict[str, Any], path: Path) -> None:
    """The figure of a claim, with its verdict above."""
    drawn = figure()
    claim.draw(result["measurements"], drawn)
    preliminary = "" if result["budget"] == "full" else " (preliminary)"
    drawn.suptitle(textwrap.fill(f"{claim.name}: {result['verdict']}{preliminary}", 85), fontsize=11)
    drawn.savefig(path, dpi=150)


def print_result(name: str, result: dict[str, Any]) -> None:
    """The claim, the verdict and its checks."""
    claim = load_claim(name)
    print(f"claim       {claim.claim}\nsource      {claim.source}\nexperiment  {claim.experiment}")
    print(f"rule        {claim.rule}\n")
    print(*result["measurements"].get("notes", ()), sep="\n")
    for row in result["checks"]:
        print(f"  {row['state']:<10} {_in_words(row)}")
    said = {"seconds": "  (means nothing: run it with --quick)", "quick": "  (preliminary: run it with --full)"}
    print(f"\nverdict     {result['verdict']}{said.get(result['budget'], '')}")
    print(f"            {result['seconds']:.0f} seconds")


def _distance(row: dict[str, Any]) -> float:
    """How far an interval is from its bound, in widths of the interval."""
    gap = row["low"] - row["bound"] if row["side"] == "at least" else row["bound"] - row["high"]
    return gap / (row["high"] - row["low"])


def _in_words(row: dict[str, Any]) -> str:
    numbers = f"{row['mean']:.4g} [{row['low']:.4g}, {row['high']:.4g}]"
    return f"{row['what']}: {numbers}, {row['side']} {row['bound']:g}"


def run_all(budget: str, folder: Path, again: bool) -> None:
    """Run every claim in its own process; write the pages and the index.

    Raises:
        ValueError: a claim failed with an error. The others have run, and their pages are written.
    """
    failed, kept = [], []
    folder.mkdir(parents=True, exist_ok=True)
    for claim in load_claims():
        stored = None if again else _stored(folder, claim.name)
        if stored and stored["code"] == digest(claim) and _size(stored["budget"]) >= _size(budget):
            _write(folder, stored | judged(claim.judge(stored["measurements"])))
            print(f"{claim.name}: measured before, in {folder}", flush=True)
            continue
        if stored and _size(stored["budget"]) > _size(budget):
            kept.append(claim.name)
            continue
        arguments = [
            "-m",
            __spec__.name,
            claim.name,
            f"--{OPTIONS[budget]}",
            f"--output={folder}",
            *(["--again"] if again else []),
        ]
        if subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL).returncode:
            failed.append(claim.name)
            continue
        result = _stored(folder, claim.name) or {}
        print(f"{claim.name}: {result['verdict']}, {result['seconds']:.0f} s", flush=True)
    results = {name: stored for name in NAMES if name not in failed and (stored := _stored(folder, name))}
    if not results:
        raise ValueError("every claim ended with an error")
    for name, result in results.items():
        if name in kept:  # today's code may not be able to draw it
            continue
        draw(load_claim(name), result, folder / f"{name}.png")
        (folder / f"{name}.md").write_text(page(load_claim(name), result), encoding="utf-8")
    (folder / "index.md").write_text(index(results), encoding="utf-8")
    print(f"{len(results) - len(kept)} pages and {folder / 'index.md'}")
    if kept:
        has = f"{folder} has results of a larger budget, by other code"
        print(f"not run: {', '.join(kept)}; {has}; give that budget, or --again to replace them")
    if failed:
        raise ValueError(f"these claims ended with an error: {', '.join(failed)}")


def page(claim: Claim, result: dict[str, Any]) -> str:
    """The page of a claim, in Markdown."""
    rows = "\n".join(
        f"| {row['what']} | {row['mean']:.4g} | {row['low']:.4g} to {row['high']:.4g}{' (range)' * row['is_range']} "
        f"| {row['side']} {row['bound']:g} | {row['state']} |"
        for row in result["checks"]
    )
    preliminary = "" if result["budget"] == "full" else " (preliminary)"
    clock = " It measures time: run it on a machine without other work." if claim.uses_clock else ""
    notes = "\n".join(result["measurements"].get("notes", ()))
    notes = f"```text\n{notes}\n```\n\n" if notes else ""
    seeds = ", ".join(map(str, result["seeds"]))
    memory = result["peak_memory_mib"]
    at_most = "" if memory is None else f"At most {memory:,} MiB of memory; "
    return f"""# {claim.name}

**{result["verdict"]}**{" (an identity)" * claim.is_identity}{preliminary}

- **Claim**: {claim.claim}
- **Source**: {claim.source}
- **In tutorials**: {claim.tutorials}
- **Verdict on that sentence**: {claim.of_wording}
- **Experiment**: {claim.experiment}
- **Rule of the verdict**: {claim.rule}

![{claim.name}]({claim.name}.png)

| measured | mean | 95 % interval | bound | |
|---|---|---|---|---|
{rows}

{notes}```sh
# Takes {result["seconds"]:.0f} s on {result["threads"]} thread{"s" * (result["threads"] > 1)}.{clock}
attnzoo claims {claim.name} --{OPTIONS[result["budget"]]}
```

Intervals are over {claim.intervals_over.format(seeds)}. {at_most}\
attnzoo {result["versions"]["attnzoo"]}, torch {result["versions"]["torch"]}. All measurements: \
[{claim.name}.json]({claim.name}.json).
"""


def index(results: dict[str, dict[str, Any]]) -> str:
    """The index page: every claim with its verdict, and which was nearest to failing."""
    kinds = {HOLDS: "hold", FAILS: "do not hold here", UNDECIDED: "undecided"}
    numbers = {words: sum(r["verdict"] == kind for r in results.values()) for kind, words in kinds.items()}
    numbers["hold under a condition"] = len(results) - sum(numbers.values())
    counts = ", ".join(f"{number} {words}" for words, number in numbers.items() if number)
    stood = [
        (_distance(row), name, row)
        for name, result in results.items()
        if result["verdict"] not in (FAILS, UNDECIDED) and not load_claim(name).is_identity
        for row in result["checks"]
        if row["decides"] and row["low"] < row["high"] and not row["is_range"]
    ]
    near = ""
    if stood:
        _, nearest, row = min(stood, key=lambda found: found[0])
        near = f"\nNearest to failing, in widths of the interval: [{nearest}]({nearest}.md), {_in_words(row)}.\n"
    rows = "\n".join(
        f"| [{name}]({name}.md) | {load_claim(name).claim} | {result['verdict']}"
        f"{' (identity)' * load_claim(name).is_identity}{'' if result['budget'] == 'full' else ' (preliminary)'} "
        f"| {result['seconds']:,.0f} s |"
        for name, result in results.items()
    )
    minutes = sum(result["seconds"] for result in results.values()) / 60
    memory = max(result["peak_memory_mib"] or 0 for result in results.values())
    budgets = " and ".join(sorted({result["budget"] for result in results.values()}))
    return f"""# Claims and verdicts

{len(results)} claims: {counts}.

The rules are in the code, in `training/studies/claims/`; `frame.py` says how they compare intervals with bounds. An
identity is true by algebra; its experiment checks the numbers and the code.
{near}
| name | claim | verdict | takes |
|---|---|---|---|
{rows}

```sh
# Takes {minutes:.0f} minutes (budget: {budgets}).
attnzoo claims --all --full
```

The largest of the processes took {memory:,} MiB. Each page quotes the wording of common tutorials.
"""


if __name__ == "__main__":
    main()
