"""Two processes train like one process with the same batches, and lose or repeat no part of the work."""

import functools
import gc
import json
import math
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
import yaml
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.commands.config.config_args import load_config_from_file
from attnzoo.training.commands.exits import exit_on_user_error
from attnzoo.training.loop import progress
from attnzoo.training.loop.checkpoint import checkpoints
from attnzoo.training.loop.setup import _mixed_precision, setup
from attnzoo.training.recipe import load_recipe, make_task
from attnzoo.training.tasks.translation import Translation
from attnzoo.training.train import end, main, next_step
from safetensors.torch import load_file
from torch.distributed import run
from torch.nn.parallel import DistributedDataParallel
from transformers import PreTrainedTokenizerFast

from tests.regular_language import SMALL
from tests.training.reviews import COLUMNS
from tests.training.reviews import SMALL as REVIEWS
from tests.training.runs import ROOT, command_line, log_rows, overrides, start, train_recipe
from tests.training.sharded_training import allow_sharding

STEPS = 20


def sets(dictionary: Path, processes: int, *more: str) -> list[str]:
    """A training whose optimiser steps have two batches in all."""
    return [
        *(*SMALL, f"task.data.path={dictionary}", f"training.max_steps={STEPS}", "training.log_every=1"),
        *(f"training.accumulation_steps={2 // processes}", "training.evaluations=2", "training.ema_decay=0.9"),
        *("training.checkpoint_every=8", "training.keep_checkpoints=9", "training.warmup_steps=2", *more),
    ]


def join(environment: dict[str, str], is_sharded: bool, seconds: float) -> None:
    """Set the variables of one of several processes, as torchrun and Accelerate's launcher do."""
    os.environ.update(environment)
    if environment["RANK"] == "0":  # whose clock decides
        progress.SECONDS_TO_CHECKPOINT = seconds
    if is_sharded:
        allow_sharding()
    end_training = Accelerator.end_training

    def end(accelerator: Accelerator) -> None:
        assert not any(type(kept) is DistributedDataParallel for kept in gc.get_objects())  # else the process may hang
        end_training(accelerator)

    Accelerator.end_training = end  # type: ignore[method-assign]


def train_on_two(
    dictionary: Path,
    output: Path,
    *more: str,
    resume: bool = False,
    is_sharded: bool = False,
    seconds: float = math.inf,
) -> Path:
    """A training on two CPU processes, with a checkpoint after these seconds; the output folder."""
    environment: dict[str, str] = {}
    if is_sharded:  # what `accelerate launch` makes of the file
        settings = yaml.safe_load((ROOT / "configs" / "accelerate" / "fsdp.yaml").read_text())["fsdp_config"]
        environment = {"ACCELERATE_USE_FSDP": "true", "FSDP_CPU_RAM_EFFICIENT_LOADING": "true"}
        environment |= {name.upper(): str(settings[name]) for name in settings}
    arguments = command_line("demo", output, sets(dictionary, 2, *more), *(["--resume"] if resume else []))
    for rank, (code, errors) in enumerate(run_two(arguments, environment, is_sharded, seconds=seconds)):
        assert code == 0, f"rank {rank}: {errors[-3000:]}"
    return output


def run_two(
    arguments: list[str],
    environment: dict[str, str],
    is_sharded: bool = False,
    program: Any = main,
    seconds: float = math.inf,
) -> list[tuple[int | None, str]]:
    """A program on two CPU processes; the exit code of each and what it said on the error stream."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment |= {"ACCELERATE_USE_CPU": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [environment | {"RANK": rank, "LOCAL_RANK": rank} for rank in ("0", "1")]
    processes = [start(arguments, functools.partial(join, rank, is_sharded, seconds), program) for rank in ranks]
    return [process.finish() for process in processes]


def prepare(arguments: list[str]) -> None:
    """Prepare a training of translation, and write down every tokenizer and every batch of rows that is encoded."""
    folder, *overrides = arguments
    datasets.config.HF_DATASETS_CACHE = Path(folder) / "cache"
    make_tokenizer, encoder = Translation.make_tokenizer, Translation.encoder

    def note(what: str) -> None:
        with (Path(folder) / f"rank-{os.environ['RANK']}").open("a") as file:
            file.write(f"{what}\n")

    def noted_tokenizer(task: Translation) -> PreTrainedTokenizerFast:
        note("tokenizer")
        return make_tokenizer(task)

    def noted_encoder(task: Translation, tokenizer: Any) -> Any:
        encode = encoder(task, tokenizer)

        def noted(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
            note(f"{len(rows['source'])} rows")
            return encode(rows)

        return noted

    Translation.make_tokenizer, Translation.encoder = noted_tokenizer, noted_encoder  # type: ignore[method-assign]
    recipe = load_recipe(str(ROOT / "configs" / "small_transformer_multi30k.yaml"), overrides)
    run = setup(recipe, make_task(recipe), Path(folder) / "run", resume=False, overwrite=False)
    order: Any = run.state.batches.order
    note(f"{len(order.lengths)} lengths, with the sum {order.lengths.sum()}")
    del run.model
    end(run.accelerator)


@pytest.fixture(scope="module")
def one(dictionary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_recipe("demo", tmp_path_factory.mktemp("one"), sets(dictionary, 1))


def torchrun(arguments: list[str]) -> None:
    os.environ["ACCELERATE_USE_CPU"] = "1"
    run.main(arguments)


@pytest.fixture(scope="module")
def two(dictionary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With torchrun, as in docs/several_devices.md. The other trainings on two processes do not use it."""
    output = tmp_path_factory.mktemp("two")
    arguments = ["--nproc_per_node=2", "--standalone", "-m", "attnzoo.training.train"]
    launched = start([*arguments, *command_line("demo", output, sets(dictionary, 2))], program=torchrun)
    code, errors = launched.finish()
    assert code == 0, errors[-3000:]
    return output


def test_processes_that_do_not_know_of_each_other_are_refused(
    dictionary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchrun on CPUs without the variable that Accelerate needs."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(SystemExit, match=r"2 processes were started, .* ACCELERATE_USE_CPU=1"):
        train_recipe("demo", tmp_path, sets(dictionary, 1))
    assert not list(tmp_path.rglob("*.safetensors"))


def test_two_processes_give_the_loss_curve_of_one(one: Path, two: Path) -> None:
    losses = [[row["loss"] for row in log_rows(output, "loss")] for output in (one, two)]
    assert len(losses[0]) == STEPS
    assert losses[0][-1] < losses[0][0] - 1  # there is a curve
    torch.testing.assert_close(*map(torch.tensor, losses), rtol=1e-5, atol=1e-5)


OTHERS = {
    "self_attentive_sst2": [*REVIEWS, *(f"task.data.{key}={value}" for key, value in COLUMNS.items())],
    "small_transformer_multi30k": ["training.label_smoothing=0", "task.data.vocabulary_size=60"],
    "small_transformer_sotu_causal": [
        "task.data.vocabulary_size=300",
        "task.data.block_size=16",
        "task.data.texts=lines",
    ],
}


@pytest.mark.parametrize(
    "recipe",
    # The demo has its kind of data, and the causal one its kind of model.
    [pytest.param(name, marks=pytest.mark.slow if "multi30k" in name else ()) for name in OTHERS],
)
def test_two_processes_train_the_other_families_as_one_does(recipe: str, reviews: Path, tmp_path: Path) -> None:
    path = reviews
    more = [*OTHERS[recipe], *overrides("training", max_steps=6, log_every=1, evaluations=1, max_minutes=None)]
    more += overrides("training", batch_tokens=120, precision="fp32")
    if "transformer" in recipe:
        more += overrides("model", hidden_size=32, num_hidden_layers=1, num_attention_heads=2, dropout=0)
        lines = [f"{number} dogs see a {colour}." for number in range(200) for colour in ("red", "tan")]
        path = tmp_path / ("texts.txt" if "causal" in recipe else "texts.jsonl")
        pairs = (json.dumps({"en": line, "de": line[::-1]}) for line in lines)
        path.write_text("\n".join(pairs if path.suffix == ".jsonl" else lines))
    more.append(f"task.data.path={path}")
    alone, shared = tmp_path / "one", tmp_path / "two"
    train_recipe(recipe, alone, [*more, "training.accumulation_steps=2"])
    for rank, (code, errors) in enumerate(run_two(command_line(recipe, shared, more), {})):
        assert code == 0, f"rank {rank}: {errors[-3000:]}"
    losses = [[row["loss"] for row in log_rows(output, "loss")] for output in (alone, shared)]
    assert len(losses[0]) == 6
    torch.testing.assert_close(*map(torch.tensor, losses), rtol=1e-5, atol=1e-5)


def test_both_evaluate_every_example_once(one: Path, two: Path) -> None:
    for alone, shared in zip(log_rows(one, "validation"), log_rows(two, "validation"), strict=True):
        assert shared["validation"]["examples"] == alone["validation"]["examples"]
        # A weight that differs in its last digits may change a word or two, no more.
        assert shared["validation"]["per"] == pytest.approx(alone["validation"]["per"], abs=3)


def test_they_write_one_run(one: Path, two: Path) -> None:
    names = [sorted(str(path.relative_to(output)) for path in output.rglob("*")) for output in (one, two)]
    assert names[0] == names[1]
    first, second = json.loads((checkpoints(two)[-1] / "state.json").read_text())["processes"]
    assert first["random"]["torch"] != second["random"]["torch"]  # each has random numbers of its own
    assert json.loads((two / "run.json").read_text())["processes"] == 2
    first, second = (load_file(output / "last" / "model.safetensors") for output in (one, two))
    for name, weight in first.items():
        torch.testing.assert_close(second[name], weight, rtol=1e-3, atol=1e-3)


def test_one_of_two_processes_prepares_the_data_for_both(tmp_path: Path) -> None:
    rows = [f"{number:b} a\t{number:o} b" for number in range(300)]
    (tmp_path / "rows.tsv").write_text("\n".join(["en\tde", *rows]) + "\n")
    small = ["model.hidden_size=8", "model.num_hidden_layers=1", "task.data.vocabulary_size=30"]
    arguments = [str(tmp_path), f"task.data.path={tmp_path / 'rows.tsv'}", "training.batch_tokens=100", *small]
    for code, errors in run_two(arguments, {}, program=prepare):
        assert code == 0, errors[-3000:]
    first, second = ((tmp_path / f"rank-{rank}").read_text().splitlines() for rank in (0, 1))
    assert first[0] == "tokenizer"
    assert sum(int(line.split()[0]) for line in first[1:-1]) == len(rows)
    assert second == first[-1:]

    (tmp_path / "rows.tsv").write_text("\n".join(["en\tde", *rows[:200]]) + "\n")  # nothing of the former rows is taken
    for code, errors in run_two(arguments, {}, program=prepare):
        assert code == 0, errors[-3000:]
    again = (tmp_path / "rank-0").read_text().splitlines()[len(first) :]
    assert sum(int(line.split()[0]) for line in again[1:-1]) == 200


def test_two_processes_say_what_is_wrong_with_the_data(tmp_path: Path) -> None:
    """Also when only the main process found it."""
    (tmp_path / "rows.tsv").write_text("en\tde\n" + "".join(f"{number:b} a\t{number} b\n" for number in range(300)))
    arguments = [str(tmp_path), f"task.data.path={tmp_path / 'rows.tsv'}", "task.data.vocabulary_size=5"]
    for code, errors in run_two(arguments, {}, program=prepare):
        assert code
        assert "task.data.vocabulary_size is 5, and the characters of the training rows are" in errors


def test_two_processes_resume(dictionary: Path, two: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    shutil.copytree(two, output)
    (output / "run.json").unlink()
    for folder in checkpoints(output)[2:]:
        folder.rename(folder.with_name(f".{folder.name}"))  # as if it had been killed after the second
    (checkpoints(output)[-1] / "state.json").write_text("{}")  # and this had been damaged since
    train_on_two(dictionary, output, resume=True, seconds=0)
    assert [path.name for path in checkpoints(output)] == [f"step-{step:08}" for step in range(12, STEPS + 1)]
    assert (output / "last" / "model.safetensors").read_bytes() == (two / "last" / "model.safetensors").read_bytes()
    assert [row["loss"] for row in log_rows(output, "loss")] == [row["loss"] for row in log_rows(two, "loss")]


@pytest.mark.parametrize("streaming", [False, True], ids=["held", "streamed"])
def test_a_run_goes_on_with_another_number_of_processes(
    streaming: bool, dictionary: Path, two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two processes, then one, then two again: a step has the same batches as before, and the loss is the same.

    Of the stream, the second and the third of them read the second epoch.
    """
    whole, path, more = two, dictionary, []
    if streaming:
        path, whole, more = tmp_path / "words.csv", tmp_path / "whole", ["task.data.streaming=true"]
        words = [line.split("  ") for line in dictionary.read_text().splitlines()[1:500]]
        path.write_text("".join(f"{word},{phonemes}\n" for word, phonemes in [["word", "pronunciation"], *words]))
        train_on_two(path, whole, *more)
        epochs = [row["epoch"] for row in log_rows(whole, "loss")]
        assert epochs[7] == 0 < epochs[15] < 2
    output = shutil.copytree(whole, tmp_path / "run")

    def interrupt(after: int) -> None:
        (output / "run.json").unlink()
        for folder in checkpoints(output)[after:]:
            shutil.rmtree(folder)

    interrupt(1)
    train_recipe("demo", output, sets(path, 2, *more), "--resume")
    assert (
        "step-00000008: the number of processes was 2 and is 1; each takes 2 of the 2 batches"
        in capsys.readouterr().out
    )
    interrupt(2)
    assert len(json.loads((checkpoints(output)[-1] / "state.json").read_text())["processes"]) == 1
    train_on_two(path, output, *more, resume=True)
    assert len(json.loads((checkpoints(output)[-1] / "state.json").read_text())["processes"]) == 2
    losses = [[row["loss"] for row in log_rows(folder, "loss")] for folder in (whole, output)]
    assert len(losses[1]) == STEPS
    torch.testing.assert_close(*map(torch.tensor, losses), rtol=1e-6, atol=1e-6)

    if streaming:  # the same number of processes goes on bit by bit
        shutil.rmtree(output)
        shutil.copytree(whole, output)
        interrupt(1)
        train_on_two(path, output, *more, resume=True)
        weights = [(folder / "last" / "model.safetensors").read_bytes() for folder in (whole, output)]
        assert weights[0] == weights[1]


def read_stream(arguments: list[str]) -> None:
    """Take all batches of the first epoch, and write down how many training rows this process encodes."""
    folder, *overrides = arguments
    encoder, encoded = Translation.training_encoder, []

    def counting(task: Translation, tokenizer: Any) -> Any:
        encode = encoder(task, tokenizer)

        def counted(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
            encoded.append(len(rows["source"]))
            return encode(rows)

        return counted

    datasets.config.HF_DATASETS_CACHE = Path(folder) / "cache"
    Translation.training_encoder = counting  # type: ignore[method-assign]
    recipe = load_recipe(str(ROOT / "configs" / "small_transformer_multi30k.yaml"), overrides)
    with exit_on_user_error():
        run = setup(recipe, make_task(recipe), Path(folder) / "run", resume=False, overwrite=False)
        steps = 0
        while not run.state.batches.epoch:
            next_step(run, [])
            steps += 1
    (Path(folder) / f"rank-{os.environ['RANK']}.json").write_text(json.dumps([sum(encoded), steps]))
    del run.model
    end(run.accelerator)


def stream_of(folder: Path, rows: int) -> list[str]:
    """The arguments of ``read_stream`` for a csv with so many training rows."""
    for split, number in {"train": rows, "validation": 5, "test": 5}.items():
        lines = [f"{n:b} a,{n:o} b" for n in range(number)]
        (folder / f"{split}.csv").write_text("\n".join(["en,de", *lines]) + "\n")
    small = ["model.hidden_size=8", "model.num_hidden_layers=1", "task.data.vocabulary_size=30"]
    data = [f"task.data.path={folder}", "task.data.streaming=true"]
    return [str(folder), *data, *small, "training.batch_tokens=100", "training.accumulation_steps=2"]


def test_each_of_two_processes_encodes_half_of_a_stream(tmp_path: Path) -> None:
    for code, errors in run_two(stream_of(tmp_path, 1200), {}, program=read_stream):
        assert code == 0, errors[-3000:]
    first, second = (json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1))
    # The first step of the next epoch was taken, too, for which a small stream is read as a whole again.
    assert first[0] == second[0] == 2 * 600
    assert first[1] == second[1] > 20


def test_both_processes_end_if_one_has_no_rows(tmp_path: Path) -> None:
    found = run_two(stream_of(tmp_path, 3), {}, program=read_stream)
    assert [code for code, _ in found] == [1, 1]
    first, second = (errors for _, errors in found)
    assert "another process cannot use its part of the training data" in first
    assert "a stream of 3 rows does not fill the 4 batches of one optimiser step" in second


def test_processes_that_cannot_share_a_step_are_refused(
    dictionary: Path, two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = shutil.copytree(two, tmp_path / "run")
    (output / "run.json").unlink()
    monkeypatch.setattr(Accelerator, "num_processes", 3)
    with pytest.raises(SystemExit, match=r"has batches: 2, which 3 processes cannot share evenly; .* can be 1, 2\."):
        train_recipe("demo", output, sets(dictionary, 2), "--resume")


def test_accelerate_launch_that_starts_one_process_of_two_is_refused(
    dictionary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the variables that ``accelerate launch --cpu --num_processes 2`` sets."""
    for name, value in {"USE_CPU": "True", "DYNAMO_BACKEND": "NO"}.items():
        monkeypatch.setenv(f"ACCELERATE_{name}", value)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with pytest.raises(SystemExit, match=r"accelerate launch starts only one process on CPUs; .* torchrun"):
        train_recipe("demo", tmp_path, sets(dictionary, 1))


@pytest.mark.parametrize(
    ("precision", "device", "supports", "expected"),
    [
        *(("auto", "cuda", True, "bf16"), ("auto", "cuda", False, "fp16"), ("auto", "mps", True, "no")),
        *(("fp32", "cuda", True, "no"), ("bf16", "cpu", False, "bf16"), ("fp16", "cuda", True, "fp16")),
    ],
)
def test_auto_takes_the_precision_that_the_processor_multiplies_in(
    precision: str, device: str, supports: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_supported(including_emulation: bool = True) -> bool:
        return supports or including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", is_supported)
    assert _mixed_precision(precision, device) == expected


def test_one_process_trains_in_several_precisions(dictionary: Path, tmp_path: Path) -> None:
    for precision in ("fp32", "bf16"):
        more = "training.max_steps=1", f"training.precision={precision}"
        run = train_recipe("demo", tmp_path / precision, sets(dictionary, 1, *more))
        assert json.loads((run / "run.json").read_text())["precision"] == precision


def test_a_training_on_a_cpu_never_asks_cuda(dictionary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(**options: bool) -> bool:
        raise AssertionError("CUDA was asked")

    monkeypatch.setenv("ACCELERATE_USE_CPU", "1")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", asked)
    train_recipe("demo", tmp_path, sets(dictionary, 1, "training.max_steps=1", "training.precision=auto"))


def test_sharded_weights_give_the_same_curve_and_whole_checkpoints_and_resume(
    dictionary: Path, one: Path, two: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    train_on_two(dictionary, output, is_sharded=True)
    losses = [[row["loss"] for row in log_rows(folder, "loss")] for folder in (one, output)]
    torch.testing.assert_close(*map(torch.tensor, losses), rtol=1e-5, atol=1e-5)
    expected, weights = (load_file(folder / "last" / "model.safetensors") for folder in (two, output))
    assert weights.keys() == expected.keys()
    for name, weight in expected.items():
        torch.testing.assert_close(weights[name], weight, rtol=1e-3, atol=1e-3)
    (output / "run.json").unlink()
    checkpoints(output)[-1].rename(output / "end")  # as if it had been killed after the one before
    train_on_two(dictionary, output, resume=True, is_sharded=True)
    resumed = load_file(output / "last" / "model.safetensors")
    for name, weight in weights.items():
        assert torch.equal(resumed[name], weight), name


def test_sharded_weights_accumulate_gradients_and_need_no_moving_average(dictionary: Path, tmp_path: Path) -> None:
    more = ["training.max_steps=3", "training.ema_decay=0"]
    whole = train_recipe("demo", tmp_path / "whole", sets(dictionary, 1, *more, "training.accumulation_steps=4"))
    sharded = tmp_path / "sharded"
    train_on_two(dictionary, sharded, *more, "training.accumulation_steps=2", is_sharded=True)
    outputs = whole, sharded
    losses = [[row["loss"] for row in log_rows(output, "loss")] for output in outputs]
    torch.testing.assert_close(*map(torch.tensor, losses), rtol=1e-5, atol=1e-5)
    expected, weights = (load_file(output / "last" / "model.safetensors") for output in outputs)
    for name, weight in expected.items():
        torch.testing.assert_close(weights[name], weight, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("path", sorted((ROOT / "configs" / "accelerate").glob("*.yaml")), ids=lambda path: path.stem)
def test_accelerate_reads_the_files_for_its_launcher(path: Path) -> None:
    """Accelerate raises an error for unknown names. The plugin of FSDP is made as in a launched process."""
    config = load_config_from_file(str(path))
    assert config.num_processes > 1
    assert config.mixed_precision in (None, "no")  # the recipe decides
    if config.distributed_type == "FSDP":
        assert FullyShardedDataParallelPlugin(**settings_of_fsdp(config.fsdp_config)).fsdp_version == 2


def settings_of_fsdp(fields: dict[str, Any]) -> dict[str, Any]:
    """The arguments of the plugin, whose names have no prefix."""
    return {name if name == "fsdp_version" else name.removeprefix("fsdp_"): value for name, value in fields.items()}
