"""Texts of others, such as the names of their files, in Markdown: every reader sees them as they are."""

import html
import re


def one_line(text: str) -> str:
    """The text without line breaks, and with a sign in place of what cannot be printed."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in " ".join(text.split()))


def escaped(text: str) -> str:
    """The text as a part of a line of Markdown, where none of its characters is markup or HTML."""
    return html.escape(re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", one_line(text)), quote=False)


def code(text: str) -> str:
    """The text as a code span; of backticks in it the span has more around it."""
    text = one_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"
