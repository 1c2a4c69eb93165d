"""Lines of text files: every command that reads lines reads the same ones, and no endless file."""

from pathlib import Path

import pytest

from attnzoo.aligning.files import count_pairs, read_links, read_pairs
from attnzoo.commands.lines import lines_of
from attnzoo.encoding import text_lines
from attnzoo.pronunciation.lexicons import user_lexicon


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
