"""The model zoo of attention, from Bahdanau's alignment to the Transformer, as Hugging Face models.

Importing the package registers its models with the Auto classes, and its pipelines.
"""

from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM
from transformers.pipelines import PIPELINE_REGISTRY

from .configuration_attentional_rnn import AttentionalRNNConfig
from .decoding import search
from .modeling_attentional_rnn import AttentionalRNNForConditionalGeneration, AttentionalRNNModel
from .pipelines import PIPELINES

__version__ = "0.1.0"
__all__ = ["AttentionalRNNConfig", "AttentionalRNNForConditionalGeneration", "AttentionalRNNModel", "search"]

AutoConfig.register(AttentionalRNNConfig.model_type, AttentionalRNNConfig, exist_ok=True)
AutoModel.register(AttentionalRNNConfig, AttentionalRNNModel, exist_ok=True)
AutoModelForSeq2SeqLM.register(AttentionalRNNConfig, AttentionalRNNForConditionalGeneration, exist_ok=True)
for task, pipeline_class in PIPELINES.items():
    PIPELINE_REGISTRY.register_pipeline(task, pipeline_class=pipeline_class, pt_model=pipeline_class.auto_class)
