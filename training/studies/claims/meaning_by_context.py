"""The vectors of one word in two senses, before and after the layers."""

import random
from itertools import permutations
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM

from .frame import Budget, Claim, Measurements, Verdict, at_least, at_most, decide, shipped
from .style import bars

MODEL = "small-transformer-sotu-masked"
# Every word with two senses, and for each sense beginnings and ends of a sentence around the word.
SENSES: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "state": [
        (("The governor of the", "Every citizen of this", "The laws of that"), ("must be obeyed.", "were changed.")),
        (("I am glad to", "I am happy to", "It is my duty to"), ("that peace prevails.", "that the debt was paid.")),
    ],
    "bill": [
        (("The Senate passed the", "I ask you to vote for this", "The House rejected the"), ("last week.", "today.")),
        (("We paid the", "They must pay a", "The family could not afford the"), ("for the food.", "of the hospital.")),
    ],
    "present": [
        (("The", "Our", "This"), ("condition of the country is good.", "year has been one of peace.")),
        (("I have the honor to", "I now", "I shall soon"), ("to you a report.", "my plan to the Congress.")),
    ],
    "can": [
        (("We", "Our country", "The Congress"), ("make a better law.", "reduce the debt.")),
        (("He opened a", "They sold a", "She bought a"), ("of fish.", "of oil.")),
    ],
    "may": [
        (("The President", "We", "They"), ("soon make a treaty.", "not increase the tax.")),
        (("The treaty was signed in", "It was done on the 1st of", "Congress met in"), ("last.", ", 1898.")),
    ],
    "bear": [
        (("The people must", "They have to", "The poor must"), ("the cost of the war.", "this heavy burden.")),
        (("We saw the", "He shot a", "A hungry"), ("in the forest.", "near the river.")),
    ],
}


@torch.no_grad()
def run(budget: Budget) -> Measurements:
    """The cosine of two vectors of a word, for pairs of sentences with one sense and with two."""
    model, tokenizer = shipped(MODEL, AutoModelForMaskedLM)
    found: Measurements = {"embedding": [], "one sense": [], "two senses": [], "nearer": []}  # a value for each word
    for word, senses in SENSES.items():
        vectors = []  # of each sense
        for starts, ends in senses:
            texts = {(i, j): f"{start} {word} {end}" for i, start in enumerate(starts) for j, end in enumerate(ends)}
            vectors.append({place: _vector(model, tokenizer, text, word) for place, text in texts.items()})
        found["embedding"].append(_cosine(*(_embedding(model, tokenizer, f"The {word}") for _ in range(2))))
        apart = [(a, b) for a, b in permutations(vectors[0], 2) if a[0] != b[0] and a[1] != b[1]]  # no shared words
        same = [_cosine(sense[a], sense[b]) for sense in vectors for a, b in apart]
        other = [_cosine(a, b) for a in vectors[0].values() for b in vectors[1].values()]
        found["one sense"].append(fmean(same))
        found["two senses"].append(fmean(other))
        draw_, nearer = random.Random(0), []
        for _ in range(budget.choose(30, 100, 400)):  # a sentence, one of its sense, and one of the other
            sense = draw_.randrange(2)
            a, b = (vectors[sense][place] for place in draw_.choice(apart))
            other_sense = draw_.choice([*vectors[1 - sense].values()])
            nearer.append(float(_cosine(a, b) > _cosine(a, other_sense)))
        found["nearer"].append(fmean(nearer))
    return found


def _vector(model: Any, tokenizer: Any, text: str, word: str) -> Tensor:
    """The last hidden state of the first token of a word."""
    encoded = tokenizer(text, return_tensors="pt")
    place = encoded.char_to_token(0, text.index(f" {word} ") + 1)
    return model.base_model(**encoded).last_hidden_state[0, place]


def _embedding(model: Any, tokenizer: Any, text: str) -> Tensor:
    return model.get_input_embeddings()(tokenizer(text, return_tensors="pt")["input_ids"])[0, -2]


def _cosine(one: Tensor, other: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(one, other, dim=0))


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    changes = at_most("cosine of a word's vectors in sentences of two senses", found["two senses"], 0.95)
    nearer = at_least("share of sentences nearer to one of the same sense", found["nearer"], 0.7)
    return decide([changes, nearer], "any change of the vector counts, not one by meaning", [changes])


def draw(found: Measurements, figure: Any) -> None:
    """The cosines."""
    names = {"embedding": "the embedding", "one sense": "two sentences,\none sense", "two senses": "two senses"}
    bars(figure.subplots(), {name: found[key] for key, name in names.items()}, xlabel="cosine of a word's two vectors")


CLAIM = Claim(
    name="meaning-by-context",
    claim="Self-attention gives one word different vectors in different contexts, by its meaning there.",
    source="Peters et al. (2018), section 5.3",
    tutorials="The vector of 'bank' differs between a river bank and a money bank.",
    of_wording="supported for state, bill, present, can, may and bear. Bank is not tested, and there is no "
    "untrained model beside it.",
    experiment=f"The last hidden states of {MODEL} for {len(SENSES)} words, in template sentences of two senses. "
    "Measured are the cosine between the states of the two senses, and how often a sentence is nearer to one "
    "of its own sense than to one of the other. Two sentences of one sense "
    "share no other content word. Most senses are also different parts of speech.",
    rule="Holds if the mean cosine over two senses is at most 0.95, and at least 0.7 of the sentences are "
    "nearer to one of their own sense (chance is 0.5). 'Only when any change of the vector counts' "
    "if the first bound alone is met.",
    intervals_over="words",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": {"two senses": [0.5, 0.6, 0.55], "nearer": [0.9, 0.95, 0.9]},
        "only when": {"two senses": [0.5, 0.6, 0.55], "nearer": [0.5, 0.45, 0.5]},
        "does not hold here": {"two senses": [0.99, 0.99, 0.99], "nearer": [0.5, 0.45, 0.5]},
    },
)
