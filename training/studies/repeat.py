"""The spread of a recipe's scores over several seeds.

``python -m attnzoo.training.studies.repeat self_attentive_sst2`` trains a recipe with three seeds.

Finished models are not trained again; an interrupted training is resumed. Then it prints a table of the metrics on the
validation and test splits: for every seed, and the mean with the lowest and the highest.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnzoo.commands.parsers import add_overrides, command_parser

from ..commands.exits import exit_on_user_error
from ..evaluate import evaluate
from ..recipe import load_recipe, make_task
from .study import SEEDS, mean_and_range, print_table, refuse_overrides, trained


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.studies.repeat", __doc__.split("\n")[0])
    parser.add_argument("recipe", help="a YAML file, or the name of a shipped recipe")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--models", type=Path, default=Path("runs"), help="where the models are kept")
    add_overrides(parser)
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        task = make_task(load_recipe(options.recipe, options.set))
        repeat(options.recipe, task, options.seeds, options.models, options.set)


def repeat(recipe_path: str, task: Any, seeds: Sequence[int], models: Path, overrides: list[str]) -> None:
    """Train the models that are missing, evaluate all, and print the table.

    Raises:
        ValueError: a model that is there was trained from another recipe, or a seed is overridden.
    """
    refuse_overrides(overrides, ("training.seed=",), "the seeds are those of --seeds")
    rows: dict[str, list[list[float]]] = {"validation": [], "test": []}  # for every seed the metrics
    minutes = []
    for _, folder, result in trained(recipe_path, task, overrides, {Path(recipe_path).stem: []}, models, seeds):
        test = evaluate(folder / "best", task, "test")
        for split, scores in (("validation", result["validation"]), ("test", test)):
            rows[split].append([scores[name] for name in task.metric_names])
        minutes.append(result["total_minutes"])
    columns = [f"{name}{task.units.get(key, '')}" for key, name in task.metric_names.items()]
    print(f"\n{task.name}:\n")
    table: list[list[object]] = [["split", "seed", *columns]]
    for split, of_seeds in rows.items():
        for seed, values in zip(seeds, of_seeds, strict=True):
            table.append([split, seed, *(f"{value:.2f}" for value in values)])
        table.append([split, "mean (lowest to highest)", *map(mean_and_range, zip(*of_seeds, strict=True))])
    print_table(*table)
    print(f"\n{mean_and_range(minutes, digits=1)} minutes of training")


if __name__ == "__main__":
    main()
