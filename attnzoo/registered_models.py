"""The models that each Auto class of Transformers serves."""

import transformers
from transformers import PreTrainedConfig

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
from .pooling import PooledEncoderForSequenceClassification, PooledEncoderModel

MODELS: dict[str, tuple[type, ...]] = {
    "AutoModel": (AttentionalRNNModel, PooledEncoderModel, SelfAttentiveModel, SmallTransformerModel),
    "AutoModelForCausalLM": (SmallTransformerForCausalLM,),
    "AutoModelForMaskedLM": (SmallTransformerForMaskedLM,),
    "AutoModelForSeq2SeqLM": (AttentionalRNNForConditionalGeneration, SmallTransformerForConditionalGeneration),
    "AutoModelForSequenceClassification": (
        PooledEncoderForSequenceClassification,
        SelfAttentiveForSequenceClassification,
        SmallTransformerForSequenceClassification,
    ),
    "AutoModelForTokenClassification": (SmallTransformerForTokenClassification,),
}


def auto_classes(config: PreTrainedConfig) -> dict[str, type]:
    """The model that each Auto class makes from a config; a causal Transformer has no masked language model."""
    pattern = getattr(config, "attention_pattern", None)
    return {
        name: model_class
        for name, model_classes in MODELS.items()
        for model_class in model_classes
        if model_class.config_class is type(config)  # type: ignore[attr-defined]
        and pattern in getattr(model_class, "attention_patterns", (pattern,))
    }


def loading_class(config: PreTrainedConfig) -> str:
    """The name of the class of Transformers that loads the model that was saved with this config."""
    names = {model_class.__name__: name for name, model_class in auto_classes(config).items()}
    saved = (config.architectures or ["AutoModel"])[0]
    own = getattr(getattr(transformers, saved, None), "config_class", None)
    return names.get(saved) or (saved if own is type(config) else "AutoModel")
