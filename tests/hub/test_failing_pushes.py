"""Failing pushes raise an error with a clear message, and leave the repository unchanged."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2ForSequenceClassification,
    RobertaConfig,
    RobertaForMaskedLM,
)

from attnzoo import fast_products
from attnzoo.hub import push, sample_outputs, verify
from attnzoo.hub.model_code import add_code
from attnzoo.hub.verification import require_same_outputs
from tests.factory import TOKENIZER
from tests.hub.attempts import Attempts, attempt, files_of, push_of
from tests.hub.server import OWNER, READER, LoopbackHub, loopback_hub

MakeFolder = Callable[[int], Path]
NOT_SENT = "cannot be loaded and run on a short text, and is not sent"


def truncate(folder: Path) -> None:
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[: len(content) // 2])


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def write_index(folder: Path, places: dict[str, str]) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def lose_a_shard(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    shards = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    save_file({name: weights[name] for name in list(weights)[::2]}, folder / shards[0], {"format": "pt"})
    write_index(folder, {name: shards[at % 2] for at, name in enumerate(weights)})
    (folder / "model.safetensors").unlink()


def put_the_shards_below(folder: Path) -> None:
    """Move shards into a subfolder. The folder's index finds them, but subfolders are not pushed."""
    (folder / "shards").mkdir()
    write_index(folder, dict.fromkeys(load_file(folder / "model.safetensors"), "shards/model.safetensors"))
    (folder / "model.safetensors").rename(folder / "shards" / "model.safetensors")
    save_file({}, folder / "model-00001-of-00002.safetensors")


def name_other_code(folder: Path) -> None:
    entries = {"model_type": "other", "auto_map": {"AutoTokenizer": ["other.Tokenizer", None]}}
    (folder / "config.json").write_text(json.dumps(entries))


def spoil_the_config(folder: Path) -> None:
    entries = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(entries | {"decoder_hidden_size": "wide"}))


def keep_an_adapter_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "config.json").rename(folder / "adapter_config.json")


def link_out(folder: Path, name: str = "tokenizer.json", steps: int = 1) -> None:
    """A chain of links out of the folder: each except the last points to the next one in the folder."""
    outside = folder.parent / f"{folder.name}.outside"
    outside.write_text("a secret")
    links = [folder / name, *(folder / f"step {step}" for step in range(1, steps))]
    for link, target in zip(links, [*links[1:], outside], strict=True):
        link.symlink_to(target)


def link_in_a_ring(folder: Path) -> None:
    (folder / "vocab.txt").symlink_to(folder / "merges")
    (folder / "merges").symlink_to(folder / "vocab.txt")


def name_a_base(folder: Path, base: str) -> None:
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))


# What a folder may lack or have too much, and what is said of it.
SPOILED: dict[str, tuple[Callable[[Path], object], str]] = {
    "pickle alone": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        "has no safetensors of a model; write it with save_pretrained",
    ),
    "optimiser alone": (
        lambda folder: (folder / "model.safetensors").rename(folder / "optimizer.safetensors"),
        "has no safetensors of a model; write it with save_pretrained",
    ),
    "no card": (
        lambda folder: (folder / "README.md").unlink(),
        "has no README.md; a model is pushed with its config and its card",
    ),
    "no metadata": (
        lambda folder: (folder / "README.md").write_text("---\n- a: [\n---\n"),
        "README.md is not a valid card: ",
    ),
    "truncated": (truncate, f"{NOT_SENT}: the weights of"),
    "missing shard": (lose_a_shard, f"{NOT_SENT}: "),
    "shards below": (put_the_shards_below, f"{NOT_SENT}: "),
    "missing weight": (
        lambda folder: change_weights(folder, lambda weights: weights.pop("lm_head.weight")),
        f"{NOT_SENT}: its files lack 1 of its weights, such as lm_head.weight",
    ),
    "no number": (
        lambda folder: change_weights(folder, lambda weights: weights["lm_head.weight"].fill_(torch.nan)),
        f"{NOT_SENT}: its outputs are NaN (not a number)",
    ),
    "invalid config": (spoil_the_config, f"{NOT_SENT}: "),
    "other code": (name_other_code, "runs code of its own; push sends those of attnzoo and Transformers"),
    "tokenizer": (
        lambda folder: (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}'),
        f"{NOT_SENT}: ",
    ),
    "no JSON": (
        lambda folder: (folder / "generation_config.json").write_text("{"),
        "generation_config.json is not a model's JSON",
    ),
    "link to nothing": (
        lambda folder: (folder / "tokenizer.json").symlink_to(folder / "gone"),
        "has links that lead nowhere: tokenizer.json",
    ),
    "link out": (link_out, "has links that lead out of it: tokenizer.json -> "),
    "chain of links out": (
        lambda folder: link_out(folder, "vocab.txt", 11),
        "has links that lead out of it: vocab.txt -> ",
    ),
    "ring of links": (link_in_a_ring, "has links that lead nowhere: vocab.txt"),
    "base model of this machine": (
        lambda folder: name_a_base(folder, str(folder)),
        "not an id on the Hub; give the base model's id there",
    ),
    "base model behind a password": (
        lambda folder: name_a_base(folder, "https://me:sekret@example.org/base"),
        "has base_model_name_or_path='example.org/base', not an id on the Hub",
    ),
    "adapter only": (keep_an_adapter_only, "has no config.json; a model is pushed with its config and its card"),
}


@pytest.fixture(scope="module")
def pushed(hub: LoopbackHub, make_folder: MakeFolder, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = make_folder(1)
    hub.put("zoo/public", {"README.md": b"# old"})
    hub.put("stranger/theirs", {"README.md": b"# old"})
    hub.put("stranger/gated", {"README.md": b"# old"})
    hub.fail("GET", "stranger/gated/auth-check", "refuse", status=403, code="GatedRepo")
    hub.fail("GET", "zoo/failing/auth-check", "refuse", status=503)
    hub.fail("GET", "zoo/unseen$", "refuse", status=500)
    hub.fail("POST", "zoo/refused/commit", "refuse", status=503)
    hub.fail("POST", "zoo/forbidden/commit", "refuse", status=403)
    hub.fail("POST", "zoo/late/commit", "refuse", status=412)
    hub.fail("POST", "/api/validate-yaml", "refuse", status=400)  # the next card that arrives
    hub.put("zoo/secret", {"README.md": b"# old"}, private=True)
    attempts: Attempts = {
        "no token": push_of(folder, "zoo/new", token=None),
        "unknown token": push_of(folder, "zoo/new", token="hf_nobody"),
        "read-only token": push_of(folder, "zoo/new", token=READER),
        "foreign namespace": push_of(folder, "stranger/new"),
        "foreign repository": push_of(folder, "stranger/theirs"),
        "bad id": push_of(folder, "zoo/a/b"),
        "no owner": push_of(folder, "new"),
        "pull request on nothing": push_of(folder, "zoo/new", create_pr=True),
        "pull request on gated": push_of(folder, "stranger/gated", create_pr=True),
        "pull request on no branch": push_of(folder, "stranger/theirs", create_pr=True, revision="none"),
        "public before": push_of(folder, "zoo/public", private=True),
        "private before": push_of(folder, "zoo/secret", private=False),
        "bad metadata": push_of(folder, "zoo/metadata"),
        "failing": push_of(folder, "zoo/failing"),
        "unseen": push_of(folder, "zoo/unseen"),
        "refused": push_of(folder, "zoo/refused"),
        "repeated": push_of(folder, "zoo/refused"),
        "again": push_of(folder, "zoo/refused"),
        "forbidden": push_of(folder, "zoo/forbidden"),
        "late": push_of(folder, "zoo/late"),
    }
    for name, (spoil, _) in SPOILED.items():
        spoil(spoiled := make_folder(1))
        attempts[name] = push_of(spoiled, "zoo/new")
    return attempt(hub.endpoint, tmp_path_factory.mktemp("home"), attempts)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no token", "PermissionError: there is no token; run `hf auth login`, or set HF_TOKEN"),
        ("unknown token", "PermissionError: the Hub does not know this token"),
        ("read-only token", "PermissionError: the token of zoo may only read; make one that may write"),
        (
            "foreign namespace",
            "PermissionError: there is no stranger/new, and zoo cannot make it; choose one of zoo, institute",
        ),
        (
            "foreign repository",
            "PermissionError: zoo may not write to stranger/theirs; push to a repository of your own",
        ),
        ("bad id", "ValueError: repo_id must be owner/name, got 'zoo/a/b': Repo id must be in the form"),
        ("no owner", "ValueError: repo_id='new' has no owner; write owner/new"),
        ("pull request on nothing", "FileNotFoundError: there is no zoo/new to open a pull request on"),
        ("pull request on gated", "PermissionError: stranger/gated is gated; ask for access on its page, as zoo"),
        ("pull request on no branch", "OSError: the push to stranger/theirs failed: 404"),
        ("public before", "ValueError: zoo/public exists and is public; change that in its settings"),
        ("private before", "ValueError: zoo/secret exists and is private; change that in its settings"),
        ("bad metadata", "OSError: the push to zoo/metadata failed: Invalid metadata in README.md."),
        ("failing", "ConnectionError: the Hub at http://127.0.0.1:"),
        ("unseen", "ConnectionError: the Hub at http://127.0.0.1:"),
        ("refused", ". Push again: what has been uploaded is not uploaded twice"),
        ("repeated", "ok "),
        ("again", "ok "),
        ("forbidden", "OSError: the push to zoo/forbidden failed: 403"),
        ("late", ". Push again: what has been uploaded is not uploaded twice"),
        *((name, message) for name, (_, message) in SPOILED.items()),
    ],
)
def test_a_push_says_what_is_wrong(pushed: dict[str, str], name: str, message: str) -> None:
    assert message in pushed[name]


def test_no_password_is_said(pushed: dict[str, str], make_folder: MakeFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not [name for name, said in pushed.items() if "sekret" in said]
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://me:sekret@127.0.0.1:1")
    for call in (lambda: push(make_folder(1), "zoo/new", token=OWNER), lambda: verify("zoo/new")):
        with pytest.raises(ValueError, match="HF_ENDPOINT has a user name or a password before an @") as caught:
            call()
        assert "sekret" not in str(caught.value)


def test_what_the_hub_refuses_is_not_to_be_repeated(pushed: dict[str, str]) -> None:
    assert [name for name, said in pushed.items() if "Push again" in said] == ["refused", "late"]


def test_a_refused_push_changes_nothing(pushed: dict[str, str], hub: LoopbackHub) -> None:
    assert ("models", "zoo/new") not in hub.hub.repositories
    for name in ("zoo/public", "stranger/theirs", "stranger/gated"):
        assert [commit.title for commit in hub.repository(name).history("main")] == ["Upload", "initial commit"]
        assert not hub.repository(name).pull_requests
    for name in ("zoo/forbidden", "zoo/late"):
        assert [commit.title for commit in hub.repository(name).history("main")] == ["initial commit"]


def test_a_repeated_push_sends_what_is_missing_once(pushed: dict[str, str], hub: LoopbackHub) -> None:
    """The first push fails, the second makes the commit, the third has nothing to do: one commit, one upload of
    weights.
    """
    commits = hub.calls("POST", "zoo/refused/commit")
    assert [call.status for call in commits] == [503, 200]
    assert len(hub.repository("zoo/refused").history("main")) == 2
    assert len(hub.calls("PUT", "/upload/")) == 1


def test_no_code_is_sent_but_the_packages_own(tmp_path: Path) -> None:
    BertConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="holds a BertConfig, whose code is not attnzoo's; push it without code"):
        add_code(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_card_says_once_that_code_comes_along(make_folder: MakeFolder) -> None:
    folder = make_folder(1)
    before = (folder / "README.md").read_text()
    add_code(folder)
    card = (folder / "README.md").read_text()
    assert card.startswith(before)
    assert card.count("## Without attnzoo") == 1
    assert card.count("`trust_remote_code=True`") == 1
    add_code(folder)
    assert (folder / "README.md").read_text() == card


@pytest.mark.parametrize(
    ("card", "becomes"),
    [
        ('from_pretrained("model_cards/tiny")', 'from_pretrained("zoo/tiny")'),
        ('pipeline("a-task", model="tiny")', 'pipeline("a-task", model="zoo/tiny")'),
        ('pipeline("a-task", "tiny")', 'pipeline("a-task", "zoo/tiny")'),
        ('from_pretrained(attnzoo.model_path("tiny"))', 'from_pretrained("zoo/tiny")'),
        ('pipeline("a-task", attnzoo.model_path("tiny"))', 'pipeline("a-task", "zoo/tiny")'),
        ('from_pretrained(attnzoo.model_path("tiny-er"))', None),
        ('from_pretrained("other/tiny"), "tiny"\r\n', None),
        ('the word "tiny", from_pretrained("tiny-er"), open("tiny")', None),
    ],
)
def test_a_card_loads_from_the_hub_what_it_loaded_from_the_folder(
    card: str, becomes: str | None, make_folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for any way to name the folder: here it is the working directory, given as "."."""
    from attnzoo.hub.pushing import _stage

    (tmp_path / "model_cards").mkdir()
    folder = make_folder(1).rename(tmp_path / "model_cards" / "tiny")
    (folder / "README.md").write_bytes(card.encode())
    monkeypatch.chdir(folder)
    staged = _stage(Path(), ["README.md"], tmp_path / "staged", "zoo/tiny")
    assert (staged / "README.md").read_bytes() == (becomes or card).encode()
    assert (folder / "README.md").read_bytes() == card.encode()


# Whether it arrived ---------------------------------------------------------------------------------------------------


def test_outputs_do_not_depend_on_how_products_are_computed(
    make_folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process chooses a library and a layout by a measurement, and a busy machine may mislead it."""
    folder, expected = make_folder(1), tmp_path / "outputs.safetensors"
    sample_outputs.save_outputs(expected, folder, "AutoModelForSeq2SeqLM")
    for is_faster in (True, False):
        for choice in ("onednn_is_faster", "_columns_are_faster"):
            monkeypatch.setattr(fast_products, choice, lambda is_faster=is_faster: is_faster)
        monkeypatch.setattr(fast_products, "LARGE", 1)
        sample_outputs.main([str(expected), "AutoModelForSeq2SeqLM", str(folder), "package"])


def test_outputs_that_differ_are_seen(make_folder: MakeFolder, tmp_path: Path) -> None:
    folder, other = make_folder(1), make_folder(2)
    expected, auto_class = str(tmp_path / "outputs.safetensors"), "AutoModelForSeq2SeqLM"
    sample_outputs.save_outputs(tmp_path / "outputs.safetensors", folder, auto_class)

    def compare(name: Path, auto_class: str = auto_class) -> None:
        sample_outputs.main([expected, auto_class, str(name), "package"])

    compare(folder)
    with pytest.raises(OSError, match=r"it does not load as the folder does \(exit 1\): the outputs differ by \d"):
        require_same_outputs(other, tmp_path, auto_class, code=False)  # in a process of its own
    config = AutoConfig.from_pretrained(folder)
    with pytest.raises(SystemExit, match=rf"the outputs have the shape .* instead of \(1, 4, {config.vocab_size}\)"):
        compare(folder, "AutoModel")
    truncate(other)
    with pytest.raises(SystemExit, match=r"OSError: the weights of .* are damaged or incomplete"):
        compare(other)


@pytest.mark.hub
def test_a_push_ends_well_only_where_it_was_seen_to_arrive(
    make_folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flipped bit in the download, a Hub that stores other content, and code that fails without attnzoo."""
    flipped, kept, code, pipeline = (make_folder(seed) for seed in (90, 91, 92, 94))
    (pipeline / "README.md").write_text("---\ntags:\n- translation\n---\n")
    oid = hashlib.sha256((flipped / "model.safetensors").read_bytes()).hexdigest()
    (kept / "notes.txt").write_text("a note of its own")
    with loopback_hub() as hub:
        hub.fail("GET", f"/large/{oid}", "flip", times=1000)
        store = hub.hub.store
        monkeypatch.setattr(
            hub.hub, "store", lambda content, large: store(content.replace(b"a note of its own", b"another"), large)
        )
        incomplete = {"folder": str(code), "repo_id": "zoo/code", "token": OWNER, "file": "attention.py"}
        attempts: Attempts = {
            "flipped": push_of(flipped, "zoo/flipped"),
            "kept": push_of(kept, "zoo/kept", also=["notes.txt"]),
            "code": ("push_code_without", incomplete),
            "pipeline": (
                "push_code_without",
                incomplete | {"folder": str(pipeline), "repo_id": "zoo/pipeline", "file": "pipelines.py"},
            ),
            "flipped again": push_of(flipped, "zoo/flipped"),
        }
        hub.put("zoo/kept", {"config.json": b"{}"})
        said = attempt(hub.endpoint, tmp_path, attempts)
        heads = {name: hub.repository(f"zoo/{name.split()[0]}").history("main") for name in attempts}
    for name, (made, *_) in heads.items():
        repo_id = f"zoo/{name.split()[0]}"
        assert f"OSError: {repo_id} has the commit {made.oid}, which could not be verified: " in said[name]
    older = f"with revision={heads['kept'][1].oid!r} users load what was there before"
    assert [name for name in said if "users load what was there before" in said[name]] == ["kept"]
    assert older in said["kept"]
    for name in ("flipped", "flipped again"):
        assert "model.safetensors has the sha256" in said[name]
    assert "notes.txt is not what was sent" in said["kept"]
    for name, file in (("code", "attention.py"), ("pipeline", "pipelines.py")):
        assert "it does not load as the folder does (exit 1): " in said[name]
        assert file in said[name]


@pytest.mark.hub
def test_a_commit_in_between_is_not_passed_over(
    make_folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files to delete were chosen for the old commit; somebody else commits while the weights are uploaded."""
    with loopback_hub() as hub:
        repository = hub.put("zoo/raced", {"README.md": b"# old"})
        store = hub.hub.store

        def store_while_another_commits(content: bytes, large: bool) -> str:
            if large and len(repository.history("main")) == 2:
                repository.commit("main", "In between", "zoo", repository.resolve("main").files, False)
            return store(content, large)

        monkeypatch.setattr(hub.hub, "store", store_while_another_commits)
        push = push_of(make_folder(97), "zoo/raced")
        said = attempt(hub.endpoint, tmp_path, {"first": push, "second": push})
    assert "412" in said["first"]
    assert "Push again" in said["first"]
    assert said["second"].startswith("ok ")
    titles = [commit.title for commit in repository.history("main")]
    assert titles == ["Upload model", "In between", "Upload", "initial commit"]


@pytest.mark.hub
def test_what_is_left_of_another_model_goes(make_folder: MakeFolder, tmp_path: Path) -> None:
    """For example weights in shards, whose index would be found next to the new weights."""
    left = {"model.safetensors.index.json", "model-00001-of-00002.safetensors", "adapter_config.json"}
    of_tokenizer = {"vocab.json", "merges.txt"}
    kept = {"notes.txt", "pictures/heat.png", "older/model.safetensors", "model.fp16.safetensors", "optimizer.pt"}
    without, with_tokenizer = make_folder(93), make_folder(93)
    TOKENIZER.save_pretrained(with_tokenizer)
    attempts: Attempts = {}
    with loopback_hub() as hub:
        for name, folder in (("without", without), ("with", with_tokenizer)):
            hub.put(f"zoo/{name}", {file: b"{" for file in left | of_tokenizer | kept})
            attempts[name] = push_of(folder, f"zoo/{name}")
        said = attempt(hub.endpoint, tmp_path, attempts)
        new = {name: hub.repository(f"zoo/{name}").resolve("main").files.keys() for name in attempts}
    assert all(words.startswith("ok ") for words in said.values())
    assert new["without"] == kept | of_tokenizer | files_of(without).keys()
    assert new["with"] == kept | files_of(with_tokenizer).keys()


@pytest.mark.hub
def test_what_was_fine_tuned_from_a_repository_with_code_can_be_pulled(make_folder: MakeFolder, tmp_path: Path) -> None:
    """``save_pretrained`` writes the names of the code without the code, so the push removes the names."""
    with_code = make_folder(95)
    (with_code / "README.md").write_text("---\ntags:\n- translation\n---\n")
    add_code(with_code)
    tuned = make_folder(96)
    config = json.loads((with_code / "config.json").read_text())
    assert {"auto_map", "custom_pipelines"} <= config.keys()
    (tuned / "config.json").write_text(json.dumps(config))
    attempts: Attempts = {
        "without": push_of(tuned, "zoo/without"),
        "with": push_of(tuned, "zoo/with", code=True),
        "whole": push_of(with_code, "zoo/whole", code=True),
    }
    with loopback_hub() as hub:
        assert all(words.startswith("ok ") for words in attempt(hub.endpoint, tmp_path, attempts).values())
        pushed = {name: hub.repository(f"zoo/{name}").resolve("main").files for name in attempts}
        configs = {name: json.loads(hub.hub.contents[files["config.json"].oid]) for name, files in pushed.items()}
    assert not {"auto_map", "custom_pipelines"} & configs["without"].keys()
    assert "auto_map" in configs["with"]
    assert "custom_pipelines" not in configs["with"]  # its card has no tag of one
    assert configs["whole"] == config
    assert {"modeling_attentional_rnn.py", "pipelines.py"} <= pushed["whole"].keys()


@pytest.mark.hub
def test_another_librarys_model_goes_without_code(make_folder: MakeFolder, tmp_path: Path) -> None:
    folder = make_folder(1)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertForMaskedLM(BertConfig(vocab_size=20, **sizes)).save_pretrained(folder)
    attempts: Attempts = {"without": push_of(folder, "zoo/bert"), "with": push_of(folder, "zoo/code", code=True)}
    RobertaForMaskedLM(RobertaConfig(vocab_size=20, type_vocab_size=1, **sizes)).save_pretrained(
        other := make_folder(1)
    )
    attempts["one type"] = push_of(other, "zoo/roberta")
    small = GPT2Config(vocab_size=20, n_embd=8, n_layer=1, n_head=2, eos_token_id=3, pad_token_id=None)
    GPT2ForSequenceClassification(small).save_pretrained(no_padding := make_folder(1))
    attempts["no padding"] = push_of(no_padding, "zoo/gpt2")
    with loopback_hub() as hub:
        said = attempt(hub.endpoint, tmp_path, attempts)
        pushed = {name for _, name in hub.hub.repositories}
    assert pushed == {"zoo/bert", "zoo/roberta", "zoo/gpt2"}
    assert [name for name, words in said.items() if words.startswith("ok ")] == ["without", "one type", "no padding"]
    assert "holds a BertConfig, whose code is not attnzoo's; push it without code" in said["with"]
