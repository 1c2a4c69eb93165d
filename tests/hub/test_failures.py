"""What goes wrong on the way to the Hub and back is said in words, and leaves repository and process as they were.

A process makes many attempts, each of them on a repository of its own, and reports what became of every one.
"""

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from transformers import BertConfig

from attnzoo.hub import add_code

from ..tiny import tiny_model
from .client import environment, run_python
from .server import OWNER, READER, STRANGER, LoopbackHub, loopback_hub

ATTEMPT = """
import json
import sys

import transformers
import attnzoo
from attnzoo.hub import push, require_write_access, verify

load = transformers.AutoModelForSeq2SeqLM.from_pretrained
said = {}
for name, (call, options) in json.loads(sys.argv[1]).items():
    try:
        said[name] = f"ok {globals()[call](**options)}"
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""
Attempts = dict[str, tuple[str, dict[str, object]]]


class Malicious:
    """Whoever unpickles it makes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, str]]:
        return open, (str(self.mark), "w")


def attempt(endpoint: str, home: Path, attempts: Attempts, xet: bool = False, **settings: str) -> dict[str, str]:
    ended = run_python(
        "-c", ATTEMPT, json.dumps(attempts), environment=environment(endpoint, home, None, xet, **settings)
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def hub() -> Iterator[LoopbackHub]:
    with loopback_hub() as running:
        yield running


@pytest.fixture(scope="module")
def make_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Tiny models, each with weights of its own: the Hub knows equal files as one."""

    def make(seed: int) -> Path:
        folder = tmp_path_factory.mktemp("model")
        tiny_model("luong-lstm-dot", seed=seed, dtype=torch.float32).save_pretrained(folder)
        (folder / "README.md").write_text("---\nlicense: apache-2.0\ntags:\n- attnzoo\n---\n\n# tiny\n")
        return folder

    return make


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Pushing --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pushed(
    hub: LoopbackHub, make_folder: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    folder, with_pickle, without_card = (make_folder(seed) for seed in (1, 1, 1))
    (with_pickle / "training_args.bin").write_bytes(pickle.dumps({}))
    (without_card / "README.md").unlink()
    hub.put("zoo/public", {"README.md": b"# old"})
    hub.put("stranger/theirs", {"README.md": b"# old"})
    hub.fail("POST", "zoo/refused/commit", "refuse", status=503)

    def push(
        repo_id: str, token: str | None = OWNER, folder: Path = folder, **options: object
    ) -> tuple[str, dict[str, object]]:
        return "push", {"folder": str(folder), "repo_id": repo_id, "token": token, **options}

    attempts: Attempts = {
        "no token": push("zoo/new", token=None),
        "unknown token": push("zoo/new", token="hf_nobody"),
        "read-only token": push("zoo/new", token=READER),
        "foreign namespace": push("stranger/new"),
        "foreign repository": push("stranger/theirs"),
        "bad id": push("zoo/a/b"),
        "no owner": push("new"),
        "pull request on nothing": push("zoo/new", create_pr=True),
        "public before": push("zoo/public", private=True),
        "pickle": push("zoo/new", folder=with_pickle),
        "no card": push("zoo/new", folder=without_card),
        "refused": push("zoo/refused"),
        "repeated": push("zoo/refused"),
        "again": push("zoo/refused"),
    }
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
        ("bad id", "ValueError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': 'zoo/a/b'"),
        ("no owner", "ValueError: 'new' does not say whose it is; write owner/new"),
        ("pull request on nothing", "FileNotFoundError: there is no zoo/new to open a pull request on"),
        ("public before", "ValueError: zoo/public is there and is public; change that in its settings"),
        ("pickle", "which run code where they are loaded: training_args.bin; remove them"),
        ("no card", "has no README.md; a model goes out with its config and its card"),
        ("refused", "Push again: what has been uploaded is not uploaded twice"),
        ("repeated", "ok "),
        ("again", "ok "),
    ],
)
def test_a_push_says_what_is_wrong(pushed: dict[str, str], name: str, message: str) -> None:
    assert message in pushed[name]


def test_no_code_is_sent_but_the_packages_own(tmp_path: Path) -> None:
    BertConfig().save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="holds a BertConfig, whose code is not attnzoo's; push it without code"):
        add_code(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_refused_push_changes_nothing(pushed: dict[str, str], hub: LoopbackHub) -> None:
    assert ("models", "zoo/new") not in hub.hub.repositories
    for name in ("zoo/public", "stranger/theirs"):
        assert [commit.title for commit in hub.repository(name).history("main")] == ["Upload", "initial commit"]


def test_a_repeated_push_sends_what_is_missing_once(pushed: dict[str, str], hub: LoopbackHub) -> None:
    """Refused, made, and nothing left to make: one commit and one upload of the weights."""
    commits = hub.calls("POST", "zoo/refused/commit")
    assert [call.status for call in commits] == [503, 200]
    assert len(hub.repository("zoo/refused").history("main")) == 2
    assert len(hub.calls("PUT", "/upload/")) == 1


# Pulling --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def pulled(hub: LoopbackHub, make_folder: Callable[[int], Path], home: Path) -> dict[str, str]:
    names = ("sound", "cut", "shortened", "truncated", "flipped", "pickle", "disguised")
    repositories = {name: files_of(make_folder(seed)) for seed, name in enumerate(names, start=10)}
    weights = repositories["truncated"]["model.safetensors"]
    repositories["truncated"]["model.safetensors"] = weights[: len(weights) // 2]
    repositories["disguised"]["model.safetensors"] = pickle.dumps(Malicious(home / "was run"))
    del repositories["pickle"]["model.safetensors"]
    repositories["pickle"]["pytorch_model.bin"] = repositories["disguised"]["model.safetensors"]
    for name, files in repositories.items():
        entry = hub.put(f"pulls/{name}", files).resolve("main").files.get("model.safetensors")
        if name in ("cut", "shortened"):
            assert entry is not None
            hub.fail("GET", f"/large/{entry.oid}", "cut download" if name == "cut" else "shorten")
    hub.flip("pulls/flipped", "model.safetensors")
    attempts: Attempts = {name: ("load", {"pretrained_model_name_or_path": f"pulls/{name}"}) for name in names}
    attempts["no repository"] = ("load", {"pretrained_model_name_or_path": "pulls/none"})
    attempts["no revision"] = ("load", {"pretrained_model_name_or_path": "pulls/sound", "revision": "none"})
    attempts["verify sound"] = ("verify", {"repo_id": "pulls/sound"})
    attempts["verify flipped"] = ("verify", {"repo_id": "pulls/flipped"})
    return attempt(hub.endpoint, home, attempts)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sound", "ok AttentionalRNN"),
        ("cut", "ok AttentionalRNN"),  # the client asks again
        ("flipped", "ok AttentionalRNN"),  # which is why there is verify()
        ("shortened", "Consistency check failed: file should be of size"),
        ("truncated", "OSError: the weights of 'pulls/truncated' are damaged or incomplete"),
        ("pickle", "does not appear to have a file named model.safetensors"),
        ("disguised", "OSError: the weights of 'pulls/disguised' are damaged or incomplete"),
        ("no repository", "is not a local folder and is not a valid model identifier"),
        ("no revision", "none is not a valid git identifier"),
        ("verify sound", "ok "),
        ("verify flipped", "OSError: pulls/flipped did not arrive as the Hub has it: model.safetensors has the sha256"),
    ],
)
def test_a_pull_says_what_is_wrong(pulled: dict[str, str], name: str, message: str) -> None:
    assert message in pulled[name]


def test_no_pickle_is_loaded(pulled: dict[str, str], home: Path, tmp_path: Path) -> None:
    assert not (home / "was run").exists()
    pickle.loads(pickle.dumps(Malicious(tmp_path / "was run"))).close()
    assert (tmp_path / "was run").exists()  # so it is one that would have been seen


def test_a_cut_download_is_asked_for_again(pulled: dict[str, str], hub: LoopbackHub) -> None:
    oid = hub.repository("pulls/cut").resolve("main").files["model.safetensors"].oid
    assert [call.status for call in hub.calls("GET", oid)] == [
        200,
        200,
    ]  # from its start: less than the client's ten megabytes had arrived


def test_code_is_not_run_unless_it_is_trusted(
    hub: LoopbackHub, make_folder: Callable[[int], Path], tmp_path: Path
) -> None:
    folder = make_folder(30)
    add_code(folder)
    mark = tmp_path / "was run"
    files = files_of(folder)
    files["configuration_attentional_rnn.py"] += f"\nopen({str(mark)!r}, 'w')\n".encode()
    hub.put("pulls/code", files)
    load = (
        "import sys, transformers\n"
        "try:\n    transformers.AutoModelForSeq2SeqLM.from_pretrained('pulls/code', trust_remote_code={trusted})\n"
        "except ValueError as error:\n    print(error)\n"
        "print([name for name in sys.modules if name.startswith('transformers_modules.')])"
    )
    for trusted in (False, True):
        ended = run_python(
            "-c",
            load.format(trusted=trusted),
            environment=environment(hub.endpoint, tmp_path / str(trusted), None, xet=False),
            cwd=tmp_path,
            without_attnzoo=True,
        )
        assert ended.returncode == 0, ended.stderr[-3000:]
        assert mark.exists() == trusted  # so the mark is one that can be left
        assert ended.stdout.endswith("[]\n") == (not trusted)
        assert ("contains custom code which must be executed" in ended.stdout) == (not trusted)


@pytest.mark.hub
def test_offline(pulled: dict[str, str], hub: LoopbackHub, make_folder: Callable[[int], Path], home: Path) -> None:
    attempts: Attempts = {
        "cached": ("load", {"pretrained_model_name_or_path": "pulls/sound"}),
        "not cached": ("load", {"pretrained_model_name_or_path": "pulls/other"}),
        "other revision": ("load", {"pretrained_model_name_or_path": "pulls/sound", "revision": "v2"}),
        "push": ("push", {"folder": str(make_folder(40)), "repo_id": "zoo/offline", "token": OWNER}),
    }
    before = len(hub.log)
    said = attempt(hub.endpoint, home, attempts, HF_HUB_OFFLINE="1")
    assert said["cached"].startswith("ok AttentionalRNN")
    for name in ("not cached", "other revision"):
        assert "couldn't find them in the cached files" in said[name]
    assert said["push"].startswith("ConnectionError: no answer from the Hub at")
    assert "offline mode is enabled" in said["push"]
    assert len(hub.log) == before


@pytest.mark.hub
def test_a_hub_that_is_down(make_folder: Callable[[int], Path], tmp_path: Path) -> None:
    with loopback_hub() as hub:
        hub.put("pulls/sound", files_of(make_folder(50)))
        load = ("load", {"pretrained_model_name_or_path": "pulls/sound"})
        assert attempt(hub.endpoint, tmp_path, {"load": load})["load"].startswith("ok")
    attempts: Attempts = {
        "cached": load,
        "not cached": ("load", {"pretrained_model_name_or_path": "pulls/other"}),
        "push": ("push", {"folder": str(make_folder(50)), "repo_id": "zoo/down", "token": OWNER}),
    }
    said = attempt(hub.endpoint, tmp_path, attempts)
    assert said["cached"].startswith("ok AttentionalRNN")
    assert said["not cached"].startswith("OSError: We couldn't connect to")
    assert said["push"].startswith("ConnectionError: no answer from the Hub at")


# The rest of pushing --------------------------------------------------------------------------------------------------


@pytest.mark.hub
@pytest.mark.parametrize("xet", [False, True], ids=["LFS", "Xet"])
def test_branches_pull_requests_privacy_and_uploads_that_break_off(
    xet: bool, make_folder: Callable[[int], Path], tmp_path: Path
) -> None:
    with loopback_hub() as hub:
        hub.put("zoo/public", {"README.md": b"# old"})
        old = hub.repository("zoo/public").resolve("main").oid
        hub.fail("POST" if xet else "PUT", "/cas/v1/xorbs/" if xet else "/upload/", "cut upload")
        folders = [str(make_folder(seed)) for seed in (60, 61, 62)]
        attempts: Attempts = {
            "cut once": (
                "push",
                {
                    "folder": folders[0],
                    "repo_id": "institute/secret",
                    "private": True,
                    "revision": "dev",
                    "token": OWNER,
                },
            ),
            "pull request": (
                "push",
                {"folder": folders[1], "repo_id": "zoo/public", "create_pr": True, "token": STRANGER},
            ),
            "not theirs": ("load", {"pretrained_model_name_or_path": "institute/secret", "token": STRANGER}),
            "theirs": (
                "load",
                {"pretrained_model_name_or_path": "institute/secret", "revision": "dev", "token": OWNER},
            ),
        }
        said = attempt(hub.endpoint, tmp_path, attempts, xet=xet)
        assert said["cut once"].startswith("ok")
        assert said["pull request"].startswith("ok")
        assert "is not a valid model identifier" in said["not theirs"]
        assert said["theirs"].startswith("ok AttentionalRNN")
        secret, public = hub.repository("institute/secret"), hub.repository("zoo/public")
        assert secret.private
        assert "model.safetensors" not in secret.resolve("main").files
        assert public.resolve("main").oid == old
        assert "model.safetensors" in public.resolve("refs/pr/1").files


@pytest.mark.hub
def test_an_upload_that_breaks_off_for_good(make_folder: Callable[[int], Path], tmp_path: Path) -> None:
    with loopback_hub() as hub:
        fault = hub.fail("PUT", "/upload/", "cut upload", times=1000)
        push = ("push", {"folder": str(make_folder(70)), "repo_id": "zoo/cut", "token": OWNER})
        said = attempt(hub.endpoint, tmp_path, {"push": push})
        assert "OSError: the push to zoo/cut failed: Error while uploading 'model.safetensors'" in said["push"]
        assert [commit.title for commit in hub.repository("zoo/cut").history("main")] == ["initial commit"]
        fault.times = 0
        assert attempt(hub.endpoint, tmp_path, {"push": push})["push"].startswith("ok")


@pytest.mark.hub
def test_a_push_ends_well_only_where_it_was_seen_to_arrive(make_folder: Callable[[int], Path], tmp_path: Path) -> None:
    """A flipped bit on the way back, and a file of the repository's own that the model cannot be loaded with."""
    folders = {name: make_folder(seed) for seed, name in enumerate(("flipped", "crooked"), start=90)}
    oid = hashlib.sha256((folders["flipped"] / "model.safetensors").read_bytes()).hexdigest()
    with loopback_hub() as hub:
        hub.fail("GET", f"/large/{oid}", "flip", times=1000)
        hub.put("zoo/crooked", {"adapter_config.json": b"{"})
        attempts: Attempts = {
            name: ("push", {"folder": str(folder), "repo_id": f"zoo/{name}", "token": OWNER})
            for name, folder in folders.items()
        }
        said = attempt(hub.endpoint, tmp_path, attempts)
    assert "zoo/flipped did not arrive as the Hub has it: model.safetensors has the sha256" in said["flipped"]
    assert "was pushed but does not load as the folder does" in said["crooked"]


@pytest.mark.hub
def test_a_flipped_bit_in_a_store_of_chunks(make_folder: Callable[[int], Path], tmp_path: Path) -> None:
    with loopback_hub() as hub:
        push = ("push", {"folder": str(make_folder(80)), "repo_id": "zoo/chunks", "token": OWNER})
        assert attempt(hub.endpoint, tmp_path / "push", {"push": push}, xet=True)["push"].startswith("ok")
        verify = ("verify", {"repo_id": "zoo/chunks"})
        assert attempt(hub.endpoint, tmp_path / "sound", {"verify": verify}, xet=True)["verify"].startswith("ok")
        hub.flip("zoo/chunks", "model.safetensors")
        load = ("load", {"pretrained_model_name_or_path": "zoo/chunks"})
        said = attempt(hub.endpoint, tmp_path / "flipped", {"load": load, "verify": verify}, xet=True)
        assert said["load"].startswith("ok AttentionalRNN")
        assert "model.safetensors has the sha256" in said["verify"]
