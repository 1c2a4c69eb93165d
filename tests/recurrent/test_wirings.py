"""The attentional RNN against the papers: cells, encoder and every wiring equal their loop references."""

from itertools import product
from typing import Any, get_args

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration, attention
from attnzoo.recurrent_cells import ChoGRU, recurrent_layer
from attnzoo.recurrent_encoder import RecurrentEncoder, RecurrentEncoderOutput
from tests.attention.test_attention import assert_equal, assert_equal_with_gradients, random, randomize
from tests.reference import attentional_rnn as reference

WIRINGS = ["cho", "sutskever", "bahdanau", "luong"]
CELLS = ["cho_gru", "gru", "lstm", "rnn"]
SCORES = ["additive", "dot", "general", "concat", "location"]
WINDOWS = ["global", "monotonic", "predictive"]
DIRECTIONS = {
    "both": {},
    "forward": {"bidirectional": False},
    "backward": {"bidirectional": False, "reverse_source": True},
}
DEPTHS = [(1, 1), (2, 2), (1, 2), (2, 1)]  # of encoder and decoder

# Every place for padding, no padding, and a row with nothing else.
MASK = torch.tensor(
    [
        [1, 1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 1, 1, 1, 1],
        [0, 1, 1, 0, 1, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
)
BATCH, SOURCE = MASK.shape
TARGET = 6
LABEL_LENGTHS = [6, 4, 2, 5, 3]  # longer than the source in some rows, where local-m has to stop

# All different, so that no two can be mixed up. With D = 1 and a table of 4 positions the windows of location scores
# move past the table, and leave a word with nothing to attend to.
SIZES = {
    "vocab_size": 13,
    "embedding_size": 3,
    "encoder_hidden_size": 2,
    "decoder_hidden_size": 9,
    "attention_size": 7,
    "readout_size": 10,
    "window_size": 1,
    "max_source_positions": 4,
}
COPIED = {"decoder_hidden_size": 4}  # as wide as the encoder's outputs: the dot score asks for it, other starts copy


def configuration(case: dict[str, Any]) -> AttentionalRNNConfig:
    fields = SIZES | case
    if fields["wiring"] == "sutskever":  # which reads words from its state as it is
        fields["readout_size"] = fields["decoder_hidden_size"]
    return AttentionalRNNConfig(**fields)


def tiny_model(case: dict[str, Any]) -> AttentionalRNNForConditionalGeneration:
    return randomize(AttentionalRNNForConditionalGeneration(configuration(case)), seed=1)


def batch() -> dict[str, Tensor]:
    """Words at every place, under the padding too: the mask alone says what is read."""
    generator = torch.Generator().manual_seed(2)
    input_ids, labels = (
        torch.randint(3, SIZES["vocab_size"], (BATCH, length), generator=generator) for length in (SOURCE, TARGET)
    )
    labels[torch.arange(TARGET) >= torch.tensor(LABEL_LENGTHS).unsqueeze(1)] = -100
    return {"input_ids": input_ids, "attention_mask": MASK, "labels": labels}


def words_read(model: nn.Module, labels: Tensor) -> Tensor:
    start, pad = model.config.decoder_start_token_id, model.config.pad_token_id
    return torch.tensor([reference.shift_right(row, start, pad) for row in labels.tolist()])


def loop_translation(model: nn.Module, inputs: dict[str, Tensor], fix_context: bool = False) -> reference.Translation:
    read = words_read(model, inputs["labels"])
    return reference.translate(model, inputs["input_ids"], inputs["attention_mask"], read, fix_context)


def gradients(loss: Tensor, model: nn.Module) -> dict[str, Tensor]:
    parameters = dict(model.named_parameters())
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))


def assert_same_gradients(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, gradient in actual.items():
        assert_equal(gradient, expected[name], f"gradients of {name}")
        assert expected[name].any(), f"{name} has no part in the loss; the comparison says nothing about it"


def assert_same_alignments(outputs: Any, expected: reference.Translation) -> None:
    if expected.alignments is None:
        assert outputs.cross_attentions is None
    else:
        assert len(outputs.cross_attentions) == 1
        assert_equal(outputs.cross_attentions[0], expected.alignments.unsqueeze(1), "alignments")


# The whole product of the choices


def choices(wirings: list[str], scores: list[str], windows: list[str], feeding: list[bool]) -> list[dict[str, Any]]:
    names = "wiring", "score", "window", "cell", "input_feeding"
    rows = product(wirings, scores, windows, CELLS, feeding)
    return [dict(zip(names, row, strict=True)) for row in rows]


# Written from the papers, not asked of the config: a decoder without attention has no score and no window, one with
# attention has any of both, input feeding is Luong's, and every cell goes with everything.
ACCEPTED = [
    *choices(["cho", "sutskever"], ["none"], ["global"], [False]),
    *choices(["bahdanau"], SCORES, WINDOWS, [False]),
    *choices(["luong"], SCORES, WINDOWS, [False, True]),
]
WHOLE = choices(WIRINGS, ["none", *SCORES], WINDOWS, [False, True])
REFUSED = [choice for choice in WHOLE if choice not in ACCEPTED]


def faults(choice: dict[str, Any]) -> list[tuple[str, ...]]:
    """What is wrong with a choice, and for each fault what a message must say: the fields, and what would work."""
    wiring, score, window = (f"{name}={choice[name]!r}" for name in ("wiring", "score", "window"))
    found = []
    if choice["input_feeding"] and choice["wiring"] != "luong":
        found.append(("input_feeding=True", wiring, "wiring='luong'"))
    if choice["wiring"] in ("cho", "sutskever"):
        if choice["score"] != "none":
            found.append((wiring, score, "score='none'", "wiring='bahdanau'", "wiring='luong'"))
        if choice["window"] != "global":
            found.append((wiring, window, "window='global'", "wiring='bahdanau'", "'luong'"))
    elif choice["score"] == "none":
        found.append((wiring, score, "wiring='cho'", "wiring='sutskever'", *map(repr, SCORES)))
    return found


def case_id(case: dict[str, Any]) -> str:
    names = [case["wiring"], "feeding" if case.get("input_feeding") else "", case.get("score", ""), case["cell"]]
    names += [case.get("window", "global"), "copied" if "decoder_hidden_size" in case else ""]
    if "encoder_layers" in case:
        directions = "forward" if "bidirectional" in case else "both"
        names.append("backward" if "reverse_source" in case else directions)
        names.append(f"{case['encoder_layers']}to{case['decoder_layers']}")
    return "-".join(name for name in names if name)


def params(cases: list[dict[str, Any]]) -> list[Any]:
    return [pytest.param(case, id=case_id(case)) for case in cases]


def test_the_product_is_whole() -> None:
    assert list(attention.SCORES) == SCORES
    known = {"wiring": WIRINGS, "window": WINDOWS, "cell": CELLS}
    for name, values in known.items():
        parts = get_args(AttentionalRNNConfig.__annotations__[name])
        flat = [value for part in parts for value in (get_args(part) or [part]) if value is not type(None)]
        assert flat == values, f"the product lacks a choice of {name}, or has one too many"
    assert len(WHOLE) == 4 * 6 * 3 * 4 * 2
    assert len(ACCEPTED) == 2 * 4 + 5 * 3 * 4 + 5 * 3 * 4 * 2


@pytest.mark.parametrize("case", params(REFUSED))
def test_what_does_not_go_together_is_refused_with_what_would(case: dict[str, Any]) -> None:
    with pytest.raises((StrictDataclassError, ValueError)) as caught:
        configuration(case | (COPIED if case["score"] == "dot" else {}))
    message = str(caught.value)
    assert any(all(fragment in message for fragment in fault) for fault in faults(case)), message


def assert_equals_the_loop(case: dict[str, Any]) -> None:
    """Logits, alignments and the gradient of every parameter, for training and for evaluation."""
    model, inputs = tiny_model(case), batch()
    expected = loop_translation(model, inputs)
    expected_gradients = gradients(reference.cross_entropy(expected.logits, inputs["labels"]), model)
    for mode in (model.train, model.eval):
        mode()
        outputs = model(**inputs, output_attentions=True)
        assert_equal(outputs.logits, expected.logits, "logits")
        assert_same_alignments(outputs, expected)
        # torch's cross-entropy on the logits, in float64; the loss of the model is compared below
        loss = nn.functional.cross_entropy(outputs.logits.flatten(0, 1), inputs["labels"].flatten())
        assert_same_gradients(gradients(loss, model), expected_gradients)


@pytest.mark.parametrize("case", params(ACCEPTED))
def test_a_wiring_equals_the_loop(case: dict[str, Any]) -> None:
    assert_equals_the_loop(case | (COPIED if case["score"] == "dot" else {}))


# What looks at places of the source has to find them where they were given, in whatever direction they are read.
LOOKS = {
    "cho_gru": {"score": "general", "window": "global"},
    "gru": {"score": "additive", "window": "monotonic"},
    "lstm": {"score": "general", "window": "predictive"},
    "rnn": {"score": "location", "window": "global"},
}


def encoder_cases() -> list[dict[str, Any]]:
    """Every direction, depth and cell for every wiring, and where a start state can be copied, copied and bridged."""
    cases = []
    for wiring, (name, direction), depth, cell in product(WIRINGS, DIRECTIONS.items(), DEPTHS, CELLS):
        case = {"wiring": wiring, "cell": cell, "encoder_layers": depth[0], "decoder_layers": depth[1], **direction}
        if wiring in ("bahdanau", "luong"):
            case |= {**LOOKS[cell], "input_feeding": wiring == "luong"}
        cases.append(case)
        if wiring in ("sutskever", "luong") and depth[0] == depth[1]:
            cases.append(case | {"decoder_hidden_size": SIZES["encoder_hidden_size"] * (2 if name == "both" else 1)})
    return cases


@pytest.mark.parametrize("case", params(encoder_cases()))
def test_a_wiring_over_any_encoder_equals_the_loop(case: dict[str, Any]) -> None:
    assert_equals_the_loop(case)
    copies = "decoder_hidden_size" in case
    bridge = getattr(tiny_model(case).model.decoder.wiring, "bridge", None)
    assert copies == (bridge is not None and bridge.hidden_proj is None)


LOSS_CASES = [
    {"wiring": "cho", "cell": "gru"},
    {"wiring": "sutskever", "cell": "lstm"},
    {"wiring": "bahdanau", "score": "additive", "cell": "cho_gru"},
    {"wiring": "luong", "score": "general", "cell": "lstm", "window": "predictive"},
    {"wiring": "luong", "score": "dot", "cell": "gru", "input_feeding": True, **COPIED},
]


@pytest.mark.parametrize("case", params(LOSS_CASES))
def test_the_loss_equals_the_loop(case: dict[str, Any]) -> None:
    """The model's own loss, averaged over the words of the batch, and through it the gradient of every parameter."""
    model, inputs = tiny_model(case).train(), batch()
    expected = reference.cross_entropy(loop_translation(model, inputs).logits, inputs["labels"])
    loss = model(**inputs).loss
    assert_equal(loss, expected, "loss")
    assert_same_gradients(gradients(loss, model), gradients(expected, model))


@pytest.mark.parametrize("case", params(LOSS_CASES))
def test_without_a_mask_every_token_is_real(case: dict[str, Any]) -> None:
    model, inputs = tiny_model(case).eval(), batch()
    expected = loop_translation(model, inputs | {"attention_mask": torch.ones_like(MASK)})
    actual = model(input_ids=inputs["input_ids"], labels=inputs["labels"], output_attentions=True)
    assert_equal(actual.logits, expected.logits, "logits")
    assert_same_alignments(actual, expected)


@pytest.mark.parametrize("case", params(LOSS_CASES))
def test_tied_embeddings_equal_the_loop(case: dict[str, Any]) -> None:
    """One matrix in three places: its gradient is the sum of all three."""
    tied = {"tie_word_embeddings": True, "embedding_size": configuration(case).readout_size}
    model, inputs = tiny_model(case | tied), batch()
    expected = loop_translation(model, inputs).logits
    actual = model(**inputs).logits
    assert_equal(actual, expected, "logits")
    flat = inputs["labels"].flatten()
    loss = nn.functional.cross_entropy(actual.flatten(0, 1), flat)
    names = dict(model.named_parameters())
    assert sum(name.endswith("embed_tokens.weight") or name == "lm_head.weight" for name in names) == 1
    assert_same_gradients(gradients(loss, model), gradients(reference.cross_entropy(expected, inputs["labels"]), model))


@pytest.mark.parametrize("case", params([case | {"cell": cell} for case, cell in product(LOSS_CASES, CELLS)]))
def test_autocast_computes_the_same_in_less_precision(case: dict[str, Any]) -> None:
    """Mixed precision as a training loop switches it on: every part takes the dtypes that the others hand it."""
    model, inputs = tiny_model(case).float().train(), batch()
    expected = model(**inputs).logits
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(**inputs, output_attentions=True)
    if case.get("window") != "predictive":  # whose windows jump by a token where rounding moves p_t past an integer
        # bfloat16 has 8 bits, and the logits, of size 1, are some ten roundings away from the embeddings
        torch.testing.assert_close(outputs.logits.float(), expected, rtol=0.05, atol=0.1)
    if "score" in case:
        assert outputs.cross_attentions[0].dtype == torch.float32
    for name, gradient in gradients(outputs.loss, model).items():
        assert gradient.isfinite().all(), name


# What the papers say of each other: identities between models


def copy_weights(source: nn.Module, target: nn.Module, *not_copied: str) -> None:
    """Give ``target`` the weights of ``source``; those of the parts in ``not_copied`` stay what they are."""
    weights = {name: weight for name, weight in source.state_dict().items() if not name.startswith(not_copied)}
    missing, unexpected = target.load_state_dict(weights, strict=False)
    assert unexpected == []
    assert all(name.startswith(not_copied) for name in missing), missing


def assert_same_model(actual: nn.Module, expected: nn.Module) -> None:
    """Two models with the same parameters: values and gradients."""
    inputs = batch()
    outputs, others = (model(**inputs, output_attentions=True) for model in (actual, expected))
    assert_equal(outputs.logits, others.logits, "logits")
    assert_equal(outputs.cross_attentions[0], others.cross_attentions[0], "alignments")
    assert_same_gradients(gradients(outputs.loss, actual), gradients(others.loss, expected))


@pytest.mark.parametrize("cell", ["cho_gru", "lstm"])
@pytest.mark.parametrize("direction", ["both", "forward"])
def test_bahdanaus_decoder_with_fixed_contexts_equals_the_loop(direction: str, cell: str) -> None:
    """Bahdanau et al., 2014, appendix A.1.2 and A.2.2: with c_i the encoder's last state it is the RNN
    Encoder-Decoder. The alignments then play no part: no gradient reaches them, and others change nothing."""
    model, inputs = tiny_model({"wiring": "bahdanau", "cell": cell, **DIRECTIONS[direction]}), batch()
    attention = model.model.decoder.wiring.attention

    def translate() -> Any:
        encoder_outputs = model.get_encoder()(inputs["input_ids"], attention_mask=inputs["attention_mask"])
        context = encoder_outputs.final_hidden[:, -1:]  # (B, 1, V)
        hook = attention.register_forward_hook(lambda module, arguments, found: (context, found[1]))
        outputs = model(
            encoder_outputs=encoder_outputs,
            attention_mask=inputs["attention_mask"],
            labels=inputs["labels"],
            output_attentions=True,
        )
        hook.remove()
        return outputs

    outputs, expected = translate(), loop_translation(model, inputs, fix_context=True)
    assert_equal(outputs.logits, expected.logits, "logits")
    assert_same_alignments(outputs, expected)
    parameters = dict(model.named_parameters())
    losses = outputs.loss, reference.cross_entropy(expected.logits, inputs["labels"])
    both = (torch.autograd.grad(loss, list(parameters.values()), allow_unused=True) for loss in losses)
    for name, actual, wanted in zip(parameters, *both, strict=True):
        assert (actual is None) == (wanted is None) == (".attention." in name), name
        if actual is not None:
            assert_equal(actual, wanted, f"gradients of {name}")

    randomize(attention, seed=7)
    again = translate()
    assert torch.equal(again.logits, outputs.logits)
    assert not torch.allclose(again.cross_attentions[0], outputs.cross_attentions[0])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("depth", [1, 2])
def test_chos_decoder_is_bahdanaus_with_one_context_and_the_readout_of_equation_4(depth: int, cell: str) -> None:
    """With the same weights, c and s_0 both decoders go through the same states. Their words differ by what Bahdanau's
    paper contradicts itself in: read out from s_i (his equation 4) the states give Cho's logits, read out from s_{i-1}
    (his appendix A.2.2) they give Bahdanau's."""
    size = SIZES["decoder_hidden_size"]
    cho = tiny_model({"wiring": "cho", "cell": cell, "decoder_layers": depth})
    bahdanau = tiny_model(
        {
            "wiring": "bahdanau",
            "cell": cell,
            "decoder_layers": depth,
            "bidirectional": False,
            "encoder_hidden_size": size,  # as wide as c
        }
    )
    copy_weights(
        cho, bahdanau, "model.encoder.", "model.decoder.wiring.context_proj", "model.decoder.wiring.attention."
    )
    inputs = batch()
    read = words_read(cho, inputs["labels"])
    encoder_outputs = cho.get_encoder()(inputs["input_ids"], attention_mask=inputs["attention_mask"])
    wiring = cho.model.decoder.wiring
    c = torch.tanh(wiring.context_proj(encoder_outputs.final_hidden[:, -1]))
    # Where every annotation is c, every context is c, whatever the alignment.
    nothing_but_c = RecurrentEncoderOutput(
        last_hidden_state=c.unsqueeze(1).expand(-1, SOURCE, -1),
        final_hidden=c.unsqueeze(1),
        final_cell=c.unsqueeze(1) if bahdanau.config.cell == "lstm" else None,  # which Bahdanau's decoder does not read
    )
    cho_outputs, bahdanau_outputs = (
        model(encoder_outputs=source, decoder_input_ids=read, output_hidden_states=True)
        for model, source in ((cho, encoder_outputs), (bahdanau, nothing_but_c))
    )
    embeddings, *states, _ = bahdanau_outputs.decoder_hidden_states
    for layer, (state, cho_state) in enumerate(zip(states, cho_outputs.decoder_hidden_states[1:-1], strict=True)):
        assert_equal(state, cho_state, f"states of layer {layer}")

    def logits_from(state: Tensor) -> Tensor:
        pairs = wiring.readout_proj(torch.cat([state, embeddings, c.unsqueeze(1).expand(-1, TARGET, -1)], dim=-1))
        return cho.lm_head(torch.maximum(pairs[..., 0::2], pairs[..., 1::2]))

    start = torch.tanh(wiring.initial_proj(c))[:, -size:]  # the top layer's s_0
    assert_equal(logits_from(states[-1]), cho_outputs.logits, "logits from s_i")
    before = torch.cat([start.unsqueeze(1), states[-1][:, :-1]], dim=1)
    assert_equal(logits_from(before), bahdanau_outputs.logits, "logits from s_{i-1}")
    assert not torch.allclose(cho_outputs.logits, bahdanau_outputs.logits)


ATTENTIONAL = {
    "bahdanau": {"wiring": "bahdanau", "cell": "cho_gru"},
    "luong": {"wiring": "luong", "cell": "lstm"},
    "luong-feeding": {"wiring": "luong", "cell": "lstm", "input_feeding": True},
}


@pytest.mark.parametrize("wiring", ATTENTIONAL)
def test_concat_is_additive(wiring: str) -> None:
    """v^T tanh(W [h_t; h_s]) is v^T tanh(W_1 h_t + W_2 h_s), W = [W_1 W_2]: Luong's name, Bahdanau's function."""
    concat, additive = (tiny_model(ATTENTIONAL[wiring] | {"score": score}) for score in ("concat", "additive"))
    copy_weights(additive, concat)
    assert_same_model(concat, additive)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("wiring", ATTENTIONAL)
def test_a_monotonic_window_as_wide_as_the_sentence_is_global_attention(wiring: str, score: str) -> None:
    case = ATTENTIONAL[wiring] | {"score": score} | (COPIED if score == "dot" else {})
    local, everywhere = tiny_model(case | {"window": "monotonic", "window_size": SOURCE - 1}), tiny_model(case)
    copy_weights(everywhere, local)
    outputs, expected = (model(**batch(), output_attentions=True) for model in (local, everywhere))
    assert torch.equal(outputs.logits, expected.logits)
    assert torch.equal(outputs.cross_attentions[0], expected.cross_attentions[0])


WINDOW = "model.decoder.wiring.attention.window."


@pytest.mark.parametrize("score", SCORES)
def test_a_predictive_window_as_wide_as_the_sentence_is_global_attention_times_its_gaussian(score: str) -> None:
    """Luong et al., 2015, equations 9 and 10. Without input feeding both models have the same h_t at every step."""
    case = ATTENTIONAL["luong"] | {"score": score} | (COPIED if score == "dot" else {})
    width = SOURCE  # p_t lies between 0 and S, so that no token is further away
    local, everywhere = tiny_model(case | {"window": "predictive", "window_size": width}), tiny_model(case)
    copy_weights(everywhere, local, WINDOW)
    outputs, expected = (
        model(**batch(), output_attentions=True, output_hidden_states=True) for model in (local, everywhere)
    )
    h = outputs.decoder_hidden_states[-2]
    assert torch.equal(h, expected.decoder_hidden_states[-2])
    w_p, v_p = (dict(local.named_parameters())[f"{WINDOW}{name}_proj.weight"] for name in ("query", "position"))
    p = MASK.sum(dim=1)[:, None, None] * torch.sigmoid(torch.tanh(h @ w_p.T) @ v_p.T)  # (B, T, 1)
    s = (MASK.cumsum(dim=1) - 1).unsqueeze(1)  # (B, 1, S), ranks among the real tokens
    gaussian = torch.exp(-((s - p) ** 2) / (2 * (width / 2) ** 2))
    assert_equal(outputs.cross_attentions[0][:, 0], expected.cross_attentions[0][:, 0] * gaussian, "alignments")


@pytest.mark.parametrize("wiring", ATTENTIONAL)
def test_a_predictive_window_tends_to_global_attention(wiring: str) -> None:
    """exp(-2 (s - p_t)^2 / D^2) tends to 1, and leaves the hundredth part for ten times the D."""
    everywhere = tiny_model(ATTENTIONAL[wiring])
    expected = everywhere(**batch()).logits
    distances = []
    for width in (100, 1000, 10_000):
        local = tiny_model(ATTENTIONAL[wiring] | {"window": "predictive", "window_size": width})
        copy_weights(everywhere, local, WINDOW)
        distances.append((local(**batch()).logits - expected).norm().item())
    assert distances[0] < 0.1
    assert distances[0] / distances[1] == pytest.approx(100, rel=0.05)
    assert distances[1] / distances[2] == pytest.approx(100, rel=0.05)


def flipped(values: Tensor) -> Tensor:
    """The real tokens of every row of ``values`` (B, S, ...) in the opposite order; padding stays where it is."""
    result = values.clone()
    for row, keep in enumerate(MASK.bool()):
        result[row, keep] = values[row, keep].flip(0)
    return result


FLIPPED_CASES = [{"wiring": wiring, "cell": "lstm"} for wiring in ("cho", "sutskever")]
FLIPPED_CASES += [
    case | {"score": score, "decoder_hidden_size": SIZES["encoder_hidden_size"]}
    for case, score in product(ATTENTIONAL.values(), SCORES)
    if score != "location"  # which looks at places, whatever stands there
]


@pytest.mark.parametrize("case", params(FLIPPED_CASES))
def test_a_reversed_source_is_the_flipped_sentence_read_forward(case: dict[str, Any]) -> None:
    """Sutskever et al., 2014, section 3.3; the alignments are those of the flipped sentence, flipped back."""
    case = case | {"encoder_layers": 2, "decoder_layers": 2}
    backward, forward = (tiny_model(case | DIRECTIONS[direction]) for direction in ("backward", "forward"))
    forward.load_state_dict(
        {name.replace("backward_rnn", "forward_rnn"): weight for name, weight in backward.state_dict().items()}
    )
    inputs = batch()
    outputs = backward(**inputs, output_attentions=True)
    expected = forward(**inputs | {"input_ids": flipped(inputs["input_ids"])}, output_attentions=True)
    assert_equal(outputs.logits, expected.logits, "logits")
    assert_equal(outputs.encoder_last_hidden_state, flipped(expected.encoder_last_hidden_state), "annotations")
    if "score" in case:
        alignments, others = (result.cross_attentions[0][:, 0] for result in (outputs, expected))
        assert_equal(alignments, flipped(others.mT).mT, "alignments")
    backward_gradients = gradients(outputs.loss, backward)
    renamed = {name.replace("backward_rnn", "forward_rnn"): value for name, value in backward_gradients.items()}
    assert_same_gradients(renamed, gradients(expected.loss, forward))


@pytest.mark.parametrize("depth", [1, 2])
def test_sutskevers_wiring_is_torchs_lstm_twice(depth: int) -> None:
    """One reads the source from its end, the other starts from the first one's state and reads the target."""
    case = {"wiring": "sutskever", "cell": "lstm", "encoder_layers": depth, "decoder_layers": depth}
    model = tiny_model(case | DIRECTIONS["backward"] | {"encoder_hidden_size": SIZES["decoder_hidden_size"]})
    inputs, weights = batch(), dict(model.named_parameters())
    read = words_read(model, inputs["labels"])

    def torchs_lstm(template: str) -> nn.LSTM:
        lstm = nn.LSTM(SIZES["embedding_size"], SIZES["decoder_hidden_size"], depth, batch_first=True).double()
        names = {name: name.rsplit("_l", 1) for name, _ in lstm.named_parameters()}
        lstm.load_state_dict({name: weights[template.format(layer, part)] for name, (part, layer) in names.items()})
        return lstm

    encoder = torchs_lstm("model.encoder.rnn.layers.{}.backward_rnn.{}_l0")
    decoder = torchs_lstm("model.decoder.wiring.rnn.layers.{}.{}_l0")
    source = weights["model.encoder.embed_tokens.weight"][inputs["input_ids"].flip(1)]
    states, _ = decoder(weights["model.decoder.embed_tokens.weight"][read], encoder(source)[1])
    outputs = model(input_ids=inputs["input_ids"], decoder_input_ids=read)
    assert_equal(outputs.logits, states @ weights["lm_head.weight"].T, "logits")


# Teacher forcing, and less of it


OWN_WORDS_CASES = [case for case in LOSS_CASES if case.get("window") != "predictive"]


@pytest.mark.parametrize("case", params(OWN_WORDS_CASES))
def test_without_teacher_forcing_the_decoder_reads_its_own_words(case: dict[str, Any]) -> None:
    """Logits, alignments and gradients of a loop that decodes alone; the loss still asks for the labels."""
    model, inputs = tiny_model(case | {"teacher_forcing_ratio": 0}).train(), batch()
    with torch.no_grad():
        read = reference.own_words(model, inputs["input_ids"], inputs["attention_mask"], TARGET)
    assert not torch.equal(read, words_read(model, inputs["labels"]))
    expected = reference.translate(model, inputs["input_ids"], inputs["attention_mask"], read)
    loss = reference.cross_entropy(expected.logits, inputs["labels"])
    outputs = model(**inputs, output_attentions=True)
    assert_equal(outputs.logits, expected.logits, "logits")
    assert_same_alignments(outputs, expected)
    assert_equal(outputs.loss, loss, "loss")
    assert_same_gradients(gradients(outputs.loss, model), gradients(loss, model))


@pytest.mark.parametrize("case", params(OWN_WORDS_CASES))
def test_full_teacher_forcing_draws_nothing(case: dict[str, Any]) -> None:
    model, inputs = tiny_model(case | {"teacher_forcing_ratio": 1}).train(), batch()
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert_equal(model(**inputs).logits, loop_translation(model, inputs).logits, "logits")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_only_a_training_step_reads_anything_but_what_it_is_given(ratio: float) -> None:
    """Not an evaluation, not a pass without gradients, and not a target that goes on from a cache."""
    model, inputs = tiny_model(LOSS_CASES[-1] | {"teacher_forcing_ratio": ratio}).train(), batch()
    expected, read = loop_translation(model, inputs).logits, words_read(model, inputs["labels"])
    source = {"input_ids": inputs["input_ids"], "attention_mask": MASK}
    start = model(**source, decoder_input_ids=read[:, :1])
    rest = model(**source, decoder_input_ids=read[:, 1:], past_key_values=start.past_key_values)
    assert_equal(torch.cat([start.logits, rest.logits], dim=1), expected, "logits through the cache")
    with torch.no_grad():
        assert_equal(model(**inputs).logits, expected, "logits without gradients")
    assert_equal(model.eval()(**inputs).logits, expected, "logits in evaluation")


@pytest.mark.parametrize("ratio", [0.25, 0.5])
@pytest.mark.parametrize("case", params(OWN_WORDS_CASES))
def test_each_word_is_kept_with_the_probability_of_the_ratio(case: dict[str, Any], ratio: float) -> None:
    model = tiny_model(case | {"teacher_forcing_ratio": ratio}).train()
    generator = torch.Generator().manual_seed(3)
    words = torch.randint(3, SIZES["vocab_size"], (80, 30), generator=generator)
    seen: list[Tensor] = []
    model.model.register_forward_pre_hook(
        lambda module, arguments, named: seen.append(named["decoder_input_ids"]), with_kwargs=True
    )
    torch.manual_seed(0)
    logits = model(input_ids=words[:, :5], decoder_input_ids=words).logits
    read, own = seen[-1], logits[:, :-1].argmax(dim=-1)  # the last call is the one with all the words
    assert torch.equal(read[:, 0], words[:, 0])  # the start token is not up for choice
    read, given = read[:, 1:], words[:, 1:]
    assert ((read == given) | (read == own)).all()
    differs = own != given
    kept = (read == given) & differs
    count = int(differs.sum())
    assert count > 1000
    assert (kept.sum() / count).item() == pytest.approx(ratio, abs=5 * (ratio * (1 - ratio) / count) ** 0.5)
    for dim in (0, 1):  # word by word: neither all rows of a step nor all steps of a row go the same way
        share = kept.sum(dim) / differs.sum(dim)
        assert ((share > 0) & (share < 1)).all()


def test_words_are_mixed_with_labels_and_with_decoder_input_ids_alike() -> None:
    model, inputs = tiny_model(LOSS_CASES[-1] | {"teacher_forcing_ratio": 0.5}).train(), batch()
    read = words_read(model, inputs["labels"])
    results = []
    for target in ({"labels": inputs["labels"]}, {"decoder_input_ids": read}):
        torch.manual_seed(0)
        results.append(model(input_ids=inputs["input_ids"], attention_mask=MASK, **target).logits)
    assert_equal(*results)
    assert not torch.allclose(results[0], model.eval()(**inputs).logits)


# The papers' models


ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}
FOUR_LAYERS = {"encoder_layers": 4, "decoder_layers": 4, "bidirectional": False, "reverse_source": True, "cell": "lstm"}
LUONG = FOUR_LAYERS | {
    "wiring": "luong",
    "input_feeding": True,
    "vocab_size": 50_000,
    "embedding_size": 1000,
    "readout_size": 1000,
    "dropout": 0.2,
    "initializer_range": 0.1,
    "window_size": 10,
    "max_source_positions": 50,  # the longest sentence trained on
}
PAPERS: dict[str, dict[str, Any]] = {
    "cho2014": ONE_LAYER
    | {
        "wiring": "cho",
        "score": "none",
        "cell": "cho_gru",
        "bidirectional": False,
        "reverse_source": False,
        "vocab_size": 15_000,
        "embedding_size": 100,
        "readout_size": 500,
        "dropout": 0,
        "initializer_range": 0.01,
    },
    "sutskever2014": FOUR_LAYERS
    | {
        "wiring": "sutskever",
        "score": "none",
        "vocab_size": 160_000,
        "embedding_size": 1000,
        "readout_size": 1000,
        "dropout": 0,
        "initializer_range": 0.08,
    },
    "bahdanau2014": ONE_LAYER
    | {
        "wiring": "bahdanau",
        "score": "additive",
        "window": "global",
        "cell": "cho_gru",
        "bidirectional": True,
        "vocab_size": 30_000,
        "embedding_size": 620,
        "attention_size": 1000,
        "readout_size": 500,
        "dropout": 0,
        "initializer_range": 0.01,
    },
    "luong2015-global-dot": LUONG | {"score": "dot", "window": "global"},
    "luong2015-global-general": LUONG | {"score": "general", "window": "global"},
    "luong2015-global-concat": LUONG | {"score": "concat", "window": "global"},
    "luong2015-global-location": LUONG | {"score": "location", "window": "global"},
    "luong2015-local-m": LUONG | {"score": "general", "window": "monotonic"},
    "luong2015-local-p": LUONG | {"score": "general", "window": "predictive"},
}
SMALL = {
    "vocab_size": 13,
    "embedding_size": 6,
    "encoder_hidden_size": 8,
    "hidden_size": 8,  # the standard name of decoder_hidden_size
    "attention_size": 5,
}


@pytest.mark.parametrize("paper", PAPERS)
def test_a_papers_model_has_the_papers_sizes(paper: str) -> None:
    config = AttentionalRNNConfig.from_paper(paper)
    fields = {"encoder_hidden_size": 1000, "decoder_hidden_size": 1000, "teacher_forcing_ratio": 1} | PAPERS[paper]
    assert {name: getattr(config, name) for name in fields} == fields
    assert config.forget_gate_bias is None


def test_sutskevers_model_has_64_million_recurrent_parameters() -> None:
    """Sutskever et al., 2014, section 3.4: 32 million in the encoder, 32 million in the decoder; torch adds biases.
    A sentence is 8000 numbers: a hidden and a cell state of every layer."""
    config = AttentionalRNNConfig.from_paper("sutskever2014")
    with torch.device("meta"):
        model = AttentionalRNNForConditionalGeneration(config)
        _, sentence = model.get_encoder().rnn(torch.zeros(1, 2, config.embedding_size))
    for part in (model.model.encoder.rnn, model.model.decoder.wiring):
        weights = {name: parameter for name, parameter in part.named_parameters() if "bias" not in name}
        assert sum(weight.numel() for weight in weights.values()) == 32_000_000
    assert sentence.hidden.numel() + sentence.cell.numel() == 8000


@pytest.mark.parametrize("paper", PAPERS)
def test_a_papers_model_made_small_learns_and_generates(paper: str) -> None:
    torch.manual_seed(0)
    # A narrow model needs wider weights than the paper's to move in one step.
    config = AttentionalRNNConfig.from_paper(paper, **SMALL, initializer_range=0.5)
    model, inputs = AttentionalRNNForConditionalGeneration(config), batch()
    before = model.eval()(**inputs).loss
    model.train()(**inputs).loss.backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert model.eval()(**inputs).loss < before
    assert all(parameter.grad is not None for parameter in model.parameters())
    ids = model.eval().generate(inputs["input_ids"], attention_mask=MASK, num_beams=2, max_new_tokens=5)
    assert len(ids) == BATCH
    assert 2 <= ids.shape[1] <= 6


def test_any_field_of_a_papers_model_can_be_overridden() -> None:
    """A field that the paper sets, one that it leaves alone, and the standard names of two."""
    overrides = {"vocab_size": 99, "eos_token_id": 7, "hidden_size": 24, "num_hidden_layers": 3}
    config = AttentionalRNNConfig.from_paper("cho2014", **overrides)
    assert {name: getattr(config, name) for name in overrides} == overrides
    assert (config.decoder_hidden_size, config.decoder_layers) == (24, 3)
    assert config.readout_size == 12  # half of the decoder's width, as in the paper
    assert (config.wiring, config.encoder_hidden_size, config.embedding_size) == ("cho", 1000, 100)
    again = AttentionalRNNConfig.from_paper("cho2014")
    assert (again.vocab_size, again.decoder_hidden_size) == (15_000, 1000)


@pytest.mark.parametrize("paper", ["bahdanau2015", "luong2015", "", "Cho2014"])
def test_an_unknown_paper_is_refused_with_those_there_are(paper: str) -> None:
    with pytest.raises(ValueError, match="there is no paper") as caught:
        AttentionalRNNConfig.from_paper(paper)
    assert all(name in str(caught.value) for name in (repr(paper), *PAPERS))


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [("droput", "dropout"), ("hiden_size", "hidden_size"), ("encoder_layer", "encoder_layers"), ("Score", "score")],
)
def test_a_misspelt_override_is_refused_with_the_nearest_name(misspelt: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"no field '{misspelt}'; did you mean '{meant}'"):
        AttentionalRNNConfig.from_paper("bahdanau2014", **{misspelt: 1})


def test_an_override_like_no_field_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no field 'xyzzy'$"):
        AttentionalRNNConfig.from_paper("bahdanau2014", xyzzy=1)


# The encoder


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("directions", [("forward", "backward"), ("forward",), ("backward",)], ids="-".join)
@pytest.mark.parametrize("padding", ["none", "much", "little", "after all"])
def test_the_encoder_equals_the_loop(padding: str, directions: tuple[str, ...], depth: int, cell: str) -> None:
    """Much padding: most rows end long before the longest. After all: there are columns without a token."""
    width, size = 3, 2
    encoder = randomize(RecurrentEncoder(cell, width, size, depth, dropout=0.0, directions=directions), seed=1)
    inputs = random(BATCH, SOURCE, width, seed=2)
    mask = MASK.bool()
    if padding != "much":
        lengths = {"none": [8] * 5, "little": [7, 8, 6, 8, 7], "after all": [5, 6, 0, 6, 6]}[padding]
        mask = torch.arange(SOURCE) < torch.tensor(lengths).unsqueeze(1)
    outputs, state = encoder(inputs, mask)
    weights = reference.weights_of(encoder)
    annotations, hidden, memory = reference.encode(weights, cell, size, depth, inputs, mask, directions)
    actual, expected = [*outputs, state.hidden], [*annotations, hidden]
    if cell == "lstm":
        actual.append(state.cell)
        expected.append(memory)
    else:
        assert state.cell is None
    assert_equal_with_gradients(actual, expected, {"inputs": inputs, **dict(encoder.named_parameters())})
    if padding == "none":
        unmasked, _ = encoder(inputs)
        assert_equal(unmasked[-1], outputs[-1])


# The cells, and what anchors their references


def test_a_padded_lstm_ends_as_a_packed_one() -> None:
    lengths = torch.tensor([4, 2, 5, 1])
    layer = randomize(recurrent_layer("lstm", 3, 4), seed=1)
    inputs = random(4, 6, 3, seed=2)
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    expected_outputs, (_, expected_memory) = torch.nn.LSTM.forward(layer, packed)
    expected_outputs, _ = pad_packed_sequence(expected_outputs, batch_first=True, total_length=6)
    is_padding = torch.arange(6) >= lengths.unsqueeze(1)
    outputs, (_, memory) = layer(inputs, is_padding=is_padding)
    outputs = outputs.masked_fill(is_padding.unsqueeze(-1), 0.0)
    assert_equal_with_gradients(
        [outputs, memory], [expected_outputs, expected_memory], {"inputs": inputs, **dict(layer.named_parameters())}
    )
    first, state = layer(inputs[:, :2], is_padding=is_padding[:, :2])
    rest, (_, memory) = layer(inputs[:, 2:], state, is_padding[:, 2:])
    assert_equal(torch.cat([first, rest], dim=1).masked_fill(is_padding.unsqueeze(-1), 0.0), expected_outputs)
    assert_equal(memory, expected_memory)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_padding_leaves_the_memory_as_it_is_to_the_last_bit(dtype: torch.dtype) -> None:
    layer = randomize(recurrent_layer("lstm", 3, 4), seed=1).to(dtype)
    inputs = random(2, 40, 3, seed=2).to(dtype)
    _, (_, memory) = layer(inputs[:, :7], is_padding=torch.zeros(2, 7, dtype=torch.bool))
    _, (_, held) = layer(100 * inputs, is_padding=torch.arange(40).expand(2, -1) >= 0)
    assert not held.any()
    inputs[:, 7:] *= 100
    _, (_, held) = layer(inputs, is_padding=torch.arange(40).expand(2, -1) >= 7)
    assert torch.equal(held, memory)


@pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "state"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_equals_the_loop(cell: str, with_state: bool) -> None:
    """For torch's cells this anchors the reference in torch's own modules; for "cho_gru" it tests ours."""
    width, size, lengths = 3, 4, [5, 5, 5, 5]
    layer = randomize(recurrent_layer(cell, width, size), seed=1)
    inputs = random(len(lengths), max(lengths), width, seed=2)
    leaves = {"inputs": inputs, **dict(layer.named_parameters())}
    start: list[Tensor] = []
    if with_state:
        start = [random(1, len(lengths), size, seed=seed) for seed in range(3, 5 if cell == "lstm" else 4)]
        leaves |= {f"state {index}": part for index, part in enumerate(start)}
    state = None if not start else tuple(start) if cell == "lstm" else start[0]
    outputs, last = layer(inputs, state)

    weights = reference.weights_of(layer)
    expected_outputs = torch.zeros_like(outputs)
    finals = []
    for row, length in enumerate(lengths):
        first = reference.State(*(part[0, row] for part in start)) if start else reference.zero_state(cell, size)
        states = reference.read(cell, weights, list(inputs[row, :length]), first)
        for step, after in enumerate(states):
            expected_outputs[row, step] = after.hidden
        finals.append(states[-1])
    actual_last = list(last) if cell == "lstm" else [last]
    expected_last = [torch.stack([part[i] for part in finals]).unsqueeze(0) for i in range(len(actual_last))]
    assert_equal_with_gradients([outputs, *actual_last], [expected_outputs, *expected_last], leaves)


def test_cho_gru_by_hand() -> None:
    """The reset gate before U, and z that lets the new state in; U swaps the units, so that the place of r shows."""
    # x has no weight. z = sigma(ln 3) = 3/4. r = (sigma(0), sigma(ln 3)) = (1/2, 3/4). s = (2 ln 2, 4/3 ln 2), so
    # r * s = (ln 2, ln 2), U swaps and doubles the first: (ln 2, 2 ln 2), tanh: (3/5, 15/17).
    # After U it would have been r * (4/3 ln 2, 4 ln 2) = (2/3 ln 2, 3 ln 2).
    layer = ChoGRU(1, 2).double()
    ln2, ln3 = torch.tensor([2.0, 3.0], dtype=torch.float64).log()
    with torch.no_grad():
        layer.weight_input.zero_()
        layer.weight_hidden.zero_()
        layer.weight_hidden[4:] = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
        layer.bias.copy_(torch.stack([ln3, ln3, 0 * ln3, ln3, 0 * ln3, 0 * ln3]))
    state = torch.stack([2 * ln2, 4 / 3 * ln2])
    expected = state / 4 + 3 / 4 * torch.tensor([3 / 5, 15 / 17], dtype=torch.float64)
    outputs, last = layer(torch.ones(1, 1, 1, dtype=torch.float64), state.view(1, 1, 2))
    assert_equal(outputs[0, 0], expected)
    assert_equal(last[0, 0], expected)


def test_with_open_reset_gates_the_two_grus_are_one() -> None:
    """Where r = 1 its place does not matter: Cho's GRU is then torch's, with 1 - z for z."""
    width, size = 3, 4
    theirs, ours = randomize(nn.GRU(width, size, batch_first=True), seed=1), ChoGRU(width, size).double()
    with torch.no_grad():
        theirs.bias_ih_l0[:size] = 1000.0  # r = sigma(1000 + ...) = 1
        for name, weight in (("weight_input", theirs.weight_ih_l0), ("weight_hidden", theirs.weight_hh_l0)):
            r, z, n = weight.split(size)
            getattr(ours, name).copy_(torch.cat([-z, r, n]))
        r, z, n = (theirs.bias_ih_l0 + theirs.bias_hh_l0).split(size)
        ours.bias.copy_(torch.cat([-z, r, n]))
    inputs = random(2, 5, width, seed=2)
    assert_equal(ours(inputs)[0], theirs(inputs)[0])


# Initialisation


INITIALISED = {
    "vocab_size": 150,
    "embedding_size": 50,
    "encoder_hidden_size": 30,
    "decoder_hidden_size": 60,
    "attention_size": 70,
    "encoder_layers": 2,
    "decoder_layers": 2,
}
SCORED_WIRINGS = [(wiring, "none") for wiring in ("cho", "sutskever")]
SCORED_WIRINGS += product(("bahdanau", "luong"), SCORES)


def fresh_model(wiring: str, score: str, **choice: Any) -> AttentionalRNNForConditionalGeneration:
    torch.manual_seed(0)
    window = "global" if score == "none" else "predictive"
    return AttentionalRNNForConditionalGeneration(
        AttentionalRNNConfig(wiring=wiring, score=score, window=window, **INITIALISED, **choice)
    )


def assert_spread(parameter: Tensor, std: float, name: str) -> None:
    """Mean 0 and this standard deviation, within five standard errors (of a normal; a uniform's are smaller)."""
    assert abs(parameter.mean()) < 5 * std / parameter.numel() ** 0.5, name
    assert abs(parameter.std() / std - 1) < 5 / (2 * parameter.numel()) ** 0.5, name


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("wiring", "score"), [choice for choice in SCORED_WIRINGS if choice[0] in ("cho", "bahdanau")])
def test_chos_and_bahdanaus_initialisation(wiring: str, score: str, cell: str) -> None:
    """N(0, 0.01^2), recurrent matrices orthogonal, biases 0 (Cho et al., 2014, section 4.1.1); the same, but a tenth of
    the spread for W_a and U_a, and 0 for v_a (Bahdanau et al., 2014, appendix B.1)."""
    seen = set()
    for name, parameter in fresh_model(wiring, score, cell=cell).named_parameters():
        leaf = name.rsplit(".", 1)[-1]
        if leaf.startswith("bias") or name.endswith("score.score_vector"):
            kind = "zero"
            assert not parameter.any(), name
        elif leaf in ("weight_hidden", "weight_hh_l0"):
            kind = "orthogonal"
            gates = parameter.split(parameter.shape[1])
            assert len(gates) == {"cho_gru": 3, "gru": 3, "lstm": 4, "rnn": 1}[cell]
            for index, gate in enumerate(gates):
                torch.testing.assert_close(gate @ gate.T, torch.eye(len(gate)), rtol=0, atol=1e-5)
                assert all(not torch.allclose(gate, other, atol=0.01) for other in gates[:index]), name
        elif name.endswith(("score.query_proj.weight", "score.key_proj.weight")) and score in ("additive", "concat"):
            kind = "alignment"
            assert_spread(parameter, 0.001, name)
        else:
            kind = "normal"
            assert_spread(parameter, 0.01, name)
            if parameter.numel() > 1000:
                assert parameter.abs().max() > 0.025, name  # normal: a uniform of this spread ends at 0.017
        seen.add(kind)
    assert seen == {"zero", "orthogonal", "normal"} | ({"alignment"} if score in ("additive", "concat") else set())


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(
    ("wiring", "score"), [choice for choice in SCORED_WIRINGS if choice[0] in ("sutskever", "luong")]
)
def test_sutskevers_and_luongs_initialisation(wiring: str, score: str, cell: str) -> None:
    """Everything uniform, biases too: within 0.08 (Sutskever et al., 2014, section 3.4) or 0.1 (Luong, section 4.1)."""
    scale = {"sutskever": 0.08, "luong": 0.1}[wiring]
    for name, parameter in fresh_model(wiring, score, cell=cell, input_feeding=wiring == "luong").named_parameters():
        assert parameter.abs().max() <= scale, name
        assert_spread(parameter, scale / 3**0.5, name)


@pytest.mark.parametrize("value", [1.0, 0, -2.5])
@pytest.mark.parametrize(
    ("wiring", "score"), [("cho", "none"), ("sutskever", "none"), ("bahdanau", "dot"), ("luong", "dot")]
)
def test_forget_gates_start_at_the_value_given_and_nothing_else_changes(wiring: str, score: str, value: float) -> None:
    """torch adds two biases: their sum has the value in every LSTM, in its second quarter (i, f, g, o)."""
    plain, model = (fresh_model(wiring, score, cell="lstm", forget_gate_bias=bias) for bias in (None, value))
    seen = []
    for name, lstm in model.named_modules():
        if isinstance(lstm, nn.LSTM):
            size = lstm.hidden_size
            assert (lstm.bias_ih_l0 + lstm.bias_hh_l0).chunk(4)[1].tolist() == [value] * size, name
            seen += [f"{name}.bias_ih_l0", f"{name}.bias_hh_l0"]
    assert len(seen) == 2 * (2 * 2 + 2)  # two layers of the encoder in two directions, two of the decoder
    expected = plain.state_dict()
    for name, parameter in model.state_dict().items():
        for index, (quarter, other) in enumerate(zip(parameter.chunk(4), expected[name].chunk(4), strict=True)):
            if not (name in seen and index == 1):
                assert torch.equal(quarter, other), name


# What cuDNN asks for and the CPU does not


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn"])
def test_states_reach_torchs_rnns_contiguous(cell: str, wiring: str) -> None:
    model = tiny_model({"wiring": wiring, "cell": cell, "encoder_layers": 2, "decoder_layers": 2})
    seen = []

    def look(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        state = arguments[1] if len(arguments) > 1 else None
        seen.extend(
            part.is_contiguous() for part in (state if isinstance(state, tuple) else (state,)) if part is not None
        )

    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            module.register_forward_pre_hook(look)
    model(**batch())
    assert seen
    assert all(seen)
