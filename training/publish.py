"""Publish a released model on the Hub: ``attnzoo publish model_cards/NAME owner/NAME``.

It checks that the model loads and the token may write there, pushes the folder in one commit, downloads what it pushed,
compares every byte, and loads the model in a fresh process, whose logits have to be the local model's bit for bit. Of
another model's files that had to go it prints the names. Repeated after a failure it sends what is missing.
``HF_ENDPOINT`` names another Hub.
"""

import argparse
import sys
from pathlib import Path

from huggingface_hub.utils import disable_progress_bars
from transformers.utils import logging

from attnzoo.hub import push


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="attnzoo publish",
        description="Publish a model on the Hub.",
        epilog="example: attnzoo publish my-model owner/name --private",
    )
    parser.add_argument("folder", type=Path, help="a released model, such as model_cards/NAME")
    parser.add_argument("repo_id", help="owner/name on the Hub; made if there is none")
    visibility = parser.add_mutually_exclusive_group()
    visibility.add_argument("--private", action="store_true", default=None, help="a repository that nobody else sees")
    visibility.add_argument("--public", dest="private", action="store_false", default=None)
    parser.add_argument("--revision", help="the branch to push to (default: main); made if there is none")
    parser.add_argument("--pull-request", action="store_true", help="open a pull request instead")
    parser.add_argument("--code", action="store_true", help="with the model's code, for users without attnzoo")
    parser.add_argument("--message", default="Upload model", help="the commit's (default: %(default)s)")
    options = parser.parse_args(arguments)
    disable_progress_bars()
    logging.disable_progress_bar()
    try:
        commit = push(
            options.folder,
            options.repo_id,
            private=options.private,
            revision=options.revision,
            create_pr=options.pull_request,
            code=options.code,
            message=options.message,
        )
    except (OSError, ValueError) as error:  # what the user can put right, without a traceback
        sys.exit(f"error: {error}")
    if commit.commit_description:
        print(commit.commit_description)
    print(f"{commit.pr_url or commit.commit_url}: bytes and logits as in {options.folder}")


if __name__ == "__main__":
    main()
