"""How far the weights of two heads of a layer are from each other, in trained and untrained models."""

from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModel

from .frame import Budget, Claim, Measurements, Verdict, at_least, decide, shipped
from .style import bars
from .texts import captions, speeches

MODELS = {
    "small-transformer-sotu-masked": "masked language model",
    "small-transformer-sotu-causal": "causal language model",
    "small-transformer-multi30k-en-de": "translator's encoder",
}


def divergence(one: Tensor, other: Tensor) -> float:
    """The Jensen-Shannon divergence of two heads' rows (T, S) in bits, 0 to 1: the mean over the rows."""
    middle = (one + other) / 2

    def information(weights: Tensor) -> Tensor:
        ratio = (weights / middle.clamp(min=1e-30)).clamp(min=1e-30)
        return (weights * ratio.log2()).sum(dim=-1)

    return float(((information(one) + information(other)) / 2).mean())


@torch.no_grad()
def run(budget: Budget) -> Measurements:
    """The mean divergence of the pairs of heads of a layer, for each model and seed; the same before training."""
    count = budget.choose(2, 30, 100)
    found: Measurements = {}
    for name, kind in MODELS.items():
        trained, tokenizer = shipped(name, AutoModel)
        of_seeds: dict[str, list[float]] = {kind: [], f"{kind}, untrained": []}
        for seed in budget.seeds:
            torch.manual_seed(seed)
            models = trained, type(trained)(trained.config).eval()
            texts = [text for text, _ in captions(seed, count)] if "multi30k" in name else speeches(seed, count)
            for key, model in zip(of_seeds, models, strict=True):
                values = []
                for text in texts:
                    ids = tokenizer(text, return_tensors="pt")["input_ids"]
                    for layer in model.first_stack(ids, output_attentions=True).attentions:
                        values += [divergence(a, b) for a, b in combinations(layer[0], 2)]
                of_seeds[key].append(sum(values) / len(values))
        found |= of_seeds
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    apart = [at_least(f"divergence in bits, {kind}", found[kind], 0.1) for kind in MODELS.values()]
    more = [
        at_least(
            f"divergence / that of the untrained model, {kind}",
            [a / b for a, b in zip(found[kind], found[f"{kind}, untrained"], strict=True)],
            2.0,
        )
        for kind in MODELS.values()
    ]
    return decide([*apart, *more], "differences from before training count as well", apart)


def draw(found: Measurements, figure: Any) -> None:
    """The divergences."""
    bars(figure.subplots(), found, 0.1, xlabel="divergence of two heads' weights, bits")


def _example(trained: float, untrained: float) -> Measurements:
    named = {kind: [trained, trained] for kind in MODELS.values()}
    return named | {f"{kind}, untrained": [untrained, untrained] for kind in MODELS.values()}


CLAIM = Claim(
    name="heads-see-different-things",
    claim="The heads of a layer attend to different things.",
    source="Vaswani et al. (2017), section 3.2.2 and figure 5",
    tutorials="Each head learns a different relationship between the words.",
    of_wording="too strong: heads differ, but before training they differ 0.43 to 0.75 times as much. "
    "Relationships are not tested.",
    experiment="The Jensen-Shannon divergence between the rows of two heads of a layer, averaged over all pairs, "
    "layers and sentences, in the shipped Transformers and in untrained models of the same sizes.",
    rule="Holds if the mean divergence is at least 0.1 bits in each model, and at least 2 times that before "
    "training. 'Only when differences from before training count as well' if the first bound alone is met.",
    intervals_over="seeds {}, of sentences and untrained models",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": _example(0.4, 0.05),
        "only when": _example(0.4, 0.3),
        "does not hold here": _example(0.05, 0.04),
    },
)
