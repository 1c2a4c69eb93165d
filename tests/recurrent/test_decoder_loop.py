"""The decoders' loop and the products that its steps share, compared with loop references and plain autograd."""

from collections import defaultdict
from itertools import cycle, product
from typing import Any

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn

import attnzoo
from attnzoo import (
    AttentionalRNNForConditionalGeneration,
    attention,
    fast_additive,
    loss,
    recurrent_cells,
    recurrent_decoder,
)
from attnzoo.attention import Score
from attnzoo.fast_additive import fast_additive_score
from attnzoo.fast_shared_gradients import DeferredFactor
from attnzoo.loss import IGNORED, linear_cross_entropy, token_cross_entropy
from attnzoo.step_products import StepProducts
from tests.attention.tensors import assert_equal
from tests.factory import EOS, RNN_VARIANTS, inputs, tiny_model
from tests.recurrent.wirings import (
    ACCEPTED,
    CELLS,
    COPIED,
    WINDOWS,
    assert_same_alignments,
    assert_same_gradients,
    batch,
    gradients,
    loop_translation,
    wired_model,
    words_read,
)
from tests.reference import attentional_rnn as reference

STEPPING = [case for case in ACCEPTED if case["wiring"] == "bahdanau" or case["input_feeding"]]
OTHERS = [case for case in ACCEPTED if case not in STEPPING]
LUONG = {"wiring": "luong", "score": "general", "window": "global", "cell": "lstm", "input_feeding": True}
BAHDANAU = {"wiring": "bahdanau", "score": "additive", "window": "global", "cell": "cho_gru"}
CASES = [LUONG, BAHDANAU, LUONG | {"score": "additive", "window": "predictive"}, BAHDANAU | {"cell": "gru"}]


def stepping_model(case: dict[str, Any]) -> AttentionalRNNForConditionalGeneration:
    return wired_model(case | (COPIED if case["score"] == "dot" else {}))


def name(case: dict[str, Any]) -> str:
    return "-".join(str(value) for value in case.values())


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A call of a model without shared products: plain autograd."""

    def call(model: nn.Module, **inputs: Any) -> Any:
        with monkeypatch.context() as patch:
            for module in (recurrent_cells, recurrent_decoder):
                patch.setattr(module, "loop_products", lambda rows: StepProducts())
            return model(**inputs)

    return call


# The stride is coprime to the numbers of scores, windows and cells: every window meets every score and every cell.
@pytest.mark.parametrize("case", [*STEPPING[::7], *OTHERS[::7]], ids=name)
def test_targets_of_all_lengths_equal_the_loop(case: dict[str, Any]) -> None:
    """The loss and every gradient of a step without logits, with two layers. ``test_wirings.py`` has one layer."""
    model, inputs = stepping_model(case | {"decoder_layers": 2}), batch()
    expected = reference.cross_entropy(loop_translation(model, inputs).logits, inputs["labels"])
    outputs = model(**inputs, skip_logits=True)
    assert outputs.logits is None
    assert_equal(outputs.loss, expected, "loss")
    assert_same_gradients(gradients(outputs.loss, model), gradients(expected, model))


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("wiring", ["bahdanau", "luong"])
def test_additive_attention_takes_some_rows_at_a_time(rows: int, wiring: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = BAHDANAU | {"wiring": wiring, "cell": "gru", "input_feeding": wiring == "luong"}
    model, inputs = stepping_model(case), batch()
    expected = reference.cross_entropy(loop_translation(model, inputs).logits, inputs["labels"])
    of_query = inputs["input_ids"].shape[1] * model.config.attention_size
    monkeypatch.setattr(fast_additive, "ADDITIVE_CHUNK_ELEMENTS", rows * of_query)
    actual = model(**inputs, skip_logits=True)
    assert_equal(actual.loss, expected, "loss")
    assert_same_gradients(gradients(actual.loss, model), gradients(expected, model))


@pytest.mark.parametrize("case", [*STEPPING[::9], STEPPING[-1]], ids=name)
def test_dropout_equals_the_loop(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropout masks depend on the numbers of step, layer and row; those of Bahdanau's readouts are drawn at once."""
    model, inputs = stepping_model(case | {"decoder_layers": 3, "dropout": 0.4}).train(), batch()
    wiring = model.model.decoder.wiring
    places = {id(wiring.get_submodule(place)): place for place in ("dropout", "rnn.dropout")}
    calls: dict[str, int] = defaultdict(int)
    rows, steps = inputs["labels"].shape

    def mask(place: str, call: int, row: int, width: int) -> Tensor:
        generator = torch.Generator().manual_seed(1000 * call + 10 * row + len(place))
        return torch.empty(width, dtype=torch.float64).bernoulli_(0.6, generator=generator) / 0.6

    def forward(dropout: nn.Dropout, values: Tensor) -> Tensor:
        place = places.get(id(dropout))
        if place is None:  # of the embeddings or the encoder
            return values
        masks = []
        for _ in range(len(values) // rows):
            masks += [mask(place, calls[place], row, values.shape[-1]) for row in range(rows)]
            calls[place] += 1
        return values * torch.stack(masks)

    def drop(row: int) -> reference.Drop:
        counts: dict[str, int] = defaultdict(int)

        def drop_values(place: str, values: Tensor) -> Tensor:
            counts[place] += 1
            return values * mask(place, counts[place] - 1, row, len(values))

        return drop_values

    monkeypatch.setattr(nn.Dropout, "forward", forward)
    actual = model(**inputs)
    assert calls == {"dropout": steps, "rnn.dropout": 2 * steps}
    read = words_read(model, inputs["labels"])
    expected = reference.translate(model, inputs["input_ids"], inputs["attention_mask"], read, drop=drop)
    assert_equal(actual.logits, expected.logits, "logits")
    expected_loss = reference.cross_entropy(expected.logits, inputs["labels"])
    assert_same_gradients(gradients(actual.loss, model), gradients(expected_loss, model))


def test_dropout_is_drawn_in_training_alone() -> None:
    case = {"wiring": "luong", "score": "general", "window": "global", "cell": "lstm", "input_feeding": True}
    model, inputs = stepping_model(case | {"decoder_layers": 2, "dropout": 0.5}).eval(), batch()
    assert torch.equal(model(**inputs).logits, model(**inputs).logits)
    model.model.encoder.eval()
    model.model.decoder.train()
    model.model.decoder.dropout.eval()  # the one of the embeddings
    torch.manual_seed(0)
    first = model(**inputs).logits
    assert not torch.equal(first, model(**inputs).logits)
    torch.manual_seed(0)
    assert torch.equal(first, model(**inputs).logits)


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_second_backward_pass_finds_what_the_first_one_found(case: dict[str, Any]) -> None:
    model, inputs = stepping_model(case), batch()
    loss = model(**inputs, skip_logits=True).loss
    first = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    second = torch.autograd.grad(loss, list(model.parameters()))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(loss, list(model.parameters()))  # and nothing is kept after the last one


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_backward_pass_counts_its_own_steps_alone(case: dict[str, Any], plain: Any) -> None:
    """It follows backward passes without the gradient of a weight, of the first three steps, and of a middle step."""
    model, inputs = stepping_model(case), batch()
    parameters = list(model.parameters())
    embeddings = model.model.decoder.embed_tokens(words_read(model, inputs["labels"])).detach().requires_grad_()
    source = {"input_ids": inputs["input_ids"], "decoder_inputs_embeds": embeddings}
    outputs, expected = (call(**source).logits for call in (model, lambda **inputs: plain(model, **inputs)))
    torch.autograd.grad(outputs.square().sum(), embeddings, retain_graph=True)
    for steps in (slice(0, 3), slice(2, 3), slice(0, None)):
        actual, wanted = (
            torch.autograd.grad(logits[:, steps].square().sum(), parameters, retain_graph=True, allow_unused=True)
            for logits in (outputs, expected)
        )
        for parameter, gradient, other in zip(parameters, actual, wanted, strict=True):
            assert_equal(
                torch.zeros_like(parameter) if gradient is None else gradient,
                torch.zeros_like(parameter) if other is None else other,
            )


@pytest.mark.parametrize("case", [*CASES, LUONG | {"score": "dot"}], ids=name)
def test_several_targets_of_a_source_give_the_gradients_of_a_repeated_source(case: dict[str, Any]) -> None:
    model, inputs = stepping_model(case), batch()
    read = words_read(model, inputs["labels"])
    targets = torch.cat([read, read.flip(0)], dim=1).unflatten(1, (2, -1)).flatten(0, 1)  # two for each source
    found = []
    for repeats in (1, 2):
        source, mask = (inputs[name].repeat_interleave(repeats, dim=0) for name in ("input_ids", "attention_mask"))
        encoder_outputs = model.get_encoder()(source, attention_mask=mask)
        logits = model(encoder_outputs=encoder_outputs, attention_mask=mask, decoder_input_ids=targets).logits
        found.append(gradients(logits.square().sum(), model))
    assert_same_gradients(*found)


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_weight_that_changed_in_between_is_noticed(case: dict[str, Any]) -> None:
    model, inputs = stepping_model(case), batch()
    loss = model(**inputs).loss
    with torch.no_grad():
        for parameter in model.model.decoder.wiring.rnn.parameters():
            parameter += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_checkpointed_loop_and_frozen_weights_have_the_same_gradients(case: dict[str, Any]) -> None:
    model, inputs = stepping_model(case).train(), batch()
    expected = gradients(model(**inputs, skip_logits=True).loss, model)
    model.gradient_checkpointing_enable()
    assert_same_gradients(gradients(model(**inputs, skip_logits=True).loss, model), expected)
    for part in ("encoder", "decoder.wiring.rnn", "decoder.wiring.attention"):
        frozen = model.model.get_submodule(part).requires_grad_(False)
        model(**inputs, skip_logits=True).loss.backward()
        for name_, parameter in model.named_parameters():
            if parameter.requires_grad:
                assert_equal(parameter.grad, expected[name_], name_)
            else:
                assert parameter.grad is None
        frozen.requires_grad_(True)
        model.zero_grad()


@pytest.mark.parametrize(("case", "part"), [(LUONG | {"window": "predictive"}, ""), (BAHDANAU, "model.decoder")])
def test_a_compiled_model_has_the_same_gradients(case: dict[str, Any], part: str) -> None:
    """The whole model or its decoder is compiled, with a short target, since every step is traced."""
    model, inputs = stepping_model(case).train(), batch()
    inputs["labels"] = inputs["labels"][:, :2]
    expected = gradients(model(**inputs).loss, model)
    torch.compiler.reset()
    model.get_submodule(part).compile(backend="eager")
    assert_same_gradients(gradients(model(**inputs).loss, model), expected)


@pytest.mark.parametrize("case", CASES[:3], ids=name)
def test_a_training_is_the_same_training(case: dict[str, Any], plain: Any) -> None:
    """20 steps of Adam in float32 give the same weights."""
    models = [stepping_model(case).float() for _ in range(2)]
    calls = [lambda **inputs: plain(models[0], **inputs), lambda **inputs: models[1](**inputs, skip_logits=True)]
    losses = []
    for model, call in zip(models, calls, strict=True):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter *= 0.3
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        losses.append([])
        for _ in range(20):
            loss = call(**batch()).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses[-1].append(loss.item())
    assert losses[0][-1] < losses[0][0] - 0.1
    assert losses[1] == pytest.approx(losses[0], abs=1e-4)


# Hooks, adapters and new scores


@pytest.mark.parametrize("case", CASES, ids=name)
def test_a_hook_anywhere_in_the_decoder_is_called_at_every_step(case: dict[str, Any]) -> None:
    model, inputs = stepping_model(case | {"decoder_layers": 2}), batch()
    expected = model(**inputs)
    wiring, calls = model.model.decoder.wiring, defaultdict(int)
    at_every_step = {name for name, _ in wiring.named_modules() if name.startswith(("attention", "rnn.layers."))}
    at_every_step -= {"attention.score.key_proj"}
    if case["wiring"] == "luong":
        at_every_step |= {"output_proj"}
    for name_ in at_every_step:
        handle = wiring.get_submodule(name_).register_forward_hook(
            lambda *_, name=name_: calls.update({name: calls[name] + 1})
        )
        outputs = model(**inputs)
        handle.remove()
        assert calls[name_] == inputs["labels"].shape[1], name_
        assert_equal(outputs.logits, expected.logits, name_)
        assert_same_gradients(
            gradients(outputs.loss, model),
            gradients(expected.loss, model) if name_ == "attention" else gradients(model(**inputs).loss, model),
        )


@pytest.mark.parametrize("use_dora", [False, True])
@pytest.mark.parametrize("case", CASES, ids=name)
def test_adapters_are_trained_with_deferred_gradients(
    case: dict[str, Any], use_dora: bool, plain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LoRA and DoRA are on every linear layer; all other weights of the loop have deferred gradients."""
    model, inputs = stepping_model(case), batch()
    model = inject_adapter_in_model(
        LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False, use_dora=use_dora), model
    ).double()
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    shared = []
    make = DeferredFactor.__init__
    monkeypatch.setattr(DeferredFactor, "__init__", lambda self, *given: shared.append(given) or make(self, *given))
    actual, expected = model(**inputs), plain(model, **inputs)
    assert shared
    assert_equal(actual.logits, expected.logits, "logits")
    assert_same_gradients(gradients(actual.loss, model), gradients(expected.loss, model))


class DistanceScore(Score):
    """Minus the squared distance of a projected query and the key, a score that the package does not have."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(query_size, key_size)

    def forward(self, query: Tensor, projected_key: Tensor) -> Tensor:
        return -(self.query_proj(query).unsqueeze(2) - projected_key.unsqueeze(1)).square().sum(dim=-1)


def distance_by_hand(
    look: reference.Attention, query: Tensor, annotation: Tensor, position: int, coverage: Tensor
) -> Tensor:
    projected = look.weights["score.query_proj.weight"] @ query + look.weights["score.query_proj.bias"]
    return -sum((projected[i] - annotation[i]) ** 2 for i in range(len(annotation)))


@pytest.fixture
def with_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(attention.SCORES, "distance", lambda sizes: DistanceScore(sizes.query_size, sizes.key_size))
    monkeypatch.setattr(reference.Attention, "score_of", distance_by_hand)


NEW_SCORES = [
    wiring | {"score": "distance", "window": window, "cell": cell}
    for (wiring, window), cell in zip(
        product([{"wiring": "bahdanau"}, {"wiring": "luong"}, {"wiring": "luong", "input_feeding": True}], WINDOWS),
        cycle(CELLS),
    )
]


@pytest.mark.usefixtures("with_distance")
@pytest.mark.parametrize("case", NEW_SCORES, ids=name)
def test_a_new_score_is_a_formula_and_a_line(case: dict[str, Any]) -> None:
    """In training, with padding and without, alignments, generation, search and through a saved config."""
    model, inputs = stepping_model(case).train(), batch()
    expected = loop_translation(model, inputs)
    expected_loss = reference.cross_entropy(expected.logits, inputs["labels"])
    expected_gradients = gradients(expected_loss, model)
    outputs = model(**inputs, output_attentions=True)
    assert_equal(outputs.logits, expected.logits, "logits")
    assert_same_alignments(outputs, expected)
    for loss_ in (outputs.loss, model(**inputs, skip_logits=True).loss):
        assert_equal(loss_, expected_loss, "loss")
        assert_same_gradients(gradients(loss_, model), expected_gradients)

    model.eval()
    source = {"input_ids": inputs["input_ids"], "attention_mask": inputs["attention_mask"]}
    by_hand = reference.own_words(model, *source.values(), 6).tolist()
    for row, words in zip(model.generate(**source, max_new_tokens=5).tolist(), by_hand, strict=True):
        until = row.index(EOS) + 1 if EOS in row else len(row)
        assert row[:until] == words[:until]
    options = {"max_new_tokens": 5, "min_new_tokens": 5}
    for beams in (1, 3):
        generated = model.generate(**source, **options, num_beams=beams)
        assert torch.equal(
            model.generate(**source, **options, num_beams=beams, custom_generate=attnzoo.search), generated
        )
    again = type(model.config).from_dict(model.config.to_dict())
    assert again.score == "distance"


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


@pytest.mark.parametrize("case", [*CASES, LUONG | {"window": "predictive"}], ids=name)
def test_under_autocast_the_gradients_are_those_of_plain_autograd(case: dict[str, Any], plain: Any) -> None:
    model, inputs = stepping_model(case).float(), batch()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 0.4
    expected = gradients(plain(model, **inputs).loss, model)
    with torch.autocast("cpu", torch.bfloat16):
        losses = plain(model, **inputs).loss, model(**inputs, skip_logits=True).loss
    torch.testing.assert_close(*losses, rtol=1e-2, atol=0)
    of_plain, of_shared = (gradients(loss, model) for loss in losses)
    for name_, gradient in of_shared.items():
        assert gradient.dtype == torch.float32
        errors = [
            ((one[name_] - expected[name_]).norm() / expected[name_].norm()).item() for one in (of_plain, of_shared)
        ]
        assert errors[1] < max(1.5 * errors[0], 0.05), name_


@pytest.mark.parametrize("width", [0.01, 0.1, 1.0])
def test_small_scores_keep_their_digits_in_half_precision(width: float) -> None:
    """Scores are small at the start of a training: a small tanh must not be the difference of two rounded sigmoids."""
    torch.manual_seed(0)
    query, key, vector, grad_scores = (
        values.bfloat16()
        for values in (
            width * torch.randn(8, 1, 64),
            width * torch.randn(8, 20, 64),
            0.01 * torch.randn(64),
            torch.randn(8, 1, 20),
        )
    )

    def step(dtype: torch.dtype) -> list[Tensor]:
        q, k, v, g = (values.to(dtype).requires_grad_() for values in (query, key, vector, grad_scores))
        scores = fast_additive_score(q, k, v)
        return [scores, *torch.autograd.grad(scores, (q, k, v), g)]

    for rounded, exact in zip(step(torch.bfloat16), step(torch.float64), strict=True):
        assert rounded.dtype == torch.bfloat16
        assert float((rounded.double() - exact).norm() / exact.norm()) < 0.01


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("variant", RNN_VARIANTS)
def test_a_traced_model_has_the_gradients_of_the_model(variant: str) -> None:
    model = tiny_model(variant)
    given = inputs(model.config)

    class Logits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *values: Tensor) -> Tensor:
            return self.model(**dict(zip(given, values, strict=True)), use_cache=False).logits

    found = []
    for function in (Logits(), torch.jit.trace(Logits(), tuple(given.values()), check_trace=False)):
        model.zero_grad()
        function(*given.values()).square().sum().backward()
        found.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-10)
