"""Configuration of the attentional RNN encoder-decoder."""

import math
from typing import Any, Literal

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig


@strict
class AttentionalRNNConfig(PreTrainedConfig):
    r"""Configuration of :class:`AttentionalRNNModel`; the defaults are RNNsearch (Bahdanau et al., 2014, appendix B).

    Attributes:
        wiring: whose decoder it is; fixes the order of state, attention and readout, and the start state. "bahdanau"
            (2014, appendix A.2.2) or "luong" (2015, section 3).
        score: the alignment score. "concat" is Luong's name for the additive function. "dot" needs
            ``decoder_hidden_size == 2 * encoder_hidden_size``.
        window: "global", or Luong's local attention: "monotonic" (local-m) or "predictive" (local-p).
        window_size: D, half the width of a local window, in tokens.
        max_source_positions: the source positions that the location score knows; later tokens get no weight from it.
        input_feeding: feed the attentional vector into the next step (Luong, section 3.3); "luong" only, for Bahdanau's
            decoder feeds the context by its nature.
        cell: "cho_gru" is the GRU as published (reset gate before U); "gru" is torch's and cuDNN's (reset gate
            after U), faster; "lstm" is torch's. Encoder and decoder use the same.
        vocab_size: one vocabulary for source and target; the embeddings are two, as in the papers.
        embedding_size: m, of source and target embeddings.
        encoder_hidden_size: n of each direction; the encoder's outputs are twice as wide.
        decoder_hidden_size: n of the decoder; ``hidden_size`` reads the same value.
        encoder_layers, decoder_layers: depth; ``num_hidden_layers`` reads the decoder's.
        attention_size: n', the width of the additive score.
        readout_size: width of what the output projection reads: l, the maxout pairs (Bahdanau), or the attentional
            vector (Luong).
        dropout: rate on the non-recurrent connections: embeddings, between layers, readout. The papers: 0
            (Bahdanau), 0.2 (Luong).
        initializer_range: scale of the initial weights; None is the paper's: 0.01, the standard deviation of a normal
            distribution (Bahdanau), or 0.1, the half-width of a uniform one (Luong). The papers' models are 1000
            wide; a narrow one leaves its start sooner with a larger scale.
        tie_word_embeddings: one matrix for both embeddings and the output projection; needs
            ``embedding_size == readout_size``.

    Raises:
        StrictDataclassError: a value of the wrong type or outside the choices, naming the field.
        ValueError: (wrapped in the above) a size or rate out of range, or two fields that do not go together.
    """

    model_type = "attentional_rnn"
    keys_to_ignore_at_inference = ["past_key_values", "encoder_last_hidden_state"]
    attribute_map = {"hidden_size": "decoder_hidden_size", "num_hidden_layers": "decoder_layers"}

    wiring: Literal["bahdanau", "luong"] = "bahdanau"
    score: Literal["additive", "dot", "general", "concat", "location"] = "additive"
    window: Literal["global", "monotonic", "predictive"] = "global"
    window_size: int = 10
    max_source_positions: int = 50
    input_feeding: bool = False
    cell: Literal["cho_gru", "gru", "lstm"] = "cho_gru"
    vocab_size: int = 30000
    embedding_size: int = 620
    encoder_hidden_size: int = 1000
    decoder_hidden_size: int = 1000
    encoder_layers: int = 1
    decoder_layers: int = 1
    attention_size: int = 1000
    readout_size: int = 500
    dropout: float | int = 0.0
    initializer_range: float | int | None = None
    tie_word_embeddings: bool = False
    is_encoder_decoder: bool = True
    use_cache: bool = True
    pad_token_id: int = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int = 1

    def __post_init__(self, **kwargs: Any) -> None:
        if self.initializer_range is None:
            self.initializer_range = 0.1 if self.wiring == "luong" else 0.01
        super().__post_init__(**kwargs)

    def validate_architecture(self) -> None:
        """Refuse sizes out of range and fields that do not go together."""
        super().validate_architecture()
        sizes = (
            "window_size",
            "max_source_positions",
            "vocab_size",
            "embedding_size",
            "encoder_hidden_size",
            "decoder_hidden_size",
            "encoder_layers",
            "decoder_layers",
            "attention_size",
            "readout_size",
        )
        for name in sizes:
            value = getattr(self, name)
            if not isinstance(value, int):  # a value set through an alias has not been checked
                raise ValueError(f"{name} must be a whole number, got {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if self.initializer_range is None or not 0 < self.initializer_range < math.inf:
            raise ValueError(f"initializer_range must be above 0 and finite, got {self.initializer_range}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout}")
        if not self.is_encoder_decoder:
            raise ValueError("is_encoder_decoder must be True: the attentional RNN has an encoder and a decoder")
        if self.input_feeding and self.wiring != "luong":
            raise ValueError(
                f"input_feeding=True belongs to wiring='luong', got wiring={self.wiring!r}; "
                "Bahdanau's decoder feeds the context into the cell by its nature"
            )
        if self.score == "dot" and self.decoder_hidden_size != 2 * self.encoder_hidden_size:
            raise ValueError(
                "score='dot' needs decoder_hidden_size == 2 * encoder_hidden_size (the encoder has two directions), "
                f"got {self.decoder_hidden_size} and {self.encoder_hidden_size}; "
                "score='general' maps one onto the other"
            )
        if self.tie_word_embeddings and self.embedding_size != self.readout_size:
            raise ValueError(
                "tie_word_embeddings=True needs embedding_size == readout_size, got "
                f"{self.embedding_size} and {self.readout_size}"
            )
