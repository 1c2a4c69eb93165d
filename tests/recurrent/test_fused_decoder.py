"""The loops with a backward pass of their own give what the plain decoders give, and are taken where they may be."""

from collections import defaultdict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnzoo import AttentionalRNNForConditionalGeneration, attention, fused_decoder, loss, modeling_attentional_rnn
from attnzoo.fused_attention import AdditiveSteps
from attnzoo.fused_cells import Rows
from attnzoo.fused_decoder import has_fused_loop
from attnzoo.loss import IGNORED, linear_cross_entropy, token_cross_entropy
from attnzoo.recurrent_cells import RecurrentState
from attnzoo.recurrent_decoder import DecoderState
from tests.recurrent.test_wirings import ACCEPTED, COPIED, assert_same_gradients, batch, gradients
from tests.recurrent.test_wirings import tiny_model as tiny_model_of

FUSED = [
    case
    for case in ACCEPTED
    if (case["wiring"] == "bahdanau" or case["input_feeding"]) and case["cell"] in ("cho_gru", "gru", "lstm")
]


def tiny_model(case: dict[str, Any]) -> AttentionalRNNForConditionalGeneration:
    return tiny_model_of(case | (COPIED if case["score"] == "dot" else {}))


def name(case: dict[str, Any]) -> str:
    return "-".join(str(value) for value in case.values())


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A call of a model that takes the decoders' own loop."""

    def call(model: nn.Module, **inputs: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(modeling_attentional_rnn, "has_fused_loop", lambda decoder: False)
            return model(**inputs)

    return call


@pytest.mark.parametrize("case", ACCEPTED, ids=name)
def test_which_decoders_have_a_loop_of_their_own(case: dict[str, Any]) -> None:
    """Every attending decoder whose steps wait for each other, with every cell but the plain tanh RNN."""
    assert has_fused_loop(tiny_model(case).model.decoder.wiring) == (case in FUSED)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("case", FUSED, ids=name)
def test_values_and_gradients_are_those_of_the_plain_decoder(case: dict[str, Any], layers: int, plain: Any) -> None:
    model, inputs = tiny_model(case | {"decoder_layers": layers}), batch()
    expected, actual = plain(model, **inputs), model(**inputs)
    torch.testing.assert_close(actual.logits, expected.logits, rtol=1e-10, atol=1e-10)
    expected_gradients = gradients(expected.loss, model)
    assert_same_gradients(gradients(actual.loss, model), expected_gradients)
    shrinking = model(**inputs, skip_logits=True)  # and reads no row beyond its last label
    torch.testing.assert_close(shrinking.loss, expected.loss, rtol=1e-10, atol=1e-10)
    assert_same_gradients(gradients(shrinking.loss, model), expected_gradients)
    assert shrinking.logits is None


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("wiring", ["bahdanau", "luong"])
def test_additive_attention_takes_some_rows_at_a_time(
    rows: int, wiring: str, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = {
        "wiring": wiring,
        "score": "additive",
        "window": "global",
        "cell": "gru",
        "input_feeding": wiring == "luong",
    }
    model, inputs = tiny_model(case), batch()
    expected = plain(model, **inputs)
    of_query = inputs["input_ids"].shape[1] * model.config.attention_size
    monkeypatch.setattr(attention, "ADDITIVE_CHUNK_ELEMENTS", rows * of_query)
    actual = model(**inputs, skip_logits=True)
    torch.testing.assert_close(actual.loss, expected.loss, rtol=1e-10, atol=1e-10)
    assert_same_gradients(gradients(actual.loss, model), gradients(expected.loss, model))


@pytest.mark.parametrize("case", [case for case in ACCEPTED if case not in FUSED][::7], ids=name)
def test_other_decoders_can_skip_their_logits_too(case: dict[str, Any]) -> None:
    model, inputs = tiny_model(case), batch()
    expected, actual = model(**inputs), model(**inputs, skip_logits=True)
    assert actual.logits is None
    torch.testing.assert_close(actual.loss, expected.loss, rtol=1e-10, atol=1e-10)
    assert_same_gradients(gradients(actual.loss, model), gradients(expected.loss, model))


@pytest.mark.parametrize("case", [*FUSED[::5], FUSED[-1]], ids=name)
def test_dropout_is_where_the_plain_decoder_has_it(
    case: dict[str, Any], plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both draw the same masks: every dropout layer has its own, step after step."""
    model, inputs = tiny_model(case | {"decoder_layers": 2, "dropout": 0.4}).train(), batch()
    calls: dict[int, int] = defaultdict(int)

    def mask(dropout: nn.Dropout, like: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(1000 * list(model.modules()).index(dropout) + calls[id(dropout)])
        calls[id(dropout)] += 1
        return torch.empty(like.shape, dtype=like.dtype).bernoulli_(0.6, generator=generator) / 0.6

    def packed_mask(dropout: nn.Dropout, rows: Rows, like: Tensor, width: int) -> Tensor | None:
        # The plain decoders drop a layer at a time, (B, 1, H), or a fed vector, (B, R).
        return torch.cat([mask(dropout, like.new_empty(size, 1, width)).squeeze(1) for size in rows.sizes])

    monkeypatch.setattr(nn.Dropout, "forward", lambda self, values: values * mask(self, values))
    monkeypatch.setattr(fused_decoder, "_kept", packed_mask)
    expected = plain(model, **inputs)
    made = dict(calls)
    calls.clear()
    actual = model(**inputs)
    assert calls == made
    torch.testing.assert_close(actual.logits, expected.logits, rtol=1e-10, atol=1e-10)
    assert_same_gradients(gradients(actual.loss, model), gradients(expected.loss, model))


def test_dropout_is_drawn_in_training_alone() -> None:
    case = {"wiring": "luong", "score": "general", "window": "global", "cell": "lstm", "input_feeding": True}
    model, inputs = tiny_model(case | {"decoder_layers": 2, "dropout": 0.5}).eval(), batch()
    assert torch.equal(model(**inputs).logits, model(**inputs).logits)
    model.model.encoder.eval()
    model.model.decoder.train()
    model.model.decoder.dropout.eval()  # the one of the embeddings
    torch.manual_seed(0)
    first = model(**inputs).logits
    assert not torch.equal(first, model(**inputs).logits)
    torch.manual_seed(0)
    assert torch.equal(first, model(**inputs).logits)


@pytest.mark.parametrize("cell", ["cho_gru", "gru", "lstm"])
@pytest.mark.parametrize("wiring", ["bahdanau", "luong"])
@pytest.mark.parametrize("score", ["general", "additive"])
@pytest.mark.parametrize("window", ["global", "predictive"])
def test_gradients_are_those_of_finite_differences(cell: str, wiring: str, score: str, window: str) -> None:
    case = {"wiring": wiring, "score": score, "window": window, "cell": cell, "input_feeding": wiring == "luong"}
    # A window whose edge moves over a token has no derivative there: this one holds every token.
    model = tiny_model(case | {"window_size": 9, "decoder_layers": 2})
    generator = torch.Generator().manual_seed(5)
    decoder = model.model.decoder.wiring

    def random(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    mask = torch.tensor([[True, True, True], [True, False, True], [False, False, False]])
    value, inputs = random(3, 3, 4).requires_grad_(), random(3, 4, 3).requires_grad_()
    lengths = torch.tensor([2, 4, 1])
    state = RecurrentState(random(3, 2, 9), random(3, 2, 9) if cell == "lstm" else None)
    starts = [part.requires_grad_() for part in state if part is not None]
    names = [name for name, _ in decoder.named_parameters() if "bridge" not in name and "initial" not in name]

    def readout(inputs: Tensor, value: Tensor, *others: Tensor) -> Tensor:
        weights = dict(zip(names, others[len(starts) :], strict=True))
        hidden, cell_state = [*others[: len(starts)], None][:2]
        return torch.func.functional_call(
            ReadOut(decoder),
            {f"decoder.{name}": w for name, w in weights.items()},
            (inputs, RecurrentState(hidden, cell_state), value, mask, lengths),
        )

    tensors = [inputs, value, *starts, *(decoder.get_parameter(name) for name in names)]
    # Along one random direction instead of every axis: a wrong gradient shows in it, in a thirtieth of the time.
    assert torch.autograd.gradcheck(readout, tensors, atol=1e-6, fast_mode=True)


class ReadOut(nn.Module):
    """A decoder's loop as a module's call, so that its weights can be inputs."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, inputs: Tensor, state: Any, value: Tensor, mask: Tensor, lengths: Tensor) -> Tensor:
        source = self.decoder.attention.read(value, mask)
        return self.decoder.readout(inputs, DecoderState(state), source, lengths)


LUONG = {"wiring": "luong", "score": "general", "window": "global", "cell": "lstm", "input_feeding": True}
BAHDANAU = {"wiring": "bahdanau", "score": "additive", "window": "global", "cell": "cho_gru"}


@pytest.mark.parametrize("case", [LUONG, BAHDANAU], ids=name)
def test_a_second_backward_pass_finds_what_the_first_one_found(case: dict[str, Any]) -> None:
    model, inputs = tiny_model(case), batch()
    loss = model(**inputs, skip_logits=True).loss
    first = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    second = torch.autograd.grad(loss, list(model.parameters()))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(loss, list(model.parameters()))  # and nothing is kept after the last one


@pytest.mark.parametrize("case", [LUONG, BAHDANAU], ids=name)
def test_a_weight_that_changed_in_between_is_noticed(case: dict[str, Any]) -> None:
    model, inputs = tiny_model(case), batch()
    loss = model(**inputs).loss
    with torch.no_grad():
        for parameter in model.model.decoder.wiring.rnn.parameters():
            parameter += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("case", [LUONG, BAHDANAU, LUONG | {"score": "additive", "window": "predictive"}], ids=name)
def test_a_training_is_the_same_training(case: dict[str, Any], plain: Any) -> None:
    """200 steps of Adam in float32."""
    models = [tiny_model(case).float() for _ in range(2)]
    calls = [lambda **inputs: plain(models[0], **inputs), lambda **inputs: models[1](**inputs, skip_logits=True)]
    losses = []
    for model, call in zip(models, calls, strict=True):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter *= 0.3
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        losses.append([])
        for _ in range(200):
            loss = call(**batch()).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[-1].append(loss.item())
    assert losses[0][-1] < losses[0][0] - 0.1
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)


def test_whatever_needs_more_than_the_readout_takes_the_plain_decoder(plain: Any) -> None:
    model, inputs = tiny_model(LUONG), batch()
    expected = plain(model, **inputs, output_attentions=True, output_hidden_states=True)
    outputs = model(**inputs, output_attentions=True, output_hidden_states=True)
    assert torch.equal(outputs.cross_attentions[0], expected.cross_attentions[0])
    assert torch.equal(outputs.decoder_hidden_states[-1], expected.decoder_hidden_states[-1])


def test_a_hook_or_an_adapter_is_heard() -> None:
    model = tiny_model(LUONG)
    decoder = model.model.decoder.wiring
    assert has_fused_loop(decoder)
    handle = decoder.output_proj.register_forward_hook(lambda *_: None)
    assert not has_fused_loop(decoder)
    handle.remove()
    assert has_fused_loop(decoder)

    class Adapter(nn.Linear):
        pass

    decoder.output_proj = Adapter(13, 10, bias=False)
    assert not has_fused_loop(decoder)


class TenthOfDotScore(attention.DotScore):
    """A score class that somebody writes beside the others."""

    __module__ = "attnzoo.attention"

    def forward(self, query: Tensor, projected_key: Tensor) -> Tensor:
        return 0.1 * super().forward(query, projected_key)


class NarrowerWindow(attention.LocalWindow):
    __module__ = "attnzoo.attention"

    def forward(self, *args: Any) -> tuple[Tensor, Tensor | None]:
        mask, reweight = super().forward(*args)
        return mask, None if reweight is None else reweight.square()


@pytest.mark.parametrize("part", ["score", "window"])
def test_a_new_class_of_attention_is_trained_as_itself(part: str) -> None:
    """And not by the steps of the class that it extends."""
    model, inputs = tiny_model(LUONG | {"score": "dot", "window": "predictive"} | COPIED), batch()
    of_old_class, wiring = model(**inputs).loss, model.model.decoder.wiring
    if part == "score":
        wiring.attention.score = TenthOfDotScore(4, 4)
    else:
        wiring.attention.window.__class__ = NarrowerWindow
    assert loss.is_untouched(wiring)
    expected = model(**inputs, output_attentions=True).loss
    assert torch.equal(model(**inputs).loss, expected)
    assert not torch.allclose(expected, of_old_class)


# The loss without logits


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("num_items", [None, 7, torch.tensor(7)])
def test_the_loss_is_that_of_the_logits(
    label_smoothing: float, num_items: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss, "TOKENS_AT_A_TIME", 4)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(3, 5, 6, dtype=torch.float64, generator=generator).requires_grad_()
    weight = torch.randn(11, 6, dtype=torch.float64, generator=generator).requires_grad_()
    labels = torch.randint(0, 11, (3, 5), generator=generator)
    labels[0, 2:] = labels[1, 0] = IGNORED
    expected = token_cross_entropy(hidden @ weight.t(), labels, num_items, label_smoothing)
    actual = linear_cross_entropy(hidden, weight, labels, num_items, label_smoothing)
    torch.testing.assert_close(actual, expected)
    for one, other in zip(*(torch.autograd.grad(3 * x, (hidden, weight)) for x in (actual, expected)), strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        torch.testing.assert_close(linear_cross_entropy(hidden, weight, labels, num_items, label_smoothing), expected)


def test_under_autocast_the_products_alone_are_less_precise() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(4, 9, 32, generator=generator).requires_grad_()
    weight = torch.randn(50, 32, generator=generator).mul(0.2).requires_grad_()
    labels = torch.randint(0, 50, (4, 9), generator=generator)
    expected = linear_cross_entropy(hidden, weight, labels)
    with torch.autocast("cpu", torch.bfloat16):
        actual = linear_cross_entropy(hidden, weight, labels)
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual, expected, rtol=1e-2, atol=0)
    for one, other in zip(*(torch.autograd.grad(x, (hidden, weight)) for x in (actual, expected)), strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0, atol=0.02 * other.abs().max().item())


@pytest.mark.parametrize(
    "case", [LUONG, LUONG | {"window": "predictive"}, BAHDANAU, BAHDANAU | {"cell": "gru"}], ids=name
)
def test_under_autocast_the_states_stay_as_they_are(case: dict[str, Any], plain: Any) -> None:
    model, inputs = tiny_model(case).float(), batch()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 0.4
    expected = gradients(plain(model, **inputs).loss, model)
    with torch.autocast("cpu", torch.bfloat16):
        losses = plain(model, **inputs).loss, model(**inputs, skip_logits=True).loss
    torch.testing.assert_close(*losses, rtol=1e-2, atol=0)
    of_plain, of_fused = (gradients(loss, model) for loss in losses)
    for name_, gradient in of_fused.items():
        assert gradient.dtype == torch.float32
        errors = [
            ((one[name_] - expected[name_]).norm() / expected[name_].norm()).item() for one in (of_plain, of_fused)
        ]
        assert errors[1] < max(1.5 * errors[0], 0.05), name_


@pytest.mark.parametrize("width", [0.01, 0.1, 1.0])
def test_small_scores_keep_their_digits_in_half_precision(width: float) -> None:
    """As they are when a training begins: a small tanh must not be the difference of two rounded sigmoids."""
    torch.manual_seed(0)
    query, key, weight, vector, grad_scores = (
        values.bfloat16()
        for values in (
            torch.randn(8, 32).tanh(),
            width * torch.randn(8, 20, 64),
            width * torch.randn(64, 32) / 32**0.5,
            0.01 * torch.randn(64),
            torch.randn(8, 20),
        )
    )

    def step(dtype: torch.dtype) -> list[Tensor]:
        q, k, w, v, g = (values.to(dtype) for values in (query, key, weight, vector, grad_scores))
        steps = AdditiveSteps(Rows([1] * len(q)), k, w, v)
        scores = steps.forward(0, q)
        steps.start_backward()
        return [scores, steps.backward(0, g), *steps.gradients(q, g)]

    for rounded, exact in zip(step(torch.bfloat16), step(torch.float64), strict=True):
        assert rounded.dtype == torch.bfloat16
        assert float((rounded.double() - exact).norm() / exact.norm()) < 0.01


def test_a_batch_without_labels_has_no_loss_and_no_gradient() -> None:
    hidden, weight = torch.randn(2, 3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    nothing = linear_cross_entropy(hidden, weight, torch.full((2, 3), IGNORED))
    assert nothing.item() == 0
    assert not any(gradient.any() for gradient in torch.autograd.grad(nothing, (hidden, weight)))


def test_logits_are_skipped_only_when_asked_for() -> None:
    model, inputs = tiny_model(LUONG), batch()
    assert model(**inputs).logits is not None
    with pytest.raises(ValueError, match="skip_logits=True leaves nothing to return without labels"):
        model(inputs["input_ids"], decoder_input_ids=inputs["labels"].clamp(min=3), skip_logits=True)
    with pytest.raises(ValueError, match=r"labels of shape .* do not fit a target of shape"):
        model(**inputs, decoder_input_ids=inputs["labels"][:, 1:].clamp(min=3), skip_logits=True)
