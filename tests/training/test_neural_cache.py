"""The neural cache of a language model: its equations by loops, its probabilities, and its effect on long texts."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from attnzoo.training.studies import neural_cache
from attnzoo.training.studies.neural_cache import Read, cache_log_probabilities, read, with_cache
from attnzoo.training.tasks.log_probability import log_probabilities
from transformers import AutoModelForCausalLM, AutoTokenizer

import attnzoo
from tests.factory import refused

VOCABULARY = 5


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch) -> Read:
    """40 random tokens; their probabilities are computed 16 rows at a time."""
    monkeypatch.setattr(neural_cache, "ROWS_AT_A_TIME", 16)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(VOCABULARY, (40,), generator=generator)
    states = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    logits = torch.randn(40, VOCABULARY, generator=generator, dtype=torch.float64)
    return Read(states, tokens, logits.log_softmax(-1)[torch.arange(40), tokens])


def cached_by_loops(text: Read, place: int, token: int, size: int, flatness: float) -> float:
    """Equation 2 of the paper, by loops."""
    past = range(max(0, place - size), place)
    weights = {i: math.exp(flatness * float(text.states[place] @ text.states[i])) for i in past}
    return sum(weight for i, weight in weights.items() if text.tokens[i] == token) / sum(weights.values())


@pytest.mark.parametrize("size", [1, 7, 20, 100])
@pytest.mark.parametrize("flatness", [0.0, 0.7])
def test_it_is_the_papers_equation(text: Read, size: int, flatness: float) -> None:
    found = cache_log_probabilities(text, size, flatness).exp()
    for place in range(1, 40):
        expected = cached_by_loops(text, place, int(text.tokens[place]), size, flatness)
        assert float(found[place]) == pytest.approx(expected, abs=1e-12)
    mixed = with_cache(text, size, flatness, 0.25).exp()
    expected_mixed = 0.75 * text.log_probabilities.exp() + 0.25 * found
    torch.testing.assert_close(mixed[1:], expected_mixed[1:])
    assert mixed[0] == text.log_probabilities[0].exp()  # its cache is empty


def test_the_tokens_of_a_step_have_probability_one(text: Read) -> None:
    for place in (1, 15, 16, 39):
        total = 0.0
        for token in range(VOCABULARY):
            tokens = text.tokens.clone()
            tokens[place] = token
            total += float(cache_log_probabilities(text._replace(tokens=tokens), 20, 0.5)[place].exp())
        assert total == pytest.approx(1)


def test_names_that_return_cost_less(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each text repeats an invented name that no other text has."""
    random = np.random.default_rng(0)
    for split, count in (("train", 2), ("validation", 3), ("test", 3)):
        names = ["".join(random.choice(list("bdgklmnprstvz"), 6)).title() for _ in range(count)]
        texts = [" ".join(f"Then {name} spoke of {name} and the state of {name}." for _ in range(12)) for name in names]
        (tmp_path / f"{split}.txt").write_text("\n\n".join(texts), encoding="utf-8")
    folder = attnzoo.model_path("small-transformer-sotu-causal")
    neural_cache.main([folder, f"--set=task.data.path={tmp_path}"])
    *_, plain, cached = capsys.readouterr().out.splitlines()
    assert plain.startswith("test split, 3 texts, without a cache: perplexity per word ")
    of_plain, of_cache = (float(line.split("per word ")[1].split(",")[0]) for line in (plain, cached))
    assert of_cache < 0.5 * of_plain

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    found = read(model, tokenizer, texts[0], 256).log_probabilities.sum()
    assert float(found) == pytest.approx(log_probabilities(model, tokenizer, texts[:1], 256)[0], rel=1e-5)


def test_other_models_are_refused() -> None:
    with refused(SystemExit, "is not a causal language model"):
        neural_cache.main([attnzoo.model_path("small-transformer-sotu-masked")])
