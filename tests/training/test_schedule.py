"""Learning rates and optimisers of the papers."""

import math
import os
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from attnzoo.training.loop import progress, threads
from attnzoo.training.loop.progress import Clock
from attnzoo.training.loop.schedule import learning_rate, make_optimizer
from attnzoo.training.recipe import Training
from torch import nn


def rate(step: int = 0, progress: float = 0.0, epoch: float = 0.0, **settings: object) -> float:
    return learning_rate(step, progress, epoch, Training(max_steps=100, **({"warmup_steps": 0} | settings)))


def test_it_warms_up_and_decays_to_nothing() -> None:
    linear = {"learning_rate": 2.0, "warmup_steps": 9, "schedule": "linear"}
    assert rate(0, 0.0, **linear) == pytest.approx(0.2)
    assert rate(9, 0.0, **linear) == pytest.approx(2.0)
    assert rate(50, 0.5, **linear) == pytest.approx(1.0)
    assert rate(100, 1.0, **linear) == 0
    assert rate(25, 0.25, learning_rate=2.0, schedule="cosine") == pytest.approx(1 + math.cos(math.pi / 4))
    assert rate(99, 0.99, learning_rate=2.0, schedule="constant") == 2.0


@pytest.mark.parametrize("step", [1, 40, 4000, 4001, 100_000])
def test_inverse_square_root_is_vaswanis(step: int) -> None:
    """Vaswani et al., 2017, section 5.3: d^-0.5 min(s^-0.5, s w^-1.5), s from 1."""
    width, warm = 512, 4000
    expected = width**-0.5 * min(step**-0.5, step * warm**-1.5)
    settings = {"schedule": "inverse_sqrt", "warmup_steps": warm - 1, "learning_rate": (width * warm) ** -0.5}
    assert rate(step - 1, **settings) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("epoch", "luong", "with_dropout", "sutskever"),
    [(0, 1, 1, 0.7), (4.99, 1, 1, 0.7), (5, 1 / 2, 1, 0.35), (5.5, 1 / 2, 1, 0.175), (8, 1 / 16, 1 / 2, 0.7 / 2**7)],
)
def test_halving_is_luongs_and_sutskevers(epoch: float, luong: float, with_dropout: float, sutskever: float) -> None:
    """Luong et al., 2015, section 4.1, without and with dropout; Sutskever et al., 2014, section 3.4."""
    halving = {"schedule": "halving", "learning_rate": 1.0}
    assert rate(epoch=epoch, **halving) == pytest.approx(luong)
    assert rate(epoch=epoch, **halving, halve_after_epochs=8) == pytest.approx(with_dropout)
    halving["learning_rate"] = 0.7
    assert rate(epoch=epoch, **halving, halve_every_epochs=0.5) == pytest.approx(sutskever)


def test_sgd_has_no_momentum_and_adadelta_is_zeilers() -> None:
    """Two steps of each by hand: the second depends on their state."""
    gradients = [0.5, -2.0]

    def steps(**settings: object) -> float:
        weight = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
        optimizer = make_optimizer([weight], Training(max_steps=1, weight_decay=0.0, **settings))
        for gradient in gradients:
            weight.grad = torch.tensor([gradient], dtype=torch.float64)
            optimizer.step()
        return weight.item()

    assert steps(optimizer="sgd", learning_rate=0.7) == pytest.approx(1 - 0.7 * (0.5 - 2.0))
    # Zeiler, 2012, algorithm 1, rho = 0.95 and epsilon = 1e-6 as Bahdanau et al. have them
    weight, squares, updates = 1.0, 0.0, 0.0
    for gradient in gradients:
        squares = 0.95 * squares + 0.05 * gradient**2
        update = -math.sqrt(updates + 1e-6) / math.sqrt(squares + 1e-6) * gradient
        updates = 0.95 * updates + 0.05 * update**2
        weight += update
    assert steps(optimizer="adadelta", learning_rate=1.0) == pytest.approx(weight, rel=1e-9)
    # Kingma and Ba, 2015, with Vaswani's betas and epsilon
    weight, mean, squares = 1.0, 0.0, 0.0
    for step, gradient in enumerate(gradients, start=1):
        mean, squares = 0.9 * mean + 0.1 * gradient, 0.98 * squares + 0.02 * gradient**2
        weight -= 0.1 * (mean / (1 - 0.9**step)) / (math.sqrt(squares / (1 - 0.98**step)) + 1e-9)
    assert steps(optimizer="adam", learning_rate=0.1) == pytest.approx(weight, rel=1e-6)


def test_a_training_limited_by_minutes_takes_its_least_steps() -> None:
    """The minutes are over before the second step; the rate decays over the steps that are left."""
    clock = Clock(Training(max_minutes=1e-9, min_steps=4))
    progress = []
    for clock.steps in range(5):
        progress.append(clock.progress(Accelerator(cpu=True)))
    assert progress == pytest.approx([0, 0.25, 0.5, 0.75, 1])


def test_a_checkpoint_is_due_after_a_time_of_training_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses, as for an evaluation, do not count."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(progress, "SECONDS_TO_CHECKPOINT", 60.0)
    clock = Clock(Training(max_steps=1))
    for _ in range(2):
        now[0] += 59
        with clock.paused():
            now[0] += 100
        assert not clock.is_checkpoint_due()
        now[0] += 1
        assert clock.is_checkpoint_due()
        clock.checkpoint_begins()


def test_the_bar_shows_the_real_minutes_also_if_the_steps_take_longer() -> None:
    for settings, shown in (
        (Training(max_minutes=3, min_steps=1500), "4.2/3.0 minutes and 700/1,500 steps"),
        (Training(max_minutes=3), "4.2/3.0 minutes"),
        (Training(max_steps=2000), "700/2,000 steps"),
    ):
        clock = Clock(settings)
        clock.load_state_dict({"steps": 700, "minutes": 4.2, "seconds_since_log": 0.0})
        assert clock.described() == shown


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="Windows counts no ticks")
@pytest.mark.parametrize(("idle", "free"), [(0.0, 1), (0.4, 1), (1.6, 2), (3.0, 3)])
def test_processors_that_other_programs_use_are_not_free(
    idle: float, free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the idle seconds of all processors together, as Linux counts them: in ticks, since the start."""
    seconds, ticks = iter([100.0, 100.5]), os.sysconf("SC_CLK_TCK")
    counted = tmp_path / "stat"
    monkeypatch.setattr(threads, "STATISTICS", counted)
    monkeypatch.setattr(threads.time, "perf_counter", seconds.__next__)
    counted.write_text("cpu 1 2 3 0 5\ncpu0 1 2 3 0 5\n")
    monkeypatch.setattr(
        threads.time, "sleep", lambda _: counted.write_text(f"cpu 1 2 3 {round(idle * 0.5 * ticks)} 5\n")
    )
    assert threads.free_processors() == free
