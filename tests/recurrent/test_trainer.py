"""What a user of ``Seq2SeqTrainer`` does with BART, done with this model: a whole task from text to text."""

import random
import string
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq, EvalPrediction, Seq2SeqTrainer

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration
from attnzoo.recurrent_cache import RecurrentDecoderCache
from tests.factory import TOKENIZER, decode, make_model, make_trainer


def exact_match(prediction: EvalPrediction) -> dict[str, float]:
    pairs = zip(decode(prediction.predictions), decode(prediction.label_ids), strict=True)
    return {"exact": float(np.mean([predicted == expected for predicted, expected in pairs]))}


def different_words(count: int) -> list[str]:
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
def reversal(tmp_path_factory: pytest.TempPathFactory) -> Reversal:
    words = different_words(8500)
    table = Dataset.from_dict({"word": words, "reversed": [word[::-1] for word in words]})
    # The text columns stay in the table: the Trainer takes out what forward() has no argument for.
    table = table.map(lambda rows: TOKENIZER(rows["word"], text_target=rows["reversed"]), batched=True)
    torch.manual_seed(0)
    sizes = {"embedding_size": 32, "encoder_hidden_size": 48, "decoder_hidden_size": 96, "vocab_size": len(TOKENIZER)}
    # Without input feeding a whole target is one call of the LSTM. The special tokens are the config's own.
    config = AttentionalRNNConfig(wiring="luong", cell="lstm", initializer_range=0.15, **sizes)
    model = AttentionalRNNForConditionalGeneration(config)
    folder = tmp_path_factory.mktemp("reversal")
    train, unseen = table.select(range(500, len(table))), table.select(range(500))
    batches = {"per_device_train_batch_size": 128, "per_device_eval_batch_size": 500, "max_steps": -1}
    generation = {"eval_strategy": "epoch", "predict_with_generate": True, "generation_max_length": 12}
    parts = {"train_dataset": train, "eval_dataset": unseen, "compute_metrics": exact_match}
    trainer = make_trainer(model, folder, parts, num_train_epochs=5, learning_rate=1e-2, **batches, **generation)
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
    inputs = tokenizer(words, padding=True, return_token_type_ids=False, return_tensors="pt")
    answers = tokenizer.batch_decode(model.generate(**inputs, max_new_tokens=11), skip_special_tokens=True)
    assert answers == decode(reversal.trainer.predict(reversal.unseen).predictions)
    assert np.mean([answer == word[::-1] for answer, word in zip(answers, words, strict=True)]) >= 0.99


def test_a_saved_model_still_generates_with_its_cache(reversal: Reversal) -> None:
    """The Trainer sets ``config.use_cache`` to False and saves that; generate() goes by the generation config."""
    model = AutoModelForSeq2SeqLM.from_pretrained(reversal.saved)
    inputs = TOKENIZER(reversal.unseen["word"][:3], padding=True, return_token_type_ids=False, return_tensors="pt")
    result = model.generate(**inputs, max_new_tokens=11, return_dict_in_generate=True)
    assert isinstance(result.past_key_values, RecurrentDecoderCache)


def test_predictions_by_beam_search(reversal: Reversal) -> None:
    result = reversal.trainer.predict(reversal.unseen, num_beams=3, max_length=12)
    assert len(result.predictions) == len(result.label_ids) == 500
    assert result.metrics["test_exact"] >= 0.99


def test_label_smoothing_needs_a_collator_that_knows_the_model(tmp_path: Path) -> None:
    """The Trainer then keeps the labels to itself, and nothing is left to make the decoder's input from."""
    trainer = make_trainer(make_model("attentional-rnn"), tmp_path, label_smoothing_factor=0.3)
    trainer.data_collator = DataCollatorForSeq2Seq(TOKENIZER)
    with pytest.raises(ValueError, match="decoder_input_ids"):
        trainer.train()
