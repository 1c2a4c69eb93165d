"""Damaged and hostile files are refused, or do no harm; reading them takes no memory."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from attnzoo.firefox.sentencepiece_file import bytes_field, to_bytes
from tests.firefox.test_sentencepiece import SMALL

MEMORY = 64 * 2**20  # beyond the file
measures_memory = pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux counts it")


@measures_memory
@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_damaged_files_do_no_harm(count: int) -> None:
    command = [sys.executable, "-m", "tests.firefox.fuzz", str(count), "0"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["memory"] < found["largest"] + MEMORY
    outcomes = found["outcomes"]
    assert sum(outcomes.values()) > 0.9 * count
    for place in ("header", "names", "shapes", "options", "archive", "vocabulary"):
        assert outcomes[f"{place} refused"] > 0


# Every node of the tokenizer's trie takes 350 bytes, so a vocabulary with as many nodes as are allowed takes 90 MB.
LARGEST_VOCABULARY = 128 * 2**20
PROGRAM = """
import os, resource, sys
from attnzoo.firefox.sentencepiece_file import read_sentencepiece
from attnzoo.firefox.sentencepiece_tokenizer import to_tokenizer

for path in sys.argv[1:]:  # in a fork each, whose largest memory is its own
    if os.fork():
        os.wait()
        continue
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        to_tokenizer(read_sentencepiece(path))
    except ValueError as error:
        print(error, end=": ")
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024, flush=True)
    os._exit(0)
"""


@measures_memory
def test_the_memory_of_a_vocabulary_is_bounded(tmp_path: Path) -> None:
    """Of pieces that have no beginning in common, in a file that is as large as a real one or smaller."""
    paths = []
    for length in (200, 58):
        draw = random.Random(0)
        texts = [draw.randbytes(length // 2).hex() for _ in range(4600)]
        content = b"".join(bytes_field(1, bytes_field(1, text.encode())) for text in texts)
        paths.append(tmp_path / f"{length}.spm")
        paths[-1].write_bytes(to_bytes(SMALL) + content)
    command = [sys.executable, "-c", PROGRAM, *map(str, paths)]
    refused, read = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    reason, _, memory = refused.rpartition(": ")
    assert "nodes" in reason
    assert int(memory) < MEMORY
    assert int(read) < LARGEST_VOCABULARY
