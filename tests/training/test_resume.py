"""A training that is killed, stopped or out of room loses nothing, and reaches the same weights, bit for bit."""

import functools
import json
import os
import pathlib
import pickle
import random
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from attnzoo.training.loop import checkpoint, progress, training_state
from attnzoo.training.loop.checkpoint import checkpoint_folder, checkpoints, recover, replacing, require_room, rotate
from attnzoo.training.loop.run_folder import read_run, write_row
from attnzoo.training.loop.stopping import signals_to_stop
from attnzoo.training.train import main
from transformers import AutoModelForSeq2SeqLM

from tests.regular_language import SMALL
from tests.training.runs import Running, command_line, log_rows, overrides, start

STEPS = 20
MAPS = Path("/proc/self/maps")
needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a full disk of Linux")
# Everything that has a state: dropout, moving average, accumulation, two epochs and more, evaluations on the way.
RECIPE = [
    *(*SMALL, "model.dropout=0.3"),
    *overrides("training", max_steps=STEPS, checkpoint_every=4, evaluations=2, accumulation_steps=2, ema_decay=0.9),
    "training.warmup_steps=2",
]


def arguments(few_words: Path, output: Path, *more: str) -> list[str]:
    return command_line("demo", output, [*RECIPE, f"task.data.path={few_words}"], *more)


def go_on(few_words: Path, output: Path) -> None:
    """Resume to the end in this process: starting another process takes longer than the rest of the training."""
    main(arguments(few_words, output, "--resume"))


def wait_for_a_checkpoint(training: Running, output: Path, after: Sequence[Path] = ()) -> None:
    """Wait until there is a newer checkpoint than the last of ``after``, or the training has ended."""
    while checkpoints(output)[-1:] == list(after)[-1:] and training.process.is_alive():
        time.sleep(0.005)


def result(output: Path) -> tuple[bytes, bytes, list[tuple[int, float]]]:
    """The weights of both repositories, and the loss of every logged step."""
    losses = [(row["step"], row["loss"]) for row in log_rows(output, "loss")]
    return *((output / name / "model.safetensors").read_bytes() for name in ("best", "last")), losses


def evaluated(output: Path) -> list[int]:
    """The evaluated steps, each once for any number of interruptions."""
    return [row["step"] for row in log_rows(output, "validation")]


@pytest.fixture(scope="module")
def uninterrupted(few_words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("uninterrupted") / "run"
    main(arguments(few_words, output))
    return output


def assert_like_uninterrupted(output: Path, uninterrupted: Path) -> None:
    assert result(output) == result(uninterrupted)
    run, expected = (json.loads((folder / "run.json").read_text()) for folder in (output, uninterrupted))
    assert run["validation"] == expected["validation"]
    assert run["total_steps"] == expected["total_steps"] == STEPS
    assert evaluated(output) == evaluated(uninterrupted)


# Kills ----------------------------------------------------------------------------------------------------------------


def kill_at_random(few_words: Path, output: Path, kills: int, seed: int) -> int:
    """Run to the end with this number of kills. Returns the number of kills that hit a running training."""
    chance, hits = random.Random(seed), 0
    training = start(arguments(few_words, output))
    while True:
        if hits < kills:
            wait_for_a_checkpoint(training, output, after=checkpoints(output))
            time.sleep(chance.uniform(0, 0.15))
            training.process.kill()
            code, errors = training.finish()
            hits += code == -signal.SIGKILL
            assert code in (0, -signal.SIGKILL), errors
        else:
            code, errors = training.finish()
            assert code == 0, errors
        if (output / "run.json").exists():
            return hits
        training = start(arguments(few_words, output, "--resume"))


def test_a_killed_training_resumes_to_the_same_weights(few_words: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """Of several trainings, the first one that still runs when it is killed."""
    output = next(folder for folder in map(tmp_path.joinpath, "123456789") if kill_at_random(few_words, folder, 1, 0))
    assert_like_uninterrupted(output, uninterrupted)


@pytest.mark.slow
def test_a_hundred_kills_are_no_worse_than_one(few_words: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """Several runs, each killed up to eight times at random moments; each ends like the uninterrupted run."""
    hits = seed = 0
    while hits < 100:
        seed += 1
        hits += kill_at_random(few_words, tmp_path / str(seed), kills=min(8, 100 - hits), seed=seed)
        assert_like_uninterrupted(tmp_path / str(seed), uninterrupted)


kill = functools.partial(signal.raise_signal, getattr(signal, "SIGKILL", 0))


def die_at(moment: str, calls: int, die: Callable[[], Any] = kill) -> None:
    """Kill this process, or stop it otherwise, at this call of a function of ``checkpoint``, or of ``Path.rename``."""
    place: Any = pathlib.Path if moment == "rename" else checkpoint
    function, left = getattr(place, moment), iter(range(calls - 1, -1, -1))

    def dying(*arguments: Any) -> Any:
        if next(left, None) == 0:
            die()
        return function(*arguments)

    setattr(place, moment, dying)


def close_terminal_at(moment: str, calls: int) -> None:
    """Give this process a terminal, which is closed at this call."""
    master, terminal = os.openpty()
    os.login_tty(terminal)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests run under nohup, which processes inherit
    die_at(moment, calls, functools.partial(os.close, master))


# The n-th write is killed before its files are known to be on the disk; or the n-th rename is not made, of which a
# write has two where it replaces something.
@pytest.mark.parametrize(("moment", "calls"), [("_sync", 2), ("rename", 1), ("rename", 4), ("rename", 9)])
def test_a_kill_while_a_checkpoint_is_written_costs_nothing(
    moment: str, calls: int, few_words: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    training = start(arguments(few_words, output), before=functools.partial(die_at, moment, calls))
    assert training.finish()[0] == -signal.SIGKILL
    for folder in [*checkpoints(output), *(output / name for name in ("best", "last") if (output / name).exists())]:
        assert any(folder.rglob("*.safetensors"))
    go_on(few_words, output)
    assert_like_uninterrupted(output, uninterrupted)
    assert not list(output.rglob(".*")), "nothing half-written is left"


def test_a_signal_to_stop_saves_first(few_words: Path, uninterrupted: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    stop = functools.partial(signal.raise_signal, signal.SIGTERM)
    signalled = functools.partial(die_at, "rename", 1, stop)  # which ends the first checkpoint
    code, errors = start(arguments(few_words, output), before=signalled).finish()
    assert code == 128 + signal.SIGTERM, errors
    step = int(checkpoints(output)[-1].name.removeprefix("step-"))
    assert f"stopped by SIGTERM at step {step}; --resume continues from there" in errors
    assert "Traceback" not in errors
    go_on(few_words, output)
    assert_like_uninterrupted(output, uninterrupted)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no such signal")
def test_a_closed_terminal_saves_first(few_words: Path, uninterrupted: Path, tmp_path: Path) -> None:
    """As when the kernel of a notebook restarts. To write to such a terminal is an error."""
    output = tmp_path / "run"
    closed = functools.partial(close_terminal_at, "rename", 1)
    assert start(arguments(few_words, output), before=closed).finish()[0] == 128 + signal.SIGHUP
    assert checkpoints(output)
    go_on(few_words, output)
    assert_like_uninterrupted(output, uninterrupted)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no such signal")
@pytest.mark.parametrize(("first", "second"), [(signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)])
def test_a_second_signal_stops_at_once_unless_it_is_a_closed_terminal(
    first: int, second: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "isatty", lambda number: False)  # a terminal of the tests stays open
    sent = [signal.SIGHUP, signal.SIGHUP, first, signal.SIGHUP]
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored
    with signals_to_stop() as received:
        for number in sent:
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(second)
    assert received == sent
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with signals_to_stop() as received:
        signal.raise_signal(signal.SIGHUP)
    assert signal.signal(signal.SIGHUP, before) == signal.SIG_IGN
    assert not received


# Damage ---------------------------------------------------------------------------------------------------------------


class Planted:
    """A pickle that runs code when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch planted",)


def flip_a_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def put_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FILES = ("model.safetensors", "optimizer.safetensors", "average.safetensors", "state.json", "manifest.json")
DAMAGES: dict[str, Callable[[Path], Any]] = {
    "a flipped bit": flip_a_bit,
    "cut short": lambda path: os.truncate(path, path.stat().st_size - 1 - path.stat().st_size // 10),
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "a folder in its place": put_a_folder,
    "a pickle in its place": lambda path: path.write_bytes(pickle.dumps(Planted())),
}


@pytest.fixture
def unfinished(uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that was killed at its end, with two checkpoints."""
    output = tmp_path / "run"
    shutil.copytree(uninterrupted, output)
    (output / "run.json").unlink()
    monkeypatch.chdir(tmp_path)
    return output


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_is_found(damage: str, uninterrupted: Path, tmp_path: Path) -> None:
    for name in FILES:
        folder = tmp_path / name
        shutil.copytree(checkpoints(uninterrupted)[-1], folder)
        assert checkpoint.damage(folder) is None
        DAMAGES[damage](folder / name)
        assert (checkpoint.damage(folder) or "").startswith(f"{name} ")


QUICK = [("a flipped bit", "optimizer.safetensors"), ("missing", "state.json")]


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        pytest.param(damage, name, marks=[] if (damage, name) in QUICK else pytest.mark.slow)
        for damage in DAMAGES
        for name in FILES
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_goes_on(
    damage: str, name: str, few_words: Path, uninterrupted: Path, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound, damaged = checkpoints(unfinished)
    DAMAGES[damage](damaged / name)
    go_on(few_words, unfinished)
    said = capsys.readouterr()
    assert f"{damaged}: {name} " in said.err
    assert f"continuing after step {int(sound.name.removeprefix('step-'))}" in said.out
    assert damaged.with_name(f"damaged-{damaged.name}").exists()
    assert_like_uninterrupted(unfinished, uninterrupted)
    assert not Path("planted").exists()


@pytest.mark.skipif(not MAPS.exists(), reason="needs /proc/self/maps, the mapped files of Linux")
def test_a_resumed_training_holds_no_file_of_its_checkpoint(
    few_words: Path, unfinished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old checkpoints are removed while it runs, and Windows cannot remove a file that is mapped."""
    removed = []

    def rotate_what_nobody_holds(output: Path, keep: int) -> None:
        assert str(output) not in MAPS.read_text()
        removed.append(keep)
        rotate(output, keep)

    monkeypatch.setattr(training_state, "rotate", rotate_what_nobody_holds)
    damaged = checkpoints(unfinished)[-1]
    flip_a_bit(damaged / "state.json")  # so that steps are left
    go_on(few_words, unfinished)
    assert removed


def test_where_no_checkpoint_is_sound_the_reasons_are_said(few_words: Path, unfinished: Path) -> None:
    older, newer = checkpoints(unfinished)
    put_a_folder(older / "model.safetensors")
    flip_a_bit(newer / "state.json")
    with pytest.raises(SystemExit) as stopped:
        go_on(few_words, unfinished)
    assert "holds only damaged checkpoints (step-00000020: state.json has changed" in str(stopped.value)
    assert "step-00000016: model.safetensors is not a file); --overwrite starts again" in str(stopped.value)
    assert checkpoints(unfinished) == [older, newer]


def test_a_checkpoint_with_pickles_is_refused_unread(few_words: Path, unfinished: Path) -> None:
    """Older versions wrote such checkpoints, and Accelerate would load the pickles."""
    for folder in checkpoints(unfinished):
        (folder / "manifest.json").unlink()
        (folder / "custom_checkpoint_0.pkl").write_bytes(pickle.dumps(Planted()))
    with pytest.raises(SystemExit, match="of an older version of attnzoo, which wrote pickles"):
        go_on(few_words, unfinished)
    assert not Path("planted").exists()


def change_state(folder: Path, change: Callable[[Any], Any]) -> None:
    state = json.loads((folder / "state.json").read_text())
    change(state)
    (folder / "state.json").write_text(json.dumps(state))
    checkpoint.write_manifest(folder)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"batches_per_epoch": 7}, "data has changed: an epoch had 7 batches"),
        ({"batches_per_step": None}, "is of an older version of attnzoo; --overwrite starts again"),
    ],
)
def test_a_sound_checkpoint_of_another_training_is_refused(
    entries: dict[str, Any], message: str, few_words: Path, unfinished: Path
) -> None:
    folder, damaged = checkpoints(unfinished)
    flip_a_bit(damaged / "model.safetensors")
    change_state(folder, lambda state: state["batches"].update(entries))
    with pytest.raises(SystemExit, match=message):
        go_on(few_words, unfinished)
    assert checkpoints(unfinished) == [folder, damaged], "what is refused changes nothing"


def test_a_checkpoint_of_a_gpu_goes_on_on_a_cpu(few_words: Path, uninterrupted: Path, unfinished: Path) -> None:
    for folder in checkpoints(unfinished):
        change_state(folder, lambda state: state["processes"][0]["random"].update(cuda=[0] * 16))
    go_on(few_words, unfinished)
    assert_like_uninterrupted(unfinished, uninterrupted)


def test_data_that_has_other_symbols_since_is_refused(few_words: Path, unfinished: Path, tmp_path: Path) -> None:
    path, recipe = tmp_path / "more.dict", unfinished / "recipe.yaml"
    path.write_text(few_words.read_text() + "\n" + "\n".join(f"Z{v}  Z AA" for v in ("A", "E", "I", "O", "U") * 9))
    recipe.write_text(recipe.read_text().replace(str(few_words), str(path)))
    with pytest.raises(SystemExit, match=r"another model: lm_head\.weight is \[38, 32\] there and \[40, 32\] here"):
        go_on(path, unfinished)


def test_a_damaged_line_of_the_log_is_left_out_and_said(
    few_words: Path, uninterrupted: Path, unfinished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = unfinished / "log.jsonl"
    log.write_bytes(b"\xff\n[3]\n" + log.read_bytes() + b'{"step": 21, "lo')
    go_on(few_words, unfinished)
    said = capsys.readouterr().err
    assert [f"log.jsonl: line {n} is not a valid log line and is removed" in said for n in (1, 2, 3)] == [1, 1, 0]
    assert_like_uninterrupted(unfinished, uninterrupted)


def test_damaged_figures_of_a_finished_run_are_named(uninterrupted: Path, tmp_path: Path) -> None:
    for text in ('{"seed": 1', "[]", "[" * 100_000):
        (tmp_path / "run.json").write_text(text)
        with pytest.raises(ValueError, match=r"run\.json is damaged"):
            read_run(tmp_path)


# Room and rights ------------------------------------------------------------------------------------------------------


def fill_the_disk(folder: str, largest: int) -> None:
    """Limit the size of files from the writing of this folder on, which looks like a full disk to a writer."""
    import resource  # not on Windows

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    mkdir = pathlib.Path.mkdir

    def limited(path: Path, *arguments: Any, **options: Any) -> None:
        if path.name == f".{folder}.new":
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
        mkdir(path, *arguments, **options)

    pathlib.Path.mkdir = limited  # type: ignore[method-assign,assignment]


# Bytes: less than the weights have, the optimiser's moments, or a state.
@pytest.mark.parametrize(("folder", "largest"), [("last", 100_000), ("step-00000008", 250_000), ("step-00000016", 0)])
def test_a_full_disk_costs_no_checkpoint(
    folder: str, largest: int, few_words: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    filled = functools.partial(fill_the_disk, folder, largest)
    code, errors = start(arguments(few_words, output), before=filled).finish()
    assert code == 1
    assert "error: could not write" in errors
    assert f"/{folder}: " in errors
    assert "Traceback" not in errors
    assert checkpoints(output)
    assert not list(output.rglob(".*.new"))
    go_on(few_words, output)
    assert_like_uninterrupted(output, uninterrupted)


@needs_dev_full
def test_a_full_disk_is_said_of_the_log_and_of_the_figures(tmp_path: Path) -> None:
    for name in ("log.jsonl", ".run.json.new"):
        (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"could not write .*log\.jsonl: .*No space left"):
        write_row(tmp_path / "log.jsonl", {"step": 1})
    with pytest.raises(OSError, match=r"could not write .*run\.json: .*No space left"):
        checkpoint.write_atomically(tmp_path / "run.json", "{}")


def test_too_little_room_is_said_before_training(
    few_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: usage._replace(free=100_000))
    with pytest.raises(SystemExit, match=r"need about \d+ MB and the disk of .* has 0 MB left"):
        main(arguments(few_words, tmp_path / "run"))
    assert not (tmp_path / "run" / "log.jsonl").exists()


def test_an_output_that_cannot_be_written_is_said_before_training(few_words: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(SystemExit, match=r"cannot write to .*choose another --output"):
        main(arguments(few_words, tmp_path / "file" / "run"))


# What is in the output folder -----------------------------------------------------------------------------------------


def test_a_run_is_not_lost_by_starting_another(few_words: Path, uninterrupted: Path, tmp_path: Path) -> None:
    finished, unfinished = tmp_path / "finished", tmp_path / "unfinished"
    shutil.copytree(uninterrupted, finished)
    shutil.copytree(uninterrupted, unfinished)
    (unfinished / "run.json").unlink()
    for output, message in ((finished, "holds a finished run"), (unfinished, "holds an unfinished run; --resume")):
        with pytest.raises(SystemExit, match=message):
            main(arguments(few_words, output))
        AutoModelForSeq2SeqLM.from_pretrained(output / "best")
    with pytest.raises(SystemExit, match="holds a finished run; there is nothing to resume"):
        main(arguments(few_words, finished, "--resume"))
    with pytest.raises(SystemExit, match=r"differs in model\.dropout, training\.batch_tokens; resume it") as refused:
        main(arguments(few_words, unfinished, "--resume", "--set=model.dropout=0.1", "--set=training.batch_tokens=99"))
    *_, command, _ = str(refused.value).split("`")
    main(shlex.split(command)[2:])
    assert (unfinished / "run.json").exists()
    (unfinished / "run.json").unlink()
    main(arguments(few_words, unfinished, "--resume", "--set=expected.per=1"))  # which is for the reader


def test_a_run_without_a_checkpoint_is_resumed_from_the_beginning(
    few_words: Path, uninterrupted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is no run, and where one was stopped early."""
    output = tmp_path / "run"
    for _ in range(2):
        main(arguments(few_words, output, "--resume"))
        assert f"{output} holds no checkpoint; starting from the beginning" in capsys.readouterr().out
        assert_like_uninterrupted(output, uninterrupted)
        (output / "run.json").unlink()
        shutil.rmtree(output / "checkpoints")
    with pytest.raises(SystemExit, match=r"another recipe, which differs in model\.dropout"):
        main(arguments(few_words, output, "--resume", "--set=model.dropout=0.1"))
    assert (output / "best" / "model.safetensors").exists()


def test_the_newest_checkpoints_are_kept(uninterrupted: Path) -> None:
    assert [path.name for path in checkpoints(uninterrupted)] == ["step-00000016", "step-00000020"]


def test_checkpoints_by_the_clock_change_nothing_else(
    few_words: Path, uninterrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SECONDS_TO_CHECKPOINT", 0.0)  # one after each step
    output = tmp_path / "run"
    main(arguments(few_words, output))
    assert [path.name for path in checkpoints(output)] == ["step-00000019", "step-00000020"]
    assert_like_uninterrupted(output, uninterrupted)
    shutil.rmtree(checkpoints(output)[1])
    (output / "run.json").unlink()
    go_on(few_words, output)
    assert_like_uninterrupted(output, uninterrupted)


def test_replacing_is_all_or_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "best"
    for text in ("one", "two"):
        with replacing(folder) as new:
            (new / "file").write_text(text)
            if text == "two":
                assert (folder / "file").read_text() == "one"
        assert (folder / "file").read_text() == text
    for error in (OSError("no space left"), Exception("No space left on device (os error 28)")):  # as Rust has it
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
