"""R-Drop: the disagreement beside a loop over labels, and a training that uses it."""

import math
from pathlib import Path

import pytest
import torch
from attnzoo.training.loop.r_drop import disagreement, twice
from attnzoo.training.train import main

from tests.regular_language import SMALL
from tests.training.runs import command_line, log_rows, overrides


@pytest.mark.parametrize("shape", [(3, 4), (5,)], ids=["tokens", "classes"])
def test_the_disagreement_is_that_of_a_loop_over_the_labels(shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    copies = torch.randn(2, *shape, 7, dtype=torch.float64)
    labels = torch.randint(0, 7, shape)
    labels[..., -1] = -100
    expected = 0.0
    for place in (labels != -100).nonzero().tolist():
        p, q = (copy[tuple(place)].softmax(0).tolist() for copy in copies)
        expected += sum(a * math.log(a / b) + b * math.log(b / a) for a, b in zip(p, q, strict=True)) / 2
    found = disagreement(copies.flatten(0, 1), twice({"labels": labels})["labels"])
    assert math.isclose(found.item(), expected, rel_tol=1e-12)
    assert disagreement(copies[:1].expand_as(copies).flatten(0, 1), torch.cat([labels, labels])) == 0


def test_its_gradient_draws_the_copies_together() -> None:
    torch.manual_seed(0)
    logits = torch.randn(4, 3, 7, dtype=torch.float64, requires_grad=True)
    labels = torch.zeros(4, 3, dtype=torch.long)
    assert torch.autograd.gradcheck(lambda values: disagreement(values, labels), logits)
    before = disagreement(logits, labels)
    (gradient,) = torch.autograd.grad(before, logits)
    assert disagreement(logits - 0.01 * gradient, labels) < before


def train(dictionary: Path, output: Path, dropout: float, r_drop: float) -> list[float]:
    """The losses of a short training."""
    sets = [*SMALL, f"task.data.path={dictionary}", *overrides("model", dropout=dropout)]
    sets += overrides("training", max_steps=3, log_every=1, r_drop=r_drop)
    main(command_line("demo", output, sets, "--overwrite"))
    return [row["loss"] for row in log_rows(output, "loss")]


def test_it_counts_only_where_dropout_makes_the_copies_differ(dictionary: Path, tmp_path: Path) -> None:
    plain, both = (train(dictionary, tmp_path / "run", dropout=0.0, r_drop=r_drop) for r_drop in (0.0, 5.0))
    assert both == pytest.approx(plain, rel=1e-4)  # equal up to rounding
    half, more = (train(dictionary, tmp_path / "run", dropout=0.5, r_drop=r_drop) for r_drop in (0.5, 50.0))
    assert more[0] > half[0] * 1.01  # both begin with the same weights and dropout


def test_a_negative_weight_is_refused(dictionary: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"training\.r_drop must not be negative, got -1"):
        train(dictionary, tmp_path / "run", dropout=0.5, r_drop=-1.0)
