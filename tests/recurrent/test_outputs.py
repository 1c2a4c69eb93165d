"""What the models return: names, shapes, and the same values as a tuple."""

import pytest
import torch

from tests.recurrent.tiny import ATTENTION_VARIANTS, SIZES, VARIANTS, random_words, tiny_model

S, T = 5, 4


@pytest.mark.parametrize("variant", VARIANTS)
def test_names_and_shapes(variant: str) -> None:
    model = tiny_model(variant).eval()
    config = model.config
    outputs = model(
        input_ids=random_words(2, S), labels=random_words(2, T), output_attentions=True, output_hidden_states=True
    )
    assert outputs.loss.shape == ()
    assert outputs.logits.shape == (2, T, SIZES["vocab_size"])
    if variant in ATTENTION_VARIANTS:
        assert [tuple(weights.shape) for weights in outputs.cross_attentions] == [(2, 1, T, S)]
    else:
        assert outputs.cross_attentions is None
    encoder_size = (2 if config.bidirectional else 1) * config.encoder_hidden_size
    assert outputs.encoder_last_hidden_state.shape == (2, S, encoder_size)
    widths = [config.embedding_size] + [encoder_size] * config.encoder_layers
    assert [tuple(states.shape) for states in outputs.encoder_hidden_states] == [(2, S, width) for width in widths]
    widths = [config.embedding_size] + [config.decoder_hidden_size] * config.decoder_layers + [config.readout_size]
    assert [tuple(states.shape) for states in outputs.decoder_hidden_states] == [(2, T, width) for width in widths]
    assert outputs.past_key_values is None  # a training step has no next token
    assert outputs.decoder_attentions is None  # there is no self-attention
    assert outputs.encoder_attentions is None


def test_only_what_is_asked_for() -> None:
    outputs = tiny_model("luong-lstm-dot")(input_ids=random_words(2, S), decoder_input_ids=random_words(2, T))
    assert set(outputs) == {"logits", "past_key_values", "encoder_last_hidden_state"}
    assert outputs.past_key_values.get_seq_length() == T


@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("variant", ["luong-lstm-general-feeding", "cho-cho_gru-forward"])
def test_the_same_as_a_tuple(variant: str, base: bool) -> None:
    """By argument and by config; a model inside of another goes on returning names to it."""
    model = tiny_model(variant).eval()
    model = model.model if base else model
    inputs = {"input_ids": random_words(2, S), "decoder_input_ids": random_words(2, T), "use_cache": False}
    named = model(**inputs, output_attentions=True).to_tuple()
    by_argument = model(**inputs, output_attentions=True, return_dict=False)
    model.config.return_dict = False
    by_config = model(**inputs, output_attentions=True)
    for outputs in (by_argument, by_config):
        assert type(outputs) is tuple
        assert torch.equal(outputs[0], named[0])
        assert len(outputs) == len(named)


def test_defaults_of_the_config_are_heeded() -> None:
    model = tiny_model("bahdanau-cho_gru-additive").eval()
    model.config.output_hidden_states = True
    model.config.output_attentions = True
    model.config.use_cache = False
    outputs = model(input_ids=random_words(2, S), decoder_input_ids=random_words(2, T))
    assert outputs.past_key_values is None
    assert outputs.cross_attentions is not None
    assert outputs.encoder_hidden_states is not None
    assert outputs.decoder_hidden_states is not None
