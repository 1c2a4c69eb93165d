"""A training step that is replayed, with a stand-in for CUDA's capture; tests/device counts what the step reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from attnzoo.training.loop import graphs, setup
from torch import Tensor

from attnzoo.model_inputs import check_batch
from attnzoo.value_checks import values_are_checked
from tests.factory import SEQ2SEQ_HEADS, collator_for, make_model, refused, rows_for, tiny_model, words
from tests.training.runs import log_rows, overrides, train_recipe


def repeated(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """A stand-in for a CUDA graph: it computes the step again, at the same places in memory."""
    step()  # to warm up
    return step


def replaying(model: Any) -> graphs.GraphedStep:
    """The gradients of a model's loss, replayed."""

    def gradients(inputs: dict[str, Tensor], num_labels: Any) -> Tensor:
        with values_are_checked():
            loss = model(**inputs, num_items_in_batch=num_labels, skip_logits=True).loss
        loss.backward()
        return loss.detach()

    return graphs.GraphedStep(gradients, list(model.parameters()), model.config.pad_token_id, repeated)


def batch_of(model: Any, rows: int, length: int, seed: int) -> dict[str, Tensor]:
    """Sources and targets of unequal lengths."""
    lengths = torch.arange(rows) % length + 1
    is_real = torch.arange(length) < lengths.unsqueeze(1)
    ids, labels = (words(rows, length, seed=seed + part) for part in (0, 100))
    return {"input_ids": ids, "attention_mask": is_real.long(), "labels": labels.masked_fill(~is_real.flip(0), -100)}


@pytest.mark.parametrize("name", SEQ2SEQ_HEADS)
def test_a_replayed_step_has_the_loss_and_the_gradients_of_a_plain_one(name: str) -> None:
    """Of batches of several shapes, one or three in a step of the optimiser. The padding changes nothing."""
    model, plain = tiny_model(name), tiny_model(name)
    step = replaying(model)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.01) for one in (model, plain)]
    for number in range(4):
        for rows, length in ((5, 6), (3, 7 + number % 2), (9, 3))[: 3 if number > 1 else 1]:
            batch = batch_of(model, rows, length, seed=number)
            found = step(batch, 40)
            expected = plain(**batch, num_items_in_batch=40, skip_logits=True).loss
            expected.backward()
            torch.testing.assert_close(found, expected.detach(), rtol=1e-9, atol=1e-12)
        for one, other in zip(model.parameters(), plain.parameters(), strict=True):
            assert (one.grad is None) == (other.grad is None)
            if other.grad is not None:
                torch.testing.assert_close(one.grad, other.grad, rtol=1e-8, atol=1e-11)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    assert len(step.graphs) == 3  # (8, 8, 8), (4, 8, 8), and (12, 4, 4)


def test_sizes_are_few_and_near() -> None:
    padded = [graphs.padded_size(size) for size in range(1, 513)]
    assert all(size <= one <= max(1.25 * size, size + 3) for size, one in enumerate(padded, start=1))
    assert len(set(padded)) < 30


def test_what_cannot_be_padded_is_named() -> None:
    step = replaying(make_model("attentional-rnn-luong"))
    with refused(ValueError, "cuda_graphs", "token_type_ids"):
        step({"input_ids": torch.ones(1, 2), "labels": torch.ones(1, 2), "token_type_ids": torch.ones(1, 2)}, 2)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("labels", lambda labels: labels.fill_(999), "999"),
        ("input_ids", lambda ids: ids.fill_(-1), "-1"),
        ("decoder_input_ids", lambda ids: ids.fill_(999), "999"),
        ("attention_mask", lambda mask: mask.fill_(2), "got 2"),
        ("label", None, "labels"),
    ],
)
def test_a_batch_is_checked_where_it_is_collated(name: str, change: Any, message: str) -> None:
    model = make_model("attentional-rnn-luong")
    batch = dict(collator_for(model)(rows_for(model)))
    check_batch(model, batch)
    if change is None:
        batch[name] = batch.pop("labels")
    else:
        change(batch[name])
    with refused((TypeError, ValueError), name, message):
        check_batch(model, batch)


def test_checked_values_are_not_checked_again() -> None:
    model = make_model("attentional-rnn-luong")
    batch = dict(collator_for(model)(rows_for(model)))
    batch["attention_mask"][0, 0] = 2
    with values_are_checked():
        model(**batch)
    with refused(ValueError, "attention_mask"):
        model(**batch)


def test_attnzoo_train_replays_its_steps(dictionary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = [*overrides("training", max_steps=12, evaluations=1, log_every=1, max_minutes=None, batch_tokens=100)]
    sets += [*overrides("training", accumulation_steps=2, precision="fp32"), *overrides("model", dropout=0.0)]
    sets += [*overrides("model", encoder_hidden_size=8, decoder_hidden_size=16, embedding_size=8, readout_size=8)]
    sets += [f"task.data.path={dictionary}"]
    plain = train_recipe("demo", tmp_path / "plain", sets)
    with refused(SystemExit, "training.cuda_graphs needs a CUDA device, got cpu"):
        train_recipe("demo", tmp_path / "refused", [*sets, "training.cuda_graphs=true"])
    replays = []
    monkeypatch.setattr(setup, "_require_graphs", lambda *_: None)
    monkeypatch.setattr(
        graphs.GraphedStep.__init__, "__defaults__", (lambda step: replays.append(step) or repeated(step),)
    )
    replayed = train_recipe("demo", tmp_path / "replayed", [*sets, "training.cuda_graphs=true"])
    assert replays
    losses = [[row["loss"] for row in log_rows(run, "loss")] for run in (plain, replayed)]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
