"""What the attention of "it" says of its noun, on minimal pairs of sentences."""

import random
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, PreTrainedModel, PreTrainedTokenizerBase

from .frame import Budget, Claim, Measurements, Verdict, at_least, decide, shipped
from .style import COLOUR_MAP, bars

MODEL = "small-transformer-sotu-masked"
# A noun that can be the first adjective, a verb, a noun that can be the second adjective; the adjectives.
FRAMES = (
    (("animal", "horse", "soldier"), "did not cross", ("street", "river", "field"), ("tired", "hungry"),
     ("wide", "broad", "long")),
    (("army", "ship", "company"), "could not reach", ("city", "island", "coast"), ("weak", "slow"),
     ("distant", "remote")),
    (("family", "town", "child"), "did not buy", ("house", "land", "machine"), ("poor", "young"),
     ("expensive", "old")),
)  # fmt: skip


def pairs() -> list[tuple[str, str, str, str]]:
    """All minimal pairs: the first and the second noun, and the two sentences, in which "it" is the first and the
    second.
    """
    found = []
    for firsts, verb, seconds, of_first, of_second in FRAMES:
        for first, second, one, other in product(firsts, seconds, of_first, of_second):
            start = f"The {first} {verb} the {second} because it was too"
            found.append((first, second, f"{start} {one}.", f"{start} {other}."))
    return found


@torch.no_grad()
def word_attention(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, sentence: str, word: str
) -> tuple[list[str], Tensor]:
    """The words of a sentence, with its punctuation and its end tokens, and the weights that ``word`` gives them.

    If a word has several tokens, the weights that these get are added, and the weights that they give are averaged.
    ``word`` must occur once in the sentence.

    Shape:
        - returns: weights (layers, heads, words)
    """
    encoded = tokenizer(sentence, return_tensors="pt")
    ids, of_token = encoded["input_ids"][0].tolist(), encoded.word_ids(0)
    groups = [[place] for place, number in enumerate(of_token) if number is None]  # an end token counts as a word
    groups += [[p for p, n in enumerate(of_token) if n == number] for number in sorted({*of_token} - {None})]
    groups.sort()
    words = [word.strip() for word in tokenizer.batch_decode([[ids[place] for place in group] for group in groups])]
    attentions = torch.stack(model(**encoded.to(model.device), output_attentions=True).attentions)[:, 0]
    given = attentions[:, :, groups[words.index(word)]].mean(dim=2)  # (layers, heads, tokens)
    return words, torch.stack([given[..., group].sum(dim=-1) for group in groups], dim=-1)


def run(budget: Budget) -> Measurements:
    """For every head: the share of sentences and of pairs in which "it" gives its noun more than the other noun.

    The head is chosen on half of the pairs, by its share of pairs, and measured on the other half; then the halves
    change places.
    """
    model, tokenizer = shipped(MODEL, AutoModelForMaskedLM)
    chosen = pairs()
    random.Random(0).shuffle(chosen)
    chosen = chosen[: budget.choose(50, 120, 1000)]
    right: Any = np.zeros(
        (len(chosen), 2, model.config.num_hidden_layers, model.config.num_attention_heads), dtype=bool
    )
    for number, (first, second, *sentences) in enumerate(chosen):
        for which, sentence in enumerate(sentences):
            words, weights = word_attention(model, tokenizer, sentence, "it")
            gap = weights[..., words.index(first)] - weights[..., words.index(second)]
            right[number, which] = (gap > 0 if which == 0 else gap < 0).numpy()
    both = right.all(axis=1)  # (pairs, layers, heads)
    half = len(chosen) // 2
    held_out: Measurements = {"pairs": [], "sentences": []}
    for test, train in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
        layer, head = np.unravel_index(both[train].mean(axis=0).argmax(), both.shape[1:])
        held_out["pairs"] += both[test, layer, head].astype(float).tolist()
        held_out["sentences"] += right[test, :, layer, head].astype(float).flatten().tolist()
    by_head = {"pairs of each head": both.mean(axis=0).tolist(), "sentences of each head": right.mean((0, 1)).tolist()}
    nearest = {"nearest noun, sentences": 0.5, "nearest noun, pairs": 0.0}
    return {**held_out, **by_head, **nearest, "number of pairs": len(chosen)}


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    sentences = at_least("share of sentences, chosen head", found["sentences"], 0.6)
    return decide([sentences, at_least("share of pairs, chosen head", found["pairs"], 0.5)])


def draw(found: Measurements, figure: Any) -> None:
    """The share of pairs of every head, and the chosen head beside chance and the nearest noun."""
    left, right = figure.subplots(1, 2)
    shares = np.array(found["pairs of each head"])
    image = left.imshow(shares, cmap=COLOUR_MAP, vmin=0, vmax=1)
    for (layer, head), share in np.ndenumerate(shares):
        left.text(head, layer, f"{share:.2f}", ha="center", va="center", color="white" if share > 0.5 else "black")
    left.set(xlabel="head", ylabel="layer", title="share of pairs, each head")
    left.set_xticks(range(shares.shape[1]))
    left.set_yticks(range(shares.shape[0]))
    figure.colorbar(image, ax=left, shrink=0.5)
    shares_right = {
        "sentences: chosen head": found["sentences"],
        "sentences: chance": [0.5, 0.5],
        "sentences: nearest noun": [0.5, 0.5],
        "pairs: chosen head": found["pairs"],
        "pairs: chance": [0.25, 0.25],
        "pairs: nearest noun": [0.0, 0.0],
    }
    bars(right, shares_right, xlabel="share right", xlim=(0, 1))


CLAIM = Claim(
    name="it-finds-its-noun",
    claim='In a trained model the attention of "it" goes to the noun that it means.',
    source="Uszkoreit (2017), the blog post on the Transformer; Vaswani et al. (2017), figure 4",
    tutorials='"It" looks at "animal" if the animal is too tired, and at "street" if the street is too wide.',
    of_wording="not supported for this small model. The chosen head mostly prefers one noun in both sentences "
    "of a pair, so it is right in fewer pairs than chance.",
    experiment=f"{MODEL} on {len(pairs())} minimal pairs. A head is right if 'it' gives its noun more weight than "
    "the other noun. The head is chosen on one half of the pairs and measured on the other half. The rule "
    "'the nearest noun' is right in half of the sentences and in no pair; chance is right in half of the "
    "sentences and in a quarter of the pairs.",
    rule="Holds if the chosen head is right in at least 0.6 of the sentences, and in both sentences of at least 0.5 of "
    "the pairs.",
    intervals_over="sentences, or pairs",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": {"sentences": [1.0] * 90 + [0.0] * 10, "pairs": [1.0] * 40 + [0.0] * 10},
        "does not hold here": {"sentences": [1.0] * 50 + [0.0] * 50, "pairs": [1.0] * 2 + [0.0] * 48},
    },
)
