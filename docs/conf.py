"""The documentation site, by Sphinx: ``make docs`` builds it into ``build/site`` without a network.

The pages are the Markdown files of ``docs/``, the cards of the models, CONTRIBUTING and CHANGELOG. The table of
``docs/index.md``, the front page, is the site's menu. ``reference_pages.py`` writes three pages from the code before.
The colours are those of attnzoo's pictures and pages.
"""

import os
import re
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

from attnzoo.viewer.style import DARK, LIGHT, Theme

ROOT = Path(__file__).parents[1]

project = "attnzoo"
author = copyright = "The attnzoo developers"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
html_theme, html_title, html_static_path = "furo", "attnzoo", []
html_show_sphinx = False
root_doc = "docs/index"
include_patterns = ["docs/*.md", "docs/**/*.md", "model_cards/*/README.md", "space/*/README.md", "*.md"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"
pygments_style, pygments_dark_style = "default", "monokai"
napoleon_custom_sections, napoleon_use_ivar = ["Shape", "Symbols"], True
autodoc_member_order, autodoc_typehints = "bysource", "none"  # the signature has the types
autodoc_default_options = {"show-inheritance": True}
suppress_warnings = ["myst.header"]  # a card begins with the metadata that the Hub reads
nitpicky = False
FRONT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>attnzoo</title>
<meta http-equiv="refresh" content="0; url={page}">
<p><a href="{page}">attnzoo</a></p>
</html>
"""


def variables(theme: Theme) -> dict[str, str]:
    """The colours of a theme as those of Furo."""
    return {
        "color-background-primary": theme.paper,
        "color-background-secondary": theme.panel,
        "color-background-border": theme.line,
        "color-foreground-primary": theme.ink,
        "color-foreground-secondary": theme.soft,
        "color-brand-primary": theme.accent,
        "color-brand-content": theme.accent,
        "color-brand-visited": theme.accent,
    }


html_theme_options: dict[str, Any] = {
    "light_css_variables": variables(LIGHT),
    "dark_css_variables": variables(DARK),
}
repository = os.environ.get("ATTNZOO_REPOSITORY_URL")
if repository:
    html_theme_options |= {"source_repository": repository, "source_branch": "main", "source_directory": ""}

LINK = re.compile(r"\[(?P<text>[^]]*)\]\((?P<target>[^)\s#:]+)(?P<place>#[^)]*)?\)")  # not to an address of the net
GITHUB, COLAB = "https://github.com/", "https://colab.research.google.com/github"
ROW = re.compile(r"^\| (?:\*\*(?P<part>[^*]+)\*\*|\[(?P<title>[^]]+)\]\((?P<page>[^)#]+)\.md\)) \|", re.MULTILINE)


def read(app: Any, name: str, source: list[str]) -> None:
    """A page as it is read: the menu is added to the first one, and a link to a folder becomes one to its README."""
    folder = (ROOT / name).parent

    def to_page(link: re.Match[str]) -> str:
        target = folder / link["target"]
        if (target / "README.md").is_file():
            return f"[{link['text']}]({link['target'].rstrip('/')}/README.md)"
        if target.is_dir():  # no page of the site
            address = repository and f"{repository}/tree/main/{target.resolve().relative_to(ROOT)}"
            return f"[{link['text']}]({address})" if address else link["text"]
        if repository and target.suffix == ".ipynb":
            return f"{link[0]} ([Colab]({COLAB}/{repository.removeprefix(GITHUB)}/blob/main/notebooks/{target.name}))"
        return link[0]

    source[0] = LINK.sub(to_page, source[0])
    if name == root_doc:
        source[0] += menu(source[0])


def menu(index: str) -> str:
    """The menu of the site, from the rows of the table: parts in bold, pages as links."""
    parts: dict[str, list[str]] = {}
    for row in ROW.finditer(index):
        if row["part"]:
            parts[row["part"]] = []
        else:
            parts[list(parts)[-1]].append(f"{row['title']} <{row['page']}>")
    trees = (
        "\n".join(["```{toctree}", ":hidden:", f":caption: {part}", *pages, "```"]) for part, pages in parts.items()
    )
    globs = {"Claims": "claims/*", "Model cards": "../model_cards/*/README", "Spaces": "../space/*/README"}
    others = (f"```{{toctree}}\n:hidden:\n:glob:\n:caption: {part}\n{pages}\n```" for part, pages in globs.items())
    return "\n\n".join(["", *trees, *others, ""])


def mathml(node: Any, as_block: bool) -> str:
    """An equation as MathML, which every browser draws without a script."""
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s in the equation %s", error, node.astext(), location=node)
        return ""


def inline_math(self: Any, node: Any) -> None:
    """An equation in a line."""
    self.body.append(mathml(node, as_block=False))
    raise SkipNode


def block_math(self: Any, node: Any) -> None:
    """An equation of its own."""
    self.body.append(f'<div class="math">{mathml(node, as_block=True)}</div>')
    raise SkipNode


def front(app: Any, error: Exception | None) -> None:
    """The site's address leads to its front page."""
    if error is None:
        (Path(app.outdir) / "index.html").write_text(FRONT.format(page=f"{root_doc}.html"), encoding="utf-8")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("build-finished", front)
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
    app.connect("source-read", read)
