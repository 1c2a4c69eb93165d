"""From a folder to the Hub, and proof that what stands there is what was sent.

:func:`push` makes one commit out of a folder that ``save_pretrained`` wrote, and does not end before the repository has
been downloaded, its bytes compared, and its model loaded in a fresh process that computes the local model's logits bit
for bit. :func:`verify` compares the checksums of any repository with what arrived of it: a flipped bit passes every
client, which looks at sizes alone.
"""

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from huggingface_hub import (
    CommitInfo,
    CommitOperationAdd,
    CommitOperationDelete,
    HfApi,
    ModelCard,
    ModelInfo,
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
from transformers import AutoConfig, AutoTokenizer
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from .folder_contents import ADAPTER, TOKENIZER, WEIGHTS, contents, is_one_of, printable
from .model_code import add_code, auto_classes, forget_missing_code
from .sample_outputs import save_outputs

# What would be loaded beside the config of a model that has none such: the weights of another, or of its parts.
LOADED = (
    *(*WEIGHTS, *ADAPTER, "generation_config.json", "adapter_model.bin"),
    *("pytorch_model.bin", "pytorch_model-?????-of-?????.bin", "pytorch_model.bin.index.json"),
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
    also: Iterable[str] = (),
    message: str = "Upload model",
    token: str | None = None,
) -> CommitInfo:
    """Publish the model in a folder. The folder needs a config, safetensors and a card.

    Only files of known kinds are pushed; :func:`attnzoo.hub.folder_contents.contents` lists them and the others.

    It is one commit: the repository has all of the files or is as it was. Repeated after a failure it sends only what
    is not there yet, and with nothing to send it makes no commit. Files that only the repository has stay, but for
    weights, and with a tokenizer in the folder tokenizers, of another model: they would be loaded with this one, and go
    in the same commit, whose description names them.

    Args:
        folder: where ``save_pretrained`` and ``attnzoo.training.release`` write
        repo_id: "owner/name"; made if there is none
        private: whether nobody else shall see it, of a new repository; None is the Hub's default
        revision: the branch, made if there is none
        create_pr: open a pull request instead (to the branch, which has to be there), which others' repositories take,
            too; one of yours to that branch with the same message that is still open gets the commit
        code: send the model's code along, for users without attnzoo (``trust_remote_code=True``)
        also: names of other files at the top of the folder, which are sent, too
        message: the commit's, and the title of a pull request
        token: None is the one that ``hf auth login`` left, or ``HF_TOKEN``

    Raises:
        FileNotFoundError: the folder lacks one of the files.
        ValueError: a file to push is a broken link, a link out of the folder, a pickle, an invalid card or JSON,
            or of an adapter to a model that only this machine has; the model or tokenizer cannot be loaded; the id is
            none, the repository is not as private as asked, the code is another package's, or HF_ENDPOINT has a
            password in it.
        PermissionError: no token, or one that may not write there.
        ConnectionError: the Hub does not answer. Up to here nothing has been sent.
        OSError: the push failed; or what arrives of it is not what was sent.
    """
    folder = Path(folder)
    names = contents(folder, also).sent
    _require_readable(folder, names)
    account = require_write_access(repo_id, create_pr=create_pr, token=token)
    api = _api(token)
    _require_visibility(api, repo_id, private)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        staged = _stage(folder, names, home / "staged", repo_id)
        auto_class = _save_outputs(staged, folder, home / "outputs.safetensors")
        if code:
            add_code(staged)
        else:
            forget_missing_code(staged)
        before, commit = _commit(api, staged, repo_id, private, revision, account if create_pr else None, message)
        try:
            arrived = _require_arrival(staged, home, repo_id, commit.oid, token)
            _require_same_outputs(arrived, home, auto_class, code)
        except Exception as error:  # of huggingface_hub, its HTTP client and hf_xet, which have no class in common
            had_model = any(file.rfilename == "config.json" for file in before.siblings or [])
            older = f"; with revision={before.sha!r} users load what was there before"
            raise OSError(
                f"{repo_id} has the commit {commit.oid}, which was not seen to be what was sent: {error}\nPush again "
                f"to look again{older if had_model and before.sha != commit.oid else ''}"
            ) from error
    return commit


def verify(
    repo_id: str, revision: str | None = None, *, cache_dir: str | Path | None = None, token: str | None = None
) -> Path:
    """Download a repository, or take it from the cache, and compare every file with the Hub's checksum of it.

    Returns:
        Where the files are; ``from_pretrained`` loads these, and no others.

    Raises:
        OSError: a file is not what the Hub says it is, or not of the repository; or there is no such repository or
            revision, or no answer.
        ValueError: HF_ENDPOINT has a password in it.
    """
    folder, wrong = _download(repo_id, revision, cache_dir, token)
    if wrong:
        cache = "" if cache_dir is None else f", cache_dir={str(cache_dir)!r}"
        raise OSError(
            f"{repo_id} did not arrive as the Hub has it: {'; '.join(wrong)}. Do not load it; download it again with "
            f"snapshot_download({repo_id!r}, revision={folder.name!r}{cache}, force_download=True), and if that does "
            "not help, the Hub's copy is damaged"
        )
    return folder


def _download(
    repo_id: str, revision: str | None, cache_dir: str | Path | None, token: str | None
) -> tuple[Path, list[str]]:
    """Where a repository's files are, and what is wrong with them by the Hub's checksums."""
    api = _api(token)
    folder = Path(snapshot_download(repo_id, revision=revision, cache_dir=cache_dir, token=token))
    found = api.verify_repo_checksums(repo_id, revision=folder.name, local_dir=folder)
    wrong = [
        f"{item['path']} has the {item['algorithm']} {item['actual']} instead of {item['expected']}"
        for item in found.mismatches
    ]
    wrong += [f"{path} is missing" for path in found.missing_paths]
    return folder, wrong + [f"{path} is not of the repository" for path in found.extra_paths]


def require_write_access(repo_id: str, *, create_pr: bool = False, token: str | None = None) -> str:
    """Ask the Hub whether this token may push there. Before a long training, for example.

    Returns:
        The name of the token's account.

    Raises:
        ValueError: the id is none, or HF_ENDPOINT has a password in it.
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
    api = _api(token)
    try:
        with _answering(api):
            user: dict[str, Any] = api.whoami()
    except LocalTokenNotFoundError as error:
        raise PermissionError("there is no token; run `hf auth login`, or set HF_TOKEN") from error
    except HfHubHTTPError as error:
        if error.response.status_code not in (401, 403):
            raise ConnectionError(f"what answers at {api.endpoint} is no Hub: {error}") from error
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


def _api(token: str | None) -> HfApi:
    """The Hub's client. A password in HF_ENDPOINT would be sent instead of the token, and shown in every error."""
    api = HfApi(token=token)
    if "@" in urlsplit(api.endpoint).netloc:
        raise ValueError("HF_ENDPOINT has a user name or a password before an @; remove it and set HF_TOKEN")
    return api


@contextmanager
def _answering(api: HfApi) -> Iterator[None]:
    """A Hub that is not there, or fails, is a ConnectionError; what it says no with, passes."""
    try:
        yield
    except Exception as error:  # of the HTTP client, too, whose classes are no part of huggingface_hub
        if isinstance(error, LocalTokenNotFoundError) or _refusal(error):
            raise
        has_answered = isinstance(error, HfHubHTTPError)
        said = f"the Hub at {api.endpoint} fails" if has_answered else f"no answer from the Hub at {api.endpoint}"
        raise ConnectionError(f"{said}: {error}") from error


def _refusal(error: BaseException | None) -> bool:
    """Whether the Hub, here or in what led to this error, has said no and would say it again."""
    if error is None or not isinstance(error, HfHubHTTPError):
        return error is not None and _refusal(error.__cause__)
    return error.response.is_client_error and error.response.status_code not in TRY_AGAIN


def _require_readable(folder: Path, names: list[str]) -> None:
    try:
        ModelCard.load(folder / "README.md")
    except Exception as error:  # of the YAML parser, and ValueErrors that do not name the file
        raise ValueError(f"{folder / 'README.md'} is no card: {error}") from error
    for path in (folder / name for name in names if name.endswith(".json")):
        try:
            entries = json.loads(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} is no JSON: {error}") from error
        if path.name == "adapter_config.json" and isinstance(entries, dict):
            _require_base_on_hub(path, entries.get("base_model_name_or_path"))


def _require_base_on_hub(path: Path, base: Any) -> None:
    """Check that an adapter's base model is on the Hub: a folder on this machine is not available to others."""
    try:
        validate_repo_id(base)
        is_elsewhere = not Path(base).exists()
    except (HFValidationError, TypeError):
        is_elsewhere = False
    if not is_elsewhere:
        place = str(base).rpartition("@")[2]  # before it there may be a password
        raise ValueError(
            f"{path} has base_model_name_or_path={place!r}, not an id on the Hub; give the base model's id there"
        )


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


def _stage(folder: Path, names: list[str], staged: Path, repo_id: str) -> Path:
    """A copy of what is to be pushed; where the card loads the model from the folder, its reader shall ask the Hub."""
    staged.mkdir()
    for name in names:
        shutil.copyfile(folder / name, staged / name)
    place = folder.resolve().as_posix()

    def ask_the_hub(loading: re.Match[str]) -> str:
        return f'{loading[1]}"{repo_id}"' if f"{place}/".endswith(f"/{loading[2].strip('/')}/") else loading[0]

    card = staged / "README.md"
    loading = r'(from_pretrained\(|model=|pipeline\("[^"\n]*", )"([^"\n]+)"'
    card.write_bytes(re.sub(loading, ask_the_hub, card.read_bytes().decode()).encode())  # lines end as they did
    return staged


def _save_outputs(staged: Path, folder: Path, path: Path) -> str:
    """Write what the model computes; returns the Auto class that loads it, of those it is registered for."""
    entries = json.loads((staged / "config.json").read_bytes())
    if "auto_map" in entries and entries.get("model_type") not in CONFIG_MAPPING:
        raise ValueError(f"the model in {folder} runs code of its own; push sends those of attnzoo and Transformers")
    try:
        config = AutoConfig.from_pretrained(staged)
        names = {class_.__name__: auto_class for auto_class, class_ in auto_classes(config).items()}
        auto_class = next((names[name] for name in config.architectures or [] if name in names), "AutoModel")
        save_outputs(path, staged, auto_class)
        if (staged / "tokenizer_config.json").is_file():
            AutoTokenizer.from_pretrained(staged, trust_remote_code=False)
    except Exception as error:  # whatever a damaged folder, or a model of another kind, makes Transformers raise
        words = str(error).replace(str(staged), str(folder))
        raise ValueError(
            f"what is in {folder} cannot be loaded and run on a short text, and is not sent: {words}"
        ) from error
    return auto_class


def _commit(
    api: HfApi,
    staged: Path,
    repo_id: str,
    private: bool | None,
    revision: str | None,
    requester: str | None,
    message: str,
) -> tuple[ModelInfo, CommitInfo]:
    """What the branch was, and the commit on it, or on a pull request of this account's if there is a requester."""
    try:
        create_pr = False
        if requester is not None:
            request = _open_pull_request(api, repo_id, revision or "main", requester, message)
            revision, create_pr = request or revision, request is None
        else:
            api.create_repo(repo_id, private=private, exist_ok=True)
            if revision is not None:
                api.create_branch(repo_id, branch=revision, exist_ok=True)
        before = api.model_info(repo_id, revision=revision)
        added = sorted(path.name for path in staged.iterdir())
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
        again = "" if _refusal(error) else ". Push again: what has been uploaded is not uploaded twice"
        cause = f" ({error.__cause__})" if error.__cause__ is not None else ""
        raise OSError(
            f"the push to {repo_id} failed: {error}{cause}\nA push is one commit: all of it is there, or nothing{again}"
        ) from error
    return before, commit


def _open_pull_request(api: HfApi, repo_id: str, branch: str, account: str, title: str) -> str | None:
    """The reference of this account's open pull request of that title to the branch."""
    for request in api.get_repo_discussions(
        repo_id, author=account, discussion_type="pull_request", discussion_status="open"
    ):
        if request.title == title:
            details = api.get_discussion_details(repo_id, request.num)
            if details.target_branch == f"refs/heads/{branch}":
                return f"refs/pr/{request.num}"
    return None


def _stale(added: list[str], present: list[str]) -> list[str]:
    """What the repository has and the folder has not, and would be loaded with it."""
    loaded = LOADED + (TOKENIZER if any(is_one_of(name, TOKENIZER) for name in added) else ())
    return [name for name in present if name not in added and is_one_of(name, loaded)]


def _require_arrival(staged: Path, home: Path, repo_id: str, revision: str, token: str | None) -> Path:
    """Download what was pushed, and compare every byte; returns where it is."""
    arrived, wrong = _download(repo_id, revision, home / "hub", token)
    names = [path.name for path in staged.iterdir()]
    _, changed, missing = filecmp.cmpfiles(staged, arrived, names, shallow=False)
    wrong += [f"{name} is not what was sent" for name in sorted(changed + missing)]
    if wrong:
        raise OSError("; ".join(wrong))
    return arrived


def _require_same_outputs(arrived: Path, home: Path, auto_class: str, code: bool) -> None:
    """Have a fresh process load what arrived, and compare."""
    # The package need not be installed.
    found = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    settings = {
        "HF_HUB_OFFLINE": "1",  # all is there
        "HF_MODULES_CACHE": str(home / "modules"),
        "OMP_NUM_THREADS": str(torch.get_num_threads()),  # sums of as many parts
        "PYTHONPATH": os.pathsep.join(found),
    }
    program = [sys.executable, "-P", str(Path(__file__).with_name("sample_outputs.py"))]
    ended = subprocess.run(
        [*program, str(home / "outputs.safetensors"), auto_class, str(arrived), "code" if code else "package"],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise OSError(f"it does not load as the folder does (exit {ended.returncode}): {ended.stderr.strip()}")
