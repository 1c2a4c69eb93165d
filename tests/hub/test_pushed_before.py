"""A repository that an earlier version pushed, with its code: it loads with the package and without it.

``pushed_before.zip`` is a tiny model with copying and coverage, saved by ``save_pretrained`` and ``add_code`` at commit
aeec336, with a batch (``inputs``) and the model's outputs for it at that commit (``outputs``).
"""

import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM

import attnzoo  # noqa: F401  # registers the models
from tests.hub.client import environment, run_python

WITHOUT_THE_PACKAGE = """
import sys
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM
folder = sys.argv[1]
model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
assert type(model).__module__.startswith("transformers_modules."), type(model)
torch.testing.assert_close(model(**load_file(f"{folder}/inputs")).logits, load_file(f"{folder}/outputs")["logits"])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("pushed_before.zip")) as archive:
        archive.extractall(tmp_path / "model")
    return tmp_path / "model"


def test_it_loads_with_the_package(folder: Path) -> None:
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    assert type(model).__module__ == "attnzoo.modeling_attentional_rnn"
    outputs, expected = model(**load_file(folder / "inputs")), load_file(folder / "outputs")
    torch.testing.assert_close(outputs.logits, expected["logits"])
    torch.testing.assert_close(outputs.loss, expected["loss"])


def test_it_loads_with_its_own_code(folder: Path, tmp_path: Path) -> None:
    offline = environment("http://127.0.0.1:1", tmp_path / "home", None, xet=False, HF_HUB_OFFLINE="1")
    ended = run_python("-c", WITHOUT_THE_PACKAGE, str(folder), environment=offline, cwd=tmp_path, without_attnzoo=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
