"""What only the recurrent encoder-decoder has in its files: weights as its papers start them, and its config."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModelForSeq2SeqLM, GenerationConfig

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration, AttentionalRNNModel
from tests.every_family.test_files import vocabulary_matrices
from tests.factory import RNN_SIZES as SIZES
from tests.factory import RNN_VARIANTS as VARIANTS
from tests.factory import tiny_config, tiny_model

EVERY_LAYER = {"encoder_layers": 2, "decoder_layers": 2, "decoder_hidden_size": 8}
NEW_VOCAB_SIZE = SIZES["vocab_size"] + 4

# Weights --------------------------------------------------------------------------------------------------------------


def check_initialised(name: str, tensor: Tensor, config: AttentionalRNNConfig, scale: float | None = None) -> None:
    """A fresh weight: as the paper of the wiring has it."""
    assert tensor.isfinite().all(), name
    leaf = name.rsplit(".", 1)[-1]
    if config.forget_gate_bias is not None and leaf.startswith("bias_"):  # an LSTM's; torch adds the two
        start, forget, *others = tensor.chunk(4)
        assert (forget == (config.forget_gate_bias if leaf == "bias_ih_l0" else 0)).all(), name
        tensor = torch.cat([start, *others])
    if config.wiring in ("sutskever", "luong"):  # U(-0.08, 0.08) or U(-0.1, 0.1), all of it
        scale = scale or {"sutskever": 0.08, "luong": 0.1}[config.wiring]
        assert tensor.abs().max() <= scale, name
        assert tensor.std() > scale / 5, name
    elif leaf.startswith("bias"):
        assert (tensor == 0).all(), name
    elif leaf.startswith("weight_h"):  # recurrent: orthogonal, gate by gate
        for gate in tensor.split(tensor.shape[1]):
            torch.testing.assert_close(gate @ gate.mT, torch.eye(len(gate)), rtol=1e-4, atol=1e-5)
    elif name.endswith("score_vector"):  # v_a
        assert (tensor == 0).all(), name
    else:  # N(0, 0.01^2), but a tenth for W_a and U_a
        std = scale or 0.01
        if config.score == "additive" and name.endswith(("score.query_proj.weight", "score.key_proj.weight")):
            std /= 10
        assert tensor.abs().max() < 5 * std, name
        assert std / 3 < tensor.std() < 3 * std, name


@pytest.mark.usefixtures("uninitialised_memory_is_nan")
@pytest.mark.parametrize("variant", VARIANTS)
def test_each_weight_that_a_checkpoint_lacks_is_initialised(variant: str, tmp_path: Path) -> None:
    model = tiny_model(variant, dtype=torch.float32, **EVERY_LAYER)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert set(saved) == {name for name, _ in model.named_parameters()}
    for missing in [{name} for name in saved] + [set(saved)]:
        kept = {name: tensor for name, tensor in saved.items() if name not in missing}
        save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
        torch.manual_seed(0)  # for new weights, whose spread is compared
        loaded, info = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, output_loading_info=True)
        assert set(info["missing_keys"]) == missing
        for name, tensor in loaded.state_dict().items():
            if name in missing:
                check_initialised(name, tensor, model.config)
            else:
                assert torch.equal(tensor, saved[name]), name


@pytest.mark.usefixtures("uninitialised_memory_is_nan")
@pytest.mark.parametrize("scale", [None, 0.5])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_new_model_is_initialised_as_its_paper_has_it(variant: str, scale: float | None) -> None:
    torch.manual_seed(0)
    config = tiny_config(variant, initializer_range=scale, **EVERY_LAYER)
    for name, tensor in AttentionalRNNForConditionalGeneration(config).state_dict().items():
        check_initialised(name, tensor, config, scale)


def test_a_forget_gate_bias_does_not_touch_the_weights_of_a_checkpoint(tmp_path: Path) -> None:
    model = tiny_model("luong-lstm-dot", dtype=torch.float32, forget_gate_bias=1.0)
    model.save_pretrained(tmp_path)
    for change in ({}, {"forget_gate_bias": 3.0}):
        loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path, **change)
        assert loaded.config.forget_gate_bias == change.get("forget_gate_bias", 1.0)
        assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in loaded.state_dict().items())


@pytest.mark.parametrize("variant", VARIANTS)
def test_initialisation_is_reproducible_by_seed(variant: str) -> None:
    weights = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        weights.append(AttentionalRNNForConditionalGeneration(tiny_config(variant)).state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    # Biases and v_a may be zero whatever the seed.
    assert all(not torch.equal(weights[0][name], weights[2][name]) for name in weights[0] if weights[0][name].any())


# Embeddings -----------------------------------------------------------------------------------------------------------


def test_frozen_embeddings_stay_frozen_when_resized() -> None:
    model = tiny_model("luong-lstm-dot")
    for matrix in vocabulary_matrices(model):
        matrix.requires_grad_(False)
    model.resize_token_embeddings(NEW_VOCAB_SIZE)
    assert [matrix.requires_grad for matrix in vocabulary_matrices(model)] == [False] * 3


@pytest.mark.parametrize("model_class", [AttentionalRNNModel, AttentionalRNNForConditionalGeneration])
def test_parts_are_found_under_the_usual_names(model_class: type) -> None:
    model = model_class(tiny_config("luong-lstm-dot"))
    base = model.base_model
    assert model.get_encoder() is base.encoder
    assert model.get_decoder() is base.decoder
    assert model.get_input_embeddings() is base.encoder.embed_tokens
    assert model.get_encoder().get_input_embeddings() is base.encoder.embed_tokens
    assert model.get_decoder().get_input_embeddings() is base.decoder.embed_tokens
    assert model.get_output_embeddings() is getattr(model, "lm_head", None)
    embedding = nn.Embedding(SIZES["vocab_size"], SIZES["embedding_size"])
    model.set_input_embeddings(embedding)
    assert base.encoder.embed_tokens is embedding


# The config -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wiring", "score", "readout_size", "initializer_range"),
    [
        ("cho", "none", 12, 0.01),
        ("sutskever", "none", 25, 0.08),
        ("bahdanau", "additive", 12, 0.01),
        ("luong", "general", 25, 0.1),
    ],
)
def test_none_is_the_wirings_own_and_is_saved_as_a_value(
    wiring: str, score: str, readout_size: int, initializer_range: float, tmp_path: Path
) -> None:
    """Half of the decoder's width for maxout pairs, the whole of it for the others; given by either of its names."""
    expected = score, readout_size, initializer_range
    for name in ("decoder_hidden_size", "hidden_size"):
        config = AttentionalRNNConfig(wiring=wiring, **{name: 25})
        assert (config.score, config.readout_size, config.initializer_range) == expected
    config.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert (saved["score"], saved["readout_size"], saved["initializer_range"]) == expected
    assert AttentionalRNNConfig(wiring=wiring, hidden_size=1).readout_size == 1  # half of one unit is still one


def test_standard_names_read_and_write_the_papers_fields() -> None:
    config = AttentionalRNNConfig(hidden_size=24, num_hidden_layers=3)
    assert (config.decoder_hidden_size, config.decoder_layers) == (24, 3)
    config.hidden_size, config.num_hidden_layers = 16, 2
    assert (config.decoder_hidden_size, config.decoder_layers) == (16, 2)
    assert (config.hidden_size, config.num_hidden_layers) == (16, 2)


def test_config_json_holds_no_generation_parameters(tmp_path: Path) -> None:
    model = tiny_model("luong-lstm-dot", dtype=torch.float32)
    model.generation_config.update(num_beams=5, max_length=77, length_penalty=0.5)
    model.save_pretrained(tmp_path)
    shared = set(json.loads((tmp_path / "config.json").read_text())) & set(GenerationConfig().to_dict())
    # These belong to both: the model, too, knows its special tokens and whether it caches.
    shared -= {"pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "use_cache"}
    assert shared <= {"transformers_version", "output_attentions", "output_hidden_states"}
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).generation_config
    assert (loaded.num_beams, loaded.max_length, loaded.length_penalty) == (5, 77, 0.5)


def test_text_config_of_either_side() -> None:
    config = tiny_config("luong-gru-concat", encoder_layers=3, decoder_layers=2)
    encoder, decoder = config.get_text_config(encoder=True), config.get_text_config(decoder=True)
    assert (encoder.hidden_size, encoder.num_hidden_layers) == (SIZES["encoder_hidden_size"], 3)
    assert (decoder.hidden_size, decoder.num_hidden_layers) == (6, 2)
    assert encoder.vocab_size == decoder.vocab_size == config.get_text_config().vocab_size == SIZES["vocab_size"]
