"""Texts that are not UTF-8 are refused by the name of the file or argument that they are from."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reading_utf8(what: object) -> Iterator[None]:
    """Turn a UnicodeError into a ValueError that names ``what`` was read."""
    try:
        yield
    except UnicodeError as error:
        raise ValueError(f"{what} is not UTF-8 ({error}); convert it, for example with iconv") from error
