"""Values in messages, shortened: a text of a user may have a million characters."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

MOST_SHOWN = 80  # characters of a text
MOST_LISTED = 8  # texts in a row


def shown(text: str) -> str:
    """A text in quotation marks, cut after ``MOST_SHOWN`` characters."""
    return repr(text) if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]!r}..."


def shown_each(texts: Iterable[str]) -> str:
    """The different texts with commas between them; after the first ``MOST_LISTED`` the number of the others."""
    different = list(dict.fromkeys(texts))
    more = len(different) - MOST_LISTED
    return ", ".join(map(shown, different[:MOST_LISTED])) + (f" and {more:,} more" if more > 0 else "")


def described(value: Any) -> str:
    """The type of a value and its beginning."""
    if isinstance(value, Tensor):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')}"
    written = repr(value)
    return f"{type(value).__name__}: {written if len(written) < 60 else written[:57] + '...'}"
