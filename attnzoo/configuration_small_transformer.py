"""Configuration of the small Transformer."""

from typing import Any, Literal, Self

from huggingface_hub.dataclasses import strict

from .zoo_config import MAX_SIZES, ZooConfig, check_size

# BERT and GPT have the same layers.
_PRETRAINED: dict[str, Any] = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "activation": "gelu",
    "position_embedding": "learned",
    "max_position_embeddings": 512,
    "attention_bias": True,
    "attention_dropout": 0.1,
}
_BERT = _PRETRAINED | {"attention_pattern": "bidirectional", "vocab_size": 30_000}
_LARGE: dict[str, Any] = {"hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}
PAPERS: dict[str, dict[str, Any]] = {
    "vaswani2017-base": {},  # the defaults
    "vaswani2017-big": _LARGE | {"dropout": 0.3},
    "radford2018": _PRETRAINED | {"attention_pattern": "causal", "vocab_size": 40_000},
    "devlin2019-base": _BERT,
    "devlin2019-large": _BERT | _LARGE | {"num_hidden_layers": 24},
}


@strict
class SmallTransformerConfig(ZooConfig):
    r"""Configuration of :class:`SmallTransformerModel`; the defaults are Vaswani et al.'s base model (2017, table 3).

    Attributes:
        attention_pattern: which tokens may attend to which, and so which stacks the model has. "encoder_decoder" is
            the paper's model: source tokens attend to the whole source, target tokens to the source and to the target
            before them. "bidirectional" is the encoder alone, as BERT. "causal" is the decoder alone, as GPT.
        is_encoder_decoder: follows from ``attention_pattern``. A value that contradicts it raises an error.
        vocab_size: the size of the one vocabulary of source and target.
        hidden_size: d_model, the width of the embeddings and of every layer's output.
        num_hidden_layers: N, the number of layers of each stack; of the encoder alone with ``num_decoder_layers``.
        num_decoder_layers: the number of layers of the decoder of an encoder-decoder; None for ``num_hidden_layers``.
        decoder_mixer: how a layer of the decoder of an encoder-decoder reads the earlier tokens: "attention",
            self-attention as in the paper, or "ssru", a recurrent unit (Kim et al., 2019; :class:`SSRU` in
            ``transformer_layers.py``).
        num_attention_heads: h, the number of heads. Each is ``hidden_size / num_attention_heads`` wide: d_k = d_v.
        intermediate_size: d_ff, the inner width of the feed-forward layers.
        activation: the activation of the feed-forward layers: "relu" as in the paper, or "gelu" as in BERT.
        norm: where layer normalisation is applied: "post", to the residual sum (the paper), or "pre", to the input of
            every sublayer and to the output of a stack (GPT-2).
        layer_norm_eps: the number that layer normalisation adds to the variance. The paper's released code has 1e-6.
        position_embedding: "sinusoidal" (section 3.5), for texts of any length; "sinusoidal_halves", all sines
            before all cosines, with rates from 1 to 1/10000, both included, as Marian has it; "learned"; or "none", for
            studies.
        max_position_embeddings: the number of learned positions. A longer text raises an error. Only for "learned".
        attention_bias: whether the projections of the attention have biases, as in BERT and GPT; the paper has none.
        output_bias: whether the output projection has a bias, as in Marian; the paper has none.
        zero_start: let the decoder read the first position alone, as in Marian: the embedding of
            ``decoder_start_token_id`` is 0. Training does not change it, and the token is never predicted, so it must
            be a token that no text has, and not the end token. Only for "encoder_decoder", and without ``copy``.
        scale_scores: whether the scores are divided by the square root of d_k (section 3.2.1). False is for studies.
        dropout: dropout rate of the sums of embeddings and positions, and of every sublayer's output (section 5.4).
        attention_dropout: dropout rate of the attention weights. The paper has none; its released code has 0.1.
        copy: mix the words of the vocabulary with those of the source, which one more attention head chooses (See et
            al., 2017, section 2.2; :class:`CopyHead` in ``copying.py``). Only for "encoder_decoder".
        tie_word_embeddings: use one matrix for both embeddings and the output projection (section 3.4).

    Raises:
        StrictDataclassError: a value of the wrong type or outside the choices, naming the field.
        ValueError: (wrapped in the above) a size or rate out of range, or two fields that contradict each other.
    """

    model_type = "small_transformer"
    keys_to_ignore_at_inference = ["past_key_values", "cache", "encoder_last_hidden_state", "copy_probabilities"]

    attention_pattern: Literal["encoder_decoder", "bidirectional", "causal"] = "encoder_decoder"
    is_encoder_decoder: bool | None = None  # type: ignore[assignment]  # the base class has a bool
    vocab_size: int = 37_000
    hidden_size: int = 512
    num_hidden_layers: int = 6
    num_decoder_layers: int | None = None
    decoder_mixer: Literal["attention", "ssru"] = "attention"
    num_attention_heads: int = 8
    intermediate_size: int = 2048
    activation: Literal["relu", "gelu"] = "relu"
    norm: Literal["post", "pre"] = "post"
    layer_norm_eps: float | int = 1e-6
    position_embedding: Literal["sinusoidal", "sinusoidal_halves", "learned", "none"] = "sinusoidal"
    max_position_embeddings: int = 512
    attention_bias: bool = False
    output_bias: bool = False
    zero_start: bool = False
    scale_scores: bool = True
    dropout: float | int = 0.1
    attention_dropout: float | int = 0.0
    copy: bool = False
    tie_word_embeddings: bool = True
    use_cache: bool = True
    pad_token_id: int = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int = 1

    @classmethod
    def from_paper(cls, paper: str, **overrides: Any) -> Self:
        """The model of a paper with the paper's sizes; ``overrides`` replace any of its fields.

        - ``vaswani2017-base``, ``vaswani2017-big``: the Transformer for English to German (arXiv:1706.03762, table 3)
        - ``radford2018``: GPT, the decoder alone, section 4.1
        - ``devlin2019-base``, ``devlin2019-large``: BERT, the encoder alone (arXiv:1810.04805, section 3)

        **Differs from the papers.** GPT and BERT: embeddings are multiplied by the square root of d_model, as in
        Vaswani et al. BERT: no embeddings of segments, no layer normalisation of the embeddings, and no layer before
        the output projection.

        Raises:
            ValueError: no such paper, an override that is not a field, or one that is given under two names.
        """
        return cls._of_paper(PAPERS, paper, overrides)

    def __post_init__(self, **kwargs: Any) -> None:
        if self.is_encoder_decoder is None:
            self.is_encoder_decoder = self.attention_pattern == "encoder_decoder"
        super().__post_init__(**kwargs)

    @property
    def decoder_depth(self) -> int:
        """The number of layers of the decoder of an encoder-decoder."""
        return self.num_hidden_layers if self.num_decoder_layers is None else self.num_decoder_layers

    @property
    def closed_token(self) -> int | None:
        """The token that is never predicted and whose embedding is 0; None without ``zero_start``."""
        return self.decoder_start_token_id if self.zero_start else None

    def get_text_config(self, decoder: bool | None = None, encoder: bool | None = None) -> Any:
        """The config from which Transformers reads one side; a cache gets the decoder's number of layers from it."""
        config = super().get_text_config(decoder=decoder, encoder=encoder)
        if decoder and not encoder and self.num_decoder_layers is not None:
            config.num_hidden_layers = self.num_decoder_layers
        return config

    def validate_architecture(self) -> None:
        """Raise an error for sizes out of range and for fields that contradict each other."""
        super().validate_architecture()
        if self.is_encoder_decoder != (self.attention_pattern == "encoder_decoder"):
            raise ValueError(
                f"is_encoder_decoder={self.is_encoder_decoder} contradicts attention_pattern="
                f"{self.attention_pattern!r}, from which it follows; leave it out"
            )
        if self.copy and self.attention_pattern != "encoder_decoder":
            raise ValueError(
                f"copy=True copies words of a source and needs attention_pattern='encoder_decoder', got "
                f"{self.attention_pattern!r}"
            )
        for name, default in (("num_decoder_layers", None), ("decoder_mixer", "attention"), ("zero_start", False)):
            if (value := getattr(self, name)) != default and self.attention_pattern != "encoder_decoder":
                raise ValueError(
                    f"{name}={value!r} is for the decoder of attention_pattern='encoder_decoder', got "
                    f"{self.attention_pattern!r}; leave it out"
                )
        if self.num_decoder_layers is not None:
            check_size("num_decoder_layers", self.num_decoder_layers, MAX_SIZES["num_hidden_layers"])
        ends = self.eos_token_id if isinstance(self.eos_token_id, list) else [self.eos_token_id]
        if self.zero_start and self.decoder_start_token_id in ends:
            raise ValueError(
                f"zero_start=True never predicts decoder_start_token_id={self.decoder_start_token_id}, which is also "
                "the end token; give the start a token of its own"
            )
        if self.zero_start and self.copy:
            raise ValueError("zero_start=True never predicts the start token, and copy=True may copy it; choose one")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"num_attention_heads must divide hidden_size, got {self.num_attention_heads} heads and a width of "
                f"{self.hidden_size}"
            )
        if self.position_embedding.startswith("sinusoidal") and self.hidden_size % 2:
            raise ValueError(
                f"position_embedding={self.position_embedding!r} has a sine and a cosine and needs an even "
                f"hidden_size, got {self.hidden_size}"
            )
        if self.position_embedding == "sinusoidal_halves" and self.hidden_size < 4:
            raise ValueError(
                f"position_embedding='sinusoidal_halves' has at least two rates and needs a hidden_size of at least "
                f"4, got {self.hidden_size}"
            )
