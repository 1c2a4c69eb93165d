"""What the loss of a trained model gains when one head is removed."""

from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

from .frame import Budget, Claim, Measurements, Verdict, at_least, at_most, decide, shipped
from .style import COLOUR_MAP, plain
from .texts import captions, speeches

WRITER, TRANSLATOR = "small-transformer-sotu-causal", "small-transformer-multi30k-en-de"
MATTERS = 0.01  # nats per token


@torch.no_grad()
def run(budget: Budget) -> Measurements:
    """The nats per token that the loss gains without each head, by model: (layers, heads), for each seed."""
    found: Measurements = {}
    count = budget.choose(2, 60, 200)
    for name, auto_class in ((WRITER, AutoModelForCausalLM), (TRANSLATOR, AutoModelForSeq2SeqLM)):
        model, tokenizer = shipped(name, auto_class)
        layers = [layer.self_attention for layer in model.base_model.first_stack.layers]
        found[name] = []
        for seed in budget.seeds:
            batch = _batch(name, model, tokenizer, seed, count)
            whole = float(model(**batch).loss)
            of_seed = []
            for layer in layers:
                gains = []
                for head in range(model.config.num_attention_heads):
                    columns = layer.output_proj.weight[:, head * layer.head_size : (head + 1) * layer.head_size]
                    kept = columns.clone()
                    columns.zero_()  # the head then adds nothing to the output
                    gains.append(float(model(**batch).loss) - whole)
                    columns.copy_(kept)
                of_seed.append(gains)
            found[name].append(of_seed)
    return found


def _batch(name: str, model: Any, tokenizer: Any, seed: int, count: int) -> Any:
    """Sentences; the translator's targets are its own translations."""
    texts = speeches(seed, count) if name == WRITER else [text for text, _ in captions(seed, count)]
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    if name == WRITER:
        return batch | {"labels": batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)}
    written = model.generate(**batch, num_beams=1, max_new_tokens=40)[:, 1:]
    return batch | {"labels": written.masked_fill(written == tokenizer.pad_token_id, -100)}


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    every, largest = [], []
    for name in (WRITER, TRANSLATOR):
        of_seeds = [[gain for layer in of_seed for gain in layer] for of_seed in found[name]]
        shares = [sum(gain > MATTERS for gain in gains) / len(gains) for gains in of_seeds]
        every.append(at_least(f"share of heads that matter, {name}", shares, 0.9))
        most = [max(gains) / max(sum(max(0.0, gain) for gain in gains), 1e-9) for gains in of_seeds]
        largest.append(at_most(f"the largest increase / all increases, {name}", most, 0.5))
    return decide([*every, *largest])


def draw(found: Measurements, figure: Any) -> None:
    """The mean gain of each head."""
    for axis, (name, of_seeds) in zip(figure.subplots(1, 2), found.items(), strict=True):
        mean = np.mean(of_seeds, axis=0)
        image = axis.imshow(mean, cmap=COLOUR_MAP, vmin=0)
        for layer, gains in enumerate(mean.tolist()):
            for head, gain in enumerate(gains):
                ink = "white" if gain > 0.5 * float(mean.max()) else "black"
                axis.text(head, layer, f"{gain:.3f}", fontsize=9, ha="center", va="center", color=ink)
        plain(axis, xlabel="head", ylabel="layer", title=name.removeprefix("small-transformer-"))
        axis.grid(visible=False)
        axis.set_xticks(range(mean.shape[1]))
        axis.set_yticks(range(mean.shape[0]))
        figure.colorbar(image, ax=axis, shrink=0.5, label="nats per token without the head")


CLAIM = Claim(
    name="every-head-matters",
    claim="Each head of a trained model is needed.",
    source="Michel et al. (2019), sections 3.2 and 3.3, who find that it is not so",
    tutorials="Each head contributes its own piece of information.",
    of_wording="not supported: for most heads, the removal of one adds at most 0.01 nats.",
    experiment="The loss of a causal language model on sentences of speeches, and of a translator, which "
    "reads templates of captions and predicts its own greedy translations. For every head "
    "of their first stack, the columns of that head in the output projection are set to 0. A fall "
    "counts as 0.",
    rule=f"A head matters if the loss without it is more than {MATTERS} nats per token higher. Holds if at "
    "least 0.9 of the heads matter, and no head has more than half of the total increase.",
    intervals_over="seeds {} of the sentences",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": {name: [[[0.1, 0.2], [0.15, 0.1]]] * 3 for name in (WRITER, TRANSLATOR)},
        "does not hold here": {name: [[[0.1, 0.0], [0.0, -0.1]]] * 3 for name in (WRITER, TRANSLATOR)},
    },
)
