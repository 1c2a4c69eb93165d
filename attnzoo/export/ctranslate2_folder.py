"""The encoder-decoder Transformer for CTranslate2, an inference engine in C++ with decoders of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import torch
from ctranslate2.specs import TransformerSpec, common_spec
from torch import nn

from ..decoding.token_search import search
from ..loss import closing_bias
from ..new_folders import new_folder
from ..transformer_layers import MultiHeadAttention
from .certificate import BEAMS
from .graph import WEIGHTS, Weights, numbers
from .onnx_folder import refuse_changed_weights, refuse_copying, write_details

POSITIONS = 1024  # of a text, where the model itself has no limit
ACTIVATIONS = {"relu": common_spec.Activation.RELU, "gelu": common_spec.Activation.GELU}


def to_ctranslate2(
    model: Any, folder: str | Path, tokenizer: Any, weights: Weights = "float32", card: str | None = None
) -> Path:
    """Write a Transformer with a source as a folder that ``ctranslate2.Translator`` opens, with its tokenizer.

    CTranslate2 reads and writes the names of tokens. Texts have at most ``POSITIONS`` tokens, or as many as the model
    has learned positions.

    Returns:
        the folder

    Raises:
        ValueError: CTranslate2 has no such model; nothing is written.
        FileExistsError: the folder is not empty.
    """
    if weights not in WEIGHTS:
        raise ValueError(f"weights must be one of {', '.join(map(repr, WEIGHTS))}, got {weights!r}")
    names = tokenizer.convert_ids_to_tokens(range(model.config.vocab_size))
    spec = specification(model, names, tokenizer.unk_token)
    spec.validate()
    spec.optimize(quantization=weights)
    with new_folder(folder) as part:
        spec.save(str(part))
        tokenizer.save_pretrained(part)
        write_details(part, {"model_class": type(model).__name__, "task": "ctranslate2", "weights": weights}, card)
    return Path(folder)


def specification(model: Any, names: Sequence[str], unknown: str | None = None) -> TransformerSpec:
    """The model as CTranslate2 describes it.

    Args:
        model: an encoder-decoder
        names: of the tokens, by their ids
        unknown: the name of the token for unknown ones; None for padding

    Raises:
        ValueError: CTranslate2 has no such model.
    """
    config = model.config
    if type(model).__name__ != "SmallTransformerForConditionalGeneration":
        raise ValueError(f"{type(model).__name__} cannot go to CTranslate2, only an encoder-decoder Transformer can")
    if config.position_embedding == "none":
        raise ValueError("CTranslate2 has no Transformer with position_embedding='none'")
    if config.decoder_mixer != "attention":
        raise ValueError(f"CTranslate2 has no decoder with decoder_mixer={config.decoder_mixer!r}; export it to ONNX")
    end = model.generation_config.eos_token_id
    if not isinstance(end, int):
        raise ValueError(f"CTranslate2 needs one end token, the generation config has eos_token_id={end}")
    if len(set(names)) != len(names) or None in names:
        raise ValueError("CTranslate2 needs a name of its own for every token, and two tokens have the same or none")
    refuse_copying(model, "CTranslate2")
    refuse_changed_weights(model)
    spec = TransformerSpec.from_config(
        (config.num_hidden_layers, config.decoder_depth),
        config.num_attention_heads,
        pre_norm=config.norm == "pre",
        activation=ACTIVATIONS[config.activation],
    )
    for stack, into in ((model.model.encoder, spec.encoder), (model.model.decoder, spec.decoder)):
        embeddings = into.embeddings[0] if isinstance(into.embeddings, list) else into.embeddings
        embeddings.weight = numbers(stack.embed_tokens.weight)
        into.scale_embeddings = True
        positions = stack.position_embedding
        every = None if positions.learned is None else positions.learned.weight
        if every is None:
            every = positions.sinusoids(torch.arange(POSITIONS), config.hidden_size)
        into.position_encodings.encodings = numbers(every)
        if stack.final_norm is not None:
            _set_norm(into.layer_norm, stack.final_norm)
        for layer, of_layer in zip(stack.layers, into.layer, strict=True):
            own, across = layer.self_attention, layer.cross_attention
            _set_linear(of_layer.self_attention.linear[0], own.query_proj, own.key_proj, own.value_proj)
            _set_attention(of_layer.self_attention, own, layer.self_attention_norm)
            if across is not None:
                _set_linear(of_layer.attention.linear[0], across.query_proj)
                _set_linear(of_layer.attention.linear[1], across.key_proj, across.value_proj)
                _set_attention(of_layer.attention, across, layer.cross_attention_norm)
            _set_linear(of_layer.ffn.linear_0, layer.feed_forward.intermediate_proj)
            _set_linear(of_layer.ffn.linear_1, layer.feed_forward.output_proj)
            _set_norm(of_layer.ffn.layer_norm, layer.feed_forward_norm)
    spec.decoder.projection.weight = numbers(model.lm_head.weight)
    if (bias := closing_bias(model.lm_head, config.closed_token)) is not None:
        spec.decoder.projection.bias = numbers(bias)
    spec.register_source_vocabulary(list(names))
    spec.register_target_vocabulary(list(names))
    start = names[config.decoder_start_token_id]
    spec.config.bos_token, spec.config.eos_token, spec.config.decoder_start_token = start, names[end], start
    spec.config.unk_token = unknown or names[config.pad_token_id]
    spec.config.layer_norm_epsilon = float(config.layer_norm_eps)
    return spec


def certify_translations(model: Any, tokenizer: Any, folder: Path, texts: Sequence[str]) -> dict[str, Any]:
    """The number of sources that CTranslate2 translates as ``generate()`` does, greedy and with beams.

    The sources are ``texts``, or rows of random tokens if there are none.
    """
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type="default", inter_threads=1)
    sources: list[list[int]] = [tokenizer(text).input_ids for text in texts]
    if not sources:
        generator = torch.Generator().manual_seed(0)
        sources = [
            torch.randint(model.config.vocab_size, (size,), generator=generator).tolist() for size in range(1, 9)
        ]
    longest = model.generation_config.max_new_tokens or 256
    end = model.generation_config.eos_token_id
    found: dict[str, Any] = {"texts": len(texts), "examples": len(sources)}
    for name, count in (("greedy", 1), ("beams", BEAMS)):
        found[name] = 0
        for row in sources:
            ids = torch.tensor([row])
            expected = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                num_beams=count,
                do_sample=False,
                max_new_tokens=longest,
                custom_generate=search,
            )
            names = tokenizer.convert_ids_to_tokens([token for token in expected[0, 1:].tolist() if token != end])
            options = {"beam_size": count, "max_decoding_length": longest, "max_input_length": 0}
            (result,) = translator.translate_batch([tokenizer.convert_ids_to_tokens(row)], **options)
            found[name] += result.hypotheses[0] == names
    return found


def _set_linear(into: Any, *layers: nn.Linear) -> None:
    into.weight = numbers(torch.cat([layer.weight for layer in layers]))
    if layers[0].bias is not None:
        into.bias = numbers(torch.cat([layer.bias for layer in layers]))


def _set_attention(into: Any, attention: MultiHeadAttention, norm: Any) -> None:
    _set_linear(into.linear[-1], attention.output_proj)
    _set_norm(into.layer_norm, norm)
    if not attention.config.scale_scores:
        into.queries_scale = numbers(torch.tensor(1.0))


def _set_norm(into: Any, norm: Any) -> None:
    into.gamma, into.beta = numbers(norm.weight), numbers(norm.bias)
