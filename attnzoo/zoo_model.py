"""How the models of every family are loaded: from safetensors, which are numbers, and never from a pickle, which may
run code; their adapters, too.
"""

import math
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers import PreTrainedModel

MAX_NEW_WEIGHTS = 10**8  # that may be missing in a file: those of a new head or of added words


class SafetensorsModel(PreTrainedModel):
    """A Hugging Face model that knows one kind of weights; ``save_pretrained`` writes no other.

    Raises:
        ValueError: ``use_safetensors=False``, or an adapter that is a pickle.
        OSError: no safetensors, or damaged ones.
        ValueError: the config asks for far more weights than the files hold.
    """

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """Load as every Hugging Face model does, but never a pickle; damaged weights are an OSError that names them."""
        if kwargs.get("use_safetensors") is False:
            raise ValueError(
                "use_safetensors=False would load a pickle, which may run code; convert the weights where you trust "
                "them, with torch.load(..., weights_only=True) and save_pretrained"
            )
        kwargs["use_safetensors"] = True
        try:
            return super().from_pretrained(pretrained_model_name_or_path, *args, **kwargs)
        except SafetensorError as error:
            raise OSError(
                f"the weights of {str(pretrained_model_name_or_path)!r} are damaged or incomplete ({error}); "
                "download or save them again"
            ) from error

    def _prepare_generation_config(self, *args: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """The options of ``generate()``, as Transformers prepares them, with ``use_cache=None`` as the config has it.

        Otherwise the model makes a cache and ``generate()`` passes it all tokens again at every step.
        """
        options, model_kwargs = super()._prepare_generation_config(*args, **kwargs)  # type: ignore[misc]
        if options.use_cache is None:
            options.use_cache = self.config.use_cache
        return options, model_kwargs

    @staticmethod
    def _load_pretrained_model(
        model: Any, state_dict: Any, checkpoint_files: list[str] | None, *args: Any, **kwargs: Any
    ) -> Any:
        """What every file goes through, an adapter's too: for one without safetensors Transformers turns to a pickle,
        whatever it was told.
        """
        for file in checkpoint_files or ():
            if Path(file).suffix != ".safetensors":
                raise ValueError(
                    f"{file} is a pickle, which may run code, and nothing was read of it; convert it where you trust "
                    "it, with torch.load(..., weights_only=True) and safetensors.torch.save_file"
                )
        if state_dict is None and checkpoint_files:
            _check_size(model, checkpoint_files)
        return PreTrainedModel._load_pretrained_model(model, state_dict, checkpoint_files, *args, **kwargs)


def _check_size(model: Any, files: list[str]) -> None:
    """Raise an error if the config asks for far more weights than the files hold, before memory is allocated.

    At this point the model is on the meta device. A quantised file may hold one number for eight weights.
    """
    wanted = sum(parameter.numel() for parameter in model.parameters() if parameter.is_meta)
    if wanted <= MAX_NEW_WEIGHTS:
        return
    held = 0
    for file in files:
        with safe_open(file, framework="pt") as weights:
            held += sum(math.prod(weights.get_slice(name).get_shape()) for name in weights.keys())  # noqa: SIM118
    if wanted > 8 * held + MAX_NEW_WEIGHTS:
        raise ValueError(
            f"the config asks for {wanted:,} weights and the files next to it have {held:,}: the sizes in config.json "
            "are not those of this model; save or download it again"
        )
