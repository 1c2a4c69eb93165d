"""How well the attention of a model explains its predictions: ``attnzoo faithfulness runs/self_attentive_sst2/best``.

The command takes Lin's classifier and the RNN. It draws examples from the test split. For the RNN it draws one target
step of each, with teacher forcing. It changes the attention weights, or removes source tokens, and measures how the
prediction changes:

- how far the weights are from uniform
- permuted and uniform weights (Jain and Wallace, 2019, section 4.2.1; Wiegreffe and Pinter, 2019, section 3.2)
- the most different weights with the same prediction (Jain and Wallace, 2019, section 4.2.2)
- whether weights, gradients and the removal of single tokens rank the tokens alike (there, section 4.1)
- removal of the tokens of highest weight, compared with others (DeYoung et al., 2020, section 4: comprehensiveness)
- with the folders of other seeds: how much the weights differ from seed to seed (Wiegreffe and Pinter, 2019, section
  3.3)

Every row of the table has a 95 % confidence interval over the examples, and a verdict by the rules
in :data:`TESTS`. The folder of ``--output`` gets the table as ``faithfulness.json`` and a figure, ``faithfulness.png``.
"""

import json
import math
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.stats import kendalltau
from torch import Tensor
from transformers import DataCollatorForSeq2Seq, DataCollatorWithPadding

from attnzoo.alignment import evaluation_mode
from attnzoo.shipped_models import named_folder

from ..commands.exits import exit_on_user_error
from ..commands.parsers import faithfulness_parser
from ..data.splits import chosen_rows
from ..evaluate import load_model, task_for
from ..loop.checkpoint import require_model
from ..statistics import Interval
from .attention_interventions import (
    Predictions,
    adversarial,
    attention_layer,
    jensen_shannon,
    permuted,
    total_variation,
    uniform,
)
from .study import print_table
from .verdicts import Rule, interval

BATCH_SIZE = 64
PERMUTATIONS = 10
DRAWS = 3  # of tokens removed at random
UPDATES = 100  # of the search for other weights
TOLERANCE = 0.05  # of the total variation distance, for a prediction that stays as it is
LEAST_WORDS = 3  # of a source that is measured
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5)  # of the source tokens that are removed
SEED = 1  # of the draws
PAIRS = (("weight", "gradient"), ("weight", "removal"), ("gradient", "removal"))  # whose ranks are compared

Figures = dict[str, np.ndarray]  # by name: for every example (N,), or (N, number of SHARES)


class Measure(NamedTuple):
    """A row of the table: the name of its figures, a description, and the rule for its sentence."""

    name: str
    description: str
    rule: Rule


TESTS = (
    Measure(
        "from uniform",
        "divergence of the weights from uniform weights, bits",
        Rule(
            0.5,
            0.1,
            "The weights are far from uniform.",
            "The weights are not uniform.",
            "The weights are nearly uniform: interpret the other rows with care.",
        ),
    ),
    Measure(
        "permuted",
        "predictions that change if the weights are permuted, share",
        Rule(
            0.5,
            0.1,
            "Most predictions depend on which token has which weight.",
            "Some predictions depend on which token has which weight, others do not.",
            "Few predictions depend on which token has which weight.",
        ),
    ),
    Measure(
        "uniform",
        "predictions that change if the weights are uniform, share",
        Rule(
            0.5,
            0.1,
            "Most predictions need weights that are not uniform.",
            "Some predictions need weights that are not uniform, others do not.",
            "Few predictions need weights that are not uniform.",
        ),
    ),
    Measure(
        "uniform accuracy",
        "accuracy with uniform weights minus accuracy",
        Rule(
            0,
            0,
            "Uniform weights give a higher accuracy than the model's own.",
            "No difference in accuracy is seen between uniform weights and the model's own.",
            "Uniform weights give a lower accuracy than the model's own.",
        ),
    ),
    Measure(
        "adversarial",
        f"divergence of the most different weights with the same prediction (distance at most {TOLERANCE}), bits",
        Rule(
            0.5,
            0.1,
            "Very different weights give the same prediction: the weights are not the only explanation.",
            "Moderately different weights give the same prediction.",
            "The search found no very different weights with the same prediction.",
        ),
    ),
    Measure(
        "weight and gradient",
        "Kendall's tau of weights and gradients",
        Rule(
            0.5,
            0.3,
            "Weights and gradients rank the tokens alike.",
            "Weights and gradients rank the tokens alike only in part.",
            "Weights and gradients hardly rank the tokens alike.",
        ),
    ),
    Measure(
        "weight and removal",
        "Kendall's tau of weights and the effect of removing one token",
        Rule(
            0.5,
            0.3,
            "The weights and the removals rank the tokens alike.",
            "The weights and the removals rank the tokens alike only in part.",
            "The weights and the removals hardly rank the tokens alike.",
        ),
    ),
    Measure(
        "gradient and removal",
        "Kendall's tau of gradients and the effect of removing one token",
        Rule(
            0.5,
            0.3,
            "Gradients and removals rank the tokens alike.",
            "Gradients and removals rank the tokens alike only in part.",
            "Gradients and removals hardly rank the tokens alike.",
        ),
    ),
    Measure(
        "weight minus random",
        "probability lost by removing the tokens of highest weight, minus that of tokens drawn at random",
        Rule(
            0,
            0,
            "The tokens of highest weight matter more than tokens drawn at random.",
            "The tokens of highest weight and tokens drawn at random show no difference.",
            "The tokens of highest weight matter less than tokens drawn at random.",
        ),
    ),
    Measure(
        "weight minus gradient",
        "probability lost by removing the tokens of highest weight, minus that of the tokens of largest gradient",
        Rule(
            0,
            0,
            "The weights find the tokens that matter better than gradients.",
            "Weights and gradients show no difference in finding the tokens that matter.",
            "Gradients find the tokens that matter better than the weights.",
        ),
    ),
    Measure(
        "seeds",
        "divergence of the weights from seed to seed, bits",
        Rule(
            0.5,
            0.1,
            "Another seed gives very different weights.",
            "Another seed gives moderately different weights.",
            "Another seed gives nearly the same weights.",
        ),
    ),
    Measure(
        "adversarial minus seeds",
        "divergence of the most different weights minus that from seed to seed, bits",
        Rule(
            0,
            0,
            "The most different weights differ more than those of another seed: training does not find them.",
            "The most different weights and those of another seed show no difference in divergence.",
            "The weights of another seed differ more than the most different weights found.",
        ),
    ),
)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = faithfulness_parser().parse_args(arguments)
    with exit_on_user_error():
        folders = [Path(named_folder(name)) for name in options.folders]
        run(folders, options.examples, options.output, options.set)


def run(folders: list[Path], number: int, output: Path, overrides: list[str]) -> dict[str, Interval]:
    """Measure, print the table, and write it and the figure. Return the interval of every row.

    Raises:
        ValueError: the study does not cover this model, the folders have different tokens, or no example is long
            enough.
    """
    if number < 1:
        raise ValueError(f"--examples must be at least 1, got {number}")
    for folder in folders:
        require_model(folder)
    task = task_for(folders[0], overrides, "test")
    others = [load_model(task.auto_class, folder) for folder in folders]
    measured: list[Figures] = []
    for batches in zip(*(predictions(task, *other, number) for other in others), strict=True):
        (first, labels), *seeds = batches
        of_batch = measure(first, labels)
        if seeds:
            of_batch["seeds"] = divergence_of_seeds([first, *(seed for seed, _ in seeds)])
            of_batch["adversarial minus seeds"] = of_batch["adversarial"] - of_batch["seeds"]
        measured.append(of_batch)
    figures = {name: np.concatenate([batch[name] for batch in measured]) for name in measured[0]}
    found = {test.name: interval(figures[test.name]) for test in TESTS if test.name in figures}
    verdicts = {test.name: test.rule.verdict(found[test.name]) for test in TESTS if test.name in found}
    count = len(figures["permuted"])
    print(f"{task.name}, test split, {count:,} examples with {LEAST_WORDS} or more source tokens:\n")
    rows = [
        [test.description, f"{mean:.3f}", f"{low:.3f} to {high:.3f}", verdicts[test.name]]
        for test in TESTS
        if test.name in found
        for mean, low, high in [found[test.name]]
    ]
    print_table(["test", "mean", "95 % interval", "verdict"], *rows)
    output.mkdir(parents=True, exist_ok=True)
    table = {
        test.name: {"description": test.description, **found[test.name]._asdict(), "verdict": verdicts[test.name]}
        for test in TESTS
        if test.name in found
    }
    text = json.dumps({"data": task.name, "examples": count, "tests": table}, indent=2, ensure_ascii=False)
    (output / "faithfulness.json").write_text(text + "\n", encoding="utf-8")
    draw(figures, output / "faithfulness.png")
    print(f"\nwritten to {output / 'faithfulness.json'}, {output / 'faithfulness.png'}")
    return found


def predictions(task: Any, model: Any, tokenizer: Any, number: int) -> Iterator[tuple[Predictions, Tensor]]:
    """Batches of predictions with their labels (B,), of examples drawn from the test split; the same for every seed."""
    attention_layer(model)  # raises an error for a model without it, before anything is computed
    if getattr(model.config, "sentence_pair", False):
        raise ValueError("the study is of single sentences, but this model reads pairs")
    generator = torch.Generator().manual_seed(SEED)
    rows = chosen_rows(task.splits, "test", None)
    rows = rows.select(torch.randperm(len(rows), generator=generator)[:number].tolist())
    encoded = task.encoder(tokenizer)(rows[:])
    has_steps = model.config.is_encoder_decoder
    labels = encoded["labels"] if has_steps else rows["labels"]
    special = set(tokenizer.all_special_ids)
    of_source = dict(zip(map(tuple, encoded["input_ids"]), labels, strict=True))  # each source once
    examples = [
        {"input_ids": list(ids), "labels": label}
        for ids, label in of_source.items()
        if len([token for token in ids if token not in special]) >= LEAST_WORDS
    ]
    if not examples:
        raise ValueError(f"no example of the test split has {LEAST_WORDS} or more source tokens")
    examples.sort(key=lambda example: len(example["input_ids"]))
    collate: Any = DataCollatorForSeq2Seq(tokenizer, model=model) if has_steps else DataCollatorWithPadding(tokenizer)
    model.requires_grad_(False)
    for start in range(0, len(examples), BATCH_SIZE):
        batch = collate(examples[start : start + BATCH_SIZE]).to(model.device)
        labels, steps = batch.pop("labels"), None
        if has_steps:
            lengths = (labels >= 0).sum(dim=1)
            steps = (torch.rand(len(lengths), generator=generator).to(model.device) * lengths).long()
            labels = labels[torch.arange(len(steps)), steps]
        is_word = batch["attention_mask"].bool() & ~torch.isin(
            batch["input_ids"], torch.tensor([*special]).to(model.device)
        )
        with evaluation_mode(model):
            yield Predictions(model, dict(batch), is_word, steps), labels


def measure(batch: Predictions, labels: Tensor) -> Figures:
    """The figures of a batch, except those of other seeds."""
    generator = torch.Generator().manual_seed(SEED)
    others = [permuted(batch.mask, generator) for _ in range(PERMUTATIONS)]
    with torch.no_grad():
        under = [batch.under(change) for change in others]
        flat = batch.under(uniform(batch.mask))
    chosen, labels = batch.chosen[:, 0], labels.to(batch.chosen.device)
    moved = torch.stack([total_variation(batch.probabilities, each) for each in under])
    same = batch.mask / batch.mask.sum(dim=1, keepdim=True)
    figures = {
        "from uniform": jensen_shannon(batch.importance, same),
        "permuted": torch.stack([each.argmax(dim=1) != chosen for each in under]).float().mean(dim=0),
        "uniform": (flat.argmax(dim=1) != chosen).float(),
        "uniform accuracy": (flat.argmax(dim=1) == labels).float() - (chosen == labels).float(),
        "permuted distance": moved.mean(dim=0),
        "uniform distance": total_variation(batch.probabilities, flat),
        "adversarial": adversarial(batch, TOLERANCE, UPDATES, generator),
    }
    ranked = {"weight": batch.importance, "gradient": batch.gradients(), "removal": single_removals(batch)}
    for one, other in PAIRS:
        figures[f"{one} and {other}"] = rank_correlation(ranked[one], ranked[other], batch.is_word)
    random = [torch.rand(batch.is_word.shape, generator=generator).to(batch.mask.device) for _ in range(DRAWS)]
    curves = {name: lost_probability(batch, ranked[name]) for name in ("weight", "gradient")}
    curves["random"] = torch.stack([lost_probability(batch, order) for order in random]).mean(dim=0)
    for name in ("random", "gradient"):
        figures[f"weight minus {name}"] = (curves["weight"] - curves[name]).mean(dim=1)
    figures |= {f"curve of {name}": curve for name, curve in curves.items()}
    return {name: values.cpu().numpy() for name, values in figures.items()}


def divergence_of_seeds(seeds: list[Predictions]) -> np.ndarray:
    """The divergence of the weights of two seeds, the mean of all pairs: (B,).

    Raises:
        ValueError: the tokens of the seeds differ.
    """
    if any(not torch.equal(seed.batch["input_ids"], seeds[0].batch["input_ids"]) for seed in seeds):
        raise ValueError("the models in the folders have different tokens; give seeds of one recipe with the same data")
    pairs = [jensen_shannon(one.importance, other.importance) for one, other in combinations(seeds, 2)]
    return torch.stack(pairs).mean(dim=0).cpu().numpy()


def single_removals(batch: Predictions) -> Tensor:
    """How far the distribution moves if one token is removed, for every token (B, S); 0 for special tokens."""
    effects = torch.zeros_like(batch.importance)
    for place in range(batch.is_word.shape[1]):
        is_removed = torch.zeros_like(batch.is_word)
        is_removed[:, place] = batch.is_word[:, place]
        if bool(is_removed.any()):
            effects[:, place] = total_variation(batch.probabilities, batch.without(is_removed))
    return effects


def lost_probability(batch: Predictions, order: Tensor) -> Tensor:
    """The probability that the prediction loses if the first tokens of an order are removed: (B, number of SHARES).

    The first are those with the largest value in ``order`` (B, S). A share of the tokens is removed, rounded up.
    """
    ranks = order.masked_fill(~batch.is_word, -math.inf).argsort(dim=1, descending=True).argsort(dim=1)
    before = batch.probabilities.gather(1, batch.chosen)
    lost = []
    for share in SHARES:
        count = (share * batch.is_word.sum(dim=1, keepdim=True)).ceil()
        lost.append(before - batch.without((ranks < count) & batch.is_word).gather(1, batch.chosen))
    return torch.cat(lost, dim=1)


def rank_correlation(one: Tensor, other: Tensor, is_word: Tensor) -> Tensor:
    """Kendall's tau-b over the words of each row (B,); NaN where all values of a row are equal."""
    rows: Iterable[Any] = zip(one, other, is_word, strict=True)
    return torch.tensor([kendalltau(a[words], b[words]).statistic for a, b, words in rows], dtype=torch.float64)


def draw(figures: Figures, path: Path) -> None:
    """Four pictures: changed weights, the most different weights, rank correlations, and removed tokens."""
    figure = Figure(figsize=(10, 7), layout="constrained")
    (changed, different), (ranks, removed) = figure.subplots(2, 2)

    def histogram(axis: Any, names: dict[str, str], low: float, **labels: Any) -> None:
        for name, label in names.items():
            if name in figures:
                values = figures[name][~np.isnan(figures[name])]
                weights = np.full(len(values), 100 / len(values))
                axis.hist(values, np.linspace(low, 1, 21), weights=weights, histtype="step", linewidth=1.5, label=label)
        axis.set(xlim=(low, 1), ylabel="% of the examples", **labels)
        axis.legend(loc="best")

    distances = {"permuted distance": "permuted weights", "uniform distance": "uniform weights"}
    histogram(changed, distances, 0, xlabel="total variation distance of the prediction", title="Changed weights")
    divergences = {
        "adversarial": "most different weights with\nthe same prediction",
        "seeds": "weights of another seed",
    }
    histogram(different, divergences, 0, xlabel="divergence from the weights, bits", title="Other weights")
    taus = {f"{one} and {other}": f"{one} and {other}" for one, other in PAIRS}
    histogram(ranks, taus, -1, xlabel="Kendall's tau", title="Do they rank the tokens alike?")
    shares = [100 * share for share in SHARES]
    for name in ("weight", "gradient", "random"):
        means = [interval(values) for values in figures[f"curve of {name}"].T]
        label = "at random" if name == "random" else f"by {name}"
        (line,) = removed.plot(shares, [m.mean for m in means], marker="o", label=label)
        removed.fill_between(shares, [m.low for m in means], [m.high for m in means], alpha=0.2, color=line.get_color())
    removed.set(xlabel="source tokens removed, %", ylabel="probability lost by the prediction", ylim=(0, None))
    removed.set_title("Tokens removed")
    removed.legend()
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
