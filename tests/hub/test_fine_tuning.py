"""Every family is pulled, fine-tuned by its Trainer, which pushes during the training, and pulled again.

One process trains all of them; another one, with its own home, pulls the results.
"""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.factory import KINDS, auto_class_of, save_folder
from tests.hub.client import environment, run_python
from tests.hub.server import OWNER, LoopbackHub

pytestmark = pytest.mark.hub
TUNED = ("attentional-rnn", "self-attentive", "transformer-encoder-decoder")
TUNED += ("transformer-causal", "transformer-masked", "transformer-classifier")
AUTO = {kind: auto_class_of(kind).__name__ for kind in TUNED}
COMPUTE = """
import json
import sys
from pathlib import Path

import attnzoo
import torch
import transformers
from safetensors.torch import save_file
from tests.factory import aligned, batch_for, make_model, make_trainer

autos, home = json.loads(sys.argv[1]), Path(sys.argv[2])


def save_logits(model, name):
    with torch.no_grad():
        save_file({"logits": aligned(model).eval()(**batch_for(model)).logits}, home / f"{name}.safetensors")
"""
FINE_TUNE = """
for kind, auto in autos.items():
    model = getattr(transformers, auto).from_pretrained(f"zoo/{kind}")
    save_logits(model, f"{kind}-before")
    settings = {"push_to_hub": True, "hub_model_id": f"zoo/{kind}-tuned", "hub_strategy": "every_save"}
    settings |= {"save_strategy": "steps", "save_steps": 2, "max_steps": 4, "hub_always_push": True}
    trainer = make_trainer(model, home / kind, learning_rate=0.05, **settings)
    trainer.train()
    print(kind, trainer.push_to_hub(commit_message="Fine-tuned").oid)
    save_logits(model, f"{kind}-tuned")
"""
# The Hub refuses every commit to this repository.
FINE_TUNE += """
settings = {"push_to_hub": True, "hub_model_id": "zoo/silent", "hub_strategy": "every_save"}
trainer = make_trainer(
    make_model("self-attentive"), home / "silent", save_strategy="steps", save_steps=1, **settings
)
trainer.train()
background = [type(job.exception()).__name__ for job in trainer.push_in_progress.jobs]
silent = {"steps": trainer.state.global_step, "background": background}
try:
    trainer.push_to_hub()
except Exception as error:
    silent["last"] = str(error).splitlines()[0]
(home / "silent.json").write_text(json.dumps(silent))
"""
PULL = """
for kind, auto in autos.items():
    save_logits(getattr(transformers, auto).from_pretrained(f"zoo/{kind}-tuned"), f"{kind}-pulled")
    assert len(transformers.AutoTokenizer.from_pretrained(f"zoo/{kind}-tuned")) > 26
"""


@pytest.fixture(scope="module")
def home(hub: LoopbackHub, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logits before and after the training, and those of the pulled model."""
    home = tmp_path_factory.mktemp("tuned")
    hub.fail("POST", "zoo/silent/commit", "refuse", times=1000, status=503)
    for kind in AUTO:
        folder = save_folder(kind, home / f"original-{kind}", seed=list(KINDS).index(kind))
        hub.put(f"zoo/{kind}", {path.name: path.read_bytes() for path in folder.iterdir()})
    for place, program in (("train", FINE_TUNE), ("pull", PULL)):
        there = environment(hub.endpoint, home / f"home-{place}", OWNER if place == "train" else None, xet=False)
        ended = run_python("-c", COMPUTE + program, json.dumps(AUTO), str(home), environment=there)
        assert ended.returncode == 0, ended.stderr[-3000:]
    return home


@pytest.mark.parametrize("kind", AUTO)
def test_what_was_fine_tuned_is_what_is_pulled(kind: str, hub: LoopbackHub, home: Path) -> None:
    before, tuned, pulled = (
        load_file(home / f"{kind}-{of}.safetensors")["logits"] for of in ("before", "tuned", "pulled")
    )
    assert torch.equal(pulled, tuned)
    assert not torch.allclose(tuned, before, atol=1e-2)
    titles = [commit.title for commit in hub.repository(f"zoo/{kind}-tuned").history("main")]
    assert titles[0] == "Fine-tuned"
    # Steps may be faster than pushes: one that finds its files on the Hub already, of a later step, makes no commit.
    assert {"Training in progress, step 2", "Training in progress, step 4"} & set(titles)


def test_a_push_in_the_background_fails_in_silence_and_the_last_one_aloud(hub: LoopbackHub, home: Path) -> None:
    silent = json.loads((home / "silent.json").read_text())
    assert silent["steps"] == 1
    assert silent["background"] == ["HfHubHTTPError"]
    assert "503" in silent["last"]
    assert [commit.title for commit in hub.repository("zoo/silent").history("main")] == ["initial commit"]
