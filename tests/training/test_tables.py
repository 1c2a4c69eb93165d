"""Tables of text: keys, quotation marks, encodings and bad rows."""

import bz2
import gzip
import lzma
from pathlib import Path
from typing import Any

import pytest
from attnzoo.training.data import text_files
from attnzoo.training.data.pronunciations import PronunciationData
from attnzoo.training.data.sources import SourceError, read_rows

Pairs = list[tuple[str, str]]

WITHOUT_HEADER = "kinn\tk i n\nkala\tk a l\n"
NAMED = {"columns": ["word", "pronunciation"]}


def rows_of(path: Path, text: str | bytes, streaming: bool = False, **keys: Any) -> list[tuple[str, str]]:
    """Words and pronunciations of a file of this text."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    source = PronunciationData(path=str(path), streaming=streaming, **keys)
    rows = read_rows(source, ["word", "pronunciation"])["train"]
    return [(row["word"], row["pronunciation"]) for row in rows]


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize(
    ("name", "text", "keys"),
    [
        ("a.tsv", WITHOUT_HEADER, NAMED),
        ("a.tsv.gz", gzip.compress(WITHOUT_HEADER.encode(), mtime=0), NAMED),
        ("a.txt", WITHOUT_HEADER, NAMED | {"separator": "tab"}),
        ("a.csv", WITHOUT_HEADER.replace("\t", ";"), NAMED | {"separator": ";"}),
        ("a", "pronunciation|word\nk i n|kinn\nk a l|kala", {"separator": "|"}),
        ("a.tsv", ("\ufeff" + WITHOUT_HEADER).replace("\n", "\r\n"), NAMED),
        ("a.tsv", WITHOUT_HEADER.replace("\n", "\r"), NAMED),
        ("a.txt", WITHOUT_HEADER.encode("utf-16"), NAMED | {"separator": "\\t", "encoding": "utf-16"}),
    ],
)
def test_a_table_is_read_as_its_keys_say(
    name: str, text: str | bytes, keys: dict[str, Any], streaming: bool, tmp_path: Path
) -> None:
    assert rows_of(tmp_path / name, text, streaming, **keys) == [("kinn", "k i n"), ("kala", "k a l")]


@pytest.mark.parametrize(
    ("name", "text", "keys", "expected"),
    [
        ("a.tsv", '"Hi," he said.\tx\nyes\t"y" z\n', {}, [('"Hi," he said.', "x"), ("yes", '"y" z')]),  # Anki, Tatoeba
        ("a.tsv", 'a "stray\tx\nb\ty\n', {}, [('a "stray', "x"), ("b", "y")]),
        ("a.tsv", '"He said ""no""."\tx\n', {}, [('He said "no".', "x")]),  # a spreadsheet
        ("a.tsv", '"a"\tx\n', {"quoting": True}, [("a", "x")]),
        ("a.tsv", '"a"\tx\n', {"quoting": False}, [('"a"', "x")]),
        ("a.csv", '"a,b",x\n"c\nd",y\n', {}, [("a,b", "x"), ("c\nd", "y")]),
        ("a.csv", '"Hi" he,x\n', {"quoting": False}, [('"Hi" he', "x")]),
    ],
)
def test_quotation_marks_stand_around_cells_or_belong_to_the_text(
    name: str, text: str, keys: dict[str, Any], expected: Pairs, tmp_path: Path
) -> None:
    assert rows_of(tmp_path / name, text, **NAMED, **keys) == expected


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize(
    ("name", "text", "keys", "message"),
    [
        ("a.tsv", WITHOUT_HEADER, {}, 'has no header, .*: --set "task.data.columns=[word, pronunciation]"'),
        ("a.tsv", WITHOUT_HEADER.replace("\n", "\t1\n"), {}, "columns=[word, pronunciation, column3]"),
        ("a.tsv", WITHOUT_HEADER.replace("\n", "\t1\n"), NAMED, "has 3 columns (kinn, k i n, 1), but .*names 2"),
        ("a.tsv", f"word\tpronunciation\n{WITHOUT_HEADER}", NAMED, "like a header, and task.data.columns is for"),
        ("a.csv", "word;pronunciation\nkinn;k\n", {}, "\"task.data.separator=';'\""),
        (
            "a.csv",
            "kinn;k i\nkin;k n\n",
            {},
            "a.csv has no ',' in its first line. If columns .*task.data.separator=';'",
        ),
        ("a.csv", "word\tpronunciation\nkinn\tk\n", {}, '"task.data.separator=tab"'),
        ("a.csv", "word,pronunciation,word\nkinn,k,l\n", {}, "has two columns 'word'"),
        ("a.csv", 'word,pronunciation\n"Hi" he,k\n', {}, "line 2: ',' expected after '\"'; .*task.data.quoting=false"),
        ("a.csv", 'word,pronunciation\n"Hi,k\nb,k\n', {}, "line 3: unexpected end of data; .*task.data.quoting=false"),
        ("a.tsv", 'word\tpronunciation\nb\t"k"\n', {}, 'line 2: "k" begins with a quotation mark: .*quoting=true'),
        ("a.csv", "word,pronunciation\nkinn,k\nä,k\n".encode("cp1252"), {}, "line 3: b'\\xe4,k\\n'); .*=latin-1"),
        ("a.csv", "word,pronunciation\nkinn,k\n".encode("utf-16"), {}, "not UTF-8 .*task.data.encoding=utf-16"),
        ("a.csv", "word,pronunciation\nkinn,k\n", {"encoding": "utf-16"}, "a.csv is not UTF-16"),
        ("a.jsonl", '{"word": "a", "pronunciation": "k"}', NAMED, "task.data.columns is for tables of text"),
        ("a.csv", '"word";"pronunciation"\n"kinn";"k"\n', {}, "\"task.data.separator=';'\""),
        ("a.csv", 'word;pronunciation\nkinn;"k"\n"b";k\n', {}, "\"task.data.separator=';'\""),
        (
            "a.csv",
            "word;pronunciation, narrow\nkinn;k\n",
            {},
            "';' divides every row into 2 cells; if it is the separator set it: --set \"task.data.separator=';'\"",
        ),
        ("a.csv", 'word;pronunciation, narrow\nkinn;"k, i"\n', {}, "';' divides every row into 2 cells"),
        (
            "a.csv",
            "word,notes;pronunciation\nkinn, a;k\nkala;l\n",
            {"word_column": "word"},
            "';' divides every row into 2 cells",
        ),
        (
            "a.csv",
            "word, pronunciation\nkinn, k\n",
            {},
            "set task.data.pronunciation_column to one of: word, ' pronunciation'",
        ),
        ("a.tsv", "word pronunciation\nkinn k\n", {}, "first line has 1 of 2 columns (the separator is tab)"),
        ("a.tsv", f"# mine\nword\tpronunciation\n{WITHOUT_HEADER}", {}, "a table has no comments, so delete"),
        ("a.csv", "word,pronunciation\nkinn,k\n# mine\n", {}, "column 'pronunciation' is empty in the row of '# mine'"),
        ("a.csv", b"PK\x03\x04", {}, "is a zip file or a workbook"),
        ("a.tsv", bz2.compress(b"a"), {}, "a.tsv is compressed by bzip2, not text; unpack"),
        ("a.jsonl.xz", lzma.compress(b"a"), {}, "a.jsonl.xz is compressed by xz, not text; unpack"),
        ("a.zst", b"\x28\xb5\x2f\xfd", {"separator": "tab"}, "is compressed by zstd, not text; unpack"),
        ("a.csv", b"PK\x05\x06" + b"\0" * 18, {}, "is a zip file or a workbook, not text"),
        ("a.csv", b"%PDF-1.7\n%\xe2\n", {}, "a.csv is a PDF, not text"),
        ("a.tsv", WITHOUT_HEADER.encode("utf-16-le"), NAMED, "is a binary file, not text; if it is UTF-16 convert it"),
        (
            "a.tsv.gz",
            gzip.compress(gzip.compress(b"a", mtime=0), mtime=0),
            {},
            "a.tsv.gz is compressed by gzip, not text",
        ),
        (
            "a.csv",
            gzip.compress(b"word,pronunciation\na,b\n", mtime=0),
            {},
            "is compressed with gzip; rename it to end in .gz",
        ),
        ("a.json", "[]", {}, "no rows"),
        ("a.jsonl", "\n \n", {}, "a.jsonl is empty"),
        ("a.jsonl.gz", gzip.compress(b"", mtime=0), {}, "a.jsonl.gz is empty"),
        ("a.csv.gz", gzip.compress(b"", mtime=0), {}, "it has no rows"),
    ],
)
def test_a_table_that_would_be_misread_is_refused_with_the_key_to_set(
    name: str, text: str | bytes, keys: dict[str, Any], message: str, streaming: bool, tmp_path: Path
) -> None:
    with pytest.raises(SourceError) as error:
        rows_of(tmp_path / name, text, streaming, **keys)
    for part in message.split(".*"):
        assert part in str(error.value)
    assert "Instruction" not in str(error.value)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"separator": "t"}, "separator must be one character, not a letter"),  # what a shell leaves of \t
        ({"separator": ""}, "separator must be one character"),  # what YAML leaves of |
        ({"columns": []}, "columns must be different names"),
        ({"columns": ["a", "a"]}, "columns must be different names"),
        ({"encoding": "klingon"}, "encoding is 'klingon': unknown encoding"),
        ({"encoding": "base64"}, "encoding is 'base64': .* is not a text encoding"),
    ],
)
def test_keys_of_a_table_that_say_nothing(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        PronunciationData(path="a.csv", **keys)


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "word,pronunciation\nkinn,k\n,k\nkala,l\nkuu\n"),
        (
            "a.jsonl",
            '{"word": "kinn", "pronunciation": "k"}\n{"pronunciation": "k"}\n'
            '{"word": "kala", "pronunciation": "l"}\n{"word": "kuu"}\n',
        ),
    ],
)
def test_bad_rows_are_refused_or_counted(
    name: str, text: str, streaming: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=r"row 2: column 'word' is empty in the row of 'k'; .*skip_bad_rows=true"):
        rows_of(tmp_path / name, text, streaming)
    assert rows_of(tmp_path / name, text, streaming, skip_bad_rows=True) == [("kinn", "k"), ("kala", "l")]
    assert "skipped 2 of 4 rows; the first is row 2: column 'word' is empty" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"skipped 1 of 1 rows; .*; no rows are left"):
        rows_of(tmp_path / "b.csv", "word,pronunciation\nkinn,\n", streaming, skip_bad_rows=True)


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz"])
def test_a_packed_file_without_an_end_is_refused(
    name: str, streaming: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "UNPACKED_LIMIT", 2**20)
    with pytest.raises(ValueError, match=r"unpacks to more than 0\.00.* GiB, the limit .* unpack it yourself"):
        rows_of(tmp_path / name, gzip.compress(b"\0" * 2**21), streaming)
    rows_of(
        tmp_path / name,
        gzip.compress(b'{"word": "a", "pronunciation": "b"}' if "json" in name else b"word,pronunciation\na,b\n"),
        streaming,
    )


@pytest.mark.parametrize("name", ["a\nb.csv", "<script>.csv", "a\tb.csv"])
def test_signs_in_a_name_and_in_cells_are_no_more_than_signs(name: str, tmp_path: Path) -> None:
    cells = ["<script>", "a\nb", "a\tb", "\0", "x" * 200_000]
    text = "word,pronunciation\n" + "".join(f'"{cell}",k\n' for cell in cells)
    assert rows_of(tmp_path / name, text) == [(cell, "k") for cell in cells]
