r"""The structured self-attentive sentence encoder (Lin et al., 2017) and its classifier, as Hugging Face models.

The attention and its penalty are in ``attention.py``, the biLSTM is in ``recurrent_encoder.py``. This file makes models
of them, for one sentence or for a pair.

Dimensions: B batch, S tokens, V = 2u width of the encoder's outputs, R hops, G gate size, K labels.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.modeling_outputs import ModelOutput
from transformers.utils import can_return_tuple

from .attention import StructuredSelfAttention, redundancy_penalty
from .configuration_self_attentive import SelfAttentiveConfig
from .fast_products import linear
from .loss import loss_of_texts, refuse_withheld_labels
from .model_inputs import checked, embed, require_shape, source_mask
from .recurrent_encoder import RecurrentEncoder
from .zoo_model import SafetensorsModel, SelfAttentiveClassifierOutput


@dataclass
class SelfAttentiveModelOutput(ModelOutput):
    """What the encoder returns.

    Shape:
        - last_hidden_state: (B, S, V), H, 0 on padding
        - pooler_output: (B, R * V), M flattened row by row; for a pair (B, R * G), F_r flattened, or with
          ``compare_hops`` (B, R * (G + 2V)), for every hop its row of F_r, the product and the difference
        - sentence_matrix: (B, R, V), M; for a pair (B, 2, R, V), the M of each sentence
        - penalty: (B,); for a pair the sum of the penalties of its sentences; None if it was not asked for
        - hidden_states: on request, the embeddings and then the outputs of every layer
        - attentions: on request, a 1-tuple of (B, 1, R, S), A; for a pair every token has its weight from the A of its
          own sentence
    """

    last_hidden_state: Tensor = None  # type: ignore[assignment]
    pooler_output: Tensor = None  # type: ignore[assignment]
    sentence_matrix: Tensor = None  # type: ignore[assignment]
    penalty: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


class GatedEncoder(nn.Module):
    r"""The relation of two sentences (Lin et al., 2017, section 4.3 and appendix B, after Memisevic, 2013).

    .. math:: F_h = \mathrm{batched\_dot}(M_h, W_{fh}), \quad F_p = \mathrm{batched\_dot}(M_p, W_{fp}), \quad
              F_r = F_h \odot F_p

    Every hop, a row of :math:`M`, has its own weight matrix. Symbols: :math:`M_p, M_h` are ``first`` and ``second``,
    :math:`W_{fp}, W_{fh}` are ``first_weight`` and ``second_weight``.

    **Differs from the paper**: with ``compare_hops`` every row of :math:`F_r` is followed by the product and the
    absolute difference of the two rows of M, as Tai et al. (2015), "Improved Semantic Representations From
    Tree-Structured Long Short-Term Memory Networks", arXiv:1503.00075, section 4.2, compare two sentences.

    Shape:
        - first, second: (B, R, V)
        - returns: (B, R, G), with ``compare_hops`` (B, R, G + 2V)
    """

    def __init__(self, num_hops: int, state_size: int, gate_size: int, compare_hops: bool = False) -> None:
        super().__init__()
        self.compare_hops = compare_hops
        self.first_weight = nn.Parameter(torch.empty(num_hops, state_size, gate_size))
        self.second_weight = nn.Parameter(torch.empty(num_hops, state_size, gate_size))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        products = "brv, rvg -> brg"
        gated = torch.einsum(products, first, self.first_weight) * torch.einsum(products, second, self.second_weight)
        return torch.cat([gated, first * second, (first - second).abs()], dim=-1) if self.compare_hops else gated


class SelfAttentivePreTrainedModel(SafetensorsModel):
    """Initialisation and loading, which both models of the family share."""

    config: SelfAttentiveConfig

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        r"""Initialise as the authors' released code does; the paper does not describe it.

        Recurrent cells from N(0, r^2), r being the config's ``initializer_range``; every other matrix from Glorot's
        uniform distribution; biases 0. Embeddings, which are pre-trained there, from N(0, r^2).
        """
        scale = self.config.initializer_range
        for name, parameter in module.named_parameters(recurse=False):
            if name.startswith("bias"):
                init.zeros_(parameter)
            elif isinstance(module, nn.Embedding) or hasattr(module, "sums"):  # which every cell has
                init.normal_(parameter, std=scale)
            elif parameter.ndim == 3:  # the gates': a matrix for every hop
                bound = (6 / sum(parameter.shape[1:])) ** 0.5
                init.uniform_(parameter, -bound, bound)
            else:
                init.xavier_uniform_(parameter)


class SelfAttentiveModel(SelfAttentivePreTrainedModel):
    r"""The structured self-attentive sentence embedding (Lin et al., 2017, section 2).

    A bidirectional LSTM computes H from the sentence's words. r hops of attention compute a matrix M from H; see
    :class:`StructuredSelfAttention`. The size of M does not depend on the length of the sentence. With
    ``sentence_pair`` the same weights read the two sentences separately, and the gated encoder relates their matrices.

    Shape:
        - input_ids, attention_mask: (B, S); padding may be anywhere
        - token_type_ids: (B, S), for a pair, 0 in the first sentence (the premise) and 1 in the second. A special token
          belongs to the sentence of its number. No effect for a single sentence
        - returns: :class:`SelfAttentiveModelOutput`

    ``with_penalty`` says whether to compute the penalty, which the classifier needs in training alone.

    Raises:
        ValueError: no token, or a mask of another shape than the tokens; for a pair also missing ``token_type_ids``,
            values other than 0 and 1, or a row in which one sentence has no token. On a GPU wrong values are no error,
            and the outputs of their row are NaN.
    """

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.embedding_size)
        self.dropout = nn.Dropout(config.dropout)
        self.rnn = RecurrentEncoder(
            config.cell, config.embedding_size, config.hidden_size, config.num_hidden_layers, config.dropout
        )
        width = config.encoder_output_size
        self.attention = StructuredSelfAttention(width, config.attention_hidden_size, config.num_hops)
        gate_size: Any = config.gate_size  # None for a single sentence
        is_pair = config.sentence_pair
        self.gate = GatedEncoder(config.num_hops, width, gate_size, config.compare_hops) if is_pair else None
        self.post_init()

    @can_return_tuple
    @checked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        with_penalty: bool = True,
        **kwargs: Any,
    ) -> SelfAttentiveModelOutput:
        embeddings = embed(self.embed_tokens, input_ids, inputs_embeds, "input_ids", "inputs_embeds")
        mask = None if attention_mask is None else source_mask(attention_mask, embeddings)
        if mask is None and input_ids is not None:
            self.warn_if_padding_and_no_attention_mask(input_ids, None)
        embeddings = self.dropout(embeddings)
        sentences = embeddings
        if self.gate is not None:
            mask = source_mask(None, embeddings) if mask is None else mask
            sentences, mask, places = split_pairs(embeddings, mask, token_type_ids)
        # An exported graph must not branch on the mask's values, and the host would wait for those of a GPU.
        elif mask is not None and mask.device.type == "cpu" and not torch.compiler.is_exporting() and bool(mask.all()):
            mask = None
        outputs, _ = self.rnn(sentences, mask, with_state=False)
        sentence_matrix, annotation_matrix = self.attention(outputs[-1], mask)
        penalty = redundancy_penalty(annotation_matrix) if with_penalty else None
        pooled = sentence_matrix
        if self.gate is not None:
            first, second = sentence_matrix.chunk(2)
            sentence_matrix = torch.stack([first, second], dim=1)
            penalty = None if penalty is None else penalty.view(2, -1).sum(dim=0)
            pooled = self.gate(first, second)
            length = embeddings.shape[1]
            outputs = [join_pairs(output, places, length) for output in outputs]
            annotation_matrix = join_pairs(annotation_matrix.mT, places, length).mT
        return SelfAttentiveModelOutput(
            last_hidden_state=outputs[-1],
            pooler_output=pooled.flatten(1),
            sentence_matrix=sentence_matrix,
            penalty=penalty,
            hidden_states=(embeddings, *outputs) if output_hidden_states else None,
            attentions=(annotation_matrix.unsqueeze(1),) if output_attentions else None,
        )


class SelfAttentiveForSequenceClassification(SelfAttentivePreTrainedModel):
    r"""Classification of sentences, or of pairs of them, by a two-layer ReLU MLP (Lin et al., 2017, section 4).

    .. math:: y = W_2 \; \mathrm{relu}(W_1 \, \mathrm{flat}(M) + b_1) + b_2, \qquad
              \mathcal L = \mathcal L_{\mathrm{task}} + c P

    Symbols: :math:`W_1, b_1` are ``hidden_proj``, :math:`W_2, b_2` are ``classifier``, c is the config's
    ``penalty_coefficient``, P is the :func:`redundancy_penalty`. For a pair the MLP reads what
    :class:`GatedEncoder` returns, and P is the sum of the penalties of its sentences, as in the authors' released code.

    The task's loss is that of every Hugging Face classifier: single label, multi-label or regression. The config's
    ``problem_type`` selects it; if that is not set, ``num_labels`` and the type of the labels do.

    A Trainer with ``label_smoothing_factor`` or ``compute_loss_func`` withholds the labels from the model. The penalty
    would be lost, so this raises an error in training. For another loss set ``penalty_coefficient`` to 0 and add the
    output's ``penalty`` in a ``compute_loss_func``, which may also smooth the labels::

        def compute_loss(outputs, labels, num_items_in_batch):
            task = cross_entropy(outputs.logits, labels, reduction="sum", label_smoothing=0.1)
            return (task + outputs.penalty.sum()) / num_items_in_batch

    Shape:
        - labels: for a single label (B,), whole numbers, -100 for a row without one. Otherwise (B, K), or (B,) if K is
          1: for several labels at once -100 is an unknown label; for regression -100 is an error
        - num_items_in_batch: the number of labels that loss and penalty are divided by. ``Trainer`` passes it for
          accumulated gradients and for several processes. The default is the number of labels in the batch
        - smoothing: label smoothing, the probability that the loss spreads evenly over all labels; single labels only
        - returns: :class:`SelfAttentiveClassifierOutput`

    Raises:
        ValueError: as :class:`SelfAttentiveModel`; labels out of range or of the wrong type or shape; smoothing of
            labels that are not single; in training, a Trainer that withholds the labels (see above).
    """

    def __init__(self, config: SelfAttentiveConfig) -> None:
        super().__init__(config)
        self.model = SelfAttentiveModel(config)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.hidden_proj = nn.Linear(config.pooler_size, config.classifier_size)
        self.classifier = nn.Linear(config.classifier_size, config.num_labels)  # type: ignore[arg-type]
        self.post_init()

    @can_return_tuple
    @checked
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        smoothing: float = 0.0,  # Trainer takes every argument with "label" in its name for a column of the data
        **kwargs: Any,
    ) -> SelfAttentiveClassifierOutput:
        config = self.config
        coefficient = config.penalty_coefficient
        refuse_withheld_labels(labels, num_items_in_batch, self.training, "penalty_coefficient", coefficient)
        is_trained = torch.is_grad_enabled() or labels is not None or num_items_in_batch is not None
        encoded = self.model(
            input_ids,
            attention_mask,
            token_type_ids,
            inputs_embeds,
            output_attentions,
            output_hidden_states,
            with_penalty=is_trained or bool(output_attentions),
            return_dict=True,
            **kwargs,
        )
        hidden = linear(self.hidden_proj, self.dropout(encoded.pooler_output)).relu()
        logits = self.classifier(self.dropout(hidden))
        loss = loss_of_texts(config, logits, labels, num_items_in_batch, smoothing, encoded.penalty)
        recorded = encoded.hidden_states, encoded.attentions
        return SelfAttentiveClassifierOutput(loss, logits, *recorded, encoded.penalty)


def split_pairs(embeddings: Tensor, mask: Tensor, token_type_ids: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Separate the two sentences of every row: all first sentences, then all second ones.

    Shape:
        - embeddings: (B, S, E); mask, token_type_ids: (B, S)
        - returns: embeddings (2B, N, E), mask (2B, N) and the places of the tokens in their rows, (2B, N); N is the
          length of the longest sentence, and shorter ones are padded on the right

    Raises:
        ValueError: there are no ``token_type_ids``, or they have another shape; on a CPU also, a row of them has other
            values than 0 and 1, or only one of these. On a GPU the embeddings of such a row become NaN.
    """
    if token_type_ids is None:
        raise ValueError(
            "a model of sentence pairs needs token_type_ids, 0 in the first sentence and 1 in the second: "
            "tokenizer(text, text_pair, return_token_type_ids=True) makes them"
        )
    require_shape("token_type_ids", token_type_ids, "(batch, length)", tuple(mask.shape))
    token_type_ids = token_type_ids.to(mask.device)
    first, second = mask & (token_type_ids == 0), mask & (token_type_ids == 1)  # (B, S)
    is_other, is_alone = mask & ~first & ~second, first.any(dim=1) != second.any(dim=1)
    sentences = torch.cat([first, second])  # (2B, S)
    if mask.device.type == "cpu":
        if is_other.any():
            raise ValueError(f"token_type_ids of a sentence pair are 0 or 1, got {token_type_ids[is_other][0].item()}")
        if is_alone.any():
            row = int(is_alone.nonzero()[0])
            missing = 1 if first[row].any() else 0
            said = f"row {row} of token_type_ids has no token with {missing}"
            raise ValueError(f"{said}: a pair needs two sentences, tokenizer(text, text_pair)")
        longest = max(1, int(sentences.sum(dim=1).max()))
    else:  # to read values from a GPU the host would wait
        is_wrong = is_other.any(dim=1) | is_alone
        embeddings = embeddings.masked_fill(is_wrong.view(-1, 1, 1), torch.nan)
        longest = mask.shape[1]
    places = sentences.int().argsort(dim=1, descending=True, stable=True)[:, :longest]  # real tokens first
    rows = torch.arange(len(mask), device=mask.device).repeat(2).unsqueeze(1)
    return embeddings[rows, places], sentences.gather(1, places), places


def join_pairs(values: Tensor, places: Tensor, length: int) -> Tensor:
    """``values`` (2B, N, D) of both sentences' tokens, 0 on padding, back at their places in the rows: (B, S, D)."""
    apart = values.new_zeros(len(values), length, values.shape[-1])
    apart = apart.scatter(1, places.unsqueeze(-1).expand_as(values), values)
    return apart.unflatten(0, (2, -1)).sum(dim=0)
