"""Tasks on pairs of texts: subwords of one vocabulary for both sides, and pictures of attention."""

import functools
import itertools
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import datasets
import torch
from huggingface_hub.dataclasses import strict
from tokenizers import trainers
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from attnzoo.firefox.sentencepiece_tokenizer import learn_vocabulary
from attnzoo.firefox.students import student_tokenizer
from attnzoo.viewer import plot_alignments, plot_heads, tokens_of

from ..data.sources import Source, short
from ..data.vocabulary import (
    END,
    PAD,
    START,
    UNKNOWN,
    VOCABULARY_ROWS,
    finished,
    refuse_no_rows,
    refuse_overfull,
    vocabulary_rows,
)
from .base import Batch
from .bpe_dropout import BPEDropout
from .sequence_to_sequence import ALIGNMENT, PICTURES, SequenceToSequence, max_positions
from .word_tokens import WordTokens, encodes_by_words, word_tokenizer

SPECIAL_TOKENS = [PAD, START, END, UNKNOWN]
HEADS, COPIES = "heads.png", "copies.png"
PICTURES_OF_HEADS = PICTURES | {
    HEADS: "The attention of every head of the decoder to the source, one row for each layer: the source along the "
    "top, the prediction down the side"
}


@strict
@dataclass(kw_only=True)
class TextPairs(Source):
    """The source of texts and their targets, and the number of subwords.

    Attributes:
        path, subset, streaming, columns, separator, quoting, encoding, skip_bad_rows: as for every ``Source``.
        source_column: the name of the column of texts.
        target_column: the name of the column of targets.
        vocabulary_size: subwords of both sides together, with the four special tokens. It must have room for all
            characters of the rows that it is learned from.
        vocabulary_rows: the subwords are learned from at most this many training rows: a fixed random sample if
            there are more, of a stream the first ones. A character that only other rows have is unknown.
        subwords: "bpe", byte-pair encoding; or "unigram", the pieces of a unigram language model (Kudo, 2018), with the
            bytes for characters without a piece and without a start token, in the form that Firefox's engine reads.
        normalization: Unicode's form of the text: "nfc", or "nfd", which takes accented letters and the syllables of
            Hangul apart. A tokenizer decodes to the same form. One of "unigram" reads texts as they are.
        bpe_dropout: the probability with which a merge of two subwords is left out of a training text, see
            :class:`attnzoo.training.tasks.bpe_dropout.BPEDropout`; 0.1 in the paper.
    """

    source_column: str = "source"
    target_column: str = "target"
    vocabulary_size: int = 8000
    vocabulary_rows: int = VOCABULARY_ROWS
    subwords: Literal["bpe", "unigram"] = "bpe"
    normalization: Literal["nfc", "nfd"] = "nfc"
    bpe_dropout: float | int = 0.0

    def validate_dropout(self) -> None:
        """Raise a ValueError if ``bpe_dropout`` is below 0, or 1 or more."""
        if not 0 <= self.bpe_dropout < 1:
            raise ValueError(f"bpe_dropout must be at least 0 and below 1, got {self.bpe_dropout}")

    def validate_subwords(self) -> None:
        """Raise a ValueError if ``subwords`` is "unigram" and an option is for byte pairs."""
        for name, default in (("normalization", "nfc"), ("bpe_dropout", 0.0)):
            if self.subwords == "unigram" and (value := getattr(self, name)) != default:
                raise ValueError(f"{name}={value!r} is for subwords='bpe'; leave it out with 'unigram'")

    def validate_vocabulary(self) -> None:
        """Raise a ValueError if the vocabulary holds no subword."""
        least = len(SPECIAL_TOKENS)
        if self.vocabulary_size <= least:
            raise ValueError(f"vocabulary_size must be above {least}, the special tokens, got {self.vocabulary_size}")
        refuse_no_rows(self.vocabulary_rows)


class SubwordTask(SequenceToSequence):
    """A task from texts to texts in the subwords of one vocabulary."""

    columns = ["source", "target"]
    target = "target"
    rows_called = "pairs"
    fixed_keys = ("vocabulary_size", "vocabulary_rows", "subwords", "normalization")
    max_new_tokens: int  # the default of generate()
    is_cut = False  # whether texts are cut to the tokenizer's ``model_max_length``

    def make_tokenizer(self) -> PreTrainedTokenizerFast:
        """The subwords of the training texts of both sides.

        Byte-pair encoding is that of Sennrich et al. (2016, section 3.2); see
        :func:`attnzoo.training.tasks.word_tokens.word_tokenizer` for what a word is.
        """
        rows = vocabulary_rows(self.splits["train"], self.data.vocabulary_rows)
        sentences = (batch[column] for batch in rows.iter(1000) for column in self.columns)
        if self.data.subwords == "unigram":  # the tokenizer adds the start token
            texts = itertools.chain.from_iterable(sentences)
            return student_tokenizer(learn_vocabulary(texts, self.data.vocabulary_size - 1))
        tokenizer = word_tokenizer(self.data.normalization)
        trainer = trainers.BpeTrainer(
            vocab_size=self.data.vocabulary_size, special_tokens=SPECIAL_TOKENS, show_progress=False
        )
        tokenizer.train_from_iterator(sentences, trainer)
        refuse_overfull(tokenizer.get_vocab_size(), self.data.vocabulary_size)
        return finished(
            tokenizer,
            SPECIAL_TOKENS,
            f"$A {END}",
            clean_up_tokenization_spaces=False,
            model_input_names=["input_ids", "attention_mask"],
            split_special_tokens=True,  # "</s>" inside a text does not end it
        )

    def encoder(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[Batch], Batch]:
        """``input_ids`` of the source, ``labels`` of the target."""
        is_cut = self.is_cut  # with the task itself the function's key in the cache would depend on all its data
        if encodes_by_words(tokenizer):
            tokens_of_texts = WordTokens(tokenizer)

            def encode_words(rows: Batch) -> Batch:
                return {"input_ids": tokens_of_texts(rows["source"], is_cut), "labels": tokens_of_texts(rows["target"])}

            return encode_words

        def encode(rows: Batch) -> Batch:
            source = tokenizer(rows["source"], truncation=is_cut, return_attention_mask=False)
            target = tokenizer(text_target=rows["target"], return_attention_mask=False)
            return {"input_ids": source["input_ids"], "labels": target["input_ids"]}

        return encode

    def training_encoder(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[Batch], Batch]:
        """With ``bpe_dropout`` several examples for every row."""
        if not self.data.bpe_dropout:
            return self.encoder(tokenizer)
        return functools.partial(BPEDropout(tokenizer, self.data.bpe_dropout), is_cut=self.is_cut)

    def words_of_tokens(
        self, examples: datasets.Dataset, tokenizer: PreTrainedTokenizerBase
    ) -> Iterator[tuple[list[int | None], list[int | None]]]:
        """The number of each token's word, for every training example; words are separated by white space."""
        for batch in self.splits["train"].iter(1000):
            source, target = (_words_of_tokens(batch[column], tokenizer) for column in self.columns)
            yield from zip(source, target, strict=True)

    def prepare(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Set the number of tokens that a new model generates by default; it is saved with the model.

        Raises:
            ValueError: a sentence is longer than the positions that the model learns.
        """
        most = max_positions(model)
        model.generation_config.update(max_new_tokens=min(self.max_new_tokens, most - 1))
        if most == sys.maxsize:
            return
        for split, rows in self.splits.items():
            for batch in rows.iter(1000):
                for sentence in (*batch["source"], *batch["target"]):
                    length = len(tokenizer(sentence, truncation=self.is_cut)["input_ids"])
                    if length > most:
                        raise ValueError(
                            f"the {split} split has a sentence of {length} tokens, more than the model's "
                            f"max_position_embeddings={most}: {short(repr(sentence))}; make this larger, or take "
                            "position_embedding=sinusoidal"
                        )

    def draw(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, **decoding: Any) -> None:
        """Draw the attention of the target's subwords to the text of the example, in every head of every layer; for a
        model that copies, also where each subword may be copied from, and the probability that it is copied.

        A model without attention has no picture.
        """
        if getattr(model.config, "score", None) == "none":
            return
        batch = tokenizer([self.card.example], truncation=self.is_cut, return_tensors="pt").to(model.device)
        labels = model.generate(**batch, **decoding, do_sample=False)[:, 1:]  # type: ignore[operator]
        with torch.no_grad():
            outputs = model(**batch, labels=labels, output_attentions=True)
        cross_attentions = outputs.cross_attentions
        source, target = (tokens_of(tokenizer, ids[0].tolist()).names for ids in (batch["input_ids"], labels))
        if len(cross_attentions) * cross_attentions[0].shape[1] == 1:
            plot_alignments([cross_attentions[0][0, 0]], [source], [target], folder / ALIGNMENT)
        else:
            plot_heads(cross_attentions, source, target, folder / HEADS)
        if outputs.get("copy_probabilities") is not None:
            shares = outputs.copy_probabilities[0].tolist()
            written = [f"{token} {share:.0%}" for token, share in zip(target, shares, strict=True)]
            plot_alignments([outputs.copy_attentions[0][0, 0]], [source], [written], folder / COPIES)


def _words_of_tokens(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> Iterator[list[int | None]]:
    encoded = tokenizer(texts, return_offsets_mapping=True, return_special_tokens_mask=True)
    for text, offsets, is_special in zip(texts, encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True):
        starts = [word.start() for word in re.finditer(r"\S+", text)]
        # A token begins with the space before its word, so its end decides its word.
        yield [
            None if special or end == 0 else max(0, bisect_right(starts, end - 1) - 1)
            for (_, end), special in zip(offsets, is_special, strict=True)
        ]
