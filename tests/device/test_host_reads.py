"""The number of times that the host reads a value of the device. Each read waits for the device."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from attnzoo.training.loop.graphs import GraphedStep
from torch import Tensor
from transformers import TrainerCallback

import attnzoo
from attnzoo.value_checks import values_are_checked
from tests.device import pretended_device
from tests.factory import (
    CAUSAL,
    HEADS,
    KINDS,
    SEQ2SEQ_HEADS,
    collator_for,
    every_kind,
    make_model,
    make_trainer,
    padded_batch,
    rows_for,
    tiny_model,
)
from tests.training.runs import overrides, train_recipe

# The most reads of a call in training, of a padded batch; then with what ``attnzoo train`` asks for. The whole batch,
# however long its rows are.
CALLS = {
    "attentional-rnn": (1, 1),
    "attentional-rnn-luong": (1, 1),
    "self-attentive": (1, 1),
    "self-attentive-pair": (1, 1),
    "transformer-encoder-decoder": (1, 1),
    "transformer-causal": (1, 1),
    "transformer-masked": (1, 1),
    "transformer-classifier": (1, 1),
    "transformer-causal-classifier": (1, 1),
    "transformer-tagger": (1, 1),
}
TRAIN = 0  # of a step of ``attnzoo train``
TRAINER = {True: 3, False: 1}  # of a Trainer, which reads the loss twice with its ``logging_nan_inf_filter``
# The most reads for a token: of generate(), of which one is Transformers' own, and of search(); greedy and with beams.
TOKENS = {"generate": (2, 2), "search": (1, 2)}
GENERATING = ["bahdanau-cho_gru-additive", "luong-lstm-general-feeding", "bahdanau-gru-additive-copy-coverage"]
GENERATING += ["encoder_decoder-post-sinusoidal", "encoder_decoder-pre-sinusoidal-copy", "causal-pre-learned"]


def padded_texts(model: Any, device: torch.device, repeats: int = 1) -> dict[str, Tensor]:
    """Texts and labels of unequal lengths; ``repeats`` makes them longer."""
    rows = [
        {name: value * repeats if isinstance(value, list) else value for name, value in row.items()}
        for row in rows_for(model)
    ]
    return {name: value.to(device) for name, value in collator_for(model)(rows).items()}


@pytest.mark.parametrize("repeats", [1, 2])
@every_kind
def test_reads_of_a_training_call(kind: str, repeats: int, device: torch.device) -> None:
    model = make_model(kind).to(device).train()
    batch = padded_texts(model, device, repeats)
    with pretended_device.counting() as counts:
        model(**batch).loss.backward()
    assert counts.reads.total() <= CALLS[kind][0], counts.reads
    options = {} if model.get_output_embeddings() is None else {"skip_logits": True}
    batch.pop("decoder_input_ids", None)
    num_labels = (batch["labels"] != -100).sum()
    with pretended_device.counting() as counts:
        model(**batch, num_items_in_batch=num_labels, **options).loss.backward()
    assert counts.reads.total() <= CALLS[kind][1], counts.reads
    with pretended_device.counting() as counts, values_are_checked():
        model(**batch, num_items_in_batch=num_labels, **options).loss.backward()
    assert counts.reads.total() <= CALLS[kind][1] - 1, counts.reads


@pytest.mark.parametrize("name", [name for name in HEADS if name not in KINDS.values()])
def test_no_read_for_a_step_of_a_loop(name: str, device: torch.device) -> None:
    """A longer text needs no more reads than a short one."""
    totals = []
    for repeats in (1, 2):
        model = make_model(name).to(device).train()
        with pretended_device.counting() as counts:
            model(**padded_texts(model, device, repeats)).loss.backward()
        totals.append(counts.reads.total())
    assert totals[0] == totals[1]


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SEQ2SEQ_HEADS)
def test_a_replayed_step_reads_nothing_and_copies_nothing(
    name: str, precision: torch.dtype, device: torch.device
) -> None:
    """And no shape depends on a value. So it can be captured as a CUDA graph."""
    model = make_model(name).to(device).train()
    captures: list[Counter[str]] = []

    def gradients(inputs: dict[str, Tensor], num_labels: Any) -> Tensor:
        is_low = precision != torch.float32
        with values_are_checked(), torch.autocast(device.type, precision, enabled=is_low):
            loss = model(**inputs, num_items_in_batch=num_labels, skip_logits=True).loss
        loss.backward()
        return loss.detach()

    def captured(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        with pretended_device.counting() as counts:
            loss = step()
        captures.append(counts.reads + counts.uploads)
        return lambda: loss

    step = GraphedStep(gradients, list(model.parameters()), model.config.pad_token_id, captured)
    batch = padded_texts(model, device)
    for _ in range(2):
        step(batch, 9)
    assert captures == [Counter()]
    with pretended_device.counting() as counts:
        step(batch, 9)
    assert not counts.reads
    assert not counts.uploads


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("way", TOKENS)
@pytest.mark.parametrize("name", GENERATING)
def test_reads_for_a_token(name: str, way: str, beams: int, device: torch.device) -> None:
    model = tiny_model(name).to(device)
    ids, mask = padded_batch([5, 3, 4], side="left" if name in CAUSAL else "right")
    source = {"input_ids": ids.to(device), "attention_mask": mask.to(device)}
    custom = attnzoo.search if way == "search" else None
    reads: list[Counter[str]] = []
    for length in (3, 7):
        options = {"max_new_tokens": length, "min_new_tokens": length, "num_beams": beams}
        with pretended_device.counting() as counts:
            model.generate(**source, custom_generate=custom, **options)
        reads.append(counts.reads)
    per_token = {line: (count - reads[0][line]) / 4 for line, count in reads[1].items() if count > reads[0][line]}
    assert sum(per_token.values()) <= TOKENS[way][beams > 1], per_token


class ReadsOfSteps(TrainerCallback):
    """The reads of every step of a Trainer, from the beginning of one to that of the next."""

    def __init__(self) -> None:
        self.steps: list[Counter[str]] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.steps.append(pretended_device.COUNTS.reads.copy())


@pytest.mark.parametrize("is_filtered", TRAINER)
def test_reads_of_a_trainers_step(is_filtered: bool, device: torch.device, trains_on: Any, tmp_path: Path) -> None:
    trains_on(device)
    for name in ("attentional-rnn", "transformer-encoder-decoder"):
        callback = ReadsOfSteps()
        settings = {"dataloader_pin_memory": False, "use_cpu": False, "max_steps": 5}
        settings["logging_nan_inf_filter"] = is_filtered
        trainer = make_trainer(make_model(name), tmp_path, {"callbacks": [callback]}, **settings)
        with pretended_device.counting():
            trainer.train()
        step = callback.steps[3] - callback.steps[2]
        assert step.total() <= TRAINER[is_filtered], step


@pytest.mark.parametrize("limit", [{"max_minutes": None, "max_steps": 5}, {"max_minutes": 0.001, "min_steps": 5}])
def test_reads_of_a_step_of_attnzoo_train(
    limit: dict[str, Any],
    device: torch.device,
    trains_on: Any,
    dictionary: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trains_on(device)
    reads: list[Counter[str]] = []
    monkeypatch.setattr(
        torch.optim.AdamW, "zero_grad", lambda self, **_: reads.append(pretended_device.COUNTS.reads.copy())
    )
    sets = [*overrides("training", **limit, evaluations=1, log_every=100, batch_tokens=100)]
    sets += [*overrides("model", encoder_hidden_size=8, decoder_hidden_size=16, embedding_size=8, readout_size=8)]
    with pretended_device.counting():
        train_recipe("demo", tmp_path / "run", [*sets, f"task.data.path={dictionary}"])
    assert (reads[3] - reads[2]).total() <= TRAIN, reads[3] - reads[2]
