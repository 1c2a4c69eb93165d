"""The pages of the reference say what the code says."""

import importlib.util
import re
import sys
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest

import attnzoo

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_pages", ROOT / "docs" / "reference_pages.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="later Pythons print types and help texts differently")
@pytest.mark.parametrize("name", ["command_line.md", "files.md", "recipe_keys.md"])
def test_a_page_that_is_written_from_the_code_is_up_to_date(pages: ModuleType, name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == pages.PAGES[name](), "run: python docs/reference_pages.py"


def test_the_tree_of_contributing_names_every_flat_file_and_folder() -> None:
    tree = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    for top, pattern in (("attnzoo", "*.py"), ("attnzoo", "*/"), ("training", "*/")):
        branch = re.search(rf"^{top}/.*\n((?: .*\n)+)", tree, re.MULTILINE)
        assert branch
        named = re.findall(r"[\w*]+(?:\.py|/)", branch[1])
        paths = [path for path in (ROOT / top).glob(pattern) if not path.is_symlink() and path.name[0] not in "_."]
        names = [path.name + "/" * path.is_dir() for path in paths]
        assert [name for name in names if not any(fnmatch(name, one) for one in named)] == []


def test_every_key_of_a_recipe_has_a_meaning(pages: ModuleType) -> None:
    for owner in (pages.Training, *(task.data_class for task in pages.TASKS.values())):
        assert pages.documented(owner).keys() >= set(owner.__dataclass_fields__), owner


def test_every_public_name_is_documented_and_in_the_reference() -> None:
    page = (REFERENCE / "api.md").read_text(encoding="utf-8")
    assert {name for name in attnzoo.__all__ if not re.search(rf"auto\w+:: attnzoo\.{name}\n", page)} == set()
    assert all(getattr(attnzoo, name).__doc__ for name in attnzoo.__all__)
