"""The command line of ``publish``: its options, and no traceback for errors that a user can correct."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from attnzoo.catalogue import model_info, summary
from attnzoo.shipped_models import SENTIMENT, SHIPPED, model_path
from tests.hub.client import environment, run_python
from tests.hub.server import OWNER, LoopbackHub, loopback_hub

pytestmark = pytest.mark.hub
PUBLISH = """
import contextlib
import io
import json
import sys

from attnzoo.training import publish

publish.SHIPPED = json.loads(sys.argv[2])
said = {}
for name, line in json.loads(sys.argv[1]).items():
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            publish.main(line)
            said[name] = printed.getvalue()
        except SystemExit as error:
            said[name] = f"exit {error}"
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def published(
    hub: LoopbackHub, make_folder: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    folder, truncated = str(make_folder(101)), make_folder(102)
    (truncated / "model.safetensors").write_bytes(b"nothing")
    (Path(folder) / "id_rsa\n").write_text("a secret")
    (Path(folder) / "notes.txt").write_text("of interest")
    lines = {
        "private": [folder, "zoo/private", "--private", "--message", "The first", "--also", "notes.txt"],
        "public": [folder, "zoo/public", "--public"],
        "over another": [folder, "zoo/another"],
        "request": [folder, "zoo/public", "--pull-request", "--message", "With code", "--code"],
        "damaged": [str(truncated), "zoo/damaged"],
        "dry": [folder, "zoo/dry", "--dry-run"],
        "all": ["--all", "zoo", "--dry-run"],
        "by name": [SHIPPED[0], "zoo/dry", "--dry-run"],
        "nowhere": [str(truncated / "none"), "zoo/damaged"],
        "foreign": [folder, "somebody/else"],
    }
    hub.put("zoo/another", {"adapter_config.json": b"{}"})
    there = environment(hub.endpoint, tmp_path_factory.mktemp("home"), OWNER, xet=False)
    ended = run_python("-c", PUBLISH, json.dumps(lines), json.dumps(SHIPPED), environment=there)
    assert ended.returncode == 0, ended.stderr[-3000:]
    said: dict[str, str] = json.loads(ended.stdout.splitlines()[-1])
    return {name: words.replace(folder, "FOLDER") for name, words in said.items()}


def test_what_was_asked_for_is_done(published: dict[str, str], hub: LoopbackHub) -> None:
    private, public = hub.repository("zoo/private"), hub.repository("zoo/public")
    assert private.private
    assert not public.private
    assert private.resolve("main").title == "The first"
    assert public.resolve("main").title == "Upload model"
    assert public.resolve("refs/pr/1").title == "With code"
    assert "modeling_attentional_rnn.py" in public.resolve("refs/pr/1").files
    assert "modeling_attentional_rnn.py" not in public.resolve("main").files


def test_where_it_is_is_printed(published: dict[str, str], hub: LoopbackHub) -> None:
    commit = hub.repository("zoo/private").resolve("main").oid
    ending = "bytes and logits as in FOLDER\n"
    assert published["private"].endswith(f"\n{hub.endpoint}/zoo/private/commit/{commit}: {ending}")
    assert "\nWithout adapter_config.json of another model\n" in published["over another"]
    assert published["request"].endswith(f"\n{hub.endpoint}/zoo/public/discussions/1: {ending}")


def test_what_goes_and_what_stays_is_printed(published: dict[str, str], hub: LoopbackHub) -> None:
    sent = "README.md, config.json, generation_config.json, model.safetensors"
    stays = "'id_rsa\\n' is not sent: of an unknown kind"
    assert published["private"].splitlines()[:2] == [f"zoo/private gets {sent}, notes.txt", stays]
    first, code, *others = published["request"].splitlines()
    assert first == f"zoo/public gets {sent}"
    files = hub.repository("zoo/public").resolve("refs/pr/1").files.keys() - {".gitattributes", *sent.split(", ")}
    assert code == f"and the model's code: {', '.join(sorted(files))}"
    assert others[:2] == [stays, "notes.txt is not sent: of an unknown kind"]
    assert not {"id_rsa\n", "notes.txt"} & hub.repository("zoo/public").resolve("main").files.keys()


def test_a_dry_run_sends_nothing(published: dict[str, str], hub: LoopbackHub) -> None:
    gets, id_rsa, notes = published["dry"].splitlines()
    assert gets == "zoo/dry gets README.md, config.json, generation_config.json, model.safetensors"
    assert (id_rsa[:10], notes) == ("'id_rsa\\n'", "notes.txt is not sent: of an unknown kind")
    assert [line.split(" gets ")[0] for line in published["all"].splitlines()] == [f"zoo/{name}" for name in SHIPPED]
    assert published["by name"].startswith("zoo/dry gets README.md, ")
    assert ("models", "zoo/dry") not in hub.hub.repositories


FEW = [SENTIMENT, "attentional-rnn-g2p-cmudict", "cho2014-tatoeba-en-de", "small-transformer-sotu-masked"]


@pytest.mark.parametrize("shipped", [FEW, pytest.param(SHIPPED, marks=pytest.mark.slow)], ids=["few", "all"])
def test_all_models_are_sent_verified_tagged_and_listed(shipped: list[str], tmp_path: Path) -> None:
    """Twice: the second time only the note of the collection is new, which had another figure."""
    with loopback_hub() as hub:
        there = environment(hub.endpoint, tmp_path, OWNER, xet=False)
        lines = {"all": ["--all", "zoo", "--private"]}
        for _ in range(2):
            ended = run_python("-c", PUBLISH, json.dumps(lines), json.dumps(shipped), environment=there)
            assert ended.returncode == 0, ended.stderr[-3000:]
            said = json.loads(ended.stdout.splitlines()[-1])["all"]
            assert said.count("bytes and logits as in") == len(shipped), said
            assert said.endswith(f"{hub.endpoint}/collections/zoo/attnzoo-1 lists them\n")
            items = hub.hub.collections["zoo/attnzoo-1"]["items"]
            assert items == {f"zoo/{name}": summary(model_info(name)) for name in shipped}
            items[f"zoo/{SENTIMENT}"] = "accuracy 12 %"
        for name in shipped:
            model, tagged = model_info(name), hub.repository(f"zoo/{name}").resolve(f"v{model_info(name)['version']}")
            assert tagged.files["model.safetensors"].oid == model["sha256"]
            results = [path for path in tagged.files if path.startswith(".eval_results/")]
            assert bool(results) == (model["dataset"] is not None)
            assert "record.json" in tagged.files
        # Other weights under a version that is there, with their record, with the old one, and with anybody's.
        lines = {}
        for name, change in (
            ("other", {"sha256": hashlib.sha256(b"other").hexdigest()}),
            ("old", {}),
            ("foreign", None),
        ):
            shutil.copytree(model_path(SENTIMENT), folder := tmp_path / name)
            (folder / "model.safetensors").write_bytes(b"other")
            record = {} if change is None else json.loads((folder / "record.json").read_text()) | change
            (folder / "record.json").write_text(json.dumps(record))
            lines[name] = [str(folder), f"zoo/{SENTIMENT}"]
        ended = run_python("-c", PUBLISH, json.dumps(lines), json.dumps(shipped), environment=there)
        said = json.loads(ended.stdout.splitlines()[-1])
        assert "has other weights under the tag v1" in said["other"]
        assert "record.json is of other weights than those beside it" in said["old"]
        assert "record.json is no record of a model: it has no valid name, version" in said["foreign"]


def test_errors_are_words(published: dict[str, str], hub: LoopbackHub) -> None:
    assert published["damaged"].startswith("exit error: what is in ")
    assert "cannot be loaded and run on a short text, and is not sent: the weights of" in published["damaged"]
    assert published["nowhere"].endswith("/none has no config.json; a model is pushed with its config and its card")
    assert published["foreign"].startswith("exit error: there is no somebody/else, and zoo cannot make it")
    assert hub.hub.repositories.keys() == {("models", f"zoo/{name}") for name in ("private", "public", "another")}
