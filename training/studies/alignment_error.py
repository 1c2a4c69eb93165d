"""A translator's attention as an alignment.

``python -m attnzoo.training.studies.alignment_error runs/attentional_rnn_bible/best``

It reads the verses of the Bible that the model was trained on, whose words were linked by hand
(``training/data/verses.py``). A tenth of the verses chooses how to read the attention: the layer; the head, or the mean
of the layer's heads; and the shift, which says whether a step aligns the word that it predicts or the word that it
reads (Luong et al., 2015, footnote 14). The alignment error rate of this choice is then measured on the other verses.
Training does not see the links of any verse.
"""

import math
from pathlib import Path
from typing import Any

from transformers import AutoModelForSeq2SeqLM

from attnzoo.alignment import align, alignment_error_rate

from ..commands import add_overrides, command_parser
from ..data.verses import Verse, read_verses
from ..evaluate import load_model
from ..loop.checkpoint import require_model
from ..loop.stopping import exit_on_user_error
from ..recipe import checkpoint_recipe

SHIFTS = (0, 1)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.studies.alignment_error", "Measure alignments.")
    parser.add_argument("folder", type=Path, help="a checkpoint folder trained on the verses, such as runs/x/best")
    add_overrides(parser)
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        require_model(options.folder)
        verses = read_verses(Path(checkpoint_recipe(options.folder, options.set).task.data.path))
        measure(*load_model(AutoModelForSeq2SeqLM, options.folder), verses)


def measure(model: Any, tokenizer: Any, verses: list[Verse]) -> float:
    """Print the error rate of every choice on the verses for development, and return that of the best on the others."""
    development = [verse for verse in verses if verse.is_for_development]
    test = [verse for verse in verses if not verse.is_for_development]
    best, lowest = {}, math.inf
    for choice in choices(model.config):
        error_rate = error_rate_of(model, tokenizer, development, **choice)
        if error_rate < lowest:
            best, lowest = choice, error_rate
        print(f"development, {len(development):,} verses, {_in_words(choice)}: AER {100 * error_rate:.1f} %")
    error_rate = error_rate_of(model, tokenizer, test, **best)
    print(f"test, {len(test):,} verses, {_in_words(best)}: AER {100 * error_rate:.1f} %")
    return error_rate


def choices(config: Any) -> list[dict[str, Any]]:
    """The arguments of ``align`` to choose from; an RNN has one layer and one head of attention."""
    is_transformer = hasattr(config, "num_attention_heads")
    layers = range(config.num_hidden_layers if is_transformer else 1)
    heads = [*range(config.num_attention_heads), None] if is_transformer else [0]
    return [{"layer": layer, "head": head, "shift": shift} for layer in layers for head in heads for shift in SHIFTS]


def error_rate_of(model: Any, tokenizer: Any, verses: list[Verse], **choice: Any) -> float:
    """The alignment error rate of one choice."""
    sources, targets = [verse.source_words for verse in verses], [verse.target_words for verse in verses]
    pairs = align(model, tokenizer, sources, targets, **choice)
    return alignment_error_rate([pair.links for pair in pairs], [verse.links for verse in verses])


def _in_words(choice: dict[str, Any]) -> str:
    head = "mean of the heads" if choice["head"] is None else f"head {choice['head']}"
    return f"layer {choice['layer']}, {head}, shift {choice['shift']}"


if __name__ == "__main__":
    main()
