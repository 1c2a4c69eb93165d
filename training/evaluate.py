"""Evaluate a checkpoint folder: ``attnzoo evaluate runs/demo/best``.

The default is the test split; use ``--split validation`` to choose between models. A model that generates uses the
number of beams in the folder's ``generation_config.json``.

With ``--set task.data.path=my_test.csv`` it evaluates other data: the split of that name, or all rows if there are no
splits. If the path is the training data, in this or another folder, it evaluates the split that was held out.
"""

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

from accelerate import PartialState
from datasets import IterableDataset, disable_progress_bars
from transformers import AutoConfig, AutoTokenizer

from attnzoo.loading import load_trained
from attnzoo.shipped_models import named_folder  # importing attnzoo also registers the Auto classes

from .card import decoding_note, describe
from .commands.exits import exit_on_user_error
from .commands.parsers import evaluate_parser
from .data.sources import SPLITS
from .loop.checkpoint import require_model
from .recipe import checkpoint_recipe, make_task
from .tasks import TASKS
from .tasks.base import Task

MAX_LENGTH_PENALTY = 100  # for a larger power the penalty of a long output would be infinite


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = evaluate_parser().parse_args(arguments)
    with exit_on_user_error():
        folder = Path(named_folder(options.folder))
        require_model(folder)
        task = task_for(folder, options.set, options.split)
        started = time.perf_counter()
        figures = evaluate(folder, task, options.split, options.num_beams, options.length_penalty)
        seconds = time.perf_counter() - started
    if options.json:
        about = {"model": options.folder, "data": task.name, "split": options.split}
        print(json.dumps(about | {"metrics": [*task.metric_names], "figures": figures, "seconds": round(seconds, 1)}))
        return
    how = f"{options.split} split, {figures['examples']} examples{decoding_note(figures)}"
    print(f"{task.name}, {how}: {describe(task, figures)}")
    print(f"{seconds:.0f} seconds")


def task_for(folder: Path, overrides: list[str], split: str) -> Task:
    """The task of a checkpoint folder, with its training data or the data in ``overrides``.

    A file with the name of the training data counts as the training data, even in another folder.

    Raises:
        OSError, ValueError: as for ``checkpoint_recipe`` and ``make_task``; or one of the task's ``fixed_keys`` is
            overridden.
    """
    disable_progress_bars()  # those of reading data would be printed between the figures
    recipe, own = checkpoint_recipe(folder, overrides), checkpoint_recipe(folder)
    for key in TASKS[recipe.task.name].fixed_keys:
        there, here = (getattr(data, key, None) for data in (own.task.data, recipe.task.data))
        if there != here:
            raise ValueError(
                f"task.data.{key}={here} cannot be set: {folder} has its tokenizer and its held-out rows from training "
                f"with {there}; leave it out"
            )
    path, trained_on = Path(recipe.task.data.path), Path(own.task.data.path)
    is_there = path.exists() and trained_on.exists()
    if path.name == trained_on.name or (is_there and path.samefile(trained_on)):
        return make_task(recipe)
    data = recipe.task.data
    if hasattr(data, "label_names") and data.label_names is None:
        id2label = AutoConfig.from_pretrained(folder, trust_remote_code=False).id2label
        data = dataclasses.replace(data, label_names=[id2label[number] for number in range(len(id2label))])
    if split not in SPLITS:
        raise ValueError(f"there is no split {split!r}; choose one of: {', '.join(SPLITS)}")
    task = make_task(dataclasses.replace(recipe, task=dataclasses.replace(recipe.task, data=data)), split)
    if {name for name, rows in task.splits.items() if isinstance(rows, IterableDataset) or len(rows)} == {split}:
        print(
            f"{path}: all {len(task.splits[split]):,} rows are evaluated; the training was on {trained_on}, so "
            "make sure that none of the rows are in it",
            file=sys.stderr,
        )
    return task


def evaluate(
    folder: Path, task: Task, split: str, num_beams: int | None = None, length_penalty: float | None = None
) -> dict[str, float]:
    """The figures of a model on a split of its task.

    "num_beams" is added if the model generates, and "length_penalty" if it is not 1 in a beam search.

    Raises:
        OSError: ``folder`` holds no model.
        ValueError: there is no such split, ``num_beams`` or ``length_penalty`` is out of range or given for a model
            that does not generate, or the labels of the model are not those of the task.
    """
    model, tokenizer = load_model(task.auto_class, folder)
    decoding = decoding_of(task, model, num_beams, length_penalty)
    figures = task.measure(split, task.predict(model, tokenizer, split, **decoding)) | decoding
    penalty = model.generation_config.length_penalty if decoding.get("num_beams", 1) > 1 else None
    return figures if penalty in (None, 1) else figures | {"length_penalty": penalty}


def load_model(auto_class: Any, folder: Path) -> tuple[Any, Any]:
    """The model of a checkpoint folder, on this process's device, and its tokenizer."""
    model = load_trained(auto_class, folder).to(PartialState().device)
    return model, AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def decoding_of(task: Task, model: Any, num_beams: int | None, length_penalty: float | None = None) -> dict[str, Any]:
    """The arguments for ``predict`` and ``draw`` of a task: "num_beams", or nothing if the task does not generate.

    A length penalty is set in the model's generation config.

    Raises:
        ValueError: one of the two is given for a task that does not generate; a length penalty is out of range, or
            given for greedy search.
    """
    if task.num_beams is None:
        for name, value in (("num_beams", num_beams), ("length_penalty", length_penalty)):
            if value is not None:
                raise ValueError(
                    f"{name}={value} is for predictions that are generated, and those of this task are not"
                )
        return {}
    beams = (model.generation_config.num_beams or 1) if num_beams is None else num_beams
    if length_penalty is not None:
        if not abs(length_penalty) <= MAX_LENGTH_PENALTY:
            limit = MAX_LENGTH_PENALTY
            raise ValueError(f"length_penalty must be a number from -{limit} to {limit}, got {length_penalty}")
        if beams == 1:
            raise ValueError(f"length_penalty={length_penalty:g} is for beam search; give num_beams of 2 or more")
        model.generation_config.update(num_beams=beams, length_penalty=length_penalty)  # one alone gives a warning
    return {"num_beams": beams}


if __name__ == "__main__":
    main()
