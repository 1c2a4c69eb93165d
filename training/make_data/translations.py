r"""Data in which a trained model has translated the training texts, for a smaller model to learn from.

    python -m attnzoo.training.make_data.translations attentional-rnn-tatoeba-en-de data/tatoeba_en_de \
        data/tatoeba_en_de_taught --num-beams 3

The data must be what the model was trained on, with its columns and splits. In the training split the targets become
the best outputs that the model finds with its beams (Kim and Rush, 2016, section 3.2); the other splits stay as they
are. The command writes a ``.parquet`` file for each split.
"""

import argparse
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

import datasets
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from attnzoo.loading import load_trained
from attnzoo.shipped_models import named_folder

from ..commands.exits import exit_on_user_error
from ..recipe import checkpoint_recipe
from ..tasks import TASKS
from ..tasks.translation import Translation

SHARD = 4096  # texts that one process translates between two lines of progress


def taught(model_name: str, data: Path, num_beams: int, processes: int) -> dict[str, datasets.Dataset]:
    """The splits of the data, with the model's translations for targets in training.

    Each process translates on one core. Their number does not change the translations.

    Raises:
        ValueError: the model does not translate, or the data is not as its recipe says.
        OSError: the model or the data is not here.
    """
    task = _teacher(model_name, data)[0]
    rows, translations, started = task.splits["train"], list[str](), time.perf_counter()
    spawn = multiprocessing.get_context("spawn")  # a fork could wait for ever on a lock of torch's threads
    with ProcessPoolExecutor(processes, spawn, torch.set_num_threads, (1,)) as pool:
        for shard in pool.map(partial(_translate_shard, model_name, data, num_beams), range(0, len(rows), SHARD)):
            translations += shard
            minutes = (time.perf_counter() - started) / 60
            print(f"{len(translations):,} of {len(rows):,} texts in {minutes:.1f} minutes", flush=True)
    splits = task.splits | {"train": datasets.Dataset.from_dict({"source": rows["source"][:], "target": translations})}
    names = {"source": task.data.source_column, "target": task.data.target_column}
    return {name: split.rename_columns(names) for name, split in splits.items()}


def _translate_shard(model_name: str, data: Path, num_beams: int, first: int) -> list[str]:
    task, model, tokenizer = _teacher(model_name, data)
    rows = task.splits["train"]
    return task.predict_rows(model, tokenizer, rows.select(range(first, min(first + SHARD, len(rows)))), num_beams)


@cache
def _teacher(model_name: str, data: Path) -> tuple[Translation, PreTrainedModel, PreTrainedTokenizerBase]:
    folder = Path(named_folder(model_name))
    recipe = checkpoint_recipe(folder, [f"task.data.path={data}"])
    if TASKS[recipe.task.name] is not Translation:
        raise ValueError(f"{model_name} is a model of {recipe.task.name}; give one of translation")
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    return Translation(recipe.task.data), load_trained(AutoModelForSeq2SeqLM, folder), tokenizer


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m attnzoo.training.make_data.translations", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", help="a model that translates: its name, or a folder with its recipe.yaml")
    parser.add_argument("data", type=Path, help="the data that it was trained on")
    parser.add_argument("output", type=Path, help="a new folder for the files")
    parser.add_argument("--num-beams", type=int, default=5, help="width of the beam search (default: %(default)s)")
    processes = parser.add_argument("--processes", type=int, default=os.cpu_count(), metavar="N")
    processes.help = "processes that translate at the same time, each on one core (default: one for each core)"
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        if options.processes < 1:
            raise ValueError(f"--processes must be at least 1, not {options.processes}")
        if options.output.exists():
            raise ValueError(f"{options.output} is there already; name a new folder")
        splits = taught(options.model, options.data, options.num_beams, options.processes)
        options.output.mkdir(parents=True)
        for name, split in splits.items():
            split.to_parquet(options.output / f"{name}.parquet")


if __name__ == "__main__":
    main()
