"""Language modelling: predict every token of a text from earlier tokens, or masked tokens from all others."""

from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import datasets
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from attnzoo.loss import IGNORED
from attnzoo.viewer import plot_heads, tokens_of

from ..data.sources import Rows, text_files
from ..data.speeches import SPEECHES
from ..data.splits import first_row
from ..data.texts import TextData, read_texts
from ..data.vocabulary import END, MASK, PAD, START, finished, vocabulary_rows
from .base import Batch, Card, Task, pipeline_snippet
from .log_probability import ids_of_texts, log_probabilities, predict_labels, text_ids
from .metrics import Accuracy, BitsPerByte, WordPerplexity

MASKED_SHARE = 0.15  # of the tokens (Devlin et al., 2019, section 3.1, task 1)
HEADS = "heads.png"
LIMITS = "It was trained on little text of one kind. Do not take what it writes as fact."


class LanguageModeling(Task):
    """Both kinds of language models: the texts, and a byte-level BPE that is learned from the training texts.

    The State of the Union addresses are split by year: training up to 1999, validation up to 2009, test from 2010 on.
    Other data with a validation or test split of its own keeps it; the name of a .txt file, or of its folder, decides
    its split. Missing splits are taken out of the training split by a hash of the text. The number of texts that are in
    two splits is reported.

    Attributes:
        special_tokens: the special tokens of the tokenizer.
        template: a text, ``$A``, with the special tokens that the tokenizer adds to it.
    """

    data_class = TextData
    columns = ["text"]
    rows_called = "texts"
    target = "text"
    known_data = (SPEECHES,)
    fixed_keys = ("vocabulary_size", "vocabulary_rows")
    special_tokens: ClassVar[tuple[str, ...]]
    template: ClassVar[str]

    def read(self, only: str | None) -> dict[str, Rows]:
        """The splits that the data has: of .txt files, or of rows."""
        files = {} if self.data.separator is not None else text_files(Path(self.data.path))
        return read_texts(self.data, files, only) if files else super().read(only)

    def example(self) -> str:
        return self.prompt(first_row(self.splits)["text"].split())

    def make_tokenizer(self) -> PreTrainedTokenizerFast:
        """A byte-level BPE of the training texts. No token is unknown, and decoding gives a text back unchanged."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.data.vocabulary_size,
            special_tokens=[AddedToken(token, lstrip=token == MASK) for token in self.special_tokens],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        rows = vocabulary_rows(self.splits["train"], self.data.vocabulary_rows)
        tokenizer.train_from_iterator((batch["text"] for batch in rows.iter(1000)), trainer)
        names = ["input_ids", "attention_mask"]
        return finished(tokenizer, self.special_tokens, self.template, model_input_names=names)

    def prepare(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Check a new model.

        Raises:
            ValueError: it learns fewer positions than a block has tokens.
        """
        config = model.config
        if config.position_embedding == "learned" and config.max_position_embeddings < self.data.block_size:
            raise ValueError(
                f"task.data.block_size={self.data.block_size} is longer than the model's "
                f"max_position_embeddings={config.max_position_embeddings}; set both to the same number"
            )

    def encoder(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[Batch], Batch]:
        """``input_ids`` of the blocks of a batch of texts."""
        # Without self: the cache's key would be made of all rows of the task, and differ in every run.
        blocks, size = self.blocks, self.data.block_size

        def encode(rows: Batch) -> Batch:
            return {
                "input_ids": [block for ids in ids_of_texts(tokenizer, rows["text"]) for block in blocks(ids, size)]
            }

        return encode

    @staticmethod
    @abstractmethod
    def blocks(ids: list[int], size: int) -> list[list[int]]:
        """The tokens of a text, from ``<s>`` to ``</s>``, in blocks of ``size`` at most."""

    @staticmethod
    @abstractmethod
    def prompt(words: list[str]) -> str:
        """An example input for the model, made of the words of a text."""


class CausalLanguageModeling(LanguageModeling):
    """Predict every token of a text from those before it (Radford et al., 2018, section 3.1).

    A text is its tokens between ``<s>`` and ``</s>``. Every token except the first is predicted, once in an epoch of
    training and once in an evaluation. Training cuts a text into blocks; the last token of a block is the first of the
    next one. An evaluation reads windows that share half of their tokens. So each token is predicted from at least half
    a block of earlier tokens, or from all of them if there are fewer.
    """

    auto_class = AutoModelForCausalLM
    special_tokens = (PAD, START, END)
    template = f"{START} $A"  # no end token: a text is continued

    metrics = (WordPerplexity, BitsPerByte)
    metric = "bits_per_byte"  # it ranks models as perplexity does, and does not overflow
    metric_names = {"word_perplexity": "perplexity per word", "bits_per_byte": "bits per byte"}
    card = Card(
        tags=("language-modeling", "transformer"),
        pipeline_tag="text-generation",
        snippet=pipeline_snippet("generate", "text-generation", ", max_new_tokens=40, do_sample=True, top_p=0.9"),
        usage="Any text can be continued; the tokens are bytes and merged pairs of them.",
        metric_note="Perplexity per word: all tokens of a text and its end are predicted, each from at least half "
        "a block of earlier tokens, or from all of them if there are fewer. White space separates words, for every "
        "tokenizer. Bits per byte: bytes of UTF-8.",
        limits=LIMITS,
    )

    @staticmethod
    def prompt(words: list[str]) -> str:
        return " ".join(words[:4])

    @staticmethod
    def blocks(ids: list[int], size: int) -> list[list[int]]:
        return [ids[start : start + size] for start in range(0, len(ids) - 1, size - 1)]

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Callable[[list[Any]], Any]:
        """A function that pads rows to a batch. Labels are the tokens; the first token of a block is not predicted."""
        pad = DataCollatorForLanguageModeling(tokenizer, mlm=False)

        def collate(rows: list[Any]) -> dict[str, Tensor]:
            batch = pad(rows)
            batch["labels"][:, 0] = IGNORED
            return dict(batch)

        return collate

    def predict_rows(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: datasets.Dataset, num_beams: int = 1
    ) -> list[float]:
        """The log-probabilities of these texts."""
        return log_probabilities(model, tokenizer, rows["text"][:], self.data.block_size)


class MaskedLanguageModeling(LanguageModeling):
    """Predict masked tokens of a text from all the others (Devlin et al., 2019, section 3.1, task 1).

    A text is cut into blocks, each between ``<s>`` and ``</s>``. 15 % of the tokens are predicted. They are chosen anew
    whenever a block is read; in an evaluation they are always the same. Of these tokens, 80 % are masked, 10 % are
    replaced by any token, and 10 % are unchanged.
    """

    auto_class = AutoModelForMaskedLM
    special_tokens = (PAD, START, END, MASK)
    template = f"{START} $A {END}"

    metric = "masked_loss"
    metric_names = {"masked_accuracy": "accuracy of masked tokens", "masked_loss": "nats per masked token"}
    units = {"masked_accuracy": " %"}
    card = Card(
        tags=("masked-language-modeling", "transformer"),
        pipeline_tag="fill-mask",
        snippet=pipeline_snippet("fill", "fill-mask"),
        usage=f"`{MASK}` stands for one token, which is a word or a part of one.",
        metric_note="15 % of the tokens are predicted, the same ones in every evaluation; of these, 80 % are masked, "
        "10 % replaced and 10 % unchanged. Nats per masked token: the mean of the negative natural logarithms of their "
        "probabilities. Each of these tokens is an example.",
        limits=LIMITS,
        pictures={HEADS: "The attention of every head of every layer on the example"},
    )

    @staticmethod
    def prompt(words: list[str]) -> str:
        return " ".join([*words[:3], MASK, *words[4:12]])

    @staticmethod
    def blocks(ids: list[int], size: int) -> list[list[int]]:
        return [
            [ids[0], *ids[start : min(start + size - 2, len(ids) - 1)], ids[-1]]
            for start in range(1, len(ids) - 1, size - 2)
        ]

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> DataCollatorForLanguageModeling:
        """Pads rows to a batch, and masks tokens."""
        return DataCollatorForLanguageModeling(tokenizer, mlm_probability=MASKED_SHARE)

    def predict_rows(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: datasets.Dataset, num_beams: int = 1
    ) -> list[tuple[int, int, float]]:
        """For every masked token: the predicted token, the true one, and the log-probability of the true one.

        The masked tokens of a row depend only on its number.
        """
        blocks = []
        for number, text in zip(rows["number"], rows["text"], strict=True):
            mask = DataCollatorForLanguageModeling(tokenizer, mlm_probability=MASKED_SHARE, seed=number)
            for block in self.blocks(text_ids(tokenizer, text), self.data.block_size):
                masked = mask([{"input_ids": block}])
                blocks.append((masked["input_ids"][0], masked["labels"][0]))
        return [token for of_block in predict_labels(model, tokenizer, blocks) for token in of_block]

    def measure(self, split: str, predictions: list[tuple[int, int, float]]) -> dict[str, float]:
        """Accuracy, in percent, and the mean of the negative log-probabilities, over the masked tokens of a split."""
        if not predictions:
            raise ValueError(f"the {split} split is so short that no token was masked; give it more text")
        predicted, true, log_probability = map(list, zip(*predictions, strict=True))
        # Without intervals: the tokens of a text are no independent examples.
        accuracy = Accuracy().compute(predictions=predicted, references=true)["accuracy"]
        loss = -sum(log_probability) / len(predictions)
        return {"masked_accuracy": accuracy, "masked_loss": loss, "examples": len(predictions)}

    def draw(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, **decoding: Any) -> None:
        """The picture of a released model: all its heads, on the example."""
        ids = tokenizer(self.card.example, return_tensors="pt").to(model.device)
        with torch.no_grad():
            attentions = model(**ids, output_attentions=True).attentions
        names = tokens_of(tokenizer, ids["input_ids"][0].tolist()).names
        plot_heads(attentions, names, names, folder / HEADS)
