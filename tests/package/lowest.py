"""The lowest version of every library that ``pyproject.toml`` promises, as constraints for pip.

``python -m tests.package.lowest FILE`` writes them; ``make test-lowest`` runs tests with them.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def normalized(distribution: str) -> str:
    """The name of a distribution as package indexes write it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def lower_bounds(lines: list[str]) -> dict[str, Version]:
    """The lowest version of each distribution that the project declares for environments like this one."""
    found: dict[str, Version] = {}
    for needed in map(Requirement, lines):
        if needed.marker is None or needed.marker.evaluate({"extra": ""}):
            for specifier in needed.specifier:
                if specifier.operator in (">=", "==", "~="):
                    found[normalized(needed.name)] = Version(specifier.version)
    return found


def promised() -> dict[str, Version]:
    """The lowest version of every library that the project declares, in all of its extras."""
    lines = [*PROJECT["dependencies"], *(line for some in PROJECT["optional-dependencies"].values() for line in some)]
    return lower_bounds([line for line in lines if not line.startswith("attnzoo[")])


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{name}=={lowest}\n" for name, lowest in promised().items()), encoding="utf-8")
