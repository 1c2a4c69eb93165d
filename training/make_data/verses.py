"""The verses of the package ``bible-alignments`` as files: to train English to Greek, and for ``attnzoo align``.

The command is ``python -m attnzoo.training.make_data.verses WHEEL FOLDER``.
"""

from pathlib import Path

from attnzoo.alignment import to_pharaoh
from attnzoo.commands.parsers import command_parser

from ..commands.exits import exit_on_user_error
from ..data.verses import read_splits, read_verses


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.make_data.verses", "Write the verses of the wheel as files.")
    parser.add_argument("wheel", type=Path, help="bible_alignments-0.4.2-py3-none-any.whl")
    parser.add_argument("folder", type=Path, help="the folder for the files; new or empty")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        write_files(options.wheel, options.folder)


def write_files(wheel: Path, folder: Path) -> None:
    """The splits as tables with the columns el and en; all verses as el.txt and en.txt, in the order of the training
    split; and the development part as el.dev.txt, en.dev.txt and links.dev.txt.

    Raises:
        FileExistsError: the folder has files.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty; choose another folder")
    splits, verses = read_splits(wheel), read_verses(wheel)
    folder.mkdir(parents=True, exist_ok=True)
    for split, rows in splits.items():
        lines = (f"{pair[0]}\t{pair[1]}\n" for pair in zip(rows["source"], rows["target"], strict=True))
        (folder / f"{split}.tsv").write_text("el\ten\n" + "".join(lines), encoding="utf-8")
    development = splits["validation"]
    links = [to_pharaoh(verse.links) for verse in verses if verse.is_for_development]
    for name, texts in (("el", development["source"]), ("en", development["target"]), ("links", links)):
        (folder / f"{name}.dev.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    for name, side in (("el", "source"), ("en", "target")):
        texts = splits["train"][side]
        (folder / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


if __name__ == "__main__":
    main()
