"""Wirings that equal another one with copied weights, as the papers say of each other."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnzoo.recurrent_encoder import RecurrentEncoderOutput
from tests.attention.tensors import assert_equal, randomize
from tests.recurrent.wirings import (
    ATTENTIONAL,
    CELLS,
    COPIED,
    DIRECTIONS,
    MASK,
    SCORES,
    SIZES,
    SOURCE,
    TARGET,
    assert_same_alignments,
    assert_same_gradients,
    assert_same_model,
    batch,
    copy_weights,
    gradients,
    loop_translation,
    params,
    wired_model,
    words_read,
)
from tests.reference import attentional_rnn as reference


@pytest.mark.parametrize("cell", ["cho_gru", "lstm"])
@pytest.mark.parametrize("direction", ["both", "forward"])
def test_bahdanaus_decoder_with_fixed_contexts_equals_the_loop(direction: str, cell: str) -> None:
    """Bahdanau et al., 2014, appendix A.1.2 and A.2.2: with c_i the encoder's last state it is the RNN
    Encoder-Decoder. The alignments then have no effect: no gradient reaches them, and other alignments change nothing.
    """
    model, inputs = wired_model({"wiring": "bahdanau", "cell": cell, **DIRECTIONS[direction]}), batch()
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
    """With the same weights, c and s_0 both decoders have the same states. Their words differ only by the contradiction
    in Bahdanau's paper: with the readout from s_i (his equation 4) the states give Cho's logits, with the readout from
    s_{i-1} (his appendix A.2.2) they give Bahdanau's.
    """
    size = SIZES["decoder_hidden_size"]
    cho = wired_model({"wiring": "cho", "cell": cell, "decoder_layers": depth})
    bahdanau = wired_model(
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


@pytest.mark.parametrize("wiring", ATTENTIONAL)
def test_concat_is_additive(wiring: str) -> None:
    """v^T tanh(W [h_t; h_s]) is v^T tanh(W_1 h_t + W_2 h_s), W = [W_1 W_2]: Luong's name, Bahdanau's function."""
    concat, additive = (wired_model(ATTENTIONAL[wiring] | {"score": score}) for score in ("concat", "additive"))
    copy_weights(additive, concat)
    assert_same_model(concat, additive)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("wiring", ATTENTIONAL)
def test_a_monotonic_window_as_wide_as_the_sentence_is_global_attention(wiring: str, score: str) -> None:
    case = ATTENTIONAL[wiring] | {"score": score} | (COPIED if score == "dot" else {})
    local, everywhere = wired_model(case | {"window": "monotonic", "window_size": SOURCE - 1}), wired_model(case)
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
    local, everywhere = wired_model(case | {"window": "predictive", "window_size": width}), wired_model(case)
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
    backward, forward = (wired_model(case | DIRECTIONS[direction]) for direction in ("backward", "forward"))
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
    """One LSTM reads the source from its end; the other starts from the first one's state and reads the target."""
    case = {"wiring": "sutskever", "cell": "lstm", "encoder_layers": depth, "decoder_layers": depth}
    model = wired_model(case | DIRECTIONS["backward"] | {"encoder_hidden_size": SIZES["decoder_hidden_size"]})
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
