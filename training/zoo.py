"""Write the zoo's index, the table of all trained models, into the README: ``python -m attnzoo.training.zoo``.

It is made from the cards and files in ``model_cards/``, so each figure has one source. ``training/retrain.py`` trains
the models again.
"""

import re
from pathlib import Path

from huggingface_hub import ModelCard

from attnzoo.commands.parsers import command_parser

from .commands.exits import exit_on_user_error

START, END = "<!-- written by python -m attnzoo.training.zoo -->", "<!-- end of the zoo -->"
COLUMNS = ["model", "what it does, on which data, after which paper", "MB", "test split"]
SHOWN = 2  # figures of a model; its card has all


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.zoo", "Write the index of trained models.")
    parser.add_argument("--cards", type=Path, default=Path("model_cards"), help="(default: %(default)s)")
    parser.add_argument("--readme", type=Path, default=Path("README.md"), help="(default: %(default)s)")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        write_index(options.cards, options.readme)


def write_index(cards: Path, readme: Path) -> None:
    """Write the table between its marks.

    Raises:
        OSError, ValueError: as for :func:`index` and :func:`with_index`.
    """
    text = readme.read_text(encoding="utf-8")
    readme.write_text(with_index(text, index(cards)), encoding="utf-8")


def index(cards: Path) -> str:
    """The table, a row for every folder, as Markdown.

    Raises:
        FileNotFoundError: the folder does not exist, or a folder in it has no card.
        ValueError: a card lacks an entry of the table.
    """
    folders = sorted(path for path in cards.iterdir() if path.is_dir())
    lines = [COLUMNS, ["---"] * len(COLUMNS), *(_row(folder) for folder in folders)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def with_index(readme: str, table: str) -> str:
    """The README with this table between its two marks.

    Raises:
        ValueError: a mark is missing.
    """
    before, start, rest = readme.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"the README has no place for the index; put {START} and {END} at its place")
    return f"{before}{start}\n\n{table}\n\n{end}{after}"


def _row(folder: Path) -> list[str]:
    card = ModelCard.load(folder / "README.md")
    results = card.data.eval_results or []
    links = re.findall(r"\[[^\]]+ \(\d{4}\)\]\(https://[^)]+\)", card.text.split("## Use")[0])
    commands = re.findall(r"`(attnzoo evaluate [^`]+)`", card.text)
    parts = {"results": results, "paper": links, "command that made its figures": commands}
    for name, found in parts.items():
        if not found:
            raise ValueError(f"the card of {folder} has no {name}; write it with attnzoo.training.release")
    weights = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    figures = ((str(result.metric_name), result.metric_value) for result in results[:SHOWN])
    return [
        f"[`{folder.name}`]({folder.as_posix()})",
        f"{str(results[0].task_type).replace('-', ' ')}; {results[0].dataset_name}; {', '.join(links)}",
        f"{weights / 1e6:.1f}",
        # "PER %" heads a column of a card, and the index has "PER 5.42 %"
        ", ".join(f"{name.removesuffix(' %')} {value:.2f}{' %' * name.endswith(' %')}" for name, value in figures),
    ]


if __name__ == "__main__":
    main()
