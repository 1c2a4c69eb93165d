r"""Words of 135 languages and their pronunciations, from WikiPron, for the recipe ``g2p_multilingual``.

    git clone --depth 1 https://github.com/CUNY-CL/wikipron
    python -m attnzoo.training.make_data.wikipron wikipron data/wikipron

WikiPron (Lee et al., 2020, https://aclanthology.org/2020.lrec-1.521) has what Wiktionary says, under CC BY-SA. One file
is read of each dictionary (a language, a script and perhaps a dialect): broad and filtered, else narrow and filtered,
else broad, else narrow. Words of more than 40 characters are left out, and dictionaries of fewer than 600 words. Words
are sorted by the SHA-1 of dictionary and word: the first tenth, at most 500, are for testing, half as many follow for
validation, then at most 20,000 for training, each with at most three pronunciations. ``--leave-out`` names folders of
the shared tasks sigmorphon/2020 and 2021-task1; the words of their files ``*_dev.tsv`` and ``*_test.tsv`` are left out.
Left out, too, are words that differ from a word of a held-out split by their case alone, and held-out words with a
letter that no training word has.

The command writes ``train.parquet``, ``validation.parquet`` and ``test.parquet``, with the columns "word" and
"pronunciation". A word begins with the name of its dictionary, such as ⟦hun_latn⟧. Each SHA-256 is printed.
Three such files with the columns "language", "word" and "phones" will do instead of a clone.
"""

import argparse
import hashlib
import re
import unicodedata
from collections import defaultdict
from pathlib import Path

import datasets

from attnzoo.phonemes import CLOSE, OPEN, accent_and_spelling

from ..commands.exits import exit_on_user_error
from ..data.sources import SourceError
from ..data.splits import fingerprint
from ..tasks.letter_tokenizer import word_normalizer

SCRAPED = Path("data", "scrape", "tsv")
NAME = re.compile(r"(.+?)_(broad|narrow)(_filtered)?\.tsv")
CHOICES = [("broad", "_filtered"), ("narrow", "_filtered"), ("broad", None), ("narrow", None)]
LONGEST, FEWEST, TESTED, TRAINED, PRONUNCIATIONS = 40, 600, 500, 20_000, 3
SPLITS = ("train", "validation", "test")

Entry = tuple[str, str, str]  # dictionary, word, pronunciation


def read_clone(clone: Path, left_out: set[str]) -> dict[str, list[Entry]]:
    """The entries of every split, from the files of a clone; see the module.

    Raises:
        SourceError: the clone has no dictionary of enough words, or a line is not a word, a tab and a pronunciation.
    """
    files: dict[str, dict[tuple[str, str | None], Path]] = defaultdict(dict)
    for path in sorted((clone / SCRAPED).glob("*.tsv")):
        if found := NAME.fullmatch(path.name):
            files[found[1]][found[2], found[3]] = path
    splits: dict[str, list[Entry]] = {split: [] for split in SPLITS}
    for name, forms in files.items():
        listed = _pronunciations(next(forms[choice] for choice in CHOICES if choice in forms))
        words = [word for word in listed if word not in left_out and len(word) <= LONGEST]
        if len(words) < FEWEST:
            continue
        words.sort(key=lambda word: hashlib.sha1((name + word).encode()).hexdigest())
        tested = min(TESTED, len(words) // 10)
        trained = tested + tested // 2
        ends = {"test": words[:tested], "validation": words[tested:trained], "train": words[trained:][:TRAINED]}
        for split, of_split in ends.items():
            splits[split] += [(name, word, said) for word in of_split for said in listed[word][:PRONUNCIATIONS]]
    if not splits["train"]:
        raise SourceError(f"{clone / SCRAPED} has no dictionary of {FEWEST} words or more")
    return splits


def _pronunciations(path: Path) -> dict[str, list[str]]:
    """The pronunciations of every word of a file, in its order."""
    listed: dict[str, list[str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        word, tab, said = line.partition("\t")
        if not (word and tab and said):
            raise SourceError(f"{path}, line {number}: {line!r} is not a word, a tab and a pronunciation")
        listed.setdefault(unicodedata.normalize("NFC", word), []).append(said)
    return listed


def shared_task_words(folders: list[Path]) -> set[str]:
    """The words of the shared tasks' files for development and testing.

    Raises:
        SourceError: a folder has no such file.
    """
    words = set[str]()
    for folder in folders:
        files = [path for path in sorted(folder.rglob("*.tsv")) if path.stem.endswith(("_dev", "_test"))]
        if not files:
            raise SourceError(f"--leave-out: {folder} has no file *_dev.tsv or *_test.tsv")
        lines = (line for path in files for line in path.read_text(encoding="utf-8").splitlines())
        words.update(unicodedata.normalize("NFC", line.split("\t")[0]) for line in lines)
    return words


def read_parquet(path: Path) -> list[Entry]:
    """The entries of a file with the columns "language", "word" and "phones".

    Raises:
        SourceError: there is no such file, or it lacks a column.
    """
    if not path.is_file():
        raise SourceError(f"{path.parent} is neither a clone of CUNY-CL/wikipron nor has it {path.name}")
    rows = datasets.Dataset.from_parquet(str(path))
    if missing := sorted({"language", "word", "phones"}.difference(rows.column_names)):
        raise SourceError(f"{path} has no column {', '.join(missing)}")
    return list(zip(rows["language"][:], rows["word"][:], rows["phones"][:], strict=True))


def held_out_apart(splits: dict[str, list[Entry]]) -> dict[str, list[Entry]]:
    """The splits without words of other splits in another case, and without held-out words of unseen letters."""
    normalize = word_normalizer("nfd").normalize_str
    taken: dict[tuple[str, str], str] = {}
    for split in ("test", "validation", "train"):
        for name, word, _ in splits[split]:
            taken.setdefault((name, normalize(word)), split)
    letters = {letter for (_, word), split in taken.items() if split == "train" for letter in word}
    return {
        split: [
            entry
            for entry in splits[split]
            if taken[key := (entry[0], normalize(entry[1]))] == split and letters.issuperset(key[1])
        ]
        for split in SPLITS
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m attnzoo.training.make_data.wikipron", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("source", type=Path, help="a clone of CUNY-CL/wikipron, or data with these three columns")
    parser.add_argument("output", type=Path, help="a new folder for the three files")
    parser.add_argument("--leave-out", type=Path, nargs="+", default=[], metavar="FOLDER", help="see above")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        if (options.source / SCRAPED).is_dir():
            splits = read_clone(options.source, shared_task_words(options.leave_out))
        else:
            if options.leave_out:
                raise SourceError(f"--leave-out is for a clone, and {options.source} is none; leave it out")
            splits = {split: read_parquet(options.source / f"{split}.parquet") for split in SPLITS}
        kept = held_out_apart(splits)
        for split in SPLITS:
            if not kept[split]:
                raise SourceError(f"{options.source} has no word for the {split} split")
        options.output.mkdir(parents=True)
        for split, entries in kept.items():
            words = [f"{OPEN}{name}{CLOSE}{word}" for name, word, _ in entries]
            if wrong := next((word for word in words if not accent_and_spelling(word)[0]), None):
                raise SourceError(f"{wrong}: the name of a dictionary must be lowercase letters, and _ between them")
            said = [pronunciation for _, _, pronunciation in entries]
            datasets.Dataset.from_dict({"word": words, "pronunciation": said}).to_parquet(
                options.output / f"{split}.parquet"
            )
            dictionaries, dropped = len({name for name, _, _ in entries}), len(splits[split]) - len(entries)
            print(
                f"{split}: {dictionaries} dictionaries, {len(entries):,} entries, {dropped} left out, "
                f"SHA-256 {fingerprint(words, said)}"
            )


if __name__ == "__main__":
    main()
