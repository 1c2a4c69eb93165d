"""Vocabularies of SentencePiece: the ids and texts are those of its library, in both directions."""

import hashlib
import random
import struct
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from tokenizers import normalizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from attnzoo.firefox.sentencepiece_file import (
    Kind,
    Piece,
    SentencePieceFile,
    bytes_field,
    number_field,
    parse,
    read_sentencepiece,
    to_bytes,
    write_sentencepiece,
)
from attnzoo.firefox.sentencepiece_tokenizer import (
    from_tokenizer,
    learn_vocabulary,
    score_of_user_defined,
    to_tokenizer,
    with_exact_sums,
)
from attnzoo.firefox.students import student_tokenizer
from tests.firefox.vocabularies import VOCABULARIES, lines, texts, vocabulary

SMALL = SentencePieceFile(
    [
        Piece("</s>", 0.0, Kind.CONTROL),
        Piece("<unk>", 0.0, Kind.UNKNOWN),
        *(Piece(c, -2.0, Kind.NORMAL) for c in "▁abs/<>"),
    ]
)


def read(
    name: str, content: bytes | None = None
) -> tuple[sentencepiece.SentencePieceProcessor, PreTrainedTokenizerFast]:
    """SentencePiece's and our reading of a vocabulary, or of other content of its file."""
    content = content or vocabulary(name)
    return sentencepiece.SentencePieceProcessor(model_proto=content), to_tokenizer(parse(memoryview(content)))


def different(inputs: list[Any], found: list[Any], expected: list[Any]) -> list[tuple[str, Any, Any]]:
    """The inputs whose outputs differ, with both outputs."""
    return [(ascii(row), *pair) for row, *pair in zip(inputs, found, expected, strict=True) if pair[0] != pair[1]]


@pytest.mark.parametrize("name", VOCABULARIES)
def test_ids_and_texts_are_those_of_sentencepiece(name: str) -> None:
    """Of vocabularies whose sums of scores are exact; for others see the next test."""
    expected, tokenizer = read(name, to_bytes(with_exact_sums(parse(memoryview(vocabulary(name))))))
    assert tokenizer.eos_token_id == 0
    assert tokenizer.unk_token_id == expected.unk_id() == 1
    assert tokenizer.convert_ids_to_tokens(range(len(tokenizer))) == expected.id_to_piece([*range(len(expected))])
    some = texts(2000)
    ids, found = expected.encode(some), tokenizer(some)["input_ids"]
    assert different(some, [row[:-1] for row in found], ids) == []
    assert {row[-1] for row in found} == {0}
    assert different(some, tokenizer.batch_decode(ids), expected.decode(ids)) == []


def best_pieces(text: str, file: SentencePieceFile, dtype: Any) -> list[str]:
    """The pieces of a normalised text with the largest sum of scores, which are added in a type of NumPy.

    Among equal sums the first that is found counts: by the start of the last piece, then by its length.
    """
    scores = {piece.text: piece.score for piece in file.pieces if piece.kind == Kind.NORMAL}
    unknown = dtype(min(scores.values())) - dtype(10)
    scores |= {text: score_of_user_defined(text) for text, _, kind in file.pieces if kind == Kind.USER_DEFINED}
    longest = max(map(len, scores))
    best: list[tuple[Any, int] | None] = [
        (dtype(0), 0),
        *[None] * len(text),
    ]  # by the end of a piece: the sum, its start
    for start in range(len(text)):
        total = best[start][0]  # type: ignore[index]  # every letter is a piece or unknown
        ends = [end for end in range(start + 1, min(len(text), start + longest) + 1) if text[start:end] in scores]
        sums = [(end, total + dtype(scores[text[start:end]])) for end in ends]
        if start + 1 not in ends:
            sums.append((start + 1, total + unknown))
        for end, value in sums:
            if (other := best[end]) is None or value > other[0]:
                best[end] = value, start
    pieces, end = [], len(text)
    while end:
        start = best[end][1]  # type: ignore[index]
        pieces.append(text[start:end])
        end = start
    return pieces[::-1]


def same_pieces(pieces: list[str], expected: sentencepiece.SentencePieceProcessor, ids: list[int]) -> bool:
    """Whether ids are those of pieces, among which are unknown letters: bytes, or unknown ones that are fused."""
    found: list[int] = []
    for piece in pieces:
        number = expected.piece_to_id(piece)
        if number != expected.unk_id() and not expected.is_byte(number) and not expected.is_control(number):
            found.append(number)
        elif expected.is_byte(expected.piece_to_id("<0x00>")):
            found += [expected.piece_to_id(f"<0x{byte:02X}>") for byte in piece.encode()]
        elif not found or found[-1] != expected.unk_id():
            found.append(expected.unk_id())
    return found == ids


@pytest.mark.parametrize("name", VOCABULARIES)
def test_other_ids_are_due_to_sums_in_float32_alone(name: str) -> None:
    """Where ids differ from SentencePiece's, they are those of the same algorithm with sums in float64."""
    file = parse(memoryview(vocabulary(name)))
    expected, tokenizer = read(name)

    some = texts(2000)
    ids, found = expected.encode(some), [row[:-1] for row in tokenizer(some)["input_ids"]]
    differing = [row for row in zip(some, ids, found, strict=True) if row[1] != row[2]]
    for text, one, two in [*differing, *zip(some[:100], ids, found, strict=False)]:
        normalised = expected.Normalize(text)
        assert same_pieces(best_pieces(normalised, file, np.float32), expected, one)
        assert same_pieces(best_pieces(normalised, file, np.float64), expected, two)
        assert expected.decode(one) == expected.decode(two)
    assert len(differing) < 20


def test_a_user_defined_piece_does_not_lose_to_a_longer_one_of_a_low_score() -> None:
    """Its score is 0.1 for each byte after the first, whatever the others are."""
    normal = [Piece(text, -5.0, Kind.NORMAL) for text in ("a", "b", "c", "xa", "abc", "▁")]
    reserved = [Piece("</s>", 0.0, Kind.CONTROL), Piece("<unk>", 0.0, Kind.UNKNOWN)]
    user_defined = [Piece(text, 0.0, Kind.USER_DEFINED) for text in ("ab", "é")]
    file = SentencePieceFile([*reserved, *normal, *user_defined], b"", "identity", False, False, False, "</s>")
    expected, tokenizer = sentencepiece.SentencePieceProcessor(model_proto=to_bytes(file)), to_tokenizer(file)
    for text in ("abc", "ab", "xab", "éa", "xabcé"):
        assert tokenizer.tokenize(text) == expected.encode(text, out_type=str)
    assert tokenizer.tokenize("abc") == ["ab", "c"]
    assert {kind for text, _, kind in from_tokenizer(tokenizer).pieces if text in ("ab", "é")} == {Kind.USER_DEFINED}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_ids_of_a_model_become_the_same_text(name: str) -> None:
    """Ids that no text has: unknown pieces, doubled spaces. Not bytes, which may be no text."""
    expected, tokenizer = read(name)
    draw = random.Random(0)
    ids = [i for i in range(1, len(expected)) if not expected.is_byte(i)]
    rows = [draw.choices(ids, k=draw.randint(0, 12)) for _ in range(300)]
    assert different(rows, tokenizer.batch_decode(rows), expected.decode(rows)) == []


def test_every_letter_is_normalised_alike() -> None:
    expected, tokenizer = read("nmt_nfkc")
    letters = [chr(code) for code in range(1, 0x30000, 7) if unicodedata.category(chr(code)) not in ("Cs", "Cn")]
    some = [text for letter in letters for text in (f"a{letter}b", f"{letter} {letter}")]
    assert different(some, [row[:-1] for row in tokenizer(some)["input_ids"]], expected.encode(some)) == []


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_saved_tokenizer_is_the_same(name: str, tmp_path: Path) -> None:
    _, tokenizer = read(name)
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for text in ["</s> <unk> <0x41>", *texts(60, seed=1)]:
        assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
        assert loaded.decode(loaded(text)["input_ids"][:-1]) == tokenizer.decode(tokenizer(text)["input_ids"][:-1])


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_tokenizer_becomes_its_vocabulary_again(name: str, tmp_path: Path) -> None:
    file = parse(memoryview(vocabulary(name)))
    tokenizer = student_tokenizer(file)
    tokenizer.save_pretrained(tmp_path)
    found = from_tokenizer(AutoTokenizer.from_pretrained(tmp_path))
    assert [(piece.text, piece.kind) for piece in found.pieces] == [(piece.text, piece.kind) for piece in file.pieces]
    expected = sentencepiece.SentencePieceProcessor(model_proto=to_bytes(file))
    written = sentencepiece.SentencePieceProcessor(model_proto=to_bytes(found))
    some = texts(300, seed=4)
    assert different(some, written.encode(some), expected.encode(some)) == []
    assert different(some, written.decode(written.encode(some)), expected.decode(expected.encode(some))) == []
    tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    with pytest.raises(ValueError, match="normalizer is not that of a vocabulary"):
        from_tokenizer(tokenizer)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_sentencepiece_reads_what_is_written(name: str, tmp_path: Path) -> None:
    content = vocabulary(name)
    file = parse(memoryview(content))
    write_sentencepiece(tmp_path / "v.spm", file)
    assert read_sentencepiece(tmp_path / "v.spm") == file
    expected = sentencepiece.SentencePieceProcessor(model_proto=content)
    written = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "v.spm"))
    assert [written.eos_id(), written.unk_id(), written.bos_id(), written.pad_id()] == [0, 1, -1, -1]
    for text in texts(300, seed=2):
        assert written.encode(text) == expected.encode(text)
        assert written.decode(written.encode(text)) == expected.decode(expected.encode(text))


def test_a_learned_vocabulary_is_one_of_sentencepiece(tmp_path: Path) -> None:
    file = learn_vocabulary([*lines(), "fünf Bäume"], 900)
    assert len(file.pieces) <= 900
    assert {"▁the", "ü", "7", "▁model"} <= {piece.text for piece in file.pieces}
    write_sentencepiece(tmp_path / "v.spm", file)
    expected = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "v.spm"))
    tokenizer = to_tokenizer(read_sentencepiece(tmp_path / "v.spm"))
    some = texts(500, seed=3)
    assert different(some, [row[:-1] for row in tokenizer(some)["input_ids"]], expected.encode(some)) == []
    for size in (258, 300):
        with pytest.raises(ValueError, match="pieces"):
            learn_vocabulary(lines(), size)


def test_control_pieces_are_not_matched_in_texts() -> None:
    tokenizer = to_tokenizer(SMALL)
    assert tokenizer("a</s>b")["input_ids"] == [2, 3, 7, 6, 5, 8, 4, 0]
    with pytest.raises(ValueError, match="could spell '</s>'"):
        to_tokenizer(replace(SMALL, pieces=[*SMALL.pieces, *(Piece(c, -1.0, Kind.NORMAL) for c in ("</", "/s", "s>"))]))


def test_an_unknown_letter_costs_what_it_does_in_sentencepiece() -> None:
    """z has no piece of its own: "abc" and an unknown letter cost less than three rare pieces."""
    pieces = [*SMALL.pieces, Piece("c", -12.0, Kind.NORMAL), Piece("cz", -12.0, Kind.NORMAL)]
    pieces = [piece._replace(score=-12.0) if piece.text in "ab" else piece for piece in pieces]
    file = replace(SMALL, pieces=[*pieces, Piece("abc", -1.0, Kind.NORMAL)])
    expected = sentencepiece.SentencePieceProcessor(model_proto=to_bytes(file)).encode("abcz")
    assert expected[-1] == 1
    assert to_tokenizer(file)("abcz")["input_ids"] == [*expected, 0]


TRAINER, NORMALIZER, DENORMALIZER = 2, 3, 5
REFUSED = {
    "BPE": (TRAINER, number_field(3, 2)),
    "CHAR": (TRAINER, number_field(3, 4)),
    "unknown": (TRAINER, number_field(3, 9)),
    "treat_whitespace_as_suffix": (TRAINER, number_field(24, 1)),
    "byte_fallback": (TRAINER, number_field(35, 1)),
    "unk_surface": (TRAINER, bytes_field(44, b"?")),
    "no control piece '<end>'": (TRAINER, bytes_field(47, b"<end>")),
    "escape_whitespaces": (NORMALIZER, number_field(5, 0)),
    "precompiled_charsmap": (NORMALIZER, bytes_field(2, b"\0" * 40)),
    "a denormaliser": (DENORMALIZER, bytes_field(2, b"x")),
    "wire type": (TRAINER, bytes_field(3, b"x")),
    "ends inside": (TRAINER, b"\x18"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_options_that_change_ids_are_refused(reason: str) -> None:
    number, value = REFUSED[reason]
    content = to_bytes(SMALL) + bytes_field(number, value)
    with pytest.raises(ValueError, match=reason):
        parse(memoryview(content))


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ([Piece("a", -2.0, Kind.NORMAL)], "two pieces are 'a'"),
        ([Piece("", -2.0, Kind.NORMAL)], "pieces have 1 to"),
        ([Piece("x" * 300, -2.0, Kind.NORMAL)], "pieces have 1 to"),
        ([Piece("x", float("nan"), Kind.NORMAL)], "score"),
        ([Piece("x", -2.0, Kind.UNUSED)], "kind 5"),
        ([Piece("x", -2.0, Kind.UNKNOWN)], "2 pieces of the kind UNKNOWN"),
        ([Piece("<0x00>", 0.0, Kind.BYTE)], "1 pieces of the kind BYTE"),
    ],
)
def test_pieces_that_cannot_be_are_refused(pieces: list[Piece], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=reason):
        write_sentencepiece(tmp_path / "v.spm", replace(SMALL, pieces=SMALL.pieces + pieces))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("unit", "reason"),
    [(4096 << 10, "leads out of its trie"), (256, "not the start of a text"), (2**31, "the root"), (1 << 10, None)],
)
def test_offsets_in_a_table_stay_in_it(unit: int, reason: str | None) -> None:
    """The first unit of the trie has the offset of its children, the highest bit of a value, or a bit for a value."""
    file = replace(SMALL, charsmap=struct.pack("<257I", 1024, unit, *[0] * 255) + b"a\0")
    if reason is None:
        assert parse(memoryview(to_bytes(file))).charsmap == file.charsmap
        return
    with pytest.raises(ValueError, match=reason):
        parse(memoryview(to_bytes(file)))


def test_the_checksum_is_compared(tmp_path: Path) -> None:
    write_sentencepiece(tmp_path / "v.spm", SMALL)
    assert read_sentencepiece(tmp_path / "v.spm", hashlib.sha256(to_bytes(SMALL)).hexdigest()) == SMALL
    with pytest.raises(ValueError, match=r"v\.spm: its sha256 is"):
        read_sentencepiece(tmp_path / "v.spm", "0" * 64)


def test_pieces_and_tables_that_normalising_changes_are_refused() -> None:
    file = parse(memoryview(vocabulary("nmt_nfkc")))
    with pytest.raises(ValueError, match="'ﬁ' is changed"):
        to_tokenizer(replace(file, pieces=[*file.pieces, Piece("ﬁ", 0.0, Kind.USER_DEFINED)]))
    with pytest.raises(ValueError, match="'nfkd'"):
        to_tokenizer(replace(file, normalizer="nfkd"))
