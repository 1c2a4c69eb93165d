"""Baselines of the self-attentive classifier: the same biLSTM and MLP, with max or mean pooling in between.

These are the baselines of Lin et al. (2017, section 4): "biLSTM + max pooling", and the same with the mean. They are
trained, saved and loaded as the model itself: ``from_pretrained(folder, pooling="max")``.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import can_return_tuple

from attnzoo import SelfAttentiveConfig
from attnzoo.loss import classification_loss, problem_type_of
from attnzoo.model_inputs import embed, source_mask
from attnzoo.modeling_self_attentive import (
    GatedEncoder,
    SelfAttentivePreTrainedModel,
    split_pairs,
)
from attnzoo.recurrent_encoder import RecurrentEncoder


class PoolingForSequenceClassification(SelfAttentivePreTrainedModel):
    """A biLSTM, the pooling of its states over the tokens, and the two-layer ReLU MLP on the pooled vector.

    The config is the self-attentive model's: embedding, encoder, MLP and dropout are of its sizes; its attention and
    penalty fields are not read, and the gate of a pair has one row. The arguments and the outputs are the classifier's
    too, without attentions and penalty.

    Raises:
        ValueError: ``pooling`` is neither "max" nor "mean".
    """

    def __init__(self, config: SelfAttentiveConfig, pooling: str = "max") -> None:
        super().__init__(config)
        if pooling not in ("max", "mean"):
            raise ValueError(f"pooling must be 'max' or 'mean', got {pooling!r}")
        self.pooling = pooling
        self.embed_tokens = nn.Embedding(config.vocab_size, config.embedding_size)
        self.embedding_dropout = nn.Dropout(config.dropout)
        self.rnn = RecurrentEncoder(
            config.cell, config.embedding_size, config.hidden_size, config.num_hidden_layers, config.dropout
        )
        width = config.encoder_output_size
        self.gate = GatedEncoder(1, width, config.gate_size, config.compare_hops) if config.sentence_pair else None
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.hidden_proj = nn.Linear(config.pooler_size // config.num_hops, config.classifier_size)
        self.classifier = nn.Linear(config.classifier_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        smoothing: float = 0.0,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        embeddings = embed(self.embed_tokens, input_ids, inputs_embeds, "input_ids", "inputs_embeds")
        embeddings = self.embedding_dropout(embeddings)
        mask = source_mask(attention_mask, embeddings)
        if self.gate is None:
            pooled = self._pool(self.rnn(embeddings, mask)[0][-1], mask)
        else:
            sentences, mask, _ = split_pairs(embeddings, mask, token_type_ids)
            first, second = self._pool(self.rnn(sentences, mask)[0][-1], mask).unsqueeze(1).chunk(2)
            pooled = self.gate(first, second).squeeze(1)
        logits = self.classifier(self.dropout(self.hidden_proj(self.dropout(pooled)).relu()))
        loss = None
        if labels is not None:
            problem_type = problem_type_of(self.config.problem_type, logits.shape[1], labels)
            self.config.problem_type = problem_type
            loss = classification_loss(logits, labels, problem_type, num_items_in_batch, smoothing)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    def _pool(self, states: Tensor, mask: Tensor) -> Tensor:
        """The pooled ``states`` (B, S, V), over the real tokens: (B, V), 0 if there is none."""
        mask = mask.unsqueeze(-1)
        if self.pooling == "mean":
            return (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        lowest = torch.finfo(states.dtype).min
        return states.masked_fill(~mask, lowest).amax(dim=1) * mask.any(dim=1)
