"""Push a folder to the Hub.

:func:`push` makes one commit of a folder that ``save_pretrained`` wrote. Then it downloads the repository, compares the
bytes, and has a fresh process load the model and compare its outputs with the local model's.
"""

import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete, HfApi, ModelCard, ModelInfo
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from transformers import AutoConfig, AutoTokenizer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from ..json_files import read_mapping
from ..registered_models import loading_class
from .access import client, is_refusal, require_visibility, require_write_access
from .folder_contents import ADAPTER, KNOWN, TOKENIZER, WEIGHTS, contents, is_one_of, printable
from .model_code import add_code, forget_missing_code
from .sample_outputs import save_outputs
from .verification import files_below, require_arrival, require_same_outputs

# Weight files that ``from_pretrained`` would load with the pushed config: those of another model, or parts of one.
LOADED = (
    *(*WEIGHTS, *ADAPTER, "generation_config.json", "adapter_model.bin"),
    *("pytorch_model.bin", "pytorch_model-?????-of-?????.bin", "pytorch_model.bin.index.json"),
)


def push(
    folder: str | Path,
    repo_id: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    create_pr: bool = False,
    code: bool = False,
    also: Iterable[str] = (),
    message: str = "Upload model",
    token: str | None = None,
) -> CommitInfo:
    """Publish the model in a folder. The folder needs a config, safetensors and a card.

    Only files of known kinds are pushed; :func:`attnzoo.hub.folder_contents.contents` lists them and the others.

    A push is one commit: the repository gets all of the files, or none. A second push after a failure sends only what
    is missing; with nothing to send it makes no commit. Other files of the repository stay, except weights of another
    model, and its tokenizer if the folder has one: ``from_pretrained`` would load them. The same commit deletes them,
    and its description names them.

    Args:
        folder: where ``save_pretrained`` and ``attnzoo.training.release`` write
        repo_id: "owner/name"; created if it does not exist
        private: whether a new repository is private; None is the Hub's default
        revision: the branch, created if it does not exist
        create_pr: open a pull request to the branch, which must exist; possible for repositories of others, too. An
            open pull request of yours with the same title to that branch gets the commit instead
        code: push the model's code, too, for users without attnzoo (``trust_remote_code=True``)
        also: names of other files at the top of the folder to push
        message: the message of the commit, and the title of a pull request
        token: None is the token of ``hf auth login``, or ``HF_TOKEN``

    Raises:
        FileNotFoundError: the folder lacks one of the files.
        ValueError: a file to push is a broken link, a link out of the folder, a pickle, code, an invalid card or JSON,
            or an adapter whose base model is only on this machine; the model or tokenizer cannot be loaded; the id is
            invalid; the repository exists and is not as private as requested; the code belongs to another package;
            HF_ENDPOINT contains a password.
        PermissionError: there is no token, or it may not write there.
        ConnectionError: the Hub does not answer. Before this point nothing has been sent.
        OSError: the push failed, or the files that arrived differ from those that were sent.
    """
    folder = Path(folder)
    names = contents(folder, also).sent
    _require_readable(folder, names)
    account = require_write_access(repo_id, create_pr=create_pr, token=token)
    api = client(token)
    require_visibility(api, repo_id, private)
    # Windows cannot remove a file that a model is still loaded from.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        home = Path(name)
        staged = _stage(folder, names, home / "staged", repo_id)
        auto_class = _save_outputs(staged, folder, home / "outputs.safetensors")
        if code:
            add_code(staged)
        else:
            forget_missing_code(staged)
        before, commit = _commit(api, staged, repo_id, private, revision, account if create_pr else None, message)
        try:
            arrived = require_arrival(staged, home, repo_id, commit.oid, token)
            require_same_outputs(arrived, home, auto_class, code)
        except Exception as error:  # of huggingface_hub, its HTTP client and hf_xet, which have no class in common
            had_model = any(file.rfilename == "config.json" for file in before.siblings or [])
            older = f"; with revision={before.sha!r} users load what was there before"
            raise OSError(
                f"{repo_id} has the commit {commit.oid}, which could not be verified: {error}\nPush again "
                f"to verify it again{older if had_model and before.sha != commit.oid else ''}"
            ) from error
    return commit


def _require_readable(folder: Path, names: list[str]) -> None:
    try:
        ModelCard.load(folder / "README.md")
    except Exception as error:  # of the YAML parser, and ValueErrors that do not name the file
        raise ValueError(f"{folder / 'README.md'} is not a valid card: {error}") from error
    for path in (folder / name for name in names if name.endswith(".json") and is_one_of(name, KNOWN)):
        try:
            entries = read_mapping(path)
        except ValueError as error:
            raise ValueError(f"{path} is not a model's JSON: {error}") from error
        if path.name == "adapter_config.json":
            _require_base_on_hub(path, entries.get("base_model_name_or_path"))


def _require_base_on_hub(path: Path, base: Any) -> None:
    """Check that an adapter's base model is on the Hub: a folder on this machine is not available to others."""
    with contextlib.suppress(HFValidationError, TypeError):
        validate_repo_id(base)
        if not Path(base).exists():
            return
    place = str(base).rpartition("@")[2]  # before it there may be a password
    raise ValueError(
        f"{path} has base_model_name_or_path={place!r}, not an id on the Hub; give the base model's id there"
    )


def _stage(folder: Path, names: list[str], staged: Path, repo_id: str) -> Path:
    """Copy what is to be pushed. A card that loads the model from the folder, or by its name, now asks the Hub."""
    staged.mkdir()
    for name in names:
        (staged / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(folder / name, staged / name)
    place = folder.resolve().as_posix()

    def ask_the_hub(loading: re.Match[str]) -> str:
        named = loading["folder"] or loading["name"]
        return f'{loading[1]}"{repo_id}"' if f"{place}/".endswith(f"/{named.strip('/')}/") else loading[0]

    card = staged / "README.md"
    call = r'(from_pretrained\(|model=|pipeline\("[^"\n]*", )'
    loading = call + r'(?:"(?P<folder>[^"\n]+)"|attnzoo\.model_path\("(?P<name>[^"\n]+)"\))'
    card.write_bytes(re.sub(loading, ask_the_hub, card.read_bytes().decode()).encode())  # lines end as they did
    return staged


def _save_outputs(staged: Path, folder: Path, path: Path) -> str:
    """Write the model's outputs; returns the name of the class, of Transformers, that loads it."""
    entries = read_mapping(staged / "config.json")
    if "auto_map" in entries and entries.get("model_type") not in CONFIG_MAPPING:
        raise ValueError(f"the model in {folder} runs code of its own; push sends those of attnzoo and Transformers")
    try:
        auto_class = loading_class(AutoConfig.from_pretrained(staged))
        save_outputs(path, staged, auto_class)
        if (staged / "tokenizer_config.json").is_file():
            AutoTokenizer.from_pretrained(staged, trust_remote_code=False)
    except Exception as error:  # any class of error, for a damaged folder or another kind of model
        words = str(error).replace(str(staged), str(folder))
        raise ValueError(
            f"what is in {folder} cannot be loaded and run on a short text, and is not sent: {words}"
        ) from error
    return auto_class


def _commit(
    api: HfApi, staged: Path, repo_id: str, private: bool | None, revision: str | None, author: str | None, message: str
) -> tuple[ModelInfo, CommitInfo]:
    """Commit to the branch, or to a pull request of the account ``author``; the branch before, and the commit."""
    try:
        create_pr = False
        if author is not None:
            request = _open_pull_request(api, repo_id, revision or "main", author, message)
            revision, create_pr = request or revision, request is None
        else:
            api.create_repo(repo_id, private=private, exist_ok=True)
            if revision is not None:
                api.create_branch(repo_id, branch=revision, exist_ok=True)
        before = api.model_info(repo_id, revision=revision)
        added = files_below(staged)
        stale = _stale(added, [file.rfilename for file in before.siblings or []])
        commit: CommitInfo = api.create_commit(
            repo_id,
            [*(CommitOperationAdd(name, staged / name) for name in added), *map(CommitOperationDelete, stale)],
            commit_message=message,
            commit_description=f"Without {', '.join(map(printable, stale))} of another model" if stale else "",
            revision=revision,
            create_pr=create_pr,
            parent_commit=before.sha,
        )
    except Exception as error:  # as above
        again = "" if is_refusal(error) else ". Push again: what has been uploaded is not uploaded twice"
        cause = f" ({error.__cause__})" if error.__cause__ is not None else ""
        raise OSError(
            f"the push to {repo_id} failed: {error}{cause}\nA push is one commit: all of it is there, or nothing{again}"
        ) from error
    return before, commit


def _open_pull_request(api: HfApi, repo_id: str, branch: str, author: str, title: str) -> str | None:
    """The reference of this account's open pull request of that title to the branch."""
    requests = api.get_repo_discussions(
        repo_id, author=author, discussion_type="pull_request", discussion_status="open"
    )
    for request in (request for request in requests if request.title == title):
        if api.get_discussion_details(repo_id, request.num).target_branch == f"refs/heads/{branch}":
            return request.git_reference
    return None


def _stale(added: list[str], present: list[str]) -> list[str]:
    """Files of the repository that the folder lacks and that would be loaded with its model."""
    loaded = LOADED + (TOKENIZER if any(is_one_of(name, TOKENIZER) for name in added) else ())
    return [name for name in present if name not in added and is_one_of(name, loaded)]
