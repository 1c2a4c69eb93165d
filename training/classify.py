"""Load a classifier and use it: ``attnzoo classify model_cards/self-attentive-sst2 "a moving film ."``.

Prints the label of every sentence and its probability; a model of several labels at once has a probability for each,
and a regression its numbers. ``--html FILE`` writes one page that shows what the model looked
at, all hops together and each on its own; it needs no network. Of a pair, the second sentence follows a tab.
"""

import argparse
import sys
from pathlib import Path

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor
from transformers import AutoModelForSequenceClassification, AutoTokenizer, PreTrainedConfig
from transformers.utils import logging

import attnzoo  # noqa: F401  (registers the models with the Auto classes)
from attnzoo.plots import sentences_html

from .checkpoint import require_model


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="attnzoo classify", description="Classify sentences.")
    parser.add_argument("folder", type=Path, help="a checkpoint folder, such as model_cards/self-attentive-sst2")
    parser.add_argument("sentences", nargs="+", help="what to classify; of a pair, both with a tab between them")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write what the model looked at")
    options = parser.parse_args(arguments)
    logging.disable_progress_bar()
    try:
        run(options.folder, options.sentences, options.html)
    except (OSError, ValueError, StrictDataclassError) as error:  # what the user can put right, without a traceback
        sys.exit(f"error: {error}")


def run(folder: Path, sentences: list[str], html: Path | None) -> None:
    """Print a line for every sentence, and write the page if ``html`` is given.

    Raises:
        FileNotFoundError: the folder lacks a file that a checkpoint has.
        ValueError: a pair where the model reads single sentences, or the reverse.
    """
    require_model(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    matrices, tokens, titles = [], [], []
    sides = 2 if "token_type_ids" in tokenizer.model_input_names else 1
    for sentence in sentences:
        texts = sentence.split("\t")
        if len(texts) != sides:
            expected = "two sentences with a tab between them" if sides == 2 else "one sentence, without a tab"
            raise ValueError(f"{folder} reads {expected}, got {sentence!r}")
        batch = tokenizer(*([text] for text in texts), return_tensors="pt")
        with torch.no_grad():
            outputs = model(**batch, output_attentions=True)
        titles.append(answer(outputs.logits[0], model.config))
        print(f"  {titles[-1]:<20}  {sentence}")
        matrices.append(outputs.attentions[-1][0, 0])
        tokens.append(tokenizer.convert_ids_to_tokens(batch["input_ids"][0]))
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        sentences_html(matrices, tokens, html, titles=titles)
        print(f"what it looked at: {html}")


def answer(logits: Tensor, config: PreTrainedConfig) -> str:
    """What the model says of a sentence, by its ``problem_type``; one output that is not of several labels is a number.

    Shape:
        - logits: (number of labels,)
    """
    names = [name for _, name in sorted((config.id2label or {}).items())]
    if config.problem_type == "multi_label_classification":
        return ", ".join(f"{name} {100 * p:.0f} %" for name, p in zip(names, logits.sigmoid(), strict=True))
    if config.problem_type == "regression" or len(names) == 1:
        return ", ".join(f"{name} {value:.4g}" for name, value in zip(names, logits.tolist(), strict=True))
    probability, label = logits.softmax(dim=0).max(dim=0)
    return f"{names[int(label)]} {100 * probability:.0f} %"


if __name__ == "__main__":
    main()
