"""Pushed to a Hub on loopback and pulled from it, by the official client: the same logits, bit for bit.

Those who push and those who pull are fresh processes, and each has a home of its own where nothing is cached, so that
all that a pull reads crossed the wire; the Hub's log says so, too. A process goes through many repositories, for it
takes longer to start than all else together.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.factory import KINDS, save_folder
from tests.hub.client import ROOT, environment, run_python
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

# What a user does, with every repository and every Auto class that its family serves; without a revision the name is
# that of a folder before its push. Nothing of the project but the package is used.
PULL = """
import json
import sys

import torch
import transformers
from safetensors.torch import save_file

todo, package, output = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
if package == "attnzoo":
    import attnzoo
else:
    try:
        import attnzoo
        sys.exit("attnzoo can be imported here")
    except ImportError:
        pass
for name, revision, label, auto_classes in todo:
    options = {"trust_remote_code": package != "attnzoo"} | ({"revision": revision} if revision else {})
    config = transformers.AutoConfig.from_pretrained(name, **options)
    tokenizer = transformers.AutoTokenizer.from_pretrained(name, **options)
    texts = ["attention"] * (2 if getattr(config, "sentence_pair", False) else 1)
    inputs = tokenizer(*texts, return_tensors="pt")
    if config.model_type != "self_attentive":
        inputs.pop("token_type_ids", None)
    target = {"decoder_input_ids": inputs["input_ids"][:, :4]} if config.is_encoder_decoder else {}
    found = {"input_ids": inputs["input_ids"]}
    for auto in auto_classes:
        torch.manual_seed(0)  # for the weights of a head that the repository lacks
        model = getattr(transformers, auto).from_pretrained(name, **options)
        assert type(model).__module__.startswith("attnzoo." if package == "attnzoo" else "transformers_modules.")
        assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
        with torch.no_grad():
            found[auto] = model(**inputs, **target)[0].contiguous()
        if model.can_generate():
            found["generated"] = model.generate(**inputs, max_new_tokens=5).contiguous()
    save_file(found, f"{output}/{label}.safetensors")
"""


@pytest.fixture
def hub() -> Iterator[LoopbackHub]:
    with loopback_hub() as running:
        yield running


def folders(which: str, home: Path) -> dict[str, Path]:
    """One of every family, as it ships or, where none does yet, as a tiny model; or all the others."""
    every = {path.name: path for path in CARDS}
    every |= {kind: save_folder(kind, home / kind) for kind in KINDS}
    first: dict[str, str] = {}
    for name, folder in every.items():
        first.setdefault(json.loads((folder / "config.json").read_text())["model_type"], name)
    assert first.keys() == {family for family, _ in SERVED}
    return {name: path for name, path in every.items() if (name in first.values()) == (which == "families")}


@pytest.mark.parametrize("which", ["families", pytest.param("others", marks=pytest.mark.hub)])
@pytest.mark.parametrize("xet", [False, True], ids=["LFS", "Xet"])
def test_pushed_and_pulled_with_the_package_and_without(
    which: str, xet: bool, hub: LoopbackHub, tmp_path: Path
) -> None:
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
        assert {path.name for path in folder.iterdir()} <= pushed.keys()
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
        """In a home of its own, and in another folder than the project's there is no attnzoo."""
        (tmp_path / place).mkdir()
        with_package = package == "attnzoo"
        ended = run_python(
            *("-c", PULL, json.dumps(todo), package, str(tmp_path / place)),
            environment=environment(hub.endpoint, tmp_path / f"home of {place}", None, xet),
            cwd=ROOT if with_package else tmp_path,
            without_attnzoo=not with_package,
        )
        assert ended.returncode == 0, ended.stderr[-3000:]

    pull("local", [(str(folder), "", name, served[name]) for name, folder in chosen.items()], "attnzoo")
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
