"""The places of dropout in the recurrent encoder-decoder, and its rates."""

import pytest
import torch
from torch import Tensor

from tests.factory import RNN_VARIANTS, tiny_model, words

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


@pytest.mark.parametrize("variant", RNN_VARIANTS)
def test_dropout_stands_where_the_wiring_has_it_and_nowhere_else(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dropout that doubles its input acts like doubled weights where the dropped values are read.

    These are the embeddings, the outputs between layers, and in addition: the attentional vector fed to the next step
    in Luong's wiring, as in his released code; the readout in the others.
    """
    depth = {"encoder_layers": 2, "decoder_layers": 2}  # so that every variant has something between layers
    inputs = {"input_ids": words(4, 6), "decoder_input_ids": words(4, 5, seed=1)}
    expected = tiny_model(variant, **depth)
    config, weights = expected.config, dict(expected.named_parameters())
    read = [weights["model.encoder.embed_tokens.weight"], weights["model.decoder.embed_tokens.weight"]]
    for name, weight in weights.items():
        if "weight_i" in name:  # torch's weight_ih_l0 and ChoGRU's weight_input
            if ".layers.1." in name:
                read.append(weight)
            elif config.input_feeding and "decoder" in name:
                read.append(weight[:, config.embedding_size :])
    if config.wiring != "luong":
        read.append(weights["lm_head.weight"])
    with torch.no_grad():
        for weight in read:
            weight *= 2

    def double(values: Tensor, rate: float, training: bool, inplace: bool) -> Tensor:
        return 2 * values if training else values

    monkeypatch.setattr(torch.nn.functional, "dropout", double)
    model = tiny_model(variant, dropout=0.5, **depth).train()
    torch.testing.assert_close(model(**inputs).logits, expected(**inputs).logits, **CLOSE)


@pytest.mark.parametrize("variant", RNN_VARIANTS)
def test_dropout_drops_at_its_rate(variant: str) -> None:
    model = tiny_model(variant, dropout=0.3).train()
    torch.manual_seed(0)
    with torch.no_grad():
        outputs = model.model(input_ids=words(16, 8), decoder_input_ids=words(16, 8, seed=1), output_hidden_states=True)
    rates = {
        "source embeddings": (outputs.encoder_hidden_states[0], 0.3),
        "target embeddings": (outputs.decoder_hidden_states[0], 0.3),
        "readout": (outputs.last_hidden_state, 0.0 if model.config.wiring == "luong" else 0.3),
    }
    for name, (values, rate) in rates.items():
        share = (values == 0).double().mean().item()
        assert share == pytest.approx(rate, abs=5 * (rate * (1 - rate) / values.numel()) ** 0.5), name
