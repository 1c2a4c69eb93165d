"""How a pipeline can tell that a source is unlike what its model learned from.

``python -m attnzoo.training.studies.usual_score model_cards/NAME --set task.data.path=FOLDER --other FILE --save``

A pipeline warns of two kinds of source, if the config of its model has these two figures:

- ``longest_source``: the tokens of the longest source of the training split; a longer one gives a warning;
- ``usual_score``: log p(target | source) divided by the target's tokens, for the best target. It is chosen so that
  1 % of the sources of the validation split score below it and give a warning.

The study prints both, and how many sources get the warning of a low score: of the validation and the test split, of
the validation split's targets, which for a translation are in another language, and of every other file. ``--save``
writes the figures into the folder's ``config.json``.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import transformers

from attnzoo.commands.lines import lines_of
from attnzoo.commands.parsers import add_overrides, command_parser
from attnzoo.pipelines import PIPELINES, best_scores_per_token

from ..commands.exits import exit_on_user_error
from ..loop.checkpoint import require_model, update_config
from ..recipe import checkpoint_recipe, make_task
from ..tasks import Task

WARNED = 1  # percent of the validation split
BATCH_SIZE = 64


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.studies.usual_score", "Measure usual lengths and scores.")
    parser.add_argument("folder", type=Path, help="a checkpoint folder of a model that translates or summarises")
    other = "texts unlike those of the training, one on each line; may be repeated"
    parser.add_argument("--other", type=Path, action="append", default=[], metavar="FILE", help=other)
    parser.add_argument("--save", action="store_true", help="write the figures into the folder's config.json")
    add_overrides(parser)
    options = parser.parse_args(arguments)
    with exit_on_user_error(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of single sources
        require_model(options.folder)
        task = make_task(checkpoint_recipe(options.folder, options.set))
        pipe = pipeline_of(options.folder, task)
        longest, usual, validation = figures(pipe, task)
        print(f"longest source {longest} tokens, usual score {usual:.2f}")
        source, target = task.columns[:2]
        sets = {
            "test split": task.splits["test"][source][:],
            "targets of the validation split": task.splits["validation"][target][:],
            **{str(path): lines_of(path) for path in options.other},
        }
        print_share("validation split", validation, usual)
        for name, texts in sets.items():
            print_share(name, scores_per_token(pipe, texts), usual)
        if options.save:
            update_config(options.folder, longest_source=longest, usual_score=usual)


def pipeline_of(folder: Path, task: Task) -> Any:
    """The pipeline of a model that translates or summarises.

    Raises:
        ValueError: its task has no such pipeline.
    """
    names = {pipeline_class.card_tag: name for name, pipeline_class in PIPELINES.items()}
    name = next((names[tag] for tag in task.card.tags if tag in names), None)
    if name is None or name == "grapheme-to-phoneme":
        raise ValueError(f"{folder} is not a model that translates or summarises")
    return transformers.pipeline(name, model=str(folder), trust_remote_code=False)  # type: ignore[call-overload]


def figures(pipe: Any, task: Task) -> tuple[int, float, np.ndarray]:
    """The longest source of the training split, in tokens; the usual score; and the scores of the validation split."""
    source = task.columns[0]
    ids = pipe.tokenizer(task.splits["train"][source][:], truncation=pipe.is_cut, verbose=False)["input_ids"]
    scores = scores_per_token(pipe, task.splits["validation"][source][:])
    return max(map(len, ids)), round(float(np.percentile(scores, WARNED)), 2), scores


def scores_per_token(pipe: Any, texts: list[str]) -> np.ndarray:
    """The score of the best target of every text that can be read, per token."""
    texts, found = sorted(texts, key=len), list[float]()
    pipe.model.config.usual_score = pipe.model.config.longest_source = None  # no warnings of what is measured
    for start in range(0, len(texts), BATCH_SIZE):
        outputs = pipe.forward(pipe.preprocess(texts[start : start + BATCH_SIZE], errors="skip"))
        found += best_scores_per_token(outputs) if "labels" in outputs else []
    return np.array(found)


def print_share(name: str, scores: np.ndarray, usual: float) -> None:
    """Print how many of these scores are below the usual one."""
    print(f"{name}: a warning for {100 * np.mean(scores < usual):.1f} % of {len(scores):,} sources")


def measure(folder: Path, task: Task) -> None:
    """Measure the figures of the model in ``folder`` and save them there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        longest, usual, _ = figures(pipeline_of(folder, task), task)
    update_config(folder, longest_source=longest, usual_score=usual)


if __name__ == "__main__":
    main()
