"""The baselines of Lin et al. (2017) trained as the model itself: a recipe's biLSTM and MLP with pooling in between.

    python -m tests.benchmarks.repeat_pooling max configs/self_attentive_sst2.yaml

Data, sizes, optimiser, seeds and table are those of ``python -m attnzoo.training.studies.repeat``.
"""

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from attnzoo.training.commands.exits import exit_on_user_error
from attnzoo.training.recipe import load_recipe, make_task
from attnzoo.training.studies.repeat import repeat
from attnzoo.training.studies.study import SEEDS

from tests.benchmarks.pooling import PoolingForSequenceClassification


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pooling", choices=["max", "mean"])
    parser.add_argument("recipe", help="a YAML file under configs/")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--models", type=Path, help="where the models are kept (default: runs/POOLING)")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change the recipe")
    options = parser.parse_args()
    with exit_on_user_error():
        task: Any = make_task(load_recipe(options.recipe, options.set))
        task.auto_class = auto_class(options.pooling)
        repeat(options.recipe, task, options.seeds, options.models or Path("runs") / options.pooling, options.set)


def auto_class(pooling: str) -> SimpleNamespace:
    """A class that makes and loads the model, in place of an Auto class."""
    return SimpleNamespace(
        from_config=lambda config: PoolingForSequenceClassification(config, pooling=pooling),
        from_pretrained=lambda folder: PoolingForSequenceClassification.from_pretrained(folder, pooling=pooling),
    )


if __name__ == "__main__":
    main()
