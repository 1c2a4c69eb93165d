"""Slow checks of every family: eight examples are memorised, and a recurrent model is exported as a graph."""

from typing import Any

import pytest
import torch

from tests.factory import (
    CLASSIFIER_VARIANTS,
    HEADS,
    KINDS,
    RNN_VARIANTS,
    every_kind,
    inputs,
    labels_for,
    tiny_config,
    tiny_model,
    words,
)


@every_kind
def test_eight_examples_are_learned_by_heart(kind: str) -> None:
    torch.manual_seed(0)
    model_class, variant = HEADS[KINDS[kind]]
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64}
    if variant in RNN_VARIANTS:
        sizes = {"embedding_size": 24, "encoder_hidden_size": 32, "decoder_hidden_size": 64, "readout_size": 32}
        sizes |= {"attention_size": 32, "initializer_range": 0.3}
    elif variant in CLASSIFIER_VARIANTS:
        sizes = {"embedding_size": 16, "hidden_size": 12, "classifier_size": 32}
    model = model_class(tiny_config(variant, **sizes)).train()
    batch = {"input_ids": torch.cat([torch.arange(3, 11).unsqueeze(1), words(8, 5)], dim=1)}
    if variant.startswith("pair"):
        batch["token_type_ids"] = (torch.arange(6) >= 3).long().expand(8, 6)
    batch["labels"] = batch["input_ids"] if model_class.__name__.endswith("ForCausalLM") else labels_for(model, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(300):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        task_loss = (
            loss - model.config.penalty_coefficient * model(**batch).penalty.mean()
            if variant in CLASSIFIER_VARIANTS
            else loss
        )
        if task_loss < 0.1:
            return
    raise AssertionError(f"the loss is {loss.item()} after 300 steps")


# Graphs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["single", "luong-lstm-general-predictive-feeding", "bahdanau-gru-general-monotonic"])
def test_an_exported_recurrent_model_is_for_every_batch_and_every_mask(name: str) -> None:
    """All masks have one length, since ``torch.export`` unrolls torch's recurrent layers."""
    model = tiny_model(name, dtype=torch.float32)
    batch = {key: tensor[:4, :3] for key, tensor in inputs(model.config, target_length=2).items()}
    rows = torch.export.Dim("rows", min=1, max=64)
    options = {"use_cache": False} if model.config.is_encoder_decoder else {}
    shapes = {key: {0: rows} for key in batch} | dict.fromkeys(options)
    exported = torch.export.export(model, (), batch | options, dynamic_shapes=shapes, strict=False).module()
    fewer = {key: tensor[:3].flip(0) for key, tensor in batch.items()}
    for other in (fewer, fewer | {"attention_mask": torch.ones_like(fewer["attention_mask"])}):
        torch.testing.assert_close(exported(**other, **options).logits, model(**other, **options).logits)
