"""Rules of imports: which file may import which, and which imports the Hub's code upload can follow."""

import ast
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = sorted((ROOT / "attnzoo").rglob("*.py"))
TRAINING = ROOT / "training"
FLAT = {path.stem: path for path in (ROOT / "attnzoo").glob("*.py")}
ROOMS = sorted(path.parent.name for path in (ROOT / "attnzoo").glob("*/__init__.py"))
TRAVELLING = {"torch", "transformers", "huggingface_hub", "safetensors"}  # what a user of the Hub's copy has
LIBRARIES = TRAVELLING | {"matplotlib"}
EXPORT = {"numpy", "onnx", "onnxruntime", "tokenizers", "ctranslate2"}  # of the room export alone
FIREFOX = {"numpy", "tokenizers", "yaml"}
BESIDE = {"run": {"array_search", "json_files"}}  # an exported folder holds these files, side by side
# The folders and flat files of training/: each imports only those before it.
ORDER = ["commands", "markdown", "architecture", "statistics", "data", "tasks", "recipe", "loop", "record", "card"]
ORDER += ["evaluate", "train", "tune"]
ORDER += ["release", "publish", "zoo", "results", "studies", "make_data", "retrain", "english_weights"]
PROGRAMS = {"cli", "sample_outputs"}  # run by themselves: to them the package is a library


def nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    found = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.level, node.module or ""))
    return found


def travelling() -> set[str]:
    """The files that travel with a model: all files that models and pipelines import, directly or not."""
    found: set[str] = set()
    waiting = [name for name in FLAT if name.startswith("modeling_")] + ["pipelines", "pooling"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [module for level, module in imports(FLAT[name]) if level]
    return found


def test_the_code_that_travels_is_flat() -> None:
    """The Hub's upload follows ``from .sibling import Name`` alone, and models never import each other."""
    wrong = []
    for name in sorted(travelling()):
        for level, module in imports(FLAT[name]):
            is_sibling = level == 1 and module and "." not in module
            is_library = level == 0 and module.split(".")[0] in sys.stdlib_module_names | TRAVELLING
            are_models = name.startswith("modeling_") and module.startswith("modeling_")
            if not (is_sibling or is_library) or are_models:
                wrong.append(f"{name} imports {'.' * level}{module}")
    assert not wrong


def test_the_package_needs_neither_training_nor_its_libraries() -> None:
    foreign = []
    for path in PACKAGE:
        own = (
            {"attnzoo"}
            if path.stem in PROGRAMS
            else {"export": EXPORT, "firefox": FIREFOX, "grading": {"yaml"}}.get(path.parent.name, set())
        )
        known = sys.stdlib_module_names | LIBRARIES | own | BESIDE.get(path.stem, set())
        for level, module in imports(path):
            is_of_training = {"training", "configs"} & {*module.split(".")}
            if is_of_training or (level == 0 and module.split(".")[0] not in known):
                foreign.append(f"{path.name} imports {module}")
    assert not foreign


def test_the_package_has_no_circle_of_imports() -> None:
    """Flat files and folders have no cycle of imports; a folder counts as one unit."""
    needs: dict[str, set[str]] = {}
    for path in PACKAGE:
        parts = path.relative_to(ROOT / "attnzoo").parts
        name = parts[0].removesuffix(".py")
        if name != "__init__":
            siblings = {module.split(".")[0] for level, module in imports(path) if level == len(parts)}
            needs.setdefault(name, set()).update(siblings)
    while free := {name for name, needed in needs.items() if not needed & needs.keys()}:
        needs = {name: needed for name, needed in needs.items() if name not in free}
    assert not needs


@pytest.mark.parametrize("package", ["attnzoo", *(f"attnzoo.{room}" for room in ROOMS)])
def test_no_module_bears_the_name_of_a_public_function(package: str) -> None:
    parent = importlib.import_module(package)
    functions = {name for name in dir(parent) if inspect.isroutine(getattr(parent, name))}
    assert not functions & {module.name for module in pkgutil.iter_modules(parent.__path__)}


def test_package_loads_no_pickle() -> None:
    calls = [(path.name, node) for path in PACKAGE for node in nodes(path) if isinstance(node, ast.Call)]
    called = [(name, ast.unparse(node.func)) for name, node in calls]
    assert not [(name, call) for name, call in called if call in ("torch.load", "numpy.load", "np.load")]


@pytest.mark.parametrize("name", ["attention", "fast_additive", "library_internals", "loss"])
def test_the_equations_know_torch_alone(name: str) -> None:
    modules = {module.split(".")[0] for level, module in imports(FLAT[name]) if level == 0}
    siblings = {module for level, module in imports(FLAT[name]) if level}
    assert modules <= {"torch", "math", "numbers", "typing", "collections"}
    assert siblings <= {"library_internals", "fast_additive", "fast_products", "packed_rows", "step_products"}


def needed_units(path: Path) -> set[str]:
    """The folders and flat files of training/ that one of its files imports, except its own folder."""
    parts = path.relative_to(TRAINING).parts
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.level == len(parts):
            found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return found - {parts[0].removesuffix(".py")}


def test_every_part_of_training_imports_only_parts_before_it() -> None:
    """So there is no cycle; for example, data/ imports neither loop/ nor tasks/."""
    files = [path for path in sorted(TRAINING.rglob("*.py")) if path != TRAINING / "__init__.py"]
    units = {path: path.relative_to(TRAINING).parts[0].removesuffix(".py") for path in files}
    assert sorted(ORDER) == sorted({*units.values()})
    late = {
        f"{path.relative_to(TRAINING)} imports {other}"
        for path, unit in units.items()
        for other in needed_units(path)
        if ORDER.index(other) >= ORDER.index(unit)
    }
    assert not late
    for path in files:  # by its own name a module would escape needed_units
        assert not [module for level, module in imports(path) if level == 0 and module.startswith("attnzoo.training")]


def test_tasks_need_no_normaliser_of_english_texts() -> None:
    """Neither a task nor a file of training/data/ that it imports imports attnzoo.pronunciation."""
    waiting, seen = sorted((TRAINING / "tasks").glob("*.py")), set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        for level, module in imports(path):
            assert not module.startswith("attnzoo.pronunciation"), path.name
            file = path.parents[max(level, 1) - 1].joinpath(*module.split(".")).with_suffix(".py")
            waiting += [file] if level and file.is_file() and file not in seen else []
    assert TRAINING / "data" / "misaki.py" in seen


def test_training_uses_only_what_the_package_shows() -> None:
    of_package = [
        (path.name, alias.name)
        for path in TRAINING.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "attnzoo"
        for alias in node.names
    ]
    assert of_package
    assert not [(file, name) for file, name in of_package if name.startswith("_")]


def test_no_module_is_loaded_under_two_names() -> None:
    """training/ is ``attnzoo.training``, in the checkout too: a second copy would have classes and state of its own."""
    folders = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith((".", "build", "runs"))]
    for path in sorted([*ROOT.glob("*.py"), *(path for folder in folders for path in folder.rglob("*.py"))]):
        names = [module.split(".")[0] for level, module in imports(path) if level == 0]
        assert not {"training", "configs"} & {*names}, f"{path} imports training/ by another name than attnzoo.training"
    assert not [name for name in sys.modules if name.split(".")[0] in ("training", "configs")]


def test_contributing_names_every_flat_file() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    groups = ("configuration_", "modeling_", "transformer_")  # named by a pattern
    missing = [name for name in FLAT if name != "__init__" and not name.startswith(groups) and f"{name}.py" not in text]
    assert not missing
