"""Guided alignment: one head of attention learns word links (Chen et al., 2016; Garg et al., 2019)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from attnzoo.aligning.files import read_links
from attnzoo.alignment import places_of_words

from ..tasks.base import Task
from ..tasks.sequence_to_sequence import SequenceToSequence

LINKS = "links"  # the column of the training examples, and the key of a batch


def alignment_cross_entropy(attention_weights: Tensor, links: Tensor, num_items: Tensor | int) -> Tensor:
    r"""The cross-entropy between links and attention (Garg et al., 2019, section 4.2, equation 5).

    .. math:: -\frac{1}{N} \sum_t \sum_s G_{ts} \log A_{ts}, \qquad
              G_{ts} = \frac{[(s, t) \text{ is a link}]}{\text{number of links of } t}

    Symbols: :math:`A` is ``attention_weights``, :math:`N` is ``num_items``. A target token without a link adds nothing.

    **Differs from the paper** in N: the number of target tokens of a step instead of each sentence's, as in the loss of
    the tokens.

    Shape:
        - attention_weights: (B, T, S)
        - links: (B, T, S) bool
        - returns: a scalar
    """
    target = links.to(attention_weights.dtype)
    target = target / target.sum(dim=-1, keepdim=True).clamp(min=1)
    log_weights = attention_weights.clamp(min=torch.finfo(attention_weights.dtype).tiny).log()
    return -(target * log_weights).sum() / num_items


class GuidedAlignment:
    """The links of the training examples, and the loss of the head that learns them.

    The file has a line for each training example, in their order and in Pharaoh format. Its links are between words, as
    :func:`attnzoo.aligning.align_both_ways` returns them: words are separated by white space. For a task of letters and
    phonemes they are between letters and phonemes. Every token of a word gets the links of the word. If a source is cut
    to the tokenizer's greatest length, the links of the rest are left out.

    Args:
        path: the file
        weight: the factor of the head's loss
        layer: the layer of the head in the decoder; negative numbers count from the end. An RNN has one layer
        head: the number of the head, from 0. An RNN has one head
        shift: 0: the step that predicts a token learns its links; 1: the step that reads it

    Raises:
        FileNotFoundError: the file does not exist.
    """

    options: dict[str, Any] = {"output_attentions": True}
    columns: tuple[str, ...] = (LINKS,)

    def __init__(self, path: str, weight: float, layer: int, head: int, shift: int) -> None:
        if not Path(path).is_file():
            raise FileNotFoundError(f"training.alignment_links: there is no file {path!r}")
        self.path, self.weight, self.layer, self.head, self.shift = path, weight, layer, head, shift

    def add_links(self, examples: Any, task: Task, tokenizer: PreTrainedTokenizerBase) -> datasets.Dataset:
        """The training examples with a column of links between tokens: pairs (source token, target token).

        Raises:
            ValueError: the task has no sources and targets, its rows are streamed, a row is several examples
                (``bpe_dropout``), the file has another number of lines, or a link is not between two words of its
                example; the message has the line, from 1.
        """
        if not isinstance(task, SequenceToSequence):
            raise ValueError("training.alignment_links is for encoder-decoders, which have a source and a target")
        if isinstance(examples, datasets.IterableDataset):
            raise ValueError("training.alignment_links needs all rows in memory; set task.data.streaming=false")
        if getattr(task.data, "bpe_dropout", 0):
            raise ValueError("training.alignment_links needs one example for a row; set task.data.bpe_dropout=0")
        given = read_links(Path(self.path))
        if len(given) != len(examples):
            raise ValueError(
                f"{self.path} has {len(given):,} lines, and there are {len(examples):,} training examples; give data "
                "that have a validation and a test split, since they are taken from the rows otherwise"
            )
        columns = []
        for number, ((sure, _), sides, ids) in enumerate(
            zip(given, task.words_of_tokens(examples, tokenizer), examples["input_ids"], strict=True), start=1
        ):
            is_cut = len(ids) < len(sides[0])
            read = len(ids) - is_cut  # in a source that is cut, the end token takes the place of a word
            places = [places_of_words(side) for side in sides]
            found = []
            for link in sorted(sure):
                if any(word not in of_side for word, of_side in zip(link, places, strict=True)):
                    sizes = " and ".join(str(len(of_side)) for of_side in places)
                    raise ValueError(
                        f"line {number} of {self.path} has the link {link[0]}-{link[1]}, but source and target have "
                        f"{sizes} words"
                    )
                found += [[s, t] for s in places[0][link[0]] for t in places[1][link[1]] if s < read]
            columns.append(found)
        feature = datasets.List(datasets.List(datasets.Value("int32")))
        return examples.add_column(LINKS, columns, feature=feature)

    def collator(self, collate: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
        """``collate``, whose batches also have the links, (B, T, S) bool."""

        def with_links(rows: list[Any]) -> dict[str, Tensor]:
            batch = dict(collate([{name: row[name] for name in row if name != LINKS} for row in rows]))
            links = torch.zeros(*batch["labels"].shape, batch["input_ids"].shape[1], dtype=torch.bool)
            for of_row, row in zip(links, rows, strict=True):
                if row[LINKS]:
                    source, target = torch.tensor(row[LINKS]).T
                    of_row[target, source] = True
            return batch | {LINKS: links}

        return with_links

    def loss(self, outputs: Any, batch: dict[str, Tensor], num_labels: Tensor | int) -> Tensor:
        """The loss of the head, times its weight; ``outputs`` are those with ``output_attentions=True``.

        Shape:
            - batch[LINKS]: (B, T, S) bool

        Raises:
            ValueError: the model has no attention, or no such layer or head.
        """
        layers = outputs.cross_attentions
        if not layers:
            raise ValueError("training.alignment_links needs a model with attention, and this one has none")
        heads = layers[0].shape[1]
        if not -len(layers) <= self.layer < len(layers) or not self.head < heads:
            raise ValueError(
                f"training.alignment_layer is 0 to {len(layers) - 1} and training.alignment_head 0 to {heads - 1}, "
                f"got {self.layer} and {self.head}"
            )
        weights = layers[self.layer][:, self.head]  # (B, T, S)
        steps = weights.shape[1] - self.shift
        return self.weight * alignment_cross_entropy(weights[:, self.shift :], batch[LINKS][:, :steps], num_labels)
