"""The files of SentencePiece (``.spm``), without its library and without protobuf's.

A reader and a writer of those fields of ``sentencepiece_model.proto`` that matter to encoding or decoding. Nothing in a
file is trusted.
"""

import hashlib
import itertools
import math
import operator
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..messages import shown

LARGEST_FILE = 2**23  # bytes; published ones have 1,000,000
MOST_PIECES = 2**16  # published ones have 32,000
MOST_TEXT = 2**20  # bytes of all pieces
# The nodes in the trie of all pieces; ``tokenizers`` uses about 350 bytes for each. 32,000 pieces of Latin letters have
# about 100,000 nodes, pieces of other scripts up to twice as many.
MOST_NODES = 2**18
LONGEST_PIECE = 256  # bytes
SPACE = "▁"  # stands for a space in pieces


class Kind(IntEnum):
    """What a piece is for."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


class Piece(NamedTuple):
    """A piece; its id is its place in the vocabulary."""

    text: str
    score: float
    kind: Kind


@dataclass(frozen=True)
class SentencePieceFile:
    """A unigram vocabulary, and how a text is normalised before it is taken apart.

    Attributes:
        pieces: in the order of their ids
        charsmap: the normaliser's table, compiled; empty for none
        normalizer: the table's name
        add_dummy_prefix: a text gets a space at its start
        remove_extra_whitespaces: a text loses the spaces at its ends, and all but one of a run of spaces
        byte_fallback: a character without a piece becomes the pieces of its bytes
        eos: the piece at the end of a text
    """

    pieces: list[Piece]
    charsmap: bytes = b""
    normalizer: str = "identity"
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    byte_fallback: bool = False
    eos: str = "</s>"


# Protobuf's wire format: a key (number of the field, wire type) and a value, again and again --------------------------

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def varint(data: memoryview, at: int, what: str) -> tuple[int, int]:
    """A number of one to ten bytes, and the offset behind it."""
    value = 0
    for i in range(10):
        if at + i >= len(data):
            raise ValueError(f"{what} ends inside a number")
        value |= (data[at + i] & 127) << (7 * i)
        if data[at + i] < 128:
            return value & (2**64 - 1), at + i + 1
    raise ValueError(f"{what} has a number of more than ten bytes")


def fields(data: memoryview, what: str) -> Iterator[tuple[int, int, Any]]:
    """The number, wire type and value of each field of a message: an int for VARINT, otherwise the bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at, what)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise ValueError(f"{what} has a field with the number 0")
        if wire == VARINT:
            value, at = varint(data, at, what)
            yield number, wire, value
            continue
        if wire == BYTES:
            length, at = varint(data, at, what)
        elif wire in (FIXED32, FIXED64):
            length = 4 if wire == FIXED32 else 8
        else:
            raise ValueError(f"{what} has the wire type {wire}, which protobuf no longer writes")
        if length > len(data) - at:
            raise ValueError(f"{what} ends inside its field {number}, which has {length:,} bytes")
        yield number, wire, data[at : at + length]
        at += length


def message(data: memoryview, what: str, known: dict[int, tuple[str, type]]) -> dict[str, Any]:
    """The fields of a message that are known, by name; of a repeated one the last, as protobuf has it."""
    found: dict[str, Any] = {}
    for number, wire, value in fields(data, what):
        if number not in known:
            continue
        name, kind = known[number]
        if wire != (FIXED32 if kind is float else BYTES if kind in (str, bytes) else VARINT):
            raise ValueError(f"{name} of {what} has the wire type {wire}, which does not fit")
        if kind is float:
            found[name] = struct.unpack("<f", value)[0]
        elif kind is str:
            found[name] = text_of(value, f"{name} of {what}")
        else:
            found[name] = kind(value)
    return found


def text_of(data: memoryview, what: str) -> str:
    """A text in UTF-8."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{what} is not UTF-8: {error}") from error


PIECE: dict[int, tuple[str, type]] = {1: ("text", str), 2: ("score", float), 3: ("kind", int)}
TRAINER: dict[int, tuple[str, type]] = {
    3: ("model_type", int),
    24: ("treat_whitespace_as_suffix", bool),
    35: ("byte_fallback", bool),
    44: ("unk_surface", str),
    47: ("eos_piece", str),
}
NORMALIZER: dict[int, tuple[str, type]] = {
    1: ("name", str),
    2: ("precompiled_charsmap", bytes),
    3: ("add_dummy_prefix", bool),
    4: ("remove_extra_whitespaces", bool),
    5: ("escape_whitespaces", bool),
}
PIECES_FIELD, TRAINER_FIELD, NORMALIZER_FIELD, DENORMALIZER_FIELD = 1, 2, 3, 5
UNIGRAM = 1
MODEL_TYPES = {2: "BPE", 3: "WORD", 4: "CHAR"}
UNKNOWN_SURFACE = " ⁇ "  # what an unknown piece is in a decoded text


def read_sentencepiece(path: str | Path, sha256: str | None = None) -> SentencePieceFile:
    """Read a vocabulary.

    Args:
        path: of the file
        sha256: the checksum that the file must have, in hexadecimal; None for any

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is damaged, has another checksum, another kind of model or an option that is not
            supported; the message names the file and the reason.
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: it is not a plain file")
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    try:
        whole = len(content) <= LARGEST_FILE  # else parse() refuses it
        if whole and sha256 is not None and (found := hashlib.sha256(content).hexdigest()) != sha256.lower():
            raise ValueError(f"its sha256 is {found}, expected {shown(sha256)}")
        return parse(memoryview(content))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def parse(content: memoryview) -> SentencePieceFile:
    """The vocabulary in the bytes of a file."""
    if len(content) > LARGEST_FILE:
        raise ValueError(f"it has more than {LARGEST_FILE:,} bytes, which no vocabulary has")
    pieces: list[Piece] = []
    parts: dict[int, dict[str, Any]] = {TRAINER_FIELD: {}, NORMALIZER_FIELD: {}, DENORMALIZER_FIELD: {}}
    known = {TRAINER_FIELD: TRAINER, NORMALIZER_FIELD: NORMALIZER, DENORMALIZER_FIELD: NORMALIZER}
    names = {
        TRAINER_FIELD: "trainer_spec",
        NORMALIZER_FIELD: "normalizer_spec",
        DENORMALIZER_FIELD: "denormalizer_spec",
    }
    size = 0
    for number, wire, value in fields(content, "the file"):
        if number in (PIECES_FIELD, *parts) and wire != BYTES:
            raise ValueError(f"the field {number} has the wire type {wire}; is it a file of SentencePiece?")
        if number in parts:
            parts[number] |= message(value, names[number], known[number])
        elif number == PIECES_FIELD:
            size += len(value)
            if len(pieces) == MOST_PIECES or size > MOST_TEXT + 16 * len(pieces):
                raise ValueError(f"it has more than {MOST_PIECES:,} pieces, or {MOST_TEXT:,} bytes of pieces")
            pieces.append(read_piece(value, f"piece {len(pieces)}"))
    trainer, normalizer, denormalizer = parts.values()
    refuse_options(trainer, normalizer, denormalizer)
    return checked(
        SentencePieceFile(
            pieces,
            normalizer.get("precompiled_charsmap", b""),
            normalizer.get("name", ""),
            normalizer.get("add_dummy_prefix", True),
            normalizer.get("remove_extra_whitespaces", True),
            trainer.get("byte_fallback", False),
            trainer.get("eos_piece", "</s>"),
        )
    )


def read_piece(data: memoryview, what: str) -> Piece:
    """A piece; a ValueError if no vocabulary can have it."""
    found = message(data, what, PIECE)
    text, score, kind = found.get("text", ""), found.get("score", 0.0), found.get("kind", Kind.NORMAL)
    if not 1 <= len(text.encode()) <= LONGEST_PIECE:
        raise ValueError(f"{what} is {shown(text)}; pieces have 1 to {LONGEST_PIECE} bytes")
    if not math.isfinite(score):
        raise ValueError(f"{what}, {shown(text)}, has the score {score}")
    if kind not in {*Kind} - {Kind.UNUSED}:
        raise ValueError(f"{what}, {shown(text)}, is of the kind {kind}, which is not supported")
    return Piece(text, score, Kind(kind))


def refuse_options(trainer: dict[str, Any], normalizer: dict[str, Any], denormalizer: dict[str, Any]) -> None:
    """Raise a ValueError for an option that changes encoding or decoding and is not supported."""
    model_type = trainer.get("model_type", UNIGRAM)
    if model_type != UNIGRAM:
        kind = MODEL_TYPES.get(model_type, "unknown")
        raise ValueError(f"model_type is {model_type} ({kind}); only {UNIGRAM} (unigram) is supported")
    if trainer.get("treat_whitespace_as_suffix", False):
        raise ValueError("treat_whitespace_as_suffix is true; only false is supported")
    if trainer.get("unk_surface", UNKNOWN_SURFACE) != UNKNOWN_SURFACE:
        raise ValueError(f"unk_surface is {shown(trainer['unk_surface'])}; only {UNKNOWN_SURFACE!r} is supported")
    if not normalizer.get("escape_whitespaces", True):
        raise ValueError("escape_whitespaces is false; only true is supported")
    if denormalizer.get("precompiled_charsmap"):
        raise ValueError("denormalizer_spec has a table; a denormaliser is not supported")


def checked(file: SentencePieceFile) -> SentencePieceFile:
    """Check that the pieces of a vocabulary belong together, and return it.

    Raises:
        ValueError: two pieces are equal, a piece that is needed is missing, the trie is too large, the pieces of bytes
            contradict ``byte_fallback``, or the normaliser's table is damaged.
    """
    kinds = {text: kind for text, _, kind in file.pieces}
    if len(kinds) < len(file.pieces):
        ((text, _),) = Counter(piece.text for piece in file.pieces).most_common(1)
        raise ValueError(f"two pieces are {shown(text)}")
    unknown = [text for text, kind in kinds.items() if kind == Kind.UNKNOWN]
    if len(unknown) != 1:
        raise ValueError(f"it has {len(unknown)} pieces of the kind UNKNOWN; it must have one")
    if kinds.get(file.eos) != Kind.CONTROL:
        raise ValueError(f"it has no control piece {shown(file.eos)} for the end of a text")
    if Kind.NORMAL not in kinds.values():
        raise ValueError("it has no piece of the kind NORMAL")
    if (nodes := trie_nodes(kinds)) > MOST_NODES:
        raise ValueError(f"the trie of its pieces has {nodes:,} nodes; vocabularies have at most {MOST_NODES:,}")
    in_bytes = {text for text, kind in kinds.items() if kind == Kind.BYTE}
    if in_bytes != ({f"<0x{byte:02X}>" for byte in range(256)} if file.byte_fallback else set()):
        raise ValueError(f"byte_fallback is {file.byte_fallback}, and it has {len(in_bytes)} pieces of the kind BYTE")
    check_charsmap(file.charsmap)
    return file


def trie_nodes(texts: Iterable[str]) -> int:
    """The number of different prefixes of texts, as bytes, without the empty one."""
    sorted_texts = sorted(text.encode() for text in texts)
    pairs = itertools.pairwise([b"", *sorted_texts])
    shared = (itertools.takewhile(lambda same: same, map(operator.eq, *pair)) for pair in pairs)
    return sum(map(len, sorted_texts)) - sum(map(sum, shared))


def check_charsmap(charsmap: bytes) -> None:
    """Raise a ValueError for a table whose offsets lead out of it; the tokenizer follows them unchecked.

    The table has the length of a trie, the trie as a double array of Darts, and the normalised texts, each with a zero
    byte behind it. A unit of the trie is a value if its highest bit is set, or else has the offset of its children.
    """
    if not charsmap:
        return
    length = int.from_bytes(charsmap[:4], "little")
    if len(charsmap) < 4 or length % 1024 or not 0 < length <= len(charsmap) - 4:
        raise ValueError("precompiled_charsmap is damaged: its trie is not in it")
    texts = charsmap[4 + length :]
    text_of(memoryview(texts), "precompiled_charsmap")
    units = np.frombuffer(charsmap, "<u4", length // 4, 4)
    if units[0] >> 31:
        raise ValueError("precompiled_charsmap is damaged: the root of its trie is a value")
    nodes = np.flatnonzero(units >> 31 == 0)
    parents = units[nodes]
    children = nodes ^ ((parents >> 10) << ((parents & 512) >> 6))
    if children.max(initial=0) >= len(units):
        raise ValueError("precompiled_charsmap is damaged: an offset leads out of its trie")
    starts = units[children[parents & 256 != 0]] & (2**31 - 1)
    ends = np.frombuffer(b"\0" + texts, np.uint8)
    if starts.max(initial=0) >= len(ends) or ends[starts].any() or texts[-1:] != b"\0":
        raise ValueError("precompiled_charsmap is damaged: a value is not the start of a text")


# Writing --------------------------------------------------------------------------------------------------------------


def write_sentencepiece(path: str | Path, file: SentencePieceFile) -> None:
    """Write a vocabulary that SentencePiece, Marian and Firefox read.

    Raises:
        ValueError: a piece is invalid, or pieces do not belong together; nothing is written.
    """
    parse(memoryview(content := to_bytes(file)))
    Path(path).write_bytes(content)


def to_bytes(file: SentencePieceFile) -> bytes:
    """A vocabulary in protobuf's wire format."""
    ids = {piece.text: i for i, piece in enumerate(file.pieces)}
    unknown = next((piece.text for piece in file.pieces if piece.kind == Kind.UNKNOWN), "<unk>")
    control = {piece.text for piece in file.pieces if piece.kind == Kind.CONTROL}
    trainer = number_field(3, UNIGRAM) + number_field(4, len(file.pieces)) + number_field(35, file.byte_fallback)
    places = ((40, 45, unknown), (41, 46, "<s>"), (42, 47, file.eos), (43, 48, "<pad>"))
    for id_field, text_field, text in places:
        present = text in control or text == unknown
        trainer += number_field(id_field, ids[text] if present and text in ids else 2**64 - 1)  # -1: it has none
        trainer += bytes_field(text_field, text.encode())
    normalizer = bytes_field(1, file.normalizer.encode()) + bytes_field(2, file.charsmap)
    normalizer += number_field(3, file.add_dummy_prefix) + number_field(4, file.remove_extra_whitespaces)
    normalizer += number_field(5, True)
    content = b"".join(
        bytes_field(
            PIECES_FIELD,
            bytes_field(1, text.encode()) + key(2, FIXED32) + struct.pack("<f", score) + number_field(3, kind),
        )
        for text, score, kind in file.pieces
    )
    return content + bytes_field(TRAINER_FIELD, trainer) + bytes_field(NORMALIZER_FIELD, normalizer)


def to_varint(value: int) -> bytes:
    """A number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value >= 128:
        groups.append(value & 127 | 128)
        value >>= 7
    return bytes([*groups, value])


def key(number: int, wire: int) -> bytes:
    """The key of a field: its number, and how its value is written."""
    return to_varint(number << 3 | wire)


def number_field(number: int, value: int) -> bytes:
    """A field with a number."""
    return key(number, VARINT) + to_varint(int(value))


def bytes_field(number: int, value: bytes) -> bytes:
    """A field with bytes, a text or a message."""
    return key(number, BYTES) + to_varint(len(value)) + value
