"""Invariance of a model's outputs: to padding, to the other rows of the batch and their order, to future tokens."""

import functools
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.factory import BACKENDS, FIRST_WORD, GENERATING_HEADS, VOCAB_SIZE, alignments_of, tensors, tiny_model, words

# A busy machine must not fail a test: no clock is looked at.
examples = settings(
    deadline=None, max_examples=15, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
# Sums run in another order when the shapes are others: no more than that may differ, in float64.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}
cached_model = functools.cache(tiny_model)


class Case(NamedTuple):
    """A batch: the text of every row, its places in the padded row, the targets and the labels."""

    texts: list[Tensor]  # one (length,) per row, of two tokens or more: a pair has two sentences
    places: list[list[int]]
    width: int
    targets: Tensor  # (rows, T), -100 after the end of each row
    training: bool  # without dropout, train() must not change anything
    seed: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    lengths = draw(st.lists(st.integers(2, 8), min_size=1, max_size=4))
    width = max(lengths) + draw(st.integers(0, 3))
    places = []
    for length in lengths:
        side = draw(st.sampled_from(["left", "right", "holes"]))
        start = width - length if side == "left" else 0
        is_mixed = side == "holes"
        places.append(
            sorted(draw(st.permutations(range(width)))[:length]) if is_mixed else [*range(start, start + length)]
        )
    seed, target_length = draw(st.integers(0, 2**16)), draw(st.integers(1, 6))
    ends = torch.tensor([draw(st.integers(1, target_length)) for _ in lengths])
    targets = words(len(lengths), target_length, seed + 1)
    texts = [row[:length] for row, length in zip(words(len(lengths), 8, seed), lengths, strict=True)]
    return Case(
        texts,
        places,
        width,
        targets.where(torch.arange(target_length) < ends[:, None], -100),
        draw(st.booleans()),
        seed,
    )


def row_batch(model: Any, case: Case, row: int) -> dict[str, Tensor]:
    """A row alone, without padding and without a mask."""
    text = case.texts[row]
    batch = {"input_ids": text[None]}
    if getattr(model.config, "sentence_pair", False):
        batch["token_type_ids"] = (torch.arange(len(text)) >= 1 + case.seed % (len(text) - 1)).long()[None]
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = case.targets[row].clamp(min=FIRST_WORD)[None]
    return batch


def whole_batch(model: Any, case: Case, order: list[int]) -> dict[str, Tensor]:
    """Rows in this order, with random tokens under the padding; row -1 is padding only."""
    generator = torch.Generator().manual_seed(case.seed + 1)
    ids = torch.randint(VOCAB_SIZE, (len(order), case.width), generator=generator)
    batch = {"input_ids": ids, "attention_mask": torch.zeros_like(ids)}
    if getattr(model.config, "sentence_pair", False):
        batch["token_type_ids"] = torch.randint(2, ids.shape, generator=generator)
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = words(len(order), case.targets.shape[1], case.seed + 2)
    for at, row in enumerate(order):
        if row < 0:
            continue
        for name, tensor in row_batch(model, case, row).items():
            batch[name][at, slice(None) if name == "decoder_input_ids" else case.places[row]] = tensor[0]
        batch["attention_mask"][at, case.places[row]] = 1
    return batch


def parts_of(outputs: Any, config: Any, row: int, places: Any) -> list[Tensor]:
    """A row's first output, its states and its weights on the source, all on the real tokens of its source."""
    is_of_source = outputs[0].ndim == 3 and not config.is_encoder_decoder
    found = [outputs[0][row, places] if is_of_source else outputs[0][row]]
    for name, value in outputs.items():
        if name in ("hidden_states", "encoder_hidden_states"):
            found += [part[row, places] for part in value]
        elif name == "decoder_hidden_states":
            found += [part[row] for part in value]
        elif name == "cross_attentions" or (name == "attentions" and config.model_type == "self_attentive"):
            found += [part[row, ..., places] for part in value or ()]
    return found


@pytest.mark.parametrize(("name", "attention"), BACKENDS)
@given(case=cases(), data=st.data())
@examples
def test_a_row_is_computed_as_if_alone(name: str, attention: str | None, case: Case, data: st.DataObject) -> None:
    """With any other rows, and any tokens under padding on any side; the outputs of a row of padding are finite."""
    model = cached_model(name, attention=attention).train(case.training)
    rows = data.draw(st.permutations(range(-1, len(case.texts))))
    order = rows[: data.draw(st.integers(1, len(rows)))]
    options = {"output_hidden_states": True, "output_attentions": attention != "sdpa"}  # weights are made by eager
    with torch.no_grad():
        together = model(**whole_batch(model, case, order), **options)
        assert all(tensor.isfinite().all() for tensor in tensors(together))
        for at, row in enumerate(order):
            if row >= 0:
                alone = parts_of(model(**row_batch(model, case, row), **options), model.config, 0, slice(None))
                found = parts_of(together, model.config, at, case.places[row])
                for one, other in zip(found, alone, strict=True):
                    torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("name", GENERATING_HEADS)
@given(case=cases(), data=st.data())
@examples
def test_tokens_to_come_do_not_change_earlier_logits(name: str, case: Case, data: st.DataObject) -> None:
    model = cached_model(name).train(case.training)
    batch = whole_batch(model, case, [*range(len(case.texts))])
    text = words(len(case.texts), data.draw(st.integers(2, 6)), case.seed + 2)
    first = data.draw(st.integers(1, text.shape[1] - 1))
    changed = text.clone()
    # Every later token becomes another one.
    changed[:, first:] = (text[:, first:] - FIRST_WORD + 1) % (VOCAB_SIZE - FIRST_WORD) + FIRST_WORD

    def run(ids: Tensor) -> tuple[Tensor, Tensor]:
        if not model.config.is_encoder_decoder:
            return (model(ids).logits,) * 2
        outputs = model(**batch | {"decoder_input_ids": ids}, output_attentions=True)
        return outputs.logits, alignments_of(outputs)

    with torch.no_grad():
        before, after = run(text), run(changed)
    for one, other in zip(before, after, strict=True):
        torch.testing.assert_close(one[:, :first], other[:, :first], **CLOSE)
    assert not torch.allclose(before[0][:, first], after[0][:, first], **CLOSE)
