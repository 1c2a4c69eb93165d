"""Configuration of a classifier that pools the outputs of any encoder."""

from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import AutoConfig

from .zoo_config import ZooConfig

WIDTHS = ("encoder_output_size", "hidden_size")  # the encoder's outputs


@strict
class PooledEncoderConfig(ZooConfig):
    r"""Configuration of :class:`PooledEncoderForSequenceClassification`.

    Attributes:
        encoder: the configuration of the encoder, as an object or as the dictionary of its ``config.json``.
        pooling: "self_attentive" is Lin's (2017); "mean" and "max" are over the real tokens; "cls" is the first token.
        num_hops: r, the number of rows of the annotation matrix A.
        attention_hidden_size: :math:`d_a`, the rows of :math:`W_{s1}`.
        classifier_size: hidden units of the classifier's MLP.
        classifier_dropout: dropout rate before each of the two layers of the MLP.
        penalty_coefficient: weight of the redundancy penalty in the model's loss.
        penalty_reduction: whether the loss has the "mean" or the "sum" of a batch's penalties.

    Raises:
        StrictDataclassError: a value of the wrong type or out of range.
        ValueError: (wrapped in the above) an encoder without outputs of a known width, or with a decoder.
    """

    model_type = "pooled_encoder"
    sub_configs = {"encoder": AutoConfig}
    of_another_type = (
        "load an encoder with AutoModel.from_pretrained and add the pooling: "
        "attnzoo.with_self_attentive_pooling(encoder)"
    )
    keys_to_ignore_at_inference = ["penalty"]

    encoder: Any = None  # a PreTrainedConfig, or the dictionary of one
    pooling: Literal["self_attentive", "mean", "max", "cls"] = "self_attentive"
    num_hops: int = 8
    attention_hidden_size: int = 64
    classifier_size: int = 128
    classifier_dropout: float | int = 0.1
    penalty_coefficient: float | int = 0.1
    penalty_reduction: Literal["mean", "sum"] = "mean"
    pad_token_id: int | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        if isinstance(self.encoder, dict):
            if not self.encoder.get("model_type"):
                raise ValueError("encoder needs its model_type: pass encoder.config, or the whole config.json")
            self.encoder = AutoConfig.for_model(**self.encoder)
        if self.encoder is not None and self.pad_token_id is None:
            self.pad_token_id = getattr(self.encoder, "pad_token_id", None)
        super().__post_init__(**kwargs)

    @property
    def vocab_size(self) -> int:
        """The number of tokens of the encoder."""
        return int(getattr(self.encoder, "vocab_size", 0))

    @vocab_size.setter
    def vocab_size(self, size: int) -> None:  # by resize_token_embeddings
        self.encoder.vocab_size = size

    @property
    def hidden_size(self) -> int:
        """The width of the encoder's outputs."""
        return next(int(size) for name in WIDTHS if (size := getattr(self.encoder, name, None)) is not None)

    @property
    def pooler_size(self) -> int:
        """The width of what the classifier reads: M flattened, or one vector."""
        return self.hidden_size * (self.num_hops if self.pooling == "self_attentive" else 1)

    def validate_token_ids(self) -> None:
        """The encoder's own configuration checks its tokens."""

    def validate_architecture(self) -> None:
        """Raise an error for an encoder that cannot be pooled and for numbers out of range."""
        if self.encoder is None:  # Transformers makes a config without arguments to compare with
            return
        if getattr(self.encoder, "is_encoder_decoder", False):
            raise ValueError(
                f"encoder is a {type(self.encoder).__name__} with a decoder; pass an encoder alone, such as "
                "T5EncoderModel or BertModel"
            )
        if all(getattr(self.encoder, name, None) is None for name in WIDTHS):
            raise ValueError(
                f"encoder is a {type(self.encoder).__name__} without hidden_size, the width of its outputs"
            )
        super().validate_architecture()
