"""Common uses of the Trainer and of PEFT, with every family and head; special ones are in the family's folder."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    EarlyStoppingCallback,
    EvalPrediction,
)

from attnzoo.loss import token_cross_entropy
from tests.factory import (
    HEADS,
    KINDS,
    ONE_STEP,
    TEXTS,
    TOKENIZER,
    batch_for,
    collator_for,
    decode,
    every_kind,
    make_model,
    make_trainer,
    rows_for,
    tied,
    tiny_config,
    weights,
)
from tests.training.runs import start

SMOOTHING = 0.3
# Every kind, and the two wirings without attention.
TRAINED = [*KINDS, "cho-cho_gru-forward", "sutskever-lstm-2-layers-reversed"]
SEQ2SEQ = [name for name in TRAINED if make_model(name).config.is_encoder_decoder]
OF_EVERY_FAMILY = ["attentional-rnn", "self-attentive", "transformer-encoder-decoder"]
every_trained = pytest.mark.parametrize("name", TRAINED)
every_seq2seq = pytest.mark.parametrize("name", SEQ2SEQ)
EVERY_STEP = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}


def random_parts(name: str) -> dict[str, Any]:
    """Everything that draws random numbers in training: dropout, and an RNN's own words."""
    has_own_words = hasattr(make_model(name).config, "teacher_forcing_ratio")
    return {"dropout": 0.3} | ({"teacher_forcing_ratio": 0.5} if has_own_words else {})


def without_penalty(name: str) -> dict[str, float]:
    """A Trainer that smooths labels would lose the penalty, for which the classifier raises an error."""
    return {"penalty_coefficient": 0.0} if name.startswith("self-attentive") else {}


# Losses ---------------------------------------------------------------------------------------------------------------


def own_loss(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """The package's label smoothing, as ``compute_loss_func`` needs it."""
    return token_cross_entropy(outputs.logits, labels, num_items_in_batch, SMOOTHING)


WAYS = [(name, way) for name in TRAINED for way in ("plain", "smoothed by the Trainer")]
WAYS += [(name, "a loss of one's own") for name in ("attentional-rnn", "transformer-masked")]


@pytest.mark.parametrize(("name", "way"), WAYS)
def test_accumulated_batches_take_the_step_of_one_large_batch(name: str, way: str, tmp_path: Path) -> None:
    is_smoothed = way == "smoothed by the Trainer"
    settings = ONE_STEP | ({"label_smoothing_factor": SMOOTHING} if is_smoothed else {})
    parts = {"compute_loss_func": own_loss} if way == "a loss of one's own" else {}

    def model_before() -> Any:
        return make_model(name, std=0.3, **(without_penalty(name) if is_smoothed else {})).double()

    start, results = weights(model_before()), []
    # 7 rows: of four batches the last is smaller.
    for size, count in ((7, 1), (1, 7) if is_smoothed else (2, 4)):
        model = model_before()
        batches = {"per_device_train_batch_size": size, "gradient_accumulation_steps": count}
        make_trainer(model, tmp_path, parts, **batches, **settings).train()
        results.append(weights(model))
    large, accumulated = results
    assert all(not torch.equal(large[key], start[key]) or key.endswith("key_proj.bias") for key in start)
    torch.testing.assert_close(accumulated, large, rtol=1e-9, atol=1e-9)


@every_trained
def test_label_smoothing_of_the_trainer_is_our_own(name: str, tmp_path: Path) -> None:
    """The labels of a causal model are shifted, those of the others are not."""
    model = make_model(name, **without_penalty(name))
    trainer = make_trainer(model, tmp_path, label_smoothing_factor=SMOOTHING)
    batch = batch_for(model)
    expected = model(**batch, smoothing=SMOOTHING).loss
    torch.testing.assert_close(trainer.compute_loss(model, dict(batch)), expected)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert abs(expected.item() - model(**batch).loss.item()) > 0.001


@every_trained
def test_evaluation_loss_is_the_mean_over_all_labels(name: str, tmp_path: Path) -> None:
    model = make_model(name, **random_parts(name))  # which are for training only
    loss = make_trainer(model, tmp_path).evaluate()["eval_loss"]
    total, count = 0.0, 0
    for row in rows_for(model):
        batch = collator_for(model)([row])
        labels = batch["labels"][:, 1:] if name == "transformer-causal" else batch["labels"]
        number = int((labels != -100).sum())
        total, count = total + number * (model.eval()(**batch).loss.item() if number else 0), count + number
    assert loss == pytest.approx(total / count, rel=1e-5)


@every_seq2seq
def test_ignored_labels_change_neither_loss_nor_gradient(name: str) -> None:
    """This holds whether the collator or the model makes the decoder's input from them."""
    results = []
    for multiple, is_collators in ((None, True), (16, True), (16, False)):
        model = make_model(name).double()
        collator = DataCollatorForSeq2Seq(TOKENIZER, model=model if is_collators else None, pad_to_multiple_of=multiple)
        batch = collator(rows_for(model))
        assert ("decoder_input_ids" in batch) == is_collators
        loss = model(**batch).loss
        loss.backward()
        results.append([loss.detach(), *(parameter.grad for parameter in model.parameters())])
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-11, atol=1e-13)


# Training -------------------------------------------------------------------------------------------------------------


@every_trained
def test_a_step_in_bfloat16(name: str, tmp_path: Path) -> None:
    model = make_model(name)
    start = weights(model)
    expected = make_trainer(make_model(name), tmp_path).evaluate()["eval_loss"]
    trainer = make_trainer(model, tmp_path, bf16=True, learning_rate=0.1, lr_scheduler_type="constant")
    assert trainer.train().training_loss == pytest.approx(expected, rel=0.02)
    for key, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32
        assert parameter.isfinite().all()
        assert not torch.equal(parameter, start[key]) or key.endswith("key_proj.bias"), key


@every_kind
def test_a_step_with_activation_checkpointing(kind: str, tmp_path: Path) -> None:
    steps = []
    for is_on in (False, True):
        model = make_model(kind, dropout=0.3).double()
        make_trainer(model, tmp_path, activation_checkpointing=is_on, optim="sgd", learning_rate=0.1).train()
        steps.append(weights(model))
    torch.testing.assert_close(*steps, rtol=1e-9, atol=1e-9)
    assert not torch.equal(*(step[next(iter(step))] for step in (steps[0], weights(make_model(kind).double()))))


@pytest.mark.parametrize("name", OF_EVERY_FAMILY)
def test_a_resumed_run_ends_with_the_same_weights(name: str, tmp_path: Path) -> None:
    def train(folder: Path, checkpoint: Path | None = None) -> dict[str, Tensor]:
        model = make_model(name, **random_parts(name))
        settings = {"per_device_train_batch_size": 2, "max_steps": 4, "save_strategy": "steps", "save_steps": 2}
        trainer = make_trainer(model, folder, learning_rate=0.01, **settings)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        assert trainer.state.global_step == 4
        return weights(model)

    whole = train(tmp_path / "whole")
    resumed = train(tmp_path / "resumed", tmp_path / "whole" / "checkpoint-2")
    middle = load_file(tmp_path / "whole" / "checkpoint-2" / "model.safetensors")
    assert all(torch.equal(resumed[key], whole[key]) for key in whole)
    assert not any(torch.equal(middle[key], whole[key]) for key in middle if not key.endswith("key_proj.bias"))


STOPPED = [(kind, {}) for kind in OF_EVERY_FAMILY] + [("attentional-rnn", tied(KINDS["attentional-rnn"]))]


@pytest.mark.parametrize(("kind", "fields"), STOPPED, ids=str)
def test_early_stopping_keeps_the_best_weights(kind: str, fields: dict[str, Any], tmp_path: Path) -> None:
    model = make_model(kind, **fields)
    scores = iter([0.1, 0.5, 0.2, 0.5, 0.9])
    stopping: dict[str, Any] = {
        "compute_metrics": lambda prediction: {"score": next(scores)},
        "callbacks": [EarlyStoppingCallback(early_stopping_patience=2)],
    }
    best_of = {"load_best_model_at_end": True, "metric_for_best_model": "score"}
    if fields:
        best_of |= {"predict_with_generate": True, "generation_max_length": 9}
    trainer = make_trainer(model, tmp_path, stopping, max_steps=5, learning_rate=0.01, **best_of, **EVERY_STEP)
    trainer.train()
    assert trainer.state.global_step == 4  # the second score was the best, two more did not pass it
    for step in (2, 4):
        saved = type(model).from_pretrained(tmp_path / f"checkpoint-{step}").state_dict()
        is_best = all(torch.equal(tensor, saved[name]) for name, tensor in model.state_dict().items())
        assert is_best == (step == 2)
    if fields:
        assert model.lm_head.weight is model.get_input_embeddings().weight


# Predictions ----------------------------------------------------------------------------------------------------------


def right_answers(model: Any) -> Any:
    """Accuracy of logits as ``compute_metrics`` gets them, or of generated tokens."""

    def compute_metrics(prediction: EvalPrediction) -> dict[str, float]:
        assert isinstance(prediction.predictions, np.ndarray)  # and no cache, states or penalties
        if model.config.is_encoder_decoder:
            pairs = zip(decode(prediction.predictions), decode(prediction.label_ids), strict=True)
            return {"right": float(np.mean([a == b for a, b in pairs]))}
        is_right = prediction.predictions.argmax(axis=-1) == prediction.label_ids
        return {"right": float(is_right[prediction.label_ids != -100].mean())}

    return compute_metrics


@every_trained
def test_metrics_are_computed_of_all_rows(name: str, tmp_path: Path) -> None:
    model = make_model(name)
    generation = {"predict_with_generate": True, "generation_max_length": 12} if model.config.is_encoder_decoder else {}
    trainer = make_trainer(
        model, tmp_path, {"compute_metrics": right_answers(model)}, per_device_eval_batch_size=3, **generation
    )
    found = trainer.evaluate()["eval_right"]
    batch = batch_for(model)
    if not model.config.is_encoder_decoder:
        best, labels = model(**batch).logits.argmax(dim=-1), batch["labels"]
        assert found == pytest.approx((best == labels)[labels != -100].float().mean().item())
        return
    for options in ({"max_length": 12}, {"max_length": 9, "num_beams": 2}):
        result = trainer.predict(rows_for(model), **options)
        ids = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], **options)
        assert decode(result.predictions) == decode(ids.numpy())
        assert decode(result.label_ids) == [text[::-1] for text in TEXTS]
    other = [row | {"labels": TOKENIZER("qqqqqq")["input_ids"]} for row in rows_for(model)]
    assert decode(trainer.predict(other, **options).predictions) == decode(result.predictions)  # labels are not read


@pytest.mark.parametrize(
    "settings",
    [{"per_device_eval_batch_size": 3}, {"label_smoothing_factor": SMOOTHING, "use_cache": True}],
    ids=["several batches", "a forward pass without labels, with a cache"],
)
@every_trained
def test_predictions_without_generation_are_logits_and_nothing_else(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    model = make_model(name, **without_penalty(name))
    result = make_trainer(model, tmp_path, **settings).predict(rows_for(model))
    batch = batch_for(model)
    logits = model.eval()(**batch).logits.detach().numpy()
    assert isinstance(result.predictions, np.ndarray)  # not a tuple with a cache or the encoder's states in it
    assert result.predictions.shape == logits.shape
    assert np.array_equal(result.label_ids, batch["labels"])
    real = result.label_ids != -100
    np.testing.assert_allclose(result.predictions[real], logits[real], rtol=1e-4, atol=1e-5)


# From text to text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["luong-lstm-general-feeding", "encoder_decoder-post-sinusoidal"])
def test_texts_are_learned_generated_saved_and_loaded(name: str, tmp_path: Path) -> None:
    """Every text from its end, by ``Seq2SeqTrainer``, as with BART."""
    sizes: dict[str, Any] = {"embedding_size": 24, "encoder_hidden_size": 24, "decoder_hidden_size": 48}
    sizes |= {"readout_size": 32, "initializer_range": 0.3}
    if name.startswith("encoder_decoder"):
        sizes = {"hidden_size": 32, "intermediate_size": 64}
    torch.manual_seed(0)
    model_class, variant = HEADS[name]
    model: Any = model_class(tiny_config(variant, vocab_size=len(TOKENIZER), **sizes))
    settings = {"max_steps": 100, "learning_rate": 1e-2, "lr_scheduler_type": "constant", "predict_with_generate": True}
    trainer = make_trainer(model, tmp_path, **settings, generation_max_length=12, generation_num_beams=2)
    trainer.train()
    assert decode(trainer.predict(rows_for(model)).predictions) == [text[::-1] for text in TEXTS]
    trainer.save_model(str(tmp_path / "saved"))
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "saved")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "saved")
    inputs = tokenizer(TEXTS, padding=True, return_token_type_ids=False, return_tensors="pt")
    result = loaded.generate(**inputs, max_new_tokens=11, return_dict_in_generate=True)
    assert tokenizer.batch_decode(result.sequences, skip_special_tokens=True) == [text[::-1] for text in TEXTS]
    assert result.past_key_values.get_seq_length() > 1  # the Trainer turns the cache off in the config alone


def test_label_smoothing_needs_a_collator_that_knows_the_model(tmp_path: Path) -> None:
    """The Trainer withholds the labels from the model, so without the collator there is no decoder input."""
    trainer = make_trainer(make_model("attentional-rnn"), tmp_path, label_smoothing_factor=0.3)
    trainer.data_collator = DataCollatorForSeq2Seq(TOKENIZER)
    with pytest.raises(ValueError, match="decoder_input_ids"):
        trainer.train()


# Processes ------------------------------------------------------------------------------------------------------------


def step_of_six_rows(kind: str, folder: Path, share: int) -> dict[str, Tensor]:
    """A step of gradient descent, in which this process has a share of the rows."""
    model = make_model(kind)
    trainer = make_trainer(model, folder, per_device_train_batch_size=share, **ONE_STEP)
    trainer.train_dataset = trainer.train_dataset[:6]
    trainer.train()
    return weights(model)


def steps_of_half_the_rows(rank: int, arguments: list[str]) -> None:
    """Run one of two processes, which find each other by a file."""
    (folder,) = arguments
    os.environ |= {"ACCELERATE_USE_CPU": "1", "WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}  # Accelerate asks for them; nobody connects there
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    for kind in TRAINED:
        after = step_of_six_rows(kind, Path(folder) / kind, share=3)
        if torch.distributed.get_rank() == 0:
            save_file(after, Path(folder) / f"{kind}.safetensors")


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    # Not forks of this process: a lock that another of its threads holds would stay locked in them.
    for process in [start([str(folder)], program=partial(steps_of_half_the_rows, rank)) for rank in (0, 1)]:
        code, errors = process.finish()
        assert code == 0, errors[-3000:]
    return folder


@pytest.mark.parametrize("kind", TRAINED)
def test_two_processes_step_as_one(kind: str, two_processes: Path, tmp_path: Path) -> None:
    """Every label has the same weight, in either process."""
    together, alone = load_file(two_processes / f"{kind}.safetensors"), step_of_six_rows(kind, tmp_path, share=6)
    assert together.keys() == alone.keys()
    before = weights(make_model(kind))
    assert any(not torch.equal(alone[name], before[name]) for name in before)
    for name in alone:
        torch.testing.assert_close(together[name], alone[name], rtol=1e-4, atol=1e-5)


# Adapters -------------------------------------------------------------------------------------------------------------


def with_adapters(model: Any, names: Any) -> Any:
    """The model with LoRA on some of its modules, already trained: the second matrix is not zero."""
    adapted = get_peft_model(model, LoraConfig(r=2, target_modules=names))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.3, generator=generator)
    return adapted


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")
@every_kind
def test_an_adapter_on_any_linear_module_is_used_and_learns(kind: str) -> None:
    """No fast path may read a module's weight and so bypass its adapter."""
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
