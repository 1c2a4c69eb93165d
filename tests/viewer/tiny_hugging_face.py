"""Tiny random models of Transformers' own classes, and the three families, for everything that reads attention."""

from typing import Any

import torch
from transformers import (
    AlbertConfig,
    AlbertModel,
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    DistilBertConfig,
    DistilBertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    RobertaConfig,
    RobertaModel,
    T5Config,
    T5ForConditionalGeneration,
)

from tests.factory import tiny_model

VOCABULARY = 13  # as that of the factory: ids from 3 are ordinary tokens
_BERT = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 20}
_BERT |= {"max_position_embeddings": 40, "pad_token_id": 0}
_BART = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 2}
_BART |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20, "max_position_embeddings": 40}
_BART |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "forced_eos_token_id": 2}
_T5 = {"d_model": 16, "d_kv": 8, "d_ff": 20, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0}
_T5 |= {"pad_token_id": 0, "eos_token_id": 2}
_LLAMA = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
_LLAMA |= {"intermediate_size": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_GPT2 = {"n_embd": 16, "n_layer": 3, "n_head": 4, "n_positions": 40, "bos_token_id": 1, "eos_token_id": 2}

ENCODERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "bert": (BertForMaskedLM, BertConfig, _BERT),
    "roberta": (RobertaModel, RobertaConfig, _BERT | {"max_position_embeddings": 42}),
    "distilbert": (DistilBertModel, DistilBertConfig, {"dim": 16, "n_layers": 3, "n_heads": 4, "hidden_dim": 20}),
    "albert": (AlbertModel, AlbertConfig, _BERT | {"embedding_size": 8}),
}
DECODERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "gpt2": (GPT2LMHeadModel, GPT2Config, _GPT2),
    "llama": (LlamaForCausalLM, LlamaConfig, _LLAMA),
}
ENCODER_DECODERS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "bart": (BartForConditionalGeneration, BartConfig, _BART | {"decoder_start_token_id": 2}),
    "marian": (MarianMTModel, MarianConfig, _BART | {"decoder_start_token_id": 0}),
    "t5": (T5ForConditionalGeneration, T5Config, _T5),
}
OF_TRANSFORMERS = ENCODERS | DECODERS | ENCODER_DECODERS
OURS = {
    "small-transformer": "encoder_decoder-post-sinusoidal",
    "small-transformer-masked": "bidirectional-post-learned",
    "small-transformer-causal": "causal-pre-learned",
}


def tiny(name: str, attention: str = "sdpa", seed: int = 0, **overrides: Any) -> Any:
    """The model of this name, in eval mode, with large weights, so that attention weights differ."""
    if name in OURS:
        return tiny_model(OURS[name], attention=attention, dtype=torch.float32, seed=seed, **overrides)
    model_class, config_class, sizes = OF_TRANSFORMERS[name]
    config = config_class(vocab_size=VOCABULARY, **(sizes | overrides))
    model = model_class._from_config(config, attn_implementation=attention)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5, generator=generator)
    return model.eval()
