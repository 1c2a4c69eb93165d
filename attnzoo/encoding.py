"""Texts that are not UTF-8 are refused by the name of the file or argument that they are from."""

from collections.abc import Iterator
from contextlib import contextmanager

# The first bytes of compressed files, except gzip, and what messages call them.
PACKED = {b"PK\x03\x04": "a zip file or a workbook", b"BZh": "compressed by bzip2", b"\xfd7zXZ": "compressed by xz"}
PACKED |= {b"\x28\xb5\x2f\xfd": "compressed by zstd", b"7z\xbc\xaf": "a 7z archive"}


@contextmanager
def reading_utf8(what: object) -> Iterator[None]:
    """Turn a UnicodeError into a ValueError that names ``what`` was read, and what it is if it is no text."""
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
