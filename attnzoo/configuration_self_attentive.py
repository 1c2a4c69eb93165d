"""Configuration of the structured self-attentive sentence encoder."""

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
    r"""Configuration of :class:`SelfAttentiveModel`. The defaults are the author-profiling model of Lin et al. (2017,
    section 4.1). Only ``vocab_size`` and ``embedding_size`` are not from the paper, which does not give them.

    Attributes:
        vocab_size: number of tokens that have an embedding.
        embedding_size: d, the width of the word embeddings.
        hidden_size: u, the width of each direction of the encoder. Its outputs, which are the rows of H and M, are 2u
            wide.
        num_hidden_layers: number of layers of the encoder; the paper has 1.
        cell: the encoder's cell: "lstm" as in the paper, "gru" (torch's), "cho_gru" (as published) or "rnn" (no gates).
        attention_hidden_size: :math:`d_a`, the rows of :math:`W_{s1}`.
        num_hops: r, the number of rows of the annotation matrix A. 1 is the paper's vector form (section 2.1,
            equation 5).
        classifier_size: hidden units of the classifier's MLP.
        dropout: dropout rate of the embeddings and between the encoder's layers. The paper has none.
        classifier_dropout: dropout rate before each of the two layers of the MLP.
        penalty_coefficient: weight of the redundancy penalty in the model's loss. With 0 the loss has no penalty; a
            ``compute_loss_func`` of the Trainer may then add the penalty itself.
        penalty_reduction: whether the loss has the "mean" or the "sum" of a batch's penalties; the paper does not say.
            The task's loss is a mean, too. So with "mean" the coefficient has the same effect for every batch size.
        sentence_pair: whether the model reads two sentences, which ``token_type_ids`` tell apart. The gated encoder
            relates their matrices (section 4.3, appendix B).
        gate_size: number of columns of :math:`F_r` for every hop. The default, None, is 2u, as in the authors' released
            code.
        compare_hops: whether the classifier of a pair also reads, hop by hop, the product and the absolute difference
            of the two matrices, as Tai et al. (2015, section 4.2) compare two sentences. The paper has the gated
            encoder alone.
        initializer_range: standard deviation of the initial weights of embeddings and recurrent cells. The authors'
            released code has 0.1.

    Raises:
        StrictDataclassError: a value of the wrong type or outside the choices, naming the field.
        ValueError: (wrapped in the above) a size, rate or coefficient out of range, or a ``gate_size`` or
            ``compare_hops`` without ``sentence_pair``.
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
    compare_hops: bool = False
    initializer_range: float | int = 0.1
    pad_token_id: int | None = 0
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None

    @classmethod
    def from_paper(cls, paper: str, **overrides: Any) -> Self:
        """The model of Lin et al. (2017) for one of its data sets; ``overrides`` replace any of its fields.

        - ``lin2017-age``: author profiling, five age groups, 4.1
        - ``lin2017-yelp``: the stars of reviews, 4.2
        - ``lin2017-snli``: textual entailment, sentence pairs, 4.3, appendix B

        Raises:
            ValueError: no such paper, an override that is not a field, or one that is given under two names.
        """
        return cls._of_paper(PAPERS, paper, overrides)

    @property
    def encoder_output_size(self) -> int:
        """2u, the width of the encoder's outputs, with both directions side by side."""
        return 2 * self.hidden_size

    @property
    def pooler_size(self) -> int:
        """The width of ``pooler_output``: the flattened M of a sentence, or the flattened relation of a pair."""
        width: Any = self.gate_size if self.sentence_pair else self.encoder_output_size
        compared = 2 * self.encoder_output_size if self.compare_hops else 0
        return self.num_hops * (width + compared)

    def __post_init__(self, **kwargs: Any) -> None:
        if self.sentence_pair and self.gate_size is None and isinstance(self.hidden_size, int):
            self.gate_size = 2 * self.hidden_size
        super().__post_init__(**kwargs)

    def validate_architecture(self) -> None:
        """Raise an error for sizes out of range and for fields that contradict each other."""
        super().validate_architecture()
        if self.sentence_pair:
            check_size("gate_size", self.gate_size, 2**16)
        elif self.gate_size is not None:
            raise ValueError(f"gate_size={self.gate_size} needs sentence_pair=True: one sentence has no gate")
        elif self.compare_hops:
            raise ValueError("compare_hops=True needs sentence_pair=True: there is no second sentence to compare with")
