"""The options in a Marian file, and the tensors that a model with them has."""

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml

from ..messages import described, shown, shown_each
from .int8 import Int8Matrix, is_quantised
from .marian_model import MarianModel

# A student is a small model that was trained on a larger one's translations. These are the only values that are read
# here; others choose another arithmetic, most of them.
REQUIRED: dict[str, Any] = {
    "type": "transformer",
    "transformer-decoder-autoreg": "rnn",
    "dec-cell": "ssru",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-ffn-depth": 2,
    "transformer-ffn-activation": "relu",
    "transformer-train-position-embeddings": False,
    "transformer-no-projection": False,
    "transformer-tied-layers": [],
    "layer-normalization": False,
    "right-left": False,
    "skip": False,
    "tied-embeddings-src": False,
    "ulr": False,
    "lemma-dim-emb": 0,
    "input-types": [],
}
# The same, but older files do not have them, and mean this value.
ASSUMED: dict[str, Any] = {
    "transformer-postprocess-top": "",
    "output-omit-bias": False,
    "transformer-pool": False,
    "transformer-rnn-projection": False,
    "transformer-no-bias": False,
    "transformer-no-affine": False,
    "transformer-decoder-dim-ffn": 0,  # as in the encoder
    "transformer-decoder-ffn-depth": 0,
}
# What no student uses. Marian wants to see them, so they are written.
UNUSED: dict[str, Any] = {
    "bert-train-type-embeddings": True,
    "bert-type-vocab-size": 2,
    "dec-cell-base-depth": 2,
    "dec-cell-high-depth": 1,
    "dim-rnn": 1024,
    "enc-cell": "gru",
    "enc-cell-depth": 1,
    "enc-type": "bidirectional",
    "factors-combine": "sum",
    "factors-dim-emb": 0,
    "lemma-dependency": "",
    "transformer-aan-activation": "swish",
    "transformer-aan-depth": 2,
    "transformer-aan-nogate": False,
    "transformer-dim-aan": 2048,
    "transformer-guided-alignment-layer": "last",
    "ulr-dim-emb": 0,
    "ulr-trainable-transformation": False,
    "version": "v1.12.14",
}
SIZES = {
    "dim-emb": ("hidden_size", 2**14),
    "transformer-dim-ffn": ("intermediate_size", 2**16),
    "transformer-heads": ("num_attention_heads", 2**10),
    "enc-depth": ("num_encoder_layers", 2**6),
    "dec-depth": ("num_decoder_layers", 2**6),
}  # with the largest that is read
LARGEST_VOCABULARY = 2**20
VOCABULARIES, SHARED, SPLIT = "dim-vocabs", "tied-embeddings-all", "tied-embeddings"


class PlainLoader(yaml.BaseLoader):
    """YAML whose values are texts and lists, without aliases and without keys that occur twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # a few of them make a huge list
            raise ValueError("it has an alias, which options do not need")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        mapping = super().construct_mapping(node, deep)
        if len(mapping) < len(node.value):
            raise ValueError(f"an option occurs twice among {shown_each(map(str, mapping))}")
        return mapping


@dataclass(frozen=True)
class StudentOptions:
    """The sizes of a student of Firefox: a Transformer's encoder, a decoder of SSRU layers.

    Attributes:
        hidden_size: of encoder and decoder
        intermediate_size: of the feed-forward layers of both
        num_attention_heads: of both
        num_encoder_layers: layers of the encoder
        num_decoder_layers: layers of the decoder
        source_vocab_size: pieces of the source
        target_vocab_size: pieces of the target
        shared_vocabulary: source and target have one table of embeddings; otherwise the target has its own, which is
            the output projection, too
    """

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_encoder_layers: int
    num_decoder_layers: int
    source_vocab_size: int
    target_vocab_size: int
    shared_vocabulary: bool

    @classmethod
    def from_yaml(cls, text: str) -> "StudentOptions":
        """The options of a Marian file.

        Raises:
            ValueError: the text is not YAML, an option is missing or unknown, or has a value that is not supported.
        """
        options = read_yaml(text)
        known = {*REQUIRED, *ASSUMED, *UNUSED, *SIZES, VOCABULARIES, SHARED, SPLIT}
        if unknown := sorted(options.keys() - known):
            raise ValueError(f"unknown options: {shown_each(unknown)}")
        for name, value in (REQUIRED | ASSUMED).items():
            if name in options or name in REQUIRED:
                require(name, options, value)
        tied = [options.get(SHARED), options.get(SPLIT)]
        if tied not in (["true", "false"], ["false", "true"]):
            raise ValueError(
                f"one of {SHARED} and {SPLIT} must be true, the other false; got {shown_each(map(str, tied))}"
            )
        shared = tied[0] == "true"
        sizes = {field: size(name, options.get(name), largest) for name, (field, largest) in SIZES.items()}
        vocabularies = options.get(VOCABULARIES)
        if not isinstance(vocabularies, list) or len(vocabularies) != 2:
            raise ValueError(f"{VOCABULARIES} must be a list of two sizes, got {described(vocabularies)}")
        source, target = (size(VOCABULARIES, one, LARGEST_VOCABULARY) for one in vocabularies)
        if shared and source != target:
            raise ValueError(f"{SHARED} needs one vocabulary, got {VOCABULARIES} {source} and {target}")
        width, heads = sizes["hidden_size"], sizes["num_attention_heads"]
        if width % heads or width % 2 or width < 4:
            raise ValueError(f"dim-emb {width} must be even, 4 or more, and a multiple of transformer-heads {heads}")
        return cls(**sizes, source_vocab_size=source, target_vocab_size=target, shared_vocabulary=shared)

    def to_yaml(self) -> str:
        """All options that Marian wants to see in a file."""
        options = REQUIRED | ASSUMED | UNUSED | {name: getattr(self, field) for name, (field, _) in SIZES.items()}
        options[VOCABULARIES] = [self.source_vocab_size, self.target_vocab_size]
        options |= {SHARED: self.shared_vocabulary, SPLIT: not self.shared_vocabulary}
        return yaml.safe_dump(options)

    def shapes(self) -> dict[str, tuple[int, int]]:
        """The names and shapes of all tensors of the model, without alphas."""
        width, wide = self.hidden_size, self.intermediate_size
        shapes = {"decoder_ff_logit_out_b": (1, self.target_vocab_size)}
        if self.shared_vocabulary:
            shapes["Wemb"] = (self.source_vocab_size, width)
        else:
            shapes["encoder_Wemb"] = (self.source_vocab_size, width)
            shapes["decoder_Wemb"] = (self.target_vocab_size, width)
        layers = [f"encoder_l{i + 1}" for i in range(self.num_encoder_layers)]
        layers += [f"decoder_l{i + 1}" for i in range(self.num_decoder_layers)]
        for layer in layers:
            encoder = layer.startswith("encoder")
            attention = f"{layer}_self" if encoder else f"{layer}_context"
            for part in "qkvo":
                shapes |= {f"{attention}_W{part}": (width, width), f"{attention}_b{part}": (1, width)}
            shapes |= {f"{layer}_ffn_W1": (width, wide), f"{layer}_ffn_b1": (1, wide)}
            shapes |= {f"{layer}_ffn_W2": (wide, width), f"{layer}_ffn_b2": (1, width)}
            norms = [f"{attention}_Wo_ln", f"{layer}_ffn_ffn_ln"]
            if not encoder:
                shapes |= {f"{layer}_rnn_W": (width, width), f"{layer}_rnn_Wf": (width, width)}
                shapes[f"{layer}_rnn_bf"] = (1, width)
                norms.append(f"{layer}_rnn_ffn_ln")
            shapes |= {f"{norm}_{part}": (1, width) for norm in norms for part in ("scale", "bias")}
        return shapes

    def check_tensors(self, model: MarianModel) -> None:
        """Compare the tensors of a file with those of the options.

        Raises:
            ValueError: a tensor is missing, unknown or of another shape, or only some matrices are in eight bits.
        """
        shapes = self.shapes()
        if missing := sorted(shapes.keys() - model.items.keys()):
            raise ValueError(f"tensors are missing: {shown_each(missing)}")
        if unknown := sorted(model.items.keys() - shapes.keys()):
            raise ValueError(f"tensors that no model with these options has: {shown_each(unknown)}")
        in_int8 = {name for name, item in model.items.items() if isinstance(item, Int8Matrix)}
        if in_int8 and (odd := sorted(in_int8 ^ {name for name in shapes if is_quantised(name)})):
            raise ValueError(f"all matrices are in eight bits, or none, and nothing else; not so: {shown_each(odd)}")
        for name, item in model.items.items():
            shape = item.codes.shape if isinstance(item, Int8Matrix) else item.shape
            if shape != shapes[name]:
                raise ValueError(f"{name} has the shape {shape}; the options say {shapes[name]}")


def read_yaml(text: str) -> dict[str, Any]:
    """The options of a YAML text, as plain values by name; a ValueError if it is something else."""
    try:
        options = yaml.load(text, PlainLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"the options are not plain YAML: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        raise ValueError(f"the options must be names with values, got {described(options)}")
    return options


def require(name: str, options: dict[str, Any], value: Any) -> None:
    """Raise a ValueError if an option is missing or has another value than the only one that is supported."""
    wanted = value if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)
    if name not in options:
        raise ValueError(f"the option {name} is missing; only {wanted!r} is supported")
    if options[name] != wanted:
        raise ValueError(f"the option {name} is {shown(str(options[name]))}; only {wanted!r} is supported")


def size(name: str, value: Any, largest: int) -> int:
    """A size from the options; a ValueError if it is not one."""
    if not isinstance(value, str) or not re.fullmatch("[1-9][0-9]{0,8}", value) or int(value) > largest:
        raise ValueError(f"the option {name} must be a whole number from 1 to {largest:,}, got {described(value)}")
    return int(value)
