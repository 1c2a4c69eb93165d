"""Align and score given pairs: ``attnzoo align runs/demo/best words.txt pronunciations.txt``.

One line for every pair, in Pharaoh format: "0-0 1-2" links source word 0 with target word 0. With ``--gold`` the
alignment error rate goes to the standard error, so that the standard output stays what it is.
"""

import argparse
import sys
from pathlib import Path

from accelerate import PartialState
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.utils import logging

import attnzoo  # noqa: F401  (registers the models with the Auto classes)
from attnzoo.alignment import align, alignment_error_rate, from_pharaoh, to_pharaoh


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="attnzoo align", description="Align and score given pairs.")
    parser.add_argument("folder", type=Path, help="a checkpoint folder, such as runs/demo/best")
    parser.add_argument("sources", type=Path, help="a text file with a source in every line")
    parser.add_argument("targets", type=Path, help="a text file with its target in the same line")
    parser.add_argument("--words", action="store_true", help="words are what white space separates, as in gold links")
    parser.add_argument("--gold", type=Path, help="gold links in Pharaoh format, to measure the alignment error rate")
    parser.add_argument(
        "--shift",
        type=lambda text: text if text == "paper" else int(text),
        default=0,
        help="1: a step aligns the token that it reads, not the one it predicts; paper: as the model's paper has it",
    )
    parser.add_argument("--scores", action="store_true", help="log p(target | source) and a tab before every line")
    options = parser.parse_args(arguments)
    logging.disable_progress_bar()
    try:
        run(options)
    except (OSError, ValueError) as error:  # what the user can put right, said without a traceback
        sys.exit(f"error: {error}")


def run(options: argparse.Namespace) -> None:
    """Print the links of every pair.

    Raises:
        OSError: a file is missing.
        ValueError: files of different lengths, an empty line, or a model without attention.
    """
    sources, targets = _lines(options.sources), _lines(options.targets)
    gold = [from_pharaoh(line) for line in _lines(options.gold)] if options.gold else None
    if gold is not None and len(gold) != len(sources):
        raise ValueError(f"{options.gold} has {len(gold)} lines, {options.sources} has {len(sources)}")
    model = AutoModelForSeq2SeqLM.from_pretrained(options.folder).to(PartialState().device)
    tokenizer = AutoTokenizer.from_pretrained(options.folder)
    if options.words:
        pairs = align(model, tokenizer, [s.split() for s in sources], [t.split() for t in targets], shift=options.shift)
    else:
        pairs = align(model, tokenizer, sources, targets, shift=options.shift)
    for pair in pairs:
        print(f"{pair.score:.4f}\t{to_pharaoh(pair.links)}" if options.scores else to_pharaoh(pair.links))
    if gold is not None:
        sure, possible = zip(*gold, strict=True)
        error_rate = alignment_error_rate([pair.links for pair in pairs], sure, possible)
        print(f"AER {100 * error_rate:.2f} % of {len(pairs)} pairs", file=sys.stderr)


def _lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n")  # splitlines would split at other separators too


if __name__ == "__main__":
    main()
