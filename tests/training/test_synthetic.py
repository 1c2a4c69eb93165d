"""The synthetic tasks, the adapter to any model, and the study of recall and length."""

import csv
from pathlib import Path

import pytest
import torch
from attnzoo.training.studies import recall
from attnzoo.training.studies.synthetic import FIRST, IGNORED, START, TASKS, accuracy, batches, fit, logits_of
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel


def test_targets_are_what_the_tasks_say() -> None:
    generator = torch.Generator().manual_seed(0)
    for name, expected in {"copy": list, "reverse": lambda row: row[::-1], "sort": sorted}.items():
        batch = TASKS[name](5, 7, generator)
        assert batch.labels.tolist() == [expected(row) for row in batch.source.tolist()]
        assert (batch.inputs[:, 0] == START).all()
        assert torch.equal(batch.inputs[:, 1:], batch.labels[:, :-1])
    batch = TASKS["mqar"](5, 8, generator)
    for source, keys, values in zip(*(part.tolist() for part in batch), strict=True):
        pairs = dict(zip(source[::2], source[1::2], strict=True))
        assert sorted(keys) == sorted(pairs)
        assert [pairs[key] for key in keys] == values
        assert not {*keys} & {*values}


def test_dyck_words_are_closed_by_their_targets() -> None:
    batch = TASKS["dyck-2"](50, 9, torch.Generator().manual_seed(1))
    for source, labels in zip(batch.source.tolist(), batch.labels.tolist(), strict=True):
        stack = []
        for token in [*source, *(label for label in labels if label not in (IGNORED, START))]:
            if token < FIRST + 2:
                stack.append(token)
            else:
                assert stack.pop() == token - 2
        assert not stack


class Answers(nn.Module):
    """A model that reads one stream and solves the copying task: the label of input t is token t of the source."""

    def forward(self, tokens: Tensor) -> Tensor:
        half = tokens.shape[1] // 2
        found = torch.cat([tokens[:, :half], tokens[:, :half]], dim=1)
        return nn.functional.one_hot(found, 30).float()


def test_any_model_runs_under_the_adapter() -> None:
    batch = TASKS["copy"](6, 5, torch.Generator().manual_seed(0))
    assert accuracy(Answers(), batch) == 1.0
    library = GPT2LMHeadModel(GPT2Config(vocab_size=30, n_embd=16, n_layer=1, n_head=2, n_positions=32))
    for model in (library, *(build(30, 16) for build in recall.MODELS.values())):
        assert logits_of(model.eval(), batch).shape == (6, 5, 30)
    logits = logits_of(library, batch)
    changed = batch._replace(inputs=batch.inputs.clone().index_fill_(1, torch.tensor([4]), FIRST))
    torch.testing.assert_close(logits_of(library, changed)[:, :4], logits[:, :4])


def test_lin_reads_nothing_after_the_label_it_is_asked_for() -> None:
    model, batch = recall.LinReader(30, 8).eval(), TASKS["copy"](3, 4, torch.Generator().manual_seed(0))
    later = batch._replace(inputs=batch.inputs.clone().index_fill_(1, torch.tensor([2, 3]), FIRST))
    torch.testing.assert_close(model.answer(later)[:, :2], model.answer(batch)[:, :2])
    assert not torch.equal(model.answer(later)[:, 2:], model.answer(batch)[:, 2:])


def test_training_lowers_the_loss() -> None:
    torch.manual_seed(0)
    losses = fit(recall.MODELS["Transformer, sinusoidal"](19, 16), batches(TASKS["copy"], 16, (2, 3), 1), 40, 1e-2)
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


def test_the_study_chooses_a_rate_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recall, "TEST_ROWS", 8)
    monkeypatch.setattr(recall, "ROWS", 4)
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n\n\ndef build(vocab_size, width):\n"
        "    return nn.Sequential(nn.Embedding(vocab_size, width), nn.Linear(width, vocab_size))\n"
    )
    monkeypatch.chdir(tmp_path)
    arguments = ["--tasks", "mqar", "--widths", "8", "--models", "dot (Luong)", "--model", "mine:build", "--steps", "2"]
    recall.main([*arguments, "--output", "runs"])
    rows = list(csv.DictReader((tmp_path / "runs" / "recall.csv").open()))
    assert len(rows) == 2 * (3 + 2) * len(recall.TESTED)  # models, of three rates and two more seeds
    assert {row["model.sequence_mixer.name"] for row in rows} == {"dot (Luong)", "mine:build"}
    sweep = {row["learning_rate"]: float(row["choosing_accuracy"]) for row in rows[: 3 * len(recall.TESTED)]}
    assert {row["learning_rate"] for row in rows[12:20]} == {max(sweep, key=sweep.__getitem__)}
    assert (tmp_path / "runs" / "recall.png").stat().st_size > 10_000
    # The last training is cut off in its rows: it alone is run again.
    kept = (tmp_path / "runs" / "recall.csv").read_text().splitlines(keepends=True)[:-1]
    (tmp_path / "runs" / "recall.csv").write_text("".join(kept))
    capsys.readouterr()
    recall.main([*arguments, "--output", "runs"])
    assert capsys.readouterr().out.count("width 8, ") == 1
    recall.main([*arguments, "--output", "runs"])
    assert capsys.readouterr().out.count("width 8, ") == 0
    assert len((tmp_path / "runs" / "recall.csv").read_text().splitlines()) == 1 + len(rows)
    with pytest.raises(SystemExit, match="not 3; take another --output"):
        recall.main([*arguments[:-1], "3", "--output", "runs"])
    with pytest.raises(SystemExit, match="give MODULE:FUNCTION"):
        recall.main(["--model", "nowhere"])
