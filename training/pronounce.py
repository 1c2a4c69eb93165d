"""Load a grapheme-to-phoneme checkpoint and use it: ``attnzoo pronounce runs/demo/best attention zoo``.

Without words it takes words that the model has not seen: some of the dictionary's test split, and some that are in no
dictionary. ``--plot FILE`` draws the alignments of the first four words.
"""

import argparse
import sys
from pathlib import Path

from accelerate import PartialState
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging

import attnzoo  # noqa: F401  (registers the models with the Auto classes)

from .loop.checkpoint import require_model
from .recipe import checkpoint_recipe
from .tasks import make_task
from .tasks.grapheme_to_phoneme import draw_alignments, pronounce

# All of them in the test split of the CMU dictionary.
UNSEEN = [
    "alignment",
    "avalanche",
    "electricity",
    "castle",
    "bureau",
    "caterpillar",
    "colonel",
    "dinosaur",
    "hurricane",
]
INVENTED = ["blorptastic", "phlinkerton", "quizzaciously", "transformerish"]


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="attnzoo pronounce", description="Pronounce words.")
    parser.add_argument("folder", type=Path, help="a checkpoint folder, such as runs/demo/best")
    parser.add_argument("words", nargs="*", help="words to pronounce (default: words that the model has not seen)")
    parser.add_argument("--num-beams", type=int, default=5)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the alignments of the first four words")
    options = parser.parse_args(arguments)
    logging.disable_progress_bar()
    try:
        run(options.folder, options.words, options.num_beams, options.plot)
    except (OSError, ValueError) as error:  # what the user can put right, said without a traceback
        sys.exit(f"error: {error}")


def run(folder: Path, words: list[str], num_beams: int, plot: Path | None) -> None:
    """Print a table of words and pronunciations, and draw the alignments of the first four if ``plot`` is given.

    Raises:
        FileNotFoundError: the folder lacks a file that a checkpoint has.
        ValueError: a word that the model cannot read.
    """
    require_model(folder)
    device = PartialState().device
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).to(device).eval()
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    listed: dict[str, list[str]] = {}
    if not words:
        task = make_task(checkpoint_recipe(folder))
        test = {row["word"]: row["pronunciations"] for row in task.splits["test"]}
        shown = [word for word in UNSEEN if word in test] or list(test)[: len(UNSEEN)]
        listed = {word: test[word] for word in shown}
        words = [*shown, *(word for word in INVENTED if set(word) <= tokenizer.get_vocab().keys())]
    pronunciations = pronounce(model, tokenizer, words, num_beams)
    width = max(map(len, words))
    for word, pronunciation in zip(words, pronunciations, strict=True):
        accepted = listed.get(word)
        verdict = "" if accepted is None else "as listed" if pronunciation in accepted else f"listed: {accepted[0]}"
        print(f"  {word:<{width}}  {pronunciation:<40}  {verdict}".rstrip())
    if plot is not None:
        plot.parent.mkdir(parents=True, exist_ok=True)
        draw_alignments(model, tokenizer, words[:4], num_beams, plot)
        print(f"alignments of {', '.join(words[:4])}: {plot}")


if __name__ == "__main__":
    main()
