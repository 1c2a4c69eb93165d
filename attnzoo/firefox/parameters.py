"""The parameters of Firefox's models under their names in Marian and in the small Transformer, in both directions."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..configuration_small_transformer import SmallTransformerConfig
from ..messages import described, shown_each
from ..modeling_small_transformer import SmallTransformerForConditionalGeneration
from .marian_model import Item, MarianModel, checked
from .student_options import StudentOptions

# What the config of such a model says beside its sizes.
ARCHITECTURE: dict[str, Any] = {
    "attention_pattern": "encoder_decoder",
    "decoder_mixer": "ssru",
    "activation": "relu",
    "norm": "post",
    "layer_norm_eps": 1e-6,
    "position_embedding": "sinusoidal_halves",
    "attention_bias": True,
    "output_bias": True,
    "zero_start": True,
    "scale_scores": True,
    "copy": False,
    "tie_word_embeddings": True,
}
EMBEDDINGS, OUTPUT = "model.encoder.embed_tokens", "lm_head"
TABLE, OUTPUT_BIAS = "Wemb", "decoder_ff_logit_out_b"  # in Marian; they have no start token


def config_of(options: StudentOptions, end: int) -> SmallTransformerConfig:
    """The config of a model with these sizes, whose end token has the id ``end``.

    The start token, which Marian does not have, is one more word after all others; it is the padding, too.

    Raises:
        ValueError: source and target have vocabularies of their own.
    """
    if not options.shared_vocabulary:
        raise ValueError("source and target have vocabularies of their own, and only one for both is supported")
    start = options.target_vocab_size
    return SmallTransformerConfig(
        vocab_size=start + 1,
        hidden_size=options.hidden_size,
        intermediate_size=options.intermediate_size,
        num_attention_heads=options.num_attention_heads,
        num_hidden_layers=options.num_encoder_layers,
        num_decoder_layers=options.num_decoder_layers,
        pad_token_id=start,
        bos_token_id=None,
        eos_token_id=end,
        decoder_start_token_id=start,
        **ARCHITECTURE,
    )


def options_of(config: SmallTransformerConfig) -> StudentOptions:
    """The options of a model with this config.

    Raises:
        ValueError: Marian's students have no such model.
    """
    for name, value in ARCHITECTURE.items():
        if (found := getattr(config, name, None)) != value:
            raise ValueError(f"{name} must be {value!r} for Firefox, got {described(found)}")
    vocabulary = config.vocab_size - 1
    for name in ("decoder_start_token_id", "pad_token_id"):
        if (found := getattr(config, name)) != vocabulary:
            raise ValueError(f"{name} must be the last token, {vocabulary}, for Firefox, got {found}")
    if config.intermediate_size % 2:
        raise ValueError(f"intermediate_size must be even for Firefox, got {config.intermediate_size}")
    return StudentOptions(
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_attention_heads=config.num_attention_heads,
        num_encoder_layers=config.num_hidden_layers,
        num_decoder_layers=config.decoder_depth,
        source_vocab_size=vocabulary,
        target_vocab_size=vocabulary,
        shared_vocabulary=True,
    )


def marian_names(options: StudentOptions) -> dict[str, tuple[str, str | None]]:
    """For each layer of the small Transformer that has parameters, the names of its weight and its bias in Marian."""
    found: dict[str, tuple[str, str | None]] = {OUTPUT: (TABLE, OUTPUT_BIAS)}
    layers = [("encoder", i, "self_attention", "self") for i in range(options.num_encoder_layers)]
    layers += [("decoder", i, "cross_attention", "context") for i in range(options.num_decoder_layers)]
    for side, i, attention, context in layers:
        ours, marian = f"model.{side}.layers.{i}.", f"{side}_l{i + 1}_"
        for part in ("query", "key", "value", "output"):
            found[f"{ours}{attention}.{part}_proj"] = f"{marian}{context}_W{part[0]}", f"{marian}{context}_b{part[0]}"
        found[f"{ours}feed_forward.intermediate_proj"] = f"{marian}ffn_W1", f"{marian}ffn_b1"
        found[f"{ours}feed_forward.output_proj"] = f"{marian}ffn_W2", f"{marian}ffn_b2"
        norms = {attention: f"{context}_Wo", "feed_forward": "ffn_ffn"}
        if side == "decoder":
            found[f"{ours}ssru.candidate_proj"] = f"{marian}rnn_W", None
            found[f"{ours}ssru.forget_gate_proj"] = f"{marian}rnn_Wf", f"{marian}rnn_bf"
            norms["ssru"] = "rnn_ffn"
        for name, norm in norms.items():
            found[f"{ours}{name}_norm"] = f"{marian}{norm}_ln_scale", f"{marian}{norm}_ln_bias"
    return found


def parameters_of(model: nn.Module, options: StudentOptions) -> dict[str, Tensor]:
    """The parameters of a small Transformer, by their names in Marian.

    Raises:
        ValueError: the model has other parameters than its config says.
    """
    own = dict(model.named_parameters())  # shared ones once, under the name of the encoder's embeddings
    own[f"{OUTPUT}.weight"] = own.pop(f"{EMBEDDINGS}.weight")
    found: dict[str, Tensor] = {}
    for layer, names in marian_names(options).items():
        for part, name in zip(("weight", "bias"), names, strict=True):
            if name is not None and f"{layer}.{part}" in own:
                found[name] = own.pop(f"{layer}.{part}")
    if own or found.keys() != options.shapes().keys():
        different = [*own, *(options.shapes().keys() - found.keys())]
        raise ValueError(
            f"the model has other parameters than its config says: {shown_each(sorted(different))}; merge adapters "
            "(merge_and_unload) and undo quantisation first"
        )
    return found


@torch.no_grad()
def to_model(marian: MarianModel, end: int) -> SmallTransformerForConditionalGeneration:
    """The small Transformer with the weights of a Marian file. Eight bits become float32, and alphas are left out.

    Names and shapes are compared with the options before memory is taken.

    Args:
        marian: the file's contents
        end: the id of the end token

    Raises:
        ValueError: the options or the tensors are not those of a student of Firefox.
    """
    options = StudentOptions.from_yaml(marian.options)
    config = config_of(options, end)
    options.check_tensors(marian)
    model = SmallTransformerForConditionalGeneration(config)
    for name, parameter in parameters_of(model, options).items():
        values = torch.tensor(marian.floats(name))
        if name == TABLE:
            parameter[:-1], parameter[-1] = values, 0
        elif name == OUTPUT_BIAS:
            parameter[:-1], parameter[-1] = values[0], 0
        else:
            parameter.copy_(values[0] if parameter.ndim == 1 else values.T)
    return model.eval()


def to_marian(model: SmallTransformerForConditionalGeneration) -> MarianModel:
    """The contents of a Marian file in float32 for a small Transformer.

    Raises:
        ValueError: Marian has no such model, it has adapters or quantised layers, the start token has an embedding, or
            a value is not finite.
    """
    options = options_of(model.config)
    items: dict[str, Item] = {}
    for name, parameter in parameters_of(model, options).items():
        values = parameter.detach().float().cpu()
        if name == TABLE and bool(values[-1].any()):
            raise ValueError(
                f"the embedding of the start token {len(values) - 1} is not 0, and Marian's decoder starts with none"
            )
        if name in (TABLE, OUTPUT_BIAS):
            values = values[:-1]
        if values.ndim == 1:
            values = values.unsqueeze(0)
        elif name != TABLE:
            values = values.T
        items[name] = np.ascontiguousarray(values)
    return checked(MarianModel(items, options.to_yaml(), {}))
