"""Marian's files, read and written: ``.bin``, in float32 or in eight bits, and ``.npz``, in float32.

Nothing in a file is trusted. Names, types, shapes, lengths and offsets are checked against the size of the file before
anything is read, and a tensor is a view into the file, which is mapped into memory.
"""

import hashlib
import math
import mmap
import os
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from ..messages import shown
from .int8 import Int8Matrix, quantised
from .marian_model import ALPHA, OPTIONS, SHARED_OUTPUT, Item, MarianModel, checked, from_file

MOST_ITEMS = 4096  # 253 is the most of a published model
LONGEST_NAME = 256  # bytes
LONGEST_OPTIONS = 2**16  # bytes; a published model has 1,500
NAME = re.compile(rb"[A-Za-z0-9_:.-]+")
BLOCK = 256  # bytes; the data of an item is padded to a multiple of this
INT8, FLOAT32, INTGEMM8 = 0x0101, 0x0404, 0x4101
OTHER_TYPES = {0x0102: "int16", 0x0104: "int32", 0x0108: "int64", 0x0402: "float16", 0x0408: "float64"}
OTHER_TYPES |= {0x0201: "uint8", 0x0202: "uint16", 0x0204: "uint32", 0x0208: "uint64", 0x4102: "intgemm16"}


def read_marian(path: str | Path, sha256: str | None = None) -> MarianModel:
    """Read a model from a ``.bin`` or an ``.npz`` file.

    Args:
        path: of the file
        sha256: the checksum that the file must have, in hexadecimal; None for any

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is damaged, is of another kind or has another checksum; the message names the file, the
            item and the reason.
    """
    path = Path(path)
    try:
        if not path.is_file():
            if path.exists():
                raise ValueError("it is not a plain file")
            raise FileNotFoundError(f"there is no file {path}")
        if path.stat().st_size < 24:
            raise ValueError(f"{path.stat().st_size} bytes are too few for a model")
        if os.name == "nt":  # which cannot replace or remove a file that is mapped
            content = memoryview(path.read_bytes())
        else:
            with path.open("rb") as file:
                content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        if sha256 is not None and (found := hashlib.sha256(content).hexdigest()) != sha256.lower():
            raise ValueError(f"its sha256 is {found}, expected {shown(sha256)}")
        return read_npz(content) if bytes(content[:4]) == b"PK\3\4" else read_bin(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


# Reading of .bin ------------------------------------------------------------------------------------------------------


def read_bin(content: memoryview) -> MarianModel:
    """The model of the bytes of a ``.bin`` file: a header, names, shapes, a gap, data."""
    version, count = numbers(content, "<2Q", 0, "the header")
    if version == 2:
        raise ValueError("version 2 is encrypted and cannot be read")
    if version != 1:
        raise ValueError(f"version {version} is unknown; a .bin file of Marian starts with the version 1")
    if count > MOST_ITEMS:
        raise ValueError(f"it claims {count:,} items; at most {MOST_ITEMS:,} are read")
    headers = [numbers(content, "<4Q", 16 + 32 * i, f"the header of item {i}") for i in range(count)]
    at = 16 + 32 * count
    names = []
    for i, (length, *_) in enumerate(headers):
        names.append(item_name(content, at, length, i))
        at += length
    if len({*names}) < count:
        ((repeated, _),) = Counter(names).most_common(1)
        raise ValueError(f"two items have the name {shown(repeated)}")
    shapes = []
    for name, (_, kind, rank, _) in zip(names, headers, strict=True):
        if rank != (1 if kind == INT8 else 2):
            raise ValueError(f"{shown(name)} has {rank} dimensions; a tensor has 2, and {OPTIONS} has 1")
        shapes.append(numbers(content, f"<{rank}i", at, f"the shape of {shown(name)}"))
        at += 4 * rank
    (gap,) = numbers(content, "<Q", at, "the length of the gap before the data")
    at += 8 + gap
    items: dict[str, Item] = {}
    options = None
    for name, shape, (_, kind, _, length) in zip(names, shapes, headers, strict=True):
        if at + length > len(content):
            raise ValueError(f"the file ends in the data of {shown(name)}, which has {length:,} bytes from byte {at:,}")
        if name == OPTIONS:
            options = read_options(kind, shape, content[at : at + length])
        else:
            items[name] = read_item(name, kind, shape, content[at : at + length])
        at += length
    if at != len(content):
        raise ValueError(f"{len(content) - at:,} bytes follow the last item")
    return from_file(items, options)


def numbers(content: memoryview, form: str, at: int, what: str) -> tuple[int, ...]:
    """Numbers at an offset in the file."""
    if at + struct.calcsize(form) > len(content):
        raise ValueError(f"the file ends in {what}")
    return struct.unpack_from(form, content, at)


def item_name(content: memoryview, at: int, length: int, i: int) -> str:
    """The name of an item, which ends with a zero byte."""
    if not 2 <= length <= LONGEST_NAME + 1:
        raise ValueError(f"the name of item {i} has {length:,} bytes; names have 1 to {LONGEST_NAME}, and a zero byte")
    if at + length > len(content):
        raise ValueError(f"the file ends in the name of item {i}")
    name = bytes(content[at : at + length])
    if name[-1] or not NAME.fullmatch(name[:-1]):
        raise ValueError(f"the name of item {i} is {shown(repr(name))}; names have ASCII letters, digits and _ : . -")
    return name[:-1].decode("ascii")


def read_options(kind: int, shape: tuple[int, ...], data: memoryview) -> bytes:
    """The options as bytes."""
    if kind != INT8:
        raise ValueError(f"{OPTIONS} is of the type {kind:#06x}, not int8")
    if not 1 <= shape[0] <= LONGEST_OPTIONS:
        raise ValueError(f"{OPTIONS} has {shape[0]:,} bytes; 1 to {LONGEST_OPTIONS:,} are read")
    check_length(OPTIONS, shape, shape[0], len(data))
    return bytes(data[: shape[0]])


def read_item(name: str, kind: int, shape: tuple[int, ...], data: memoryview) -> Item:
    """A tensor as a view of its data."""
    if kind not in (FLOAT32, INTGEMM8):
        known = "int8" if kind == INT8 else OTHER_TYPES.get(kind, "unknown")
        raise ValueError(f"{shown(name)} is of the type {kind:#06x} ({known}); tensors are float32 or intgemm8")
    if min(shape) < 1:
        raise ValueError(f"{shown(name)} has the shape {shape}; sizes are 1 or more")
    count = math.prod(shape)
    check_length(name, shape, 4 * count if kind == FLOAT32 else count + 4, len(data))
    if kind == FLOAT32:
        return np.frombuffer(data, "<f4", count).reshape(shape)
    codes = np.frombuffer(data, np.int8, count)
    (multiplier,) = struct.unpack_from("<f", data, count)
    # The codes of a matrix are stored as its transpose, under the shape of the matrix itself.
    return Int8Matrix(codes.reshape(shape) if "Wemb" in name else codes.reshape(shape[::-1]).T, multiplier)


def check_length(name: str, shape: tuple[int, ...], needed: int, length: int) -> None:
    """Raise a ValueError for an item that has not the bytes of its shape."""
    if not needed <= length < needed + BLOCK:
        raise ValueError(f"{shown(name)} has {length:,} bytes of data; its shape {shape} needs {needed:,} and padding")


# Reading of .npz ------------------------------------------------------------------------------------------------------
# NumPy's own reader takes what memory a header asks for. Here members are views of the file, as NumPy and Marian write
# it: a zip file without compression and comments.

END = struct.Struct("<4s4H2LH")  # of the zip's directory
MEMBER = struct.Struct("<4s6H3L5H2L")  # in the directory
LOCAL = struct.Struct("<4s5H3L2H")  # before the data
ARRAY = re.compile(
    rb"\{'descr': '(<f4|\|i1)', 'fortran_order': (False), 'shape': \((\d{1,10}),? ?(\d{1,10})?,?\),? ?\} *\n"
)


def read_npz(content: memoryview) -> MarianModel:
    """The model of the bytes of an ``.npz`` file; arrays of one dimension become (1, n)."""
    end = len(content) - END.size
    if end < 0 or bytes(content[end : end + 4]) != b"PK\5\6":
        raise ValueError("the zip file is cut off, or has a comment")
    *_, count, length, start, _ = END.unpack_from(content, end)
    if count > MOST_ITEMS:
        raise ValueError(f"it claims {count:,} arrays; at most {MOST_ITEMS:,} are read")
    if start + length != end:
        raise ValueError("the directory of the zip file is not at its end")
    items: dict[str, Item] = {}
    options = None
    for name, data in members(content, start, end, count):
        if name in items or (name == OPTIONS and options is not None):
            raise ValueError(f"two arrays have the name {shown(name)}")
        kind, shape, values = read_array(name, data)
        if name == OPTIONS:
            if kind != np.int8 or len(shape) != 1 or len(values) > LONGEST_OPTIONS:
                raise ValueError(f"{OPTIONS} must be int8 of one dimension, with at most {LONGEST_OPTIONS:,} bytes")
            options = values.tobytes()
        elif kind != np.float32:
            raise ValueError(f"{shown(name)} is {kind}; tensors are float32")
        else:
            items[name] = values.reshape(1, -1) if len(shape) == 1 else values.reshape(shape)
    return from_file(items, options)


def members(content: memoryview, at: int, end: int, count: int) -> Iterator[tuple[str, memoryview]]:
    """The name and the bytes of each file in a zip file, in the order of its directory."""
    taken = 0
    for i in range(count):
        if at + MEMBER.size > end:
            raise ValueError(f"the directory of the zip file ends in entry {i}")
        mark, _, _, flags, method, _, _, crc, packed, size, long, extra, comment, *_, start = MEMBER.unpack_from(
            content, at
        )
        name = bytes(content[at + MEMBER.size : at + MEMBER.size + min(long, LONGEST_NAME + 4)])
        if mark != b"PK\1\2" or not name.endswith(b".npy") or not NAME.fullmatch(name[:-4]):
            raise ValueError(f"entry {i} of the zip file is not an array with a name of at most {LONGEST_NAME} bytes")
        item = name[:-4].decode("ascii")
        if method or packed != size or flags & 1:
            raise ValueError(f"{shown(item)} is compressed or encrypted; write the file with numpy.savez")
        if start + LOCAL.size > len(content) or bytes(content[start : start + 4]) != b"PK\3\4":
            raise ValueError(f"the data of {shown(item)} is not where the directory says")
        *_, long_again, extra_again = LOCAL.unpack_from(content, start)
        first = start + LOCAL.size + long_again + extra_again
        taken += size
        if first + size > len(content) or taken > len(content):
            raise ValueError(f"{shown(item)} has {size:,} bytes, more than the file has for it")
        data = content[first : first + size]
        if zlib.crc32(data) != crc:
            raise ValueError(f"the checksum of {shown(item)} is wrong; the file is damaged")
        yield item, data
        at += MEMBER.size + long + extra + comment
    if at != end:
        raise ValueError(f"the directory of the zip file has more than its {count:,} entries")


def read_array(name: str, data: memoryview) -> tuple[np.dtype, tuple[int, ...], np.ndarray]:
    """Type, shape and values of an array in the format of ``.npy``."""
    if len(data) < 10 or bytes(data[:8]) != b"\x93NUMPY\1\0":
        raise ValueError(f"{shown(name)} is not an array of the format .npy 1.0")
    start = 10 + int.from_bytes(bytes(data[8:10]), "little")
    header = ARRAY.fullmatch(bytes(data[10:start]))
    if not header:
        raise ValueError(
            f"the header of {shown(name)} is {shown(str(bytes(data[10:start]))[2:-1])}; "
            "arrays are little-endian float32 in C order, of one or two dimensions"
        )
    kind = np.dtype(header[1].decode())
    shape = tuple(int(size) for size in header.groups()[2:] if size)
    if math.prod(shape) * kind.itemsize != len(data) - start:
        raise ValueError(f"{shown(name)} has {len(data) - start:,} bytes, which is not what its shape {shape} needs")
    return kind, shape, np.frombuffer(data[start:], kind)


# Writing --------------------------------------------------------------------------------------------------------------


def write_bin(path: str | Path, model: MarianModel) -> None:
    """Write a model as a ``.bin`` file. An array becomes float32, a matrix in eight bits keeps its codes.

    Raises:
        ValueError: a name or a value cannot be written; nothing is written.
    """
    items = dict(writable(model).items)
    for name, alpha in model.alphas.items():
        number = np.full((1, 1), alpha, np.float32)
        if name == "Wemb":  # the engines look up the first; marian-conv writes the second, too
            items[SHARED_OUTPUT + ALPHA] = number
        items[name + ALPHA] = quantised(number) if "Wemb" in name else number
    names = sorted(items)
    options = model.options.encode() + b"\0"
    headers, shapes = [], []
    for name in names:
        item = items[name]
        codes = item.codes if isinstance(item, Int8Matrix) else item
        needed = codes.size + 4 if isinstance(item, Int8Matrix) else 4 * codes.size
        kind = INTGEMM8 if isinstance(item, Int8Matrix) else FLOAT32
        headers.append(struct.pack("<4Q", len(name) + 1, kind, 2, needed + -needed % BLOCK))
        shapes.append(struct.pack("<2i", *codes.shape))
    headers.append(struct.pack("<4Q", len(OPTIONS) + 1, INT8, 1, len(options)))
    shapes.append(struct.pack("<i", len(options)))
    head = struct.pack("<2Q", 1, len(headers)) + b"".join(headers)
    head += b"".join(name.encode() + b"\0" for name in [*names, OPTIONS]) + b"".join(shapes)
    start = ((len(head) + 8) // BLOCK + 1) * BLOCK
    head += struct.pack("<Q", start - len(head) - 8)

    def write(file: BinaryIO) -> None:
        file.write(head.ljust(start, b"\0"))
        for name in names:
            data = item_bytes(name, items[name])
            file.write(data.ljust(len(data) + -len(data) % BLOCK, b"\0"))
        file.write(options)

    replace_file(path, write)


def item_bytes(name: str, item: Item) -> bytes:
    """The data of an item without its padding."""
    if isinstance(item, Int8Matrix):
        return (item.codes if "Wemb" in name else item.codes.T).tobytes() + struct.pack("<f", item.multiplier)
    return item.astype("<f4", copy=False).tobytes()


def write_npz(path: str | Path, model: MarianModel) -> None:
    """Write a model as an ``.npz`` file in float32.

    Raises:
        ValueError: the model has matrices in eight bits or alphas, or a name or a value cannot be written; nothing is
            written.
    """
    items = writable(model).items
    if model.alphas or any(isinstance(item, Int8Matrix) for item in items.values()):
        raise ValueError(f"{path}: an .npz file is written in float32; give model.in_floats()")
    arrays = {name: np.ascontiguousarray(item, "<f4") for name, item in items.items() if isinstance(item, np.ndarray)}
    arrays[OPTIONS] = np.frombuffer(model.options.encode() + b"\0", np.int8)
    replace_file(path, lambda file: np.savez(file, allow_pickle=False, **arrays))


def writable(model: MarianModel) -> MarianModel:
    """The model, if its names, options and values fit in a file that can be read again."""
    for name in [*model.items, *model.alphas]:
        fits = len(name) + len(ALPHA) <= LONGEST_NAME and NAME.fullmatch(name.encode())
        if not fits or name.endswith(ALPHA) or name in (OPTIONS, SHARED_OUTPUT):
            raise ValueError(f"{shown(name)} cannot be the name of a tensor")
    if "\0" in model.options or len(model.options.encode()) >= LONGEST_OPTIONS:
        raise ValueError(f"the options have a zero character, or {LONGEST_OPTIONS:,} bytes or more")
    return checked(model)


def replace_file(path: str | Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file under another name first: the old one may be the one that the tensors are views of."""
    path = Path(path)
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            write(file)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
