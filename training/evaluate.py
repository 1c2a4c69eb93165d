"""Evaluate a checkpoint folder: ``python -m training.evaluate runs/demo/best --split test --num-beams 5``."""

import argparse
import sys
import time
from pathlib import Path

from accelerate import PartialState
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.utils import logging

import attnzoo  # noqa: F401  (registers the models with the Auto classes)

from .recipe import load_recipe
from .tasks import make_task


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.evaluate", description="Evaluate a checkpoint folder.")
    parser.add_argument("folder", type=Path, help="a checkpoint folder, such as runs/demo/best")
    parser.add_argument("--split", default="validation", help="train, validation or test (default: validation)")
    parser.add_argument("--num-beams", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change the recipe")
    options = parser.parse_args(arguments)
    logging.disable_progress_bar()
    try:
        task = make_task(load_recipe(options.folder / "recipe.yaml", options.set))
        model = AutoModelForSeq2SeqLM.from_pretrained(options.folder).to(PartialState().device)
        tokenizer = AutoTokenizer.from_pretrained(options.folder)
        started = time.perf_counter()
        scores = task.score(options.split, task.predict(model, tokenizer, options.split, options.num_beams))
        seconds = time.perf_counter() - started
    except (OSError, ValueError, StrictDataclassError) as error:  # what the user can put right, without a traceback
        sys.exit(f"error: {error}")
    figures = ", ".join(f"{name} {scores[key]:.2f} %" for key, name in task.metric_names.items())
    print(f"{task.name}, {options.split} split, {scores['examples']} examples, beam {options.num_beams}: {figures}")
    print(f"{seconds:.0f} seconds")


if __name__ == "__main__":
    main()
