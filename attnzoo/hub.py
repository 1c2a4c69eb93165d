"""From a folder to the Hub, and proof that what stands there is what was sent.

:func:`push` makes one commit out of a folder that ``save_pretrained`` wrote, and does not end before the repository has
been downloaded, its checksums compared, and its model loaded in a fresh process that computes the local model's logits
bit for bit. :func:`verify` compares the checksums of any repository with what arrived of it: a flipped bit passes every
client, which looks at sizes alone.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from huggingface_hub import CommitInfo, CommitOperationAdd, HfApi, ModelCard, get_token, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, RepositoryNotFoundError
from huggingface_hub.utils import validate_repo_id
from transformers import AutoConfig, PreTrainedConfig
from transformers.dynamic_module_utils import get_relative_import_files
from transformers.models.auto import modeling_auto

from .pipelines import PIPELINES

PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")

# What a fresh process does: load the folder and the repository, and compare. Without the package it takes the code that
# came with the repository.
COMPARE = """
import inspect
import sys

import torch
import transformers

folder, repo_id, revision, auto_class, has_code = sys.argv[1:]
if has_code == "True":
    sys.modules["attnzoo"] = None  # as if it were not installed
else:
    import attnzoo
transformers.logging.disable_progress_bar()


def outputs(name, **options):
    options["trust_remote_code"] = has_code == "True"
    torch.manual_seed(0)  # for the weights of a head that the repository lacks
    model = getattr(transformers, auto_class).from_pretrained(name, use_safetensors=True, **options).eval()
    ids = torch.arange(10).remainder(model.config.vocab_size).view(2, 5)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = ids[:, :4]
    if "token_type_ids" in inspect.signature(model.forward).parameters:  # two texts
        inputs["token_type_ids"] = torch.tensor([0, 0, 1, 1, 1]).expand(2, 5)
    with torch.no_grad():
        return model(**inputs, return_dict=True)[0], model


(expected, _), (computed, model) = outputs(folder), outputs(repo_id, revision=revision)
if not torch.equal(expected, computed):
    sys.exit(f"the outputs differ by {(expected - computed).abs().max().item()}")
if has_code == "True" and not type(model).__module__.startswith("transformers_modules."):
    sys.exit(f"{type(model)} is not of the repository's code")
"""


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
    is not there yet, and with nothing to send it makes no commit. Files that only the repository has stay.

    Args:
        folder: where ``save_pretrained`` and ``training.release`` write; its subfolders stay at home
        repo_id: "owner/name"; made if there is none
        private: whether nobody else shall see it, of a new repository; None is the Hub's default
        revision: the branch, made if there is none
        create_pr: open a pull request instead, which others' repositories take too
        code: send the model's code along, for users without attnzoo (``trust_remote_code=True``)
        message: the commit's
        token: None is the one that ``hf auth login`` left, or ``HF_TOKEN``

    Raises:
        FileNotFoundError: the folder lacks one of the files.
        ValueError: it holds a pickle, the id is none, the repository is not as private as asked, or the code is
            another package's.
        PermissionError: no token, or one that may not write there; nothing has been sent then.
        OSError: the push failed; or what arrives of it is not what was sent.
    """
    folder = Path(folder)
    _require_files(folder)
    require_write_access(repo_id, create_pr=create_pr, token=token)
    api = HfApi(token=token)
    _require_visibility(api, repo_id, private)
    with tempfile.TemporaryDirectory() as home:
        staged = _stage(folder, Path(home), repo_id)
        if code:
            add_code(staged)
        try:
            if not create_pr:
                api.create_repo(repo_id, private=private, exist_ok=True)
                if revision is not None:
                    api.create_branch(repo_id, branch=revision, exist_ok=True)
            commit: CommitInfo = api.create_commit(
                repo_id,
                [CommitOperationAdd(path.name, path) for path in sorted(staged.iterdir())],
                commit_message=message,
                revision=revision,
                create_pr=create_pr,
            )
        except Exception as error:  # of huggingface_hub, its HTTP client and hf_xet, which have no class in common
            raise OSError(
                f"the push to {repo_id} failed: {error}\nA push is one commit: all of it is there, or nothing. Push "
                "again: what has been uploaded is not uploaded twice"
            ) from error
        _compare(staged, repo_id, commit.oid, code, token, Path(home))
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
            f"{repo_id} did not arrive as the Hub has it: {'; '.join(wrong)}. Do not load it; delete "
            f"{folder.parents[1]} and download again, and if that does not help, the Hub's copy is damaged"
        )
    return folder


def require_write_access(repo_id: str, *, create_pr: bool = False, token: str | None = None) -> None:
    """Ask the Hub whether this token may push there. Before a long training, for example.

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
        user: dict[str, Any] = api.whoami()
    except LocalTokenNotFoundError as error:
        raise PermissionError("there is no token; run `hf auth login`, or set HF_TOKEN") from error
    except HfHubHTTPError as error:
        if error.response.status_code != 401:
            raise ConnectionError(f"the Hub at {api.endpoint} fails: {error}") from error
        raise PermissionError("the Hub does not know this token; run `hf auth login` with another one") from error
    except Exception as error:  # of the HTTP client, whose classes are no part of huggingface_hub
        raise ConnectionError(f"no answer from the Hub at {api.endpoint}: {error}") from error
    if not create_pr and user["auth"].get("accessToken", {}).get("role") == "read":
        raise PermissionError(
            f"the token of {user['name']} may only read; make one that may write in the Hub's settings"
        )
    try:
        api.auth_check(repo_id, write=not create_pr)
    except RepositoryNotFoundError as error:
        if create_pr:
            raise FileNotFoundError(f"there is no {repo_id} to open a pull request on") from error
        own = [user["name"], *(organization["name"] for organization in user["orgs"])]
        if namespace not in own:
            raise PermissionError(
                f"there is no {repo_id}, and {user['name']} cannot make it; choose one of {', '.join(own)} as owner"
            ) from error
    except HfHubHTTPError as error:
        if error.response.status_code not in (401, 403):
            raise ConnectionError(f"the Hub at {api.endpoint} fails: {error}") from error
        raise PermissionError(
            f"{user['name']} may not write to {repo_id}; push to a repository of your own, or open a pull request"
        ) from error


def add_code(folder: Path) -> None:
    """Put the code that a model needs beside it, and its classes into ``config.json``.

    The files of its classes with all that they import of each other, flat as they are here, and an entry for every Auto
    class that the model serves: of a causal Transformer not those of a masked one. The pipeline of the card's tags or
    ``pipeline_tag`` comes along.

    Raises:
        ValueError: the model is none of this package.
    """
    config = AutoConfig.from_pretrained(folder)
    if not type(config).__module__.startswith(f"{__package__}."):
        raise ValueError(f"{folder} holds a {type(config).__name__}, whose code is not attnzoo's; push it without code")
    classes = {"AutoConfig": type(config), **_auto_classes(config)}
    path = folder / "config.json"
    entries = json.loads(path.read_text(encoding="utf-8"))
    entries["auto_map"] = {name: _place(class_) for name, class_ in classes.items()}
    card = ModelCard.load(folder / "README.md").data
    tags = [*(card.tags or []), card.pipeline_tag]
    pipelines = {task: class_ for task, class_ in PIPELINES.items() if class_.card_tag in tags}
    if pipelines:
        entries["custom_pipelines"] = {
            task: {"impl": _place(class_), "pt": [class_.auto_class.__name__]} for task, class_ in pipelines.items()
        }
    path.write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    for class_ in [*classes.values(), *pipelines.values()]:
        module = Path(str(sys.modules[class_.__module__].__file__))
        for needed in [module, *map(Path, get_relative_import_files(module))]:
            shutil.copyfile(needed, folder / needed.name)


def _auto_classes(config: PreTrainedConfig) -> dict[str, type]:
    """The model that every Auto class has registered for this config, and that can be made of it."""
    pattern = getattr(config, "attention_pattern", None)
    found = {}
    for name in sorted(vars(modeling_auto)):
        registered = getattr(getattr(modeling_auto, name), "_model_mapping", None)
        if name.startswith("AutoModel") and registered is not None and type(config) in registered:
            model_class = registered[type(config)]
            if pattern in getattr(model_class, "attention_patterns", (pattern,)):
                found[name] = model_class
    return found


def _place(class_: type) -> str:
    return f"{class_.__module__.rsplit('.', 1)[-1]}.{class_.__name__}"


def _stage(folder: Path, home: Path, repo_id: str) -> Path:
    """A copy of what is to be pushed; where the card loads the model from the folder, its reader shall ask the Hub."""
    staged = home / "staged"
    staged.mkdir()
    for path in folder.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copyfile(path, staged / path.name)
    card = staged / "README.md"
    in_snippets = (
        rf'"(?:[^"\n]*/)?{re.escape(folder.resolve().name)}"'  # a card has no absolute path, whatever is given here
    )
    card.write_text(re.sub(in_snippets, f'"{repo_id}"', card.read_text(encoding="utf-8")), encoding="utf-8")
    return staged


def _require_files(folder: Path) -> None:
    for name in ("config.json", "README.md"):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} has no {name}; a model goes out with its config and its card")
    if not any(folder.glob("*.safetensors")):
        raise FileNotFoundError(f"{folder} has no safetensors; write it with save_pretrained")
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if pickles:
        raise ValueError(
            f"{folder} has pickles, which run code where they are loaded: {', '.join(pickles)}; remove them"
        )


def _require_visibility(api: HfApi, repo_id: str, private: bool | None) -> None:
    """Nothing goes to everybody that was to be private because the repository was there before."""
    try:
        is_private = bool(api.model_info(repo_id).private)
    except RepositoryNotFoundError:
        return
    if private is not None and private != is_private:
        raise ValueError(
            f"{repo_id} is there and is {'private' if is_private else 'public'}; change that in its settings, or "
            "choose another name"
        )


def _compare(staged: Path, repo_id: str, revision: str, code: bool, token: str | None, home: Path) -> None:
    """Download what was pushed, and compare its bytes and its model's outputs with the local ones."""
    sent = HfApi(token=token).verify_repo_checksums(repo_id, revision=revision, local_dir=staged)
    if sent.mismatches or sent.extra_paths:
        wrong = [item["path"] for item in sent.mismatches] + sent.extra_paths
        raise OSError(f"{repo_id} at {revision} does not have what was sent: {', '.join(wrong)}; push again")
    verify(repo_id, revision, cache_dir=home / "hub", token=token)
    config = AutoConfig.from_pretrained(staged)
    names = {class_.__name__: auto_class for auto_class, class_ in _auto_classes(config).items()}
    model_class = next((names[name] for name in config.architectures or [] if name in names), "AutoModel")
    variables = {name: value for name, value in os.environ.items() if not name.startswith("HF_") or "CACHE" not in name}
    variables["HF_HOME"] = str(home)
    if token := token or get_token():
        variables["HF_TOKEN"] = token
    ended = subprocess.run(
        [sys.executable, "-c", COMPARE, str(staged), repo_id, revision, model_class, str(code)],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise OSError(
            f"{repo_id} at {revision} was pushed but does not load as the folder does:\n{ended.stderr.strip()}"
        )
