"""The public names are those of docs/reference/api.md: every name on the page has a docstring, and every exported name
is on the page. The package, its models, the citation and the changelog have one version.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attnzoo

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
MODULES = re.findall(r"^\.\. automodule:: (\S+)", PAGE, flags=re.MULTILINE)
NAMES = re.findall(r"^\.\. auto(?:class|function|exception):: (\S+)", PAGE, flags=re.MULTILINE)
ROOMS = [f"attnzoo.{module.name}" for module in pkgutil.iter_modules(attnzoo.__path__) if module.ispkg]
CONSTANTS = {"attnzoo.checking.FAULTS", "attnzoo.checking.KINDS"}  # the lists behind the report, on the page of check


def objects() -> Iterator[tuple[str, Any]]:
    """The classes and functions of the page, including those of its modules."""
    for name in NAMES:
        module, _, attribute = name.rpartition(".")
        yield name, getattr(importlib.import_module(module), attribute)
    for name in MODULES:
        module = importlib.import_module(name)
        public = getattr(module, "__all__", None) or [
            attribute
            for attribute, value in vars(module).items()
            if not attribute.startswith("_") and getattr(value, "__module__", None) == name
        ]
        for attribute in public:
            if callable(found := getattr(module, attribute)):
                yield f"{name}.{attribute}", found


def test_every_public_name_is_documented() -> None:
    documented = [*objects()]
    for name, value in objects():
        if inspect.isclass(value) and value.__module__.startswith("attnzoo"):
            methods = [m for m, f in vars(value).items() if inspect.isfunction(f) and not m.startswith("_")]
            documented += [(f"{name}.{method}", getattr(value, method)) for method in methods]
    assert len(documented) > 100
    assert not [name for name, value in documented if not inspect.getdoc(value)]


def test_no_public_name_is_missing_on_the_page() -> None:
    exported = {f"attnzoo.{name}" for name in attnzoo.__all__}
    assert exported <= {*NAMES}
    for room in ROOMS:
        if room not in MODULES:
            names = {f"{room}.{name}" for name in getattr(importlib.import_module(room), "__all__", [])}
            assert names - CONSTANTS <= {*NAMES}, room


def test_the_package_and_its_models_have_one_version() -> None:
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), flags=re.MULTILINE)
    models = re.search(r'^version = "(\S+)"$', (ROOT / "model_cards" / "pyproject.toml").read_text(), re.MULTILINE)
    changes = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None
    assert models is not None
    assert changes is not None
    assert {cited[1], models[1], changes[1]} == {attnzoo.__version__}
