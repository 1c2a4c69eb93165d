"""How much the last output depends on each token, by distance, untrained and trained."""

from typing import Any

import torch
from torch import nn
from transformers import AutoModel

from attnzoo import SmallTransformerConfig, SmallTransformerModel

from .frame import Budget, Claim, Measurements, Verdict, at_least, at_most, decide, gradient_by_distance, shipped
from .style import lines
from .texts import speeches

DISTANCES = (1, 2, 4, 8, 16, 32, 64)
LENGTH = DISTANCES[-1] + 16  # so that the farthest token is not the first one, which the model knows as the start
NAMES = ("attention, untrained", "attention, trained", "LSTM, untrained")


def run(budget: Budget) -> Measurements:
    """The gradient at each distance divided by that at distance 1, for each model and seed."""
    rows = budget.choose(2, 16, 64)
    found: Measurements = {name: [[] for _ in DISTANCES] for name in NAMES}
    trained, tokenizer = shipped("small-transformer-sotu-causal", AutoModel)
    for seed in budget.seeds:
        torch.manual_seed(seed)
        config = SmallTransformerConfig.from_dict({**trained.config.to_dict(), "dtype": None})
        models = {"attention, untrained": SmallTransformerModel(config), "attention, trained": trained}
        texts = [" ".join(speeches(100 * seed + row, 12)) for row in range(rows)]
        ids = tokenizer(texts, return_tensors="pt", padding=True, truncation=True, max_length=LENGTH)
        tokens = ids["input_ids"]
        for name, model in models.items():
            embedded = model.get_input_embeddings()(tokens).detach().requires_grad_()
            output = model.eval()(inputs_embeds=embedded).last_hidden_state
            _add(found[name], gradient_by_distance(output, embedded))
        inputs = torch.randn(rows, LENGTH, config.hidden_size, dtype=torch.float64, requires_grad=True)
        lstm = nn.LSTM(config.hidden_size, config.hidden_size, batch_first=True).double()
        _add(found["LSTM, untrained"], gradient_by_distance(lstm(inputs)[0], inputs))
    return found


def _add(places: list[list[float]], gradient: list[float]) -> None:
    for place, distance in zip(places, DISTANCES, strict=True):
        place.append(gradient[distance] / gradient[1])


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    last = f"share of the gradient left at distance {DISTANCES[-1]}"
    untrained, trained = (at_least(f"{name}: {last}", found[name][-1], 0.5) for name in NAMES[:2])
    lstm = at_most(f"LSTM: {last}", found["LSTM, untrained"][-1], 0.001)
    return decide([untrained, trained, lstm], "the model is not trained; a trained one depends more on near tokens",
                  [untrained, lstm])  # fmt: skip


def draw(found: Measurements, figure: Any) -> None:
    """The share against the distance."""
    axis = figure.subplots()
    label = "gradient / gradient at distance 1"
    lines(axis, DISTANCES, {name: found[name] for name in NAMES}, xlabel="distance in tokens", ylabel=label)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_ylim(1e-16, 10)


CLAIM = Claim(
    name="path-length-one",
    claim="Any two tokens are one step of self-attention apart, so a far token matters as much as a near one.",
    source="Vaswani et al. (2017), section 4 and table 1",
    tutorials="Self-attention sees the whole sequence at once, and distance does not matter.",
    of_wording="not supported after training: near tokens matter more.",
    experiment="The gradient of the last output with respect to the embedding of each token, on sentences of "
    "speeches. The models are a causal Transformer, untrained and as shipped (small-transformer-sotu-causal), and an "
    "untrained LSTM of the same width.",
    rule=f"Holds if, at distance {DISTANCES[-1]}, at least 0.5 of the gradient at distance 1 is left in the untrained "
    "and in the trained Transformer, and at most 0.001 in the LSTM. 'Only when the model is not trained' if all "
    "bounds are met but that of the trained model.",
    intervals_over="seeds {}, of sentences and untrained models",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": {NAMES[0]: [[0.9, 1.0, 0.9]], NAMES[1]: [[0.8, 0.9, 0.8]], NAMES[2]: [[1e-9, 1e-9]]},
        "only when": {NAMES[0]: [[0.9, 1.0, 0.9]], NAMES[1]: [[0.1, 0.1]], NAMES[2]: [[1e-9, 1e-9]]},
        "does not hold here": {NAMES[0]: [[0.1, 0.1]], NAMES[1]: [[0.1, 0.1]], NAMES[2]: [[1e-9, 1e-9]]},
    },
)
