"""Which attention?

``python -m attnzoo.training.studies.which_attention`` draws every score and window of Luong et al. on one word.

It trains the recipe ``configs/which_attention.yaml`` once for each score and window. Finished models are not trained
again; an interrupted training is resumed. Then each model reads the same word and its listed pronunciation. The figure
has a picture for every model, and a table has their error rates. The weights are written beside the figure as JSON;
:func:`draw` makes the figure from them.
"""

import json
from itertools import product
from pathlib import Path
from typing import Any

from transformers import AutoModelForSeq2SeqLM

from attnzoo.alignment import forced_decode
from attnzoo.phonemes import bracketed, token_names
from attnzoo.pipelines import readable_word
from attnzoo.viewer import plot_alignments

from ..commands.exits import exit_on_user_error
from ..evaluate import load_model
from ..recipe import load_recipe, make_task
from .study import print_table, refuse_overrides, study_parser, trained

SCORES = ("additive", "dot", "general", "location")  # concat is the additive score
WINDOWS = {"global": "global", "monotonic": "local-m", "predictive": "local-p"}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = study_parser("which_attention", __doc__.split("\n")[0], recipe="which_attention")
    parser.add_argument("--word", default="philosopher", help="a word of the dictionary (default: %(default)s)")
    parser.add_argument("--plot", type=Path, default=Path("docs/which_attention.png"), metavar="FILE")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        run(options.recipe, options.word.lower(), options.models, options.plot, options.set)


def run(recipe_path: str, word: str, models: Path, plot: Path, overrides: list[str]) -> None:
    """Train the models that are missing, draw ``word``, and print the table.

    Raises:
        ValueError: ``word`` is not in the dictionary, or a model that is there was trained from another recipe.
    """
    refuse_overrides(overrides, ("model.score=", "model.window="), "the study takes every score and window")
    recipe = load_recipe(recipe_path, overrides)
    task = make_task(recipe)
    pronunciation = _listed_pronunciation(task, word)
    readable_word(word, task.make_tokenizer())
    variants = {
        f"{score}, {name}": [f"model.score={score}", f"model.window={window}"]
        for score, (window, name) in product(SCORES, WINDOWS.items())
    }
    seeds = [recipe.training.seed]
    results = {
        name: (folder, result)
        for name, folder, result in trained(recipe_path, task, overrides, variants, models, seeds)
    }
    record = alignments_of({name: folder for name, (folder, _) in results.items()}, word, pronunciation)
    plot.parent.mkdir(parents=True, exist_ok=True)
    plot.with_suffix(".json").write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
    draw(record, plot)
    steps = next(result["total_steps"] for _, result in results.values())
    print(f"\nvalidation PER / WER in % after {steps} steps:\n")
    rows: list[list[str]] = [["score", *WINDOWS.values()]]
    for score in SCORES:
        cells = (results[f"{score}, {name}"][1]["validation"] for name in WINDOWS.values())
        rows.append([score, *(f"{cell['per']:.2f} / {cell['wer']:.2f}" for cell in cells)])
    print_table(*rows)
    print(f"\n{word} read by each of them: {plot}")


def alignments_of(models: dict[str, Path], word: str, pronunciation: str) -> dict[str, Any]:
    """The letters, the phonemes and the weights of every model, to two digits.

    Every model is given the same pronunciation, so a row means the same in all pictures: what the model looked at to
    predict the phoneme of this row.
    """
    weights = {}
    for name, folder in models.items():
        model, tokenizer = load_model(AutoModelForSeq2SeqLM, folder / "best")
        pair = tokenizer([word], text_target=[bracketed(pronunciation)], return_tensors="pt").to(model.device)
        alignments = forced_decode(model, pair["input_ids"], pair["labels"]).alignments
        assert alignments is not None  # every model here has attention
        weights[name] = [[round(weight, 2) for weight in row] for row in alignments[0].tolist()]
    letters, phonemes = (token_names(tokenizer, pair[side][0]) for side in ("input_ids", "labels"))
    return {"letters": letters, "phonemes": phonemes, "weights": weights}


def draw(record: dict[str, Any], path: Path) -> None:
    """A row of pictures for every score, a column for every window: letters along the top, phonemes down the side."""
    names, weights = list(record["weights"]), list(record["weights"].values())
    letters, phonemes = ([record[side]] * len(names) for side in ("letters", "phonemes"))
    plot_alignments(weights, letters, phonemes, path, titles=names, columns=len(WINDOWS))


def _listed_pronunciation(task: Any, word: str) -> str:
    for rows in task.splits.values():
        for row in rows.filter(lambda listed: listed == word, input_columns="word"):
            return row["pronunciations"][0]
    raise ValueError(f"{word!r} is not in the dictionary; choose a word whose pronunciation is listed")


if __name__ == "__main__":
    main()
