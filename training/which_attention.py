"""Which attention? ``python -m training.which_attention`` draws every score and window of Luong et al. on one word.

Trains the recipe ``configs/which_attention.yaml`` once for each score and window, all else equal, in a folder each;
models that are there already are not trained again, and one that was cut short goes on. Then each of them reads the
same word and its listed pronunciation: one picture for every model in one figure, and a table of their error rates.
"""

import argparse
import sys
from itertools import product
from pathlib import Path
from typing import Any

import transformers
from accelerate import PartialState
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from attnzoo.alignment import forced_decode
from attnzoo.pipelines import refuse_unknown_characters
from attnzoo.plots import plot_alignments

from .recipe import load_recipe
from .tasks import make_task
from .train import StoppedError, train_once

SCORES = ("additive", "dot", "general", "location")  # concat is the additive score
WINDOWS = {"global": "global", "monotonic": "local-m", "predictive": "local-p"}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.which_attention", description=__doc__.split("\n")[0])
    parser.add_argument("--recipe", default="configs/which_attention.yaml")
    parser.add_argument("--word", default="philosopher", help="a word of the dictionary (default: %(default)s)")
    parser.add_argument("--models", type=Path, default=Path("runs/which_attention"), help="where the models are kept")
    parser.add_argument("--plot", type=Path, default=Path("docs/which_attention.png"), metavar="FILE")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="change the recipe")
    options = parser.parse_args(arguments)
    transformers.utils.logging.disable_progress_bar()
    try:
        run(options.recipe, options.word.lower(), options.models, options.plot, options.set)
    except (OSError, ValueError, FloatingPointError, StrictDataclassError) as error:
        sys.exit(f"error: {error}")
    except StoppedError as stopped:
        print(f"{stopped}; the same command goes on from there", file=sys.stderr)
        sys.exit(128 + stopped.signum)


def run(recipe_path: str, word: str, models: Path, plot: Path, overrides: list[str]) -> None:
    """Train what is missing, draw ``word``, print the table.

    Raises:
        ValueError: ``word`` is not in the dictionary, or a model that is there was trained from another recipe.
    """
    for override in overrides:
        if override.startswith(("model.score=", "model.window=")):
            raise ValueError(f"--set {override}: the study takes every score and window")
    task = make_task(load_recipe(recipe_path, overrides))
    pronunciation = _listed_pronunciation(task, word)
    refuse_unknown_characters([word], task.make_tokenizer())
    results: dict[tuple[str, str], dict[str, Any]] = {}
    for score, window in product(SCORES, WINDOWS):
        folder = models / f"{score}-{window}"
        recipe = load_recipe(recipe_path, [*overrides, f"model.score={score}", f"model.window={window}"])
        results[score, window] = train_once(recipe, task, folder)
    draw(models, word, pronunciation, results, plot)
    print(f"\nvalidation PER / WER in % after {next(iter(results.values()))['total_steps']} steps:\n")
    print("|".join(["", " score ", *(f" {name} " for name in WINDOWS.values()), ""]))
    print("|---" * (1 + len(WINDOWS)) + "|")
    for score in SCORES:
        cells = (results[score, window]["validation"] for window in WINDOWS)
        print("|".join(["", f" {score} ", *(f" {cell['per']:.2f} / {cell['wer']:.2f} " for cell in cells), ""]))
    print(f"\n{word} read by each of them: {plot}")


def draw(
    models: Path, word: str, pronunciation: str, results: dict[tuple[str, str], dict[str, Any]], path: Path
) -> None:
    """A row of pictures for every score, a column for every window: letters along the top, phonemes down the side.

    Every model reads the same pronunciation, so that the rows mean the same in all of them: what the model looked at
    to predict the phoneme named there.
    """
    weights, letters, phonemes, titles = [], [], [], []
    for score, window in results:
        folder = models / f"{score}-{window}" / "best"
        tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForSeq2SeqLM.from_pretrained(folder).to(PartialState().device)
        pair = tokenizer([word], text_target=[pronunciation], return_tensors="pt").to(model.device)
        alignments = forced_decode(model, pair["input_ids"], pair["labels"]).alignments
        assert alignments is not None  # every model here has attention
        weights.append(alignments[0])
        letters.append(tokenizer.convert_ids_to_tokens(pair["input_ids"][0]))
        phonemes.append(tokenizer.convert_ids_to_tokens(pair["labels"][0]))
        titles.append(f"{score}, {WINDOWS[window]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    plot_alignments(weights, letters, phonemes, path, titles=titles, columns=len(WINDOWS))


def _listed_pronunciation(task: Any, word: str) -> str:
    for rows in task.splits.values():
        for row in rows.filter(lambda listed: listed == word, input_columns="word"):
            return row["pronunciations"][0]
    raise ValueError(f"{word!r} is not in the dictionary; choose a word whose pronunciation is listed")


if __name__ == "__main__":
    main()
