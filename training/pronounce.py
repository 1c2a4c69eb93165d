"""Load a grapheme-to-phoneme checkpoint and use it: ``python -m training.pronounce runs/demo/best attention zoo``.

Without words it takes words that the model has not seen: some of the dictionary's test split, and some that are in no
dictionary. ``--plot FILE`` draws the alignments of the first four words.
"""

import argparse
import sys
from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.utils import logging

import attnzoo  # noqa: F401  (registers the models with the Auto classes)
from attnzoo.alignment import generation_alignments
from attnzoo.plots import plot_alignments

from .recipe import load_recipe
from .tasks import make_task
from .tasks.grapheme_to_phoneme import refuse_unknown_characters

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
UNSEEN += ["neural", "theater", "trumpet"]
INVENTED = ["blorptastic", "phlinkerton", "quizzaciously", "transformerish"]


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m training.pronounce", description="Pronounce words.")
    parser.add_argument("folder", type=Path, help="a checkpoint folder, such as runs/demo/best")
    parser.add_argument("words", nargs="*", help="words to pronounce (default: words that the model has not seen)")
    parser.add_argument("--num-beams", type=int, default=5)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the alignments of the first four words")
    options = parser.parse_args(arguments)
    logging.disable_progress_bar()
    try:
        pronounce(options.folder, options.words, options.num_beams, options.plot)
    except (OSError, ValueError) as error:  # what the user can put right, said without a traceback
        sys.exit(f"error: {error}")


def pronounce(folder: Path, words: list[str], num_beams: int, plot: Path | None) -> None:
    """Print a table of words and pronunciations, and draw the alignments if ``plot`` is given."""
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"{folder} is not a checkpoint folder: it has no config.json; `make demo` makes one")
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder)
    listed: dict[str, list[str]] = {}
    if not words:
        task = make_task(load_recipe(folder / "recipe.yaml"))
        test = {row["word"]: row["pronunciations"] for row in task.splits["test"]}
        shown = [word for word in UNSEEN if word in test] or list(test)[: len(UNSEEN)]
        listed = {word: test[word] for word in shown}
        words = [*shown, *INVENTED]
    words = [word.lower() for word in words]
    refuse_unknown_characters(words, tokenizer)

    batch = tokenizer(words, padding=True, return_tensors="pt")
    with torch.no_grad():
        generated = model.generate(
            **batch, num_beams=num_beams, do_sample=False, output_attentions=True, return_dict_in_generate=True
        )
    pronunciations = tokenizer.batch_decode(generated.sequences, skip_special_tokens=True)
    width = max(map(len, words))
    for word, pronunciation in zip(words, pronunciations, strict=True):
        accepted = listed.get(word)
        verdict = "" if accepted is None else "as listed" if pronunciation in accepted else f"listed: {accepted[0]}"
        print(f"  {word:<{width}}  {pronunciation:<40}  {verdict}".rstrip())

    if plot is not None:
        plot.parent.mkdir(parents=True, exist_ok=True)
        alignments = generation_alignments(generated)
        rows = range(min(4, len(words)))
        sources = [_tokens_up_to_end(tokenizer, batch["input_ids"][row].tolist()) for row in rows]
        targets = [_tokens_up_to_end(tokenizer, generated.sequences[row, 1:].tolist()) for row in rows]
        weights = [alignments[row, : len(targets[row]), : len(sources[row])] for row in rows]
        plot_alignments(weights, sources, targets, plot)
        print(f"alignments of {', '.join(words[row] for row in rows)}: {plot}")


def _tokens_up_to_end(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> list[str]:
    end = ids.index(tokenizer.eos_token_id) + 1 if tokenizer.eos_token_id in ids else len(ids)
    return list(tokenizer.convert_ids_to_tokens(ids[:end]))


if __name__ == "__main__":
    main()
