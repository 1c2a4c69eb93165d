"""``attnzoo align``: word alignments of parallel text files."""

import sys
from collections.abc import Iterable
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

from ..aligning import align_both_ways, choose_heads
from ..aligning.files import count_pairs, read_links, read_pairs, require_words
from ..alignment import align_stream, alignment_error_rate, to_pharaoh
from ..loading import load_trained
from .lines import lines_of, progress_bar
from .models import NO_CODE, folder_of
from .parsers import align_parser


def main(arguments: list[str]) -> None:
    """``attnzoo align``: the links of every pair in Pharaoh format, and their error rate against gold links."""
    options = align_parser().parse_args(arguments)
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
    if options.choose:
        *texts, links_file = options.choose
        sources, targets = ([line.split() for line in lines_of(path)] for path in texts)
        given = read_links(links_file)
        require_words(links_file, given, zip(sources, targets, strict=False))  # choose_heads compares the lengths
        links = [sure for sure, _ in given]
        choice = choose_heads(model, tokenizer, sources, targets, links, batch_size=options.batch_size)
        read = _chosen(options.model, choice)
    pairs = (
        (source.split(), target.split()) if options.words else (source, target)
        for source, target in read_pairs(options.sources, options.targets)
    )
    if options.reverse:
        other, back = _aligner(options.reverse), dict(read)
        if options.choose:
            swapped = [{(t, s) for s, t in of_pair} for of_pair in links]
            choice = choose_heads(*other, targets, sources, swapped, batch_size=options.batch_size)
            back = _chosen(options.reverse, choice)
        method = options.symmetrise or "grow-diag-final-and"
        size = {"batch_size": options.batch_size}
        both = align_both_ways((model, tokenizer), other, pairs, method, read | size, back | size)
        aligned: Iterable[tuple[float, Any]] = ((0.0, links) for links in both)
    else:
        found = align_stream(model, tokenizer, pairs, options.batch_size, **read)
        aligned = ((pair.score, pair.links) for pair in found)
    predicted = []
    with progress_bar(count) as bar:
        for score, links in aligned:
            print(*([f"{score:.4f}"] if options.scores else []), to_pharaoh(links), sep="\t")
            bar.update()
            if gold is not None:
                predicted.append(links)
    if gold is not None:
        error_rate = alignment_error_rate(predicted, *zip(*gold, strict=True))
        print(f"AER {100 * error_rate:.2f} % of {count} pairs", file=sys.stderr)


def _aligner(name: str) -> tuple[Any, Any]:
    """A model for conditional generation, on the GPU where there is one, and its tokenizer."""
    folder = folder_of(name, "align")
    config = AutoConfig.from_pretrained(folder, **NO_CODE)
    if not config.is_encoder_decoder:
        raise ValueError(
            f"{name} has no source and target to align; give an encoder-decoder, not a {config.model_type}"
        )
    model = load_trained(AutoModelForSeq2SeqLM, folder).to("cuda" if torch.cuda.is_available() else "cpu")
    return model, AutoTokenizer.from_pretrained(folder, **NO_CODE)


def _chosen(name: str, choice: Any) -> dict[str, Any]:
    """The arguments for ``align``; they are printed, so that a later call can give them."""
    heads = ", ".join(f"layer {n} " + ("mean of the heads" if h is None else f"head {h}") for n, h in choice.heads)
    rate = f"AER {100 * choice.error_rate:.2f} % of the pairs for choosing"
    print(f"{name}: {heads}; shift {choice.shift}; {rate}", file=sys.stderr)
    return choice.options
