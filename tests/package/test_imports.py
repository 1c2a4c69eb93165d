"""``import attnzoo`` is quick, and what it registers is available at the first use, in a separate process."""

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
    code = "import torch, transformers, sys; old = set(sys.modules); import attnzoo; print(*set(sys.modules) - old)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    names = [name for name in done.stdout.split() if name.split(".")[0] in ("attnzoo", "torch", "transformers")]
    assert sorted(names) == ["attnzoo", "attnzoo.registration"]


def run(code: str) -> str:
    ended = run_python("-c", code, environment=dict(os.environ))
    assert ended.returncode == 0, f"{ended.stderr}\nin\n{code}"
    return ended.stdout


def test_importing_the_command_loads_no_code_that_only_some_need() -> None:
    names = run("import sys, attnzoo.cli; print(*sys.modules)").split()
    assert "attnzoo.cli" in names
    assert not [name for name in names if name.startswith(("attnzoo.training", "attnzoo.pronunciation"))]


FIRST_USES = [
    f"transformers.pipeline('grapheme-to-phoneme', model={str(FOLDER)!r})('zoo')\n"
    "import importlib; importlib.reload(transformers.pipelines)",
    "from concurrent.futures import ThreadPoolExecutor as Threads\n"
    f"with Threads(4) as pool: [*pool.map(transformers.AutoModel.from_pretrained, 4 * [{str(FOLDER)!r}])]",
    "import pickle; assert pickle.loads(pickle.dumps(attnzoo.search)) is attnzoo.search\n"
    "from attnzoo import *; pickle.loads(pickle.dumps(SelfAttentiveConfig(vocab_size=9)))",
    # These import a registry while they run, and what is registered imports them.
    "import attnzoo.recurrent_encoder",
    "import transformers.modeling_layers",
]


def test_everything_is_registered_at_the_first_use_and_registries_that_are_there_are_used() -> None:
    codes = [f"import attnzoo, transformers\n{code}" for code in FIRST_USES]
    codes.append("from transformers import AutoModel, pipeline\nimport attnzoo")
    for code in codes:
        run(f"{code}\n{CHECK_REGISTRIES}")


def test_the_public_names_are_listed_once_for_each_reader() -> None:
    assert set(attnzoo.__all__) == set(attnzoo.MODULES) <= set(dir(attnzoo))
    modules = {path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in PACKAGE}
    for name, module in attnzoo.MODULES.items():
        assert f"attnzoo.{module}" in modules
        assert getattr(attnzoo, name).__name__ == name
    assert attnzoo.attention.__name__ == "attnzoo.attention"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="module 'attnzoo' has no attribute 'serach'"):
        attnzoo.serach  # type: ignore[attr-defined]  # noqa: B018
