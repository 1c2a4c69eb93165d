"""Publish a released model on the Hub: ``attnzoo publish model_cards/NAME owner/NAME``.

It prints which files it sends (those of known kinds) and which it does not send, with the reason. It checks that the
model loads and the token may write there, pushes the folder in one commit, downloads what it pushed, compares every
byte, and loads the model in a fresh process, whose logits must equal the local model's to 1e-9 in float64. It
prints the names of files of another model that it removed. Repeated after a failure it sends only what is missing.
``HF_ENDPOINT`` names another Hub. ``attnzoo publish --all owner --dry-run`` shows what would be sent of every shipped
model, and sends nothing.
"""

import sys
from argparse import Namespace
from pathlib import Path

from huggingface_hub.utils import disable_progress_bars

from attnzoo.hub import push
from attnzoo.hub.access import require_repo_id
from attnzoo.hub.folder_contents import contents, printable
from attnzoo.hub.model_code import code_files
from attnzoo.shipped_models import SHIPPED, model_path, named_folder

from .commands.exits import exit_on_user_error
from .commands.parsers import publish_parser


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = publish_parser()
    options = parser.parse_args(arguments)
    owner, is_dry_run, one = options.all, options.dry_run, (options.folder, options.repo_id)
    del options.all, options.dry_run  # the other options are the arguments of push
    if (None in one) if owner is None else (one != (None, None)):
        parser.error("give a folder and a repo_id, or --all OWNER alone")
    disable_progress_bars()
    with exit_on_user_error():
        models = [one] if owner is None else [(model_path(name), f"{owner}/{name}") for name in SHIPPED]
        for _, repo_id in models:
            require_repo_id(repo_id)
        for model, options.repo_id in models:
            options.folder = Path(named_folder(model))
            _publish(options, is_dry_run)


def _publish(options: Namespace, is_dry_run: bool) -> None:
    """Send one folder, or show what would be sent of it; ``options`` are the arguments of ``push``."""
    found = contents(options.folder, options.also)
    print(f"{options.repo_id} gets {', '.join(map(printable, found.sent))}")
    if options.code:
        print(f"and the model's code: {', '.join(file.name for file in code_files(options.folder))}")
    for name, reason in found.kept.items():
        print(f"{printable(name)} is not sent: {reason}")
    if is_dry_run:
        return
    sys.stdout.flush()  # the upload may take long
    commit = push(**vars(options))
    if commit.commit_description:
        print(commit.commit_description)
    print(f"{commit.pr_url or commit.commit_url}: bytes and logits as in {options.folder}")


if __name__ == "__main__":
    main()
