"""Lines of text files: every command that reads lines reads the same ones, and no endless file."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from attnzoo.aligning.files import count_pairs, read_links, read_pairs
from attnzoo.commands.lines import lines_of
from attnzoo.encoding import text_lines
from attnzoo.pronunciation.lexicons import user_lexicon

ROOT = Path(__file__).parents[2]


def names_its_encoding(call: ast.Call) -> bool:
    """Whether a call that opens a text file names its encoding, so that it is the same file on Windows."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    if name not in ("open", "read_text", "write_text") or "encoding" in [keyword.arg for keyword in call.keywords]:
        return True
    modes = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    if name != "open":
        return modes == ["utf-8"]
    # Those of os, gzip, tarfile and PIL open bytes.
    module = getattr(getattr(call.func, "value", None), "id", None)
    return module in ("os", "gzip", "tarfile", "Image") or any(re.fullmatch("[rwax]b|b[rwax]", str(m)) for m in modes)


@pytest.mark.parametrize("folder", ["attnzoo", "training", "docs", "space"])
def test_every_text_file_is_opened_in_a_named_encoding(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    calls = [(path, node) for path in files for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    assert not [(path.name, n.lineno) for path, n in calls if isinstance(n, ast.Call) and not names_its_encoding(n)]


def test_output_is_utf_8_where_the_system_has_another_encoding() -> None:
    """Such as on Windows, for a file or a pipe."""
    command = [sys.executable, "-m", "attnzoo.cli", "pronounce", "cat", "--phones", "kokoro", "--no-dictionary"]
    settings = os.environ | {"PYTHONIOENCODING": "cp1252"}
    assert subprocess.check_output(command, env=settings, cwd=ROOT, encoding="utf-8") == "cat\tk\u02c8æt\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["unix", "windows", "old mac"])
@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["", "byte order mark"])
def test_lines_end_as_on_unix_windows_and_old_macs(start: str, end: str, tmp_path: Path) -> None:
    """Other separators may be part of a text and do not end a line."""
    lines = ["a\u2028b\x0bc\td", "e f\x85\tg", "h\ti"]
    path, links = tmp_path / "lines.txt", tmp_path / "links.txt"
    path.write_bytes((start + end.join(lines) + end).encode())
    links.write_bytes((start + end.join(["0-0", "", "0-1 1-1"])).encode())
    assert list(text_lines(path)) == lines_of(path) == lines
    assert count_pairs(path, path) == 3
    assert list(read_pairs(path, path)) == [(line, line) for line in lines]
    assert [len(sure) for sure, _ in read_links(links)] == [1, 0, 2]
    assert len(user_lexicon(path, "kokoro")) == 3


@pytest.mark.parametrize("read", [lines_of, lambda path: user_lexicon(path, "kokoro")])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\n\x00\n", "is a binary file"),
        (b"%PDF-1.7 a", "is a PDF"),
        (b"caf\xe9", "is not UTF-8"),
        (None, "binary"),
    ],
)
def test_what_is_no_text_is_refused_by_every_reader(
    read: object, content: bytes | None, message: str, tmp_path: Path
) -> None:
    path = Path("/dev/zero")
    if content is None and not path.exists():
        pytest.skip("this system has no /dev/zero")
    if content is not None:
        path = tmp_path / "a.txt"
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(path)  # type: ignore[operator]


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnzoo.encoding.LONGEST_LINE", 10)
    (tmp_path / "a.txt").write_text("short\n" + "a" * 11)
    with pytest.raises(ValueError, match=r"line 2 of .*a\.txt has 10 characters or more"):
        lines_of(tmp_path / "a.txt")
