"""``attnzoo translate`` and ``attnzoo summarize``: a line for every text, or for each of its n best targets."""

import argparse
from typing import Any

from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from ..loading import load_trained
from .lines import Texts
from .models import NO_CODE, folder_of
from .parsers import summarize_parser, translate_parser


def translate(arguments: list[str]) -> None:
    """Run the command line of ``attnzoo translate``."""
    options = translate_parser().parse_intermixed_args(arguments)
    _print_targets(options, "translate", "sentence", "machine-translation")


def summarize(arguments: list[str]) -> None:
    """Run the command line of ``attnzoo summarize``."""
    options = summarize_parser().parse_intermixed_args(arguments)
    _print_targets(options, "summarize", "text", "text-summarization")


def _print_targets(options: argparse.Namespace, command: str, what: str, task: str) -> None:
    """Print the targets of all texts, by the pipeline of this task."""
    given = Texts(options, what)
    folder = folder_of(options.model, command)
    model, tokenizer = load_trained(AutoModelForSeq2SeqLM, folder), AutoTokenizer.from_pretrained(folder, **NO_CODE)
    pipe: Any = pipeline(task, model=model, tokenizer=tokenizer)  # type: ignore[call-overload]  # ours
    beams = {} if options.num_beams is None else {"num_beams": options.num_beams}
    for window in given.windows():
        found = pipe([text for _, text in window], n_best=options.n_best, errors="skip", **beams)
        for (number, text), targets in zip(window, found, strict=True):
            if "error" in targets[0]:
                print()  # the output has a line for every line of the input
                if text:
                    given.refuse(number, targets[0]["error"])
                continue
            for target in targets:
                score = [f"{target['score']:.2f}"] if len(targets) > 1 else []
                print(target[pipe.target_key], *score, sep="\t")
    given.exit_if_refused()
