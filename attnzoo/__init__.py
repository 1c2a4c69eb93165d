"""The model zoo of attention, from Bahdanau's alignment to the Transformer, as Hugging Face models.

Importing the package registers its models with the Auto classes, and its pipelines.
"""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
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

AutoConfig.register(AttentionalRNNConfig.model_type, AttentionalRNNConfig, exist_ok=True)
AutoModel.register(AttentionalRNNConfig, AttentionalRNNModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(AttentionalRNNConfig, AttentionalRNNForConditionalGeneration, exist_ok=True)

AutoConfig.register(SelfAttentiveConfig.model_type, SelfAttentiveConfig, exist_ok=True)
AutoModel.register(SelfAttentiveConfig, SelfAttentiveModel, exist_ok=True)
AutoModelForSequenceClassification.register(SelfAttentiveConfig, SelfAttentiveForSequenceClassification, exist_ok=True)

AutoConfig.register(SmallTransformerConfig.model_type, SmallTransformerConfig, exist_ok=True)
AutoModel.register(SmallTransformerConfig, SmallTransformerModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(SmallTransformerConfig, SmallTransformerForConditionalGeneration, exist_ok=True)
AutoModelForCausalLM.register(SmallTransformerConfig, SmallTransformerForCausalLM, exist_ok=True)
AutoModelForMaskedLM.register(SmallTransformerConfig, SmallTransformerForMaskedLM, exist_ok=True)
AutoModelForSequenceClassification.register(
    SmallTransformerConfig, SmallTransformerForSequenceClassification, exist_ok=True
)
AutoModelForTokenClassification.register(SmallTransformerConfig, SmallTransformerForTokenClassification, exist_ok=True)

for task, pipeline_class in PIPELINES.items():
    PIPELINE_REGISTRY.register_pipeline(task, pipeline_class=pipeline_class, pt_model=pipeline_class.auto_class)

for config_class in (AttentionalRNNConfig, SmallTransformerConfig):
    prefer_installed_pipelines(config_class)
