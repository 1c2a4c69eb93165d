"""Models are pushed to a Hub on loopback and pulled from it by the official client: the same logits, bit for bit.

Pushes and pulls run in fresh processes. Each has its own home, in which nothing is cached, so everything that a pull
reads was downloaded; the Hub's log is checked, too. Each process handles many repositories, since starting a process
takes longer than the rest.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from attnzoo import fast_products
from attnzoo.hub.verification import files_below
from tests.factory import KINDS, save_folder
from tests.hub import pull as pull_program
from tests.hub.client import ROOT, environment, run_python
from tests.hub.pull import save_outputs
from tests.hub.server import OWNER, LoopbackHub, loopback_hub

CARDS = sorted(path for path in (ROOT / "model_cards").iterdir() if path.is_dir())
# What the Auto classes find for a config, by its family and pattern.
CLASSIFIER, TAGGER = "AutoModelForSequenceClassification", "AutoModelForTokenClassification"
SERVED = {
    ("attentional_rnn", None): {"AutoModel", "AutoModelForSeq2SeqLM"},
    ("self_attentive", None): {"AutoModel", CLASSIFIER},
    ("small_transformer", "encoder_decoder"): {"AutoModel", "AutoModelForSeq2SeqLM"},
    ("small_transformer", "causal"): {"AutoModel", "AutoModelForCausalLM", CLASSIFIER, TAGGER},
    ("small_transformer", "bidirectional"): {"AutoModel", "AutoModelForMaskedLM", CLASSIFIER, TAGGER},
}
# Which pipelines travel, by a tag of the card.
PIPELINES = {"- grapheme-to-phoneme\n": "grapheme-to-phoneme", "- translation\n": "machine-translation"}
PIPELINES["- summarization\n"] = "text-summarization"


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    """An empty Hub for every test."""
    with loopback_hub() as running:
        yield running


def folders(which: str, home: Path) -> dict[str, Path]:
    """Of all shipped models and one tiny model of every kind: one, the first of each family, or the others."""
    every = {path.name: path for path in CARDS}
    every |= {kind: save_folder(kind, home / kind) for kind in KINDS}
    first: dict[str, str] = {}
    for name, folder in every.items():
        first.setdefault(json.loads((folder / "config.json").read_text())["model_type"], name)
    assert first.keys() == {family for family, _ in SERVED}
    families = [*first.values()]
    others = [name for name in every if name not in families]
    chosen = {"one": families[:1], "families": families, "others": others}[which]
    return {name: every[name] for name in chosen}


@pytest.mark.parametrize(
    ("which", "xet"),
    [
        ("one", False),
        pytest.param("families", False, marks=pytest.mark.hub),
        pytest.param("others", False, marks=pytest.mark.hub),
        pytest.param("families", True, marks=pytest.mark.hub),
    ],
)
def test_pushed_and_pulled_with_the_package_and_without(
    which: str, xet: bool, hub: LoopbackHub, tmp_path: Path
) -> None:
    """Large files are sent through LFS or through Xet."""
    chosen = folders(which, tmp_path)
    served = {}
    for name, folder in chosen.items():
        config = json.loads((folder / "config.json").read_text())
        served[name] = sorted(SERVED[config["model_type"], config.get("attention_pattern")])

    push = "import sys\nfrom attnzoo.training.publish import main\nfor line in sys.argv[1:]:\n    main(line.split('|'))"
    lines = [f"{folder}|zoo/{name}|--code|--revision|main" for name, folder in chosen.items()]
    there = environment(hub.endpoint, tmp_path / "push", OWNER, xet)
    ended = run_python("-c", push, *lines, environment=there)
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert ended.stdout.count("bytes and logits as in") == len(chosen)
    for name, folder in chosen.items():
        repository = hub.repository(f"zoo/{name}")
        assert [commit.title for commit in repository.history("main")] == ["Upload model", "initial commit"]
        pushed = repository.resolve("main").files
        assert {*files_below(folder)} <= pushed.keys()
        card = hub.hub.contents[pushed["README.md"].oid].decode()
        assert f'"zoo/{name}"' in card
        assert folder.as_posix() not in card
        config = json.loads(hub.hub.contents[pushed["config.json"].oid])
        assert config["auto_map"].keys() == {"AutoConfig", *served[name]}
        assert set(config.get("custom_pipelines", {})) == {task for tag, task in PIPELINES.items() if tag in card}
        repository.tags["v1"] = repository.resolve("main").oid
        repository.commit("main", "nothing left", "zoo", {}, new_pull_request=False)  # the tag stays where it is
        repository.branches["stable"] = repository.tags["v1"]

    least = sum((folder / "model.safetensors").stat().st_size for folder in chosen.values()) / 2  # Xet compresses
    uploads = {path: sum(c.bytes_in for c in hub.calls(*path)) for path in (("POST", "/xorbs/"), ("PUT", "/upload/"))}
    assert uploads.pop(("POST", "/xorbs/") if xet else ("PUT", "/upload/")) > least
    assert [*uploads.values()] == [0]

    def pull(place: str, todo: list[tuple[str, str, str, list[str]]], package: str) -> None:
        """Pull with its own home, in a folder from which attnzoo cannot be imported unless it is installed.

        oneDNN and BLAS round differently, and each process would choose one by a measurement, so all use BLAS here.
        """
        (tmp_path / place).mkdir()
        with_package = package == "attnzoo"
        ended = run_python(
            *("-P", pull_program.__file__, json.dumps(todo), package, str(tmp_path / place)),
            environment=environment(hub.endpoint, tmp_path / f"home of {place}", None, xet, ATTNZOO_ONEDNN="0"),
            cwd=ROOT if with_package else tmp_path,
            without_attnzoo=not with_package,
        )
        assert ended.returncode == 0, ended.stderr[-3000:]

    (tmp_path / "local").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_products, "onednn_is_faster", lambda: False)
        here = [(str(folder), "", name, served[name]) for name, folder in chosen.items()]
        save_outputs(here, "attnzoo", tmp_path / "local")
    for place, revision, package in (("with", "stable", "attnzoo"), ("without", "v1", "none")):
        before = len(hub.log)
        pull(place, [(f"zoo/{name}", revision, name, served[name]) for name in chosen], package)
        for name in chosen:
            expected, found = (load_file(tmp_path / of / f"{name}.safetensors") for of in ("local", place))
            assert expected.keys() == found.keys() >= {*served[name]}
            for key, tensor in expected.items():
                assert torch.equal(tensor, found[key]), f"{name}, {key}, {place}"
        large = [c for c in hub.log[before:] if c.method == "GET" and c.path.startswith(("/large/", "/xorbs/"))]
        assert least < sum(call.bytes_out for call in large) < 4 * least
        assert not any(call.has_token for call in large)
        assert all(call.path.startswith("/xorbs/") == xet for call in large)
