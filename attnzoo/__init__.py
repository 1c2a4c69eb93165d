"""The model zoo of attention, from Bahdanau's alignment to the Transformer, as Hugging Face models.

Importing the package registers its models with the Auto classes, and its pipelines with Transformers; see
``registration.py``. Other modules of the package are imported when one of their names is first used.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .registration import register_when_imported

if TYPE_CHECKING:
    from .aligning.markup import transfer_markup
    from .alignment import align
    from .attention_recording import record_attention
    from .catalogue import list_models, model_info
    from .checking.checker import check
    from .configuration_attentional_rnn import AttentionalRNNConfig
    from .configuration_pooled_encoder import PooledEncoderConfig
    from .configuration_self_attentive import SelfAttentiveConfig
    from .configuration_small_transformer import SmallTransformerConfig
    from .decoding.token_search import search
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
    from .pooling import (
        PooledEncoderForSequenceClassification,
        PooledEncoderModel,
        SelfAttentivePooling,
        with_self_attentive_pooling,
    )
    from .shipped_models import model_path
    from .viewer.attention_view import view

__version__ = "1.0.0"
__all__ = [
    "AttentionalRNNConfig",
    "AttentionalRNNForConditionalGeneration",
    "AttentionalRNNModel",
    "PooledEncoderConfig",
    "PooledEncoderForSequenceClassification",
    "PooledEncoderModel",
    "SelfAttentiveConfig",
    "SelfAttentiveForSequenceClassification",
    "SelfAttentiveModel",
    "SelfAttentivePooling",
    "SmallTransformerConfig",
    "SmallTransformerForCausalLM",
    "SmallTransformerForConditionalGeneration",
    "SmallTransformerForMaskedLM",
    "SmallTransformerForSequenceClassification",
    "SmallTransformerForTokenClassification",
    "SmallTransformerModel",
    "align",
    "check",
    "list_models",
    "model_info",
    "model_path",
    "record_attention",
    "search",
    "transfer_markup",
    "view",
    "with_self_attentive_pooling",
]

# The module of every public name.
MODULES = {
    "AttentionalRNNConfig": "configuration_attentional_rnn",
    "AttentionalRNNForConditionalGeneration": "modeling_attentional_rnn",
    "AttentionalRNNModel": "modeling_attentional_rnn",
    "PooledEncoderConfig": "configuration_pooled_encoder",
    "PooledEncoderForSequenceClassification": "pooling",
    "PooledEncoderModel": "pooling",
    "SelfAttentiveConfig": "configuration_self_attentive",
    "SelfAttentiveForSequenceClassification": "modeling_self_attentive",
    "SelfAttentiveModel": "modeling_self_attentive",
    "SelfAttentivePooling": "pooling",
    "SmallTransformerConfig": "configuration_small_transformer",
    "SmallTransformerForCausalLM": "modeling_small_transformer",
    "SmallTransformerForConditionalGeneration": "modeling_small_transformer",
    "SmallTransformerForMaskedLM": "modeling_small_transformer",
    "SmallTransformerForSequenceClassification": "modeling_small_transformer",
    "SmallTransformerForTokenClassification": "modeling_small_transformer",
    "SmallTransformerModel": "modeling_small_transformer",
    "align": "alignment",
    "check": "checking.checker",
    "list_models": "catalogue",
    "model_info": "catalogue",
    "model_path": "shipped_models",
    "record_attention": "attention_recording",
    "search": "decoding.token_search",
    "transfer_markup": "aligning.markup",
    "view": "viewer.attention_view",
    "with_self_attentive_pooling": "pooling",
}


if not TYPE_CHECKING:  # with it, a type checker would take any name for a public one

    def __getattr__(name: str) -> Any:
        """A public name, or a module of the package, at its first use."""
        if name in MODULES:
            value = globals()[name] = getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
            return value
        if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *MODULES})


register_when_imported()
