"""The size of a sentence's embedding, by the length of the sentence."""

from typing import Any

import torch
from transformers import AutoModel

from .frame import (
    Budget,
    Claim,
    Measurements,
    Verdict,
    at_most,
    decide,
    largest_difference,
    never_above,
    never_below,
    shipped,
)
from .style import lines, reference

MODEL = "self-attentive-sst2"
LENGTHS = (1, 3, 10, 30, 100, 300)


@torch.no_grad()
def run(budget: Budget) -> Measurements:
    """For each length: whether the size is as expected, what padding changes, and how near other sentences are."""
    model, tokenizer = shipped(MODEL, AutoModel)
    expected = model.config.pooler_size
    found: Measurements = {"size": [], "padding": [], "neighbours": []}
    for length in LENGTHS:
        sizes, padded, near = [], [], []
        for seed in budget.seeds:
            torch.manual_seed(seed)
            ids = torch.randint(10, tokenizer.vocab_size, (budget.choose(4, 32, 64), length))
            pooled = model(ids).pooler_output
            sizes.append(float(pooled.shape[1] == expected))
            more = torch.nn.functional.pad(ids, (0, 50), value=tokenizer.pad_token_id)
            mask = torch.nn.functional.pad(torch.ones_like(ids), (0, 50))
            padded.append(largest_difference(pooled, model(more, mask).pooler_output))
            cosines = torch.nn.functional.cosine_similarity(pooled[:, None], pooled[None], dim=2)
            near.append(float((cosines.sum() - len(ids)) / (len(ids) * (len(ids) - 1))))
        found["size"].append(sizes)
        found["padding"].append(padded)
        found["neighbours"].append(near)
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    sizes = [
        never_below(f"share of embeddings of the expected size, {n} token{'s' * (n > 1)}", v, 1.0)
        for n, v in zip(LENGTHS, found["size"], strict=True)
    ]
    same = [
        never_above(f"change by padding, {length} tokens", values, 1e-4)
        for length, values in zip(LENGTHS, found["padding"], strict=True)
    ]
    apart = [
        at_most(f"mean cosine of two texts, {length} tokens", values, 0.9)
        for length, values in zip(LENGTHS, found["neighbours"], strict=True)
    ]
    fixed = [*sizes, *same]
    return decide([*fixed, *apart], "the claim is about the size alone: embeddings of long texts are alike", fixed)


def draw(found: Measurements, figure: Any) -> None:
    """How near the embeddings of two random sentences are."""
    axis = figure.subplots()
    label = "mean cosine of two random texts' embeddings"
    lines(axis, LENGTHS, {"": found["neighbours"]}, xlabel="tokens", ylabel=label)
    axis.set_xscale("log")
    axis.set_ylim(0, 1)
    reference(axis, 0.9, "the bound", horizontal=True)


def _example(near: float, padding: float = 0.0) -> Measurements:
    return {"size": [[1.0, 1.0]] * 6, "padding": [[padding] * 2] * 6, "neighbours": [[0.3, 0.3]] * 5 + [[near] * 2]}


CLAIM = Claim(
    name="one-size-for-any-length",
    claim="Structured self-attention turns a sentence of any length into a matrix of one size.",
    source="Lin et al. (2017), section 2.1",
    tutorials="The annotation matrix gives a fixed-size embedding for variable-length sentences.",
    of_wording="supported. The longer the texts, the more alike their matrices.",
    experiment=f"{MODEL} on random texts of 1 to 300 tokens. Measured are the size of the embedding, its change by "
    "50 tokens of padding, and the mean cosine between the embeddings of two texts of one length.",
    rule="Holds if the size is always the same, padding changes at most 1e-4, and the mean cosine is at most "
    "0.9 at each length. 'Only when the claim is about the size alone' if all bounds are met but those of the "
    "cosine.",
    intervals_over="seeds {} of the texts",
    run=run,
    judge=judge,
    draw=draw,
    examples={"holds": _example(0.4), "only when": _example(0.97), "does not hold here": _example(0.4, 0.5)},
)
