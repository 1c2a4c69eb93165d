"""Configuration of the structured self-attentive sentence encoder."""

import math
from typing import Any, Literal, Self

from huggingface_hub.dataclasses import strict

from .zoo_config import ZooConfig, check_size

PAPERS: dict[str, dict[str, Any]] = {
    "lin2017-age": {"num_labels": 5},  # the defaults
    "lin2017-yelp": {"num_labels": 5, "classifier_size": 3000},
    "lin2017-snli": {
        "num_labels": 3,
        "sentence_pair": True,
        "embedding_size": 300,
        "attention_hidden_size": 150,
        "classifier_size": 4000,
        "classifier_dropout": 0.0,
        "penalty_coefficient": 0.3,
    },
}


@strict
class SelfAttentiveConfig(ZooConfig):
    r"""Configuration of :class:`SelfAttentiveModel`; the defaults are the author-profiling model of Lin et al. (2017,
    section 4.1), except ``vocab_size`` and ``embedding_size``, which the paper does not give for it.

    Attributes:
        vocab_size: number of tokens that have an embedding.
        embedding_size: d, the width of the word embeddings.
        hidden_size: u, the width of each direction of the encoder: its outputs, the rows of H and of M, are 2u wide.
        num_hidden_layers: depth of the encoder; the paper: 1.
        cell: of the encoder: the paper's "lstm", or "gru" (torch's), "cho_gru" (as published), "rnn" (no gates).
        attention_hidden_size: :math:`d_a`, the rows of :math:`W_{s1}`.
        num_hops: r, the rows of the annotation matrix A; 1 is the paper's vector form (section 2.1, equation 5).
        classifier_size: hidden units of the classifier's MLP.
        dropout: rate in training on the embeddings and between the encoder's layers. The paper has none.
        classifier_dropout: rate in training before each of the two layers of the MLP.
        penalty_coefficient: weight of the redundancy penalty in the model's loss; 0 leaves it out of it, and to a
            ``compute_loss_func`` of the Trainer.
        penalty_reduction: the penalties of a batch count with their "mean" or their "sum"; the paper does not say. A
            mean goes with the mean of the task's loss: the coefficient then means the same for every batch size.
        sentence_pair: the model reads two sentences, told apart by ``token_type_ids``, and relates their matrices by
            the gated encoder (section 4.3, appendix B).
        gate_size: columns of :math:`F_r`, for every hop; None is 2u, as in the authors' released code.
        initializer_range: standard deviation of the initial weights of embeddings and recurrent cells; 0.1 in the
            authors' released code.

    Raises:
        StrictDataclassError: a value of the wrong type or outside the choices, naming the field.
        ValueError: (wrapped in the above) a size, rate or coefficient out of range, or a ``gate_size`` without pairs.
    """

    model_type = "self_attentive"
    keys_to_ignore_at_inference = ["penalty"]

    vocab_size: int = 30_000
    embedding_size: int = 100
    hidden_size: int = 300
    num_hidden_layers: int = 1
    cell: Literal["lstm", "gru", "cho_gru", "rnn"] = "lstm"
    attention_hidden_size: int = 350
    num_hops: int = 30
    classifier_size: int = 2000
    dropout: float | int = 0.0
    classifier_dropout: float | int = 0.5
    penalty_coefficient: float | int = 1.0
    penalty_reduction: Literal["mean", "sum"] = "mean"
    sentence_pair: bool = False
    gate_size: int | None = None
    initializer_range: float | int = 0.1
    pad_token_id: int | None = 0
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None

    @classmethod
    def from_paper(cls, paper: str, **overrides: Any) -> Self:
        """The model of Lin et al. (2017) for one of its data sets, any field of it overridden.

        | paper | model | section |
        |---|---|---|
        | lin2017-age | author profiling, five age groups | 4.1 |
        | lin2017-yelp | the stars of reviews | 4.2 |
        | lin2017-snli | textual entailment, sentence pairs | 4.3, appendix B |

        Raises:
            ValueError: no such paper, or an override that is no field.
        """
        return cls._of_paper(PAPERS, paper, overrides)

    @property
    def encoder_output_size(self) -> int:
        """2u, the width of the encoder's outputs, of both directions side by side."""
        return 2 * self.hidden_size

    @property
    def pooler_size(self) -> int:
        """The width of the sentence's (or the pair's) one vector: the rows of M, or of F_r, one after the other."""
        width = self.gate_size if self.sentence_pair else self.encoder_output_size
        return self.num_hops * width  # type: ignore[operator]  # the config fills gate_size in

    def __post_init__(self, **kwargs: Any) -> None:
        if self.sentence_pair and self.gate_size is None and isinstance(self.hidden_size, int):
            self.gate_size = 2 * self.hidden_size
        super().__post_init__(**kwargs)

    def validate_architecture(self) -> None:
        """Refuse sizes out of range and fields that do not go together."""
        super().validate_architecture()
        if self.sentence_pair:
            check_size("gate_size", self.gate_size, 2**16)
        elif self.gate_size is not None:
            raise ValueError(f"gate_size={self.gate_size} needs sentence_pair=True: one sentence has no gate")
        if not 0 <= self.penalty_coefficient < math.inf:
            raise ValueError(f"penalty_coefficient must be at least 0 and finite, got {self.penalty_coefficient}")
