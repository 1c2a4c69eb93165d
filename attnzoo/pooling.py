r"""Lin's pooling for any encoder: Hugging Face models, and a module of sentence-transformers.

The attention and its penalty are in ``attention.py``, the loss is in ``loss.py``.

Dimensions: B batch, S tokens, D width of the encoder's outputs, R hops, K labels.
"""

import json
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoModel, AutoModelForTextEncoding, Cache, PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import ModelOutput
from transformers.utils import cached_file, can_return_tuple

from .attention import StructuredSelfAttention, redundancy_penalty
from .cache_names import cache_argument
from .configuration_pooled_encoder import PooledEncoderConfig
from .json_files import read_mapping
from .labels import read_labels
from .loss import loss_of_texts, refuse_withheld_labels
from .model_inputs import read_mask, require_flag, source_mask
from .zoo_model import SafetensorsModel, SelfAttentiveClassifierOutput, with_head

WITH_DECODER = ("t5", "mt5", "umt5")  # for these AutoModel makes an encoder and a decoder
POOLING_CONFIG, POOLING_WEIGHTS = "config.json", "model.safetensors"  # of the sentence-transformers module


def with_self_attentive_pooling(
    encoder: PreTrainedModel, num_hops: int = 8, **fields: Any
) -> "PooledEncoderForSequenceClassification":
    """A classifier with the pooling of Lin et al. (2017): r attention distributions (hops) over the encoder's outputs.

    The encoder is not copied: training the classifier also trains the encoder, and the encoder's own pooler, such as
    BERT's, is removed, since nothing would read it. ``save_pretrained`` saves both, and
    ``AutoModelForSequenceClassification.from_pretrained`` loads both from that folder.

    Args:
        encoder: a model of Transformers whose first output is (B, S, D), such as ``AutoModel.from_pretrained(...)``. If
            the model has a head, only its base model is used
        num_hops: r
        fields: the other fields of :class:`PooledEncoderConfig`, such as ``num_labels`` and ``penalty_coefficient``

    Raises:
        TypeError: ``encoder`` is not a model of Transformers, or a field is not known.
        StrictDataclassError: a field is out of range, or the encoder has a decoder.
    """
    if not isinstance(encoder, PreTrainedModel):
        raise TypeError(f"encoder must be a model of Transformers, got {type(encoder).__name__}")
    base: Any = encoder.base_model
    known = {*PooledEncoderConfig.__dataclass_fields__, "num_labels", "problem_type", "id2label", "label2id"}
    if unknown := sorted(fields.keys() - known):
        raise TypeError(f"PooledEncoderConfig has no field {unknown[0]!r}; it has {', '.join(sorted(known))}")
    model = PooledEncoderForSequenceClassification(
        PooledEncoderConfig(encoder=base.config.to_dict(), num_hops=num_hops, **fields)
    )
    model.encoder = base
    remove_pooler(base)
    return model.to(base.device, base.dtype)


def remove_pooler(encoder: PreTrainedModel) -> None:
    """Remove the encoder's own pooler, which nothing reads, if its class can be made without one, as BERT's can."""
    if "add_pooling_layer" in signature(type(encoder)).parameters:
        encoder.pooler = None  # type: ignore[assignment]  # a module, or None


def pooled(states: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """The mean or maximum over the real tokens, or the first real token ("cls").

    Shape:
        - states: (B, S, D)
        - mask: (B, S) bool, True on real tokens
        - returns: (B, D), 0 for a sentence without a token
    """
    hidden = ~mask.unsqueeze(-1)
    if pooling == "mean":
        return states.masked_fill(hidden, 0.0).sum(dim=1) / mask.sum(dim=1, keepdim=True).clamp(min=1)
    if pooling == "max":
        found = states.masked_fill(hidden, torch.finfo(states.dtype).min).amax(dim=1)
    else:
        found = states[torch.arange(len(states), device=states.device), mask.int().argmax(dim=1)]
    return found.masked_fill(hidden.all(dim=1), 0.0)


@dataclass
class PooledEncoderOutput(ModelOutput):
    """What :class:`PooledEncoderModel` returns.

    Shape:
        - last_hidden_state: (B, S, D), the encoder's outputs
        - pooler_output: (B, R * D), M flattened row by row; with another pooling than Lin's (B, D)
        - hidden_states, attentions: on request; attentions are a 1-tuple of (B, 1, R, S), A
        - penalty: (B,), without the coefficient

    ``attentions`` and ``penalty`` are None with another pooling than Lin's.
    """

    last_hidden_state: Tensor = None  # type: ignore[assignment]
    pooler_output: Tensor = None  # type: ignore[assignment]
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None
    penalty: Tensor | None = None


class PooledEncoderModel(SafetensorsModel):
    r"""Any encoder and the pooling of its outputs: vectors of texts, without a classifier.

    Symbols: :math:`M = A H` is from :class:`StructuredSelfAttention`, H being the encoder's outputs.

    **Differs from the paper** (Lin et al., 2017, section 2): the encoder may be any model; in the paper it is a biLSTM.

    Shape:
        - past_key_values: the keys and values of a prefix (prefix tuning), if the encoder reads one
        - other arguments go to the encoder
        - returns: :class:`PooledEncoderOutput`

    Raises:
        ValueError: the mask does not fit the tokens; ``past_key_values`` for an encoder that has no such argument.
    """

    config_class = PooledEncoderConfig
    # Not "encoder": Transformers would load a weight of the encoder for one of the pooling that has the same name.
    base_model_prefix = ""
    # Folders from before the encoder was made without its pooler.
    _keys_to_ignore_on_load_unexpected = [r"^encoder\.pooler\."]
    # The attention is the encoder's; the encoder raises an error for a backend that it lacks.
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = _supports_attention_backend = True

    def __init__(self, config: PooledEncoderConfig) -> None:
        super().__init__(config)
        of_encoder: Any = config.encoder
        auto_class = AutoModelForTextEncoding if of_encoder.model_type in WITH_DECODER else AutoModel
        self.encoder = auto_class.from_config(of_encoder)
        remove_pooler(self.encoder)
        sizes = config.hidden_size, config.attention_hidden_size, config.num_hops
        self.attention = StructuredSelfAttention(*sizes) if config.pooling == "self_attentive" else None
        self.post_init()

    @property
    def base_model(self) -> nn.Module:
        """The encoder."""
        return self.encoder

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Glorot's uniform distribution, as in the authors' released code; the encoder initialises itself."""
        for name, parameter in module.named_parameters(recurse=False):
            if name == "bias":
                init.zeros_(parameter)
            else:
                init.xavier_uniform_(parameter)

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        past_key_values: Cache | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **inputs: Any,
    ) -> PooledEncoderOutput:
        config = self.config
        require_flag("output_attentions", output_attentions)
        require_flag("output_hidden_states", output_hidden_states)
        if output_attentions is None:
            output_attentions = config.output_attentions
        if output_hidden_states is None:
            output_hidden_states = config.output_hidden_states
        if past_key_values is not None:
            name, encoder = cache_argument(self.encoder.forward), type(self.encoder).__name__
            if name is None:
                raise ValueError(
                    f"past_key_values is a prefix of keys and values, and {encoder} reads none; leave it out"
                )
            inputs[name] = past_key_values
        inputs |= {"input_ids": input_ids, "inputs_embeds": inputs_embeds}
        if attention_mask is not None:  # the library's models take the 0 of an additive mask for padding
            attention_mask = read_mask(attention_mask, "attention_mask")
            inputs["attention_mask"] = attention_mask.long()
        given = {name: value for name, value in inputs.items() if value is not None}
        encoded = self.encoder(**given, output_hidden_states=output_hidden_states, return_dict=True)
        states = encoded[0]  # (B, S, D)
        if attention_mask is not None and past_key_values is not None:
            attention_mask = attention_mask[:, -states.shape[1] :]  # without the prefix
        mask = source_mask(attention_mask, states)
        penalty = attentions = None
        if self.attention is None:
            sentence = pooled(states, mask, config.pooling)
        else:
            sentence_matrix, annotation_matrix = self.attention(states, mask)
            sentence, penalty = sentence_matrix.flatten(1), redundancy_penalty(annotation_matrix)
            attentions = (annotation_matrix.unsqueeze(1),) if output_attentions else None
        return PooledEncoderOutput(states, sentence, encoded.get("hidden_states"), attentions, penalty)


class PooledEncoderForSequenceClassification(PooledEncoderModel):
    r"""Classification by any encoder, Lin's pooling and a two-layer ReLU MLP (Lin et al., 2017, sections 2 and 4).

    .. math:: y = W_2 \; \mathrm{relu}(W_1 \, \mathrm{flat}(M) + b_1) + b_2, \qquad
              \mathcal L = \mathcal L_{\mathrm{task}} + c \lVert A A^\top - I \rVert_F^2

    Symbols: :math:`M = A H` is from :class:`PooledEncoderModel`; :math:`W_1, b_1` are ``hidden_proj``,
    :math:`W_2, b_2` are ``classifier``, c is the config's ``penalty_coefficient``.

    **Differs from the paper**: the encoder may be any model; in the paper it is a biLSTM.

    Shape:
        - labels: as for :class:`SelfAttentiveForSequenceClassification`
        - other arguments: as for :class:`PooledEncoderModel`
        - returns: :class:`SelfAttentiveClassifierOutput`; its ``attentions`` are a 1-tuple of A, (B, 1, R, S)

    Raises:
        ValueError: as :class:`PooledEncoderModel`; labels are out of range; in training with a penalty, ``Trainer``
            withholds the labels.
    """

    accepts_loss_kwargs = True

    def __init__(self, config: PooledEncoderConfig) -> None:
        super().__init__(config)
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.hidden_proj = nn.Linear(config.pooler_size, config.classifier_size)
        self.classifier = nn.Linear(config.classifier_size, config.num_labels)  # type: ignore[arg-type]
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Tensor | int | None = None,
        past_key_values: Cache | None = None,
        token_type_ids: Tensor | None = None,  # Trainer drops columns of the data that have no parameter
        **inputs: Any,
    ) -> SelfAttentiveClassifierOutput:
        config = self.config
        coefficient = config.penalty_coefficient if self.attention is not None else 0.0
        refuse_withheld_labels(labels, num_items_in_batch, self.training, "penalty_coefficient", coefficient)
        text = input_ids, attention_mask, inputs_embeds, past_key_values
        outputs = super().forward(*text, token_type_ids=token_type_ids, **inputs, return_dict=True)
        hidden = self.hidden_proj(self.dropout(outputs.pooler_output)).relu()
        logits = self.classifier(self.dropout(hidden))
        labels = None if labels is None else read_labels(self, labels, "labels")
        loss = loss_of_texts(config, logits, labels, num_items_in_batch, penalty=outputs.penalty)
        return with_head(SelfAttentiveClassifierOutput, outputs, loss=loss, logits=logits)


class SelfAttentivePooling(nn.Module):
    r"""Lin's pooling as a module of sentence-transformers, after its ``Transformer`` module.

    .. math:: A = \mathrm{softmax}(W_{s2} \tanh(W_{s1} H^\top)), \qquad \mathrm{embedding} = \mathrm{flat}(A H)

    ``SentenceTransformer(modules=[transformer, SelfAttentivePooling(width, num_hops=4)])`` uses it. It follows the
    protocol of such modules: ``forward`` reads and extends a dictionary, ``save`` and ``load`` use a folder.

    Shape:
        - features: "token_embeddings" (B, S, D) and "attention_mask" (B, S)
        - returns: the same dictionary with "sentence_embedding" (B, R * D) and "penalty" (B,), for a loss to add
    """

    config_keys = ("word_embedding_dimension", "num_hops", "attention_hidden_size")

    def __init__(self, word_embedding_dimension: int, num_hops: int = 4, attention_hidden_size: int = 64) -> None:
        super().__init__()
        self.word_embedding_dimension = word_embedding_dimension
        self.num_hops = num_hops
        self.attention_hidden_size = attention_hidden_size
        self.attention = StructuredSelfAttention(word_embedding_dimension, attention_hidden_size, num_hops)
        for weight in self.attention.parameters():
            nn.init.xavier_uniform_(weight)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        states = features["token_embeddings"]
        sentence_matrix, annotation_matrix = self.attention(states, source_mask(features.get("attention_mask"), states))
        features["sentence_embedding"] = sentence_matrix.flatten(1)
        features["penalty"] = redundancy_penalty(annotation_matrix)
        return features

    def get_sentence_embedding_dimension(self) -> int:
        """The width of an embedding, R * D."""
        return self.num_hops * self.word_embedding_dimension

    get_embedding_dimension = get_sentence_embedding_dimension  # the name in later releases

    def get_config_dict(self) -> dict[str, int]:
        """The arguments of the constructor."""
        return {key: getattr(self, key) for key in self.config_keys}

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Write the configuration and the weights, as safetensors.

        Raises:
            ValueError: ``safe_serialization=False``, which would write a pickle.
        """
        if not safe_serialization:
            raise ValueError("safe_serialization=False would write a pickle; leave the argument out")
        folder = Path(output_path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / POOLING_CONFIG).write_text(json.dumps(self.get_config_dict(), indent=2) + "\n", encoding="utf-8")
        save_file({name: part.contiguous() for name, part in self.state_dict().items()}, folder / POOLING_WEIGHTS)

    @classmethod
    def load(cls, model_name_or_path: str, subfolder: str = "", **kwargs: Any) -> "SelfAttentivePooling":
        """Read what :meth:`save` wrote, from a folder or from a repository of the Hub.

        ``kwargs`` may have ``token``, ``cache_folder``, ``revision`` and ``local_files_only``.
        """
        options: dict[str, Any] = {"subfolder": subfolder, "cache_dir": kwargs.get("cache_folder")}
        options |= {name: kwargs[name] for name in ("token", "revision", "local_files_only") if name in kwargs}
        files = [str(cached_file(model_name_or_path, name, **options)) for name in (POOLING_CONFIG, POOLING_WEIGHTS)]
        module = cls(**read_mapping(files[0]))
        module.load_state_dict(load_file(files[1]))
        return module
