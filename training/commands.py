"""What the command lines share."""

import argparse


def command_parser(name: str, description: str, example: str | None = None) -> argparse.ArgumentParser:
    """The parser of a command, whose help ends with an example."""
    epilog = example and f"example: {name} {example}"
    return argparse.ArgumentParser(prog=name, description=description, epilog=epilog)


def add_overrides(parser: argparse.ArgumentParser, purpose: str = "change the recipe") -> None:
    """Add the option ``--set``, which may be repeated."""
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help=purpose)
