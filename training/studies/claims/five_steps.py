"""Query, key and value in five steps, for a sentence and a trained model, with the numbers."""

from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM

from .frame import Budget, Claim, Measurements, Verdict, decide, largest_difference, never_above, shipped
from .style import heat_map
from .texts import speeches

MODEL = "small-transformer-sotu-masked"
SENTENCE = "The animal did not cross the street because it was too tired."


@torch.no_grad()
def run(budget: Budget) -> Measurements:
    """The largest difference of the five steps from the model's own output, for each sentence; and the numbers."""
    model, tokenizer = shipped(MODEL, AutoModelForMaskedLM)
    layer = model.base_model.encoder.layers[0].self_attention
    states: list[Tensor] = []
    layer.register_forward_pre_hook(lambda module, arguments: states.append(arguments[0]))
    found: Measurements = {"weights": [], "outputs": []}
    for sentence in [SENTENCE, *speeches(1, budget.choose(3, 40, 100))]:
        encoded = tokenizer(sentence, return_tensors="pt")
        attentions = model(**encoded, output_attentions=True).attentions
        steps = five_steps(layer, states[-1][0])
        outputs = steps["output"] @ layer.output_proj.weight.T
        found["weights"].append(largest_difference(steps["weights"], attentions[0][0]))
        found["outputs"].append(largest_difference(outputs, layer(states[-1])[0][0]))
        if sentence == SENTENCE:
            words = [tokenizer.decode([number]).strip() for number in encoded["input_ids"][0]]
            found |= {"tokens": words, "matrix": steps["weights"][0].tolist()}
            found["notes"] = _notes(steps, words, words.index("it"))
    return found


def five_steps(layer: Any, states: Tensor) -> dict[str, Tensor]:
    """The steps of all heads, (H, T, ...), one operation each; ``output`` (T, D) is before the output projection."""
    projections = (layer.query_proj, layer.key_proj, layer.value_proj)
    query, key, value = (
        (states @ projection.weight.T).unflatten(-1, (-1, layer.head_size)).transpose(0, 1)
        for projection in projections
    )  # 1. what is looked for, what is offered, what is passed on
    scores = torch.einsum("htk,hsk->hts", query, key)  # 2. every query with every key
    scaled = scores / layer.head_size**0.5  # 3.
    weights = scaled.exp() / scaled.exp().sum(dim=-1, keepdim=True)  # 4.
    context = torch.einsum("hts,hsk->htk", weights, value)  # 5. the values, weighted
    named = {"query": query, "key": key, "value": value, "scores": scores, "scaled": scaled, "weights": weights}
    return named | {"output": context.transpose(0, 1).flatten(1)}


def _notes(steps: dict[str, Tensor], words: list[str], place: int) -> list[str]:
    """The numbers of the first head for one word."""

    def numbers(name: str, at: int) -> str:
        return " ".join(f"{number:6.2f}" for number in steps[name][0, at, :4].tolist())

    lines = [f"layer 0, head 0, the word {words[place]!r} (the first four numbers of each vector)"]
    lines += [f"1. {name:<6} {numbers(name, place)} ..." for name in ("query", "key", "value")]
    lines.append(f"   {'word':<10}{'2. q.k':>9}{'3. scaled':>11}{'4. weight':>11}")
    for at, word in enumerate(words):
        row = (float(steps[name][0, place, at]) for name in ("scores", "scaled", "weights"))
        lines.append("   {:<10}{:9.2f}{:11.2f}{:11.3f}".format(word, *row))
    output = " ".join(f"{number:6.2f}" for number in steps["output"][place, :4].tolist())
    return [*lines, f"5. output {output} ..."]


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    return decide(
        [never_above(f"largest difference of the {name}", found[name], 1e-5) for name in ("weights", "outputs")]
    )


def draw(found: Measurements, figure: Any) -> None:
    """The weights of the first head for the first sentence."""
    figure.set_size_inches(6.5, 5.5)
    heat_map(figure.subplots(), found["matrix"], found["tokens"], found["tokens"], xlabel="key", ylabel="query")


CLAIM = Claim(
    name="five-steps",
    claim="Self-attention is five steps: project to query, key and value, multiply, scale, softmax, weighted sum.",
    source="Vaswani et al. (2017), section 3.2.1, equation 1",
    tutorials="The query is what I am looking for, the key is what I offer, and the value is what I pass on.",
    of_wording="a picture of the same equation. What a query looks for is not tested.",
    experiment=f"The five steps, one operation each, are compared with the self-attention of the first layer of "
    f"{MODEL}, on several sentences.",
    rule="Holds if the largest difference from the layer's weights and outputs is at most 1e-5 (single precision).",
    intervals_over="sentences",
    run=run,
    judge=judge,
    draw=draw,
    is_identity=True,
    examples={
        "holds": {"weights": [1e-7, 2e-7], "outputs": [1e-6, 1e-6]},
        "does not hold here": {"weights": [1e-7, 2e-7], "outputs": [0.1, 0.1]},
    },
)
