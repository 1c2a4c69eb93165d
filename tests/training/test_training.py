"""The training loop end to end, on a small language whose spelling is regular, and its parts."""

import importlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import LoggerType
from attnzoo.training import evaluate
from attnzoo.training.architecture import architecture
from attnzoo.training.commands.exits import exit_on_user_error
from attnzoo.training.loop import average
from attnzoo.training.loop.average import MovingAverage
from attnzoo.training.loop.batching import LengthBatchSampler
from attnzoo.training.loop.checkpoint import checkpoints
from attnzoo.training.loop.progress import Batches, Clock, progress_bar
from attnzoo.training.loop.run_folder import describe_run
from attnzoo.training.recipe import Training, checkpoint_recipe, load_recipe
from attnzoo.training.tasks.grapheme_to_phoneme import GraphemeToPhoneme
from attnzoo.training.train import main, train
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from attnzoo import (
    AttentionalRNNConfig,
    AttentionalRNNForConditionalGeneration,
    SelfAttentiveConfig,
    SelfAttentiveForSequenceClassification,
)
from attnzoo.alignment import align, alignment_error_rate
from tests.regular_language import SMALL, gold_links, spell_out
from tests.training.runs import ROOT, log_rows, train_recipe


def test_it_learns_to_pronounce_words_it_has_not_seen(run: Path) -> None:
    result = json.loads((run / "run.json").read_text())
    assert result["validation"]["per"] < 5
    assert result["total_steps"] == 450
    assert 0 < result["minutes"] <= result["total_minutes"]  # the time of evaluations is not counted


def test_the_log_has_losses_and_evaluations(run: Path) -> None:
    rows = log_rows(run, "loss")
    assert len(rows) == 90
    assert rows[-1]["loss"] < rows[0]["loss"] / 5
    assert all(row["tokens_per_second"] > 0 for row in rows)
    assert [row["step"] for row in log_rows(run, "validation")] == [150, 300, 450]


@pytest.mark.parametrize("name", ["best", "last"])
def test_a_checkpoint_is_a_whole_hub_repository(run: Path, name: str) -> None:
    expected = {"config.json", "generation_config.json", "model.safetensors", "recipe.yaml", "tokenizer.json"}
    names = {path.name for path in (run / name).iterdir()}
    assert expected <= names
    model = AutoModelForSeq2SeqLM.from_pretrained(run / name)
    assert model.dtype == torch.float32
    assert model.generation_config.max_new_tokens == 64


def test_the_card_holds_the_measured_figures(run: Path) -> None:
    card = (run / "best" / "README.md").read_text()
    result = json.loads((run / "run.json").read_text())
    assert f"| {result['validation']['per']:.2f} | {result['validation']['wer']:.2f} |" in card
    assert "license:" not in card  # nobody has said what the data allows
    assert str(run) not in card  # no machine's paths on a card


def test_best_is_what_was_evaluated(run: Path, dictionary: Path) -> None:
    model = AutoModelForSeq2SeqLM.from_pretrained(run / "best")
    tokenizer = AutoTokenizer.from_pretrained(run / "best")
    task = GraphemeToPhoneme(str(dictionary))
    scores = task.measure("validation", task.predict(model, tokenizer, "validation"))
    assert scores == pytest.approx(json.loads((run / "run.json").read_text())["validation"])


def test_evaluate_prints_the_figures_of_a_split(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluate.main([str(run / "best"), "--split", "validation"])
    scores = json.loads((run / "run.json").read_text())["validation"]
    assert f"regular.dict, validation split, {scores['examples']} examples, beam 1: PER {scores['per']:.2f} %" in (
        capsys.readouterr().out
    )
    with pytest.raises(SystemExit, match=r"there is no split 'tests'; choose one of: train, validation, test"):
        evaluate.main([str(run / "best"), "--split", "tests"])
    (tmp_path / "own.dict").write_text("ab AA B\n")
    with pytest.raises(SystemExit, match=r"there is no split 'dev'; choose one of: train, validation, test"):
        evaluate.main([str(run / "best"), "--split", "dev", f"--set=task.data.path={tmp_path / 'own.dict'}"])
    for moved in ("split_by=family", "lower_case=False", "normalization=nfd"):  # training words would be measured
        with pytest.raises(SystemExit, match=rf"task\.data\.{moved} cannot be set: .* held-out rows from training"):
            evaluate.main([str(run / "best"), f"--set=task.data.{moved}"])
    with pytest.raises(SystemExit, match=r"error: num_beams must be at least 1, got 0"):
        evaluate.main([str(run / "best"), "--num-beams", "0"])
    (tmp_path / "export.json").touch()
    with pytest.raises(SystemExit, match="is an exported model; give the model that it was exported from"):
        evaluate.main([str(tmp_path)])
    with pytest.raises(SystemExit, match=r"error: nowhere is neither a folder nor the name of a shipped model"):
        evaluate.main(["nowhere"])
    with pytest.raises(
        SystemExit,
        match=rf"error: {re.escape(str(run))} is not a checkpoint folder: .*; give {re.escape(str(run / 'best'))}",
    ):
        evaluate.main([str(run)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["configs/dem.yaml"], "error: no recipe at configs/dem.yaml; did you mean 'demo'?"),
        (["configs/demo.yaml", "--set", "task.data.path=gone"], "error: task.data.path is 'gone'"),
        (
            ["configs/demo.yaml", "--set", "task.name=g2p"],
            "task.name is 'g2p'; known: causal_language_modeling, grapheme_to_phoneme",
        ),
        (["demo", "--set", "model.dropout=2"], "dropout must be at least 0 and below 1"),
        (["configs/demo.yaml", "--set", "model.score=dott"], "dott"),
        (["demo", "{data}", "--set", "model.encoder_hidden_size=60000"], " MB and the disk of "),
        (["demo", "{data}", "--set", "training.batch_tokens=4"], "'khathikhe' has 10 tokens, more than batch_tokens=4"),
    ],
)
def test_a_mistake_in_train_is_said_without_a_traceback(
    tmp_path: Path, dictionary: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(ROOT)
    arguments = [f"--set=task.data.path={dictionary}" if item == "{data}" else item for item in arguments]
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--output", str(tmp_path), "--set", "training.precision=fp32"])
    assert message in str(stop.value)


def test_too_little_memory_is_said_without_a_traceback() -> None:
    with pytest.raises(SystemExit, match=r"error: out of memory: lower training\.batch_tokens"), exit_on_user_error():
        torch.empty(2**50)
    with pytest.raises(RuntimeError, match="a mistake of ours"), exit_on_user_error():
        raise RuntimeError("a mistake of ours")


@pytest.mark.usefixtures("few_phonemes")
def test_the_same_seed_gives_the_same_weights(dictionary: Path, tmp_path: Path) -> None:
    overrides = [*SMALL, "training.max_steps=3", f"task.data.path={dictionary}", "model.dropout=0.3"]

    def weights(name: str, *more: str) -> dict[str, torch.Tensor]:
        recipe = load_recipe(ROOT / "configs" / "demo.yaml", [*overrides, *more])
        (tmp_path / name).mkdir()
        train(recipe, GraphemeToPhoneme(str(dictionary)), tmp_path / name)
        return AutoModelForSeq2SeqLM.from_pretrained(tmp_path / name / "last").state_dict()

    first, again, other = weights("a"), weights("b"), weights("c", "training.seed=2")
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_a_resumed_training_is_estimated_by_what_it_did_since() -> None:
    """Half of it was done before; a tenth takes ten seconds, so the remaining four tenths take forty."""
    bar = progress_bar(Clock(Training(max_steps=4)), 0.5, is_shown=True)
    bar.start_t -= 10
    bar.update(0.1)
    assert "00:40 left" in str(bar)
    bar.close()


def test_clock_counts_steps_or_minutes_without_pauses() -> None:
    accelerator = Accelerator(cpu=True)
    clock = Clock(Training(max_steps=4))
    clock.steps = 1
    assert clock.progress(accelerator) == 0.25
    clock = Clock(Training(max_minutes=0.01))
    clock.steps = 1
    with clock.paused():
        torch.zeros(1)
        before = clock.minutes()
        while clock.minutes() < before + 0.002:
            pass
        assert clock.state_dict()["minutes"] < before + 0.001  # a resumed run has as much time left
    assert clock.progress(accelerator) < 0.2
    while clock.progress(accelerator) < 1:  # 0.6 seconds
        pass


@pytest.mark.usefixtures("few_phonemes")
def test_a_training_of_too_few_minutes_takes_its_least_steps_and_few_examples_give_a_warning(
    dictionary: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnzoo.training.loop.setup.FEWEST", 10**9)
    sets = [*SMALL, f"task.data.path={dictionary}", "training.max_minutes=1e-9"]
    for steps, is_said in ((1, False), (2, True)):
        output = train_recipe("demo", tmp_path / str(steps), [*sets, f"training.min_steps={steps}"])
        run = json.loads((output / "run.json").read_text())
        assert (run["steps"], run["total_steps"]) == (steps, steps)
        said = capsys.readouterr()
        assert "training examples are too few for a model that is right on others" in said.err
        assert is_said == ("at least 2 steps, however long they take; with --set training.min_steps=1" in said.out)


def test_moving_average_forgets_the_start_and_then_decays_slowly() -> None:
    model = torch.nn.Linear(1, 1, bias=False)

    def average_after(weight: float) -> float:
        torch.nn.init.constant_(model.weight, weight)
        average.after_step(model)
        return average.model.weight.item()

    average = MovingAverage(model, 0.5, torch.device("cpu"))
    assert average_after(1.0) == 1.0  # the first weights themselves
    assert average_after(0.0) == pytest.approx(2 / 11)  # (1 + 1) / (10 + 1) of the old
    average.updates = 1000
    assert average_after(0.0) == pytest.approx(1 / 11)  # 0.5 of the old by now
    average = MovingAverage(model, 0.0, torch.device("cpu"))
    before = average.model.weight.item()
    assert average_after(0.3) == before  # with a decay of 0 a step does nothing
    assert average.current(model).weight.item() == float(torch.tensor(0.3))
    # It is made before Accelerate moves the model, and goes to the same device.
    assert MovingAverage(model, 0.5, torch.device("meta")).model.weight.is_meta


@pytest.mark.parametrize("log_every", [5, 1000])
def test_a_training_that_diverges_stops_and_saves_nothing(dictionary: Path, tmp_path: Path, log_every: int) -> None:
    """Also if only the weights before an evaluation show it, and not the loss of a logged step."""
    more = ["training.max_steps=20", f"task.data.path={dictionary}", "training.learning_rate=1e30"]
    recipe = load_recipe(ROOT / "configs" / "demo.yaml", [*SMALL, *more, f"training.log_every={log_every}"])
    with pytest.raises(FloatingPointError, match=r"at step \d+; lower training\.learning_rate"):
        train(recipe, GraphemeToPhoneme(str(dictionary)), tmp_path)
    assert not (tmp_path / "best").exists()
    assert not (tmp_path / "last").exists()


def test_a_failing_evaluation_does_not_lose_the_weights(
    dictionary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = load_recipe(
        ROOT / "configs" / "demo.yaml", [*SMALL, "training.max_steps=3", f"task.data.path={dictionary}"]
    )

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the disk is full, say")

    monkeypatch.setattr(GraphemeToPhoneme, "predict", fail)
    with pytest.raises(RuntimeError, match="the disk is full"):
        train(recipe, GraphemeToPhoneme(str(dictionary)), tmp_path)
    AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "last")


def test_sampler_is_reshuffled_every_epoch() -> None:
    sampler = LengthBatchSampler([(3, 3)] * 40, 30, seed=0)
    batches: Any = Batches(sampler, load=list)  # type: ignore[arg-type]
    first = batches.take(4)
    assert batches.take(4) == []
    batches.end_epoch()
    second = batches.take(4)
    assert first != second
    for batches_of_epoch in (first, second):
        assert sorted(row for batch in batches_of_epoch for row in batch) == list(range(40))


# Alignments that are known: every letter of the regular language is one phoneme, and th and kh are


# The shared run has the general score, without input feeding.
@pytest.mark.parametrize(
    ("choice", "steps"), [("", 0), ("score=general,input_feeding=true", 120), ("wiring=bahdanau", 200)]
)
def test_a_trained_model_aligns_the_token_that_it_predicts(
    choice: str, steps: int, run: Path, dictionary: Path, tmp_path: Path
) -> None:
    """The token that a row aligns is measured, not assumed: see the top of attnzoo/alignment.py."""
    overrides = [*SMALL, f"task.data.path={dictionary}", f"training.max_steps={steps}", "training.warmup_steps=10"]
    overrides += ["model.score=null", *(f"model.{item}" for item in choice.split(","))]
    folder = train_recipe("demo", tmp_path, overrides) if choice else run
    model, tokenizer = (c.from_pretrained(folder / "best") for c in (AutoModelForSeq2SeqLM, AutoTokenizer))
    words = [line.split()[0].lower() for line in dictionary.read_text().splitlines()[1::9]]
    sure, possible = zip(*map(gold_links, words), strict=True)
    error_rates = [
        alignment_error_rate(
            [pair.links for pair in align(model, tokenizer, words, [spell_out(w) for w in words], shift=shift)],
            sure,
            possible,
        )
        for shift in (0, 1)
    ]
    assert error_rates[0] < 0.3
    assert error_rates[1] > 0.6


@pytest.mark.usefixtures("few_phonemes")
@pytest.mark.parametrize("paper", ["cho2014", "sutskever2014", "bahdanau2014", "luong2015-local-p"])
def test_a_recipe_can_start_from_a_paper_and_its_card_says_so(paper: str, dictionary: Path, tmp_path: Path) -> None:
    small = [item for item in SMALL if not item.startswith("model.")]
    small += ["model.decoder_hidden_size=16", "model.encoder_hidden_size=16", "model.embedding_size=16"]
    path = tmp_path / "paper.yaml"
    path.write_text(
        f"model: {{model_type: attentional_rnn, paper: {paper}}}\n"
        f"task: {{name: grapheme_to_phoneme, data: {{path: {dictionary}}}}}\ntraining: {{max_steps: 2}}\n"
    )
    config = load_recipe(path, small).model_config(vocab_size=9)
    card, _ = architecture(config)
    if paper == "luong2015-local-p":  # one is trained
        main([str(path), "--output", str(tmp_path), *(f"--set={item}" for item in small)])
        config = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "best").config
        card = (tmp_path / "best" / "README.md").read_text()
    assert config.wiring == AttentionalRNNConfig.from_paper(paper).wiring
    assert config.encoder_layers == AttentionalRNNConfig.from_paper(paper).encoder_layers
    assert f"{config.wiring.title()} et al. ({paper[-4:] if paper[-1].isdigit() else '2015'})" in card


@pytest.mark.usefixtures("few_phonemes")
def test_it_stops_early_and_keeps_what_averaging_needs(dictionary: Path, tmp_path: Path) -> None:
    """With a learning rate near 0 no evaluation is better than the first; the warm-up does not count."""
    sets = [*SMALL, f"task.data.path={dictionary}", "training.max_steps=40", "training.evaluations=20"]
    sets += ["training.warmup_steps=5", "training.learning_rate=1e-9"]
    sets += ["training.patience=3", "training.keep_evaluated=2"]
    train_recipe("demo", tmp_path / "run", sets)
    result = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (result["steps"], result["total_steps"]) == (10, 10)  # the later of equal models
    (tmp_path / "run" / "run.json").unlink()  # as if killed at the very end
    train_recipe("demo", tmp_path / "run", sets, "--resume")
    again = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (again["steps"], again["total_steps"], again["validation"]) == (10, 10, result["validation"])
    evaluated = checkpoints(tmp_path / "run" / "evaluated")
    assert [path.name for path in evaluated] == ["step-00000008", "step-00000010"]
    for folder in (*evaluated, tmp_path / "run" / "best"):
        saved = json.loads((folder / "tokenizer.json").read_text())
        assert (saved["padding"], saved["truncation"]) == (None, None)  # of the last call
    # The path to the data is the run's: the folder itself has its last part, for others.
    assert load_recipe(evaluated[0] / "recipe.yaml").task.data.path == dictionary.name
    assert checkpoint_recipe(evaluated[0]).task.data.path == str(dictionary)


def test_checkpoints_are_averaged(run: Path, dictionary: Path, tmp_path: Path) -> None:
    folders = []
    for number, scale in enumerate((1.0, 2.0, 6.0)):
        model = AutoModelForSeq2SeqLM.from_pretrained(run / "best")
        with torch.no_grad():
            for parameter in model.parameters():
                parameter *= scale
        folders.append(tmp_path / str(number))
        model.save_pretrained(folders[-1])
        tokenizer = AutoTokenizer.from_pretrained(run / "best")
        tokenizer(["a", "ab"], padding=bool(number), truncation=bool(number), max_length=9)  # which stays in the file
        tokenizer.save_pretrained(folders[-1])
    of_last_alone = {"README.md", "alignment.png", "record.json", "run.json"}
    for name in (*of_last_alone, "recipe.yaml"):
        (folders[-1] / name).write_text("of the last one alone, but for the recipe")
    average.main([*map(str, folders), "--output", str(tmp_path / "mean")])
    names = [{path.name for path in folder.iterdir()} for folder in (folders[-1], tmp_path / "mean")]
    assert names[0] - names[1] == of_last_alone
    assert "recipe.yaml" in names[1]
    mean, one = (AutoModelForSeq2SeqLM.from_pretrained(folder) for folder in (tmp_path / "mean", run / "best"))
    assert mean.dtype == torch.float32
    for name, parameter in mean.named_parameters():
        torch.testing.assert_close(parameter, 3 * one.get_parameter(name))
    assert AutoTokenizer.from_pretrained(tmp_path / "mean").get_vocab()
    with pytest.raises(SystemExit, match="exists"):
        average.main([*map(str, folders), "--output", str(tmp_path / "mean")])
    small = AttentionalRNNForConditionalGeneration(AttentionalRNNConfig(vocab_size=5, embedding_size=3))
    small.save_pretrained(tmp_path / "other")
    with pytest.raises(SystemExit, match="different models"):
        average.main([str(folders[0]), str(tmp_path / "other"), "--output", str(tmp_path / "mixed")])
    vocabulary = folders[0] / "tokenizer.json"
    vocabulary.write_text(vocabulary.read_text().replace('"a"', '"\u00e4"'))
    with pytest.raises(SystemExit, match="different tokenizers"):
        average.main([*map(str, folders), "--output", str(tmp_path / "mixed")])
    kept = load_file(folders[-1] / "model.safetensors")
    save_file(dict(list(kept.items())[1:]), folders[-1] / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(SystemExit, match="which its config asks for; random ones would stand in their place"):
        average.main([*map(str, folders), "--output", str(tmp_path / "mixed")])
    assert not (tmp_path / "mixed").exists()


def test_checkpoints_with_other_labels_are_not_averaged(tmp_path: Path) -> None:
    """The shapes are the same, but the columns of the two heads are for different labels."""
    sizes = {"vocab_size": 5, "embedding_size": 3, "hidden_size": 2, "attention_hidden_size": 3, "num_hops": 2}
    for name, labels in (("one", ["bad", "good"]), ("other", ["good", "bad"])):
        config = SelfAttentiveConfig(**sizes, classifier_size=4, id2label=dict(enumerate(labels)))
        SelfAttentiveForSequenceClassification(config).save_pretrained(tmp_path / name)
    with pytest.raises(SystemExit, match=r"have different labels: \{0: 'bad', 1: 'good'\} and \{0: 'good', 1: 'bad'\}"):
        average.main([str(tmp_path / "one"), str(tmp_path / "other"), "--output", str(tmp_path / "mean")])
    assert not (tmp_path / "mean").exists()


@pytest.mark.usefixtures("few_phonemes")
def test_tensorboard_is_written_where_the_run_is(dictionary: Path, tmp_path: Path) -> None:
    sets = [*SMALL, f"task.data.path={dictionary}", "training.max_steps=1", "training.tracker=tensorboard"]
    train_recipe("demo", tmp_path, sets)
    assert list((tmp_path / "tensorboard").rglob("events.out.tfevents.*"))


def test_a_missing_tracker_is_said_before_training(
    dictionary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnzoo.training.loop.setup.get_available_trackers", list)
    sets = [*SMALL, f"task.data.path={dictionary}", "training.max_steps=10", "training.tracker=wandb"]
    with pytest.raises(SystemExit, match="pip install wandb"):
        train_recipe("demo", tmp_path, sets)


@pytest.mark.usefixtures("few_phonemes")
def test_a_tracker_gets_the_settings_and_both_curves(
    dictionary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that records Accelerate's calls stands in for trackio, which would start a server."""
    # Accelerate looks for the packages once, when it is imported.
    monkeypatch.setattr("accelerate.tracking._available_trackers", [LoggerType.TRACKIO])
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "trackio.py").write_text(
        "noted = []\nconfig = {}\n"
        "def init(**keywords):\n    noted.append(keywords)\n    return __import__('trackio')\n"
        "def log(values, **keywords):\n    noted.append(values)\n"
        "def finish():\n    noted.append('finished')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    sets = [*SMALL, f"task.data.path={dictionary}", "training.max_steps=2", "training.log_every=1"]
    train_recipe("demo", tmp_path / "mine", [*sets, "training.tracker=trackio"])
    trackio: Any = importlib.import_module("trackio")
    first, *curves, last = trackio.noted
    assert first == {"project": "attnzoo", "name": "mine"}
    assert (trackio.config["max_steps"], trackio.config["seed"]) == (2, 1)
    assert [key for row in curves for key in row if key in ("loss", "validation_per")].count("loss") == 2
    assert any("validation_per" in row for row in curves)
    assert last == "finished"


def test_a_run_names_the_commit_of_its_own_code_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package may be inside a repository of the user."""
    assert re.match(r"[0-9a-f]{40}", describe_run(1, "fp32", 1)["git_commit"])
    place = tmp_path / ".venv" / "attnzoo" / "training" / "run_folder.py"
    place.parent.mkdir(parents=True)
    for command in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a", "--allow-empty"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr("attnzoo.training.loop.run_folder.__file__", str(place))
    assert describe_run(1, "fp32", 1)["git_commit"] is None
