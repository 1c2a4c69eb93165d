"""Publish a released model on the Hub: ``attnzoo publish model_cards/NAME owner/NAME``.

It prints which files it sends (those of known kinds) and which it does not send, with the reason. It checks that the
model loads and the token may write there, pushes the folder in one commit, downloads what it pushed, compares every
byte, and loads the model in a fresh process, whose logits must equal the local model's to 1e-9 in float64. It
prints the names of files of another model that it removed. Repeated after a failure it sends only what is missing.
``HF_ENDPOINT`` names another Hub.

A commit on the main branch gets the tag of the weights' version, such as v1: ``revision="v1"`` loads them even after
later versions. ``attnzoo publish --all owner`` sends every trained model, and lists them in a collection of
the owner. With ``--dry-run`` it shows what would be sent, and sends nothing.
"""

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from huggingface_hub import RepoFile
from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.utils import disable_progress_bars

from attnzoo.catalogue import model_info, summary
from attnzoo.hub import push
from attnzoo.hub.access import client, require_repo_id
from attnzoo.hub.folder_contents import contents, printable
from attnzoo.hub.model_code import code_files
from attnzoo.json_files import checksum
from attnzoo.shipped_models import SHIPPED, model_path, named_folder

from .commands.exits import exit_on_user_error
from .commands.parsers import publish_parser
from .record import RECORD, read_record

ABOUT = "Trained models of attnzoo: attentional RNNs, structured self-attention and small Transformers."


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = publish_parser()
    options = parser.parse_args(arguments)
    one = options.folder, options.repo_id
    if (None in one) if options.all is None else (one != (None, None)):
        parser.error("give a folder and a repo_id, or --all OWNER alone")
    disable_progress_bars()
    with exit_on_user_error():
        models = [one] if options.all is None else [(model_path(name), f"{options.all}/{name}") for name in SHIPPED]
        for _, repo_id in models:
            require_repo_id(repo_id)
        for model, repo_id in models:
            folder = Path(named_folder(model))
            _print_contents(folder, repo_id, options)
            if not options.dry_run:
                _publish(folder, repo_id, options)
        if options.all is not None and not options.dry_run:
            print(f"{_collect(options.all, options.private)} lists them")


def _print_contents(folder: Path, repo_id: str, options: Namespace) -> None:
    """Print what is sent of a folder, and what is not."""
    found = contents(folder, options.also)
    print(f"{repo_id} gets {', '.join(map(printable, found.sent))}")
    if options.code:
        print(f"and the model's code: {', '.join(file.name for file in code_files(folder))}")
    for name, reason in found.kept.items():
        print(f"{printable(name)} is not sent: {reason}")
    sys.stdout.flush()  # the upload may take long


def _publish(folder: Path, repo_id: str, options: Namespace) -> None:
    """Send one folder; on the main branch, the tag of its version too."""
    is_main = options.revision is None and not options.create_pr
    record = read_record(folder) if is_main else None
    if record is not None:
        _require_same_weights(repo_id, folder, record)
    commit = push(
        folder,
        repo_id,
        private=options.private,
        revision=options.revision,
        create_pr=options.create_pr,
        code=options.code,
        also=options.also,
        message=options.message,
    )
    if record is not None:
        client(None).create_tag(repo_id, tag=_tag(record), revision=commit.oid, exist_ok=True)
    if commit.commit_description:
        print(commit.commit_description)
    print(f"{commit.pr_url or commit.commit_url}: bytes and logits as in {folder}")


def _tag(record: dict[str, Any]) -> str:
    return f"v{record['version']}"


def _require_same_weights(repo_id: str, folder: Path, record: dict[str, Any]) -> None:
    """Raise a ValueError if the record, or the tag of its version in the repository, is of other weights."""
    weights = folder / "model.safetensors"
    if not weights.is_file() or checksum(weights) != record["sha256"]:
        raise ValueError(
            f"{folder / RECORD} is of other weights than those beside it; write it again with `attnzoo release`, or "
            "remove it"
        )
    try:
        files = client(None).list_repo_tree(repo_id, revision=_tag(record))
        found = {file.path: file.lfs.sha256 for file in files if isinstance(file, RepoFile) and file.lfs is not None}
    except (RepositoryNotFoundError, RevisionNotFoundError):
        return
    if found.get("model.safetensors") not in (None, record["sha256"]):
        raise ValueError(
            f"{repo_id} has other weights under the tag {_tag(record)}; release into the folder that has the earlier "
            "weights: this raises the version"
        )


def _collect(owner: str, private: bool | None) -> str:
    """List every model of an owner, with what the catalogue says of it, in the collection "attnzoo".

    Returns:
        The collection's address.
    """
    api = client(None)
    collection = api.create_collection(
        "attnzoo", namespace=owner, description=ABOUT, private=bool(private), exists_ok=True
    )
    listed = {item.item_id: item for item in collection.items}
    for name in SHIPPED:
        repo_id, note = f"{owner}/{name}", summary(model_info(name))
        if repo_id not in listed:
            api.add_collection_item(collection.slug, repo_id, "model", note=note)
        elif listed[repo_id].note != note:
            api.update_collection_item(collection.slug, listed[repo_id].item_object_id, note=note)
    return collection.url


if __name__ == "__main__":
    main()
