"""The protocol of a task, as ``train``, ``evaluate`` and ``release`` use it.

A new task is a file with a subclass of :class:`Task`, and a line in ``TASKS`` in ``__init__.py``.
"""

import dataclasses
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import datasets
import evaluate
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from ..data.known import KnownData, find_known
from ..data.licenses import License
from ..data.sources import Rows, Source, read_rows, refuse_row_keys
from ..data.splits import chosen_rows, complete_splits, first_row

Batch = dict[str, list[Any]]
MANY_ROWS = 50_000  # a worker takes about as long to start as it takes to encode 5,000 rows


@dataclass(frozen=True, kw_only=True)
class Card:
    """The texts of a model card about a task and its data. ``card.py`` adds the figures of the run.

    Attributes:
        tags: the Hub's tags for the task.
        pipeline_tag: the Hub's task, or None if it has none.
        pipeline: the pipeline that loads a model; None if it has the name of the Hub's task.
        snippet: Python that uses the model, with the fields ``{folder}`` and ``{example}``.
        usage: the inputs that the model accepts.
        metric_note: the definition of each figure.
        limits: what the model cannot do.
        pictures: files that :meth:`Task.draw` writes, with their captions.
        license: the licence of the model; None if it is not known what the data allow.
        language: metadata: codes of ISO 639.
        split_note: the origin of the data and its splits.
        example: an input, for the snippet.
        published: published figures, for comparison.
    """

    tags: tuple[str, ...]
    pipeline_tag: str | None = None
    pipeline: str | None = None
    snippet: str
    usage: str
    metric_note: str
    limits: str
    pictures: dict[str, str] = field(default_factory=dict)
    license: License | None = None
    language: str | list[str] | None = None
    split_note: str = ""
    example: Any = None
    published: str | None = None


def pipeline_snippet(name: str, pipeline_tag: str, options: str = "") -> str:
    """Python that calls a pipeline of Transformers, for :attr:`Card.snippet`; ``options`` begin with a comma."""
    return f"""\
import attnzoo  # registers the model with the Auto classes
from transformers import pipeline

{name} = pipeline("{pipeline_tag}", "{{folder}}")
print({name}({{example}}{options}))"""


def encoded(rows: datasets.Dataset, encode: Callable[[Batch], Batch], columns: list[str]) -> datasets.Dataset:
    """The rows with these columns replaced by what ``encode`` returns; the result is cached.

    Many rows are divided between workers, one for each thread of all processes of a training on this machine. While one
    process encodes, the others wait.
    """
    threads = torch.get_num_threads() * int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    options: dict[str, Any] = {"num_proc": threads} if threads > 1 and len(rows) >= MANY_ROWS else {}
    return rows.map(encode, batched=True, remove_columns=columns, desc="encoding", **options)


class Task(ABC):
    """A task: it reads data, makes the tokenizer, encodes the training examples, predicts and measures.

    A subclass sets the attributes without a default and defines the abstract methods. The others have defaults.

    Args:
        data: the source of the examples.
        only: the one split to read (see :func:`attnzoo.training.data.sources.read_rows`).

    Attributes:
        data_class: the section ``task.data`` of a recipe.
        auto_class: the Auto class of the models that learn the task.
        columns: the columns of text in a row.
        rows_called: the word for the rows in messages.
        target: the column that predictions are compared with.
        metrics: the classes that :meth:`measure` computes.
        metric_names: the names of the figures to report, by key. Tables have them in this order.
        units: the unit of a figure, by key.
        metric: the key of the figure that chooses the best weights.
        greater_is_better: whether a greater figure of that key is better.
        num_beams: beams of a released model; None for a task without generation.
        known_data: the data sets that the task knows.
        fixed_keys: the keys of ``task.data`` that make the tokenizer or choose the held-out rows. Training fixes them.
        card: the texts of a card; ``__init__`` adds those about known data.
        name: the name of the data in messages and on cards.
        splits: the rows of each split.
        longest: the longest training example as a message shows it, and its number of tokens, if that is known.

    Raises:
        FileNotFoundError: the path has no data.
        ValueError: a split is empty, or a file cannot be used (see :func:`attnzoo.training.data.sources.read_rows`).
    """

    data_class: ClassVar[type[Source]]
    auto_class: Any
    columns: list[str]
    rows_called: ClassVar[str]
    target: ClassVar[str]
    metrics: ClassVar[tuple[type[evaluate.Metric], ...]]
    metric_names: dict[str, str]
    units: Mapping[str, str] = MappingProxyType({})
    metric: ClassVar[str]
    greater_is_better: ClassVar[bool] = False
    num_beams: ClassVar[int | None] = None
    known_data: ClassVar[tuple[KnownData, ...]] = ()
    fixed_keys: ClassVar[tuple[str, ...]] = ()
    card: Card
    longest: tuple[str, int] | None = None

    def __init__(self, data: Any, only: str | None = None) -> None:
        self.data = data
        self.known = find_known(data.path, self.known_data)
        self.name = self.known.name if self.known is not None else Path(data.path).name
        if self.known is None or self.known.read is None:
            try:
                given = self.read(only)
            except FileNotFoundError as error:
                if self.known is None or self.known.source is None:
                    raise
                raise FileNotFoundError(f"{error}. This is {self.known.name}, {self.known.source}") from error
            self.splits, split_note = self.divide(given, only)
        else:
            refuse_row_keys(data, "is a package")
            columns = self.known.read(Path(data.path))
            given = {split: datasets.Dataset.from_dict(rows) for split, rows in columns.items()}
            self.splits, split_note = self.divide(given, None)
        if self.known is not None:
            notes = (self.known.source, self.known.split_note or split_note)
            split_note = ", ".join(note for note in notes if note is not None)
            names = ("license", "language", "limits", "published")
            facts = {name: value for name in names if (value := getattr(self.known, name)) is not None}
            self.card = dataclasses.replace(self.card, **facts)
        self.card = dataclasses.replace(self.card, split_note=split_note, example=self.example())

    def read(self, only: str | None) -> dict[str, Rows]:
        """The splits that the data has, with the columns that :meth:`divide` needs. Default: ``columns``."""
        return read_rows(self.data, self.columns, only=only)

    def divide(self, given: dict[str, Rows], only: str | None) -> tuple[dict[str, Rows], str]:
        """All splits, and a card's description of them.

        By default given splits are kept. Validation and test rows that are missing are taken out of the training rows
        by a hash of the first column.
        """
        return complete_splits(given, self.columns, self.data.path, self.rows_called, only)

    def example(self) -> Any:
        """An input for the card's snippet."""
        return first_row(self.splits)[self.columns[0]]

    @abstractmethod
    def make_tokenizer(self) -> PreTrainedTokenizerBase:
        """A new tokenizer, from the training rows."""

    def config_fields(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        """The fields of a model's config that come from the tokenizer and the data."""
        names = [f"{name}_token_id" for name in ("pad", "bos", "eos")]
        ids = {name: number for name in names if (number := getattr(tokenizer, name)) is not None}
        return {"vocab_size": len(tokenizer), **ids}

    def prepare(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:  # noqa: B027
        """Complete a new model, or raise a ValueError if it does not fit the data. Default: nothing."""

    @abstractmethod
    def encoder(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[Batch], Batch]:
        """A function from a batch of rows to ``input_ids`` and, unless the collator makes them, ``labels``."""

    def training_encoder(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[Batch], Batch]:
        """The encoder of training rows, of which one may give several examples. Default: :meth:`encoder`."""
        return self.encoder(tokenizer)

    def training_examples(self, tokenizer: PreTrainedTokenizerBase) -> Rows:
        """The encoded training split."""
        train, encode = self.splits["train"], self.training_encoder(tokenizer)
        if isinstance(train, datasets.Dataset):
            return encoded(train, encode, self.columns)
        return train.map(encode, batched=True, remove_columns=self.columns)

    def held_out_examples(self, tokenizer: PreTrainedTokenizerBase, split: str) -> datasets.Dataset:
        """The encoded examples of a split that is held in memory."""
        rows = self.splits[split]
        return encoded(rows, self.encoder(tokenizer), rows.column_names)

    @abstractmethod
    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Callable[[list[Any]], Any]:
        """A function that pads encoded rows to a batch; labels of padding are -100."""

    def predict(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        split: str,
        num_beams: int = 1,
        rows: list[int] | None = None,
    ) -> list[Any]:
        """The predictions for a split, or for these rows of it; a task that generates does so with beams.

        Raises:
            ValueError: there is no such split, it is a stream, or the model does not fit the data.
        """
        return self.predict_rows(model, tokenizer, chosen_rows(self.splits, split, rows), num_beams)

    @abstractmethod
    def predict_rows(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: datasets.Dataset, num_beams: int = 1
    ) -> list[Any]:
        """The predictions for these rows, in their order. The column "number" has their numbers in the split."""

    def measure(self, split: str, predictions: list[Any]) -> dict[str, Any]:
        """The figures of the predictions for a whole split, and their number under "examples"."""
        references = self.splits[split][self.target][:]
        figures: dict[str, Any] = {}
        for metric in self.metrics:
            figures |= metric().compute(predictions=predictions, references=references)
        return figures | {"examples": len(predictions)}

    def draw(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, **decoding: Any) -> None:
        """Write the card's pictures of a released model into a folder; ``decoding`` is for ``generate``."""
        raise NotImplementedError(f"{type(self).__name__} has pictures on its card and no method that draws them")
