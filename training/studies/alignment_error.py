"""The attention of a translator, or of a model of pronunciation, as an alignment.

``python -m attnzoo.training.studies.alignment_error runs/attentional_rnn_bible/best``

For a translator it reads the verses of the Bible that the model was trained on, whose words were linked by hand
(``training/data/verses.py``); a tenth of them is for development. For a model of one of gruut's dictionaries it reads
gruut's links of letters and phonemes (``training/data/gruut.py``): the words of the validation split are for
development, and those of the test split for the measurement.

The pairs for development choose how to read the attention: the layer; the head, or the mean of the layer's heads; and
the shift, which says whether a step aligns the word that it predicts or the word that it reads (Luong et al., 2015,
footnote 14). The alignment error rate of this choice is then measured on the other pairs. Training sees no links.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import AutoModelForSeq2SeqLM

from attnzoo.alignment import align, alignment_error_rate

from ..commands import add_overrides, command_parser
from ..data.gruut import GRUUT, LinkedWord, read_linked_words
from ..data.known import find_known
from ..data.verses import Verse, read_verses
from ..evaluate import load_model
from ..loop.checkpoint import require_model
from ..loop.stopping import exit_on_user_error
from ..recipe import Recipe, checkpoint_recipe
from ..tasks import make_task

SHIFTS = (0, 1)
Linked = Verse | LinkedWord


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.studies.alignment_error", "Measure alignments.")
    parser.add_argument("folder", type=Path, help="a checkpoint folder trained on the verses, such as runs/x/best")
    add_overrides(parser)
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        require_model(options.folder)
        recipe = checkpoint_recipe(options.folder, options.set)
        pairs = linked_words(recipe) if recipe.task.name == "grapheme_to_phoneme" else linked_verses(recipe)
        measure(*load_model(AutoModelForSeq2SeqLM, options.folder), *pairs)


def linked_verses(recipe: Recipe) -> tuple[list[Verse], list[Verse]]:
    """The verses for development, and those for the measurement."""
    verses = read_verses(Path(recipe.task.data.path))
    return [verse for verse in verses if verse.is_for_development], [v for v in verses if not v.is_for_development]


def linked_words(recipe: Recipe) -> tuple[list[LinkedWord], list[LinkedWord]]:
    """The words of the validation split, and those of the test split."""
    path = recipe.task.data.path
    if find_known(path, GRUUT) is None:
        raise ValueError(f"task.data.path is {path!r}, whose letters and phonemes have no links; gruut's have")
    task, words = make_task(recipe), list(read_linked_words(Path(path)))
    validation, test = ({*task.splits[split]["word"]} for split in ("validation", "test"))
    development = [word for word in words if "".join(word.source_words) in validation]
    return development, [word for word in words if "".join(word.source_words) in test]


def measure(model: Any, tokenizer: Any, development: Sequence[Linked], test: Sequence[Linked]) -> float:
    """Print the error rate of every choice on the pairs for development; return that of the best on the others."""
    best, lowest = {}, math.inf
    for choice in choices(model.config):
        error_rate = error_rate_of(model, tokenizer, development, **choice)
        if error_rate < lowest:
            best, lowest = choice, error_rate
        print(f"development, {len(development):,} pairs, {_in_words(choice)}: AER {100 * error_rate:.1f} %")
    error_rate = error_rate_of(model, tokenizer, test, **best)
    print(f"test, {len(test):,} pairs, {_in_words(best)}: AER {100 * error_rate:.1f} %")
    return error_rate


def choices(config: Any) -> list[dict[str, Any]]:
    """The arguments of ``align`` to choose from; an RNN has one layer and one head of attention."""
    is_transformer = hasattr(config, "num_attention_heads")
    layers = range(config.num_hidden_layers if is_transformer else 1)
    heads = [*range(config.num_attention_heads), None] if is_transformer else [0]
    return [{"layer": layer, "head": head, "shift": shift} for layer in layers for head in heads for shift in SHIFTS]


def error_rate_of(model: Any, tokenizer: Any, pairs: Sequence[Linked], **choice: Any) -> float:
    """The alignment error rate of one choice."""
    sources, targets = [pair.source_words for pair in pairs], [pair.target_words for pair in pairs]
    aligned = align(model, tokenizer, sources, targets, **choice)
    return alignment_error_rate([pair.links for pair in aligned], [pair.links for pair in pairs])


def _in_words(choice: dict[str, Any]) -> str:
    head = "mean of the heads" if choice["head"] is None else f"head {choice['head']}"
    return f"layer {choice['layer']}, {head}, shift {choice['shift']}"


if __name__ == "__main__":
    main()
