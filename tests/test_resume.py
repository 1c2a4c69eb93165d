"""A training that is killed, stopped or out of room loses nothing, and goes on to the same weights bit for bit."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from attnzoo.training import checkpoint
from attnzoo.training.checkpoint import checkpoint_folder, checkpoints, recover, replacing, require_room, rotate
from attnzoo.training.train import main
from transformers import AutoModelForSeq2SeqLM

from .regular_language import SMALL

ROOT = Path(__file__).parent.parent
STEPS = 60
# Everything that has a state: dropout, moving average, accumulation, two epochs and more, evaluations on the way.
RECIPE = [
    *SMALL,
    f"training.max_steps={STEPS}",
    "training.checkpoint_every=7",
    "training.evaluations=3",
    "training.accumulation_steps=2",
    "training.ema_decay=0.9",
    "model.dropout=0.3",
]


def arguments(dictionary: Path, output: Path, *more: str) -> list[str]:
    sets = [f"--set={item}" for item in [*RECIPE, f"task.data.path={dictionary}"]]
    return [str(ROOT / "configs" / "demo.yaml"), "--output", str(output), *sets, *more]


def start(dictionary: Path, output: Path, *more: str, before: str = "", **options: Any) -> subprocess.Popen[str]:
    """A training in a process of its own, ``before`` being Python to run in it first."""
    code = f"import sys\n{before}\nfrom attnzoo.training.train import main\nmain(sys.argv[1:])"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments(dictionary, output, *more)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors


def go_on(dictionary: Path, output: Path) -> None:
    """To the end, in this process: starting another takes longer than what is left of the training."""
    main(arguments(dictionary, output, "--resume" if checkpoints(output) else "--overwrite"))


def wait_for_a_checkpoint(process: subprocess.Popen[str], output: Path, after: Sequence[Path] = ()) -> None:
    """Until there is a newer checkpoint than the last of ``after``, or the training has ended."""
    while checkpoints(output)[-1:] == list(after)[-1:] and process.poll() is None:
        time.sleep(0.005)


def result(output: Path) -> tuple[bytes, bytes, list[tuple[int, float]]]:
    """The weights of both repositories, and the loss of every logged step."""
    rows = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    losses = [(row["step"], row["loss"]) for row in rows if "loss" in row]
    return *((output / name / "model.safetensors").read_bytes() for name in ("best", "last")), losses


def evaluated(output: Path) -> list[int]:
    """The steps that were evaluated, each once however often it was interrupted."""
    rows = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    return [row["step"] for row in rows if "validation" in row]


@pytest.fixture(scope="module")
def uninterrupted(dictionary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("uninterrupted")
    code, errors = finish(start(dictionary, output))
    assert code == 0, errors
    return output


def assert_like_uninterrupted(output: Path, uninterrupted: Path) -> None:
    *weights, losses = result(output)
    *expected_weights, expected_losses = result(uninterrupted)
    assert weights == expected_weights
    assert [step for step, _ in losses] == [step for step, _ in expected_losses]
    last_step, last_loss = losses[-1]
    assert last_loss == expected_losses[-1][1], last_step
    run, expected = (json.loads((folder / "run.json").read_text()) for folder in (output, uninterrupted))
    assert run["validation"] == expected["validation"]
    assert run["total_steps"] == expected["total_steps"] == STEPS
    assert evaluated(output) == evaluated(uninterrupted)


# Kills ----------------------------------------------------------------------------------------------------------------


def kill_at_random(dictionary: Path, output: Path, kills: int, seed: int) -> int:
    """Run to the end, killed so many times on the way; how many of the kills hit a running training."""
    chance, hits = random.Random(seed), 0
    process = start(dictionary, output)
    while True:
        if hits < kills:
            wait_for_a_checkpoint(process, output, after=checkpoints(output))
            time.sleep(chance.uniform(0, 0.3))
            process.kill()
            code, errors = finish(process)
            hits += code == -signal.SIGKILL
            assert code in (0, -signal.SIGKILL), errors
        else:
            code, errors = finish(process)
            assert code == 0, errors
        if (output / "run.json").exists():
            return hits
        process = start(dictionary, output, "--resume" if checkpoints(output) else "--overwrite")


def test_a_killed_training_resumes_to_the_same_weights(dictionary: Path, uninterrupted: Path, tmp_path: Path) -> None:
    assert kill_at_random(dictionary, tmp_path / "run", kills=1, seed=0) == 1
    assert_like_uninterrupted(tmp_path / "run", uninterrupted)


@pytest.mark.slow
def test_ten_kills_are_no_worse_than_one(dictionary: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """As many runs as it takes, each killed up to three times at random moments and each like the uninterrupted."""
    hits = 0
    for seed in range(10):
        if hits < 10:
            hits += kill_at_random(dictionary, tmp_path / str(seed), kills=3, seed=seed)
            assert_like_uninterrupted(tmp_path / str(seed), uninterrupted)
    assert hits >= 10


# The n-th write is killed before its files are known to be on the disk; or the n-th rename is not made, of which a
# write has two where it replaces something.
@pytest.mark.parametrize(("moment", "calls"), [("_sync", 2), ("_sync", 4), ("rename", 1), ("rename", 4), ("rename", 6)])
def test_a_kill_while_a_checkpoint_is_written_costs_nothing(
    moment: str, calls: int, dictionary: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    before = f"""
import os, pathlib, signal
from attnzoo.training import checkpoint
calls = {calls}
def dying(function):
    def call(*arguments):
        global calls
        calls -= 1
        if calls == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return call
if "{moment}" == "rename":
    pathlib.Path.rename = dying(pathlib.Path.rename)
else:
    checkpoint._sync = dying(checkpoint._sync)
"""
    output = tmp_path / "run"
    assert finish(start(dictionary, output, before=before))[0] == -signal.SIGKILL
    for folder in [*checkpoints(output), *(output / name for name in ("best", "last") if (output / name).exists())]:
        assert any(folder.rglob("*.safetensors"))
    go_on(dictionary, output)
    assert_like_uninterrupted(output, uninterrupted)
    assert not list(output.rglob(".*")), "nothing half-written is left"


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "SIGINT")])
def test_a_signal_to_stop_saves_first(
    number: int, name: str, dictionary: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    process = start(dictionary, output)
    wait_for_a_checkpoint(process, output)
    process.send_signal(number)
    code, errors = finish(process)
    assert code == 128 + number, errors
    step = int(checkpoints(output)[-1].name.removeprefix("step-"))
    assert f"stopped by {name} at step {step}; --resume goes on from there" in errors
    assert "Traceback" not in errors
    go_on(dictionary, output)
    assert_like_uninterrupted(output, uninterrupted)


# Room and rights ------------------------------------------------------------------------------------------------------


def test_a_full_disk_costs_no_checkpoint(dictionary: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """No file may grow past a limit from the third write on, which is what a full disk looks like to a writer."""
    before = """
import resource, signal
from attnzoo.training import checkpoint
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
writes, aside = 0, checkpoint.shutil.rmtree
def count(folder, **options):
    global writes
    writes += folder.name.endswith(".new")
    if writes == 4:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
    return aside(folder, **options)
checkpoint.shutil.rmtree = count
"""
    output = tmp_path / "run"
    code, errors = finish(start(dictionary, output, before=before))
    assert code == 1
    assert "error: could not write" in errors
    assert "Traceback" not in errors
    assert checkpoints(output)
    assert not list(output.rglob(".*.new"))
    go_on(dictionary, output)
    assert_like_uninterrupted(output, uninterrupted)


def test_too_little_room_is_said_before_training(
    dictionary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: usage._replace(free=100_000))
    with pytest.raises(SystemExit, match=r"need about \d+ MB and the disk of .* has 0 MB left"):
        main(arguments(dictionary, tmp_path / "run"))
    assert not (tmp_path / "run" / "log.jsonl").exists()


def test_an_output_that_cannot_be_written_is_said_before_training(dictionary: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(SystemExit, match=r"cannot write to .*choose another --output"):
        main(arguments(dictionary, tmp_path / "file" / "run"))


# What is in the output folder -----------------------------------------------------------------------------------------


def test_a_run_is_not_lost_by_starting_another(dictionary: Path, uninterrupted: Path, tmp_path: Path) -> None:
    finished, unfinished = tmp_path / "finished", tmp_path / "unfinished"
    shutil.copytree(uninterrupted, finished)
    shutil.copytree(uninterrupted, unfinished)
    (unfinished / "run.json").unlink()
    for output, message in ((finished, "holds a finished run"), (unfinished, "holds a run that can go on; --resume")):
        with pytest.raises(SystemExit, match=message):
            main(arguments(dictionary, output))
        AutoModelForSeq2SeqLM.from_pretrained(output / "best")
    with pytest.raises(SystemExit, match="holds a finished run; there is nothing to resume"):
        main(arguments(dictionary, finished, "--resume"))
    with pytest.raises(SystemExit, match="holds no checkpoint; there is nothing to resume"):
        main(arguments(dictionary, tmp_path / "new", "--resume"))
    with pytest.raises(SystemExit, match=r"differs in model\.dropout, training\.batch_tokens"):
        main(arguments(dictionary, unfinished, "--resume", "--set=model.dropout=0.1", "--set=training.batch_tokens=99"))
    main(arguments(dictionary, unfinished, "--resume", "--set=expected.per=1"))  # which is for the reader
    assert (unfinished / "run.json").exists()


def test_the_newest_checkpoints_are_kept(uninterrupted: Path) -> None:
    assert [path.name for path in checkpoints(uninterrupted)] == ["step-00000056", "step-00000060"]


def test_replacing_is_all_or_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "best"
    for text in ("one", "two"):
        with replacing(folder) as new:
            (new / "file").write_text(text)
            if text == "two":
                assert (folder / "file").read_text() == "one"
        assert (folder / "file").read_text() == text
    for error in (OSError("no space left"), RuntimeError("file write failed")):
        with pytest.raises(OSError, match=r"could not write .*best"), replacing(folder) as new:  # noqa: PT012
            (new / "file").write_text("three")
            raise error
        assert (folder / "file").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_what_a_kill_left_is_put_back(tmp_path: Path) -> None:
    (tmp_path / ".best.old").mkdir()
    (tmp_path / ".best.new").mkdir()
    recover(tmp_path / "best")
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_rotation_keeps_the_newest_and_clears_the_unfinished(tmp_path: Path) -> None:
    for step in (5, 100, 20, 100_000_000):
        checkpoint_folder(tmp_path, step).mkdir(parents=True)
    (tmp_path / "checkpoints" / ".step-00000200.new").mkdir()
    rotate(tmp_path, keep=2)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000100", "step-100000000"]
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2


def test_room_is_measured(tmp_path: Path) -> None:
    require_room(tmp_path, 1)
    with pytest.raises(OSError, match="make room or choose another --output"):
        require_room(tmp_path, 10**18)
