"""Register the configs, models and pipelines of the package with Transformers, and its linear modules with PEFT.

These registries are in modules that take seconds to import, and a program may never use them: ``python -c "import
attnzoo"`` takes 0.05 seconds of a Zen 3 processor, and 8.6 with ``transformers.models.auto.modeling_auto`` and
``transformers.pipelines``. So each part of the package is registered when some code imports its registry, directly
after that import. Meanwhile other threads may find the registry without the package: import Transformers' Auto classes
before you start threads.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any


def register_configs(registry: Any) -> None:
    """Register the configs with ``AutoConfig``."""
    from .configuration_attentional_rnn import AttentionalRNNConfig
    from .configuration_pooled_encoder import PooledEncoderConfig
    from .configuration_self_attentive import SelfAttentiveConfig
    from .configuration_small_transformer import SmallTransformerConfig
    from .installed_pipelines import prefer_installed_pipelines

    for config_class in (AttentionalRNNConfig, PooledEncoderConfig, SelfAttentiveConfig, SmallTransformerConfig):
        registry.AutoConfig.register(config_class.model_type, config_class, exist_ok=True)
        prefer_installed_pipelines(config_class)


def register_models(registry: Any) -> None:
    """Register the models with the Auto classes."""
    from .registered_models import MODELS

    for name, model_classes in MODELS.items():
        for model_class in model_classes:
            getattr(registry, name).register(model_class.config_class, model_class, exist_ok=True)  # type: ignore[attr-defined]


def register_pipelines(registry: Any) -> None:
    """Register the pipelines with ``pipeline()``."""
    from .pipelines import PIPELINES, SourceToTargetPipeline
    from .scored_search import scored_search

    SourceToTargetPipeline.search = staticmethod(scored_search)
    for task, pipeline_class in PIPELINES.items():
        registry.PIPELINE_REGISTRY.register_pipeline(
            task, pipeline_class=pipeline_class, pt_model=pipeline_class.auto_class
        )


# PEFT's tables of the modules that an adapter without ``target_modules`` is put on, and the entries of our models. For
# the Transformer as for BART and BERT: queries and values, and with IA3 also the last layer of every feed-forward.
# "all-linear" leaves out the output projection, and it is known to LoRA only. IA3 scales the inputs of the modules of
# its second table, and the outputs of the others.
RECURRENT_PROJECTIONS = ["query_proj", "key_proj", "position_proj", "context_proj", "initial_proj", "hidden_proj"]
RECURRENT_PROJECTIONS += ["cell_proj", "readout_proj", "output_proj", "gate_proj"]
ADAPTED_MODULES: dict[str, dict[str, str | list[str]]] = {
    "TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING": {
        **dict.fromkeys(("attentional_rnn", "pooled_encoder", "self_attentive"), "all-linear"),
        "small_transformer": ["query_proj", "value_proj"],
    },
    "TRANSFORMERS_MODELS_TO_IA3_TARGET_MODULES_MAPPING": {
        "attentional_rnn": RECURRENT_PROJECTIONS,
        "self_attentive": ["key_proj", "hidden_proj"],
        "small_transformer": ["key_proj", "value_proj", "feed_forward.output_proj"],
    },
    "TRANSFORMERS_MODELS_TO_IA3_FEEDFORWARD_MODULES_MAPPING": {
        "attentional_rnn": [],
        "self_attentive": [],
        "small_transformer": ["feed_forward.output_proj"],
    },
}


def register_adapted_modules(registry: Any) -> None:
    """Enter the models in the tables of PEFT; another release may lack a table."""
    for name, entries in ADAPTED_MODULES.items():
        vars(registry).get(name, {}).update(entries)


# The modules that hold the registries, and what registers with each.
REGISTRIES: dict[str, Callable[[Any], None]] = {
    "peft.utils.constants": register_adapted_modules,
    "transformers.models.auto.configuration_auto": register_configs,
    "transformers.models.auto.modeling_auto": register_models,
    "transformers.pipelines": register_pipelines,
}


class RegistryFinder(MetaPathFinder):
    """Find registries, modules of Transformers and of this package as Python does, and register after they have run.

    A registry may import another one while it runs. What is registered imports others of them, so it is registered
    after the first module of such a chain has run.
    """

    def __init__(self) -> None:
        self.chain = threading.local()  # a chain of imports is in one thread

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(("transformers.", f"{__package__}.")) and name not in REGISTRIES:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_register(module: Any) -> None:
            is_first = not hasattr(self.chain, "loaded")
            if is_first:
                self.chain.loaded = []
            try:
                run(module)
                if name in REGISTRIES:
                    self.chain.loaded.append(module)
                while is_first and self.chain.loaded:
                    registry = self.chain.loaded.pop(0)
                    REGISTRIES[registry.__name__](registry)
            finally:
                if is_first:
                    del self.chain.loaded

        spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec


def register_when_imported() -> None:
    """Register with the registries that are imported, and with the others as soon as they are."""
    sys.meta_path.insert(0, RegistryFinder())
    for name, register in REGISTRIES.items():
        if name in sys.modules:
            register(sys.modules[name])
