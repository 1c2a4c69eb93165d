"""Every imported library is declared in ``pyproject.toml``, and not only installed as a dependency of another one,
which may drop it.
"""

import ast
import re
import sys
from importlib.metadata import distributions, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.version import Version

from tests.package.lowest import PROJECT, ROOT, lower_bounds, normalized, promised


def declared(*extras: str) -> set[str]:
    """The distributions of an install with these extras."""
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    names = {normalized(re.split(r"[\[\s<>=!~;]", line, maxsplit=1)[0]) for line in lines}
    own = [name for line in lines if line.startswith("attnzoo[") for name in re.findall(r"[\w-]+", line)[1:]]
    return names | (declared(*own) if own else set())


def imported(files: list[Path]) -> dict[str, str]:
    """The libraries that files import, each with one of these files."""
    found = {}
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                modules = [node.module or ""]
            else:
                continue
            found |= {module.split(".")[0]: path.name for module in modules}
    own = {"attnzoo", "array_search", "json_files"}  # the last two are next to run.py in an exported folder
    return {name: path for name, path in found.items() if name not in sys.stdlib_module_names | own}


@pytest.mark.parametrize(
    ("folder", "extras"), [("attnzoo", ["plots", "export", "firefox"]), ("training", ["train", "tensorboard", "tune"])]
)
def test_every_library_that_is_imported_is_declared(folder: str, extras: list[str]) -> None:
    distributions = packages_distributions()
    known = declared(*extras)
    libraries = imported(sorted((ROOT / folder).rglob("*.py")))
    assert libraries
    undeclared = [
        f"{name} ({path})"
        for name, path in libraries.items()
        if not {normalized(distribution) for distribution in distributions.get(name, [name])} & known
    ]
    assert not undeclared


def test_lower_bounds_can_be_met_together() -> None:
    """For a library that is installed in its lowest version, the metadata has the requirements of this version."""
    own = promised()
    installed = {(normalized(found.name), Version(found.version)) for found in distributions() if found.name}
    at_their_lowest = [name for name, lowest in own.items() if (name, lowest) in installed]
    assert {"transformers", "huggingface-hub", "datasets", "accelerate"} <= {*at_their_lowest}
    too_low = [
        f"{name}>={own[name]}, and {library} needs {name}>={lowest}"
        for library in at_their_lowest
        for name, lowest in lower_bounds(requires(library) or []).items()
        if name in own and own[name] < lowest
    ]
    assert not too_low
