"""What a user of the Trainer and of PEFT does, done with every family and head.

The recurrent encoder-decoder goes through more of it in ``test_trainer``; losses and accumulation of the others are in
``test_self_attentive_trainer`` and ``test_small_transformer_trainer``.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import debug_launcher
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import EarlyStoppingCallback, EvalPrediction

from tests.families import KINDS, TOKENIZER, batch_for, make_model, make_trainer, rows_for, weights

every_kind = pytest.mark.parametrize("kind", KINDS)
besides_the_rnn = pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("attentional-rnn")])
EVERY_STEP = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}


# Training -------------------------------------------------------------------------------------------------------------


@besides_the_rnn
def test_a_step_in_bfloat16(kind: str, tmp_path: Path) -> None:
    model = make_model(kind)
    start = weights(model)
    expected = make_trainer(make_model(kind), tmp_path).evaluate()["eval_loss"]
    trainer = make_trainer(model, tmp_path, bf16=True, learning_rate=0.1, lr_scheduler_type="constant")
    assert trainer.train().training_loss == pytest.approx(expected, rel=0.03)
    for name, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32
        assert parameter.isfinite().all()
        assert not torch.equal(parameter, start[name]) or name.endswith("key_proj.bias"), name


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("transformer")])
def test_a_step_with_activation_checkpointing(kind: str, tmp_path: Path) -> None:
    steps = []
    for is_on in (False, True):
        model = make_model(kind, dropout=0.3)
        make_trainer(model, tmp_path, activation_checkpointing=is_on, optim="sgd", learning_rate=0.1).train()
        steps.append(weights(model))
    torch.testing.assert_close(*steps, rtol=1e-5, atol=1e-7)
    assert not torch.equal(*(step[next(iter(step))] for step in (steps[0], weights(make_model(kind)))))


@besides_the_rnn
def test_a_resumed_run_ends_with_the_same_weights(kind: str, tmp_path: Path) -> None:
    def train(folder: Path, checkpoint: Path | None = None) -> dict[str, Tensor]:
        model = make_model(kind, dropout=0.3)  # which draws random numbers, as the order of the rows does
        settings = {"per_device_train_batch_size": 2, "max_steps": 4, "save_strategy": "steps", "save_steps": 2}
        trainer = make_trainer(model, folder, learning_rate=0.01, **settings)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        assert trainer.state.global_step == 4
        return weights(model)

    whole = train(tmp_path / "whole")
    resumed = train(tmp_path / "resumed", tmp_path / "whole" / "checkpoint-2")
    middle = load_file(tmp_path / "whole" / "checkpoint-2" / "model.safetensors")
    assert all(torch.equal(resumed[name], whole[name]) for name in whole)
    assert not all(torch.equal(middle[name], whole[name]) for name in middle)


def right_answers(model: Any) -> Any:
    """Accuracy by hand, of logits as ``compute_metrics`` gets them, or of generated tokens."""

    def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
        assert isinstance(prediction.predictions, np.ndarray)  # no cache, no states, no penalties beside them
        if model.config.is_encoder_decoder:
            texts = (
                TOKENIZER.batch_decode(np.where(ids == -100, 0, ids), skip_special_tokens=True)
                for ids in (prediction.predictions, prediction.label_ids)
            )
            return {"right": float(np.mean([a == b for a, b in zip(*texts, strict=True)]))}
        is_right = prediction.predictions.argmax(axis=-1) == prediction.label_ids
        return {"right": float(is_right[prediction.label_ids != -100].mean())}

    return compute_metrics


@besides_the_rnn
def test_metrics_are_computed_of_all_rows(kind: str, tmp_path: Path) -> None:
    model = make_model(kind)
    generation = {"predict_with_generate": True, "generation_max_length": 12} if model.config.is_encoder_decoder else {}
    trainer = make_trainer(
        model, tmp_path, {"compute_metrics": right_answers(model)}, per_device_eval_batch_size=3, **generation
    )
    found = trainer.evaluate()["eval_right"]
    batch = batch_for(model)
    if model.config.is_encoder_decoder:
        ids = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], max_length=12)
        pairs = zip(TOKENIZER.batch_decode(ids, skip_special_tokens=True), rows_for(model), strict=True)
        right = [text == TOKENIZER.decode(row["labels"], skip_special_tokens=True) for text, row in pairs]
        assert found == pytest.approx(np.mean(right))
        return
    best, labels = model(**batch).logits.argmax(dim=-1), batch["labels"]
    assert found == pytest.approx((best == labels)[labels != -100].float().mean().item())


@besides_the_rnn
def test_early_stopping_keeps_the_best_weights(kind: str, tmp_path: Path) -> None:
    model = make_model(kind)
    scores = iter([0.1, 0.5, 0.2, 0.5, 0.9])
    stopping: dict[str, Any] = {
        "compute_metrics": lambda prediction: {"score": next(scores)},
        "callbacks": [EarlyStoppingCallback(early_stopping_patience=2)],
    }
    best_of = {"load_best_model_at_end": True, "metric_for_best_model": "score"}
    trainer = make_trainer(model, tmp_path, stopping, max_steps=5, learning_rate=0.01, **best_of, **EVERY_STEP)
    trainer.train()
    assert trainer.state.global_step == 4  # the second score was the best, two more did not pass it
    for step in (2, 4):
        saved = type(model).from_pretrained(tmp_path / f"checkpoint-{step}").state_dict()
        is_kept = all(torch.equal(tensor, saved[name]) for name, tensor in model.state_dict().items())
        assert is_kept == (step == 2)


ONE_STEP: dict[str, Any] = {"optim": "sgd", "learning_rate": 1.0, "lr_scheduler_type": "constant", "max_grad_norm": 0.0}


def step_of_six_rows(kind: str, folder: Path, share: int) -> dict[str, Tensor]:
    """A step of gradient descent, of which this process has a share of the rows."""
    model = make_model(kind)
    trainer = make_trainer(model, folder, per_device_train_batch_size=share, **ONE_STEP)
    trainer.train_dataset = trainer.train_dataset[:6]
    trainer.train()
    return weights(model)


def steps_of_half_the_rows(folder: str) -> None:
    for kind in KINDS:
        after = step_of_six_rows(kind, Path(folder) / kind, share=3)
        if torch.distributed.get_rank() == 0:
            save_file(after, Path(folder) / f"{kind}.safetensors")


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    debug_launcher(steps_of_half_the_rows, args=(str(folder),), num_processes=2)
    return folder


@every_kind
def test_two_processes_step_as_one(kind: str, two_processes: Path, tmp_path: Path) -> None:
    """Every label counts alike, whichever process has it."""
    together, alone = load_file(two_processes / f"{kind}.safetensors"), step_of_six_rows(kind, tmp_path, share=6)
    assert together.keys() == alone.keys()
    before = weights(make_model(kind))
    assert any(not torch.equal(alone[name], before[name]) for name in before)
    for name in alone:
        torch.testing.assert_close(together[name], alone[name], rtol=1e-4, atol=1e-5)


# Adapters -------------------------------------------------------------------------------------------------------------


def with_adapters(model: Any, names: Any) -> Any:
    """LoRA on some of its modules, that has been trained already: its second matrix is not zero."""
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules=names))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3, generator=generator)
    return adapted


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")
@every_kind
def test_an_adapter_on_any_linear_module_is_heeded_and_learns(kind: str) -> None:
    """None is passed by: what reads a module's weight alone, as the fused loops do, steps aside."""
    batch = batch_for(make_model(kind))
    before = make_model(kind)(**batch).logits
    linear = [name for name, module in make_model(kind).named_modules() if isinstance(module, nn.Linear)]
    assert len(linear) >= 3
    for name in linear:
        adapted = with_adapters(make_model(kind), [name]).train()
        outputs = adapted(**batch)
        assert not torch.equal(outputs.logits, before), name
        outputs.loss.backward()
        for parameter_name, parameter in adapted.named_parameters():
            assert ("lora_" in parameter_name) == (parameter.grad is not None)
            assert parameter.grad is None or parameter.grad.any(), parameter_name
