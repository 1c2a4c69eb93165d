"""Translation: from the sentences of one language to those of another, with one vocabulary of subwords for both."""

import dataclasses
import re
import unicodedata
from dataclasses import dataclass

import datasets
from huggingface_hub.dataclasses import strict
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.multi30k import MULTI30K
from ..data.tatoeba import TATOEBA, TAUGHT
from ..data.verses import BIBLE_VERSES
from .base import Card
from .metrics import BLEU, ChrF
from .sequence_to_sequence import SNIPPET, generate_texts
from .subwords import PICTURES_OF_HEADS, SubwordTask, TextPairs

LONGER = 50  # tokens that a translation may have more than its source (Vaswani et al., 2017, section 6.1)
LANGUAGE = re.compile("[a-z]{2,3}")  # a code of ISO 639, as in the metadata of cards


@strict
@dataclass(kw_only=True)
class TranslationData(TextPairs):
    """The source of sentences and their translations, and the number of subwords.

    Attributes:
        path: as for every ``Source``; or the wheel of the package bible-alignments, from Greek to English (see
            ``training/data/verses.py`` and ``training/studies/alignment_error.py``).
        subset, streaming, columns, separator, quoting, encoding, skip_bad_rows: as for every ``Source``.
        source_column: the name of the column of sentences; or their language, in rows with a column "translation" of
            dicts by language.
        target_column: the same for the translations.
    """


class Translation(SubwordTask):
    """Sentences and their translations.

    Data with a validation or test split of its own keeps it; missing splits are taken out of its training split by the
    SHA-1 of the source sentence modulo 100: below 10 test, below 20 validation. The number of pairs that the data has
    in two splits is reported.
    """

    data_class = TranslationData
    metrics = (BLEU, ChrF)
    metric = "bleu"
    greater_is_better = True
    metric_names = {"bleu": "BLEU", "chrf": "chrF"}
    known_data = (MULTI30K, TATOEBA, TAUGHT, BIBLE_VERSES)
    max_new_tokens = 256
    card = Card(
        tags=("translation",),
        pipeline_tag="translation",  # of the Hub alone: Transformers has removed its pipeline
        pipeline="machine-translation",
        snippet=SNIPPET,
        usage="Text is read as it is, uppercase letters and punctuation too; a character that is in no training "
        "sentence {unseen}.",
        metric_note="BLEU: sacreBLEU, {bleu}. chrF: sacreBLEU, {chrf}.",
        limits="Sentences of the kind it was trained on, one at a time.",
        pictures=PICTURES_OF_HEADS,
    )

    def __init__(self, data: TranslationData, only: str | None = None) -> None:
        super().__init__(data, only)
        languages = [data.source_column, data.target_column]
        self.card = dataclasses.replace(
            self.card,
            usage=self.card.usage.format(
                unseen="is read as its bytes in UTF-8" if data.subwords == "unigram" else "counts as unknown"
            ),
            metric_note=self.card.metric_note.format(bleu=BLEU().signature(), chrf=ChrF().signature()),
            language=languages if all(LANGUAGE.fullmatch(language) for language in languages) else None,
            published=self.card.published if languages == self.card.language else None,
        )

    def predict_rows(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: datasets.Dataset, num_beams: int = 1
    ) -> list[str]:
        """The translations of these rows."""
        translations = translate(model, tokenizer, rows["source"][:], num_beams)
        if self.data.normalization == "nfd":  # references are in NFC, like most text
            return [unicodedata.normalize("NFC", translation) for translation in translations]
        return translations


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
