"""Lin's classifier with and without the penalty: the overlap of its hops, and its accuracy."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attnzoo import SelfAttentiveConfig, SelfAttentiveForSequenceClassification

from ..hops import mean_of_pairs
from ..synthetic import FIRST, fit
from .frame import Budget, Claim, Measurements, Verdict, at_least, decide
from .style import bars

LENGTH, GOOD, BAD, WORDS, TEXTS = 16, 12, 12, 64, 256  # the first words are good, the next bad, and all others neutral


def reviews(rows: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Texts with three words that count, and whether most of them are good."""
    ids = torch.randint(FIRST + GOOD + BAD, FIRST + WORDS, (rows, LENGTH), generator=generator)
    places = torch.rand(rows, LENGTH, generator=generator).argsort(dim=1)[:, :3]
    counted = torch.randint(FIRST, FIRST + GOOD + BAD, (rows, 3), generator=generator)
    labels = ((counted < FIRST + GOOD).sum(dim=1) >= 2).long()
    return {"input_ids": ids.scatter_(1, places, counted), "labels": labels}


def stream(seed: int) -> Iterator[dict[str, Tensor]]:
    """Endless batches of few texts, so the test is not solved entirely and a penalty can help."""
    generator = torch.Generator().manual_seed(seed)
    texts = reviews(TEXTS, generator)
    while True:
        rows = torch.randint(TEXTS, (64,), generator=generator)
        yield {name: values[rows] for name, values in texts.items()}


def run(budget: Budget) -> Measurements:
    """The mean overlap of two hops and the accuracy, with each coefficient and seed."""
    found: Measurements = {"overlap": {}, "accuracy": {}}
    test = reviews(512, torch.Generator().manual_seed(1000))
    for name, coefficient in (("with", 1.0), ("without", 0.0)):
        overlaps, accuracies = [], []
        for seed in budget.seeds:
            torch.manual_seed(seed)
            fields: dict[str, Any] = dict(
                vocab_size=FIRST + WORDS, embedding_size=32, hidden_size=32, attention_hidden_size=32, num_hops=4,
                classifier_size=32, classifier_dropout=0.0, penalty_coefficient=coefficient, num_labels=2,
            )  # fmt: skip
            model = SelfAttentiveForSequenceClassification(SelfAttentiveConfig(**fields))
            fit(model, stream(seed), budget.choose(2, 300, 1000), 3e-3, lambda m, batch: m(**batch).loss)
            with torch.no_grad():
                outputs = model(test["input_ids"], output_attentions=True)
            overlaps.append(float(mean_of_pairs(outputs.attentions[0].squeeze(1)).mean()))
            accuracies.append(float((outputs.logits.argmax(dim=-1) == test["labels"]).float().mean()))
        found["overlap"][name], found["accuracy"][name] = overlaps, accuracies
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    ratio = [a / b for a, b in zip(found["accuracy"]["with"], found["accuracy"]["without"], strict=True)]
    pairs = zip(found["overlap"]["without"], found["overlap"]["with"], strict=True)
    logarithms = [math.log2(without / with_it) for without, with_it in pairs]
    apart = at_least("overlap of two hops without the penalty / with it, log2", logarithms, 0.5)
    better = at_least("accuracy with / without", ratio, 1.01)
    return decide([apart, better], "the claim is about different words only", [apart])


def draw(found: Measurements, figure: Any) -> None:
    """Overlaps and accuracies."""
    left, right = figure.subplots(1, 2)
    names = {"with": "with the penalty", "without": "without"}
    bars(
        left, {name: found["overlap"][key] for key, name in names.items()}, xlabel="overlap of two hops", xlim=(0, None)
    )
    bars(right, {name: found["accuracy"][key] for key, name in names.items()}, xlabel="accuracy", xlim=(0.5, 1))


def _example(without: float, accuracy: float) -> Measurements:
    overlaps = {"with": [0.2, 0.2, 0.2], "without": [without] * 3}
    return {"overlap": overlaps, "accuracy": {"with": [accuracy] * 3, "without": [0.9] * 3}}


CLAIM = Claim(
    name="penalty-keeps-hops-apart",
    claim="The penalty makes the hops look at different words, and the classifier better.",
    source="Lin et al. (2017), section 2.2 and table 3",
    tutorials="The redundancy penalty forces each hop to focus on something else.",
    of_wording="supported: hops with the penalty overlap less. The accuracy is not higher.",
    experiment=f"A classifier with 4 hops learns from {TEXTS} texts of {LENGTH} words, of which three count, "
    "whether most of the three are good, in 1,000 steps. "
    "The penalty coefficient is 1 or 0. The study attnzoo.training.studies.penalty does the same "
    "on a data set.",
    rule="Holds if the overlap of two hops without the penalty is at least 1.4 times that with it (0.5 in "
    "binary logarithms), and the accuracy with it at least 1.01 times that without. 'Only when the "
    "claim is about different words only' if the first bound alone is met.",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": _example(0.8, 0.95),
        "only when": _example(0.8, 0.9),
        "does not hold here": _example(0.2, 0.95),
    },
)
