"""``attnzoo pronounce``: a line for every word, or for each of its n best pronunciations, or for every text."""

import argparse
import re
import sys
import warnings
from typing import Any

import torch

from ..messages import shown, shown_each
from ..pronunciation import Pronouncer
from ..viewer import plot_alignments
from ..viewer.pictures import require_picture
from .lines import Texts
from .models import folder_of
from .outputs import refuse_overwriting
from .parsers import pronounce_parser

PHRASE = 5  # words of a longer one are a text


def main(arguments: list[str]) -> None:
    """Run the command line."""
    options = pronounce_parser().parse_intermixed_args(arguments)
    if options.plot:
        require_picture(options.plot)
    if options.sentence and (options.output != "plain" or options.n_best != 1):
        raise ValueError("--sentence prints one line of phonemes for a text: leave --output and --n-best out")
    given = Texts(options, "text" if options.sentence else "word")
    if options.plot:
        refuse_overwriting("--plot", options.plot, given.source, options.lexicon)
    if not options.sentence and (text := next((one for one in given.texts if len(one.split()) > PHRASE), None)):
        said = f"{shown(text)} has {len(text.split()):,} words, and is printed as one"
        warnings.warn(f"{said}; add --sentence to keep the words of a text apart", stacklevel=2)
    folder = options.model and folder_of(options.model, "pronounce")
    sources = options.accent, options.phones, options.lexicon, options.dictionary, folder
    device = "cuda" if torch.cuda.is_available() else "cpu"
    pronouncer = Pronouncer(*sources, device=device, engine=options.engine, language=options.language)
    if options.output == "tsv":
        print("word", "phonemes", "source", "confidence", sep="\t")
    for window in given.windows():
        texts = [text for _, text in window]
        if options.sentence:
            found = pronouncer(texts, num_beams=options.num_beams)
        else:
            found = [[word] for word in pronouncer.words(texts, n_best=options.n_best, num_beams=options.num_beams)]
        for (number, _), words in zip(window, found, strict=True):
            if options.sentence:
                print(pronouncer.join(words))
            else:
                _print_word(words[0], options)
            unknown = dict.fromkeys(word.text for word in words if word.text and word.phonemes is None)
            if unknown:
                several = f"{shown_each(unknown)} have no pronunciation; " if len(unknown) > 1 else ""
                given.refuse(number, several + pronouncer.reason(next(iter(unknown))))
    plotted = pronouncer.words([*filter(None, given.texts)][:4], alignments=True) if options.plot else []
    drawn = [
        (pair.weights, pair.source_words, pair.target_words) for word in plotted for pair in word.alignments if pair
    ]
    if drawn:
        weights, source, target = zip(*drawn, strict=True)
        plot_alignments(weights, source, target, options.plot)
        print(f"{options.plot} is written", file=sys.stderr)
    elif options.plot:
        reason = "no letters and phonemes of the first four words are aligned"
        given.errors.append(f"{options.plot} is not drawn: {reason}")
    given.exit_if_refused()


def _print_word(word: Any, options: argparse.Namespace) -> None:
    """Print a word with its pronunciations."""
    variants = word.variants[: options.n_best] if options.n_best > 1 and word.variants else (word,)
    for one in variants:
        confidence = "" if one.confidence is None else f"{one.confidence:.4f}"
        columns = [re.sub(r"\s", " ", word.text), one.phonemes or ""]
        if options.output == "tsv":
            print(*columns, word.source, confidence, sep="\t")
        elif word.phonemes is None:
            print()  # the output has a line for every line of the input
        else:
            print(*columns, *([confidence] if options.n_best > 1 else []), sep="\t")
