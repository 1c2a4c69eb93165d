"""What a user of Trainer, Seq2SeqTrainer and the pipelines does with BERT, GPT-2 and BART, done with these models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import DataCollatorForLanguageModeling, pipeline

from attnzoo import SmallTransformerForCausalLM, SmallTransformerForMaskedLM, SmallTransformerForSequenceClassification
from attnzoo.loss import token_cross_entropy
from tests.families import TEXTS, TOKENIZER, batch_for, letter_tokenizer, make_trainer, rows_for, weights
from tests.transformer.tiny_transformers import HEAD_IDS, HEADS, tiny_config, tiny_model

SMOOTHING = 0.3
heads_with_a_loss = pytest.mark.parametrize(("model_class", "variant"), HEADS[3:], ids=HEAD_IDS[3:])


def make_model(model_class: Any, variant: str, **overrides: Any) -> Any:
    names = {"id2label": {0: "few", 1: "many"}, "label2id": {"few": 0, "many": 1}}
    return tiny_model(
        variant, model_class, dtype=torch.float64, std=0.3, vocab_size=len(TOKENIZER), **(names | overrides)
    )


# Losses ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("smoothing", [0.0, SMOOTHING])
@heads_with_a_loss
def test_accumulated_batches_take_the_step_of_one_large_batch(
    model_class: Any, variant: str, smoothing: float, tmp_path: Path
) -> None:
    start = weights(make_model(model_class, variant))
    results = []
    for size, count in ((7, 1), (2, 4), (1, 7)):  # 7 rows: the last of the second is smaller, too
        model = make_model(model_class, variant)
        make_trainer(
            model,
            tmp_path,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=count,
            optim="sgd",  # Adam would hide a wrong scale
            learning_rate=1.0,
            lr_scheduler_type="constant",
            max_grad_norm=0.0,
            label_smoothing_factor=smoothing,
        ).train()
        results.append(weights(model))
    large, *accumulated = results
    assert any(not torch.equal(large[key], start[key]) for key in start)
    for result in accumulated:
        for key in start:
            torch.testing.assert_close(result[key], large[key], rtol=1e-9, atol=1e-9)


@heads_with_a_loss
def test_label_smoothing_of_the_trainer_is_our_own(model_class: Any, variant: str, tmp_path: Path) -> None:
    """Of the labels where each head has them: a causal model's are shifted, the others' are not."""
    model = make_model(model_class, variant)
    trainer = make_trainer(model, tmp_path, label_smoothing_factor=SMOOTHING)
    batch = batch_for(model)
    if model_class is SmallTransformerForSequenceClassification:
        logits = model(**batch).logits
        expected = nn.functional.cross_entropy(logits, batch["labels"], label_smoothing=SMOOTHING)
    else:
        expected = model(**batch, smoothing=SMOOTHING).loss
    torch.testing.assert_close(trainer.compute_loss(model, dict(batch)), expected)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert abs(expected.item() - model(**batch).loss.item()) > 0.001


def test_evaluation_loss_of_a_causal_model_is_the_mean_over_what_it_predicts(tmp_path: Path) -> None:
    model = make_model(SmallTransformerForCausalLM, "causal-pre-learned")
    losses = []
    for text in TEXTS:
        ids = torch.tensor([TOKENIZER(text)["input_ids"]])
        log_probabilities = model(ids).logits[0].log_softmax(dim=-1)
        losses += [-log_probabilities[at, word].item() for at, word in enumerate(ids[0, 1:])]
    assert make_trainer(model, tmp_path).evaluate()["eval_loss"] == pytest.approx(np.mean(losses), rel=1e-5)


def test_our_own_loss_as_the_trainers(tmp_path: Path) -> None:
    def smoothed(outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        return token_cross_entropy(outputs.logits, labels, num_items_in_batch, SMOOTHING)

    model = make_model(SmallTransformerForMaskedLM, "bidirectional-post-learned")
    batch = batch_for(model)
    expected = model(**batch, smoothing=SMOOTHING).loss
    trainer = make_trainer(model, tmp_path, {"compute_loss_func": smoothed})
    torch.testing.assert_close(trainer.compute_loss(model, dict(batch)), expected)


# Training -------------------------------------------------------------------------------------------------------------


@heads_with_a_loss
def test_the_trainer_teaches_every_head(model_class: Any, variant: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = model_class(tiny_config(variant, hidden_size=32, num_hidden_layers=2, vocab_size=len(TOKENIZER)))
    trainer = make_trainer(model, tmp_path, max_steps=60, learning_rate=5e-3, lr_scheduler_type="constant")
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before / 2
    predictions = trainer.predict(rows_for(model)).predictions
    assert isinstance(predictions, np.ndarray)  # not a tuple with a cache or the encoder's states in it


@pytest.mark.parametrize("mlm", [False, True], ids=["causal", "masked"])
def test_the_librarys_collator_for_language_models(mlm: bool, tmp_path: Path) -> None:
    head, variant = (
        (SmallTransformerForMaskedLM, "bidirectional-post-learned")
        if mlm
        else (SmallTransformerForCausalLM, "causal-pre-learned")
    )
    model = make_model(head, variant).float()
    trainer = make_trainer(model, tmp_path, max_steps=3)
    trainer.train_dataset = [{"input_ids": row["input_ids"]} for row in rows_for(model)]
    trainer.data_collator = DataCollatorForLanguageModeling(TOKENIZER, mlm=mlm, mlm_probability=0.5)
    assert np.isfinite(trainer.train().training_loss)


def test_reversed_words_are_generated_by_the_seq2seq_trainer(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model_class, variant = HEADS[3]
    model = model_class(
        tiny_config(variant, hidden_size=32, num_hidden_layers=2, intermediate_size=64, vocab_size=len(TOKENIZER))
    )
    trainer = make_trainer(
        model,
        tmp_path,
        max_steps=250,
        learning_rate=3e-3,
        lr_scheduler_type="constant",
        predict_with_generate=True,
        generation_max_length=12,
        generation_num_beams=2,
    )
    trainer.train()
    predictions = trainer.predict(rows_for(model)).predictions
    ids = np.where(predictions == -100, 0, predictions)
    assert TOKENIZER.batch_decode(ids, skip_special_tokens=True) == [text[::-1] for text in TEXTS]


def test_activation_checkpointing_under_the_trainer(tmp_path: Path) -> None:
    results = []
    for is_on in (False, True):
        model = make_model(*HEADS[3])
        make_trainer(model, tmp_path, activation_checkpointing=is_on, optim="sgd", learning_rate=0.1).train()
        results.append(weights(model))
    for name, weight in results[0].items():
        torch.testing.assert_close(results[1][name], weight, rtol=1e-9, atol=1e-9)


# Pipelines ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tokenizer = letter_tokenizer()
    tokenizer.model_input_names = ["input_ids", "attention_mask"]  # a pipeline gives the model all that is named
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_fill_mask(folder: Path) -> None:
    model = make_model(SmallTransformerForMaskedLM, "bidirectional-post-learned").float()
    model.save_pretrained(folder)
    answers = pipeline("fill-mask", model=str(folder), device="cpu")("ab<mask>d", top_k=3)
    logits = model(**TOKENIZER("ab<mask>d", return_tensors="pt", return_token_type_ids=False)).logits[0, 2]
    probabilities, best = logits.softmax(dim=-1).topk(3)
    assert [answer["token"] for answer in answers] == best.tolist()
    assert [answer["score"] for answer in answers] == pytest.approx(probabilities.tolist(), rel=1e-4)


def test_text_generation(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = make_model(SmallTransformerForCausalLM, "causal-pre-learned").float()
    model.save_pretrained(folder)
    generator = pipeline("text-generation", model=str(folder), device="cpu")
    texts = [answers[0]["generated_text"] for answers in generator(["abc", "d"], max_new_tokens=6, do_sample=False)]
    for prompt, text in zip(["abc", "d"], texts, strict=True):
        ids = TOKENIZER(prompt, return_tensors="pt", return_token_type_ids=False)
        generated = model.generate(**ids, max_new_tokens=6, do_sample=False)
        assert text == TOKENIZER.decode(generated[0], skip_special_tokens=True)
    assert "not supported" not in caplog.text


@pytest.mark.parametrize("variant", ["bidirectional-post-learned", "causal-pre-learned"])
def test_text_classification(variant: str, folder: Path) -> None:
    model = make_model(SmallTransformerForSequenceClassification, variant).float()
    model.save_pretrained(folder)
    answers = pipeline("text-classification", model=str(folder), device="cpu")(TEXTS, top_k=None, batch_size=3)
    for text, answer in zip(TEXTS, answers, strict=True):
        logits = model(**TOKENIZER(text, return_tensors="pt", return_token_type_ids=False)).logits[0]
        expected = dict(zip(["few", "many"], logits.softmax(dim=-1).tolist(), strict=True))
        assert {part["label"]: part["score"] for part in answer} == pytest.approx(expected, rel=1e-4)
