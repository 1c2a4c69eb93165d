"""The codes of languages, from the package iso639-lang, which has the tables of ISO 639-3's registration authority.

pip install iso639-lang
python -m attnzoo.training.make_data.languages attnzoo/languages.tsv

The file has a line for every language with a code of two letters (ISO 639-1): that code, the one of three letters (ISO
639-3), and that of its macrolanguage, if it is a member of one. Dictionaries of WikiPron are named by the last two.
"""

import importlib
from pathlib import Path

from attnzoo.commands.parsers import command_parser

from ..commands.exits import exit_on_user_error
from ..loop.checkpoint import write_atomically

HEADER = ["iso_639_1", "iso_639_3", "macrolanguage"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.make_data.languages", "Write the codes of languages.")
    parser.add_argument("output", type=Path, help="the file to write")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        try:
            iso639 = importlib.import_module("iso639")
        except ModuleNotFoundError as error:
            raise ValueError("the codes are those of the package iso639-lang: pip install iso639-lang") from error
        of_two_letters = [language for language in iso639.iter_langs() if language.pt1]
        rows = sorted([one.pt1, one.pt3, macro.pt3 if (macro := one.macro()) else ""] for one in of_two_letters)
        write_atomically(options.output, "".join("\t".join(row) + "\n" for row in (HEADER, *rows)))
        print(f"{options.output}: {len(rows)} languages")


if __name__ == "__main__":
    main()
