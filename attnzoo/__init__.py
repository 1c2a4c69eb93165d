"""The model zoo of attention, from Bahdanau's alignment to the Transformer, as Hugging Face models.

Importing the package registers its models with the Auto classes.
"""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
)

from .configuration_attentional_rnn import AttentionalRNNConfig
from .configuration_small_transformer import SmallTransformerConfig
from .modeling_attentional_rnn import AttentionalRNNForConditionalGeneration, AttentionalRNNModel
from .modeling_small_transformer import (
    SmallTransformerForCausalLM,
    SmallTransformerForConditionalGeneration,
    SmallTransformerForMaskedLM,
    SmallTransformerForSequenceClassification,
    SmallTransformerModel,
)

__version__ = "0.1.0"
__all__ = [
    "AttentionalRNNConfig",
    "AttentionalRNNForConditionalGeneration",
    "AttentionalRNNModel",
    "SmallTransformerConfig",
    "SmallTransformerForCausalLM",
    "SmallTransformerForConditionalGeneration",
    "SmallTransformerForMaskedLM",
    "SmallTransformerForSequenceClassification",
    "SmallTransformerModel",
]

AutoConfig.register(AttentionalRNNConfig.model_type, AttentionalRNNConfig, exist_ok=True)
AutoModel.register(AttentionalRNNConfig, AttentionalRNNModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(AttentionalRNNConfig, AttentionalRNNForConditionalGeneration, exist_ok=True)

AutoConfig.register(SmallTransformerConfig.model_type, SmallTransformerConfig, exist_ok=True)
AutoModel.register(SmallTransformerConfig, SmallTransformerModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(SmallTransformerConfig, SmallTransformerForConditionalGeneration, exist_ok=True)
AutoModelForCausalLM.register(SmallTransformerConfig, SmallTransformerForCausalLM, exist_ok=True)
AutoModelForMaskedLM.register(SmallTransformerConfig, SmallTransformerForMaskedLM, exist_ok=True)
AutoModelForSequenceClassification.register(
    SmallTransformerConfig, SmallTransformerForSequenceClassification, exist_ok=True
)
