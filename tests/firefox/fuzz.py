"""Damaged and hostile files: ``python -m tests.firefox.fuzz COUNT SEED`` reads them and prints what happened.

A file is refused by a ValueError, or it is still the same model in all that counts, or it is another sound one: nobody
can see that a weight, the number of heads or a letter of a piece has changed. With its checksum every one is refused.
The command runs in a process of its own, whose memory is measured.
"""

import hashlib
import io
import json
import random
import resource
import struct
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attnzoo.firefox.marian_files import read_marian, write_bin, write_npz
from attnzoo.firefox.marian_model import OPTIONS
from attnzoo.firefox.sentencepiece_file import bytes_field, key, number_field, read_sentencepiece, to_varint
from attnzoo.firefox.sentencepiece_tokenizer import to_tokenizer
from attnzoo.firefox.student_options import StudentOptions
from tests.firefox.models import SIZES, random_int8_model, random_model
from tests.firefox.vocabularies import texts, vocabulary

NUMBERS = [0, 1, 2, 3, 5, 255, 256, 2**16, 2**24, 2**31 - 1, 2**31, 2**32, 2**48, 2**60, 2**63, 2**64 - 1]
Draw = random.Random


def damaged(content: bytes, start: int, end: int, draw: Draw) -> bytes:
    """The content with one damage between two offsets."""
    at = draw.randrange(start, end)
    length = draw.choice([1, 1, 2, 4, 8, 30, 300])
    kind = draw.randrange(7)
    if kind == 0:
        return content[:at] + bytes([content[at] ^ 1 << draw.randrange(8)]) + content[at + 1 :]
    if kind == 1:
        return content[:at] + draw.randbytes(length) + content[at + length :]
    if kind == 2:
        at -= (at - start) % 8
        return content[:at] + struct.pack("<Q", draw.choice(NUMBERS)) + content[at + 8 :]
    if kind == 3:
        return content[:at]
    if kind == 4:
        return content[:at] + content[at + length :]
    if kind == 5:
        return content[:at] + draw.randbytes(length) + content[at:]
    other = draw.randrange(start, end)
    return content[:at] + content[other : other + length] + content[at + length :]


def with_options(content: bytes, options: bytes) -> bytes:
    """A ``.bin`` with other options, whose lengths fit."""
    (count,) = struct.unpack_from("<Q", content, 8)
    at = 16 + 32 * (count - 1)
    (length,) = struct.unpack_from("<Q", content, at + 24)
    gap = content.index(b"special:model.yml\0") + len(b"special:model.yml\0") + 8 * (count - 1)
    content = content[: at + 24] + struct.pack("<Q", len(options)) + content[at + 32 :]
    return content[:gap] + struct.pack("<i", len(options)) + content[gap + 4 : -length] + options


def hostile_options(options: bytes, draw: Draw) -> bytes:
    """Options that are damaged, or take a careless reader much memory or time."""
    bombs = [
        b"a: &a [x, x, x]\n" + b"".join(b"a%d: &a%d [%s]\n" % (i, i, b"*a, " * 9) for i in range(30)),
        b"[" * draw.choice([10, 1000, 60_000]),
        b"- " * 20_000,
        b"{" * 20_000,
        b"a: " * 20_000,
        b"".join(b"k%d: 1\n" % i for i in range(8_000)),
        b"dim-vocabs: [" + b"1," * 30_000 + b"]\n" + options,
        b"dim-emb: " + b"9" * 60_000,
        b"!!python/object/apply:os.system ['false']",
        b"? [a]\n: b\n",
        b"\xff\xfe\x00",
        b"x" * 70_000,
    ]
    return draw.choice(bombs) if draw.random() < 0.2 else damaged(options, 0, len(options), draw)


def hostile_archive(draw: Draw) -> bytes:
    """An ``.npz`` that claims more than it has."""
    content = io.BytesIO()
    shape = draw.choice(["(99999999, 99999999), ", "(4294967296,), ", "(-1,), ", "(2, 2, 2), ", "(), ", "(0, 5), "])
    kind = draw.choice(["<f4", "<f8", "|O", ">f4", "|i1", "<f4' + '"])
    header = f"{{'descr': '{kind}', 'fortran_order': {draw.choice(['False', 'True'])}, 'shape': {shape}}}\n".encode()
    method = draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    with zipfile.ZipFile(content, "w", method) as archive:
        names = ["Wemb.npy", "../Wemb.npy", f"{OPTIONS}.npy", "a" * 300 + ".npy"]
        zeros = bytes(draw.choice([0, 16, 10_000_000 if method else 100]))
        archive.writestr(draw.choice(names), b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + zeros)
    return content.getvalue()


def hostile_vocabulary(draw: Draw) -> bytes:
    """A vocabulary that claims more than it has, or has more than anyone needs."""
    piece = bytes_field(1, bytes_field(1, b"a"))
    return draw.choice(
        [
            lambda: piece * draw.choice([2, 200_000]),
            lambda: b"\x0a\x00" * 500_000,
            lambda: bytes_field(1, bytes_field(1, b"a" * draw.choice([255, 10**6]))) * 3,
            lambda: b"".join(bytes_field(1, bytes_field(1, draw.randbytes(120).hex().encode())) for _ in range(9000)),
            lambda: key(1, 2) + to_varint(draw.choice(NUMBERS)),
            lambda: b"\xff" * 100,
            lambda: key(draw.randrange(2**20), draw.randrange(8)) + draw.randbytes(20),
            lambda: bytes_field(3, bytes_field(2, struct.pack("<I", draw.choice([1024, 2**32 - 1])) + bytes(4096))),
            lambda: bytes_field(2, number_field(3, draw.choice(NUMBERS))),
        ]
    )()


class Files:
    """The sound files, and what they hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_bin(folder / "float.bin", random_model())
        write_bin(folder / "int8.bin", random_int8_model())
        write_npz(folder / "float.npz", random_model())
        for name in ("nmt_nfkc", "identity"):
            (folder / f"{name}.spm").write_bytes(vocabulary(name))
        self.sound = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        self.held = {name: self.read(folder / name) for name in self.sound}

    def read(self, path: Path, sha256: str | None = None) -> Any:
        """Everything in a file, comparable; a vocabulary is used, too."""
        if path.suffix == ".spm":
            file = read_sentencepiece(path, sha256)
            tokenizer = to_tokenizer(file)
            return file, tokenizer.batch_decode(tokenizer(texts(12))["input_ids"])
        model = read_marian(path, sha256)
        options = StudentOptions.from_yaml(model.options)
        options.check_tensors(model)
        return options, model.alphas, {name: model.floats(name).tobytes() for name in model.items}

    def damage(self, draw: Draw) -> tuple[str, str, bytes]:
        """The name of a file, the place of its damage, and the damaged content."""
        name = draw.choice([*self.sound])
        content = self.sound[name]
        if name.endswith(".spm"):
            if draw.random() < 0.3:
                return name, "vocabulary", hostile_vocabulary(draw)
            return name, "vocabulary", damaged(content, 0, len(content), draw)
        if name.endswith(".npz"):
            if draw.random() < 0.3:
                return name, "archive", hostile_archive(draw)
            return name, "archive", damaged(content, 0, len(content), draw)
        place = draw.choice(["header", "names", "shapes", "options", "numbers"])
        (count,) = struct.unpack_from("<Q", content, 8)
        names = 16 + 32 * count
        shapes = content.index(b"special:model.yml\0") + len(b"special:model.yml\0")
        gap = shapes + 8 * count
        data = -(-gap // 256) * 256
        options = content.rindex(b"bert-train")
        if place == "options":
            return name, place, with_options(content, hostile_options(content[options:], draw))
        spans = {"header": (0, names), "names": (names, shapes), "shapes": (shapes, gap), "numbers": (data, options)}
        return name, place, damaged(content, *spans[place], draw)


def run(count: int, seed: int) -> dict[str, Any]:
    """Read damaged files; how many were refused, the same or others, by the place of the damage, and the memory."""
    draw = random.Random(seed)
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        files = Files(Path(folder))
        reset = Path("/proc/self/clear_refs")
        if reset.exists():  # forget the peak of learning the vocabularies, which would hide a lower one
            reset.write_text("5")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        most = 0
        for i in range(count):
            name, place, content = files.damage(draw)
            if content == files.sound[name]:
                continue
            path = Path(folder) / f"damaged{Path(name).suffix}"
            path.write_bytes(content)
            most = max(most, len(content))

            def refused(read: Callable[[], Any], path: Path = path, i: int = i) -> tuple[bool, Any]:
                try:
                    return False, read()
                except ValueError as error:
                    if not str(error).strip() or len(str(error)) > 2000:
                        raise AssertionError(f"file {i}: the message has {len(str(error)):,} characters") from error
                    return True, None

            was_refused, held = refused(lambda path=path: files.read(path))  # type: ignore[misc]
            outcome = "refused" if was_refused else "same" if held == files.held[name] else "other"
            outcomes[f"{place} {outcome}"] += 1
            sha256 = hashlib.sha256(files.sound[name]).hexdigest()
            if not refused(lambda path=path, sha256=sha256: files.read(path, sha256))[0]:  # type: ignore[misc]
                raise AssertionError(f"file {i}: damage is not seen by the checksum")
            if outcome == "other" and place == "options":
                held = (replace(held[0], num_attention_heads=SIZES.num_attention_heads), *held[1:])
                outcome = "same" if held == files.held[name] else "other"
            if outcome == "other" and place not in ("numbers", "vocabulary"):
                raise AssertionError(f"file {i}: damage of {name} in its {place} gives another model")
            if not was_refused and place in ("numbers", "archive"):
                arrays = [np.frombuffer(values, np.float32) for values in held[2].values()]
                if not all(np.isfinite(array).all() for array in arrays):
                    raise AssertionError(f"file {i}: a value is not finite")
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"outcomes": dict(outcomes), "memory": (after - before) * 1024, "largest": most}


if __name__ == "__main__":
    print(json.dumps(run(int(sys.argv[1]), int(sys.argv[2]))))
