"""The rules that hold the house up: who may import whom, and what the Hub's code upload can follow."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = sorted((ROOT / "attnzoo").glob("*.py"))
# What a user of the Hub's copy of the code has besides the files themselves.
LIBRARIES = {"torch", "transformers", "huggingface_hub", "safetensors", "matplotlib"}
STANDARD = {
    "argparse",
    "importlib",
    "collections",
    "copy",
    "dataclasses",
    "difflib",
    "functools",
    "html",
    "inspect",
    "math",
    "pathlib",
    "typing",
}
STANDARD |= {"contextlib", "filecmp", "fnmatch", "json", "os", "re", "shutil", "subprocess", "sys", "tempfile"}
STANDARD |= {"urllib", "warnings"}
PROGRAMS = {"cli", "sample_outputs"}  # run by themselves: to them the package is a library
# A file may import from the rows above its own.
LAYERS = [
    {
        "attention",
        "folder_contents",
        "config_checks",
        "loss",
        "fused_cells",
        "from_paper",
        "model_inputs",
        "phonemes",
        "repeated_product",
        "safetensors_model",
        "sample_outputs",
    },
    {
        "recurrent_cells",
        "fused_attention",
        "configuration_attentional_rnn",
        "configuration_self_attentive",
        "configuration_small_transformer",
    },
    {"recurrent_encoder", "fused_decoder", "transformer_layers"},
    {"recurrent_decoder", "transformer_stack"},
    {"modeling_attentional_rnn", "modeling_self_attentive", "modeling_small_transformer"},
    {"recurrent_steps", "transformer_steps"},
    {"alignment", "decoding", "plots"},
    {"pipelines"},
    {"installed_pipelines", "model_code"},
    {"hub"},
    {"shipped_models"},
    {"__init__"},
    {"cli"},
]


def imports(path: Path) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.level, node.module or ""))
    return found


def layer_of(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


@pytest.mark.parametrize("path", PACKAGE, ids=lambda path: path.stem)
def test_package_is_flat_and_layered(path: Path) -> None:
    for level, module in imports(path):
        if level == 0:
            libraries = LIBRARIES | STANDARD | ({"attnzoo"} if path.stem in PROGRAMS else set())
            assert module.split(".")[0] in libraries, f"{path.name} imports {module}"
        else:
            assert level == 1, f"{path.name}: the Hub upload follows only 'from .sibling import Name'"
            assert module, f"{path.name}: 'from . import' loses the file"
            assert "." not in module, f"{path.name}: {module} is in a subfolder"
            assert layer_of(module) < layer_of(path.stem), f"{path.name} imports {module}, of its own layer or above"


@pytest.mark.parametrize("path", PACKAGE, ids=lambda path: path.stem)
def test_package_loads_no_pickle(path: Path) -> None:
    """Which ``test_package_is_flat_and_layered`` refuses to import; torch and numpy load them, too."""
    calls = [ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    assert not {"torch.load", "numpy.load", "np.load"} & set(calls)


@pytest.mark.parametrize("name", ["attention", "loss"])
def test_the_equations_know_torch_alone(name: str) -> None:
    modules = {module.split(".")[0] for _, module in imports(ROOT / "attnzoo" / f"{name}.py")}
    assert modules <= {"torch", "math", "typing"}


@pytest.mark.parametrize("path", sorted((ROOT / "training").rglob("*.py")), ids=lambda path: path.stem)
def test_training_uses_only_what_the_package_shows(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "attnzoo":
            assert not any(alias.name.startswith("_") for alias in node.names)


def test_no_module_is_loaded_under_two_names() -> None:
    """training/ is ``attnzoo.training``, in the checkout too: a second copy would have classes and state of its own."""
    for path in sorted(ROOT.glob("**/*.py")):
        if path.relative_to(ROOT).parts[0].startswith((".", "build", "runs")):
            continue
        names = [module.split(".")[0] for level, module in imports(path) if level == 0]
        assert not {"training", "configs"} & {*names}, f"{path} imports training/ by another name than attnzoo.training"
    assert not [name for name in sys.modules if name.split(".")[0] in ("training", "configs")]
