"""Failing downloads raise an error with a clear message, and run no code without permission."""

import json
import pickle
import re
import socket
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from huggingface_hub import HfApi
from peft import LoraConfig, get_peft_model

from attnzoo.hub import verification
from attnzoo.hub.model_code import add_code
from tests.factory import tiny_model
from tests.hub.attempts import Attempts, Malicious, attempt, files_of, load_of, push_of
from tests.hub.client import environment, run_python
from tests.hub.server import LoopbackHub, loopback_hub

MakeFolder = Callable[[int], Path]
# Transformers would read adapter_model.bin of a repository without adapter_model.safetensors.
PICKLED: dict[str, dict[str, bool]] = {"": {}, ", wanted": {"use_safetensors": False}}
PICKLED[", unsafely"] = {"weights_only": False}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def pulled(hub: LoopbackHub, make_folder: MakeFolder, home: Path) -> dict[str, str]:
    names = ("sound", "cut", "shortened", "truncated", "flipped", "pickle", "disguised")
    folders = {name: make_folder(seed) for seed, name in enumerate(names, start=10)}
    repositories = {name: files_of(folder) for name, folder in folders.items()}
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
    hub.put("pulls/idle", repositories["sound"])
    hub.fail("HEAD", "/pulls/idle/resolve/.*/config.json", "drop")
    adapted = get_peft_model(tiny_model("luong-lstm-dot"), LoraConfig(r=2, target_modules="all-linear"))
    adapted.peft_config["default"].base_model_name_or_path = base = str(folders["sound"])
    adapted.save_pretrained(home / "adapter")
    hub.put("pulls/adapter", adapter := files_of(home / "adapter"))
    del adapter["adapter_model.safetensors"]
    hub.put("pulls/pickled", adapter | {"adapter_model.bin": repositories["disguised"]["model.safetensors"]})
    attempts: Attempts = {name: load_of(f"pulls/{name}") for name in names}
    attempts["no repository"] = load_of("pulls/none")
    attempts["no revision"] = load_of("pulls/sound", revision="none")
    attempts["adapter"] = ("load_adapter", {"base": base, "adapter": "pulls/adapter"})
    for way, options in PICKLED.items():
        pickled = {"base": base, "adapter": "pulls/pickled", **options}
        attempts[f"pickled adapter{way}"] = ("load_adapter", pickled)
        attempts[f"model of a pickled adapter{way}"] = load_of("pulls/pickled", **options)
    attempts["verify sound"] = ("verify", {"repo_id": "pulls/sound"})
    attempts["verify flipped"] = ("verify", {"repo_id": "pulls/flipped"})
    attempts["verify idle"] = ("verify", {"repo_id": "pulls/idle"})
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
        ("adapter", "ok "),
        ("verify sound", "ok "),
        ("verify idle", "ok "),  # it asks again
        ("verify flipped", "OSError: pulls/flipped did not arrive as the Hub has it: model.safetensors has the sha256"),
    ],
)
def test_a_pull_says_what_is_wrong(pulled: dict[str, str], name: str, message: str) -> None:
    assert message in pulled[name]


def test_no_pickle_is_loaded(pulled: dict[str, str], home: Path, tmp_path: Path) -> None:
    adapters = {name: said for name, said in pulled.items() if "pickled adapter" in name}
    assert len(adapters) == 2 * len(PICKLED)
    for name, said in adapters.items():
        assert re.match("ValueError.*(adapter_model.bin is a pickle, which may run code|would load a pickle)", said), (
            name
        )
    assert not (home / "was run").exists()
    pickle.loads(pickle.dumps(Malicious(tmp_path / "was run"))).close()
    assert (tmp_path / "was run").exists()  # so it is one that would have been seen


def test_a_cut_download_is_asked_for_again(pulled: dict[str, str], hub: LoopbackHub) -> None:
    oid = hub.repository("pulls/cut").resolve("main").files["model.safetensors"].oid
    answers = [call.status for call in hub.calls("GET", oid)]
    assert answers == [200, 200]  # from its start: less than the client's ten megabytes had arrived


LOAD_CODE = """
import json
import sys
from pathlib import Path

import transformers

found = []
for options in ({}, {"trust_remote_code": False}, {"trust_remote_code": True}):
    try:
        said = type(transformers.AutoModelForSeq2SeqLM.from_pretrained("pulls/code", **options)).__module__
    except ValueError as error:
        said = str(error)
    imported = any(name.startswith("transformers_modules.") for name in sys.modules)
    found.append([said, imported, Path(sys.argv[1]).exists()])
print()  # after the questions that got no answer
print(json.dumps(found))
"""


def test_code_is_not_run_unless_it_is_trusted(hub: LoopbackHub, make_folder: MakeFolder, tmp_path: Path) -> None:
    """It is not run without the argument, if nobody can be asked, nor with False."""
    add_code(folder := make_folder(30))
    mark = tmp_path / "was run"
    files = files_of(folder)
    files["configuration_attentional_rnn.py"] += f"\nopen({str(mark)!r}, 'w')\n".encode()
    hub.put("pulls/code", files)
    there = environment(hub.endpoint, tmp_path / "home", None, xet=False)
    ended = run_python("-c", LOAD_CODE, str(mark), environment=there, cwd=tmp_path, without_attnzoo=True)
    assert ended.returncode == 0, ended.stderr[-3000:]
    *refused, trusted = json.loads(ended.stdout.splitlines()[-1])
    for said, imported, was_run in refused:
        assert "The repository pulls/code contains custom code which must be executed" in said
        assert not imported
        assert not was_run
    assert trusted[0].startswith("transformers_modules.")
    assert trusted[1:] == [True, True]  # so the mark is one that can be left


# Where there is no answer ---------------------------------------------------------------------------------------------


def test_files_of_the_cache_are_not_verified_without_an_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*args: object, **options: object) -> None:
        raise httpx.ConnectError("refused")  # no OSError

    monkeypatch.setattr(verification, "snapshot_download", lambda *args, **options: tmp_path)
    monkeypatch.setattr(HfApi, "verify_repo_checksums", fail)
    with pytest.raises(ConnectionError, match=r"no answer from the Hub at .*refused"):
        verification.verify("pulls/down")


@pytest.mark.hub
def test_offline(pulled: dict[str, str], hub: LoopbackHub, make_folder: MakeFolder, home: Path) -> None:
    attempts: Attempts = {
        "cached": load_of("pulls/sound"),
        "not cached": load_of("pulls/other"),
        "other revision": load_of("pulls/sound", revision="v2"),
        "push": push_of(make_folder(40), "zoo/offline"),
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
def test_a_hub_that_is_down(hub: LoopbackHub, make_folder: MakeFolder, tmp_path: Path) -> None:
    hub.put("pulls/down", files_of(make_folder(50)))
    load = load_of("pulls/down")
    assert attempt(hub.endpoint, tmp_path, {"load": load})["load"].startswith("ok")
    attempts: Attempts = {
        "cached": load,
        "not cached": load_of("pulls/other"),
        "push": push_of(make_folder(50), "zoo/down"),
    }
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # it never listens, and no other program can take its port meanwhile
        said = attempt(f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path, attempts)
    assert said["cached"].startswith("ok AttentionalRNN")
    assert said["not cached"].startswith("OSError: We couldn't connect to")
    assert said["push"].startswith("ConnectionError: no answer from the Hub at")


@pytest.mark.hub
@pytest.mark.parametrize("xet", [False, True], ids=["LFS", "Xet"])
def test_downloads_that_break_off(xet: bool, make_folder: MakeFolder, tmp_path: Path) -> None:
    """After one break the client asks again; after repeated breaks nothing that looks like a model remains."""
    with loopback_hub() as hub:
        pushes = {name: push_of(make_folder(seed), f"zoo/{name}") for seed, name in ((81, "once"), (82, "for-good"))}
        assert all(said.startswith("ok") for said in attempt(hub.endpoint, tmp_path / "push", pushes, xet).values())
        where = "^/xorbs/" if xet else "^/large/"
        once = hub.fail("GET", where, "cut download")
        load = attempt(hub.endpoint, tmp_path / "pull", {"once": load_of("zoo/once")}, xet)
        assert once.times == 0
        assert load["once"].startswith("ok AttentionalRNN")
        fault = hub.fail("GET", where, "cut download", times=1000)
        said = attempt(hub.endpoint, tmp_path / "pull", {"load": load_of("zoo/for-good")}, xet)["load"]
        assert said.startswith("OSError: Can't load the model for 'zoo/for-good'"), said
        fault.times = 0
        again = attempt(hub.endpoint, tmp_path / "pull", {"load": load_of("zoo/for-good")}, xet)["load"]
        assert again.startswith("ok AttentionalRNN")


@pytest.mark.hub
@pytest.mark.parametrize("xet", [False, True], ids=["LFS", "Xet"])
def test_a_damaged_download_is_found_and_made_good(xet: bool, make_folder: MakeFolder, tmp_path: Path) -> None:
    """The advice of ``verify`` helps if the cache is damaged, and does not help if the Hub's copy is."""
    repo_id = "zoo/damaged"
    with loopback_hub() as hub:
        push, verify = push_of(make_folder(80), repo_id), ("verify", {"repo_id": repo_id})
        assert attempt(hub.endpoint, tmp_path / "push", {"push": push}, xet)["push"].startswith("ok")
        assert attempt(hub.endpoint, tmp_path / "sound", {"verify": verify}, xet)["verify"].startswith("ok")
        hub.flip(repo_id, "model.safetensors")
        head = hub.repository(repo_id).resolve("main").oid
        advice = f"snapshot_download({repo_id!r}, revision={head!r}, force_download=True)"
        anew = ("download_anew", {"repo_id": repo_id, "revision": head, "force_download": True})
        asked = {"load": load_of(repo_id), "verify": verify, "anew": anew, "still": verify}
        said = attempt(hub.endpoint, tmp_path / "flipped", asked, xet)
        assert said["load"].startswith("ok AttentionalRNN")
        for name in ("verify", "still"):
            assert "model.safetensors has the sha256" in said[name]
            assert advice in said[name]
        hub.flip(repo_id, "model.safetensors")  # back
        said = attempt(hub.endpoint, tmp_path / "flipped", {"before": verify, "anew": anew, "verify": verify}, xet)
        assert "model.safetensors has the sha256" in said["before"]
        assert said["verify"].startswith("ok")
