"""The options of ``generate()``. Those that a model cannot have raise an error; none of them reaches ``forward``."""

import inspect
from typing import Any

from torch import Tensor
from transformers.generation import GenerationMixin

from .cache_names import CACHE
from .generation_checks import check_generation

# Options that would read the target as a source, or the source as a target: the values that leave them off.
WITHOUT_ENCODER: dict[str, tuple[Any, ...]] = {
    "guidance_scale": (None, 1),  # the unconditional pass would read the target as a source
    "prefill_chunk_size": (None,),  # the mask of the source would be cut as that of the target
    "token_healing": (None, False),  # the start token would be replaced by the tokens of an empty text
}


class SearchRefusedError(ValueError):
    """``attnzoo.search`` lacks an option that ``generate()`` may have; nothing has been decoded yet."""


class ZooGenerationMixin(GenerationMixin):
    """``generate()`` of every model, with its options checked before anything is computed."""

    config: Any

    def prepare_inputs_for_generation(  # type: ignore[override]
        self,
        input_ids: Tensor,
        inputs_embeds: Tensor | None = None,  # generate() looks for this name
        tokenizer: Any = None,
        assistant_tokenizer: Any = None,
        assistant_model: Any = None,
        cache: Any = None,  # and for this one, since Transformers 5.24
        **kwargs: Any,
    ) -> dict[str, Any]:
        """The arguments of ``forward`` for the next step. Transformers' loops also pass on those of ``generate()``."""
        parent: Any = super()
        if cache is not None:
            kwargs["cache"] = cache
        inputs: dict[str, Any] = parent.prepare_inputs_for_generation(input_ids, inputs_embeds=inputs_embeds, **kwargs)
        if CACHE in inputs:
            inputs["past_key_values"] = inputs.pop(CACHE)  # PEFT looks for this name
        return inputs

    def init_continuous_batching(self, *args: Any, **kwargs: Any) -> Any:
        """What ``generate_batch()`` calls first.

        Raises:
            ValueError: a model with an encoder, whose source would be read as a target.
        """
        if self.config.is_encoder_decoder:
            raise ValueError("continuous batching is for models without an encoder; call generate() with a batch")
        return super().init_continuous_batching(*args, **kwargs)

    def _prepare_generation_config(self, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """The options of ``generate()``, as Transformers prepares them.

        ``use_cache=None`` becomes the config's value. Otherwise the model would make a cache, and ``generate()`` would
        still pass all tokens at every step.

        Raises:
            ValueError: an option that the model cannot have, or one that is out of range (:func:`check_generation`).
        """
        check_generation(kwargs, self.config.vocab_size)
        parent: Any = super()
        options, model_kwargs = parent._prepare_generation_config(*args, **kwargs)
        check_generation(vars(options), self.config.vocab_size, may_never_end=True)
        if options.use_cache is None:
            options.use_cache = self.config.use_cache
        if options.assistant_early_exit is not None:
            raise ValueError(
                f"assistant_early_exit={options.assistant_early_exit} is for models trained to leave out layers; leave "
                "it out, or give a smaller assistant_model"
            )
        if self.config.is_encoder_decoder:
            for name, off in WITHOUT_ENCODER.items():
                if (value := getattr(options, name)) not in off:
                    raise ValueError(f"{name}={value} is for models without an encoder; leave it out")
            if options.cache_implementation == "paged":
                raise ValueError("cache_implementation='paged' is for models without an encoder; leave it out")
        return options, model_kwargs

    def _extract_generation_mode_kwargs(
        self, custom_generate: Any, kwargs: Any, synced_gpus: Any, assistant_model: Any, streamer: Any
    ) -> dict[str, Any]:
        """The arguments that Transformers passes to a decoding loop.

        A function as ``custom_generate`` also gets the ``tokenizer`` if it has a parameter of this name: Transformers
        would drop it, and with it ``stop_strings`` and ``token_healing``.

        Raises:
            ValueError: an argument that Transformers would not pass to a function as ``custom_generate``.
        """
        tokenizer = kwargs.get("tokenizer")
        if callable(custom_generate):
            name = getattr(custom_generate, "__name__", custom_generate)
            if streamer is not None:
                streamer.end()  # its reader, in another thread, would wait forever
                raise ValueError(
                    f"custom_generate={name} cannot stream to streamer={type(streamer).__name__}; leave out "
                    "custom_generate, or leave out streamer"
                )
            dropped = {"assistant_model": assistant_model, "assistant_tokenizer": kwargs.get("assistant_tokenizer")}
            for argument, value in ({"synced_gpus": synced_gpus or None} | dropped).items():
                if value is not None:
                    raise ValueError(f"custom_generate={name} does not get {argument}; leave out one of the two")
        arguments = super()._extract_generation_mode_kwargs(
            custom_generate, kwargs, synced_gpus, assistant_model, streamer
        )
        takes_tokenizer = callable(custom_generate) and "tokenizer" in inspect.signature(custom_generate).parameters
        if takes_tokenizer and tokenizer is not None:
            arguments["tokenizer"] = tokenizer
        return arguments
