r"""Short texts and their translations, joined from the sentence pairs of Tatoeba.

    unzip deu-eng.zip   # from https://www.manythings.org/anki/
    python -m attnzoo.training.make_data.tatoeba deu.txt de data/tatoeba_en_de

``deu.txt`` has a line for each pair: the English sentence, the German one, and who wrote them, with tabs between.
Other data with the columns "en" and "de", such as a folder of parquet files with splits, will do, too. The second
command writes ``train.parquet``, ``validation.parquet`` and ``test.parquet``, and prints the SHA-256 of each split. The
file of another day has other pairs.

The sentences have six words on average, too few to show what attention is for. So a text is one to five sentences,
drawn at random and joined, with at most 40 English words, or one sentence that has more; its translation is their
translations in the same order.

No English sentence is in two splits. A translation may be, where two English sentences share it. ``--unseen`` leaves
the pairs of such translations out of the validation and test texts, for a model that translates into English.
"""

import argparse
import dataclasses
import random
from collections.abc import Iterator
from pathlib import Path

import datasets

from ..commands.exits import exit_on_user_error
from ..data.sources import SourceError, read_rows
from ..data.splits import fingerprint, split_of
from ..tasks.translation import TranslationData

SENTENCES, WORDS = 5, 40  # of a text, at most
TIMES = {"train": 3, "validation": 2, "test": 2}  # that a pair is in texts

Pair = tuple[str, str]


def read_pairs(path: Path, language: str) -> dict[str, list[Pair]]:
    """The sentence pairs of every split. If the data has no splits, the SHA-1 of the English sentence modulo 100
    chooses: below 2 test, below 4 validation, otherwise train; so no English sentence is in two splits.

    Raises:
        OSError, SourceError: see :func:`attnzoo.training.data.sources.read_rows`.
        SourceError: a split has no pair.
    """
    source = TranslationData(path=str(path), source_column="en", target_column=language)
    if path.suffix == ".txt":
        source = dataclasses.replace(source, separator="tab", columns=["en", language, "authors"], quoting=False)
    rows = read_rows(source, ["source", "target"])
    splits = {name: list(zip(found["source"][:], found["target"][:], strict=True)) for name, found in rows.items()}
    if splits.keys() == {"train"}:
        chosen: dict[str, list[Pair]] = {name: [] for name in TIMES}
        for english, other in splits["train"]:
            chosen[split_of(english, test=2, validation=2)].append((english, other))
        splits = chosen
    require_pairs(splits, str(path))
    return splits


def require_pairs(splits: dict[str, list[Pair]], source: str) -> None:
    """Raise a SourceError unless every split has a pair; ``source`` is where they are from."""
    for name in TIMES:
        if not splits.get(name):
            raise SourceError(f"{source} has no pair for the {name} split; give more pairs, or a {name} split")


def without_seen_translations(splits: dict[str, list[Pair]]) -> dict[str, list[Pair]]:
    """The splits without those pairs of validation and test whose translation is one of a training pair, too."""
    seen = {other for _, other in splits["train"]}
    held_out = {
        name: [(english, other) for english, other in splits[name] if other not in seen]
        for name in ("validation", "test")
    }
    return splits | held_out


def joined(pairs: list[Pair], times: int, chance: random.Random) -> Iterator[Pair]:
    """Texts and their translations: every pair, this number of times, beside others."""
    for _ in range(times):
        text: list[Pair] = []
        number = chance.randint(1, SENTENCES)
        for pair in chance.sample(pairs, len(pairs)):
            is_full = sum(len(english.split()) for english, _ in (*text, pair)) > WORDS
            if text and (is_full or len(text) == number):
                yield _text(text)
                text, number = [], chance.randint(1, SENTENCES)
            text.append(pair)
        yield _text(text)


def _text(pairs: list[Pair]) -> Pair:
    english, other = zip(*pairs, strict=True)
    return " ".join(english), " ".join(other)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m attnzoo.training.make_data.tatoeba", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("pairs", type=Path, help="a file of manythings.org/anki, or data with these two columns")
    parser.add_argument("language", help="the code of the language that is not English, such as de")
    parser.add_argument("output", type=Path, help="a new folder for the three files")
    unseen = "leave pairs out of validation and test whose translation is in training"
    parser.add_argument("--unseen", action="store_true", help=unseen)
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        splits = read_pairs(options.pairs, options.language)
        if options.unseen:
            splits = without_seen_translations(splits)
            require_pairs(splits, f"{options.pairs} with --unseen")
        options.output.mkdir(parents=True)
        for name, times in TIMES.items():
            texts = list(joined(splits[name], times, random.Random(1)))
            english, other = map(list, zip(*texts, strict=True))
            rows = datasets.Dataset.from_dict({"en": english, options.language: other})
            rows.to_parquet(options.output / f"{name}.parquet")
            print(f"{name}: {len(splits[name]):,} pairs, {len(texts):,} texts, SHA-256 {fingerprint(english, other)}")


if __name__ == "__main__":
    main()
