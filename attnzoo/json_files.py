"""Read JSON files from untrusted sources, and compare files. It needs the standard library alone.

It is in every exported folder, next to ``run.py``.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

MAX_BYTES = 2**27  # a tokenizer of a million words has a quarter of that


def read_mapping(path: str | Path) -> dict[str, Any]:
    """The content of a JSON file that holds names and values.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: it is damaged, not UTF-8, larger than ``MAX_BYTES``, or not a plain file.
    """
    path = Path(path)
    if path.exists() and not path.is_file():  # such as a pipe, which would never end
        raise ValueError(f"{path} is not a plain file")
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"{path} has more than {MAX_BYTES:,} bytes, which no file of a model has")
    try:
        mapping = json.loads(
            content.decode("utf-8")
        )  # from bytes json would also read UTF-16, which no other reader does
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(mapping, dict):
        raise ValueError(f"{path} is damaged: it is not a mapping of names to values")
    return mapping


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
