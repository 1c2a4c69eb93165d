"""What a user of ``Seq2SeqTrainer`` does with BART, done with this model."""

import random
import string
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from torch import Tensor, nn
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    EarlyStoppingCallback,
    EvalPrediction,
    PreTrainedTokenizerFast,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration
from attnzoo.loss import token_cross_entropy
from attnzoo.recurrent_cache import RecurrentDecoderCache
from tests.families import weights

PAD, BOS, EOS = 0, 1, 2
IGNORED = -100
SMOOTHING = 0.3
SMALL: dict[str, Any] = {
    "vocab_size": 3 + len(string.ascii_lowercase),
    "embedding_size": 8,
    "encoder_hidden_size": 4,
    "decoder_hidden_size": 8,
    "readout_size": 8,
    "attention_size": 5,
}
WIRINGS: dict[str, dict[str, Any]] = {
    "cho": {"wiring": "cho"},
    "sutskever": {"wiring": "sutskever", "cell": "lstm", "bidirectional": False, "reverse_source": True},
    "bahdanau": {"wiring": "bahdanau"},
    "luong-local-p-feeding": {
        "wiring": "luong",
        "cell": "lstm",
        "window": "predictive",
        "window_size": 2,
        "input_feeding": True,
    },
}
# Of very unequal lengths, so that a mean of means is not the mean.
PAIRS = [("abc", "x"), ("d", "yzyzyz"), ("ef", "xy"), ("ghijk", "zzz"), ("l", "y"), ("mn", "xyzxyzx"), ("o", "z")]


def letter_tokenizer() -> PreTrainedTokenizerFast:
    """One token per letter, and the end token after them, on either side."""
    tokens = ["<pad>", "<s>", "</s>", *string.ascii_lowercase]
    tokenizer = Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", EOS)])
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", model_max_length=64
    )


def small_model(name: str, **overrides: Any) -> AttentionalRNNForConditionalGeneration:
    """A model with every weight from N(0, 0.5^2): a start at zero, as some papers have it, hides what depends on it."""
    torch.manual_seed(0)
    model = AttentionalRNNForConditionalGeneration(AttentionalRNNConfig(**(SMALL | WIRINGS[name] | overrides)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model


def encoded(pairs: list[tuple[str, str]]) -> list[dict[str, list[int]]]:
    sources, targets = zip(*pairs, strict=True)
    columns = letter_tokenizer()(list(sources), text_target=list(targets))
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def collate(model: nn.Module | None, pairs: list[tuple[str, str]] = PAIRS, **options: Any) -> dict[str, Tensor]:
    return dict(DataCollatorForSeq2Seq(letter_tokenizer(), model=model, **options)(encoded(pairs)))


def make_trainer(
    model: nn.Module,
    folder: Path,
    pairs: list[tuple[str, str]] = PAIRS,
    parts: dict[str, Any] | None = None,
    **settings,
) -> Seq2SeqTrainer:
    """A trainer of ``model`` on ``pairs``, one batch a step; ``parts`` are the Trainer's own arguments."""
    quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "logging_strategy": "no"}
    batches = {"per_device_train_batch_size": len(pairs), "per_device_eval_batch_size": len(pairs), "max_steps": 1}
    arguments = Seq2SeqTrainingArguments(output_dir=str(folder), use_cpu=True, **(quiet | batches | settings))
    tokenizer = letter_tokenizer()
    return Seq2SeqTrainer(
        model=model,
        args=arguments,
        train_dataset=encoded(pairs),
        eval_dataset=encoded(pairs),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
        **(parts or {}),
    )


def decode(ids: np.ndarray) -> list[str]:
    """Text of generated ids or of labels."""
    return letter_tokenizer().batch_decode(np.where(ids == IGNORED, PAD, ids), skip_special_tokens=True)


def exact_match(prediction: EvalPrediction) -> dict[str, float]:
    pairs = zip(decode(prediction.predictions), decode(prediction.label_ids), strict=True)
    return {"exact": float(np.mean([predicted == expected for predicted, expected in pairs]))}


def own_loss(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """The package's label smoothing, as ``compute_loss_func`` wants it."""
    return token_cross_entropy(outputs.logits, labels, num_items_in_batch, SMOOTHING)


# A task from text to text ---------------------------------------------------------------------------------------------


def random_words(count: int) -> list[str]:
    """Different words of 3 to 8 letters."""
    generator = random.Random(0)
    words: dict[str, None] = {}  # as an ordered set
    while len(words) < count:
        words["".join(generator.choices(string.ascii_lowercase, k=generator.randint(3, 8)))] = None
    return list(words)


class Reversal(NamedTuple):
    """What Seq2SeqTrainer taught to reverse words, the processor time it took, unseen words, and where it is saved."""

    trainer: Seq2SeqTrainer
    seconds: float
    unseen: Dataset
    saved: Path


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def reversal(one_thread: None, tmp_path_factory: pytest.TempPathFactory) -> Reversal:
    tokenizer = letter_tokenizer()
    words = random_words(8500)
    table = Dataset.from_dict({"word": words, "reversed": [word[::-1] for word in words]})
    # The text columns stay in the table: the Trainer takes out what forward() has no argument for.
    table = table.map(lambda rows: tokenizer(rows["word"], text_target=rows["reversed"]), batched=True)
    torch.manual_seed(0)
    config = AttentionalRNNConfig(
        wiring="luong",  # without input feeding: a whole target is one call of the LSTM
        cell="lstm",
        vocab_size=len(tokenizer),
        embedding_size=32,
        encoder_hidden_size=48,
        decoder_hidden_size=96,
        initializer_range=0.15,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = AttentionalRNNForConditionalGeneration(config)
    folder = tmp_path_factory.mktemp("reversal")
    train, unseen = table.select(range(500, len(table))), table.select(range(500))
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=str(folder),
            use_cpu=True,
            num_train_epochs=5,
            per_device_train_batch_size=128,
            per_device_eval_batch_size=500,
            learning_rate=1e-2,
            eval_strategy="epoch",
            predict_with_generate=True,
            generation_max_length=12,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=train,
        eval_dataset=unseen,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=model),
        processing_class=tokenizer,
        compute_metrics=exact_match,
    )
    start = time.process_time()
    trainer.train()
    seconds = time.process_time() - start
    trainer.save_model(folder / "saved")
    return Reversal(trainer, seconds, unseen, folder / "saved")


def test_words_it_has_not_seen_are_reversed_after_less_than_a_minute(reversal: Reversal) -> None:
    evaluations = [row["eval_exact"] for row in reversal.trainer.state.log_history if "eval_exact" in row]
    assert len(evaluations) == 5
    assert evaluations[-1] >= 0.99
    assert reversal.seconds < 60


def test_a_saved_model_does_the_same_through_the_auto_classes(reversal: Reversal) -> None:
    model = AutoModelForSeq2SeqLM.from_pretrained(reversal.saved)
    tokenizer = AutoTokenizer.from_pretrained(reversal.saved)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    words = list(reversal.unseen["word"])
    inputs = tokenizer(words, padding=True, return_tensors="pt")
    answers = tokenizer.batch_decode(model.generate(**inputs, max_new_tokens=11), skip_special_tokens=True)
    assert answers == decode(reversal.trainer.predict(reversal.unseen).predictions)
    assert np.mean([answer == word[::-1] for answer, word in zip(answers, words, strict=True)]) >= 0.99


def test_a_saved_model_still_generates_with_its_cache(reversal: Reversal) -> None:
    """The Trainer sets ``config.use_cache`` to False and saves that; generate() goes by the generation config."""
    model = AutoModelForSeq2SeqLM.from_pretrained(reversal.saved)
    inputs = letter_tokenizer()(reversal.unseen["word"][:3], padding=True, return_tensors="pt")
    result = model.generate(**inputs, max_new_tokens=11, return_dict_in_generate=True)
    assert isinstance(result.past_key_values, RecurrentDecoderCache)


def test_predictions_by_beam_search(reversal: Reversal) -> None:
    result = reversal.trainer.predict(reversal.unseen, num_beams=3, max_length=12)
    assert len(result.predictions) == len(result.label_ids) == 500
    assert result.metrics["test_exact"] >= 0.99


# Batches --------------------------------------------------------------------------------------------------------------


def test_the_collator_gives_the_decoder_the_labels_one_later() -> None:
    model = small_model("bahdanau")
    batch = collate(model)
    labels, inputs = batch["labels"], batch["decoder_input_ids"]
    assert (labels == IGNORED).any()
    assert (inputs[:, 0] == BOS).all()
    real = labels[:, :-1] != IGNORED
    assert torch.equal(inputs[:, 1:][real], labels[:, :-1][real])
    assert (inputs[:, 1:][~real] == PAD).all()
    # The same as the model makes of labels alone.
    alone = {name: tensor for name, tensor in batch.items() if name != "decoder_input_ids"}
    assert torch.equal(model(**batch).logits, model(**alone).logits)


@pytest.mark.parametrize("name", WIRINGS)
def test_ignored_labels_change_neither_loss_nor_gradient(name: str) -> None:
    results = []
    for multiple in (None, 16):
        model = small_model(name).double()
        loss = model(**collate(model, pad_to_multiple_of=multiple)).loss
        loss.backward()
        results.append([loss.detach(), *(parameter.grad for parameter in model.parameters())])
    for exact, padded in zip(*results, strict=True):
        torch.testing.assert_close(padded, exact, rtol=1e-12, atol=1e-13)


# Training -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({}, {}),
        ({"label_smoothing_factor": SMOOTHING}, {}),
        ({}, {"compute_loss_func": own_loss}),
    ],
    ids=["plain", "smoothed by the Trainer", "smoothed by our own loss"],
)
@pytest.mark.parametrize("name", WIRINGS)
def test_accumulated_batches_take_the_step_of_one_large_batch(
    name: str, settings: dict[str, Any], parts: dict[str, Any], tmp_path: Path
) -> None:
    start = weights(small_model(name).double())
    results = []
    for size, count in ((7, 1), (2, 4), (1, 7)):  # 7 rows: the last of the second is smaller, too
        model = small_model(name).double()
        make_trainer(
            model,
            tmp_path,
            parts=parts,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=count,
            optim="sgd",  # Adam would hide a wrong scale
            learning_rate=1.0,
            lr_scheduler_type="constant",
            max_grad_norm=0.0,
            **settings,
        ).train()
        results.append(weights(model))
    large, *accumulated = results
    assert not any(torch.equal(large[key], start[key]) for key in start)
    for result in accumulated:
        for key in start:
            torch.testing.assert_close(result[key], large[key], rtol=1e-12, atol=1e-12)


def test_label_smoothing_of_the_trainer_is_our_own(tmp_path: Path) -> None:
    """The same definition, of the labels where they stand: they are not shifted once more."""
    model = small_model("luong-local-p-feeding")
    trainer = make_trainer(model, tmp_path, label_smoothing_factor=SMOOTHING)
    batch = collate(model)
    expected = own_loss(model(**batch), batch["labels"])
    torch.testing.assert_close(trainer.compute_loss(model, dict(batch)), expected)
    assert trainer.evaluate()["eval_loss"] == pytest.approx(expected.item(), rel=1e-5)
    assert abs(expected.item() - model(**batch).loss.item()) > 0.01


def test_label_smoothing_needs_a_collator_that_knows_the_model(tmp_path: Path) -> None:
    """The Trainer then keeps the labels to itself, and nothing is left to make the decoder's input from."""
    trainer = make_trainer(small_model("bahdanau"), tmp_path, label_smoothing_factor=SMOOTHING)
    trainer.data_collator = DataCollatorForSeq2Seq(letter_tokenizer())
    with pytest.raises(ValueError, match="decoder_input_ids"):
        trainer.train()


@pytest.mark.parametrize("name", WIRINGS)
def test_a_step_in_bfloat16(name: str, tmp_path: Path) -> None:
    model = small_model(name)
    start = weights(model)
    expected = make_trainer(small_model(name), tmp_path).evaluate()["eval_loss"]
    trainer = make_trainer(model, tmp_path, bf16=True, learning_rate=0.1, lr_scheduler_type="constant")
    assert trainer.train().training_loss == pytest.approx(expected, rel=0.02)
    for key, parameter in model.named_parameters():
        assert parameter.dtype == torch.float32
        assert parameter.isfinite().all()
        assert not torch.equal(parameter, start[key]), key


@pytest.mark.parametrize("name", WIRINGS)
def test_a_resumed_run_ends_with_the_same_weights(name: str, tmp_path: Path) -> None:
    def train(folder: Path, checkpoint: Path | None = None) -> dict[str, Tensor]:
        # With all that draws random numbers: dropout, the model's own words, the order of the rows.
        model = small_model(name, dropout=0.3, teacher_forcing_ratio=0.5)
        settings = {"per_device_train_batch_size": 2, "max_steps": 6, "save_strategy": "steps", "save_steps": 3}
        trainer = make_trainer(model, folder, learning_rate=0.01, **settings)
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        assert trainer.state.global_step == 6
        return weights(model)

    whole = train(tmp_path / "whole")
    resumed = train(tmp_path / "resumed", tmp_path / "whole" / "checkpoint-3")
    middle = load_file(tmp_path / "whole" / "checkpoint-3" / "model.safetensors")
    assert all(torch.equal(resumed[key], whole[key]) for key in whole)
    assert not any(torch.equal(middle[key], whole[key]) for key in whole)


@pytest.mark.parametrize("tied", [False, True], ids=["untied", "tied"])
def test_early_stopping_keeps_the_best_weights(tied: bool, tmp_path: Path) -> None:
    model = small_model("bahdanau", tie_word_embeddings=tied)
    scores = iter([0.1, 0.5, 0.2, 0.5, 0.9])
    stopping: dict[str, Any] = {
        "compute_metrics": lambda prediction: {"score": next(scores)},
        "callbacks": [EarlyStoppingCallback(early_stopping_patience=2)],
    }
    every_step = {"eval_strategy": "steps", "eval_steps": 1, "save_strategy": "steps", "save_steps": 1}
    trainer = make_trainer(
        model,
        tmp_path,
        parts=stopping,
        max_steps=5,
        learning_rate=0.01,
        predict_with_generate=True,
        generation_max_length=9,
        load_best_model_at_end=True,
        metric_for_best_model="score",
        **every_step,
    )
    trainer.train()
    assert trainer.state.global_step == 4  # the second score was the best, two more did not pass it
    best = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "checkpoint-2")
    last = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "checkpoint-4")
    batch = collate(model)
    assert torch.equal(model.eval()(**batch).logits, best(**batch).logits)
    assert not torch.equal(model(**batch).logits, last(**batch).logits)
    assert (model.lm_head.weight is model.get_input_embeddings().weight) == tied


# Evaluation -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WIRINGS)
def test_evaluation_loss_is_the_mean_over_all_labels(name: str, tmp_path: Path) -> None:
    model = small_model(name, dropout=0.3, teacher_forcing_ratio=0.5)  # both are for training only
    loss = make_trainer(model, tmp_path).evaluate()["eval_loss"]
    model.eval()
    losses = []
    for source, target in PAIRS:  # one by one, label by label
        batch = collate(model, [(source, target)])
        log_probabilities = model(**batch).logits[0].log_softmax(dim=-1)
        losses += [-log_probabilities[step, label].item() for step, label in enumerate(batch["labels"][0])]
    assert len(losses) == sum(len(target) + 1 for _, target in PAIRS)
    assert loss == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize(
    "settings",
    [{}, {"per_device_eval_batch_size": 3}, {"label_smoothing_factor": SMOOTHING, "use_cache": True}],
    ids=["one batch", "several batches", "a forward pass without labels, with a cache"],
)
@pytest.mark.parametrize("name", WIRINGS)
def test_predictions_without_generation_are_logits_and_nothing_else(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    model = small_model(name)
    result = make_trainer(model, tmp_path, **settings).predict(encoded(PAIRS))
    longest = max(len(target) + 1 for _, target in PAIRS)
    assert isinstance(result.predictions, np.ndarray)  # not a tuple with a cache or the encoder's states in it
    assert result.predictions.shape == (len(PAIRS), longest, SMALL["vocab_size"])
    assert result.label_ids.shape == (len(PAIRS), longest)
    batch = collate(model)
    assert np.array_equal(result.label_ids, batch["labels"])
    real = result.label_ids != IGNORED
    expected = model.eval()(**batch).logits.detach().numpy()
    np.testing.assert_allclose(result.predictions[real], expected[real], rtol=1e-4, atol=1e-5)


def test_predictions_can_be_reduced_to_tokens(tmp_path: Path) -> None:
    def best(logits: Tensor, labels: Tensor) -> Tensor:
        return logits.argmax(dim=-1)

    model = small_model("bahdanau")
    trainer = make_trainer(model, tmp_path, parts={"preprocess_logits_for_metrics": best})
    predictions = trainer.predict(encoded(PAIRS)).predictions
    assert np.array_equal(predictions, model(**collate(model)).logits.argmax(dim=-1))


@pytest.mark.parametrize("name", WIRINGS)
def test_predictions_by_generation_are_what_generate_gives(name: str, tmp_path: Path) -> None:
    model = small_model(name)
    options = {"num_beams": 2, "max_length": 9}
    result = make_trainer(model, tmp_path, predict_with_generate=True).predict(encoded(PAIRS), **options)
    batch = collate(model)
    generated = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], **options)
    assert len(result.predictions) == len(PAIRS)
    assert decode(result.predictions) == decode(generated.numpy())
    assert decode(result.label_ids) == [target for _, target in PAIRS]


def test_generation_does_not_read_the_labels(tmp_path: Path) -> None:
    def predict(pairs: list[tuple[str, str]]) -> list[str]:
        trainer = make_trainer(small_model("luong-local-p-feeding"), tmp_path, predict_with_generate=True)
        return decode(trainer.predict(encoded(pairs), max_length=9).predictions)

    assert predict(PAIRS) == predict([(source, "qqqqqq") for source, _ in PAIRS])
