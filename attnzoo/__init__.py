"""The model zoo of attention, from Bahdanau's alignment to the Transformer, as Hugging Face models.

Importing the package registers its models with the Auto classes, and its pipelines.
"""

import transformers
from transformers.pipelines import PIPELINE_REGISTRY

from .configuration_attentional_rnn import AttentionalRNNConfig
from .configuration_self_attentive import SelfAttentiveConfig
from .configuration_small_transformer import SmallTransformerConfig
from .decoding.token_search import search
from .installed_pipelines import prefer_installed_pipelines
from .modeling_attentional_rnn import AttentionalRNNForConditionalGeneration, AttentionalRNNModel
from .modeling_self_attentive import SelfAttentiveForSequenceClassification, SelfAttentiveModel
from .modeling_small_transformer import (
    SmallTransformerForCausalLM,
    SmallTransformerForConditionalGeneration,
    SmallTransformerForMaskedLM,
    SmallTransformerForSequenceClassification,
    SmallTransformerForTokenClassification,
    SmallTransformerModel,
)
from .pipelines import PIPELINES
from .registered_models import MODELS
from .shipped_models import model_path

__version__ = "0.2.0"
__all__ = [
    "AttentionalRNNConfig",
    "AttentionalRNNForConditionalGeneration",
    "AttentionalRNNModel",
    "SelfAttentiveConfig",
    "SelfAttentiveForSequenceClassification",
    "SelfAttentiveModel",
    "SmallTransformerConfig",
    "SmallTransformerForCausalLM",
    "SmallTransformerForConditionalGeneration",
    "SmallTransformerForMaskedLM",
    "SmallTransformerForSequenceClassification",
    "SmallTransformerForTokenClassification",
    "SmallTransformerModel",
    "model_path",
    "search",
]

for config_class in (AttentionalRNNConfig, SelfAttentiveConfig, SmallTransformerConfig):
    transformers.AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
    prefer_installed_pipelines(config_class)
for name, model_classes in MODELS.items():
    for model_class in model_classes:
        getattr(transformers, name).register(model_class.config_class, model_class, exist_ok=True)  # type: ignore[attr-defined]
for task, pipeline_class in PIPELINES.items():
    PIPELINE_REGISTRY.register_pipeline(task, pipeline_class=pipeline_class, pt_model=pipeline_class.auto_class)
