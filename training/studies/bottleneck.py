"""Does a fixed vector forget long words? The error by word length.

``python -m attnzoo.training.studies.bottleneck``

It trains the recipe ``configs/bottleneck.yaml`` with each of five models and three seeds. The models have the same
number of parameters within 2 %. Finished models are not trained again; an interrupted training is resumed. Then it
prints a table and draws a figure of the PER on the test split by word length: the mean of the seeds, with the lowest
and the highest.

Papers: in Cho et al. (2014, "On the Properties of Neural Machine Translation", section 4.2) and Bahdanau et al. (2014,
section 5.2.2) models with a fixed vector get worse with length. In Sutskever et al. (2014, sections 3.3 and 3.7), who
reverse the source, they do not.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ..commands.exits import exit_on_user_error
from ..evaluate import load_model
from ..recipe import load_recipe, make_task
from ..tasks.metrics import PhonemeErrorRate, WordErrorRate
from .study import SEEDS, mean_and_range, print_table, refuse_overrides, study_parser, trained

# Only Bahdanau's encoder is bidirectional. The widths give all models about the same number of parameters.
SUTSKEVER = ["wiring=sutskever", "score=none", "cell=lstm", "encoder_hidden_size=296", "decoder_hidden_size=296"]
BAHDANAU = ["wiring=bahdanau", "score=additive", "cell=cho_gru", "attention_size=128"]
LUONG = ["wiring=luong", "score=general", "cell=lstm", "bidirectional=false"]
LOCAL = [*LUONG, "window=predictive", "window_size=5"]
MODELS = {
    "fixed vector": [*SUTSKEVER, "bidirectional=false"],
    "fixed vector, reversed source": [*SUTSKEVER, "bidirectional=false", "reverse_source=true"],
    "Bahdanau": [*BAHDANAU, "encoder_hidden_size=136", "decoder_hidden_size=256"],
    "Luong, global": [*LUONG, "encoder_hidden_size=256", "decoder_hidden_size=256"],
    "Luong, local-p": [*LOCAL, "encoder_hidden_size=246", "decoder_hidden_size=246"],
}
LENGTHS = (2, 5, 7, 9, 11, 13, 100)  # in letters: a group of words begins at a number and ends before the next


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = study_parser("bottleneck", __doc__.split("\n")[0], recipe="bottleneck")
    parser.add_argument("--plot", type=Path, default=Path("docs/bottleneck.png"), metavar="FILE")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        run(options.recipe, options.models, options.plot, options.set)


def run(recipe_path: str, models: Path, plot: Path, overrides: list[str]) -> None:
    """Train the models that are missing, evaluate all, print the table and draw the figure.

    Raises:
        ValueError: a model that is there was trained from another recipe, or what the study sets is overridden.
    """
    refuse_overrides(overrides, ("model.", "training.seed="), "the study has models and seeds of its own")
    task = make_task(load_recipe(recipe_path, overrides))
    words, references = (task.splits["test"][column][:] for column in ("word", "pronunciations"))
    groups = [
        (f"{low} to {high - 1}" if high < LENGTHS[-1] else f"{low} and more", rows)
        for low, high in pairwise(LENGTHS)
        if (rows := [row for row, word in enumerate(words) if low <= len(word) < high])
    ]
    groups.append(("all", list(range(len(words)))))
    per, wer = PhonemeErrorRate(), WordErrorRate()
    errors: dict[
        str, list[list[float]]
    ] = {}  # for each model and seed: the PER of each group, and the WER of all words
    parameters: dict[str, int] = {}
    variants = {name: [f"model.{field}" for field in fields] for name, fields in MODELS.items()}
    for name, folder, _ in trained(recipe_path, task, overrides, variants, models, SEEDS):
        model, tokenizer = load_model(task.auto_class, folder / "best")
        parameters[name] = sum(parameter.numel() for parameter in model.parameters())
        predictions = task.predict(model, tokenizer, "test")
        scores: list[float] = []
        for _, rows in groups:
            chosen: Any = {"predictions": [predictions[r] for r in rows], "references": [references[r] for r in rows]}
            scores.append(per.compute(**chosen)["per"])
        errors.setdefault(name, []).append(
            [*scores, wer.compute(predictions=predictions, references=references)["wer"]]
        )
    print(f"\ntest PER in % by letters of the word (mean of {len(SEEDS)} seeds, lowest to highest), and WER of all:\n")
    print_table(
        ["", "parameters", *(name for name, _ in groups), "WER, all"],
        ["words", "", *(f"{len(rows):,}" for _, rows in groups)],
        *(
            [name, f"{parameters[name]:,}", *map(mean_and_range, zip(*of_seeds, strict=True))]
            for name, of_seeds in errors.items()
        ),
    )
    plot.parent.mkdir(parents=True, exist_ok=True)
    draw({name: [row[: len(groups) - 1] for row in rows] for name, rows in errors.items()}, groups[:-1], plot)
    print(f"\nthe same as a figure: {plot}")


def draw(errors: dict[str, list[list[float]]], groups: list[tuple[str, list[int]]], path: Path) -> None:
    """A line for every model through the means of its seeds, with bars from the lowest to the highest."""
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    axis = figure.subplots()
    for index, (name, of_seeds) in enumerate(errors.items()):
        scores = np.array(of_seeds)  # (seeds, groups)
        means = scores.mean(axis=0)
        bars = [means - scores.min(axis=0), scores.max(axis=0) - means]
        places = np.arange(len(groups)) + 0.06 * (index - len(errors) / 2)  # side by side
        style = "--" if name.startswith("fixed") else "-"
        axis.errorbar(places, means, yerr=bars, label=name, marker="o", linestyle=style, capsize=2)
    axis.set_xticks(range(len(groups)), [f"{name}\n{len(rows):,} words" for name, rows in groups])
    axis.set(xlabel="letters in the word", ylabel="PER on the test split, %", ylim=(0, None))
    axis.grid(axis="y", alpha=0.3)
    axis.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
