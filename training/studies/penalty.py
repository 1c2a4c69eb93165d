r"""The effect of the penalty on accuracy and on the overlap of hops.

``python -m attnzoo.training.studies.penalty`` trains with and without the penalty, and measures both.

It trains the recipe ``configs/penalty.yaml`` with a penalty coefficient of 1 and of 0, with three seeds or those of
``--seeds``. Finished models are not trained again; an interrupted training is resumed. Then it prints a table of the
accuracy on the test split and of the overlap of two hops, the mean over the test sentences of

.. math:: \frac{1}{r (r - 1)} \sum_{i \neq j} (A A^\top)_{ij}

Paper: Lin et al. (2017, section 2.2 and table 3), whose accuracy falls from 80.45 to 79.27 (Age) and from 64.21 to
61.74 (Yelp) without the penalty.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..commands.exits import exit_on_user_error
from ..evaluate import load_model
from ..recipe import load_recipe, make_task
from .hops import measure
from .study import SEEDS, mean_and_range, print_table, refuse_overrides, study_parser, trained

COEFFICIENTS = (1.0, 0.0)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = study_parser("penalty", __doc__.split("\n")[0], recipe="penalty")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        run(options.recipe, options.seeds, options.models, options.set)


def run(recipe_path: str, seeds: Sequence[int], models: Path, overrides: list[str]) -> None:
    """Train the models that are missing, evaluate all, and print the table.

    Raises:
        ValueError: a model that is there was trained from another recipe, what the study sets is overridden, or there
            are no two hops of one sentence to compare.
    """
    own = ("model.penalty_coefficient=", "training.seed=")
    refuse_overrides(overrides, own, "the study has coefficients and seeds of its own")
    recipe = load_recipe(recipe_path, overrides)
    if getattr(recipe.model_config(), "num_hops", None) == 1:
        raise ValueError("model.num_hops is 1, and the study is of how two hops overlap; set it to 2 or more")
    task: Any = make_task(recipe)
    if len(task.columns) == 2:
        raise ValueError(
            f"task.data.text_pair_column is {task.data.text_pair_column}, and the study is of single sentences: the "
            "hops of a pair are of two matrices; take a recipe without it"
        )
    variants = {f"penalty {c}": [f"model.penalty_coefficient={c}"] for c in COEFFICIENTS}
    figures: dict[str, list[tuple[float, float, float]]] = {name: [] for name in variants}  # for every seed
    for name, folder, _ in trained(recipe_path, task, overrides, variants, models, seeds):
        model, tokenizer = load_model(task.auto_class, folder / "best")
        scores = task.measure("test", task.predict(model, tokenizer, "test"))
        hops = measure(model, tokenizer, task)
        figures[name].append((scores["accuracy"], hops.overlap.item(), hops.cosine.item()))
    print(f"\n{task.name}, test split, mean of {len(seeds)} seeds (lowest to highest):\n")
    rows = []
    for name, of_seeds in figures.items():
        accuracies, *of_hops = zip(*of_seeds, strict=True)
        rows.append([name, mean_and_range(accuracies), *(mean_and_range(values, digits=3) for values in of_hops)])
    print_table(["", "accuracy %", "overlap of two hops", "cosine of two hops"], *rows)


if __name__ == "__main__":
    main()
