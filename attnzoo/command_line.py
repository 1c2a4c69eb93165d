"""What the commands that use a model share: their arguments, the texts that they read, and a progress bar."""

import argparse
import contextlib
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard
from huggingface_hub.utils import enable_progress_bars, tqdm
from transformers import AutoConfig, AutoTokenizer

from .encoding import reading_utf8, text_lines, text_of
from .json_files import read_mapping
from .phonemes import known_phonemes
from .shipped_models import SHIPPED, named_folder

PROGRESS = "attnzoo"  # the name of our progress bars, which are shown though those of Transformers are not
MODEL_HELP = "a folder, the name of a model that comes with attnzoo, or owner/name on the Hub"
EXPORT = "export.json"  # in every folder that attnzoo export wrote
JSON_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", EXPORT)
# The command that reads the models whose cards have this tag.
READERS = {"grapheme-to-phoneme": "pronounce", "translation": "translate", "summarization": "summarize"}


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
    lines = text_of(sys.stdin.buffer.read(), "the standard input").split("\n")
    return [line.strip() for line in (lines if lines[-1] else lines[:-1])]


def require_utf8(texts: list[str], what: str) -> list[str]:
    """The texts. In an argument, Python puts a surrogate for each byte that is not UTF-8."""
    with reading_utf8(f"the {what}"):
        "".join(texts).encode()
    return texts


def folder_of(model: str, command: str) -> str:
    """The folder or Hub id of the model that a command reads, for ``from_pretrained``.

    Raises:
        FileNotFoundError: there is no such model.
        ValueError: the command does not read models of this kind; the message names the one that does.
    """
    folder = named_folder(model)
    path, is_hub_id = Path(folder), re.fullmatch(r"[\w.-]+/[\w.-]+", model)
    if not (path / "config.json").is_file() and (path.exists() or not is_hub_id):
        if path.exists():
            best = f"; did you mean {path / 'best'}?" if (path / "best" / "config.json").is_file() else ""
            raise FileNotFoundError(f"{model} is not a checkpoint folder: it has no config.json{best}")
        raise FileNotFoundError(f"{model} is neither a folder nor the name of a shipped model: {', '.join(SHIPPED)}")
    is_exported = (path / EXPORT).is_file()
    if is_exported and command != "pronounce":
        remedy = "give the model that it was exported from; of all commands, only pronounce reads exported models"
        raise ValueError(f"{model} is an exported model, which attnzoo {command} does not read; {remedy}")
    require_readable(folder)
    if not is_exported and command in ("classify", *READERS.values()):
        kind, readers = _kind_and_readers(folder)
        if command not in readers:
            raise ValueError(
                f"{model} is {kind}, which attnzoo {command} does not read; use attnzoo {' or '.join(readers)}"
            )
    return folder


def require_readable(folder: str | Path) -> None:
    """Read the config, the tokenizer and the other JSON files of a model, so that an error names the damaged file.

    Raises:
        OSError: a file is missing.
        ValueError: a file is damaged.
    """
    for path in sorted(Path(folder).glob("*.json")):
        if path.name in JSON_FILES:
            read_mapping(path)
    parts: dict[str, Callable[[], Any]] = {
        "config.json": lambda: AutoConfig.from_pretrained(folder, trust_remote_code=False),
        "tokenizer.json or tokenizer_config.json": lambda: _try_tokenizer(folder),
    }
    for name, read in parts.items():
        try:
            found = read()
        except OSError:
            raise
        except Exception as error:  # Transformers and tokenizers raise whatever a wrong value makes them raise
            raise ValueError(f"{name} in {folder} is damaged: {error}") from error
        if name == "config.json" and not all(isinstance(name, str) for name in found.architectures or ()):
            raise ValueError(f"config.json in {folder} is damaged: architectures is {found.architectures!r}")


def _try_tokenizer(folder: str | Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    if "attention_mask" not in tokenizer(["", ""], padding=tokenizer.pad_token is not None):
        raise ValueError("it makes no attention_mask")


def _kind_and_readers(folder: str) -> tuple[str, list[str]]:
    """What a model is, in words, and the commands that read it: by its config, its card and its tokenizer."""
    config = AutoConfig.from_pretrained(folder)
    head = (config.architectures or [config.model_type])[0]
    if "SequenceClassification" in head:
        return f"a classifier ({head})", ["classify"]
    if not config.is_encoder_decoder:
        return f"a model without source and target ({head})", ["view"]
    card, tags = Path(folder, "README.md"), set[str | None]()
    with contextlib.suppress(OSError, ValueError):  # without a card that can be read
        data = ModelCard.load(card if Path(folder).exists() else folder).data
        tags = {*(data.tags or ()), data.pipeline_tag}
    tasks = [task for task in READERS if task in tags]
    if not tasks and known_phonemes(AutoTokenizer.from_pretrained(folder)):
        tasks = ["grapheme-to-phoneme"]
    if not tasks:
        return f"an encoder-decoder whose card names no task ({head})", ["translate", "summarize"]
    return f"a model for {' and '.join(tasks)} ({head})", [READERS[task] for task in tasks]


def lines_of(path: Path) -> list[str]:
    """The lines of a text file."""
    return list(text_lines(path, f"the file {path}")) or [""]


def with_progress(items: Iterable[Any], file: Path | None, total: int | None = None) -> Iterable[Any]:
    """The items, with a progress bar on standard error where a file is read."""
    if file is None:
        return items
    enable_progress_bars(PROGRESS)
    return tqdm(items, total=total, file=sys.stderr, name=PROGRESS)
