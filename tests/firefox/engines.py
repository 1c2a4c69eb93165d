"""The two engines for tests, from environments of their own: Mozilla's, and Marian itself."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

FXTRANSLATE, PYMARIAN = "ATTNZOO_FXTRANSLATE", "ATTNZOO_PYMARIAN"
MARIAN_PROGRAM = """
import json, sys
from pymarian import Translator

model, vocabulary, beams, rows = json.load(sys.stdin)
options = {"max_length_factor": 2, "normalize": 0, "no_spm_encode": True, "no_spm_decode": True, "mini_batch": 1}
translator = Translator(models=model, vocabs=[vocabulary] * 2, beam_size=beams, cpu_threads=1, quiet=True, **options)
json.dump([translator.translate(row).split(" ") for row in rows], sys.stdout)
"""


def engine_python(variable: str = FXTRANSLATE) -> Path:
    """The Python of the environment that has an engine; without one, the test is skipped."""
    if variable not in os.environ:
        package = variable.removeprefix("ATTNZOO_").lower()
        pytest.skip(f"{variable} does not name the python of an environment with the package {package}")
    return Path(os.environ[variable])


def by_marian(model: Path, vocabulary: Path, rows: Sequence[Sequence[str]], beams: int) -> list[list[str]]:
    """The pieces that Marian writes for the pieces of each source, at most twice as many as those and the end."""
    asked = json.dumps([str(model), str(vocabulary), beams, [" ".join(row) for row in rows]])
    command = [str(engine_python(PYMARIAN)), "-c", MARIAN_PROGRAM]
    done = subprocess.run(command, input=asked, capture_output=True, encoding="utf-8", check=True)
    return [[piece for piece in row if piece] for row in json.loads(done.stdout)]
