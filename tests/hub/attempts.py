"""A process that makes many attempts, each on its own repository, and reports the result of each."""

import json
from pathlib import Path
from typing import Any

from tests.hub.client import environment, run_python
from tests.hub.server import OWNER

ATTEMPT = """
import json
import sys

import huggingface_hub
import transformers
import attnzoo
from attnzoo.hub import pushing
from attnzoo.hub import push, require_write_access, verify

load = transformers.AutoModelForSeq2SeqLM.from_pretrained
download_anew = huggingface_hub.snapshot_download


def load_adapter(base, adapter, **options):
    load(base).load_adapter(adapter, **options)


def push_code_without(file, **options):
    whole = pushing.add_code
    pushing.add_code = lambda folder: (whole(folder), (folder / file).unlink())
    try:
        return push(code=True, **options)
    finally:
        pushing.add_code = whole


said = {}
for name, (call, options) in json.loads(sys.argv[1]).items():
    try:
        said[name] = f"ok {globals()[call](**options)}"
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""
Attempt = tuple[str, dict[str, object]]
Attempts = dict[str, Attempt]


def attempt(endpoint: str, home: Path, attempts: Attempts, xet: bool = False, **settings: str) -> dict[str, str]:
    """The result of each attempt: "ok" and the returned value, or the error."""
    ended = run_python(
        "-c", ATTEMPT, json.dumps(attempts), environment=environment(endpoint, home, None, xet, **settings)
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    said: dict[str, str] = json.loads(ended.stdout.splitlines()[-1])
    return said


def push_of(folder: Path, repo_id: str, token: str | None = OWNER, **options: object) -> Attempt:
    return "push", {"folder": str(folder), "repo_id": repo_id, "token": token, **options}


def load_of(repo_id: str, **options: object) -> Attempt:
    return "load", {"pretrained_model_name_or_path": repo_id, **options}


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class Malicious:
    """Unpickling an object of this class writes a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return open, (str(self.mark), "w")
