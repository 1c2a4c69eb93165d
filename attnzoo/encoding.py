"""Decoding of UTF-8, and lines of text. The errors for other input name the file or the argument."""

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The first bytes of files that are not text, with names for messages. gzip is not among them: training data may be
# compressed by it.
PACKED = dict.fromkeys((b"PK\x03\x04", b"PK\x05\x06"), "a zip file or a workbook")  # the second: an empty one
PACKED |= dict.fromkeys((b"BZh%d1A" % level for level in range(1, 10)), "compressed by bzip2")
PACKED |= {b"\xfd7zXZ": "compressed by xz", b"\x28\xb5\x2f\xfd": "compressed by zstd"}
PACKED |= {b"7z\xbc\xaf": "a 7z archive", b"%PDF-": "a PDF", b"\x89PNG": "a picture"}
MOST_CHARACTERS = 100_000  # of a line that a model reads: a chapter of a book has a third
LONGEST_LINE = 2**24  # characters; a device such as /dev/zero has a line without end
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


def text_lines(path: Path, what: object = None) -> Iterator[str]:
    """The lines of a text file in UTF-8, one by one, without their ends: of Unix, Windows or old Macs.

    Raises:
        ValueError: it is something else, or a line is longer than ``LONGEST_LINE``; the message names ``what``, by
            default the path.
    """
    what = path if what is None else what
    with path.open(encoding="utf-8-sig") as file, reading_utf8(what):
        for number in itertools.count(1):
            line = file.readline(LONGEST_LINE)
            if (number == 1 or "\0" in line) and (kind := not_text(line.encode())):
                raise ValueError(f"{what} is {kind}, not text; give a text file in UTF-8")
            if len(line) == LONGEST_LINE:
                raise ValueError(f"line {number} of {what} has {LONGEST_LINE:,} characters or more; is it text?")
            if not line:
                return
            yield line.removesuffix("\n")


@contextmanager
def reading_utf8(what: object) -> Iterator[None]:
    """Turn a UnicodeError into a ValueError that names ``what``, and the kind of a packed or binary file."""
    try:
        yield
    except UnicodeError as error:
        read = error.object if isinstance(error, UnicodeDecodeError) else b""
        if kind := not_text(read):
            raise ValueError(f"{what} is {kind}, not text; give a text file in UTF-8") from error
        command = "iconv -f utf-16" if read.startswith(UTF16_MARKS) else "iconv"
        raise ValueError(f"{what} is not UTF-8 ({error}); convert it, for example with {command}") from error
