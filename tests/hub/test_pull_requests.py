"""Branches, pull requests, privacy, and broken uploads."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hub.attempts import Attempts, attempt, load_of, push_of
from tests.hub.server import OWNER, STRANGER, loopback_hub

MakeFolder = Callable[[int], Path]


@pytest.mark.hub
@pytest.mark.parametrize("xet", [False, True], ids=["LFS", "Xet"])
def test_branches_pull_requests_privacy_and_uploads_that_break_off(
    xet: bool, make_folder: MakeFolder, tmp_path: Path
) -> None:
    secret, ours, theirs, other = (make_folder(seed) for seed in range(60, 64))
    (theirs / "README.md").write_text("# better")
    by_stranger = {"create_pr": True, "token": STRANGER, "message": "Mine is better"}
    with loopback_hub() as hub:
        hub.put("zoo/public", {"README.md": b"# old"})
        public = hub.repository("zoo/public")
        old = public.branches["dev"] = public.resolve("main").oid
        hub.fail("POST" if xet else "PUT", "/cas/v1/xorbs/" if xet else "/upload/", "cut upload")
        attempts: Attempts = {
            "cut once": push_of(secret, "institute/secret", private=True, revision="dev"),
            "not theirs": load_of("institute/secret", token=STRANGER),
            "theirs": load_of("institute/secret", revision="dev", token=OWNER),
            "pull request": push_of(ours, "zoo/public", **by_stranger),
            "repeated pull request": push_of(theirs, "zoo/public", **by_stranger),
            "pull request to a branch": push_of(other, "zoo/public", revision="dev", **by_stranger),
        }
        said = attempt(hub.endpoint, tmp_path, attempts, xet=xet)
    assert [name for name, words in said.items() if not words.startswith("ok ")] == ["not theirs"]
    assert "is not a valid model identifier" in said["not theirs"]
    private = hub.repository("institute/secret")
    assert private.private
    assert "model.safetensors" not in private.resolve("main").files
    assert public.branches == {"main": old, "dev": old}
    titles = [[commit.title for commit in public.history(f"refs/pr/{number}")] for number in public.pull_requests]
    before = ["Upload", "initial commit"]
    assert titles == [["Mine is better", "Mine is better", *before], ["Mine is better", *before]]
    better = public.resolve("refs/pr/1").files["README.md"]
    assert hub.hub.contents[better.oid] == b"# better"


@pytest.mark.hub
def test_an_upload_that_breaks_off_for_good(make_folder: MakeFolder, tmp_path: Path) -> None:
    with loopback_hub() as hub:
        fault = hub.fail("PUT", "/upload/", "cut upload", times=1000)
        push = push_of(make_folder(70), "zoo/cut")
        said = attempt(hub.endpoint, tmp_path, {"push": push})
        assert "OSError: the push to zoo/cut failed: Error while uploading 'model.safetensors'" in said["push"]
        assert "Push again" in said["push"]
        assert [commit.title for commit in hub.repository("zoo/cut").history("main")] == ["initial commit"]
        fault.times = 0
        assert attempt(hub.endpoint, tmp_path, {"push": push})["push"].startswith("ok")
