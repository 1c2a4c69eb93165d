"""Attention weights of a classifier against what its prediction loses without each word."""

import random
from typing import Any

import numpy as np
import torch
from scipy.stats import kendalltau
from transformers import AutoModelForSequenceClassification

from attnzoo.viewer.pictures import overall_attention

from .frame import Budget, Claim, Measurements, Verdict, at_least, decide, shipped
from .style import bars

MODEL = "self-attentive-sst2"
GOOD = ("moving", "funny", "beautiful", "charming", "clever", "wonderful", "touching", "brilliant")
BAD = ("dull", "boring", "awful", "clumsy", "stupid", "tedious", "predictable", "pointless")
THINGS = ("film", "story", "plot", "movie", "cast", "ending", "script", "performance")
ENDS = ("that i saw last night", "from start to finish", "for the whole family", "in every scene", "by a new director")


def reviews(seed: int, count: int) -> list[list[str]]:
    """Sentences such as *a moving and clever story in every scene .*, some of them with both kinds of words."""
    random_ = random.Random(seed)
    texts = []
    for _ in range(count):
        one, other = random_.choice(((GOOD, GOOD), (BAD, BAD), (GOOD, BAD), (BAD, GOOD)))
        joint = "and" if one is other else "but"
        words = (random_.choice(one), joint, random_.choice(other), random_.choice(THINGS), random_.choice(ENDS))
        texts.append(f"this is a {' '.join(words)} .".split())
    return texts


@torch.no_grad()
def run(budget: Budget) -> Measurements:
    """For each sentence: Kendall's tau, what the word of largest weight and a random word change, and whether the word
    of largest weight changes most.
    """
    model, tokenizer = shipped(MODEL, AutoModelForSequenceClassification)
    found: Measurements = {"tau": [], "largest": [], "random": [], "largest changes most": []}
    random_ = random.Random(0)
    for words in reviews(0, budget.choose(40, 200, 1000)):
        ids = tokenizer(" ".join(words), return_tensors="pt")["input_ids"]
        places = range(len(words))
        without = torch.cat([torch.cat([ids[:, :place], ids[:, place + 1 :]], dim=1) for place in places])
        outputs = model(ids, output_attentions=True)
        weights = overall_attention(outputs.attentions[0][0, 0])[: len(words)].numpy()
        before, after = outputs.logits.softmax(dim=-1), model(without).logits.softmax(dim=-1)
        change = ((before - after).abs().sum(dim=-1) / 2).numpy()  # total variation, for each word removed
        other = random_.choice([place for place in places if place != weights.argmax()])
        found["tau"].append(float(np.nan_to_num(kendalltau(weights, change).statistic)))
        found["largest"].append(float(change[weights.argmax()]))
        found["random"].append(float(change[other]))
        found["largest changes most"].append(float(weights.argmax() == change.argmax()))
    return found


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    most = at_least("share of sentences whose word of largest weight changes most", found["largest changes most"], 0.7)
    tau = at_least("Kendall's tau of weights and changes", found["tau"], 0.6)
    return decide([tau, most], "the most important word alone counts", [most])


def draw(found: Measurements, figure: Any) -> None:
    """The distribution of tau, and the changes."""
    left, right = figure.subplots(1, 2)
    left.hist(found["tau"], bins=20, color="#d75773")
    left.set(xlabel="Kendall's tau of weights and changes", ylabel="sentences", xlim=(-1, 1))
    left.spines[["top", "right"]].set_visible(False)
    series = {"the word of\nlargest weight": found["largest"], "a random\nother word": found["random"]}
    bars(right, series, xlabel="change of the prediction without it\n(total variation)")


CLAIM = Claim(
    name="weights-explain",
    claim="The attention weights of a classifier show which words its prediction rests on.",
    source="Lin et al. (2017), section 4; Jain and Wallace (2019), section 4.1, who find that they do not",
    tutorials="The highlighted words are the reason for the prediction.",
    of_wording="not supported: in more than half of the sentences the highlighted word is not the one that "
    "matters most.",
    experiment=f"{MODEL} on templates of reviews. Each word is removed in turn, and the change of the prediction "
    "(total variation) is compared with the word's weight, by Kendall's tau within each sentence. "
    "The sentences share words; the intervals treat them as independent. "
    "docs/faithfulness.md has the same on real reviews.",
    rule="Holds if the mean tau is at least 0.6, and the word of largest weight is the one of largest change in at "
    "least 0.7 of the sentences. 'Only when the most important word alone counts' if the last bound alone is "
    "met.",
    intervals_over="sentences",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": {"tau": [0.7, 0.8, 0.75], "largest changes most": [1.0] * 90 + [0.0] * 10},
        "only when": {"tau": [0.3, 0.2, 0.25], "largest changes most": [1.0] * 90 + [0.0] * 10},
        "does not hold here": {"tau": [0.3, 0.2, 0.25], "largest changes most": [1.0] * 50 + [0.0] * 50},
    },
)
