"""Recall and length: which model solves copy, reverse, sorting, Dyck-2 and associative recall, at which width.

``python -m attnzoo.training.studies.recall`` trains every model on every task, and measures it at lengths of training
and beyond.

For each task, width and model the learning rate is chosen on the first seed, by the accuracy on other batches of the
lengths of training; the other seeds take the best one. Without such a sweep these comparisons mislead. Every finished
training is appended to ``recall.csv`` in the output folder, and is not run again: an interrupted study goes on where
it was. The columns that begin with ``model.``, ``data.`` and ``valid/`` have the names that Zoology logs (Arora et al.,
2023, arXiv:2312.04927), so that rows of other architectures can be put beside these.

``--model my_package.my_module:build`` adds a model of yours: ``build(vocab_size, width)`` returns any ``nn.Module``
that maps tokens (B, N) to logits (B, N, V), or a causal model or an encoder-decoder of Transformers.
"""

import csv
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn

from attnzoo import (
    AttentionalRNNConfig,
    AttentionalRNNForConditionalGeneration,
    SelfAttentiveConfig,
    SelfAttentiveForSequenceClassification,
    SmallTransformerConfig,
    SmallTransformerForConditionalGeneration,
)
from attnzoo.commands.parsers import command_parser

from ..commands.exits import exit_on_user_error
from .claims.style import figure, lines
from .study import SEEDS, print_table
from .synthetic import TASKS, Batch, accuracy, batches, fit, vocabulary

WIDTHS, RATES = (16, 32, 64), (1e-3, 3e-3, 1e-2)
TRAINED, TESTED = (4, 16), (8, 16, 24, 32)  # lengths of the source
ROWS, TEST_ROWS = 64, 512
Builder = Callable[[int, int], nn.Module]  # of the size of the vocabulary and the width


def recurrent(**fields: Any) -> Builder:
    """An RNN encoder-decoder; ``fields`` choose wiring, score and window."""

    def build(vocab_size: int, width: int) -> nn.Module:
        sizes = dict.fromkeys(("embedding_size", "encoder_hidden_size", "decoder_hidden_size", "attention_size"), width)
        kind = {"cell": "lstm", "bidirectional": False, "initializer_range": 0.1, "window_size": 3}
        positions = {"max_source_positions": TESTED[-1]}
        config: dict[str, Any] = {"vocab_size": vocab_size, **sizes, **kind, **positions, **fields}
        return AttentionalRNNForConditionalGeneration(AttentionalRNNConfig(**config))

    return build


def transformer(position: Any) -> Builder:
    """An encoder-decoder of two layers each, with one kind of positions."""

    def build(vocab_size: int, width: int) -> nn.Module:
        config: dict[str, Any] = {"vocab_size": vocab_size, "hidden_size": width, "intermediate_size": 2 * width}
        config |= {"num_hidden_layers": 2, "num_attention_heads": 2, "dropout": 0.0, "norm": "pre"}
        return SmallTransformerForConditionalGeneration(SmallTransformerConfig(**config, position_embedding=position))

    return build


class LinReader(nn.Module):
    """Lin's sentence encoder and classifier, for one label at a time: it reads the source and the inputs up to it."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        sizes = {"embedding_size": width, "hidden_size": width, "attention_hidden_size": width, "num_hops": 4}
        fields: dict[str, Any] = {"vocab_size": vocab_size, "num_labels": vocab_size, **sizes}
        fields |= {"classifier_size": 4 * width, "classifier_dropout": 0.0, "penalty_coefficient": 0.0}
        self.classifier = SelfAttentiveForSequenceClassification(SelfAttentiveConfig(**fields))

    def answer(self, batch: Batch) -> Tensor:
        """The logits of all labels, (B, T, V): :func:`logits_of` calls this."""
        stream = torch.cat([batch.source, batch.inputs], dim=1)  # (B, S + T)
        steps = torch.arange(batch.inputs.shape[1])
        mask = torch.arange(stream.shape[1]) <= batch.source.shape[1] + steps[:, None]  # (T, S + T)
        texts = stream[:, None].expand(-1, len(steps), -1).flatten(0, 1)  # (B * T, S + T)
        masks = mask.expand(len(stream), -1, -1).flatten(0, 1).long()
        return self.classifier(texts, masks).logits.unflatten(0, (len(stream), len(steps)))


MODELS: dict[str, Builder] = {
    "fixed vector, every step": recurrent(wiring="cho", cell="gru"),
    "fixed vector, start only": recurrent(wiring="sutskever", reverse_source=True),
    "additive (Bahdanau)": recurrent(wiring="bahdanau", bidirectional=True),
    **{
        f"{score} (Luong)": recurrent(wiring="luong", score=score) for score in ("dot", "general", "concat", "location")
    },
    "general, local-m (Luong)": recurrent(wiring="luong", score="general", window="monotonic"),
    "general, local-p (Luong)": recurrent(wiring="luong", score="general", window="predictive"),
    "hops (Lin)": LinReader,
    **{f"Transformer, {kind}": transformer(kind) for kind in ("sinusoidal", "learned", "none")},
}


class Cell(NamedTuple):
    """One training."""

    task: str
    width: int
    model: str
    learning_rate: float
    seed: int


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.studies.recall", __doc__.split("\n")[0], "--tasks copy mqar")
    parser.add_argument("--output", type=Path, default=Path("runs/recall"), help="default: %(default)s")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[*TASKS], help="default: all")
    parser.add_argument("--widths", type=int, nargs="+", default=WIDTHS, help="default: %(default)s")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=[*MODELS], help="default: all")
    parser.add_argument("--model", action="append", default=[], metavar="MODULE:FUNCTION", help="a model of yours")
    parser.add_argument("--steps", type=int, default=600, help="of every training (default: %(default)s)")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        models = {name: MODELS[name] for name in options.models} | {name: _imported(name) for name in options.model}
        run(options.output, options.tasks, options.widths, models, options.steps)


def _imported(name: str) -> Builder:
    module, _, function = name.partition(":")
    sys.path.insert(0, os.getcwd())  # where a file of the user's is
    try:
        return getattr(importlib.import_module(module), function)
    except (ModuleNotFoundError, AttributeError, ValueError) as error:
        raise ValueError(f"--model {name}: {error}; give MODULE:FUNCTION, such as my_models:build") from error


def run(output: Path, tasks: Iterable[str], widths: Iterable[int], models: dict[str, Builder], steps: int) -> None:
    """Train what is missing, print the best rows, and draw the figure.

    Raises:
        ValueError: the rows that are there come from another number of steps.
    """
    output.mkdir(parents=True, exist_ok=True)
    path = output / "recall.csv"
    done = _done(path, steps)
    for task in tasks:
        for width in widths:
            for name, build in models.items():
                for rate in RATES:
                    _train(Cell(task, width, name, rate, SEEDS[0]), build, steps, path, done)
                sweep = {rate: done[Cell(task, width, name, rate, SEEDS[0])] for rate in RATES}
                for seed in SEEDS[1:]:
                    _train(Cell(task, width, name, max(RATES, key=sweep.__getitem__), seed), build, steps, path, done)
    best = best_rows(pd.read_csv(path))
    longest = best[best["test_source_length"] == TRAINED[1]]
    columns = ["data.task", "model.sequence_mixer.name", "model.d_model", "learning_rate", "valid/accuracy"]
    print_table(columns, *longest.groupby(columns[:4])["valid/accuracy"].mean().round(3).reset_index().values.tolist())
    draw(best, output / "recall.png")
    print(f"\nall rows: {path}; figure: {output / 'recall.png'}")


def _done(path: Path, steps: int) -> dict[Cell, float]:
    """The trainings that have rows for all lengths, with the accuracy that chooses the learning rate."""
    if not path.is_file():
        return {}
    rows = pd.read_csv(path)
    if {*rows["steps"]} - {steps}:
        raise ValueError(f"{path} has rows of {sorted({*rows['steps']})} steps, not {steps}; take another --output")
    names = ["data.task", "model.d_model", "model.sequence_mixer.name", "learning_rate", "seed"]
    whole = rows.groupby(names).filter(lambda of_cell: len(of_cell) == len(TESTED))
    if len(whole) < len(rows):  # a training was cut off while its rows were written
        whole.to_csv(path, index=False)
    return {Cell(*key): float(group["choosing_accuracy"].iloc[0]) for key, group in whole.groupby(names)}


def _train(cell: Cell, build: Builder, steps: int, path: Path, done: dict[Cell, float]) -> None:
    """Train and measure one cell, unless that has been done, and append its rows."""
    if cell in done:
        return
    torch.manual_seed(cell.seed)
    task, tokens, start = TASKS[cell.task], vocabulary(cell.task, TESTED[-1]), time.perf_counter()
    model = build(tokens, cell.width)
    fit(model, batches(task, ROWS, TRAINED, cell.seed), steps, cell.learning_rate)
    choosing = accuracy(model, next(batches(task, TEST_ROWS, (TRAINED[1], TRAINED[1]), 10_000)))
    rows = []
    for length in TESTED:
        test = task(TEST_ROWS, length, torch.Generator().manual_seed(20_000 + length))
        rows.append(
            {
                "model.sequence_mixer.name": cell.model,
                "model.d_model": cell.width,
                "data.task": cell.task,
                "data.vocab_size": tokens,
                "data.train_configs.0.input_seq_len": TRAINED[1] + test.labels.shape[1] * TRAINED[1] // length,
                "data.train_configs.0.num_kv_pairs": TRAINED[1] // 2 if cell.task == "mqar" else "",
                "learning_rate": cell.learning_rate,
                "seed": cell.seed,
                "steps": steps,
                "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
                "choosing_accuracy": round(choosing, 5),
                "test_source_length": length,
                "valid/accuracy": round(accuracy(model, test), 5),
                "seconds": round(time.perf_counter() - start, 1),
            }
        )
    is_new = not path.is_file()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        if is_new:
            writer.writeheader()
        writer.writerows(rows)
    done[cell] = choosing
    print(f"{cell.task}, width {cell.width}, {cell.model}, {cell.learning_rate:g}, seed {cell.seed}: {choosing:.3f}")


def best_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the learning rate that the first seed chose, for each task, width and model."""
    names = ["data.task", "model.d_model", "model.sequence_mixer.name"]
    swept = rows[rows["seed"] == SEEDS[0]]
    chosen = swept.loc[swept.groupby(names)["choosing_accuracy"].idxmax(), [*names, "learning_rate"]]
    return rows.merge(chosen, on=[*names, "learning_rate"])


def draw(best: pd.DataFrame, path: Path) -> None:
    """For each task: accuracy against length at the largest width, and against width at the longest of training."""
    tasks = [task for task in TASKS if task in {*best["data.task"]}]
    drawn = figure(10, 3.4 * len(tasks))
    axes = drawn.subplots(len(tasks), 2, squeeze=False)
    for row, task in zip(axes, tasks, strict=True):
        of_task = best[best["data.task"] == task]
        at_width = of_task[of_task["model.d_model"] == of_task["model.d_model"].max()]
        at_length = of_task[of_task["test_source_length"] == TRAINED[1]]
        for axis, rows, column in zip(row, (at_width, at_length), ("test_source_length", "model.d_model"), strict=True):
            places = sorted({*rows[column]})
            series = {
                name: [group[group[column] == place]["valid/accuracy"].tolist() for place in places]
                for name, group in rows.groupby("model.sequence_mixer.name", sort=False)
            }
            label = "tokens of the source" if column == "test_source_length" else "width"
            lines(axis, places, series, xlabel=label, ylabel=f"{task}: accuracy", ylim=(0, 1.02))
            if legend := axis.get_legend():
                legend.remove()
        row[1].set_xscale("log", base=2)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    drawn.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
