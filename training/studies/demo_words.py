"""What the demo's model makes of the most frequent words that it did not learn; ``make demo`` prints it.

    python -m attnzoo.training.studies.demo_words runs/demo/best

A line has a word of the test split, what the model says, and the dictionary's pronunciation if that differs.
"""

import argparse
import csv
import importlib.resources
from pathlib import Path

from attnzoo.commands.parsers import command_parser

from ..commands.exits import exit_on_user_error
from ..evaluate import load_model, task_for
from ..loop.run_folder import read_run
from ..tasks.base import Task

NUMBER = 10
ENOUGH = 6  # of them are right after a training of the usual length


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = parser().parse_args(arguments)
    with exit_on_user_error():
        found = compare(options.folder)
    for word, said, listed in found:
        print(word, said, *([] if said in listed else [f"the dictionary has {' or '.join(listed)}"]), sep="\t")
    right = sum(said in listed for _, said, listed in found)
    print(f"{right} of the {len(found)} most frequent words that the model did not learn are right")
    if right < ENOUGH:
        steps = read_run(options.folder.parent)["total_steps"]
        print(f"These are few, after {steps:,} steps; train longer: make demo MINUTES=10")


def parser() -> argparse.ArgumentParser:
    """The parser of this command."""
    made = command_parser(
        "python -m attnzoo.training.studies.demo_words", "Pronounce frequent words of the test split."
    )
    made.add_argument("folder", type=Path, help="a checkpoint folder, such as runs/demo/best")
    return made


def compare(folder: Path) -> list[tuple[str, str, list[str]]]:
    """The most frequent words of the test split, each with the model's pronunciation and the dictionary's."""
    task = task_for(folder, [], "test")
    rows = frequent_rows(task)
    model, tokenizer = load_model(task.auto_class, folder)
    said = task.predict(model, tokenizer, "test", num_beams=1, rows=rows)
    split = task.splits["test"]
    return [(split[row]["word"], text, split[row]["pronunciations"]) for row, text in zip(rows, said, strict=True)]


def frequent_rows(task: Task) -> list[int]:
    """The rows of the most frequent words in the test split, by the list that comes with the package."""
    places = {word: row for row, word in enumerate(task.splits["test"]["word"])}
    frequent = importlib.resources.files("attnzoo.pronunciation").joinpath("frequent_words.tsv").read_text("utf-8")
    words = [row["word"].lower() for row in csv.DictReader(frequent.splitlines(), delimiter="\t")]
    return [places[word] for word in words if word in places][:NUMBER]


if __name__ == "__main__":
    main()
