"""``attnzoo/attention.py``: every function equals its loop; properties of every score and window."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from attnzoo import fast_additive
from attnzoo.attention import (
    AdditiveScore,
    DotScore,
    GeneralScore,
    LocationScore,
    MonotonicWindow,
    PredictiveWindow,
    additive_score,
    attend,
    dot_score,
    masked_softmax,
    source_positions,
)
from attnzoo.fast_additive import fast_additive_score
from tests.attention.tensors import (
    BATCH,
    KEY,
    LOCATIONS,
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
    monkeypatch.setattr(fast_additive, "ADDITIVE_CHUNK_ELEMENTS", max(1, steps_per_chunk * SOURCE * WIDTH))
    eye = torch.eye(WIDTH, dtype=torch.float64)
    inputs = {"query": query, "key": key, "vector": vector}
    for score in (additive_score, fast_additive_score):  # the formula, and the kernel that models use
        expected = loop_scores(lambda q, k: reference.additive(q, k, eye, eye, vector), query, key)
        assert_equal_with_gradients([score(query, key, vector)], [expected], inputs)


def test_additive_score_takes_the_gradient_of_what_asks_for_it() -> None:
    query, key, vector = random(2, 3, 4, seed=1), random(2, 5, 4, seed=2), random(4, seed=3)
    expected = torch.autograd.grad(additive_score(query, key, vector).sum(), key)[0]
    alone = fast_additive_score(query.detach(), key, vector.detach()).sum()
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


def local_window(predictive: bool, window_size: int) -> nn.Module:
    return PredictiveWindow(QUERY, window_size) if predictive else MonotonicWindow(window_size)


@pytest.mark.parametrize("window_size", [1, 2, SOURCE])
@pytest.mark.parametrize("step", [0, 3])
@pytest.mark.parametrize("predictive", [False, True], ids=["monotonic", "predictive"])
def test_a_local_window_equals_the_loop(predictive: bool, step: int, window_size: int) -> None:
    """The window and the Gaussian are tested through the whole attention, since the papers define them together."""
    window = randomize(local_window(predictive, window_size), seed=4)
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


# Properties of the weights


@settings(deadline=None, max_examples=60)
@given(
    target=st.integers(1, 4),
    source=st.integers(1, 9),
    seed=st.integers(0, 2**31),
    scale=st.sampled_from([0.0, 1.0, 100.0, 1e30]),
    dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32, torch.float64]),
)
def test_weights_are_a_distribution_on_the_mask(
    target: int, source: int, seed: int, scale: float, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, target, source, generator=generator, dtype=torch.float64) * scale
    scores = scores.clamp(torch.finfo(dtype).min, torch.finfo(dtype).max).to(dtype).requires_grad_()
    mask = torch.rand(2, target, source, generator=generator) < 0.6
    weights = masked_softmax(scores, mask)
    assert weights.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert not weights.isnan().any()
    assert not weights[~mask].any()
    torch.testing.assert_close(weights.sum(dim=-1), mask.any(dim=-1).to(weights.dtype))
    weights.square().sum().backward()
    assert scores.grad.isfinite().all()
    assert not scores.grad[~mask].any()


def test_a_masked_score_does_not_matter() -> None:
    scores = random(2, 3, 4, seed=1).detach()
    mask = torch.tensor([True, True, False, True])
    expected = masked_softmax(scores, mask)
    for value in (0.0, 1e300, -1e300, math.inf, -math.inf, math.nan):
        changed = scores.clone()
        changed[..., 2] = value
        assert torch.equal(masked_softmax(changed, mask), expected)


def test_a_score_of_minus_infinity_counts_as_masked() -> None:
    scores = random(BATCH, TARGET, SOURCE, seed=1)
    closed = torch.zeros(SOURCE, dtype=torch.bool)
    closed[[0, 1, 2, 4]] = True  # with it the second row of MASK has tokens, and a score for none of them
    mask = MASK.unsqueeze(1)
    actual = masked_softmax(scores.masked_fill(closed, -math.inf), mask)
    assert_equal_with_gradients([actual], [masked_softmax(scores, mask & ~closed)], {"scores": scores})
    assert not actual[1].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_half_precision_scores_are_float32(dtype: torch.dtype) -> None:
    """The softmax is not computed in half precision: it equals that of the same numbers in float32, bit for bit."""
    scores, value = random(2, 3, 50, seed=1).detach().to(dtype), random(2, 50, 4, seed=2).detach().to(dtype)
    context, weights = attend(scores, value)
    assert weights.dtype == torch.float32
    assert torch.equal(weights, scores.float().softmax(dim=-1))
    assert context.dtype == dtype


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.uint8])
def test_a_mask_that_is_not_bool_is_refused(dtype: torch.dtype) -> None:
    scores = torch.zeros(1, 2, 3)
    with pytest.raises(TypeError, match=f"bool.*{dtype}"):
        masked_softmax(scores, torch.ones(1, 1, 3, dtype=dtype))
    with pytest.raises(TypeError, match="bool"):
        attend(scores, torch.zeros(1, 3, 4), torch.ones(1, 1, 3, dtype=dtype))


@pytest.mark.parametrize("name", ["dot", "general", "additive", "location"])
@pytest.mark.parametrize("window", ["global", "monotonic", "predictive"])
def test_a_fully_masked_row_has_zero_weights_and_zero_gradients(name: str, window: str) -> None:
    """The last row of MASK is fully masked. It leaves no NaN in anything that it shares with the other rows."""
    module, _ = score_and_loop(name)
    query, key = random(BATCH, TARGET, QUERY, seed=1), random(BATCH, SOURCE, QUERY if name == "dot" else KEY, seed=2)
    positions, length = source_positions(MASK)
    mask, reweight = MASK.unsqueeze(1), None
    local = randomize(local_window(window == "predictive", 2), seed=4)
    if window != "global":
        inside, reweight = local(query, torch.arange(TARGET), positions, length)
        mask = mask & inside
    context, weights = attend(module(query, module.project_key(key, positions)), key, mask, reweight)
    assert not weights[~MASK.unsqueeze(1).expand_as(weights)].any()
    assert not context[-1].any()
    if window != "predictive":
        assert_equal(weights[:-1].sum(dim=-1), torch.ones(BATCH - 1, TARGET, dtype=torch.float64))
    context.square().sum().backward()
    for name_, parameter in [*module.named_parameters(), *local.named_parameters()]:
        assert parameter.grad is None or parameter.grad.isfinite().all(), name_
    assert not query.grad[-1].any()
    assert not key.grad[-1].any()


# Relations between the mechanisms


def test_scaled_dot_product_is_torchs() -> None:
    lead = (2, 3)
    query, key = random(*lead, TARGET, WIDTH, seed=1), random(*lead, SOURCE, WIDTH, seed=2)
    value = random(*lead, SOURCE, VALUE, seed=3)
    mask = MASK[:2].view(2, 1, 1, SOURCE)  # torch gives NaN for a row that is fully masked
    context, _ = attend(dot_score(query, key, WIDTH**-0.5), value, mask)
    expected = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    assert_equal_with_gradients([context], [expected], {"query": query, "key": key, "value": value})


@pytest.mark.parametrize("window_size", [1, 3])
@pytest.mark.parametrize("predictive", [False, True], ids=["monotonic", "predictive"])
@pytest.mark.parametrize(
    "mask",
    [[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 0, 1, 1, 0, 0, 1], [0, 1, 0, 1, 1, 1, 0]],
    ids=["left", "right", "inside", "everywhere"],
)
def test_padding_does_not_move_a_local_window(mask: list[int], predictive: bool, window_size: int) -> None:
    window = randomize(local_window(predictive, window_size), seed=4)
    query = random(1, 6, QUERY, seed=1).detach()
    scores = random(1, 6, 4, seed=2).detach()
    real = torch.tensor([mask], dtype=torch.bool)

    def weights_on(places: Tensor, scores: Tensor) -> Tensor:
        inside, reweight = window(query, torch.arange(query.shape[1]), *source_positions(places))
        value = torch.zeros(1, places.shape[1], 1, dtype=torch.float64)
        return attend(scores, value, places.unsqueeze(1) & inside, reweight)[1]

    padded_scores = torch.full((1, 6, len(mask)), 3.0, dtype=torch.float64)
    padded_scores[:, :, real[0]] = scores
    padded = weights_on(real, padded_scores)
    assert_equal(padded[:, :, real[0]], weights_on(torch.ones(1, 4, dtype=torch.bool), scores))
    assert not padded[:, :, ~real[0]].any()


def test_the_location_score_ignores_tokens_past_its_table() -> None:
    module = randomize(LocationScore(QUERY, LOCATIONS), seed=5)
    query = random(BATCH, TARGET, QUERY, seed=1)
    positions, _ = source_positions(MASK)
    scores = module(query, module.project_key(random(BATCH, SOURCE, KEY, seed=2), positions))
    weights = masked_softmax(scores, MASK.unsqueeze(1))
    assert not weights[0, :, LOCATIONS:].any()
    # What is left is the softmax of W_a h_t over the table, as for a sentence that ends where the table does.
    assert_equal(weights[0, :, :LOCATIONS], (query[0] @ module.position_key.T).softmax(dim=-1))
    # A source shorter than the table uses the top part of W_a.
    assert_equal(weights[1, :, :3], (query[1] @ module.position_key[:3].T).softmax(dim=-1))


@pytest.mark.parametrize("kernel", [dot_score, lambda q, k: fast_additive_score(q, k, torch.ones(4))])
def test_a_score_of_lower_precision_stays_there(kernel: Callable[[Tensor, Tensor], Tensor]) -> None:
    query, key = torch.ones(1, 2, 4, dtype=torch.bfloat16), torch.ones(1, 3, 4, dtype=torch.bfloat16)
    assert kernel(query, key).dtype == torch.bfloat16


# attend's options


def test_no_dropout_changes_nothing_and_draws_nothing() -> None:
    scores, value = random(2, TARGET, SOURCE, seed=1), random(2, SOURCE, VALUE, seed=2)
    before = torch.get_rng_state()
    context, weights = attend(scores, value, dropout=0.0)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(context, weights @ value)


def test_dropout_acts_on_the_sum_and_not_on_the_returned_weights() -> None:
    scores = random(2, 40, 50, seed=1).detach()
    value = torch.eye(50, dtype=torch.float64).expand(2, -1, -1)  # makes the context the weights that were used
    plain = attend(scores, value)[1]
    torch.manual_seed(0)
    used, weights = attend(scores, value, dropout=0.25)
    assert torch.equal(weights, plain)
    kept = used != 0
    assert_equal(used[kept], plain[kept] / 0.75)
    # 4000 draws: the standard deviation of the rate is 0.007
    assert abs((~kept).double().mean() - 0.25) < 0.03


@pytest.mark.parametrize("window_size", [0, -1])
def test_a_window_of_no_width_is_refused(window_size: int) -> None:
    with pytest.raises(ValueError, match=f"at least 1.*{window_size}"):
        MonotonicWindow(window_size)


def test_a_dot_score_of_two_widths_is_refused() -> None:
    with pytest.raises(ValueError, match=r"3 and 4.*general"):
        DotScore(3, 4)


def test_parameters_are_the_papers_and_no_more() -> None:
    """There are only the parameters of the equations: no biases, and none for the dot score and local-m."""

    def shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
        return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}

    assert shapes(DotScore(3, 3)) == {}
    assert shapes(GeneralScore(3, 4)) == {"key_proj.weight": (3, 4)}
    assert shapes(AdditiveScore(3, 4, 6)) == {
        "query_proj.weight": (6, 3),
        "key_proj.weight": (6, 4),
        "score_vector": (6,),
    }
    assert shapes(LocationScore(3, 5)) == {"position_key": (5, 3)}
    assert shapes(MonotonicWindow(2)) == {}
    assert shapes(PredictiveWindow(3, 2)) == {
        "query_proj.weight": (3, 3),
        "position_proj.weight": (1, 3),
    }
