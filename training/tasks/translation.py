"""Translation: from the sentences of one language to those of another, in subwords of one vocabulary for both."""

import re
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import datasets
import torch
from huggingface_hub.dataclasses import strict
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForSeq2SeqLM,
    DataCollatorForSeq2Seq,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from attnzoo.viewer import plot_alignments, plot_heads

from ..data.sources import Rows, Source, read_rows, short
from ..data.splits import chosen_rows, first_row, refuse_empty, report_overlap, with_held_out
from ..data.verses import is_verses, read_verses
from ..data.vocabulary import normalizer, refuse_overfull
from .metrics import BLEU, ChrF
from .prediction import predict_by_length

PAD, START, END, UNKNOWN = SPECIAL_TOKENS = ["<pad>", "<s>", "</s>", "<unk>"]
SPACE = "\u2581"  # in front of the first subword of what follows a space
LONGER = 50  # tokens that a translation may have above its source's (Vaswani et al., 2017, section 6.1)
MAX_NEW_TOKENS = 256  # of generate() unless told otherwise
ALIGNMENT, HEADS = "alignment.png", "heads.png"
SNIPPET = """\
import attnzoo  # registers the model with the Auto classes
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

model = AutoModelForSeq2SeqLM.from_pretrained("{folder}")
tokenizer = AutoTokenizer.from_pretrained("{folder}")
inputs = tokenizer([{example}], return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))"""


MULTI30K_PUBLISHED = """\
Other figures for English to German on test2016. They are of other vocabularies and trained for longer, and of BLEU
computed otherwise, so that they say what to expect and not who wins:

| model | BLEU |
|---|---|
| Transformer of 4 + 4 layers of width 128 \
([Wu et al., 2021](https://arxiv.org/abs/2105.14462), "Tiny", of tokenized text) | 41.02 |"""
LANGUAGE = re.compile("[a-z]{2,3}")  # as cards have them
# What a card says of data that it knows by the start of its name.
KNOWN: dict[str, dict[str, Any]] = {
    "multi30k": {
        "name": "Multi30k, task 1 of its authors' repository (Elliott et al., 2016; test split: test2016)",
        "license": {
            "license": "other",
            "license_name": "research-and-education-only",
            "license_link": "https://github.com/multi30k/dataset",
        },
        "limits": "Captions of photographs, of a dozen words, one at a time. The data, and so the model, are for "
        "research and education.",
        "published": {("en", "de"): MULTI30K_PUBLISHED},
    },
}


@strict
@dataclass(kw_only=True)
class Data(Source):
    """Where sentences and their translations come from, and how many subwords there are.

    Attributes:
        path: as for every ``Source``; or the wheel of the package bible-alignments, from Greek to English (see
            ``training/data/verses.py`` and ``training/studies/alignment_error.py``).
        subset, streaming, columns, separator, quoting, encoding, skip_bad_rows: as for every ``Source``.
        source_column: what the rows call the sentence; or, in rows with a column "translation" that holds a dict of
            languages, its language.
        target_column: what they call its translation.
        vocabulary_size: subwords of both languages together, with the four special tokens; all characters of the
            training sentences have to be among them.
        normalization: Unicode's form of the text: "nfc", or "nfd", which takes accented letters and the syllables of
            Hangul apart. A tokenizer decodes to the same form.
    """

    source_column: str = "source"
    target_column: str = "target"
    vocabulary_size: int = 8000
    normalization: Literal["nfc", "nfd"] = "nfc"

    def validate_vocabulary(self) -> None:
        """Refuse a vocabulary that holds no subword."""
        if self.vocabulary_size <= len(SPECIAL_TOKENS):
            raise ValueError(
                f"vocabulary_size must be above {len(SPECIAL_TOKENS)}, the special tokens, got {self.vocabulary_size}"
            )


class Translation:
    """Sentences and their translations.

    Data with a validation or test split of its own keeps it; what it lacks is taken out of its training split by the
    SHA-1 of the source sentence modulo 100: below 10 test, below 20 validation. Of pairs that the data itself has on
    two sides it is said how many there are.

    Args:
        data: where they come from
        only: the one split to read (see ``sources.read_rows``)

    Raises:
        FileNotFoundError: nothing is at the path.
        ValueError: a split or one side of a row is empty, or a file is unsound (see ``sources.read_rows``).
    """

    data_class = Data
    auto_class = AutoModelForSeq2SeqLM

    metric = "bleu"
    greater_is_better = True
    metric_names = {"bleu": "BLEU", "chrf": "chrF"}
    units: dict[str, str] = {}
    pipeline_tag: str | None = None  # the Hub's "translation" is a pipeline that Transformers has removed
    tags = ("translation",)
    num_beams: int | None = 5  # of a released model
    pictures = {
        ALIGNMENT: "What the model looks at: the source along the top, what it predicts down the side",
        HEADS: "What every head of the decoder looks at in the source, a row for a layer: the source along the top, "
        "what is predicted down the side",
    }
    longest = None  # not known before the sentences are tokenized
    license: dict[str, str] = {}  # of data of one's own a card claims none
    hub_ids = {"multi30k": "bentrevett/multi30k"}
    published: str | None = None

    # What a card says of use, of the data, of the figures, and of where they end.
    snippet = SNIPPET
    usage = (
        "Text is read as it is, capitals and punctuation too; a character of no training sentence counts as unknown."
    )
    limits = "Sentences of the kind it was trained on, one at a time."

    def __init__(self, data: Data, only: str | None = None) -> None:
        self.data = data
        self.name = Path(data.path).name
        columns = [data.source_column, data.target_column]
        self.language = columns if all(LANGUAGE.fullmatch(column) for column in columns) else None
        known = next((what for name, what in KNOWN.items() if self.name.lower().startswith(name)), {})
        self.name, self.limits = known.get("name", self.name), known.get("limits", self.limits)
        self.license = known.get("license", self.license)
        self.published = known.get("published", {}).get(tuple(columns))
        if is_verses(Path(data.path)):
            self.license = {"license": "apache-2.0"}
            self.splits = _verses(data)
            self.split_note = "all verses for training, of which a tenth is for validation and the others are for test"
        else:
            rows = read_rows(data, ["source", "target"], only=only)
            self.splits, self.split_note = with_held_out(rows, "source", "source", only)
        self.metric_note = f"BLEU: sacreBLEU, {BLEU().signature()}. chrF: sacreBLEU, {ChrF().signature()}."
        refuse_empty(self.splits, data.path, "sentences")
        report_overlap(self.splits, ["source", "target"], data.path, "pairs")
        self.example = first_row(self.splits)["source"]

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
            vocab_size=self.data.vocabulary_size,
            special_tokens=SPECIAL_TOKENS,
            show_progress=False,
        )
        columns = ("source", "target")
        sentences = (batch[column] for batch in self.splits["train"].iter(1000) for column in columns)
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

    def training_examples(self, tokenizer: PreTrainedTokenizerBase) -> Rows:
        """``input_ids`` and ``labels`` of the training split."""

        def encode(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
            encoded = tokenizer(rows["source"], text_target=rows["target"], return_attention_mask=False)
            return {"input_ids": encoded["input_ids"], "labels": encoded["labels"]}

        train = self.splits["train"]
        options = {"desc": "encoding"} if isinstance(train, datasets.Dataset) else {}
        return train.map(encode, batched=True, remove_columns=["source", "target"], **options)

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> DataCollatorForSeq2Seq:
        """Pads rows to a batch, labels with -100, and adds the decoder's input."""
        return DataCollatorForSeq2Seq(tokenizer, model=model)

    def config_fields(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        """What a model's config takes from the data."""
        return {
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "decoder_start_token_id": tokenizer.bos_token_id,
        }

    def prepare(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Tell a new model what ``generate()`` shall do unless told otherwise; it is saved with the model.

        Raises:
            ValueError: a sentence is longer than the positions that the model learns.
        """
        most = _positions(model)
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

    def predict(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        split: str,
        num_beams: int = 1,
        rows: list[int] | None = None,
    ) -> list[str]:
        """The translations of a split's sentences, or of some of its rows; greedy with one beam.

        Raises:
            ValueError: there is no such split, or it is a stream, or no beam.
        """
        translations = translate(model, tokenizer, chosen_rows(self.splits, split, rows)["source"][:], num_beams)
        if self.data.normalization == "nfd":  # references are in NFC, as most text is
            return [unicodedata.normalize("NFC", translation) for translation in translations]
        return translations

    def score(self, split: str, predictions: list[str]) -> dict[str, Any]:
        """BLEU and chrF of the predictions for a whole split, with their signatures."""
        references = self.splits[split]["target"][:]
        scores: dict[str, Any] = {}
        for metric in (BLEU(), ChrF()):
            scores |= metric.compute(predictions=predictions, references=references)
        return scores | {"examples": len(predictions)}

    def draw(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, num_beams: int) -> None:
        """The picture of a released model, if it has attention."""
        if getattr(model.config, "score", None) != "none":
            draw_attention(model, tokenizer, self.example, num_beams, folder)


def _positions(model: PreTrainedModel) -> int:
    """How long a sentence may be to the model."""
    is_limited = getattr(model.config, "position_embedding", None) == "learned"
    return model.config.max_position_embeddings if is_limited else sys.maxsize


def translate(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentences: list[str], num_beams: int = 1
) -> list[str]:
    """The translation of every sentence, in the order given.

    Raises:
        ValueError: a sentence is empty, or no beam.
    """
    if num_beams < 1:
        raise ValueError(f"num_beams must be at least 1, got {num_beams}")
    for row, sentence in enumerate(sentences):
        if not sentence.strip():
            raise ValueError(f"sentence {row} is empty; there is nothing to translate")
    lengths = [len(ids) for ids in tokenizer(sentences)["input_ids"]]

    def predict(rows: list[int]) -> list[str]:
        batch = tokenizer([sentences[row] for row in rows], padding=True, return_tensors="pt").to(model.device)
        ids = model.generate(  # type: ignore[operator]
            **batch,
            num_beams=num_beams,
            do_sample=False,
            max_new_tokens=min(lengths[rows[-1]] + LONGER, _positions(model) - 1),
        )
        return tokenizer.batch_decode(ids, skip_special_tokens=True)

    return predict_by_length(model, lengths, 64, predict)


def draw_attention(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentence: str, num_beams: int, folder: Path
) -> None:
    """Draw what each subword of a translation looks at in the sentence, in every head of every layer that there is."""
    batch = tokenizer([sentence], return_tensors="pt").to(model.device)
    labels = model.generate(**batch, num_beams=num_beams, do_sample=False)[:, 1:]  # type: ignore[operator]
    with torch.no_grad():
        cross_attentions = model(**batch, labels=labels, output_attentions=True).cross_attentions
    source, target = (tokenizer.convert_ids_to_tokens(ids[0]) for ids in (batch["input_ids"], labels))
    if len(cross_attentions) * cross_attentions[0].shape[1] == 1:
        plot_alignments([cross_attentions[0][0, 0]], [source], [target], folder / ALIGNMENT)
    else:
        plot_heads(cross_attentions, source, target, folder / HEADS)


def _verses(data: Data) -> dict[str, Rows]:
    """The verses of the Bible: all to train on, those for development to validate and the others to test.

    What they are for is the alignment of their words, of which training sees nothing.
    """
    if data.streaming or data.subset is not None:
        raise ValueError(f"{data.path} is read whole: leave out streaming and subset in task.data")
    verses = read_verses(Path(data.path))
    parts = {
        "train": verses,
        "validation": [verse for verse in verses if verse.is_for_development],
        "test": [verse for verse in verses if not verse.is_for_development],
    }
    return {
        split: datasets.Dataset.from_dict(
            {
                "source": [" ".join(verse.source_words) for verse in part],
                "target": [" ".join(verse.target_words) for verse in part],
            }
        )
        for split, part in parts.items()
    }
