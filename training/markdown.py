"""Escape text from outside, such as file names, for Markdown that shows it literally."""

import html
import re


def one_line(text: str) -> str:
    """The text without line breaks, and with U+FFFD in place of characters that cannot be printed."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in " ".join(text.split()))


def escaped(text: str) -> str:
    """The text, escaped for a line of Markdown: no character acts as markup or HTML."""
    return html.escape(re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", one_line(text)), quote=False)


def with_code(text: str) -> str:
    """The text, escaped except for its code spans: no heading, link, table or HTML."""
    parts = re.split("(`[^`]+`)", one_line(text))  # every second one is a code span
    return "".join(
        part if number % 2 else html.escape(re.sub(r"([\\`\[\]|#])", r"\\\1", part), quote=False)
        for number, part in enumerate(parts)
    )


def code(text: str) -> str:
    """The text as a code span, with enough backticks around it if it contains backticks."""
    text = one_line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if "`" in text else ""
    return f"{fence}{space}{text}{space}{fence}"
