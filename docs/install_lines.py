"""Write the lines that install attnzoo into the pages that have them: ``python docs/install_lines.py``."""

from pathlib import Path

from attnzoo import installing

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "getting_started.md", ROOT / "docs" / "index.md"]
START, END = "<!-- install -->", "<!-- end of install -->"
FROM_GIT = """\
pip install "attnzoo[plots] @ git+ADDRESS" "attnzoo-models @ git+ADDRESS#subdirectory=model_cards\""""


def lines() -> str:
    """The block of a page, or one for each of two ways to install."""
    command = installing.pip_install("plots", models=installing.MODELS).partition("  #")[0]
    if installing.ON_INDEX:
        return _block("# Installs from the package index.", command)
    in_clone = _block("# Needs a clone of the repository as the working directory.", command)
    without = _block("# Needs Git. Replace ADDRESS, twice, by the address of the repository: https://...", FROM_GIT)
    return f"{in_clone}\n\nWithout a clone:\n\n{without}"


def _block(head: str, command: str) -> str:
    return "\n".join(["```sh", head, command, "```"])


def with_lines(page: str) -> str:
    """The page with today's lines between its two marks; a page without marks stays as it is."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    return f"{before}{start}\n{lines()}\n{end}{after}" if end else page


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(with_lines(path.read_text(encoding="utf-8")), encoding="utf-8")
