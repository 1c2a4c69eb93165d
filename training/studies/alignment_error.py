"""The attention of a translator, or of a model of pronunciation, as an alignment.

``python -m attnzoo.training.studies.alignment_error runs/attentional_rnn_bible/best``

For a translator it reads the verses of the Bible that the model was trained on, whose words were linked by hand
(``training/data/verses.py``); a tenth of them is for development. For a model of one of gruut's dictionaries it reads
gruut's links of letters and phonemes (``training/data/gruut.py``): the words of the validation split are for
development, and those of the test split for the measurement.

The pairs for development choose how to read the attention, by :func:`attnzoo.aligning.choose_heads`: the heads, and the
shift, which says whether a step aligns the word that it predicts or the word that it reads (Luong et al., 2015,
footnote 14). With ``--reverse``, a model of the other direction, they also choose how to symmetrise. The alignment
error rate of this choice is then measured on the other pairs, with a 95 % confidence interval by bootstrap. Training
sees none of these links.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoModelForSeq2SeqLM

from attnzoo.aligning import METHODS, HeadChoice, choose_heads, symmetrise
from attnzoo.aligning.files import read_links
from attnzoo.alignment import Links, align, alignment_error_rate
from attnzoo.commands.parsers import add_overrides, command_parser
from attnzoo.phonemes import known_phonemes

from ..commands.exits import exit_on_user_error
from ..data.gruut import GRUUT, LinkedWord, read_linked_words
from ..data.known import find_known
from ..data.verses import Verse, read_verses
from ..evaluate import load_model
from ..loop.checkpoint import require_model
from ..recipe import Recipe, checkpoint_recipe, make_task
from ..statistics import bootstrap_ratios, percentiles

Linked = Verse | LinkedWord


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.studies.alignment_error", "Measure alignments.")
    parser.add_argument("folder", type=Path, help="a checkpoint folder trained on the verses, such as runs/x/best")
    parser.add_argument("--reverse", type=Path, help="a checkpoint folder of the other direction")
    beside = "links of another system, a line for each verse in Pharaoh format; print the difference"
    parser.add_argument("--beside", type=Path, metavar="LINKS", help=beside)
    add_overrides(parser)
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        folders = [folder for folder in (options.folder, options.reverse) if folder is not None]
        for folder in folders:
            require_model(folder)
        recipe = checkpoint_recipe(options.folder, options.set)
        is_of_words = recipe.task.name == "grapheme_to_phoneme"
        if options.beside is not None and is_of_words:
            raise ValueError("--beside is for the verses")
        models = [load_model(AutoModelForSeq2SeqLM, folder) for folder in folders]
        development, test = linked_words(recipe, models[0][1]) if is_of_words else linked_verses(recipe)
        links = measure(models, development, test)
        if options.beside is not None:
            compare(links, links_beside(options.beside, read_verses(Path(recipe.task.data.path))), gold_of(test))


def linked_verses(recipe: Recipe) -> tuple[list[Verse], list[Verse]]:
    """The verses for development, and those for the measurement."""
    verses = read_verses(Path(recipe.task.data.path))
    return [verse for verse in verses if verse.is_for_development], [v for v in verses if not v.is_for_development]


def linked_words(recipe: Recipe, tokenizer: Any) -> tuple[list[LinkedWord], list[LinkedWord]]:
    """The words of the validation split, and those of the test split, as far as the tokenizer has their phonemes."""
    path = recipe.task.data.path
    if find_known(path, GRUUT) is None:
        raise ValueError(f"task.data.path is {path!r}, whose letters and phonemes have no links; gruut's have")
    task, words = make_task(recipe), with_known_phonemes(list(read_linked_words(Path(path))), tokenizer)
    validation, test = ({*task.splits[split]["word"]} for split in ("validation", "test"))
    development = [word for word in words if "".join(word.source_words) in validation]
    return development, [word for word in words if "".join(word.source_words) in test]


def with_known_phonemes(words: Sequence[LinkedWord], tokenizer: Any) -> list[LinkedWord]:
    """The words all of whose phonemes the training words have; the others cannot be aligned, and are printed."""
    known = known_phonemes(tokenizer)
    others = {"".join(word.source_words): sorted({*word.target_words} - known) for word in words}
    for word, phonemes in others.items():
        if phonemes:
            print(f"{word} is left out: no training word has {' '.join(phonemes)}")
    return [word for word in words if not others["".join(word.source_words)]]


def gold_of(pairs: Sequence[Linked]) -> list[Links]:
    """The gold links of every pair."""
    return [pair.links for pair in pairs]


def measure(models: Sequence[tuple[Any, Any]], development: Sequence[Linked], test: Sequence[Linked]) -> list[Links]:
    """Choose with the pairs for development, print the error rates, and return the links of the other pairs.

    Args:
        models: the model and tokenizer of the direction from source to target, and those of the other direction, if any
        development: pairs that choose the heads, the shift and the method of symmetrising
        test: the pairs to measure
    """
    found = [_of_direction(*model, development, test, bool(number)) for number, model in enumerate(models)]
    if len(found) == 1:
        return found[0][1]
    (there, there_test), (back, back_test) = found
    rates = {
        method: alignment_error_rate(
            [symmetrise(*pair, method) for pair in zip(there, back, strict=True)], gold_of(development)
        )
        for method in METHODS
    }
    best = min(rates, key=rates.__getitem__)
    for method, rate in rates.items():
        print(f"development, {len(development):,} pairs, {method}: AER {100 * rate:.1f} %")
    links = [symmetrise(*pair, best) for pair in zip(there_test, back_test, strict=True)]
    report(f"test, {len(test):,} pairs, {best}", links, gold_of(test))
    return links


def _of_direction(
    model: Any, tokenizer: Any, development: Sequence[Linked], test: Sequence[Linked], is_back: bool
) -> tuple[list[Links], list[Links]]:
    """The links (source word, target word) of one model for all pairs, which it may read in the other direction."""

    def turned(links: Links) -> Links:
        return {(t, s) for s, t in links} if is_back else set(links)

    def sides(pairs: Sequence[Linked]) -> tuple[list[list[str]], list[list[str]]]:
        sources, targets = [pair.source_words for pair in pairs], [pair.target_words for pair in pairs]
        return (targets, sources) if is_back else (sources, targets)

    choice = choose_heads(model, tokenizer, *sides(development), [turned(pair.links) for pair in development])
    name = "other direction, " if is_back else ""
    print(f"development, {len(development):,} pairs, {name}{described(choice)}: AER {100 * choice.error_rate:.1f} %")
    found = [
        [turned(pair.links) for pair in align(model, tokenizer, *sides(pairs), **choice.options)]
        for pairs in (development, test)
    ]
    report(f"test, {len(test):,} pairs, {name}{described(choice)}", found[1], gold_of(test))
    return found[0], found[1]


def described(choice: HeadChoice) -> str:
    """The heads and the shift in words."""
    heads = (f"layer {layer} " + ("mean of the heads" if h is None else f"head {h}") for layer, h in choice.heads)
    return f"{', '.join(heads)}, shift {choice.shift}"


def report(what: str, links: Sequence[Links], gold: Sequence[Links]) -> None:
    """Print an error rate with its interval."""
    low, high = percentiles(sampled_error_rates(links, gold))
    error_rate = alignment_error_rate(links, gold)
    print(f"{what}: 95 % interval {100 * low:.1f} to {100 * high:.1f}, AER {100 * error_rate:.1f} %")


def compare(links: Sequence[Links], others: Sequence[Links], gold: Sequence[Links]) -> None:
    """Print the error rate of other links, and the difference with its interval, of the same samples of pairs."""
    report("beside", others, gold)
    samples = sampled_error_rates(links, gold) - sampled_error_rates(others, gold)
    low, high = percentiles(samples)
    difference = alignment_error_rate(links, gold) - alignment_error_rate(others, gold)
    print(f"difference: 95 % interval {100 * low:.1f} to {100 * high:.1f}, {100 * difference:+.1f} points of AER")


def sampled_error_rates(links: Sequence[Links], gold: Sequence[Links]) -> np.ndarray:
    """The error rates of bootstrap samples of the pairs, the same samples in every call."""
    right = np.array([2 * len(found & sure) for found, sure in zip(links, gold, strict=True)])
    total = np.array([len(found) + len(sure) for found, sure in zip(links, gold, strict=True)])
    return 1 - bootstrap_ratios(right, total)


def links_beside(path: Path, verses: Sequence[Verse]) -> list[Links]:
    """The links of a file with a line for each verse, of the verses that are for the measurement.

    Raises:
        ValueError: another number of lines than verses.
    """
    links = read_links(path)
    if len(links) != len(verses):
        raise ValueError(f"{path} has {len(links):,} lines, and there are {len(verses):,} verses")
    return [sure for (sure, _), verse in zip(links, verses, strict=True) if not verse.is_for_development]


if __name__ == "__main__":
    main()
