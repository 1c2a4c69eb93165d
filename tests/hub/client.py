"""Fresh processes that talk to the Hub on loopback, each with a home of its own where nothing is cached."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Settings of the machine that would reach into a test, or lead its requests elsewhere.
FOREIGN = ("HF_", "HUGGING", "TRANSFORMERS_", "PYTHONPATH")


def environment(endpoint: str, home: Path, token: str | None, xet: bool, **settings: str) -> dict[str, str]:
    """The variables of a process; all that it caches goes under ``home``."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(FOREIGN) and not name.lower().endswith("_proxy")
    }
    kept |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    kept["DISABLE_SAFETENSORS_CONVERSION"] = "true"  # by a service of Hugging Face's, which is on no loopback
    if not xet:
        kept["HF_HUB_DISABLE_XET"] = "1"
    if token is not None:
        kept["HF_TOKEN"] = token
    return kept | settings


def run_python(
    *arguments: str, environment: dict[str, str], cwd: Path = ROOT, without_attnzoo: bool = False
) -> subprocess.CompletedProcess[str]:
    """What a process of this Python prints and how it ends."""
    if without_attnzoo:
        environment = environment | {"PYTHONPATH": str(_a_place_that_hides_attnzoo(cwd))}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command,
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,  # nobody there to be asked
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )


def _a_place_that_hides_attnzoo(folder: Path) -> Path:
    """A folder whose sitecustomize takes the package away, however it was installed.

    Python imports it before anything else; so a process finds no attnzoo, as on a machine where it was never installed.
    """
    place = folder / "hides_attnzoo"
    place.mkdir(exist_ok=True)
    (place / "sitecustomize.py").write_text("import sys\n\nsys.modules['attnzoo'] = None\n")
    return place
