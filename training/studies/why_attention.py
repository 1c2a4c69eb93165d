"""Why attention? BLEU by the length of the text, for translators of equal size.

``python -m attnzoo.training.studies.why_attention``

It takes the trained models ``PAPER-tatoeba-en-de`` in ``model_cards/``, whose numbers of parameters differ by 4 % at
most, and which have the same tokenizer, data, number of tokens and seed, and translates the test split with each. It
prints a table and writes a figure of BLEU by the number of English words, a figure of the alignments of one text beside
each other, and all figures as JSON.

Papers: in Cho et al. (2014, "On the Properties of Neural Machine Translation", section 4.2) and Bahdanau et al. (2014,
section 5.2.2) models with a fixed vector get worse with length, and a model with attention does not.
"""

import json
import math
import re
import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from attnzoo.alignment import align
from attnzoo.commands.parsers import add_overrides, command_parser
from attnzoo.viewer import plot_alignments

from ..commands.exits import exit_on_user_error
from ..evaluate import decoding_of, load_model, task_for
from ..tasks.metrics import BLEU
from .study import print_table

SUFFIX = "-tatoeba-en-de"
PATTERN = f"*20[0-9][0-9]*{SUFFIX}"  # papers have a year
LENGTHS = (1, 7, 13, 20, 30, math.inf)  # in English words: a group begins at a number and ends before the next
LONG = 20
TIMED = 64  # long texts that are translated at once for the speed
ROUNDS = 5
TEXT = "I don't think he knows what he wants. The train that we wanted to take had already left. Can you help me?"
TRANSLATION = (
    "Ich glaube nicht, dass er weiß, was er will. Der Zug, den wir nehmen wollten, war schon abgefahren. Kannst du mir "
    "helfen?"
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.studies.why_attention", __doc__.split("\n")[0])
    parser.add_argument("--models", type=Path, default=Path("model_cards"), help="(default: %(default)s)")
    parser.add_argument("--plot", type=Path, default=Path("docs/why_attention.png"), metavar="FILE")
    add_overrides(parser)
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        run(options.models, options.plot, options.set)


def run(models: Path, plot: Path, overrides: list[str]) -> None:
    """Translate, print the table, draw the figures and write them as JSON.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: no text of the test split is long.
    """
    folders = [path for path in models.glob(PATTERN) if (path / "model.safetensors").is_file()]
    folders.sort(key=lambda folder: (re.findall(r"20\d\d", folder.name)[0], folder.name))
    if not folders:
        raise FileNotFoundError(f"{models} has no model {PATTERN}")
    torch.set_num_threads(1)
    task = task_for(folders[0], overrides, "test")  # that of all: the tokenizer is not needed here
    sources, references = (task.splits["test"][column][:] for column in ("source", "target"))
    lengths = [len(text.split()) for text in sources]
    groups = {}
    for low, high in pairwise(LENGTHS):
        if rows := [row for row, words in enumerate(lengths) if low <= words < high]:
            groups[f"{low} to {high - 1}" if high < math.inf else f"{low} and more"] = rows
    groups[f"{LONG} and more"] = [row for row, words in enumerate(lengths) if words >= LONG]
    groups["all"] = [*range(len(lengths))]
    if not groups[f"{LONG} and more"]:
        raise ValueError(f"{task.name} has no text of {LONG} words or more in the test split")
    long_texts = [sources[row] for row in groups[f"{LONG} and more"][:TIMED]]
    found = {}
    for folder in folders:
        name = folder.name.removesuffix(SUFFIX)
        model, tokenizer = load_model(task.auto_class, folder)
        predictions = task.predict(model, tokenizer, "test", **decoding_of(task, model, None))
        found[name] = {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "bytes": (folder / "model.safetensors").stat().st_size,
            "tokens_per_second": speed(model, tokenizer, long_texts),
            "bleu": {group: bleu_of(predictions, references, rows) for group, rows in groups.items()},
            "alignment": alignment_of(model, tokenizer),
        }
        print(f"{name}: BLEU {found[name]['bleu']['all'][0]:.2f}", flush=True)
    record = {"texts": {name: len(rows) for name, rows in groups.items()}, "models": found}
    plot.parent.mkdir(parents=True, exist_ok=True)
    plot.with_suffix(".json").write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    print_table(*table(record))
    draw_lengths(record, plot)
    draw_alignments(record, plot.with_stem(f"{plot.stem}_alignments"))


def bleu_of(predictions: list[str], references: list[str], rows: list[int]) -> list[float]:
    """BLEU of some texts, and the ends of its interval."""
    figures = BLEU().compute(predictions=[predictions[r] for r in rows], references=[references[r] for r in rows])
    return [round(figures[f"bleu{end}"], 2) for end in ("", "_low", "_high")]


def speed(model: Any, tokenizer: Any, texts: list[str]) -> float:
    """Tokens a second that greedy search writes on one thread: the median of some rounds."""
    batch = tokenizer(texts, padding=True, return_tensors="pt").to(model.device)
    rates = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        ids = model.generate(**batch, num_beams=1, do_sample=False)
        rates.append(int((ids[:, 1:] != model.config.pad_token_id).sum()) / (time.perf_counter() - started))
    return round(statistics.median(rates), 1)


def alignment_of(model: Any, tokenizer: Any) -> dict[str, Any] | None:
    """The words of one pair and the weights between them; None for a model without attention.

    Of a Transformer it is the mean of the last layer's heads.
    """
    if getattr(model.config, "score", None) == "none":
        return None
    [pair] = align(model, tokenizer, [TEXT], [TRANSLATION])
    weights = [[round(weight, 2) for weight in row] for row in pair.weights.tolist()]
    return {"source": list(pair.source_words), "target": list(pair.target_words), "weights": weights}


def table(record: dict[str, Any]) -> list[list[str]]:
    """The rows of the table; the first is the header."""
    names = list(record["texts"])
    rows = [["", "parameters", "MB", "tokens/s", *(f"BLEU, {name}" for name in names)]]
    rows.append(["texts", "", "", "", *(f"{number:,}" for number in record["texts"].values())])
    for name, of_model in record["models"].items():
        sizes = [
            f"{of_model['parameters']:,}",
            f"{of_model['bytes'] / 1e6:.1f}",
            f"{of_model['tokens_per_second']:,.0f}",
        ]
        rows.append([name, *sizes, *(f"{of_model['bleu'][group][0]:.1f}" for group in names)])
    return rows


def draw_lengths(record: dict[str, Any], path: Path) -> None:
    """A line for every model; those of fixed vectors are dashed."""
    groups = list(record["texts"])[:-2]  # without the long ones together, and all
    figure = Figure(figsize=(8, 5), layout="constrained")
    axis = figure.subplots()
    for index, (name, of_model) in enumerate(record["models"].items()):
        means, lows, highs = zip(*(of_model["bleu"][group] for group in groups), strict=True)
        bars = [
            [m - low for m, low in zip(means, lows, strict=True)],
            [h - m for h, m in zip(highs, means, strict=True)],
        ]
        places = [place + 0.05 * (index - len(record["models"]) / 2) for place in range(len(groups))]
        style = "--" if of_model["alignment"] is None else "-"
        axis.errorbar(places, means, yerr=bars, label=name, marker="o", markersize=4, linestyle=style, capsize=2)
    axis.set_xticks(range(len(groups)), [f"{name}\n{record['texts'][name]:,} texts" for name in groups])
    axis.set(xlabel="English words in the text", ylabel="BLEU on the test split", ylim=(0, None))
    axis.grid(axis="y", alpha=0.3)
    axis.legend(ncols=2, fontsize="small")
    figure.savefig(path, dpi=150)


def draw_alignments(record: dict[str, Any], path: Path) -> None:
    """The alignments of the same pair, beside each other."""
    drawn = {name: of_one["alignment"] for name, of_one in record["models"].items() if of_one["alignment"] is not None}
    weights, sources, targets = ([of_one[key] for of_one in drawn.values()] for key in ("weights", "source", "target"))
    if drawn:
        plot_alignments(weights, sources, targets, path, titles=list(drawn), columns=3)


if __name__ == "__main__":
    main()
