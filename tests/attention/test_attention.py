"""``attnzoo/attention.py`` against the papers: every function equals its loop."""

import pytest
import torch

from attnzoo import additive_kernel
from attnzoo.attention import (
    LocalWindow,
    additive_score,
    attend,
    dot_score,
    masked_softmax,
    source_positions,
)
from tests.attention.tensors import (
    BATCH,
    KEY,
    MASK,
    QUERY,
    SOURCE,
    TARGET,
    VALUE,
    WIDTH,
    assert_equal,
    assert_equal_with_gradients,
    loop_context,
    loop_scores,
    loop_softmax,
    random,
    randomize,
    score_and_loop,
)
from tests.reference import attention as reference


@pytest.mark.parametrize("lead", [(3,), (2, 3)], ids=["B", "BH"])
def test_dot_score_equals_the_loop(lead: tuple[int, ...]) -> None:
    query, key = random(*lead, TARGET, WIDTH, seed=1), random(*lead, SOURCE, WIDTH, seed=2)
    inputs = {"query": query, "key": key}
    assert_equal_with_gradients([dot_score(query, key)], [loop_scores(reference.dot, query, key)], inputs)
    scaled = dot_score(query, key, scale=WIDTH**-0.5)
    assert_equal_with_gradients([scaled], [loop_scores(reference.scaled_dot, query, key)], inputs)


@pytest.mark.parametrize("lead", [(3,), (2, 3)], ids=["B", "BH"])
@pytest.mark.parametrize("steps_per_chunk", [0, 1, 2, TARGET, 2 * TARGET])
def test_additive_score_equals_the_loop(
    lead: tuple[int, ...], steps_per_chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, key = random(*lead, TARGET, WIDTH, seed=1), random(*lead, SOURCE, WIDTH, seed=2)
    vector = random(WIDTH, seed=3)
    # 0: not even one step fits, and one is taken; 2: the last chunk is shorter than the others; then all steps of one
    # row, and of two of them.
    monkeypatch.setattr(additive_kernel, "ADDITIVE_CHUNK_ELEMENTS", max(1, steps_per_chunk * SOURCE * WIDTH))
    eye = torch.eye(WIDTH, dtype=torch.float64)
    expected = loop_scores(lambda q, k: reference.additive(q, k, eye, eye, vector), query, key)
    inputs = {"query": query, "key": key, "vector": vector}
    assert_equal_with_gradients([additive_score(query, key, vector)], [expected], inputs)


@pytest.mark.parametrize("chunk_elements", [1, 2**22])
def test_additive_score_passes_gradcheck(chunk_elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive_kernel, "ADDITIVE_CHUNK_ELEMENTS", chunk_elements)
    inputs = random(2, 3, 4, seed=1), random(2, 5, 4, seed=2), random(4, seed=3)
    assert torch.autograd.gradcheck(additive_score, inputs)


def test_additive_score_takes_the_gradient_of_what_asks_for_it() -> None:
    query, key, vector = random(2, 3, 4, seed=1), random(2, 5, 4, seed=2), random(4, seed=3)
    expected = torch.autograd.grad(additive_score(query, key, vector).sum(), key)[0]
    alone = additive_score(query.detach(), key, vector.detach()).sum()
    assert_equal(torch.autograd.grad(alone, key)[0], expected)


@pytest.mark.parametrize("name", ["dot", "general", "additive", "concat", "location"])
def test_a_score_module_equals_the_loop(name: str) -> None:
    """For concat the loop has one W_a on [h_t; h_s]: this is the identity of concat and additive."""
    module, formula = score_and_loop(name)
    query, key = random(BATCH, TARGET, QUERY, seed=1), random(BATCH, SOURCE, QUERY if name == "dot" else KEY, seed=2)
    positions = source_positions(MASK)[0]
    actual = module(query, module.project_key(key, positions))
    expected = loop_scores(formula, query, key, positions.unsqueeze(-1))
    inputs = {"query": query, "key": key, **dict(module.named_parameters())}
    if name == "location":
        del inputs["key"]  # its alignment comes from the target state alone
    assert_equal_with_gradients([actual], [expected], inputs)


@pytest.mark.parametrize("lead", [(BATCH,), (BATCH, 2)], ids=["B", "BH"])
def test_masked_softmax_equals_the_loop(lead: tuple[int, ...]) -> None:
    scores = random(*lead, TARGET, SOURCE, seed=1)
    mask = MASK.view(BATCH, *[1] * (len(lead) - 1), 1, SOURCE)
    expected = loop_softmax(scores, mask.expand_as(scores))
    assert_equal_with_gradients([masked_softmax(scores, mask)], [expected], {"scores": scores})
    everything = torch.ones_like(scores, dtype=torch.bool)
    assert_equal_with_gradients([masked_softmax(scores)], [loop_softmax(scores, everything)], {"scores": scores})


@pytest.mark.parametrize("lead", [(BATCH,), (BATCH, 2)], ids=["B", "BH"])
@pytest.mark.parametrize("with_reweight", [False, True])
def test_attend_equals_the_loop(lead: tuple[int, ...], with_reweight: bool) -> None:
    scores, value = random(*lead, TARGET, SOURCE, seed=1), random(*lead, SOURCE, VALUE, seed=2)
    mask = MASK.view(BATCH, *[1] * (len(lead) - 1), 1, SOURCE)
    inputs = {"scores": scores, "value": value}
    weights = loop_softmax(scores, mask.expand_as(scores))
    reweight = None
    if with_reweight:
        inputs["reweight"] = reweight = random(*lead, TARGET, SOURCE, seed=3)
        weights = weights * reweight
    actual = attend(scores, value, mask, reweight)
    assert_equal_with_gradients(actual, [loop_context(weights, value), weights], inputs)


def test_source_positions_are_ranks_among_the_real_tokens() -> None:
    positions, length = source_positions(MASK)
    for row, is_real in enumerate(MASK.tolist()):
        ranks = reference.ranks(is_real)
        assert length[row] == sum(is_real)
        assert [int(positions[row, j]) for j in range(SOURCE) if is_real[j]] == [r for r in ranks if r is not None]


@pytest.mark.parametrize("window_size", [1, 2, SOURCE])
@pytest.mark.parametrize("step", [0, 3])
@pytest.mark.parametrize("predictive", [False, True], ids=["monotonic", "predictive"])
def test_a_local_window_equals_the_loop(predictive: bool, step: int, window_size: int) -> None:
    """The window and the Gaussian through the whole of the attention, as the papers define them only together."""
    window = randomize(LocalWindow(QUERY, window_size, predictive), seed=4)
    query = random(BATCH, TARGET, QUERY, seed=1)
    scores, value = random(BATCH, TARGET, SOURCE, seed=2), random(BATCH, SOURCE, VALUE, seed=3)
    mask, reweight = window(query, torch.arange(step, step + TARGET), *source_positions(MASK))
    assert mask.dtype == torch.bool
    actual = attend(scores, value, MASK.unsqueeze(1) & mask, reweight)

    rows = []
    for row, is_real in enumerate(MASK.tolist()):
        ranks, num_tokens = reference.ranks(is_real), sum(is_real)
        for t in range(TARGET):
            if predictive:
                v_p = window.position_proj.weight[0]
                aligned = reference.predicted_position(query[row, t], window.query_proj.weight, v_p, num_tokens)
            else:
                aligned = reference.monotonic_position(step + t, num_tokens)
            inside = [s is not None and reference.in_window(s, aligned, window_size) for s in ranks]
            assert any(inside) == (num_tokens > 0)
            line = [score if open_ else None for score, open_ in zip(scores[row, t], inside, strict=True)]
            weights = reference.softmax(line)
            if predictive:
                weights = [
                    weight * reference.gaussian(s, aligned, window_size) if s is not None else weight
                    for weight, s in zip(weights, ranks, strict=True)
                ]
            rows.append(torch.stack(weights))
    expected = torch.stack(rows).view(BATCH, TARGET, SOURCE)
    inputs = {"scores": scores, "value": value, **dict(window.named_parameters())}
    if predictive:
        inputs["query"] = query
    assert_equal_with_gradients(actual, [loop_context(expected, value), expected], inputs)
