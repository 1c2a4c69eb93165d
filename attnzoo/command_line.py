"""What the commands that use a model share: their arguments, the texts that they read, and a progress bar."""

import argparse
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from huggingface_hub.utils import enable_progress_bars, tqdm

from .encoding import reading_utf8
from .shipped_models import SHIPPED, named_folder

PROGRESS = "attnzoo"  # the name of our progress bars, which are shown though those of Transformers are not
MODEL_HELP = "a folder, the name of a model that comes with attnzoo, or owner/name on the Hub"


def plain_parser(command: str, description: str, example: str) -> argparse.ArgumentParser:
    """The parser of a command, whose help ends with an example."""
    return argparse.ArgumentParser(prog=f"attnzoo {command}", description=description, epilog=f"example: {example}")


def command_parser(
    command: str, help_text: str, example: str, model: str | None, text: str = "", results: str = "", more: str = ""
) -> argparse.ArgumentParser:
    """The parser of a command that uses a model: ``text`` and ``results`` name what it reads and searches, if any."""
    parser = plain_parser(command, f"{help_text.capitalize()}. {more}", example)
    if text:
        parser.add_argument("texts", nargs="*", metavar=text.upper(), help=f"default: read a {text} from each line")
    default = "the model of the accent and the phones" if model is None else "%(default)s"
    parser.add_argument("--model", default=model, help=f"{MODEL_HELP} (default: {default})")
    if results:
        parser.add_argument("--n-best", type=int, default=1, help=f"{results} of each, with their scores (default: 1)")
        parser.add_argument("--num-beams", type=int, help="width of the beam search (default: the model's)")
    return parser


def texts_of(options: argparse.Namespace, what: str) -> list[str]:
    """The texts of the command line, or else the lines of standard input."""
    if options.texts:
        return require_utf8(options.texts, what)
    if sys.stdin.isatty():
        raise ValueError(f"give at least one {what}, or a file with one on each line: attnzoo ... < file.txt")
    with reading_utf8("the standard input"):
        lines = sys.stdin.read().removeprefix("\ufeff").split("\n")
        "".join(lines).encode()  # Python may put a surrogate for each byte that is not UTF-8
    return [line.strip() for line in (lines if lines[-1] else lines[:-1])]


def require_utf8(texts: list[str], what: str) -> list[str]:
    """The texts. In an argument, Python puts a surrogate for each byte that is not UTF-8."""
    with reading_utf8(f"the {what}"):
        "".join(texts).encode()
    return texts


def folder_of(model: str) -> str:
    """The folder or Hub id of this model, for ``from_pretrained``.

    Raises:
        FileNotFoundError: there is no such model.
    """
    folder = named_folder(model)
    path, is_hub_id = Path(folder), re.fullmatch(r"[\w.-]+/[\w.-]+", model)
    if (path / "config.json").is_file() or (is_hub_id and not path.exists()):
        return folder
    if path.exists():
        best = f"; did you mean {path / 'best'}?" if (path / "best" / "config.json").is_file() else ""
        raise FileNotFoundError(f"{model} is not a checkpoint folder: it has no config.json{best}")
    raise FileNotFoundError(f"{model} is neither a folder nor the name of a shipped model: {', '.join(SHIPPED)}")


def lines_of(path: Path) -> list[str]:
    """The lines of a text file."""
    with reading_utf8(f"the file {path}"):
        text = path.read_text(encoding="utf-8-sig")
    return text.removesuffix("\n").split("\n")  # splitlines would split at other separators too


def with_progress(items: Iterable[Any], file: Path | None, total: int | None = None) -> Iterable[Any]:
    """The items, with a progress bar on standard error where a file is read."""
    if file is None:
        return items
    enable_progress_bars(PROGRESS)
    return tqdm(items, total=total, file=sys.stderr, name=PROGRESS)
