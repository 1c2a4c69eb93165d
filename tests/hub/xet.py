"""The content-addressed store of Xet: chunks in xorbs, and shards that list the chunks of a file.

The client cuts a file into chunks, packs those into xorbs, and sends a shard with the file's terms: runs of chunks of a
xorb. Numbers are little-endian. The file is also put together here, and its SHA-256 is compared with the shard's.
"""

import hashlib
import struct
from typing import Any, NamedTuple

import lz4.frame

from tests.hub.repositories import HubError

ROW = 48  # bytes of every entry of a shard
END = b"\xff" * 32
HAS_VERIFICATION, HAS_METADATA = 1 << 31, 1 << 30
RAW, LZ4, GROUPED_LZ4 = 0, 1, 2


class Chunk(NamedTuple):
    start: int  # of its header, in the xorb
    end: int
    content: bytes


class Term(NamedTuple):
    xorb: str
    size: int  # of its content
    first: int  # chunk
    last: int  # chunk, not included


class XetStore:
    def __init__(self) -> None:
        self.xorbs: dict[str, bytes] = {}
        self.files: dict[str, list[Term]] = {}
        self.hashes: dict[str, str] = {}  # the file's hash, by its SHA-256

    def add_shard(self, shard: bytes) -> list[bytes]:
        """Register the files of a shard; returns their contents."""
        at, contents = ROW, []
        while shard[at : at + 32] != END:
            name, flags, count = _hex(shard[at : at + 32]), *struct.unpack_from("<II", shard, at + 32)
            at += ROW
            terms = []
            for _ in range(count):
                _, size, first, last = struct.unpack_from("<IIII", shard, at + 32)
                terms.append(Term(_hex(shard[at : at + 32]), size, first, last))
                at += ROW
            at += ROW * count if flags & HAS_VERIFICATION else 0
            if not flags & HAS_METADATA:
                raise HubError(400, "a file without its SHA-256")
            # The one hash that is stored like all others but read by everybody as it is printed.
            sha256 = _hex(shard[at : at + 32])
            at += ROW
            content = b"".join(
                chunk.content for term in terms for chunk in self.chunks(term.xorb)[term.first : term.last]
            )
            if sha256 != hashlib.sha256(content).hexdigest():
                raise HubError(400, f"the chunks of {name} do not make the file of SHA-256 {sha256}")
            self.files[name], self.hashes[sha256] = terms, name
            contents.append(content)
        return contents

    def chunks(self, xorb: str) -> list[Chunk]:
        if xorb not in self.xorbs:
            raise HubError(404, f"no xorb {xorb}")
        data, at, chunks = self.xorbs[xorb], 0, []
        while at < len(data) and data[at : at + 7] != b"XETBLOB":  # where a footer stands
            compressed = int.from_bytes(data[at + 1 : at + 4], "little")
            scheme, size = data[at + 4], int.from_bytes(data[at + 5 : at + 8], "little")
            end = at + 8 + compressed
            content = _decompress(data[at + 8 : end], scheme)
            if len(content) != size:
                raise HubError(400, f"a chunk of {xorb} has {len(content)} bytes, not {size}")
            chunks.append(Chunk(at, end, content))
            at = end
        return chunks

    def reconstruction(self, name: str, first_byte: int, url: str) -> dict[str, Any]:
        """The instructions to put a file together from this byte on; xorbs are under ``url``."""
        if name not in self.files:
            raise HubError(404, f"no file {name}")
        terms = list(self.files[name])
        if first_byte >= sum(term.size for term in terms):
            raise HubError(416, f"{name} has no byte {first_byte}")
        while first_byte >= terms[0].size:
            first_byte -= terms.pop(0).size
        found: dict[str, list[Any]] = {}
        for term in dict.fromkeys(terms):
            chunks = self.chunks(term.xorb)[term.first : term.last]
            place = {
                "range": {"start": term.first, "end": term.last},
                "url": f"{url}/{term.xorb}",
                "url_range": {"start": chunks[0].start, "end": chunks[-1].end - 1},
            }
            found.setdefault(term.xorb, []).append(place)
        return {
            "offset_into_first_range": first_byte,
            "terms": [
                {"hash": t.xorb, "unpacked_length": t.size, "range": {"start": t.first, "end": t.last}} for t in terms
            ],
            "fetch_info": found,
        }

    def flip(self, sha256: str) -> None:
        """Flip the last bit of a stored file."""
        term = self.files[self.hashes[sha256]][-1]
        *others, (_, _, content) = self.chunks(term.xorb)[: term.last]
        content = content[:-1] + bytes([content[-1] ^ 1])
        size = len(content).to_bytes(3, "little")
        data = self.xorbs[term.xorb]
        start = others[-1].end if others else 0
        end = self.chunks(term.xorb)[term.last - 1].end
        self.xorbs[term.xorb] = data[:start] + b"\0" + size + bytes([RAW]) + size + content + data[end:]


def _hex(hash_: bytes) -> str:
    """A hash in hexadecimal: four numbers of eight bytes."""
    return "".join(hash_[at : at + 8][::-1].hex() for at in range(0, 32, 8))


def _decompress(data: bytes, scheme: int) -> bytes:
    if scheme == RAW:
        return data
    content = lz4.frame.decompress(data)
    if scheme == LZ4:
        return content
    # All first bytes of groups of four, then all second ones, ...
    whole = bytearray(len(content))
    at = 0
    for place in range(4):
        size = len(range(place, len(content), 4))
        whole[place::4] = content[at : at + size]
        at += size
    return bytes(whole)
