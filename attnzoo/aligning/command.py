"""``attnzoo align``: word alignments of parallel text files."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

from ..alignment import align_stream, alignment_error_rate, to_pharaoh
from ..command_line import command_parser, folder_of, lines_of, with_progress
from ..shipped_models import TRANSLATION
from . import METHODS, align_both_ways, choose_heads
from .files import count_pairs, read_links, read_pairs, require_words

HELP = "align the words of given pairs"


def main(arguments: list[str]) -> None:
    """``attnzoo align``: the links of every pair in Pharaoh format, and their error rate against gold links."""
    more = (
        "Prints a line for every pair: 0-0 1-2 means source word 0 is linked with target word 0, and 1 with 2. "
        "The files may have any size: they are read in batches, and a progress bar goes to standard error."
    )
    parser = command_parser("align", HELP, "attnzoo align en.txt de.txt --words", TRANSLATION, more=more)
    parser.add_argument("sources", type=Path, help="a text file with one source sentence on each line")
    parser.add_argument("targets", type=Path, help="a text file with the translations, on the same lines")
    parser.add_argument("--words", action="store_true", help="link words (split at white space), not tokens")
    parser.add_argument("--gold", type=Path, help="gold links; print the alignment error rate to standard error")
    shifts = "0: a step aligns the token it predicts; 1: the token it reads; paper: as in the paper (default: 0)"
    parser.add_argument("--shift", choices=("0", "1", "paper"), default="0", help=shifts)
    parser.add_argument("--layer", type=int, default=-1, help="a layer of the decoder, from 0 (default: the last)")
    parser.add_argument("--head", type=int, help="a head of the layer, from 0 (default: the mean of the layer's heads)")
    chosen = "choose heads and shift with these sources, targets and gold links, and print them to standard error"
    parser.add_argument("--choose", type=Path, nargs=3, metavar=("SOURCES", "TARGETS", "LINKS"), help=chosen)
    reverse = "a model of the other direction; its links and those of --model are symmetrised (needs --words)"
    parser.add_argument("--reverse", metavar="MODEL", help=reverse)
    parser.add_argument("--symmetrise", choices=METHODS, help="with --reverse (default: grow-diag-final-and)")
    parser.add_argument("--batch-size", type=int, default=64, help="default: %(default)s")
    parser.add_argument("--scores", action="store_true", help="put log p(target | source) and a tab before every line")
    options = parser.parse_args(arguments)
    if options.symmetrise and not options.reverse:
        raise ValueError(
            f"--symmetrise {options.symmetrise} joins the links of two models: give the other by --reverse"
        )
    if options.reverse and (options.scores or not options.words):
        raise ValueError("--reverse aligns words of two models: give --words, and leave --scores out")
    if options.choose and (options.layer != -1 or options.head is not None or options.shift != "0"):
        raise ValueError("--choose chooses layer, head and shift: leave --layer, --head and --shift out")
    if options.batch_size < 1:
        raise ValueError(f"--batch-size must be at least 1, got {options.batch_size}")
    count = count_pairs(options.sources, options.targets)
    gold = read_links(options.gold) if options.gold else None
    if gold is not None and len(gold) != count:
        raise ValueError(f"{options.gold} has {len(gold)} lines, {options.sources} has {count}")
    if gold is not None and options.words:
        sides = ((source.split(), target.split()) for source, target in read_pairs(options.sources, options.targets))
        require_words(options.gold, gold, sides)
    model, tokenizer = _aligner(options.model)
    shift: Any = options.shift if options.shift == "paper" else int(options.shift)
    read: dict[str, Any] = {"shift": shift, "layer": options.layer, "head": options.head}
    development: list[Any] = []
    if options.choose:
        *texts, links_file = options.choose
        development, given = [[line.split() for line in lines_of(path)] for path in texts], read_links(links_file)
        require_words(links_file, given, zip(*development, strict=False))  # choose_heads compares the lengths
        development.append([sure for sure, _ in given])
        read = _chosen(options.model, choose_heads(model, tokenizer, *development))
    pairs = (
        (source.split(), target.split()) if options.words else (source, target)
        for source, target in read_pairs(options.sources, options.targets)
    )
    if options.reverse:
        other, back = _aligner(options.reverse), dict(read)
        if options.choose:
            swapped = [{(s, t) for t, s in links} for links in development[2]]
            back = _chosen(options.reverse, choose_heads(*other, development[1], development[0], swapped))
        method = options.symmetrise or "grow-diag-final-and"
        size = {"batch_size": options.batch_size}
        both = align_both_ways((model, tokenizer), other, pairs, method, read | size, back | size)
        aligned: Iterable[tuple[float, Any]] = ((0.0, links) for links in both)
    else:
        found = align_stream(model, tokenizer, pairs, options.batch_size, **read)
        aligned = ((pair.score, pair.links) for pair in found)
    predicted = []
    for score, links in with_progress(aligned, options.sources, count):
        print(*([f"{score:.4f}"] if options.scores else []), to_pharaoh(links), sep="\t")
        if gold is not None:
            predicted.append(links)
    if gold is not None:
        error_rate = alignment_error_rate(predicted, *zip(*gold, strict=True))
        print(f"AER {100 * error_rate:.2f} % of {count} pairs", file=sys.stderr)


def _aligner(name: str) -> tuple[Any, Any]:
    """A model for conditional generation, on the GPU where there is one, and its tokenizer."""
    folder = folder_of(name, "align")
    config = AutoConfig.from_pretrained(folder)
    if not config.is_encoder_decoder:
        raise ValueError(
            f"{name} has no source and target to align; give an encoder-decoder, not a {config.model_type}"
        )
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).to("cuda" if torch.cuda.is_available() else "cpu")
    return model, AutoTokenizer.from_pretrained(folder)


def _chosen(name: str, choice: Any) -> dict[str, Any]:
    """The arguments for ``align``; they are printed, so that a later call can give them."""
    heads = ", ".join(f"layer {n} " + ("mean of the heads" if h is None else f"head {h}") for n, h in choice.heads)
    rate = f"AER {100 * choice.error_rate:.2f} % of the pairs for choosing"
    print(f"{name}: {heads}; shift {choice.shift}; {rate}", file=sys.stderr)
    return choice.options
