"""Write the lines that install attnzoo into the pages that have them: ``python docs/install_lines.py``."""

from pathlib import Path

from attnzoo import installing

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "docs" / "getting_started.md", ROOT / "docs" / "index.md"]
START, END = "<!-- install -->", "<!-- end of install -->"
FROM_GIT = """\
pip install "attnzoo[plots] @ git+ADDRESS" "attnzoo-models @ git+ADDRESS#subdirectory=model_cards\""""


def lines() -> str:
    """The block of a page."""
    if installing.ON_INDEX:
        head, commands = "# Installs from the package index.", [installing.pip_install("plots", models=True)]
    else:
        head = "# Needs a clone as the working directory. Without one use the second line; ADDRESS is the Git address."
        commands = [installing.pip_install("plots", models=True).partition("  #")[0], FROM_GIT]
    return "\n".join(["```sh", head, *commands, "```"])


def with_lines(page: str) -> str:
    """The page with today's lines between its two marks; a page without marks stays as it is."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    return f"{before}{start}\n{lines()}\n{end}{after}" if end else page


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(with_lines(path.read_text(encoding="utf-8")), encoding="utf-8")
