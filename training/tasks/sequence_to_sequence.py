"""Tasks of encoder-decoders: their models generate texts with beams, and their labels are tokens."""

import sys
from collections.abc import Iterator
from typing import Any

import datasets
from transformers import AutoModelForSeq2SeqLM, DataCollatorForSeq2Seq, PreTrainedModel, PreTrainedTokenizerBase

from .base import Task
from .prediction import predict_by_length

ALIGNMENT = "alignment.png"
PICTURES = {ALIGNMENT: "The attention of the model: the source along the top, the prediction down the side"}
SNIPPET = """\
import attnzoo  # registers the model with the Auto classes
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

model = AutoModelForSeq2SeqLM.from_pretrained("{folder}")
tokenizer = AutoTokenizer.from_pretrained("{folder}")
texts = [{example}]
inputs = tokenizer(texts, padding=True, return_tensors="pt")
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))"""


EXAMPLE = 72  # letters of the example in a card, at most


class SequenceToSequence(Task):
    """A task of an encoder-decoder: from one text to another."""

    auto_class = AutoModelForSeq2SeqLM
    num_beams = 5

    def config_fields(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        """The fields of a model's config that come from the tokenizer.

        The decoder starts with ``<s>``; if the tokenizer has none, with the padding, as Marian's models do.
        """
        start = tokenizer.pad_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        return super().config_fields(tokenizer) | {"decoder_start_token_id": start}

    def example(self) -> Any:
        """A text of one short line, if there is one."""
        rows = self.splits.get("test", next(iter(self.splits.values())))
        texts: list[str] = rows[:100][self.columns[0]]
        return next((text for text in texts if len(text) <= EXAMPLE and "\n" not in text), super().example())

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> DataCollatorForSeq2Seq:
        """Pads rows to a batch, labels with -100, and adds the decoder's input."""
        return DataCollatorForSeq2Seq(tokenizer, model=model)

    def words_of_tokens(
        self, examples: datasets.Dataset, tokenizer: PreTrainedTokenizerBase
    ) -> Iterator[tuple[list[int | None], list[int | None]]]:
        """For every training example the number of the word of each token, in source and target; None for a special
        token. Default: every token is a word.
        """
        special = set(tokenizer.all_special_ids)
        for row in examples:
            source, target = (
                [None if token in special else place for place, token in enumerate(row[side])]
                for side in ("input_ids", "labels")
            )
            yield source, target


def generate_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: list[str],
    num_beams: int,
    batch_size: int,
    longer: int | None = None,
    max_length: int | None = None,
) -> list[str]:
    """The model's output for every text, in the given order; one beam is greedy search.

    Args:
        model: an encoder-decoder
        tokenizer: its tokenizer
        texts: the sources
        num_beams: width of the beam search
        batch_size: texts at a time
        longer: the number of tokens that an output may have more than its source; None for the model's generation
            config
        max_length: texts are cut to this many tokens; None reads them whole

    Raises:
        ValueError: ``num_beams`` is below 1.
    """
    if num_beams < 1:
        raise ValueError(f"num_beams must be at least 1, got {num_beams}")
    if not texts:  # a process may have no row of a small split
        return []
    cut = {"truncation": max_length is not None, "max_length": max_length}
    lengths = [len(ids) for ids in tokenizer(texts, **cut)["input_ids"]]

    def predict(rows: list[int]) -> list[str]:
        of_rows = [texts[row] for row in rows]
        batch = tokenizer(of_rows, padding=True, **cut, return_tensors="pt").to(model.device)
        limit = {} if longer is None else {"max_new_tokens": min(lengths[rows[-1]] + longer, max_positions(model) - 1)}
        ids = model.generate(**batch, num_beams=num_beams, do_sample=False, **limit)  # type: ignore[operator]
        return tokenizer.batch_decode(ids, skip_special_tokens=True)

    return predict_by_length(model, lengths, batch_size, predict)


def max_positions(model: PreTrainedModel) -> int:
    """The largest number of tokens that the model can read or write: unlimited unless its positions are learned."""
    is_limited = getattr(model.config, "position_embedding", None) == "learned"
    return model.config.max_position_embeddings if is_limited else sys.maxsize
