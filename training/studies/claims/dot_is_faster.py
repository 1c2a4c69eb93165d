"""The dot score against the additive score: naive, with keys projected once, fused, and in a whole training step."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration
from attnzoo.attention import AdditiveScore, dot_score

from .frame import Budget, Claim, Measurements, Verdict, at_least, decide, seconds_of
from .style import bars, reference

ROWS, SOURCE, WIDTH = 32, 50, 256
FORMS = ("naive", "projected once", "fused", "training step")


def plain_score(score: AdditiveScore, query: Tensor, projected: Tensor) -> Tensor:
    """The equation as it is written: all sums (B, T, S, A) are stored."""
    return (score.query_proj(query).unsqueeze(2) + projected.unsqueeze(1)).tanh() @ score.score_vector


def run(budget: Budget) -> Measurements:
    """The time of each form of the additive score divided by that of the dot score, for each repetition."""
    repeats = budget.choose(2, 30, 200)
    score = AdditiveScore(WIDTH, WIDTH, WIDTH)
    found: Measurements = {form: [] for form in FORMS}
    for seed in budget.seeds:
        torch.manual_seed(seed)
        query, key = torch.randn(ROWS, 1, WIDTH), torch.randn(ROWS, SOURCE, WIDTH)
        with torch.no_grad():
            projected = score.key_proj(key)
            forms: dict[str, Any] = {
                "naive": lambda q=query, k=key: plain_score(score, q, score.key_proj(k)),
                "projected once": partial(plain_score, score, query, projected),
                "fused": partial(score, query, projected),
            }
            dot = seconds_of(partial(dot_score, query, key), repeats)
            for form, call in forms.items():
                found[form].append(seconds_of(call, repeats) / dot)
        times = [seconds_of(partial(_step, _model(name, budget)), budget.choose(1, 3, 8)) for name in ("dot", "concat")]
        found["training step"].append(times[1] / times[0])
    return found


def _model(score: str, budget: Budget) -> Any:
    width = budget.choose(32, WIDTH, WIDTH)
    config = AttentionalRNNConfig(
        wiring="luong", cell="lstm", score=score, vocab_size=2000, embedding_size=width, decoder_hidden_size=width,
        encoder_hidden_size=width // 2, attention_size=width,
    )  # fmt: skip
    return AttentionalRNNForConditionalGeneration(config)


def _step(model: Any) -> None:
    tokens = torch.randint(3, 2000, (ROWS, SOURCE))
    model(input_ids=tokens, labels=tokens).loss.backward()


def judge(found: Measurements) -> Verdict:
    """See ``CLAIM.rule``."""
    checks = [at_least(f"time of additive / of dot, {form}", found[form], 2.0) for form in FORMS[:3]]
    whole = at_least("time of additive / of dot, training step", found["training step"], 1.1)
    return decide([*checks, whole], "the score alone is timed", checks)


def draw(found: Measurements, figure: Any) -> None:
    """The ratios."""
    axis = figure.subplots()
    bars(axis, {form: found[form] for form in FORMS}, xlabel="time of the additive score / of the dot score")
    reference(axis, 1, "equal times")
    axis.set_xscale("log")


CLAIM = Claim(
    name="dot-is-faster",
    claim="Luong's dot score is faster than Bahdanau's additive score.",
    source="Vaswani et al. (2017), section 3.2.1; Luong et al. (2015), section 3.1",
    tutorials="Luong attention is faster than Bahdanau attention because it is just a dot product.",
    of_wording="supported for the score. For a training step the factor is 1.4.",
    experiment=f"The time to score {SOURCE} source tokens in one decoder step, for {ROWS} rows at width {WIDTH}. The "
    "additive score has three forms: keys projected at each step (naive), keys projected once per source, and "
    "fused as in this package. Each time is divided by that of the dot score. A training "
    "step of Luong's model is also timed, with each score.",
    rule="Holds if each form of the additive score takes at least 2 times as long as the dot score, and a "
    "training step at least 1.1 times. 'Only when the score alone is timed' if all bounds are met but that of "
    "the training step.",
    intervals_over="seeds {}, each timed",
    run=run,
    judge=judge,
    draw=draw,
    examples={
        "holds": {form: [4.0, 4.1] for form in FORMS},
        "only when": {form: [4.0, 4.1] for form in FORMS} | {"training step": [1.0, 1.01]},
        "does not hold here": {form: [4.0, 4.1] for form in FORMS} | {"fused": [1.0, 1.1]},
    },
    uses_clock=True,
)
