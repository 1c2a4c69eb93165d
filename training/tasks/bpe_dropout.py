"""BPE-dropout: a training text is read in several segmentations (Provilkov et al., 2020)."""

import itertools
import json
import random
from typing import Any

from transformers import PreTrainedTokenizerBase

from .base import Batch

SEGMENTATIONS = 32  # of a word, drawn once; a text draws one of them for every word
COPIES = 10  # of a text in the training examples


class BPEDropout:
    """Encodes a text with byte-pair merges left out at random.

    Provilkov et al. (2020), "BPE-Dropout: Simple and Effective Subword Regularization", arXiv:1910.13267, section 3,
    algorithm 1: at every step each possible merge is left out with probability p, and of the others the one that was
    learned earliest is done; a word is finished if none is left. With p = 0 this is byte-pair encoding, with p = 1 a
    word is its characters.

    **Differs from the paper**: a word is drawn ``SEGMENTATIONS`` times and a text ``COPIES`` times; the paper draws
    anew in every epoch. All draws depend on the text alone, so they are the same in every run and on every process.

    Args:
        tokenizer: a tokenizer with byte pairs
        dropout: p

    Attributes:
        ranks: the place of a pair of subwords in the order in which merges were learned
        vocabulary: the id of a subword
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, dropout: float) -> None:
        self.backend: Any = tokenizer.backend_tokenizer
        model = json.loads(self.backend.to_str())["model"]
        self.ranks = {tuple(pair): rank for rank, pair in enumerate(model["merges"])}
        self.vocabulary: dict[str, int] = model["vocab"]
        self.unknown, self.end = tokenizer.unk_token_id, tokenizer.eos_token_id
        self.longest = tokenizer.model_max_length
        self.dropout = dropout
        self.drawn: dict[str, list[list[int]]] = {}

    def __call__(self, rows: Batch, is_cut: bool) -> Batch:
        """``COPIES`` examples for every row; a source is cut to the tokenizer's greatest length if ``is_cut``."""
        examples: Batch = {"input_ids": [], "labels": []}
        for texts in zip(rows["source"], rows["target"], strict=True):
            source, target = map(self.words, texts)
            choose = random.Random("\n".join(texts))
            for _ in range(COPIES):
                ids = _choose(source, choose)
                examples["input_ids"].append([*ids[: self.longest - 1], self.end] if is_cut else [*ids, self.end])
                examples["labels"].append([*_choose(target, choose), self.end])
        return examples

    def words(self, text: str) -> list[list[list[int]]]:
        """The segmentations of every word of a text, as ids of subwords."""
        words = self.backend.pre_tokenizer.pre_tokenize_str(self.backend.normalizer.normalize_str(text))
        return [self.segmentations(word) for word, _ in words]

    def segmentations(self, word: str) -> list[list[int]]:
        """The draws of a word, as ids of subwords."""
        if word not in self.drawn:
            draw = random.Random(word)
            draws = (segment(word, self.ranks, self.dropout, draw) for _ in range(SEGMENTATIONS))
            self.drawn[word] = [[self.vocabulary.get(part, self.unknown) for part in parts] for parts in draws]
        return self.drawn[word]


def _choose(words: list[list[list[int]]], choose: random.Random) -> list[int]:
    """The subwords of a text, with one of the segmentations of every word."""
    return [number for segmentations in words for number in choose.choice(segmentations)]


def segment(word: str, ranks: dict[tuple[str, ...], int], dropout: float, draw: random.Random) -> list[str]:
    """A word in subwords, by algorithm 1 of the paper."""
    pieces = list(word)
    while True:
        merges = [
            (rank, place)
            for place, pair in enumerate(itertools.pairwise(pieces))
            if (rank := ranks.get(pair)) is not None and draw.random() >= dropout
        ]
        if not merges:
            return pieces
        place = min(merges)[1]
        pieces[place : place + 2] = ["".join(pieces[place : place + 2])]
