"""Pushed to a Hub on loopback and pulled from it, by the official client: the same logits, bit for bit.

Every process is a fresh one, and has a home of its own where nothing is cached, so that all that a pull reads crossed
the wire; the Hub's log says so, too.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from .client import ROOT, environment, run_python
from .server import OWNER, LoopbackHub, loopback_hub

FOLDERS = sorted(path for path in (ROOT / "model_cards").iterdir() if path.is_dir())
# One of every family at every `make test`, the others with `make test-hub`.
FIRST = {json.loads((path / "config.json").read_text())["model_type"]: path for path in reversed(FOLDERS)}
CHOSEN = [pytest.param(f, id=f.name, marks=[] if f in FIRST.values() else [pytest.mark.hub]) for f in FOLDERS]
# What the Auto classes find for a config of every family.
SERVED = {"attentional_rnn": {"AutoModel", "AutoModelForSeq2SeqLM"}}

# What a user does; with "local" it is the folder before its push. Nothing of the project but the package is used.
PULL = """
import sys
import torch
import transformers
from safetensors.torch import save_file

name, revision, package, auto_classes, output = sys.argv[1:]
if package == "attnzoo":
    import attnzoo
else:
    try:
        import attnzoo
        sys.exit("attnzoo can be imported here")
    except ImportError:
        pass
options = {"trust_remote_code": package != "attnzoo"} | ({"revision": revision} if revision else {})
config = transformers.AutoConfig.from_pretrained(name, **options)
tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)
ids = torch.arange(12).remainder(len(tokenizer)).view(2, 6)
inputs = {"input_ids": ids} | ({"decoder_input_ids": ids[:, :4]} if config.is_encoder_decoder else {})
found = {}
for auto in auto_classes.split():
    model = getattr(transformers, auto).from_pretrained(name, **options)
    with torch.no_grad():
        found[auto] = model(**inputs)[0].contiguous()
    if model.can_generate():
        found["generated"] = model.generate(**tokenizer(["attention"], return_tensors="pt"))
if package != "attnzoo" and getattr(config, "custom_pipelines", None):
    pipe = transformers.pipeline(model=name, trust_remote_code=True, **({"revision": revision} if revision else {}))
    print(pipe("Attention", n_best=2)[0])
save_file(found, output)
print(type(model).__module__)
"""


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with loopback_hub() as running:
        yield running


@pytest.mark.parametrize("folder", CHOSEN)
@pytest.mark.parametrize("xet", [False, True], ids=["LFS", "Xet"])
def test_pushed_and_pulled_with_the_package_and_without(
    folder: Path, xet: bool, hub: LoopbackHub, tmp_path: Path
) -> None:
    name = f"zoo/{folder.name}-{xet}".lower()
    weights = (folder / "model.safetensors").stat().st_size

    def run(*arguments: str, place: str, token: str | None = None, cwd: Path | None = None) -> str:
        """In a home of its own; in another folder than the project's there is no attnzoo."""
        there = environment(hub.endpoint, tmp_path / place, token, xet)
        ended = run_python(*arguments, environment=there, cwd=cwd or ROOT, without_attnzoo=cwd is not None)
        assert ended.returncode == 0, ended.stderr[-3000:]
        return ended.stdout

    said = run(
        "-m",
        "training.publish",
        str(folder.relative_to(ROOT)),
        name,
        "--code",
        "--revision",
        "main",
        place="push",
        token=OWNER,
    )
    assert "checksums and logits as in" in said
    repository = hub.repository(name)
    assert [commit.title for commit in repository.history("main")] == ["Upload model", "initial commit"]
    pushed = repository.resolve("main").files
    assert {path.name for path in folder.iterdir()} <= pushed.keys()
    assert pushed["model.safetensors"].size == weights
    card = hub.hub.contents[pushed["README.md"].oid].decode()
    assert f'from_pretrained("{name}")' in card
    config = json.loads(hub.hub.contents[pushed["config.json"].oid])
    assert config["auto_map"].keys() == {"AutoConfig"} | SERVED[config["model_type"]]
    auto_classes = " ".join(sorted(SERVED[config["model_type"]]))
    repository.tags["v1"] = repository.resolve("main").oid

    run("-c", PULL, str(folder), "", "attnzoo", auto_classes, str(tmp_path / "local"), place="local")
    expected = load_file(tmp_path / "local")
    for place, revision, package in (("with", "main", "attnzoo"), ("without", "v1", "none")):
        before = len(hub.log)
        cwd = None if package == "attnzoo" else tmp_path
        said = run("-c", PULL, name, revision, package, auto_classes, str(tmp_path / "out"), place=place, cwd=cwd)
        found = load_file(tmp_path / "out")
        assert expected.keys() == found.keys()
        for key, tensor in expected.items():
            assert torch.equal(tensor, found[key]), f"{key} {place}: {(tensor - found[key]).abs().max()}"
        assert ("transformers_modules" in said) == (package == "none")
        large = [c for c in hub.log[before:] if c.method == "GET" and c.path.startswith(("/large/", "/xorbs/"))]
        assert weights * 0.9 < sum(call.bytes_out for call in large) < 2 * weights
        assert not any(call.has_token for call in large)
        assert all(call.path.startswith("/xorbs/") == xet for call in large)
        repository.commit("main", "nothing left", "zoo", {}, new_pull_request=False)  # the tag stays where it is
    if "- grapheme-to-phoneme" in card:  # the pipeline came with the code
        assert "'pronunciation': 'AH T EH N SH AH N'" in said
    (upload,) = [call for call in hub.log if call.bytes_in > weights / 2]
    assert upload.path.startswith("/cas/v1/xorbs/" if xet else "/upload/")
