"""The config of the recurrent encoder-decoder, its file, and the parts of the model."""

import json
from pathlib import Path

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import AutoModelForSeq2SeqLM, GenerationConfig

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration, AttentionalRNNModel
from tests.every_family.test_files import vocabulary_matrices
from tests.factory import RNN_SIZES as SIZES
from tests.factory import tiny_config, tiny_model

# Parts ----------------------------------------------------------------------------------------------------------------


def test_frozen_embeddings_stay_frozen_when_resized() -> None:
    model = tiny_model("luong-lstm-dot")
    for matrix in vocabulary_matrices(model):
        matrix.requires_grad_(False)
    model.resize_token_embeddings(SIZES["vocab_size"] + 4)
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
    """Half of the decoder's width for maxout pairs, the whole width for the others; by either name of the field."""
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
    for alias, name in config.attribute_map.items():
        with pytest.raises(StrictDataclassError, match=rf"{name} \(also called {alias}\) must be at least 1, got 0"):
            AttentionalRNNConfig(**{alias: 0})


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
