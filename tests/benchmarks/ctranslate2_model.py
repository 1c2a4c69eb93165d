"""Our Transformer of ``transformer_models.py`` in CTranslate2, an inference engine in C++, with the same weights.

It is no dependency: ``pip install ctranslate2==4.8.5``.
"""

import tempfile
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnzoo import SmallTransformerForConditionalGeneration
from attnzoo.transformer_layers import sinusoidal_positions
from tests.benchmarks.transformer_models import BOS, EOS, PAD

MAX_LENGTH = 256


def translator(model: SmallTransformerForConditionalGeneration) -> Any:
    """A ``ctranslate2.Translator`` in float32 on one thread, of ReLU, tied, post-norm models without biases.

    Raises:
        ValueError: the model is of another kind, whose translations would be wrong.
    """
    config = model.config
    if config.norm != "post" or config.activation != "relu" or not config.tie_word_embeddings:
        raise ValueError(
            f"a model of norm='post', activation='relu' and tied embeddings is needed, got norm={config.norm!r}, "
            f"activation={config.activation!r}, tie_word_embeddings={config.tie_word_embeddings}"
        )
    import ctranslate2
    from ctranslate2.specs import TransformerSpec

    spec = TransformerSpec.from_config(config.num_hidden_layers, config.num_attention_heads, pre_norm=False)
    positions = sinusoidal_positions(torch.arange(MAX_LENGTH), config.hidden_size)
    for stack, into in ((model.model.encoder, spec.encoder), (model.model.decoder, spec.decoder)):
        embeddings = into.embeddings[0] if isinstance(into.embeddings, list) else into.embeddings
        embeddings.weight = _numbers(stack.embed_tokens.weight)
        into.scale_embeddings = True
        into.position_encodings.encodings = _numbers(positions)
        for layer, of_layer in zip(stack.layers, into.layer, strict=True):
            own, across = layer.self_attention, layer.cross_attention
            _set(of_layer.self_attention.linear[0], own.query_proj, own.key_proj, own.value_proj)
            _set(of_layer.self_attention.linear[1], own.output_proj)
            _set_norm(of_layer.self_attention.layer_norm, layer.self_attention_norm)
            if across is not None:
                _set(of_layer.attention.linear[0], across.query_proj)
                _set(of_layer.attention.linear[1], across.key_proj, across.value_proj)
                _set(of_layer.attention.linear[2], across.output_proj)
                _set_norm(of_layer.attention.layer_norm, layer.cross_attention_norm)
            _set(of_layer.ffn.linear_0, layer.feed_forward.intermediate_proj)
            _set(of_layer.ffn.linear_1, layer.feed_forward.output_proj)
            _set_norm(of_layer.ffn.layer_norm, layer.feed_forward_norm)
    spec.decoder.projection.weight = _numbers(model.lm_head.weight)
    names = [name_of(number) for number in range(config.vocab_size)]
    spec.register_source_vocabulary(names)
    spec.register_target_vocabulary(names)
    spec.config.bos_token, spec.config.eos_token = name_of(BOS), name_of(EOS)
    spec.config.unk_token, spec.config.decoder_start_token = name_of(PAD), name_of(BOS)
    spec.config.layer_norm_epsilon = config.layer_norm_eps
    spec.validate()
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        return ctranslate2.Translator(folder, device="cpu", compute_type="float32", inter_threads=1, intra_threads=1)


def name_of(number: int) -> str:
    """A token's name for its number; CTranslate2 reads and writes words."""
    return f"w{number}"


def translate(system: Any, sources: Tensor, beams: int, steps: int) -> list[list[int]]:
    """As many tokens as ``steps`` after each source (B, S), the end forbidden; padding is at the end of a row."""
    rows = [[name_of(token) for token in row if token != PAD] for row in sources.tolist()]
    results = system.translate_batch(
        rows,
        beam_size=beams,
        max_decoding_length=steps,
        min_decoding_length=steps,
        suppress_sequences=[[name_of(EOS)]],
        max_input_length=0,
    )
    return [[int(name[1:]) for name in result.hypotheses[0]] for result in results]


def _set(into: Any, *layers: nn.Linear) -> None:
    into.weight = _numbers(torch.cat([layer.weight for layer in layers]))
    if layers[0].bias is not None:
        into.bias = _numbers(torch.cat([layer.bias for layer in layers]))


def _set_norm(into: Any, norm: nn.LayerNorm) -> None:
    into.gamma, into.beta = _numbers(norm.weight), _numbers(norm.bias)


def _numbers(tensor: Tensor) -> np.ndarray:
    return tensor.detach().float().numpy()
