"""The command ``attnzoo``: each subcommand hands its arguments to the module that does the work."""

import importlib
import sys

# Name -> module, one line of help, an example.
COMMANDS = {
    "train": ("attnzoo.training.train", "train a recipe", "attnzoo train demo"),
    "evaluate": ("attnzoo.training.evaluate", "measure a checkpoint", "attnzoo evaluate runs/demo/best"),
    "release": (
        "attnzoo.training.release",
        "make a finished run small and complete",
        "attnzoo release runs/demo my-model",
    ),
    "publish": ("attnzoo.training.publish", "push a folder to the Hub", "attnzoo publish my-model owner/name"),
    "card": ("attnzoo.training.card", "write a model card again", "attnzoo card my-model"),
    "pronounce": ("attnzoo.training.pronounce", "pronounce words", "attnzoo pronounce runs/demo/best zebra"),
    "classify": ("attnzoo.training.classify", "classify sentences", 'attnzoo classify my-model "A moving film."'),
    "align": ("attnzoo.training.align", "align the words of sentence pairs", "attnzoo align my-model en.txt de.txt"),
}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in COMMANDS:
        importlib.import_module(COMMANDS[name][0]).main(rest)
        return
    print("\n".join(f"{command:10} {text:40} {example}" for command, (_, text, example) in COMMANDS.items()))
    sys.exit(0 if name in ("-h", "--help") else 2)
