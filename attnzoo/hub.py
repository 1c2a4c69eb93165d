"""From a folder to the Hub, and proof that what stands there is what was sent.

:func:`push` makes one commit out of a folder that ``save_pretrained`` wrote, and does not end before the repository has
been downloaded, its bytes compared, and its model loaded in a fresh process that computes the local model's logits bit
for bit. :func:`verify` compares the checksums of any repository with what arrived of it: a flipped bit passes every
client, which looks at sizes alone.
"""

import filecmp
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import (
    CommitInfo,
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    ModelCard,
    get_token,
    snapshot_download,
)
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    RepositoryNotFoundError,
)
from huggingface_hub.utils import validate_repo_id
from transformers import AutoConfig

from .model_code import add_code, auto_classes
from .sample_outputs import save_outputs

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.pickle")
# What Transformers and PEFT look for in a repository and load beside a config: of another model, it is a wrong answer.
LOADED = (
    *("*.safetensors", "*.safetensors.index.json", *PICKLES, "*.bin.index.json", "generation_config.json"),
    *("adapter_config.json", "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt"),
    *("chat_template.*", "*.model"),
)
TRY_AGAIN = (408, 412, 429)  # client errors that pass: too slow, somebody else's commit came first, too many requests


def push(
    folder: str | Path,
    repo_id: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    create_pr: bool = False,
    code: bool = False,
    message: str = "Upload model",
    token: str | None = None,
) -> CommitInfo:
    """Publish the files of a folder, of which there has to be a config, safetensors and a card.

    It is one commit: the repository has all of the files or is as it was. Repeated after a failure it sends only what
    is not there yet, and with nothing to send it makes no commit. Files that only the repository has stay, but for
    those of another model that would be loaded with this one: they go in the same commit.

    Args:
        folder: where ``save_pretrained`` and ``training.release`` write; its subfolders stay at home
        repo_id: "owner/name"; made if there is none
        private: whether nobody else shall see it, of a new repository; None is the Hub's default
        revision: the branch, made if there is none
        create_pr: open a pull request instead (to the branch, which has to be there), which others' repositories take,
            too; one of yours with the same message that is open gets the commit
        code: send the model's code along, for users without attnzoo (``trust_remote_code=True``)
        message: the commit's, and the title of a pull request
        token: None is the one that ``hf auth login`` left, or ``HF_TOKEN``

    Raises:
        FileNotFoundError: the folder lacks one of the files.
        ValueError: it holds a pickle, a card that is none or a model that cannot be loaded; the id is none, the
            repository is not as private as asked, or the code is another package's.
        PermissionError: no token, or one that may not write there.
        ConnectionError: the Hub does not answer. Up to here nothing has been sent.
        OSError: the push failed; or what arrives of it is not what was sent.
    """
    folder = Path(folder)
    _require_files(folder)
    account = require_write_access(repo_id, create_pr=create_pr, token=token)
    api = HfApi(token=token)
    _require_visibility(api, repo_id, private)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        staged = _stage(folder, home / "staged", repo_id)
        auto_class = _save_outputs(folder, home / "outputs.safetensors")
        if code:
            add_code(staged)
        try:
            if create_pr:
                open_request = _open_pull_request(api, repo_id, account, message)
                revision, create_pr = open_request or revision, open_request is None
            else:
                api.create_repo(repo_id, private=private, exist_ok=True)
                if revision is not None:
                    api.create_branch(repo_id, branch=revision, exist_ok=True)
            before = api.model_info(repo_id, revision=revision)
            commit: CommitInfo = api.create_commit(
                repo_id,
                _operations(staged, [file.rfilename for file in before.siblings or []]),
                commit_message=message,
                revision=revision,
                create_pr=create_pr,
                parent_commit=before.sha,
            )
        except Exception as error:  # of huggingface_hub, its HTTP client and hf_xet, which have no class in common
            again = "" if _is_refusal(error) else ". Push again: what has been uploaded is not uploaded twice"
            raise OSError(
                f"the push to {repo_id} failed: {error}\nA push is one commit: all of it is there, or nothing{again}"
            ) from error
        try:
            arrived = verify(repo_id, commit.oid, cache_dir=home / "hub", token=token)
            _require_same_files(staged, arrived)
            _require_same_outputs(home, auto_class, repo_id, commit.oid, code, token)
        except Exception as error:  # as above, of the way back
            raise OSError(
                f"{repo_id} has the commit {commit.oid}, which was not seen to be what was sent: {error}\nPush again "
                f"to look again; with revision={before.sha!r} users load what was there before"
            ) from error
    return commit


def verify(
    repo_id: str, revision: str | None = None, *, cache_dir: str | Path | None = None, token: str | None = None
) -> Path:
    """Download a repository, or take it from the cache, and compare every file with the Hub's checksum of it.

    Returns:
        Where the files are; ``from_pretrained`` loads these, and no others.

    Raises:
        OSError: a file is not what the Hub says it is.
    """
    folder = Path(snapshot_download(repo_id, revision=revision, cache_dir=cache_dir, token=token))
    found = HfApi(token=token).verify_repo_checksums(repo_id, revision=folder.name, local_dir=folder)
    wrong = [
        f"{item['path']} has the {item['algorithm']} {item['actual']} instead of {item['expected']}"
        for item in found.mismatches
    ]
    wrong += [f"{path} is missing" for path in found.missing_paths]
    if wrong:
        raise OSError(
            f"{repo_id} did not arrive as the Hub has it: {'; '.join(wrong)}. Do not load it; download it again with "
            f"snapshot_download({repo_id!r}, revision={folder.name!r}, force_download=True), and if that does not "
            "help, the Hub's copy is damaged"
        )
    return folder


def require_write_access(repo_id: str, *, create_pr: bool = False, token: str | None = None) -> str:
    """Ask the Hub whether this token may push there. Before a long training, for example.

    Returns:
        The name of the token's account.

    Raises:
        ValueError: the id is none.
        PermissionError: there is no token, the Hub does not know it, or it may not.
        ConnectionError: the Hub does not answer.
        FileNotFoundError: a pull request for a repository that is not there.
    """
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ValueError(str(error)) from error
    namespace, _, name = repo_id.partition("/")
    if not name:
        raise ValueError(f"{repo_id!r} does not say whose it is; write owner/{repo_id}")
    api = HfApi(token=token)
    try:
        with _answering(api):
            user: dict[str, Any] = api.whoami()
    except LocalTokenNotFoundError as error:
        raise PermissionError("there is no token; run `hf auth login`, or set HF_TOKEN") from error
    except HfHubHTTPError as error:
        raise PermissionError("the Hub does not know this token; run `hf auth login` with another one") from error
    account = str(user["name"])
    if not create_pr and user.get("auth", {}).get("accessToken", {}).get("role") == "read":
        raise PermissionError(f"the token of {account} may only read; make one that may write in the Hub's settings")
    try:
        with _answering(api):
            api.auth_check(repo_id, write=not create_pr)
    except GatedRepoError as error:
        raise PermissionError(f"{repo_id} is gated; ask for access on its page, as {account}") from error
    except RepositoryNotFoundError as error:
        if create_pr:
            raise FileNotFoundError(f"there is no {repo_id} to open a pull request on") from error
        own = [account, *(organization["name"] for organization in user.get("orgs", []))]
        if namespace not in own:
            raise PermissionError(
                f"there is no {repo_id}, and {account} cannot make it; choose one of {', '.join(own)} as owner"
            ) from error
    except HfHubHTTPError as error:
        raise PermissionError(
            f"{account} may not write to {repo_id}; push to a repository of your own, or open a pull request"
        ) from error
    return account


@contextmanager
def _answering(api: HfApi) -> Iterator[None]:
    """A Hub that is not there, or fails, is a ConnectionError; what it says no with, passes."""
    try:
        yield
    except Exception as error:  # of the HTTP client, too, whose classes are no part of huggingface_hub
        if isinstance(error, LocalTokenNotFoundError) or _is_refusal(error):
            raise
        has_answered = isinstance(error, HfHubHTTPError)
        said = f"the Hub at {api.endpoint} fails" if has_answered else f"no answer from the Hub at {api.endpoint}"
        raise ConnectionError(f"{said}: {error}") from error


def _is_refusal(error: Exception) -> bool:
    """Whether the Hub has said no, and would say it again."""
    if not isinstance(error, HfHubHTTPError):
        return False
    return error.response.is_client_error and error.response.status_code not in TRY_AGAIN


def _require_files(folder: Path) -> None:
    for name in ("config.json", "README.md"):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} has no {name}; a model goes out with its config and its card")
    if not any(folder.glob("*.safetensors")):
        raise FileNotFoundError(f"{folder} has no safetensors; write it with save_pretrained")
    pickles = sorted(path.name for path in folder.iterdir() if _is_one_of(path.name.lower(), PICKLES))
    if pickles:
        raise ValueError(
            f"{folder} has pickles, which run code where they are loaded: {', '.join(pickles)}; remove them"
        )
    try:
        ModelCard.load(folder / "README.md")
    except Exception as error:  # of the YAML parser, and ValueErrors that do not name the file
        raise ValueError(f"{folder / 'README.md'} is no card: {error}") from error


def _require_visibility(api: HfApi, repo_id: str, private: bool | None) -> None:
    """Nothing goes to everybody that was to be private because the repository was there before."""
    try:
        with _answering(api):
            is_private = bool(api.model_info(repo_id).private)
    except RepositoryNotFoundError:
        return
    if private is not None and private != is_private:
        raise ValueError(
            f"{repo_id} is there and is {'private' if is_private else 'public'}; change that in its settings, or "
            "choose another name"
        )


def _stage(folder: Path, staged: Path, repo_id: str) -> Path:
    """A copy of what is to be pushed; where the card loads the model from the folder, its reader shall ask the Hub."""
    staged.mkdir()
    for path in folder.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copyfile(path, staged / path.name)
    card = staged / "README.md"
    name = re.escape(folder.resolve().name)  # a card has no absolute path, whatever is given here
    loading = rf'(from_pretrained\(|model=|pipeline\("[^"\n]*", )"(?:[^"\n]*/)?{name}"'
    card.write_text(re.sub(loading, rf'\1"{repo_id}"', card.read_text(encoding="utf-8")), encoding="utf-8")
    return staged


def _save_outputs(folder: Path, path: Path) -> str:
    """Write what the folder's model computes; returns the Auto class that loads it, of those it is registered for."""
    try:
        config = AutoConfig.from_pretrained(folder)
        names = {class_.__name__: auto_class for auto_class, class_ in auto_classes(config).items()}
        auto_class = next((names[name] for name in config.architectures or [] if name in names), "AutoModel")
        save_outputs(path, folder, auto_class)
    except Exception as error:  # whatever a damaged folder, or a model of another kind, makes Transformers raise
        raise ValueError(f"the model in {folder} does not load, and is not sent: {error}") from error
    return auto_class


def _open_pull_request(api: HfApi, repo_id: str, account: str, title: str) -> str | None:
    """The reference of this account's open pull request of that title."""
    requests = api.get_repo_discussions(
        repo_id, author=account, discussion_type="pull_request", discussion_status="open"
    )
    return next((f"refs/pr/{request.num}" for request in requests if request.title == title), None)


def _operations(staged: Path, present: list[str]) -> list[CommitOperationAdd | CommitOperationDelete]:
    """All files of the folder, and the end of those in the repository that would be loaded though it has none such."""
    added = sorted(path.name for path in staged.iterdir())
    stale = [name for name in present if "/" not in name and name not in added and _is_one_of(name, LOADED)]
    return [*(CommitOperationAdd(name, staged / name) for name in added), *map(CommitOperationDelete, stale)]


def _is_one_of(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _require_same_files(staged: Path, arrived: Path) -> None:
    names = sorted(path.name for path in staged.iterdir())
    _, changed, missing = filecmp.cmpfiles(staged, arrived, names, shallow=False)
    if changed or missing:
        raise OSError(f"these files did not arrive as they were sent: {', '.join(changed + missing)}")


def _require_same_outputs(
    home: Path, auto_class: str, repo_id: str, revision: str, code: bool, token: str | None
) -> None:
    """Have a fresh process load what stands in the cache of ``home``, and compare."""
    settings = {"HF_HOME": home, "HF_HUB_CACHE": home / "hub", "HF_MODULES_CACHE": home / "modules"}
    variables = os.environ | {name: str(path) for name, path in settings.items()}
    package = Path(__file__).parent
    found = [str(package.parent), *filter(None, [os.environ.get("PYTHONPATH")])]  # the package need not be installed
    variables["PYTHONPATH"] = os.pathsep.join(found)
    variables["OMP_NUM_THREADS"] = str(torch.get_num_threads())  # sums of as many parts
    if token := token or get_token():
        variables["HF_TOKEN"] = token
    expected, source = home / "outputs.safetensors", "code" if code else "package"
    program = [sys.executable, "-P", str(package / "sample_outputs.py")]
    ended = subprocess.run(
        [*program, str(expected), auto_class, repo_id, revision, source],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise OSError(f"it does not load as the folder does: {ended.stderr.strip()}")
