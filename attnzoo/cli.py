"""The command ``attnzoo``: its subcommands, and what they have in common.

Neither this module nor those of the parsers import anything heavy, so ``--help`` is quick. The module that does a
command's work is imported when the command runs.
"""

import argparse
import difflib
import io
import sys
import warnings
from pkgutil import resolve_name
from typing import NamedTuple, NoReturn

from . import __version__
from .commands.exits import exit_when_interrupted, message_of
from .installing import pip_install

LIKENESS = 0.65  # of a command that is suggested: "eval" is like "evaluate", "show" like none


class Command(NamedTuple):
    """A command.

    Attributes:
        help: what it does
        parsers: the module with the function that makes its parser
        run: the function that takes its arguments
    """

    help: str
    parsers: str
    run: str

    def parser(self, name: str) -> argparse.ArgumentParser:
        """The parser of the command of this name."""
        parser: argparse.ArgumentParser = resolve_name(f"{self.parsers}:{name}_parser")()
        return parser


OURS, TRAINING = "attnzoo.commands.parsers", "attnzoo.training.commands.parsers"
COMMANDS = {
    "list": Command("list the trained models, or show how one is loaded", OURS, "attnzoo.commands.catalogue:main"),
    "pronounce": Command("pronounce words", OURS, "attnzoo.commands.pronounce:main"),
    "translate": Command("translate sentences", OURS, "attnzoo.commands.targets:translate"),
    "summarize": Command("summarise texts in one line", OURS, "attnzoo.commands.targets:summarize"),
    "classify": Command("classify sentences", OURS, "attnzoo.commands.classify:main"),
    "view": Command("show the attention of any model on a text", OURS, "attnzoo.commands.view:main"),
    "check": Command("check attention code, and grade it", OURS, "attnzoo.commands.check:main"),
    "assignment": Command(
        "write an exercise of the lessons, for check to grade", OURS, "attnzoo.commands.assignment:main"
    ),
    "align": Command("align the words of given pairs", OURS, "attnzoo.commands.align:main"),
    "import": Command("read a translation model of Firefox", OURS, "attnzoo.commands.firefox:import_model"),
    "export": Command("export a model, so that it runs without torch", OURS, "attnzoo.commands.export:main"),
    "train": Command("train a model from a recipe", TRAINING, "attnzoo.training.train:main"),
    "tune": Command("search for a better recipe", TRAINING, "attnzoo.training.tune:main"),
    "evaluate": Command("measure a checkpoint on its test split", TRAINING, "attnzoo.training.evaluate:main"),
    "faithfulness": Command(
        "test what the attention of a model explains", TRAINING, "attnzoo.training.studies.faithfulness:main"
    ),
    "release": Command(
        "turn a finished run into a folder to publish: model, figures and card",
        TRAINING,
        "attnzoo.training.release:main",
    ),
    "claims": Command(
        "check what papers and tutorials claim about attention",
        TRAINING,
        "attnzoo.training.studies.claims.command:main",
    ),
    "publish": Command(
        "push a folder to the Hugging Face Hub, and verify it", TRAINING, "attnzoo.training.publish:main"
    ),
}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. It prints UTF-8, also into a file or a pipe of Windows."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
    with exit_when_interrupted():
        _run(sys.argv[1:] if arguments is None else arguments)


def _run(arguments: list[str]) -> None:
    listed = "\n".join(f"  {name:<12} {command.help}" for name, command in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="attnzoo",
        description="Attention models, from Bahdanau's alignment to the Transformer.",
        epilog=f"commands:\n{listed}\n\n"
        "Help on one command: attnzoo COMMAND --help. Example: attnzoo pronounce philosophy",
        usage="attnzoo [--help] [--version] COMMAND ...",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"attnzoo {__version__}")
    parser.add_argument("command", metavar="COMMAND", nargs="?", help=argparse.SUPPRESS)
    name = parser.parse_args(arguments[:1]).command
    if name is None:
        parser.print_help()
        return
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=LIKENESS)
        parser.error(f"no command {name!r}; " + (f"did you mean {close[0]!r}?" if close else "see attnzoo --help"))
    command = COMMANDS[name]
    # --help and wrong arguments end here, before the seconds that importing torch takes.
    command.parser(name).parse_intermixed_args(arguments[1:])
    try:
        run = resolve_name(command.run)
    except ModuleNotFoundError as error:
        _exit_without_package(name, error)
    except OSError as error:  # of a library of torch, for example; it is not one of the output
        sys.exit(f"error: a library that attnzoo {name} needs cannot be loaded: {error}")
    if command.parsers == TRAINING:  # it reports its users' errors itself
        run(arguments[1:])
        return
    from huggingface_hub.errors import StrictDataclassError
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: print(f"warning: {message}", file=sys.stderr)
            run(arguments[1:])
    except BrokenPipeError:  # an OSError
        raise
    except (OSError, ValueError, StrictDataclassError) as error:  # the user can correct it, so no traceback
        sys.exit(f"error: {message_of(error)}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "attnzoo":
            raise
        sys.exit(f"error: {error}")
    except Exception as error:
        if type(error) is not Exception:
            raise
        # Of the library tokenizers, for a word that is not in the vocabulary where there is no unknown token.
        sys.exit(f"error: the model's tokenizer cannot read a text: {error}")


def _exit_without_package(name: str, error: ModuleNotFoundError) -> NoReturn:
    """Name the package that a command lacks, and the extra that installs it."""
    if (error.name or "").partition(".")[0] == "attnzoo":
        raise error
    extra = {"export": "export", "import": "firefox"}.get(name, "train")
    needed = f"attnzoo {name} needs the package {error.name!r}, which is not installed"
    sys.exit(f"error: {needed}: {pip_install(extra)}")


if __name__ == "__main__":
    main()
