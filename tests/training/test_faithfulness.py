"""The study of what attention explains: its measurements, compared with loops, and its rules on both kinds of data."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attnzoo.training.statistics import Interval
from attnzoo.training.studies import faithfulness
from attnzoo.training.studies.attention_interventions import (
    Predictions,
    adversarial,
    changed_attention,
    jensen_shannon,
    permuted,
    total_variation,
    uniform,
)
from attnzoo.training.studies.verdicts import Rule, interval
from scipy.spatial.distance import jensenshannon
from torch import Tensor

from tests.factory import padded, tiny_model, words

REAL = [[1, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]
WIRINGS: list[dict[str, Any]] = [{"wiring": "luong", "input_feeding": feed} for feed in (False, True)]
WIRINGS += [{"wiring": "bahdanau"}]


def classifier(**fields: Any) -> Predictions:
    model = tiny_model("self-attentive", **fields).eval().requires_grad_(False)
    batch = padded(REAL)
    return Predictions(model, batch, batch["attention_mask"].bool())


def translator(**fields: Any) -> Predictions:
    model = tiny_model("attentional-rnn", **fields).eval().requires_grad_(False)
    batch = padded(REAL) | {"decoder_input_ids": words(3, 4, seed=1)}
    return Predictions(model, batch, batch["attention_mask"].bool(), torch.tensor([0, 3, 2]))


SUBJECTS = [classifier, translator]


def same(weights: Tensor) -> Tensor:
    return weights.log()


@pytest.mark.parametrize("subject", [classifier, *(lambda fields=fields: translator(**fields) for fields in WIRINGS)])
def test_weights_are_replaced_where_they_are_read(subject: Any) -> None:
    """The same weights change nothing; others change the chosen step and no earlier one; then all is as before."""
    batch = subject()
    torch.testing.assert_close(batch.under(same), batch.probabilities)
    with changed_attention(batch.model, uniform(batch.mask), batch.steps) as recorded:
        outputs = batch.model(**batch.batch)
    for row, real in enumerate(batch.mask):
        expected = real / real.sum()
        if batch.steps is None:
            torch.testing.assert_close(recorded[0][row, 0], expected.to(recorded[0].dtype))
        else:
            step = int(batch.steps[row])
            weights = torch.cat(recorded, dim=1)[row]
            torch.testing.assert_close(weights[step], expected.to(weights.dtype))
            before = batch.model(**batch.batch).logits[row, :step]
            torch.testing.assert_close(outputs.logits[row, :step], before)
    assert total_variation(batch.under(uniform(batch.mask)), batch.probabilities).max() > 1e-4
    torch.testing.assert_close(batch.under(same), batch.probabilities)
    assert not any(module._forward_hooks for module in batch.model.modules())


def test_uniform_weights_give_the_mean_of_the_states() -> None:
    """By hand: the sentence matrix of Lin's model is then the mean of the encoder's outputs in every row."""
    batch = classifier()
    model = batch.model
    states = model.model(**batch.batch).last_hidden_state
    mean = (states * batch.mask.unsqueeze(-1)).sum(dim=1) / batch.mask.sum(dim=1, keepdim=True)
    pooled = mean.unsqueeze(1).expand(-1, model.config.num_hops, -1).flatten(1)
    expected = model.classifier(model.hidden_proj(pooled).relu()).softmax(dim=-1)
    torch.testing.assert_close(batch.under(uniform(batch.mask)), expected)


def test_permuted_weights_are_those_of_the_row_at_other_real_tokens() -> None:
    mask = torch.tensor(REAL).bool()
    weights = torch.rand(3, 2, 6).masked_fill(~mask.unsqueeze(1), 0.0)
    new = permuted(mask, torch.Generator().manual_seed(0))(weights).exp()
    assert not torch.equal(new, weights)
    torch.testing.assert_close(new.sort(dim=-1).values, weights.sort(dim=-1).values)
    assert bool((new.masked_select(~mask.unsqueeze(1)) == 0).all())
    torch.testing.assert_close(new.sum(dim=1).sort(dim=-1).values, weights.sum(dim=1).sort(dim=-1).values)  # all hops


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_removed_token_is_a_source_without_it(subject: Any) -> None:
    batch = subject()
    is_removed = torch.zeros_like(batch.mask)
    is_removed[:, 2] = True
    found = batch.without(is_removed)
    for row in range(len(batch.mask)):
        kept = batch.mask[row] & ~is_removed[row]
        inputs = {"input_ids": batch.batch["input_ids"][row : row + 1, kept]}
        if batch.steps is not None:
            inputs["decoder_input_ids"] = batch.batch["decoder_input_ids"][row : row + 1, : int(batch.steps[row]) + 1]
        logits = batch.model(**inputs).logits
        alone = logits if batch.steps is None else logits[:, -1]
        torch.testing.assert_close(found[row : row + 1], alone.softmax(dim=-1), atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_gradients_are_differences_with_the_weights_held_fixed(subject: Any) -> None:
    batch = subject()
    embeddings = batch.model.get_input_embeddings()(batch.batch["input_ids"])
    inputs = {name: value for name, value in batch.batch.items() if name != "input_ids"}
    held: list[Tensor] = []
    with changed_attention(batch.model, same, None) as recorded:
        batch.model(**batch.batch)
        held = list(recorded)

    def probability(row: int, values: Tensor) -> float:
        calls = iter(held)
        with changed_attention(batch.model, lambda _: next(calls).log(), None):
            logits = batch.model(**inputs, inputs_embeds=values).logits
        chosen = logits if batch.steps is None else logits[torch.arange(3), batch.steps]
        return float(chosen.softmax(dim=-1)[row, batch.chosen[row, 0]])

    found = batch.gradients()
    for row, place in ((0, 0), (1, 3), (2, 2)):
        step = torch.zeros_like(embeddings)
        step[row, place] = 1e-4 * embeddings[row, place]
        slope = (probability(row, embeddings + step) - probability(row, embeddings - step)) / 2e-4
        assert abs(slope) == pytest.approx(float(found[row, place]), rel=1e-3, abs=1e-7)


def test_the_divergence_equals_scipys() -> None:
    one, other = torch.rand(2, 5, 7, dtype=torch.float64).softmax(dim=-1)
    other[:, 0] = 0
    other /= other.sum(dim=-1, keepdim=True)
    expected = [jensenshannon(a, b, base=2) ** 2 for a, b in zip(one.numpy(), other.numpy(), strict=True)]
    np.testing.assert_allclose(jensen_shannon(one, other).numpy(), expected, rtol=1e-10)


def test_the_search_finds_other_weights_where_they_change_nothing_and_none_where_they_decide() -> None:
    generator = torch.Generator().manual_seed(0)
    deciding = classifier()
    assert adversarial(deciding, 1e-6, 20, generator).max() == 0
    for parameter in deciding.model.model.rnn.parameters():
        parameter.zero_()  # every state is 0, so that any weights give the same sentence matrix
    free = Predictions(deciding.model, deciding.batch, deciding.mask)
    assert adversarial(free, 1e-6, 100, generator).min() > 0.4


def test_tokens_are_removed_in_the_order_of_their_values() -> None:
    batch = classifier()
    batch.is_word[:, 5] = False  # a special token stays
    order = torch.arange(18.0).view(3, 6)
    removed: list[Tensor] = []
    batch.without = lambda is_removed: removed.append(is_removed) or batch.probabilities  # type: ignore[method-assign,func-returns-value]
    lost = faithfulness.lost_probability(batch, order)
    assert lost.abs().max() == 0
    for share, is_removed in zip(faithfulness.SHARES, removed, strict=True):
        for row, words_of_row in enumerate(batch.is_word):
            count = math.ceil(share * int(words_of_row.sum()))
            expected = words_of_row.nonzero()[:, 0].tolist()[-count:]
            assert is_removed[row].nonzero()[:, 0].tolist() == expected


def test_rank_correlation_is_over_the_words_alone() -> None:
    one = torch.tensor([[1.0, 2, 3, 99], [1, 1, 1, 0]])
    other = torch.tensor([[3.0, 2, 1, 99], [1, 2, 3, 0]])
    is_word = torch.tensor([[True, True, True, False]] * 2)
    found = faithfulness.rank_correlation(one, other, is_word)
    assert found[0] == -1
    assert math.isnan(found[1])  # all values are equal


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    samples = random.exponential(size=(400, 60))
    held = [found.low <= 1 <= found.high for found in map(interval, samples)]
    assert 0.88 < np.mean(held) < 0.98
    assert interval([1.0, float("nan"), 1.0]) == Interval(1, 1, 1)
    with pytest.raises(ValueError, match="not a single example"):
        interval([float("nan")])


def test_a_rule_needs_the_whole_interval() -> None:
    rule = Rule(0.5, 0.1, "much", "some", "little")
    verdicts = [rule.verdict(Interval(0, *bounds)) for bounds in ((0.6, 0.9), (0.4, 0.9), (0.0, 0.09), (0.05, 0.2))]
    assert verdicts == ["much", "some", "little", "some"]


@pytest.mark.parametrize("kind", ["attention", "no attention"])
def test_the_rules_tell_a_model_that_needs_its_weights_from_one_that_does_not(kind: str) -> None:
    """A copy task by hand: the prediction is the token of largest weight, or it does not depend on weights."""
    random = np.random.default_rng(0)
    count = 200
    if kind == "attention":  # the prediction follows the weights
        figures = {"permuted": random.binomial(10, 0.85, count) / 10, "uniform": random.binomial(1, 0.9, count)}
        figures |= {"uniform accuracy": -random.binomial(1, 0.6, count), "adversarial": random.uniform(0, 0.1, count)}
        figures |= {"weight and removal": random.uniform(0.6, 1, count)}
    else:
        figures = {"permuted": random.binomial(10, 0.02, count) / 10, "uniform": random.binomial(1, 0.01, count)}
        figures |= {"uniform accuracy": random.choice([-1, 0, 1], count), "adversarial": random.uniform(0.7, 1, count)}
        figures |= {"weight and removal": random.uniform(-0.5, 0.5, count)}
    measures = {measure.name: measure for measure in faithfulness.TESTS}
    said = [measures[name].rule.verdict(interval(values)).split()[0] for name, values in figures.items()]
    expected = ["Most", "Most", "Uniform", "The", "The"] if kind == "attention" else ["Few", "Few", "No", "Very", "The"]
    assert said == expected
    removal = measures["weight and removal"].rule.verdict(interval(figures["weight and removal"]))
    assert ("hardly" in removal) == (kind == "no attention")


def test_the_command_measures_two_seeds(run: Path, dictionary: Path, tmp_path: Path, capsys: Any) -> None:
    best, output = str(run / "best"), tmp_path / "new" / "results"
    data = f"--set=task.data.path={dictionary}"
    faithfulness.main([best, best, "--examples", "20", "-o", str(output), data])
    printed = capsys.readouterr().out
    found = json.loads((output / "faithfulness.json").read_text())["tests"]
    assert list(found) == [measure.name for measure in faithfulness.TESTS]
    assert all(row["low"] <= row["mean"] <= row["high"] for row in found.values())
    assert all(row["verdict"] in printed for row in found.values())
    assert found["seeds"]["mean"] == pytest.approx(0, abs=1e-6)  # twice the same folder
    assert (output / "faithfulness.png").stat().st_size > 20_000
    with pytest.raises(SystemExit, match="--examples must be at least 1, got 0"):
        faithfulness.main([best, "--examples", "0", data])
    with pytest.raises(SystemExit, match="is not a checkpoint folder"):
        faithfulness.main([str(tmp_path), data])


def test_a_model_without_such_attention_is_refused() -> None:
    for kind, said in (
        ("transformer-encoder-decoder", "0 layers of attention that can be replaced"),
        ("cho-cho_gru-forward", "0 layers of attention that can be replaced"),
        ("luong-lstm-general-predictive-feeding", r"window='predictive' \(local-p\) do not"),
    ):
        with pytest.raises(ValueError, match=said), changed_attention(tiny_model(kind), same):
            pass
