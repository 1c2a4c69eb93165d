"""What the studies share: variants of a recipe, trained with several seeds, and tables of their figures."""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnzoo.commands.parsers import add_overrides, command_parser

from ..recipe import load_recipe
from ..train import train_once

SEEDS = (1, 2, 3)


def study_parser(name: str, description: str, recipe: str) -> argparse.ArgumentParser:
    """The options of a study: its recipe, where the models are kept, and changes to the recipe."""
    parser = command_parser(f"python -m attnzoo.training.studies.{name}", description)
    parser.add_argument("--recipe", default=recipe, help="default: %(default)s")
    parser.add_argument("--models", type=Path, default=Path("runs") / name, help="where the models are kept")
    add_overrides(parser)
    return parser


def trained(
    recipe_path: str,
    task: Any,
    overrides: Sequence[str],
    variants: Mapping[str, Sequence[str]],
    models: Path,
    seeds: Sequence[int],
) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Train every variant of a recipe with every seed, unless that has been done: its name, folder and ``run.json``.

    A variant is a name and the overrides of the recipe. Its folder has this name and the seed, in small letters and
    with "-" between words.

    Raises:
        ValueError: a model that is there was trained from another recipe.
    """
    for seed in seeds:
        for name, fields in variants.items():
            recipe = load_recipe(recipe_path, [*overrides, *fields, f"training.seed={seed}"])
            folder = models / re.sub(r"[^a-z0-9.]+", "-", f"{name} {seed}".lower())
            yield name, folder, train_once(recipe, task, folder)


def refuse_overrides(overrides: Sequence[str], own: tuple[str, ...], reason: str) -> None:
    """Raise a ValueError if an override changes a key that the study itself sets."""
    for override in overrides:
        if override.startswith(own):
            raise ValueError(f"--set {override}: {reason}")


def print_table(*rows: Sequence[object]) -> None:
    """Print rows of cells as Markdown; the first is the header."""
    header, *others = ["|".join(f" {cell} " if cell != "" else " " for cell in row) for row in rows]
    print(f"|{header}|", "|---" * len(rows[0]) + "|", *(f"|{row}|" for row in others), sep="\n")


def mean_and_range(values: Sequence[float], digits: int = 2) -> str:
    """The mean of the seeds, the lowest and the highest."""
    mean, lowest, highest = (f"{v:.{digits}f}" for v in (sum(values) / len(values), min(values), max(values)))
    return f"{mean} ({lowest} to {highest})"
