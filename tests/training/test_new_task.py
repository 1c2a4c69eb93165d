"""A new task is a subclass and a line in ``TASKS``: it is trained, evaluated, released and has a card."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import datasets
import pytest
from attnzoo.training import card, evaluate, release
from attnzoo.training.data.known import KnownData
from attnzoo.training.data.licenses import CC0, Origin
from attnzoo.training.data.sources import Rows, Source
from attnzoo.training.tasks import TASKS
from attnzoo.training.tasks.base import Batch, Card, Task
from attnzoo.training.tasks.letter_tokenizer import letter_phoneme_tokenizer, word_normalizer
from attnzoo.training.tasks.metrics import Accuracy
from attnzoo.training.train import main
from huggingface_hub import ModelCard
from huggingface_hub.dataclasses import strict
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

WORDS = [*map("".join, product("abeio", "klm", "aeiou", "nrst"))]


def read_syllables(path: Path) -> dict[str, dict[str, list[str]]]:
    return {"train": {"text": path.read_text().split()}}


SYLLABLES = KnownData(
    path=r"(.*/)?syllables\.txt",
    name="Syllables",
    license=CC0,
    sources=(Origin(name="Syllables", license=CC0),),
    language="en",
    source="of [nobody](https://example.org)",
    read=read_syllables,
)


@strict
@dataclass(kw_only=True)
class WordData(Source):
    text_column: str = "text"


class FirstLetter(Task):
    """A task: whether a word begins with a vowel."""

    data_class = WordData
    auto_class = AutoModelForSequenceClassification
    columns = ["text"]
    rows_called = "words"
    target = "labels"
    metrics = (Accuracy,)
    metric_names = {"accuracy": "accuracy"}
    units = {"accuracy": " %"}
    metric = "accuracy"
    greater_is_better = True
    known_data = (SYLLABLES,)
    card = Card(
        tags=("vowels",),
        pipeline_tag="text-classification",
        snippet='classify("{folder}", {example})',
        usage="A lowercase word.",
        metric_note="Accuracy: words that are right.",
        limits="It knows vowels.",
    )

    def divide(self, given: dict[str, Rows], only: str | None) -> tuple[dict[str, Rows], str]:
        splits, split_note = super().divide(given, only)
        begins = {
            split: rows.map(lambda row: {"labels": int(row["text"][0] in "aeiou")}) for split, rows in splits.items()
        }
        return begins, split_note

    def make_tokenizer(self) -> PreTrainedTokenizerBase:
        return letter_phoneme_tokenizer("abcdefghijklmnopqrstuvwxyz", [], word_normalizer("nfc"))

    def encoder(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[Batch], Batch]:
        return lambda rows: {"input_ids": tokenizer(rows["text"])["input_ids"]}

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> DataCollatorWithPadding:
        return DataCollatorWithPadding(tokenizer)

    def predict_rows(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: datasets.Dataset, num_beams: int = 1
    ) -> list[int]:
        batch = tokenizer(rows["text"][:], padding=True, return_tensors="pt")
        return model.eval()(batch["input_ids"], batch["attention_mask"]).logits.argmax(dim=1).tolist()


def recipe(path: str) -> str:
    return f"""
model: {{model_type: self_attentive, embedding_size: 8, hidden_size: 8, attention_hidden_size: 8, num_hops: 2,
  classifier_size: 8, dropout: 0.0, classifier_dropout: 0.0}}
task: {{name: first_letter, data: {{path: {path}}}}}
training: {{max_steps: 60, batch_tokens: 200, learning_rate: 1e-2, warmup_steps: 5}}
"""


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setitem(TASKS, "first_letter", FirstLetter)  # the line of registration
    monkeypatch.chdir(tmp_path)
    Path("syllables.txt").write_text("\n".join(WORDS))
    Path("first_letter.yaml").write_text(recipe("syllables.txt"))
    return ["first_letter.yaml", "--output", "run"]


def test_a_new_task_is_trained_evaluated_released_and_described(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(arguments)
    evaluate.main(["run/best", "--split", "validation"])
    assert "Syllables, validation split, " in (printed := capsys.readouterr().out)
    assert float(printed.split("accuracy ")[-1].split(" %")[0]) > 90
    release.main(["run", "released"])
    text = Path("released", "README.md").read_text()
    metadata = ModelCard(text).data
    assert (metadata.license, metadata.language, metadata.pipeline_tag) == ("cc0-1.0", "en", "text-classification")
    assert metadata.tags == ["attnzoo", "attention", "vowels"]
    assert "| split | examples | accuracy % |" in text
    assert "Data: Syllables, of [nobody](https://example.org), validation and test cut out of train by a hash" in text
    assert f'classify("released", "{FirstLetter(WordData(path="syllables.txt")).splits["test"]["text"][0]}")' in text
    Path("released", "README.md").unlink()
    card.main(["released"])
    assert Path("released", "README.md").read_text() == text


def test_a_new_task_reads_rows_of_ones_own_and_refuses_unknown_keys(arguments: list[str], tmp_path: Path) -> None:
    Path("mine.csv").write_text("\n".join(["word", *WORDS]))
    task = FirstLetter(WordData(path="mine.csv", text_column="word"))
    assert sum(map(len, task.splits.values())) == len(WORDS)
    assert (task.name, task.card.license, task.card.split_note[:19]) == ("mine.csv", None, "validation and test")
    with pytest.raises(SystemExit, match=r"unknown key 'text_colum' in task\.data; did you mean 'text_column'"):
        main([*arguments, "--set=task.data.text_colum=word"])


def test_a_task_without_its_methods_cannot_be_made() -> None:
    class Unfinished(FirstLetter):
        make_tokenizer: Any = Task.make_tokenizer

    with pytest.raises(TypeError, match=r"abstract method '?make_tokenizer"):
        Unfinished(WordData(path="mine.csv"))
