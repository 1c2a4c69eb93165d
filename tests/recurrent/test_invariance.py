"""What must not change a model's numbers: padding, the other rows of the batch, their order, the tokens to come."""

from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnzoo import AttentionalRNNForConditionalGeneration
from tests.recurrent.tiny import FIRST_WORD, SIZES, VARIANTS, alignments_of, random_words, tiny_model

# A busy machine must not fail a test: no clock is looked at.
examples = settings(
    deadline=None, max_examples=25, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
# Sums run in another order when the shapes are others: no more than that may differ, in float64.
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


class Case(NamedTuple):
    """A batch: the words of every source, the places they take among the padding, and the target."""

    words: list[Tensor]  # one (length,) per row
    places: list[list[int]]
    width: int
    labels: Tensor  # (rows, T), -100 after the end of each row
    training: bool  # without dropout, train() must not change a thing
    seed: int

    def source(self, padding_seed: int = 0) -> tuple[Tensor, Tensor]:
        """input_ids and attention_mask (rows, width). Any tokens lie under the padding, not only the pad token."""
        generator = torch.Generator().manual_seed(self.seed + padding_seed)
        ids = torch.randint(SIZES["vocab_size"], (len(self.words), self.width), generator=generator)
        mask = torch.zeros_like(ids)
        for row, (words, places) in enumerate(zip(self.words, self.places, strict=True)):
            ids[row, places] = words
            mask[row, places] = 1
        return ids, mask


@st.composite
def cases(draw: st.DrawFn) -> Case:
    lengths = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4))
    width = max(lengths) + draw(st.integers(0, 3))
    places = []
    for length in lengths:
        side = draw(st.sampled_from(["left", "right", "holes"]))
        if side == "holes":
            places.append(sorted(draw(st.permutations(range(width)))[:length]))
        else:
            start = width - length if side == "left" else 0
            places.append(list(range(start, start + length)))
    seed = draw(st.integers(0, 2**16))
    target_length = draw(st.integers(1, 6))
    label_lengths = torch.tensor([draw(st.integers(1, target_length)) for _ in lengths])
    labels = random_words(len(lengths), target_length, seed + 1)
    return Case(
        words=[row[:length] for row, length in zip(random_words(len(lengths), 8, seed), lengths, strict=True)],
        places=places,
        width=width,
        labels=labels.masked_fill(torch.arange(target_length) >= label_lengths[:, None], -100),
        training=draw(st.booleans()),
        seed=seed,
    )


@cache
def shared_model(variant: str) -> AttentionalRNNForConditionalGeneration:
    return tiny_model(variant)


def run(variant: str, case: Case, ids: Tensor, mask: Tensor | None, **inputs: Any):
    model = shared_model(variant).train(case.training)
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask, output_attentions=True, **inputs)


@pytest.mark.parametrize("variant", VARIANTS)
@given(case=cases())
@examples
def test_padding_does_not_change_logits_loss_or_alignments(variant: str, case: Case) -> None:
    ids, mask = case.source()
    padded = run(variant, case, ids, mask, labels=case.labels)
    loss = torch.zeros((), dtype=torch.float64)
    for row, (words, places) in enumerate(zip(case.words, case.places, strict=True)):
        labels = case.labels[row : row + 1]
        alone = run(variant, case, words.unsqueeze(0), None, labels=labels)
        torch.testing.assert_close(padded.logits[row], alone.logits[0], **CLOSE)
        alignment = alignments_of(padded)[row]  # (T, width)
        torch.testing.assert_close(alignment[:, places], alignments_of(alone)[0], **CLOSE)
        assert (alignment[:, mask[row] == 0] == 0).all()
        loss += alone.loss * (labels != -100).sum()
    torch.testing.assert_close(padded.loss, loss / (case.labels != -100).sum(), **CLOSE)


@pytest.mark.parametrize("variant", VARIANTS)
@given(case=cases(), data=st.data())
@examples
def test_order_and_size_of_the_batch_do_not_matter(variant: str, case: Case, data: st.DataObject) -> None:
    ids, mask = case.source()
    whole = run(variant, case, ids, mask, labels=case.labels)
    rows = data.draw(st.permutations(range(len(ids))))
    rows = rows[: data.draw(st.integers(1, len(rows)))]
    part = run(variant, case, ids[rows], mask[rows], labels=case.labels[rows])
    torch.testing.assert_close(part.logits, whole.logits[rows], **CLOSE)
    torch.testing.assert_close(alignments_of(part), alignments_of(whole)[rows], **CLOSE)


@pytest.mark.parametrize("variant", VARIANTS)
@given(case=cases(), data=st.data())
@examples
def test_tokens_to_come_do_not_change_earlier_logits(variant: str, case: Case, data: st.DataObject) -> None:
    ids, mask = case.source()
    target = random_words(len(ids), data.draw(st.integers(2, 6)), case.seed + 2)
    first_changed = data.draw(st.integers(1, target.shape[1] - 1))
    num_words = SIZES["vocab_size"] - FIRST_WORD
    changed = target.clone()
    # Every later token becomes another one.
    changed[:, first_changed:] = (target[:, first_changed:] - FIRST_WORD + 1) % num_words + FIRST_WORD
    before = run(variant, case, ids, mask, decoder_input_ids=target)
    after = run(variant, case, ids, mask, decoder_input_ids=changed)
    torch.testing.assert_close(after.logits[:, :first_changed], before.logits[:, :first_changed], **CLOSE)
    unchanged = alignments_of(before)[:, :first_changed]
    torch.testing.assert_close(alignments_of(after)[:, :first_changed], unchanged, **CLOSE)
    assert not torch.allclose(after.logits[:, first_changed], before.logits[:, first_changed], **CLOSE)


@pytest.mark.parametrize("variant", VARIANTS)
@given(case=cases(), data=st.data())
@examples
def test_a_row_of_padding_is_harmless(variant: str, case: Case, data: st.DataObject) -> None:
    ids, mask = case.source()
    target = random_words(len(ids), 4, case.seed + 2)
    expected = run(variant, case, ids, mask, decoder_input_ids=target)
    row = data.draw(st.integers(0, len(ids)))
    others = torch.arange(len(ids) + 1) != row

    def with_padding_row(padding: Tensor):
        def insert(rows: Tensor, new: Tensor) -> Tensor:
            return torch.cat([rows[:row], new.unsqueeze(0), rows[row:]])

        return run(
            variant,
            case,
            insert(ids, padding),
            insert(mask, torch.zeros_like(mask[0])),
            decoder_input_ids=insert(target, random_words(1, 4, case.seed + 3)[0]),
        )

    result = with_padding_row(torch.zeros_like(ids[0]))
    assert result.logits.isfinite().all()
    assert (alignments_of(result)[row] == 0).all()
    assert (result.encoder_last_hidden_state[row] == 0).all()
    torch.testing.assert_close(result.logits[others], expected.logits, **CLOSE)
    torch.testing.assert_close(alignments_of(result)[others], alignments_of(expected), **CLOSE)
    other_padding = with_padding_row(random_words(1, case.width, case.seed + 4)[0])
    torch.testing.assert_close(other_padding.logits, result.logits, **CLOSE)


@pytest.mark.parametrize("variant", VARIANTS)
@given(case=cases())
@examples
def test_tokens_under_the_padding_do_not_matter(variant: str, case: Case) -> None:
    ids, mask = case.source()
    other_ids, _ = case.source(padding_seed=1)
    result = run(variant, case, ids, mask, labels=case.labels)
    other = run(variant, case, other_ids, mask, labels=case.labels)
    torch.testing.assert_close(other.logits, result.logits, **CLOSE)
    torch.testing.assert_close(other.loss, result.loss, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.float32], ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_mask_may_be_of_any_type(variant: str, dtype: torch.dtype) -> None:
    ids, target = random_words(3, 6), random_words(3, 4, seed=1)
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 1, 0, 1, 1]])
    model = shared_model(variant).eval()
    expected = model(input_ids=ids, attention_mask=mask, decoder_input_ids=target).logits
    logits = model(input_ids=ids, attention_mask=mask.to(dtype), decoder_input_ids=target).logits
    torch.testing.assert_close(logits, expected, rtol=0, atol=0)


@pytest.mark.parametrize("dropout", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("variant", VARIANTS)
def test_training_gives_every_parameter_a_finite_gradient(variant: str, dropout: float) -> None:
    # Two layers, so that there is dropout between layers in every variant.
    model = tiny_model(variant, dropout=dropout, encoder_layers=2, decoder_layers=2).train()
    ids = random_words(16, 6)
    mask = torch.ones_like(ids)
    mask[0] = 0  # a source of padding only
    mask[1, :3] = 0
    mask[2, 4:] = 0
    mask[3, 2] = 0
    labels = random_words(16, 5, seed=1)
    labels[4, 2:] = -100
    labels[5] = -100
    torch.manual_seed(0)
    loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    assert loss.isfinite()
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad != 0).any(), name


@pytest.mark.parametrize("variant", VARIANTS)
def test_dropout_is_for_training_only(variant: str) -> None:
    model = tiny_model(variant, dropout=0.3)
    inputs = {"input_ids": random_words(4, 6), "decoder_input_ids": random_words(4, 5, seed=1)}
    without_dropout = tiny_model(variant)(**inputs).logits
    torch.testing.assert_close(model(**inputs).logits, without_dropout, rtol=0, atol=0)
    torch.manual_seed(0)
    model.train()
    assert not torch.allclose(model(**inputs).logits, without_dropout)
    assert not torch.allclose(model(**inputs).logits, model(**inputs).logits)


@pytest.mark.parametrize("variant", VARIANTS)
def test_dropout_stands_where_the_wiring_has_it_and_nowhere_else(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dropout that doubles instead acts like weights that are doubled where the dropped values are read.

    These are the embeddings, what goes from layer to layer, and in addition: the attentional vector fed to the next
    step in Luong's wiring, as in his released code; the readout in the others.
    """
    depth = {"encoder_layers": 2, "decoder_layers": 2}  # so that every variant has something between layers
    inputs = {"input_ids": random_words(4, 6), "decoder_input_ids": random_words(4, 5, seed=1)}
    expected = tiny_model(variant, **depth)
    config, weights = expected.config, dict(expected.named_parameters())
    read = [weights["model.encoder.embed_tokens.weight"], weights["model.decoder.embed_tokens.weight"]]
    for name, weight in weights.items():
        if "weight_i" in name:  # torch's weight_ih_l0 and ChoGRU's weight_input
            if ".layers.1." in name:
                read.append(weight)
            elif config.input_feeding and "decoder" in name:
                read.append(weight[:, config.embedding_size :])
    if config.wiring != "luong":
        read.append(weights["lm_head.weight"])
    with torch.no_grad():
        for weight in read:
            weight *= 2

    def double(values: Tensor, rate: float, training: bool, inplace: bool) -> Tensor:
        return 2 * values if training else values

    monkeypatch.setattr(torch.nn.functional, "dropout", double)
    model = tiny_model(variant, dropout=0.5, **depth).train()
    torch.testing.assert_close(model(**inputs).logits, expected(**inputs).logits, **CLOSE)


@pytest.mark.parametrize("variant", VARIANTS)
def test_dropout_drops_at_its_rate(variant: str) -> None:
    model = tiny_model(variant, dropout=0.3).train()
    torch.manual_seed(0)
    with torch.no_grad():
        outputs = model.model(
            input_ids=random_words(16, 8), decoder_input_ids=random_words(16, 8, seed=1), output_hidden_states=True
        )
    rates = {
        "source embeddings": (outputs.encoder_hidden_states[0], 0.3),
        "target embeddings": (outputs.decoder_hidden_states[0], 0.3),
        "readout": (outputs.last_hidden_state, 0.0 if model.config.wiring == "luong" else 0.3),
    }
    for name, (values, rate) in rates.items():
        share = (values == 0).double().mean().item()
        assert share == pytest.approx(rate, abs=5 * (rate * (1 - rate) / values.numel()) ** 0.5), name
