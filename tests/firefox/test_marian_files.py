"""Marian's files: what is written is read again, in the layout of published models, and nothing damaged is read."""

import hashlib
import struct
import tracemalloc
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnzoo.firefox.int8 import Int8Matrix, codes_of, is_quantised, quantised, values_of
from attnzoo.firefox.marian_files import read_marian, write_bin, write_npz
from attnzoo.firefox.marian_model import OPTIONS, MarianModel
from attnzoo.firefox.student_options import StudentOptions
from tests.firefox.models import SIZES, random_int8_model, random_model

SPLIT = replace(SIZES, shared_vocabulary=False, target_vocab_size=30)
WRITERS: dict[str, tuple[Callable[..., None], Callable[..., MarianModel]]] = {
    "float.bin": (write_bin, random_model),
    "int8.bin": (write_bin, random_int8_model),
    "float.npz": (write_npz, random_model),
}
TINY = StudentOptions(256, 1536, 8, 6, 2, 32_000, 32_000, True)
BASE_MEMORY = StudentOptions(384, 1536, 8, 6, 4, 32_000, 32_000, True)
BASE = StudentOptions(512, 2048, 8, 6, 2, 32_000, 32_000, True)


def parts(model: MarianModel) -> dict[str, Any]:
    """Everything in a model, comparable."""
    found: dict[str, Any] = {"options": model.options, "alphas": model.alphas}
    for name, item in model.items.items():
        codes, multiplier = item if isinstance(item, Int8Matrix) else (item, None)
        found[name] = (codes.dtype, codes.tolist(), multiplier)
    return found


@pytest.mark.parametrize("options", [SIZES, SPLIT], ids=["shared", "split"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_model_is_read_as_it_was_written(name: str, options: StudentOptions, tmp_path: Path) -> None:
    write, make = WRITERS[name]
    model = make(options)
    path = tmp_path / name
    write(path, model)
    found = read_marian(path)
    if model.alphas:  # stored as 127 / multiplier
        assert found.alphas.keys() == model.alphas.keys()
        assert found.alphas == pytest.approx(model.alphas, rel=1e-6)
        model = replace(model, alphas=found.alphas)
    assert parts(found) == parts(model)
    write(path, found)  # over the file that the tensors are views of
    assert parts(read_marian(path)) == parts(model)
    assert StudentOptions.from_yaml(found.options) == options
    options.check_tensors(found)


@pytest.mark.parametrize(("options", "parameters"), [(TINY, 16_907_008), (BASE_MEMORY, 31_248_896), (BASE, 42_686_720)])
def test_the_tensors_are_those_of_published_models(options: StudentOptions, parameters: int) -> None:
    assert sum(rows * columns for rows, columns in options.shapes().values()) == parameters


def test_a_file_has_the_bytes_of_a_published_one(tmp_path: Path) -> None:
    """Of Azerbaijani to English, 17,141,051 bytes, of which the options are 1,339."""
    write_bin(tmp_path / "tiny.bin", replace(random_int8_model(TINY), options="x" * 1338))
    assert (tmp_path / "tiny.bin").stat().st_size == 17_141_051


def test_the_layout_by_hand(tmp_path: Path) -> None:
    """A matrix in eight bits is stored as its transpose, embeddings are not, and data starts at a multiple of 256."""
    wide = Int8Matrix(np.array([[1, 2, 3], [4, 5, 6]], np.int8), 2.0)
    write_bin(tmp_path / "m.bin", MarianModel({"a_W": wide, "Wemb": wide, "b": np.ones((1, 2), np.float32)}, "x", {}))
    content = (tmp_path / "m.bin").read_bytes()
    assert struct.unpack_from("<6Q", content) == (1, 4, 5, 0x4101, 2, 256)  # Wemb is the first in the order of bytes
    assert content[16 + 4 * 32 :].startswith(b"Wemb\0a_W\0b\0special:model.yml\0" + struct.pack("<3i", 2, 3, 2))
    data = content[256:]
    assert len(data) == 3 * 256 + 2
    assert data[:6] == bytes([1, 2, 3, 4, 5, 6])
    assert data[256:262] == bytes([1, 4, 2, 5, 3, 6])
    assert struct.unpack_from("<f", data, 262) == (2.0,)
    assert data[-2:] == b"x\0"


def test_codes_and_values() -> None:
    weights = np.array([[0.5, -1.0], [0.25, 2.0]], np.float32)
    codes, multiplier = quantised(weights)
    assert multiplier == 63.5
    assert codes.tolist() == [[32, -64], [16, 127]]  # 31.75, -63.5, 15.875, 127
    assert codes_of(np.array([0.5, 1.5, 2.5, -500, 500]), 1.0).tolist() == [0, 2, 2, -127, 127]
    assert codes_of(values_of(codes, multiplier), multiplier).tolist() == codes.tolist()
    assert quantised(np.zeros((2, 2))).codes.any() == 0
    for bad in (np.nan, np.inf, 1e-44):
        with pytest.raises(ValueError, match="no multiplier"):
            quantised(np.array([[bad]]))


@pytest.mark.parametrize("codes", [np.arange(-127, 128, dtype=np.int8).reshape(5, 51)])
@pytest.mark.parametrize("multiplier", [0.1, 1.0, 53.7, 2000.0])
def test_every_code_survives_its_value(codes: np.ndarray, multiplier: float) -> None:
    assert (codes_of(values_of(codes, multiplier), multiplier) == codes).all()


def test_which_items_are_in_eight_bits() -> None:
    matrices = {name for name, shape in TINY.shapes().items() if min(shape) > 1}
    assert {name for name in TINY.shapes() if is_quantised(name)} == matrices


# Damage ---------------------------------------------------------------------------------------------------------------


def header(content: bytes, item: int, field: int, value: int) -> bytes:
    """A ``.bin`` with another number in the header of an item: length of the name, type, rank, length of the data."""
    at = 16 + 32 * item + 8 * field
    return content[:at] + struct.pack("<Q", value) + content[at + 8 :]


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda b: b"", "too few"),
    "other kind": (lambda b: b"MZ" + b[2:], "version"),
    "encrypted": (lambda b: b"\2" + b[1:], "encrypted"),
    "count": (lambda b: b[:8] + struct.pack("<Q", 2**60) + b[16:], "items"),
    "huge name": (lambda b: header(b, 0, 0, 2**63), "name of item 0"),
    "type": (lambda b: header(b, 0, 1, 0x4102), "intgemm16"),
    "rank": (lambda b: header(b, 0, 2, 2**40), "dimensions"),
    "length": (lambda b: header(b, 0, 3, 2**62), "file ends"),
    "cut": (lambda b: b[:-1], "file ends"),
    "longer": (lambda b: b + b"\0", "follow"),
    "name": (lambda b: b.replace(b"Wemb\0", b"We\0b\0"), "name of item"),
    "other name": (lambda b: b.replace(b"Wemb\0", b"W\xffmb\0"), "name of item"),
    "twice": (lambda b: b.replace(b"_Wq\0", b"_Wv\0"), "two items"),
    "no options": (lambda b: b.replace(b"special:model.yml", b"special:model.xml"), "special:model.xml"),
    "shape": (lambda b: b.replace(struct.pack("<2i", 1, 20), struct.pack("<2i", 1, 90)), "needs 360"),
    "negative": (lambda b: b.replace(struct.pack("<2i", 1, 20), struct.pack("<2i", -1, -20)), "1 or more"),
    "not finite": (lambda b: b.replace(struct.pack("<f", 0.5), struct.pack("<f", np.nan)), "not finite"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_files_are_refused(case: str, tmp_path: Path) -> None:
    model = random_model()
    model.items["Wemb"][3, 4] = 0.5
    write_bin(tmp_path / "sound.bin", model)
    change, reason = DAMAGE[case]
    damaged = change((tmp_path / "sound.bin").read_bytes())
    assert damaged != (tmp_path / "sound.bin").read_bytes()
    (tmp_path / "damaged.bin").write_bytes(damaged)
    with pytest.raises(ValueError, match=reason) as error:
        read_marian(tmp_path / "damaged.bin")
    assert str(error.value).startswith(str(tmp_path / "damaged.bin"))


def test_data_is_padded_by_less_than_a_block(tmp_path: Path) -> None:
    write_bin(tmp_path / "m.bin", MarianModel({"b": np.ones((1, 2), np.float32)}, "x", {}))
    content = (tmp_path / "m.bin").read_bytes()
    assert len(content) == 256 + 256 + 2
    (tmp_path / "m.bin").write_bytes(header(content[:512] + bytes(256) + content[512:], 0, 3, 512))
    with pytest.raises(ValueError, match="needs 8 and padding"):
        read_marian(tmp_path / "m.bin")


def test_the_checksum_is_compared(tmp_path: Path) -> None:
    write_bin(tmp_path / "m.bin", random_int8_model())
    content = bytearray((tmp_path / "m.bin").read_bytes())
    sha256 = hashlib.sha256(content).hexdigest()
    read_marian(tmp_path / "m.bin", sha256)
    content[-2000] ^= 1
    (tmp_path / "m.bin").write_bytes(content)
    with pytest.raises(ValueError, match="sha256"):
        read_marian(tmp_path / "m.bin", sha256)


def test_alphas_and_codes_are_checked(tmp_path: Path) -> None:
    model = random_int8_model()
    for change, reason in (
        ({"alphas": model.alphas | {"other": 1.0}}, "no matrix"),
        ({"alphas": model.alphas | {"Wemb": 0.0}}, "alpha of 'Wemb'"),
        ({"alphas": model.alphas | {"Wemb": float("nan")}}, "alpha of 'Wemb'"),
        ({"alphas": {"Wemb": 1.0}}, "without an alpha"),
        ({"items": model.items | {"Wemb": Int8Matrix(np.full((20, 8), -128, np.int8), 1.0)}}, "-128"),
        ({"items": model.items | {"Wemb": Int8Matrix(np.ones((20, 8), np.int8), 1e-40)}}, "multiplier"),
        ({"items": model.items | {"a b": np.ones((1, 1), np.float32)}}, "'a b'"),
        ({"items": model.items | {"a": np.ones((1, 0), np.float32)}}, "shape"),
        ({"options": "a\0b"}, "zero character"),
    ):
        with pytest.raises(ValueError, match=reason):
            write_bin(tmp_path / "m.bin", replace(model, **change))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="in_floats"):
        write_npz(tmp_path / "m.npz", model)
    assert not list(tmp_path.iterdir())


def test_archives_that_numpy_would_read_into_memory_are_refused(tmp_path: Path) -> None:
    arrays = {"Wemb": np.zeros((1000, 1000), np.float32), OPTIONS: np.frombuffer(b"x\0", np.int8)}
    np.savez_compressed(tmp_path / "compressed.npz", **arrays)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="compressed"):
        read_marian(tmp_path / "compressed.npz")
    for name, bad in (
        ("float64", np.zeros((2, 2))),
        ("objects", np.array([[{}]])),
        ("cube", np.zeros((1, 1, 1), "f4")),
    ):
        np.savez(tmp_path / f"{name}.npz", bad=bad, allow_pickle=True)
        with pytest.raises(ValueError, match="header of 'bad'"):
            read_marian(tmp_path / f"{name}.npz")
    huge = b"\x93NUMPY\1\0" + struct.pack("<H", 80)
    huge += b"{'descr': '<f4', 'fortran_order': False, 'shape': (999999999, 999999999), }".ljust(79) + b"\n"
    with zipfile.ZipFile(tmp_path / "huge.npz", "w") as archive:
        archive.writestr("Wemb.npy", huge)
    tracemalloc.start()
    with pytest.raises(ValueError, match="needs"):
        read_marian(tmp_path / "huge.npz")
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("make", [random_model, random_int8_model])
def test_numbers_of_another_type_are_not_written(make: Callable[..., MarianModel], tmp_path: Path) -> None:
    model = make()
    item = model.items["Wemb"]
    if isinstance(item, Int8Matrix):
        model.items["Wemb"], wrong = item._replace(codes=item.codes.astype(np.int16)), "int16; it must be int8"
    else:
        model.items["Wemb"], wrong = item.astype(np.float64), "float64; it must be float32"
    with pytest.raises(ValueError, match=f"'Wemb' is {wrong}"):
        write_bin(tmp_path / "model.bin", model)
    assert not [*tmp_path.iterdir()]
