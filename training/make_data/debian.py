r"""The descriptions of Debian's packages: a text of some sentences, and a summary of one line, the synopsis.

    sudo apt-get update -o Acquire::Languages=en -o Acquire::GzipIndexes=false
    python -m attnzoo.training.make_data.debian data/debian

The first command, on Debian or a system based on it, downloads lists of all packages. The second writes the rows of
these lists to ``train.parquet``, ``validation.parquet`` and ``test.parquet``, and prints the SHA-256 of each split. The
lists of another day have other packages.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import datasets

from ..commands.exits import exit_on_user_error
from ..data.sources import SourceError
from ..data.splits import fingerprint, split_of

LISTS = Path("/var/lib/apt/lists")
UPDATE = "apt-get update -o Acquire::Languages=en -o Acquire::GzipIndexes=false"
UPDATES = re.compile("-(security|updates|backports|proposed)")  # lists of newer versions of packages
STANZA = re.compile(
    r"^Package: (?P<name>.+)\n(?:.*\n)*?Description-en: (?P<synopsis>.+)\n(?P<rest>(?: .*\n?)+)", re.MULTILINE
)
COLUMNS = ("package", "description", "synopsis")


def read_lists(folder: Path = LISTS) -> dict[str, dict[str, list[str]]]:
    """The columns "package", "description" and "synopsis" of every split, from apt's lists.

    Many packages of one program share the first paragraph of their descriptions, "This is a game ..."; the second one
    names the part of the program. Only the first package with a paragraph is taken, so that no first paragraph is in
    two rows or two splits. The SHA-1 of the lowercase paragraph modulo 100 chooses the split: below 4 test, below 8
    validation, otherwise train.

    Raises:
        FileNotFoundError: there are no lists of English descriptions.
        ValueError: a list is damaged, or a split has no row.
    """
    files = sorted(file for file in folder.glob("*_Translation-en") if not UPDATES.search(file.name))
    if not files:
        packed = next(folder.glob("*_Translation-en.*"), None)
        there = "no lists of English descriptions" if packed is None else f"only a compressed list, {packed.name}"
        raise FileNotFoundError(f"{folder} has {there}; run `{UPDATE}` as root")
    splits: dict[str, dict[str, list[str]]] = {
        split: {column: [] for column in COLUMNS} for split in ("train", "validation", "test")
    }
    seen = set()
    for file in files:
        for package, synopsis, description in _packages(file):
            paragraph = description.split("\n")[0].lower()
            if paragraph in seen:
                continue
            seen.add(paragraph)
            split = splits[split_of(paragraph, test=4, validation=4)]
            for column, value in zip(COLUMNS, (package, description, synopsis), strict=True):
                split[column].append(value)
    for name, columns in splits.items():
        if not columns["package"]:
            raise SourceError(f"{folder} has no package for the {name} split; run `{UPDATE}` as root")
    return splits


def _packages(file: Path) -> Iterator[tuple[str, str, str]]:
    """Name, synopsis and description of every package of a list; a paragraph of the description is a line."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(f"{file} is not UTF-8, so it is damaged; run `{UPDATE}` as root") from error
    for stanza in re.split(r"\n{2,}", text):
        found = STANZA.search(stanza)
        if found is None:
            continue  # a package without a description
        lines = ["" if line == " ." else line.strip() for line in found["rest"].split("\n")]
        paragraphs = [" ".join(part.split()) for part in re.split(r"\n{2,}", "\n".join(lines).strip())]
        if paragraphs[0]:
            yield found["name"], found["synopsis"].strip(), "\n".join(paragraphs)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m attnzoo.training.make_data.debian", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("output", type=Path, help="a new folder for the three files")
    parser.add_argument("--lists", type=Path, default=LISTS, help="the folder of apt's lists (default: %(default)s)")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        splits = read_lists(options.lists)
        options.output.mkdir(parents=True)
        for name, columns in splits.items():
            datasets.Dataset.from_dict(columns).to_parquet(options.output / f"{name}.parquet")
            digest = fingerprint(columns["description"], columns["synopsis"])
            print(f"{name}: {len(columns['package']):,} packages, SHA-256 {digest}")


if __name__ == "__main__":
    main()
