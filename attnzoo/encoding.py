"""Decoding of UTF-8. The errors for other input name the file or the argument."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

# The first bytes of files that are not text, with names for messages. Not gzip: training data may be compressed by it.
PACKED = dict.fromkeys((b"PK\x03\x04", b"PK\x05\x06"), "a zip file or a workbook")  # the second: an empty one
PACKED |= dict.fromkeys((b"BZh%d1A" % level for level in range(1, 10)), "compressed by bzip2")
PACKED |= {b"\xfd7zXZ": "compressed by xz", b"\x28\xb5\x2f\xfd": "compressed by zstd"}
PACKED |= {b"7z\xbc\xaf": "a 7z archive", b"%PDF-": "a PDF", b"\x89PNG": "a picture"}
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def not_text(content: bytes) -> str | None:
    """The kind of a file that is not text, such as "a PDF"; None for text, and for UTF-16 with a byte order mark."""
    kinds = PACKED | {b"\x1f\x8b": "compressed by gzip"}
    kind = next((kind for signature, kind in kinds.items() if content.startswith(signature)), None)
    if kind is None and b"\0" in content and not content.startswith(UTF16_MARKS):
        return "a binary file"
    return kind


def text_of(content: bytes, what: object) -> str:
    """The text of a file in UTF-8, without a byte order mark. Its lines end with a line feed, those of old Macs too.

    Raises:
        ValueError: it is something else; the message names ``what``.
    """
    with reading_utf8(what):
        text = content.decode("utf-8-sig")
    if kind := not_text(content):
        raise ValueError(f"{what} is {kind}, not text; give a text file in UTF-8")
    return re.sub("\r\n?", "\n", text)


@contextmanager
def reading_utf8(what: object) -> Iterator[None]:
    """Turn a UnicodeError into a ValueError that names ``what``, and says so if it is a packed or a binary file."""
    try:
        yield
    except UnicodeError as error:
        read = error.object if isinstance(error, UnicodeDecodeError) else b""
        if kind := not_text(read):
            raise ValueError(f"{what} is {kind}, not text; give a text file in UTF-8") from error
        command = "iconv -f utf-16" if read.startswith(UTF16_MARKS) else "iconv"
        raise ValueError(f"{what} is not UTF-8 ({error}); convert it, for example with {command}") from error
