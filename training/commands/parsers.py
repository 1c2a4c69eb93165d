"""The parsers of the commands that need the extra ``train``.

They are here, where no package of that extra is imported, so that ``--help`` works without it.
"""

import argparse
import importlib.resources
from pathlib import Path

from attnzoo.commands.parsers import add_overrides, command_parser

LENGTH_PENALTY = (
    "of beam search: the log p of an output is divided by its length in tokens to this power, so above 1 it favours "
    "longer outputs (default: the value in the generation config of {}, or else 1)"
)
MINUTES = {"seconds": "some seconds", "quick": "at most two minutes", "full": "at most an hour"}


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with attnzoo, by name."""
    folder = Path(str(importlib.resources.files("attnzoo.configs")))
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def train_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo train``."""
    example = "demo --output runs/demo --set training.max_minutes=1 --set training.min_steps=1"
    parser = command_parser("attnzoo train", "Train a model from a recipe.", example)
    parser.add_argument("recipe", help=f"a YAML file, or the name of a shipped recipe: {', '.join(shipped_recipes())}")
    parser.add_argument("--output", type=Path, help="the folder for the results (default: runs/<name of the recipe>)")
    keys = "training.max_steps=100 or task.data.path=words.tsv"
    add_overrides(parser, f"change the recipe, for example {keys}; may be repeated")
    existing = parser.add_mutually_exclusive_group()
    resume = "continue from the newest checkpoint in the folder; without one, start from the beginning"
    existing.add_argument("--resume", action="store_true", help=resume)
    existing.add_argument("--overwrite", action="store_true", help="delete the run that is in the output folder")
    return parser


def tune_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo tune``."""
    example = "demo --minutes 60 --set training.max_steps=500 --search model.dropout=0..0.5"
    parser = command_parser("attnzoo tune", "Search for a better recipe, judged on the validation split.", example)
    parser.add_argument("recipe", help=f"a YAML file, or the name of a shipped recipe: {', '.join(shipped_recipes())}")
    parser.add_argument("--output", type=Path, help="folder for the trials (default: runs/tune_<name of the recipe>)")
    parser.add_argument("--minutes", type=float, default=60, help="start no trial after these minutes (default: 60)")
    parser.add_argument("--trials", type=int, help="stop after this many finished trials, earlier ones included")
    searched = "what to search: a range (1e-4..1e-2, 1..8) or choices (0.1,0.2); may be repeated"
    parser.add_argument("--search", action="append", default=[], metavar="SECTION.KEY=VALUES", help=searched)
    add_overrides(parser, "change the recipe of all trials")
    return parser


def evaluate_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo evaluate``."""
    parser = command_parser("attnzoo evaluate", "Evaluate a checkpoint folder.", "runs/demo/best")
    parser.add_argument("folder", help="a checkpoint folder, such as runs/demo/best, or the name of a shipped model")
    parser.add_argument("--split", default="test", help="train, validation or test (default: test)")
    parser.add_argument("--num-beams", type=int, help="default: the value in the folder's generation config, or else 1")
    parser.add_argument("--length-penalty", type=float, help=LENGTH_PENALTY.format("the folder"))
    parser.add_argument("--json", action="store_true", help="print all figures as JSON, with confidence intervals")
    add_overrides(parser)
    return parser


def faithfulness_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo faithfulness``."""
    parser = command_parser(
        "attnzoo faithfulness",
        "Test how well attention explains the predictions of a sentence classifier or of an RNN with attention.",
        "self-attentive-sst2 --set task.data.path=sst2",
    )
    seeds = "a checkpoint folder; further folders are other seeds of the same recipe"
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help=seeds)
    parser.add_argument(
        "--examples", type=int, default=500, help="number of examples from the test split (default: %(default)s)"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("faithfulness"), help="folder for the results (default: %(default)s)"
    )
    add_overrides(parser, "change the recipe, such as task.data.path=FOLDER for the folder of the examples")
    return parser


def release_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo release``."""
    parser = command_parser("attnzoo release", "Release a finished run.", "runs/demo my-model")
    parser.add_argument("run", type=Path, help="the output folder of a training, such as runs/demo")
    parser.add_argument("folder", type=Path, help="the folder to write or replace, such as model_cards/NAME")
    parser.add_argument("--num-beams", type=int, help="beams to decode with (default: the task's)")
    parser.add_argument("--length-penalty", type=float, help=LENGTH_PENALTY.format("the run's best"))
    others = (
        "checkpoint folders of the same model; the release has the mean of their weights and those of the run's best"
    )
    parser.add_argument("--average-with", type=Path, nargs="+", default=[], metavar="FOLDER", help=others)
    parser.add_argument("--note", help="text about the run for the card, in addition to its figures")
    return parser


def claims_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo claims``."""
    parser = command_parser("attnzoo claims", "Test claims of papers and tutorials about attention.", "quadratic-cost")
    parser.add_argument("name", nargs="?", help="a claim; without a name or --all, the command lists all claims")
    parser.add_argument("--all", action="store_true", help="check every claim, and write a page for each and an index")
    budget = parser.add_mutually_exclusive_group()
    for name in ("full", "quick"):
        said = f"{MINUTES[name]} for a claim" + ("; the verdict is preliminary (default)" if name == "quick" else "")
        budget.add_argument(f"--{name}", dest="budget", action="store_const", const=name, help=said)
    smoke = "some seconds for a claim: only shows that it runs; the verdict is meaningless"
    budget.add_argument("--smoke", dest="budget", action="store_const", const="seconds", help=smoke)
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="default: runs/claims; with --all docs/claims")
    parser.add_argument("--again", action="store_true", help="replace existing results, also those of a larger budget")
    return parser


def publish_parser() -> argparse.ArgumentParser:
    """The parser of ``attnzoo publish``."""
    parser = command_parser("attnzoo publish", "Publish a model on the Hub.", "my-model owner/name --private")
    released = "a released model, such as model_cards/NAME, or the name of a shipped one"
    parser.add_argument("folder", nargs="?", help=released)
    parser.add_argument("repo_id", nargs="?", help="owner/name on the Hub; created if it does not exist")
    parser.add_argument("--all", metavar="OWNER", help="every shipped model, each as OWNER/NAME, instead of one folder")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be sent; needs no network")
    visibility = parser.add_mutually_exclusive_group()
    visibility.add_argument("--private", action="store_true", default=None, help="create a private repository")
    visibility.add_argument("--public", dest="private", action="store_false", default=None)
    parser.add_argument("--revision", help="the branch to push to (default: main); created if it does not exist")
    parser.add_argument("--pull-request", dest="create_pr", action="store_true", help="open a pull request instead")
    parser.add_argument("--code", action="store_true", help="also send the model's code, for users without attnzoo")
    parser.add_argument("--also", action="append", default=[], metavar="FILE", help="also send this file")
    parser.add_argument("--message", default="Upload model", help="message of the commit (default: %(default)s)")
    return parser
