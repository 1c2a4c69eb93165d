"""Run Mozilla's own engine, ``fxtranslate`` on PyPI, in another Python, to compare a model with it."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

LONGEST = 256  # tokens that the engine generates at most
PROGRAM = """
import json, sys
from pathlib import Path
from fxtranslate import Translator

model, vocabulary, sentences = json.load(sys.stdin)
pieces = Path(vocabulary).read_bytes()
translator = Translator(Path(model).read_bytes(), pieces, pieces)
json.dump([translator.backend(), [translator.translate(sentence) for sentence in sentences]], sys.stdout)
"""


class Translations(NamedTuple):
    """What the engine wrote, and with which products in eight bits: "avx2" adds in 16 bits, which may saturate."""

    backend: str
    texts: list[str]


def require_engine(python: str | Path) -> None:
    """Raise a ValueError unless this Python has the engine."""
    _run(python, "import fxtranslate", "", "cannot be loaded")


def longest_output(source_tokens: int) -> int:
    """The most tokens that the engine generates for a source of so many tokens, the end tokens included."""
    return min(2 * source_tokens + 4, LONGEST)


def by_engine(
    model: Path, vocabulary: Path, sentences: Sequence[str], python: str | Path = sys.executable
) -> Translations:
    """Translate sentences by greedy search, with a ``.bin`` file and its ``.spm``.

    Args:
        model: the ``.bin`` file
        vocabulary: the ``.spm`` file
        sentences: each is one sentence
        python: of the environment that has ``fxtranslate``

    Raises:
        ValueError: there is no engine, or it refuses the files.
    """
    asked = json.dumps([str(model), str(vocabulary), [*sentences]])
    return Translations(*json.loads(_run(python, PROGRAM, asked, f"does not translate with {model}")))


def _run(python: str | Path, program: str, asked: str, fault: str) -> str:
    """What a program prints in this Python."""
    try:
        command = [str(python), "-c", program]
        done = subprocess.run(command, input=asked, capture_output=True, encoding="utf-8", check=False)
    except OSError as error:
        raise ValueError(f"{python} cannot be run: {error}") from error
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        remedy = f"; install it with {python} -m pip install fxtranslate" if "No module named" in reason else ""
        raise ValueError(f"Mozilla's engine {fault}: {reason}{remedy}")
    return done.stdout


def engine_text(pieces: Sequence[str], unknown: str) -> str:
    """The text that the engine makes of pieces: those of bytes keep their names, such as "<0x0A>"; unknown ones go."""
    return "".join(piece for piece in pieces if piece != unknown).replace("▁", " ").strip(" ")
