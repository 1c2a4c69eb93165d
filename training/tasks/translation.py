"""Translation: from the sentences of one language to those of another, in subwords of one vocabulary for both."""

import dataclasses
import re
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import datasets
import torch
from huggingface_hub.dataclasses import strict
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from attnzoo.viewer import plot_alignments, plot_heads

from ..data.multi30k import MULTI30K
from ..data.sources import Source, short
from ..data.verses import BIBLE_VERSES
from ..data.vocabulary import END, PAD, START, UNKNOWN, normalizer, refuse_overfull
from .base import Batch, Card
from .metrics import BLEU, ChrF
from .sequence_to_sequence import ALIGNMENT, PICTURES, SNIPPET, SequenceToSequence, generate_texts, max_positions

SPECIAL_TOKENS = [PAD, START, END, UNKNOWN]
SPACE = "\u2581"  # stands for a space, at the start of the subword after it
LONGER = 50  # tokens that a translation may have above its source's (Vaswani et al., 2017, section 6.1)
MAX_NEW_TOKENS = 256  # of generate() unless told otherwise
HEADS = "heads.png"
LANGUAGE = re.compile("[a-z]{2,3}")  # a code of ISO 639, as in the metadata of cards


@strict
@dataclass(kw_only=True)
class TranslationData(Source):
    """Where sentences and their translations come from, and how many subwords there are.

    Attributes:
        path: as for every ``Source``; or the wheel of the package bible-alignments, from Greek to English (see
            ``training/data/verses.py`` and ``training/studies/alignment_error.py``).
        subset, streaming, columns, separator, quoting, encoding, skip_bad_rows: as for every ``Source``.
        source_column: what the rows call the sentence; or, in rows with a column "translation" that holds a dict of
            languages, its language.
        target_column: what they call its translation.
        vocabulary_size: subwords of both languages together, with the four special tokens. All characters of the
            training sentences have to be among them.
        normalization: Unicode's form of the text: "nfc", or "nfd", which takes accented letters and the syllables of
            Hangul apart. A tokenizer decodes to the same form.
    """

    source_column: str = "source"
    target_column: str = "target"
    vocabulary_size: int = 8000
    normalization: Literal["nfc", "nfd"] = "nfc"

    def validate_vocabulary(self) -> None:
        """Raise a ValueError if the vocabulary holds no subword."""
        least = len(SPECIAL_TOKENS)
        if self.vocabulary_size <= least:
            raise ValueError(f"vocabulary_size must be above {least}, the special tokens, got {self.vocabulary_size}")


class Translation(SequenceToSequence):
    """Sentences and their translations.

    Data with a validation or test split of its own keeps it; what it lacks is taken out of its training split by the
    SHA-1 of the source sentence modulo 100: below 10 test, below 20 validation. How many pairs the data itself has in
    two splits is reported.
    """

    data_class = TranslationData
    columns = ["source", "target"]
    rows_called = "pairs"
    target = "target"
    metrics = (BLEU, ChrF)
    metric = "bleu"
    greater_is_better = True
    metric_names = {"bleu": "BLEU", "chrf": "chrF"}
    known_data = (MULTI30K, BIBLE_VERSES)
    card = Card(
        tags=("translation",),  # without a pipeline tag: Transformers has removed the Hub's pipeline "translation"
        snippet=SNIPPET,
        usage="Text is read as it is, capitals and punctuation too; a character that is in no training sentence "
        "counts as unknown.",
        metric_note="BLEU: sacreBLEU, {bleu}. chrF: sacreBLEU, {chrf}.",
        limits="Sentences of the kind it was trained on, one at a time.",
        pictures={
            **PICTURES,
            HEADS: "What every head of the decoder looks at in the source, a row for a layer: the source along the "
            "top, what is predicted down the side",
        },
    )

    def __init__(self, data: TranslationData, only: str | None = None) -> None:
        super().__init__(data, only)
        languages = [data.source_column, data.target_column]
        self.card = dataclasses.replace(
            self.card,
            metric_note=self.card.metric_note.format(bleu=BLEU().signature(), chrf=ChrF().signature()),
            language=languages if all(LANGUAGE.fullmatch(language) for language in languages) else None,
            published=self.card.published if languages == self.card.language else None,
        )

    def make_tokenizer(self) -> PreTrainedTokenizerFast:
        """Byte-pair encoding of the training sentences of both languages (Sennrich et al., 2016, section 3.2).

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
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {END}", special_tokens=[(END, tokenizer.token_to_id(END))]
        )
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            pad_token=PAD,
            bos_token=START,
            eos_token=END,
            unk_token=UNKNOWN,
            clean_up_tokenization_spaces=False,
            model_input_names=["input_ids", "attention_mask"],
            split_special_tokens=True,  # a text that has "</s>" in it does not end there
        )

    def encoder(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[Batch], Batch]:
        """``input_ids`` of the source, ``labels`` of the target."""

        def encode(rows: Batch) -> Batch:
            encoded = tokenizer(rows["source"], text_target=rows["target"], return_attention_mask=False)
            return {"input_ids": encoded["input_ids"], "labels": encoded["labels"]}

        return encode

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
        model.generation_config.update(max_new_tokens=min(MAX_NEW_TOKENS, most - 1))
        if most == sys.maxsize:
            return
        for split, rows in self.splits.items():
            for batch in rows.iter(1000):
                for sentence in (*batch["source"], *batch["target"]):
                    length = len(tokenizer(sentence)["input_ids"])
                    if length > most:
                        raise ValueError(
                            f"the {split} split has a sentence of {length} tokens, more than the model's "
                            f"max_position_embeddings={most}: {short(repr(sentence))}; make this larger, or take "
                            "position_embedding=sinusoidal"
                        )

    def predict_rows(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: datasets.Dataset, num_beams: int = 1
    ) -> list[str]:
        """The translations of these rows."""
        translations = translate(model, tokenizer, rows["source"][:], num_beams)
        if self.data.normalization == "nfd":  # references are in NFC, as most text is
            return [unicodedata.normalize("NFC", translation) for translation in translations]
        return translations

    def draw(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, **decoding: Any) -> None:
        """What each subword of a translation looks at in the sentence of the example, in every head of every layer.

        A model without attention has no picture.
        """
        if getattr(model.config, "score", None) == "none":
            return
        batch = tokenizer([self.card.example], return_tensors="pt").to(model.device)
        labels = model.generate(**batch, **decoding, do_sample=False)[:, 1:]  # type: ignore[operator]
        with torch.no_grad():
            cross_attentions = model(**batch, labels=labels, output_attentions=True).cross_attentions
        source, target = (tokenizer.convert_ids_to_tokens(ids[0]) for ids in (batch["input_ids"], labels))
        if len(cross_attentions) * cross_attentions[0].shape[1] == 1:
            plot_alignments([cross_attentions[0][0, 0]], [source], [target], folder / ALIGNMENT)
        else:
            plot_heads(cross_attentions, source, target, folder / HEADS)


def _words_of_tokens(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> Iterator[list[int | None]]:
    encoded = tokenizer(texts, return_offsets_mapping=True, return_special_tokens_mask=True)
    for text, offsets, is_special in zip(texts, encoded["offset_mapping"], encoded["special_tokens_mask"], strict=True):
        starts = [word.start() for word in re.finditer(r"\S+", text)]
        # A token begins with the space before its word, so its end says which word it is of.
        yield [
            None if special or end == 0 else max(0, bisect_right(starts, end - 1) - 1)
            for (_, end), special in zip(offsets, is_special, strict=True)
        ]


def translate(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str], num_beams: int = 1
) -> list[str]:
    """The translation of every sentence, in the order given.

    Raises:
        ValueError: a sentence is empty, or ``num_beams`` is below 1.
    """
    for row, sentence in enumerate(sentences):
        if not sentence.strip():
            raise ValueError(f"sentence {row} is empty; there is nothing to translate")
    return generate_texts(model, tokenizer, sentences, num_beams, batch_size=64, longer=LONGER)
