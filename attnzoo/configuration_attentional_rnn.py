"""Configuration of the attentional RNN encoder-decoder."""

from typing import Any, Literal, NamedTuple, Self

from huggingface_hub.dataclasses import strict, validated_field

from .attention import SCORES
from .zoo_config import ZooConfig


class WiringDefaults(NamedTuple):
    """The fields that the paper of a wiring fixes in addition to its equations.

    Attributes:
        score: the default score; "none" for a wiring without attention, which accepts no other
        initializer_range: the scale of the initial weights
        is_uniform: whether these are uniform; otherwise normal, with orthogonal recurrent matrices and biases of 0
        has_maxout: whether the readout takes the maximum of pairs
    """

    score: str
    initializer_range: float
    is_uniform: bool
    has_maxout: bool


# For every wiring: the keys of ``WIRINGS`` in ``recurrent_decoder.py``.
WIRING_DEFAULTS = {
    "cho": WiringDefaults("none", 0.01, is_uniform=False, has_maxout=True),
    "sutskever": WiringDefaults("none", 0.08, is_uniform=True, has_maxout=False),
    "bahdanau": WiringDefaults("additive", 0.01, is_uniform=False, has_maxout=True),
    "luong": WiringDefaults("general", 0.1, is_uniform=True, has_maxout=False),
}

_DEEP_LSTM: dict[str, Any] = {
    "cell": "lstm",
    "bidirectional": False,
    "reverse_source": True,
    "embedding_size": 1000,
    "encoder_layers": 4,
    "decoder_layers": 4,
}
_LUONG = _DEEP_LSTM | {"wiring": "luong", "input_feeding": True, "vocab_size": 50_000, "dropout": 0.2}
_SEE: dict[str, Any] = {
    "wiring": "luong",
    "score": "concat",
    "input_feeding": True,
    "copy": True,
    "cell": "lstm",
    "vocab_size": 50_000,
    "embedding_size": 128,
    "encoder_hidden_size": 256,
    "decoder_hidden_size": 256,
    "attention_size": 512,
    "initializer_range": 0.02,
}
PAPERS: dict[str, dict[str, Any]] = {
    "cho2014": {"wiring": "cho", "bidirectional": False, "vocab_size": 15_000, "embedding_size": 100},
    "sutskever2014": _DEEP_LSTM | {"wiring": "sutskever", "vocab_size": 160_000},
    "bahdanau2014": {},  # the defaults
    "luong2015-global-dot": _LUONG | {"score": "dot"},
    "luong2015-global-general": _LUONG | {"score": "general"},
    "luong2015-global-concat": _LUONG | {"score": "concat"},
    "luong2015-global-location": _LUONG | {"score": "location"},
    "luong2015-local-m": _LUONG | {"score": "general", "window": "monotonic"},
    "luong2015-local-p": _LUONG | {"score": "general", "window": "predictive"},
    "see2017-pointer-generator": _SEE,
    "see2017-coverage": _SEE | {"coverage": True},
}


def check_score(score: Any) -> None:
    """Check a score's name against the scores that are registered in ``attention.py``."""
    if score is not None and score not in ("none", *SCORES):
        raise ValueError(
            f"score must be 'none' or one of {', '.join(map(repr, SCORES))}, got {score!r}; register a score of your "
            f"own first, in every process: attnzoo.attention.SCORES[{score!r}] = ..."
        )


@strict
class AttentionalRNNConfig(ZooConfig):
    r"""Configuration of :class:`AttentionalRNNModel`; the defaults are RNNsearch (Bahdanau et al., 2014, appendix B).

    Attributes:
        wiring: the paper of the decoder. It fixes the order of state, attention and readout, and the start state. Two
            decoders have no attention: "cho" (2014, appendix A.1) reads one vector of the source at every step;
            "sutskever" (2014) reads the source from the start state only. Two have attention: "bahdanau" (2014,
            appendix A.2.2) and "luong" (2015, section 3).
        score: the alignment score, a name in ``attnzoo.attention.SCORES``: "additive", "dot", "general", "concat" or
            "location"; or "none". The default, None, is "additive" for Bahdanau, "general" for Luong, and "none" for
            the wirings without attention, which accept no other score. "concat" is Luong's name for the additive
            function. "dot" requires a decoder as wide as the encoder's outputs.
        window: "global", or Luong's local attention: "monotonic" (local-m) or "predictive" (local-p).
        window_size: D, half the width of a local window, in tokens.
        max_source_positions: the number of source positions for which the location score has a row. It gives no
            attention to later positions.
        input_feeding: feed the attentional vector into the next step (Luong, section 3.3). Only for "luong": Bahdanau's
            decoder always reads the context, and the other two have no attention.
        copy: mix the words of the vocabulary with those of the source (See et al., 2017, section 2.2; see
            ``copying.py``). Needs attention with weights that sum to 1, so the window must not be "predictive".
        coverage: let the score also read how much attention a source token has had so far (See et al., 2017, section
            2.3; Tu et al., 2016), and add a loss for attention that returns. Only for the additive function.
        coverage_loss_coefficient: lambda, the weight of that loss.
        cell: "cho_gru" is the GRU as published (reset gate before U); "gru" is torch's and cuDNN's (reset gate
            after U), faster; "lstm" is torch's; "rnn" has no gates, only tanh. Encoder and decoder use the same.
        bidirectional: whether the encoder reads in both directions. Its outputs are then twice as wide.
        reverse_source: whether an encoder of one direction starts at the end of the source (Sutskever, section 3.3).
            The positions in outputs, alignments and windows are still those of the given tokens.
        vocab_size: the size of the one vocabulary of source and target. Each has its own embeddings, as in the papers.
        embedding_size: m, of source and target embeddings.
        encoder_hidden_size: n, the width of each direction of the encoder.
        decoder_hidden_size: n of the decoder. ``hidden_size`` is another name of it.
        encoder_layers: number of layers of the encoder.
        decoder_layers: number of layers of the decoder. ``num_hidden_layers`` is another name of it.
        attention_size: n', the width of the additive score.
        readout_size: width of the readout, the input of the output projection. This is l, the number of maxout pairs
            (Cho, Bahdanau), or the width of the attentional vector (Luong) or of the decoder's state (Sutskever). The
            default, None, is half the decoder's width for the pairs and the decoder's width for the others, as in the
            papers.
        dropout: dropout rate. Every wiring drops out the embeddings and the inputs of the upper layers. Luong's also
            drops out the attentional vector that is fed to the next step, as in the released code; the others drop out
            the readout. The papers use 0, Luong 0.2.
        teacher_forcing_ratio: in training, the probability that the decoder reads the label of the previous step
            instead of the model's best word for that step (Bengio et al., 2015, section 2.4). 1 is teacher forcing, as
            in the papers. Below 1 training is slower, since the decoder runs step by step. It has no effect in
            evaluation mode, without gradients, or with ``past_key_values``.
        initializer_range: scale of the initial weights. The default, None, is the paper's: the standard deviation 0.01
            of a normal distribution (Cho, Bahdanau), or the half-width 0.08 (Sutskever) or 0.1 (Luong) of a uniform
            one. The papers' models are 1000 wide. A narrow model starts to learn sooner with a larger scale.
        forget_gate_bias: initial value of the LSTMs' forget-gate biases (Jozefowicz et al., 2015, propose 1). None is
            the paper's initialisation. Only for "lstm".
        confidence_temperature: temperature of the confidence that ``attnzoo.pronunciation`` gives with a word. It is
            fitted on held-out words after training and changes nothing that is generated.
        confidence_bias: is added to the log-odds of that confidence; fitted together with the temperature.
        tie_word_embeddings: use one matrix for both embeddings and the output projection; requires
            ``embedding_size == readout_size``.

    Raises:
        StrictDataclassError: a value of the wrong type or outside the choices, naming the field.
        ValueError: (wrapped in the above) a size or rate out of range, or two fields that contradict each other.
    """

    model_type = "attentional_rnn"
    keys_to_ignore_at_inference = ["past_key_values", "cache", "encoder_last_hidden_state", "copy_probabilities"]
    attribute_map = {"hidden_size": "decoder_hidden_size", "num_hidden_layers": "decoder_layers"}

    wiring: Literal["cho", "sutskever", "bahdanau", "luong"] = "bahdanau"
    score: Any = validated_field(check_score, default=None)
    window: Literal["global", "monotonic", "predictive"] = "global"
    window_size: int = 10
    max_source_positions: int = 50
    input_feeding: bool = False
    copy: bool = False
    coverage: bool = False
    coverage_loss_coefficient: float | int = 1.0
    cell: Literal["cho_gru", "gru", "lstm", "rnn"] = "cho_gru"
    bidirectional: bool = True
    reverse_source: bool = False
    vocab_size: int = 30_000
    embedding_size: int = 620
    encoder_hidden_size: int = 1000
    decoder_hidden_size: int = 1000
    encoder_layers: int = 1
    decoder_layers: int = 1
    attention_size: int = 1000
    readout_size: int | None = None
    dropout: float | int = 0.0
    teacher_forcing_ratio: float | int = 1.0
    initializer_range: float | int | None = None
    forget_gate_bias: float | int | None = None
    confidence_temperature: float | int = 1.0
    confidence_bias: float | int = 0.0
    tie_word_embeddings: bool = False
    is_encoder_decoder: bool = True
    use_cache: bool = True
    pad_token_id: int = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int = 1

    @classmethod
    def from_paper(cls, paper: str, **overrides: Any) -> Self:
        """The model of a paper with the paper's sizes; ``overrides`` replace any of its fields.

        - ``cho2014``: the RNN Encoder-Decoder (arXiv:1406.1078)
        - ``sutskever2014``: the deep LSTM on reversed sources (arXiv:1409.3215)
        - ``bahdanau2014``: RNNsearch (arXiv:1409.0473)
        - ``luong2015-global-dot``, ``-general``, ``-concat``, ``-location``: global attention (arXiv:1508.04025)
        - ``luong2015-local-m``, ``luong2015-local-p``: local attention, general score, D = 10 (the same)
        - ``see2017-pointer-generator``: summaries that copy words (arXiv:1704.04368)
        - ``see2017-coverage``: the same with coverage

        See et al. do not name their decoder. It has Luong's order, but it feeds the context :math:`h^*_{t-1}` into the
        next step instead of the readout, and has no tanh on the readout. Their score, readout and output projection
        have biases. In their released code source and target share their embeddings, and the start state has a ReLU.

        Source and target share one vocabulary here. Its size is that of the larger one in the paper.

        Raises:
            ValueError: no such paper, an override that is not a field, or one that is given under two names.
        """
        return cls._of_paper(PAPERS, paper, overrides)

    @property
    def encoder_output_size(self) -> int:
        """V, the width of the encoder's outputs, with all directions side by side."""
        return (2 if self.bidirectional else 1) * self.encoder_hidden_size

    def __post_init__(self, **kwargs: Any) -> None:
        defaults = WIRING_DEFAULTS[self.wiring]
        if self.score is None:
            self.score = defaults.score
        if self.initializer_range is None:
            self.initializer_range = defaults.initializer_range
        super().__post_init__(**kwargs)  # sets fields given by their other names, such as hidden_size
        if self.readout_size is None and isinstance(self.decoder_hidden_size, int):
            pairs = max(1, self.decoder_hidden_size // 2)
            self.readout_size = pairs if defaults.has_maxout else self.decoder_hidden_size

    def validate_architecture(self) -> None:
        """Raise an error for sizes out of range and for fields that contradict each other."""
        super().validate_architecture()
        if not self.is_encoder_decoder:
            raise ValueError("is_encoder_decoder must be True: the attentional RNN has an encoder and a decoder")
        self._validate_attention()
        if self.reverse_source and self.bidirectional:
            raise ValueError(
                "reverse_source=True needs bidirectional=False: a bidirectional encoder reads from both ends"
            )
        if self.forget_gate_bias is not None and self.cell != "lstm":
            raise ValueError(
                f"forget_gate_bias={self.forget_gate_bias} needs cell='lstm', got cell={self.cell!r}; "
                "no other cell has a forget gate"
            )
        if self.wiring == "sutskever" and self.readout_size != self.decoder_hidden_size:
            raise ValueError(
                "wiring='sutskever' predicts from the decoder's state and needs readout_size == "
                f"decoder_hidden_size, got {self.readout_size} and {self.decoder_hidden_size}; leave readout_size out"
            )
        if self.tie_word_embeddings and self.embedding_size != self.readout_size:
            raise ValueError(
                "tie_word_embeddings=True needs embedding_size == readout_size, got "
                f"{self.embedding_size} and {self.readout_size}"
            )

    def _validate_attention(self) -> None:
        if self.input_feeding and self.wiring != "luong":
            raise ValueError(
                f"input_feeding=True belongs to wiring='luong', got wiring={self.wiring!r}; "
                "the other decoders always feed the context into the cell, or have no attention"
            )
        if WIRING_DEFAULTS[self.wiring].score == "none":
            if self.score != "none":
                raise ValueError(
                    f"wiring={self.wiring!r} has no attention and takes score='none' only, got score={self.score!r}; "
                    "wiring='bahdanau' and wiring='luong' have it"
                )
            if self.window != "global":
                raise ValueError(
                    f"window={self.window!r} needs attention and wiring={self.wiring!r} has none; "
                    "choose window='global', or wiring='bahdanau' or 'luong'"
                )
        elif self.score == "none":
            raise ValueError(
                f"score='none' belongs to wiring='cho' and wiring='sutskever', got wiring={self.wiring!r}; "
                f"choose one of {', '.join(map(repr, SCORES))}"
            )
        self._validate_copying()
        if self.score == "dot" and self.decoder_hidden_size != self.encoder_output_size:
            raise ValueError(
                "score='dot' needs a decoder as wide as the encoder's outputs, got "
                f"decoder_hidden_size={self.decoder_hidden_size}, and encoder_hidden_size={self.encoder_hidden_size} "
                f"with bidirectional={self.bidirectional} makes {self.encoder_output_size}; "
                "score='general' maps one onto the other"
            )

    def _validate_copying(self) -> None:
        if self.copy and self.score == "none":
            raise ValueError(
                f"copy=True chooses source words by attention and wiring={self.wiring!r} has none; choose "
                "wiring='bahdanau' or wiring='luong'"
            )
        if self.copy and self.window == "predictive":
            raise ValueError(
                "copy=True needs attention weights that sum to 1, and those of window='predictive' sum to less; choose "
                "window='global' or window='monotonic'"
            )
        if self.coverage and self.score not in ("additive", "concat"):
            raise ValueError(
                f"coverage=True is a part of the additive score, got score={self.score!r}; choose score='additive' or "
                "score='concat'"
            )
