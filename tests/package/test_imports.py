"""``import attnzoo`` is cheap, and what it registers is there at the first use, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import attnzoo
from tests.hub.client import run_python
from tests.package.test_layers import PACKAGE

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "model_cards" / "attentional-rnn-g2p-cmudict"

CHECK_REGISTRIES = f"""
from transformers import AutoConfig, AutoModelForSeq2SeqLM, pipelines
config = AutoConfig.from_pretrained({str(FOLDER)!r})
assert type(config) is attnzoo.AttentionalRNNConfig
assert config.custom_pipelines == {{}}
assert AutoModelForSeq2SeqLM._model_mapping[type(config)] is attnzoo.AttentionalRNNForConditionalGeneration
assert pipelines.PIPELINE_REGISTRY.check_task("machine-translation")[1]["impl"].__module__ == "attnzoo.pipelines"
"""


def test_importing_the_package_imports_nothing_heavy() -> None:
    """And the command loads no code that only some of its users need."""
    code = "import torch, transformers, sys; before = set(sys.modules); import attnzoo"
    code += "\nprint(*set(sys.modules) - before); import attnzoo.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    package, command = done.stdout.splitlines()
    names = [name for name in package.split() if name.split(".")[0] in ("attnzoo", "torch", "transformers")]
    assert sorted(names) == ["attnzoo", "attnzoo.registration"]
    assert not [name for name in command.split() if name.startswith(("attnzoo.training", "attnzoo.pronunciation"))]


FIRST_USES = {
    "pipeline": f"transformers.pipeline('grapheme-to-phoneme', model={str(FOLDER)!r})('zoo')\n"
    "import importlib; importlib.reload(transformers.pipelines)",
    "threads": "from concurrent.futures import ThreadPoolExecutor as Threads\n"
    f"with Threads(4) as pool: [*pool.map(transformers.AutoModel.from_pretrained, 4 * [{str(FOLDER)!r}])]",
    "pickle": "import pickle; assert pickle.loads(pickle.dumps(attnzoo.search)) is attnzoo.search\n"
    "from attnzoo import *; pickle.loads(pickle.dumps(SelfAttentiveConfig(vocab_size=9)))",
    # These import a registry while they run, and what is registered imports them.
    "own": "import attnzoo.recurrent_encoder",
    "library": "import transformers.modeling_layers",
}
REGISTRIES_FIRST = "from transformers import AutoModel, pipeline"


def test_everything_is_registered_at_the_first_use_and_registries_that_are_there_are_used() -> None:
    codes = {name: f"import attnzoo, transformers\n{code}\n{CHECK_REGISTRIES}" for name, code in FIRST_USES.items()}
    codes["registries first"] = f"{REGISTRIES_FIRST}\nimport attnzoo\n{CHECK_REGISTRIES}"
    for name, code in codes.items():
        ended = run_python("-c", code, environment=dict(os.environ))
        assert ended.returncode == 0, f"{name}: {ended.stderr}"


def test_the_public_names_are_listed_once_for_each_reader() -> None:
    assert set(attnzoo.__all__) == set(attnzoo.MODULES) <= set(dir(attnzoo))
    modules = {path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in PACKAGE}
    for name, module in attnzoo.MODULES.items():
        assert f"attnzoo.{module}" in modules
        assert getattr(attnzoo, name).__name__ == name
    assert attnzoo.attention.__name__ == "attnzoo.attention"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="module 'attnzoo' has no attribute 'serach'"):
        attnzoo.serach  # type: ignore[attr-defined]  # noqa: B018
