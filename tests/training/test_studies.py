"""The studies of the docs: they train missing models, measure, tabulate and draw."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from attnzoo.training import evaluate
from attnzoo.training.evaluate import load_model
from attnzoo.training.recipe import load_recipe, make_task
from attnzoo.training.studies import bottleneck, hops, penalty, which_attention, word_confidence
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme
from attnzoo.training.train import train_once
from transformers import AutoConfig, AutoModelForSeq2SeqLM

from tests.regular_language import SMALL
from tests.training.reviews import SMALL as TINY
from tests.training.reviews import sentences

ROOT = Path(__file__).parents[2]


@pytest.mark.usefixtures("few_phonemes")
def test_which_attention_trains_draws_and_tabulates(
    few_words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(which_attention, "SCORES", ("additive", "location"))
    monkeypatch.setattr(which_attention, "WINDOWS", {"global": "global", "predictive": "local-p"})
    word = few_words.read_text().splitlines()[1].split()[0].lower()
    overrides = [*SMALL, f"task.data.path={few_words}", "training.max_steps=1"]
    arguments = ["--recipe", str(ROOT / "configs" / "which_attention.yaml"), "--models", str(tmp_path / "models")]
    arguments += ["--plot", str(tmp_path / "which.png"), "--word", word]
    sets = [f"--set={item}" for item in overrides]
    which_attention.main([*arguments, *sets])
    output = capsys.readouterr().out
    assert len(list((tmp_path / "models").glob("*-*/best/model.safetensors"))) == 4
    assert (tmp_path / "which.png").stat().st_size > 10_000
    assert len([line for line in output.splitlines() if line.startswith("| ")]) == 3
    # Nothing is trained again, not for other figures to expect either.
    monkeypatch.setattr(which_attention, "draw", lambda *_: None)  # which takes seconds
    which_attention.main([*arguments, *sets, "--set=expected.per=1"])
    assert "training examples" not in capsys.readouterr().out
    with pytest.raises(SystemExit, match="trained from another recipe"):
        which_attention.main([*arguments, *sets, "--set=training.max_steps=3"])
    with pytest.raises(SystemExit, match="not in the dictionary"):
        which_attention.main([*arguments, *sets, "--word=zzz"])
    with pytest.raises(SystemExit, match="the study takes every score and window"):
        which_attention.main([*arguments, *sets, "--set=model.score=dot"])


def test_the_twoof_the_bottleneck_are_of_one_size(cmudict_task: GraphemeToPhoneme) -> None:
    vocab_size = len(cmudict_task.make_tokenizer())
    sizes = []
    for fields in bottleneck.MODELS.values():
        recipe = load_recipe(ROOT / "configs" / "bottleneck.yaml", [f"model.{field}" for field in fields])
        model = AutoModelForSeq2SeqLM.from_config(recipe.model_config(vocab_size=vocab_size))
        sizes.append(sum(parameter.numel() for parameter in model.parameters()))
    assert max(sizes) < 1.02 * min(sizes)


@pytest.mark.usefixtures("few_phonemes")
def test_bottleneck_trains_and_measures_the_error_by_length(
    few_words: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bottleneck, "SEEDS", (1, 2))
    small = ["embedding_size=8", "encoder_hidden_size=16", "decoder_hidden_size=16"]
    two = {name: [*bottleneck.MODELS[name], *small] for name in ("fixed vector", "Luong, local-p")}
    monkeypatch.setattr(bottleneck, "MODELS", two)
    recipe = str(ROOT / "configs" / "bottleneck.yaml")
    arguments = ["--recipe", recipe, "--models", str(tmp_path / "models"), "--plot", str(tmp_path / "b.png")]
    sets = [f"task.data.path={few_words}", "training.max_steps=2", "training.batch_tokens=200"]
    sets += ["training.evaluations=1"]
    arguments += [f"--set={item}" for item in sets]
    bottleneck.main(arguments)
    output = capsys.readouterr().out
    assert (tmp_path / "b.png").stat().st_size > 10_000
    rows = [line for line in output.splitlines() if line.startswith("| ")]
    header, counts, *models = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    task = GraphemeToPhoneme(str(few_words))
    words = task.splits["test"]["word"][:]
    by_length = [sum(low <= len(word) <= high for word in words) for low, high in ((2, 4), (5, 6), (7, 8))]
    assert header[2:] == ["2 to 4", "5 to 6", "7 to 8", "all", "WER, all"]  # no group without words
    assert [int(count) for count in counts[2:6]] == [*by_length, len(words)]
    assert [row[0] for row in models] == list(bottleneck.MODELS)
    for override in ("model.cell=gru", "training.seed=7"):
        with pytest.raises(SystemExit, match="the study has models and seeds of its own"):
            bottleneck.main([*arguments, f"--set={override}"])
    # The figures of one model, again.
    scores = []
    for seed in (1, 2):
        folder = tmp_path / "models" / f"luong-local-p-{seed}" / "best"
        scores.append(evaluate.evaluate(folder, task, "test")["per"])
    low, high = sorted(scores)
    assert models[-1][5] == f"{(low + high) / 2:.2f} ({low:.2f} to {high:.2f})"


def test_penalty_measures_accuracy_and_the_overlap_of_hops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentences().to_csv(tmp_path / "reviews.csv", index=False)
    sets = [*TINY, f"task.data.path={tmp_path / 'reviews.csv'}", "training.max_steps=30", "training.evaluations=1"]
    sets += ["task.data.text_column=review", "task.data.label_column=verdict"]
    arguments = ["--recipe", str(ROOT / "configs" / "penalty.yaml"), "--models", str(tmp_path / "models")]
    arguments += ["--seeds", "4", "5"]
    arguments += [f"--set={item}" for item in sets if not item.startswith("model.penalty")]
    penalty.main(arguments)
    output = capsys.readouterr().out
    assert "mean of 2 seeds" in output
    folders = sorted(folder.name for folder in (tmp_path / "models").iterdir())
    assert folders == ["penalty-0.0-4", "penalty-0.0-5", "penalty-1.0-4", "penalty-1.0-5"]
    rows = [line for line in output.splitlines() if line.startswith("| penalty")]
    assert [row.split("|")[1].strip() for row in rows] == ["penalty 1.0", "penalty 0.0"]
    with_penalty, without = (float(row.split("|")[3].split()[0]) for row in rows)
    assert with_penalty < without
    for override in ("model.penalty_coefficient=0.5", "training.seed=7"):
        with pytest.raises(SystemExit, match="the study has coefficients and seeds of its own"):
            penalty.main([*arguments, f"--set={override}"])
    with pytest.raises(SystemExit, match=r"model\.num_hops is 1, and the study is of how two hops overlap"):
        penalty.main([*arguments, "--set=model.num_hops=1"])
    frame = sentences().assign(reply="So it is.")
    frame.to_csv(tmp_path / "reviews.csv", index=False)
    pairs = ["--set=task.data.text_pair_column=reply", "--set=model.sentence_pair=true"]
    with pytest.raises(SystemExit, match=r"text_pair_column is reply, and the study is of single sentences"):
        penalty.main([*arguments, *pairs])


def test_the_overlap_of_hops_by_hand() -> None:
    same = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    apart = torch.eye(2)
    uniform = torch.full((2, 2), 0.5)
    assert hops.mean_of_pairs(torch.stack([same, apart, uniform])).tolist() == [1.0, 0.0, 0.5]
    rows = torch.rand(1, 3, 7, dtype=torch.float64)
    pairs = [rows[0, i] @ rows[0, j] for i in range(3) for j in range(3) if i != j]
    torch.testing.assert_close(hops.mean_of_pairs(rows)[0], torch.stack(pairs).mean())
    with pytest.raises(ValueError, match="this model has only one hop"):
        hops.mean_of_pairs(rows[:, :1])


def test_the_figures_of_hops_are_those_of_single_sentences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They equal those of single sentences without padding; a hop that the classifier does not read changes no
    prediction.
    """
    sentences(60).to_csv(tmp_path / "reviews.csv", index=False)
    sets = [*TINY, f"task.data.path={tmp_path / 'reviews.csv'}", "training.max_steps=60"]
    sets += ["task.data.text_column=review", "task.data.label_column=verdict", "model.num_hops=3"]
    recipe = load_recipe("self_attentive_sst2_glove", sets)
    task: Any = make_task(recipe)
    train_once(recipe, task, tmp_path / "run")
    model, tokenizer = load_model(task.auto_class, tmp_path / "run" / "best")
    model.hidden_proj.weight.data.view(8, 3, -1)[:, 1] = 0.0
    figures = hops.measure(model, tokenizer, task)
    cosines, special, changed = [], [], []
    for text in task.splits["test"]["text"]:
        inputs = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            outputs = model(**inputs, output_attentions=True)
            matrix = model.model(**inputs).sentence_matrix[0]
        rows = outputs.attentions[0][0, 0]
        cosines.append(sum(torch.cosine_similarity(rows[i], rows[j], dim=0) for i, j in ((0, 1), (0, 2), (1, 2))) / 3)
        special.append(rows[:, inputs["input_ids"][0] == tokenizer.eos_token_id].sum(1))
        of_hops = []
        for hop in range(3):
            others = torch.cat([matrix[:hop], torch.zeros(1, matrix.shape[1]), matrix[hop + 1 :]])
            hidden = model.hidden_proj.weight @ others.flatten() + model.hidden_proj.bias
            logits = model.classifier.weight @ hidden.clamp(min=0) + model.classifier.bias
            of_hops.append(float(logits.argmax() != outputs.logits.argmax()))
        changed.append(torch.tensor(of_hops))
    torch.testing.assert_close(figures.cosine, torch.stack(cosines).mean())
    torch.testing.assert_close(figures.special, torch.stack(special).mean(0))
    torch.testing.assert_close(figures.changed, torch.stack(changed).mean(0))
    assert figures.changed[1] == 0
    assert figures.changed.max() > 0
    capsys.readouterr()
    hops.main([str(tmp_path / "run" / "best"), f"--set=task.data.path={tmp_path / 'reviews.csv'}"])
    assert "| hop | weight on special tokens % | predictions changed without it % |" in capsys.readouterr().out


def test_the_fitted_calibration_makes_confidences_true() -> None:
    """The best hypothesis is right as often as its confidence says, with probabilities at temperature 2 and a bias of
    -0.5.
    """
    generator = torch.Generator().manual_seed(0)
    log_probabilities = 4 * torch.randn(20_000, 5, generator=generator, dtype=torch.float64)
    best = (log_probabilities / 2).softmax(-1).max(-1).values
    is_right = torch.bernoulli((best.logit() - 0.5).sigmoid(), generator=generator).bool().tolist()
    ordered = log_probabilities.sort(descending=True).values.tolist()
    fitted = word_confidence.fitted_calibration(ordered, is_right)
    assert fitted == pytest.approx((2, -0.5), abs=0.1)
    errors = [
        word_confidence.calibration_error(word_confidence.best_confidences(ordered, value), is_right)
        for value in (word_confidence.NONE, fitted)
    ]
    assert errors[1] < 0.015 < 0.05 < errors[0]


def test_the_calibration_error_by_hand() -> None:
    # Two bins: 0.1 and 0.3 with one right of two, 0.6 and 0.8 with two right of two.
    assert word_confidence.calibration_error([0.8, 0.1, 0.6, 0.3], [True, False, True, True], bins=2) == pytest.approx(
        (2 * abs(0.2 - 0.5) + 2 * abs(0.7 - 1)) / 4
    )


def test_calibration_is_saved_with_the_model(
    run: Path, dictionary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, data = tmp_path / "best", f"--set=task.data.path={dictionary}"
    shutil.copytree(run / "best", folder)
    before = AutoModelForSeq2SeqLM.from_pretrained(folder).config.to_dict()
    word_confidence.main([str(folder), "--num-beams=3", "--save", data])
    after = AutoConfig.from_pretrained(folder).to_dict()
    printed = capsys.readouterr().out
    assert f"temperature {after['confidence_temperature']:.3f}" in printed
    assert printed.count("ECE") == 2
    assert f"bias {after['confidence_bias']:.3f}" in printed
    fitted = {"confidence_temperature", "confidence_bias", "_name_or_path"}
    assert {key for key in after if after[key] != before.get(key)} <= fitted
    assert after["confidence_temperature"] != 1.0
    with pytest.raises(SystemExit, match="a greedy search gives no confidence"):
        word_confidence.main([str(folder), "--num-beams=1", data])
