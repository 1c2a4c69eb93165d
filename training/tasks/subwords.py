"""What the tasks on pairs of texts share: byte pairs of one vocabulary for both sides, and pictures of attention."""

import functools
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
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from attnzoo.viewer import plot_alignments, plot_heads, tokens_of

from ..data.sources import Rows, Source, short
from ..data.vocabulary import END, PAD, START, UNKNOWN, finished, normalizer, refuse_overfull
from .base import Batch
from .bpe_dropout import BPEDropout
from .sequence_to_sequence import ALIGNMENT, PICTURES, SequenceToSequence, max_positions

SPECIAL_TOKENS = [PAD, START, END, UNKNOWN]
SPACE = "\u2581"  # stands for a space, at the start of the subword after it
HEADS, COPIES = "heads.png", "copies.png"
PICTURES_OF_HEADS = PICTURES | {
    HEADS: "What every head of the decoder looks at in the source, a row for a layer: the source along the top, what "
    "is predicted down the side"
}


@strict
@dataclass(kw_only=True)
class TextPairs(Source):
    """Where texts and their targets come from, and how many subwords there are.

    Attributes:
        path, subset, streaming, columns, separator, quoting, encoding, skip_bad_rows: as for every ``Source``.
        source_column: what the rows call the text.
        target_column: what they call its target.
        vocabulary_size: subwords of both sides together, with the four special tokens. All characters of the
            training texts have to be among them.
        normalization: Unicode's form of the text: "nfc", or "nfd", which takes accented letters and the syllables of
            Hangul apart. A tokenizer decodes to the same form.
        bpe_dropout: the probability with which a merge of two subwords is left out of a training text, see
            :class:`attnzoo.training.tasks.bpe_dropout.BPEDropout`; 0.1 in the paper.
    """

    source_column: str = "source"
    target_column: str = "target"
    vocabulary_size: int = 8000
    normalization: Literal["nfc", "nfd"] = "nfc"
    bpe_dropout: float | int = 0.0

    def validate_dropout(self) -> None:
        """Raise a ValueError if ``bpe_dropout`` is below 0, or 1 or more."""
        if not 0 <= self.bpe_dropout < 1:
            raise ValueError(f"bpe_dropout must be at least 0 and below 1, got {self.bpe_dropout}")

    def validate_vocabulary(self) -> None:
        """Raise a ValueError if the vocabulary holds no subword."""
        least = len(SPECIAL_TOKENS)
        if self.vocabulary_size <= least:
            raise ValueError(f"vocabulary_size must be above {least}, the special tokens, got {self.vocabulary_size}")


class SubwordTask(SequenceToSequence):
    """A task from texts to texts in the subwords of one vocabulary."""

    columns = ["source", "target"]
    target = "target"
    rows_called = "pairs"
    tokenizer_keys = ("vocabulary_size",)
    max_new_tokens: int  # of generate() unless told otherwise
    is_cut = False  # whether texts are cut to the tokenizer's ``model_max_length``

    def make_tokenizer(self) -> PreTrainedTokenizerFast:
        """Byte-pair encoding of the training texts of both sides (Sennrich et al., 2016, section 3.2).

        A word keeps the space before it, and a punctuation mark or digit is a word of its own, so that decoding gives
        the text back unchanged, except for its Unicode form (``normalization``) and the width of its spaces.
        """
        tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=True))
        tokenizer.normalizer = normalizers.Sequence(
            [*normalizer(self.data.normalization), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(replacement=SPACE),
                pre_tokenizers.Punctuation("isolated"),
                pre_tokenizers.Digits(individual_digits=True),
            ]
        )
        tokenizer.decoder = decoders.Metaspace(replacement=SPACE)
        trainer = trainers.BpeTrainer(
            vocab_size=self.data.vocabulary_size, special_tokens=SPECIAL_TOKENS, show_progress=False
        )
        sentences = (batch[column] for batch in self.splits["train"].iter(1000) for column in self.columns)
        tokenizer.train_from_iterator(sentences, trainer)
        refuse_overfull(tokenizer.get_vocab_size(), self.data.vocabulary_size)
        return finished(
            tokenizer,
            SPECIAL_TOKENS,
            f"$A {END}",
            clean_up_tokenization_spaces=False,
            model_input_names=["input_ids", "attention_mask"],
            split_special_tokens=True,  # a text that has "</s>" in it does not end there
        )

    def encoder(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[Batch], Batch]:
        """``input_ids`` of the source, ``labels`` of the target."""
        is_cut = self.is_cut  # with the task itself the function's key in the cache would depend on all its data

        def encode(rows: Batch) -> Batch:
            source = tokenizer(rows["source"], truncation=is_cut, return_attention_mask=False)
            target = tokenizer(text_target=rows["target"], return_attention_mask=False)
            return {"input_ids": source["input_ids"], "labels": target["input_ids"]}

        return encode

    def training_examples(self, tokenizer: PreTrainedTokenizerBase) -> Rows:
        """The encoded training split; with ``bpe_dropout`` several examples for every row."""
        if not self.data.bpe_dropout:
            return super().training_examples(tokenizer)
        encode = functools.partial(BPEDropout(tokenizer, self.data.bpe_dropout), is_cut=self.is_cut)
        return self.splits["train"].map(encode, batched=True, remove_columns=self.columns)

    def words_of_tokens(
        self, examples: datasets.Dataset, tokenizer: PreTrainedTokenizerBase
    ) -> Iterator[tuple[list[int | None], list[int | None]]]:
        """For every training example the number of the word of each token; words are separated by white space."""
        for batch in self.splits["train"].iter(1000):
            source, target = (_words_of_tokens(batch[column], tokenizer) for column in self.columns)
            yield from zip(source, target, strict=True)

    def prepare(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Set how many tokens a new model generates by default; this is saved with the model.

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
        """What each subword of the target looks at in the text of the example, in every head of every layer; and from
        where it may be copied, with the probability that it is, in a model that copies.

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
        # A token begins with the space before its word, so its end says which word it is of.
        yield [
            None if special or end == 0 else max(0, bisect_right(starts, end - 1) - 1)
            for (_, end), special in zip(offsets, is_special, strict=True)
        ]
