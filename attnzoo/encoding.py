"""Errors for input that is not UTF-8; they name the file or the argument."""

from collections.abc import Iterator
from contextlib import contextmanager

# The first bytes of packed files, and their names in messages. Not gzip: training data may be compressed by it.
PACKED = {b"PK\x03\x04": "a zip file or a workbook", b"BZh": "compressed by bzip2", b"\xfd7zXZ": "compressed by xz"}
PACKED |= {b"\x28\xb5\x2f\xfd": "compressed by zstd", b"7z\xbc\xaf": "a 7z archive"}


@contextmanager
def reading_utf8(what: object) -> Iterator[None]:
    """Turn a UnicodeError into a ValueError that names ``what``, and says so if it is a packed or a binary file."""
    try:
        yield
    except UnicodeError as error:
        read = error.object if isinstance(error, UnicodeDecodeError) else b""
        kinds = PACKED | {b"\x1f\x8b": "compressed by gzip"}
        kind = next((kind for signature, kind in kinds.items() if read.startswith(signature)), None)
        if kind is None and b"\0" in read and not read.startswith((b"\xff\xfe", b"\xfe\xff")):  # which begin UTF-16
            kind = "a binary file"
        if kind is not None:
            raise ValueError(f"{what} is {kind}, not text; give a text file in UTF-8") from error
        raise ValueError(f"{what} is not UTF-8 ({error}); convert it, for example with iconv") from error
