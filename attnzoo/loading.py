"""Load a trained model for use without training: every weight must be in its files, and be a finite number."""

from typing import Any

from transformers import PreTrainedModel

from .zoo_model import SafetensorsModel

SHOWN = 3  # names of weights in a message


def load_trained(auto_class: Any, folder: Any, unused: str | None = None) -> Any:
    """The model of a folder or a Hub id, in evaluation mode. No code that comes with it is run.

    If weights are missing, Transformers draws random ones and only reports it, as fine-tuning with a new head needs.
    The outputs of such a model are meaningless.

    Args:
        auto_class: an Auto class of Transformers, or a model class
        folder: the argument of ``from_pretrained``
        unused: the beginning of the names of weights that the caller does not use, so that they may be missing

    Raises:
        OSError: there are no weights, or the file is damaged.
        ValueError: weights are missing, are not finite, or cannot be loaded for another reason; or those of a model of
            attnzoo have others than its config asks for.
    """
    try:
        model, report = auto_class.from_pretrained(folder, output_loading_info=True, trust_remote_code=False)
    except (OSError, ValueError, MemoryError):
        raise
    except Exception as error:  # Transformers raises any class of error for a wrong index or header
        raise ValueError(f"the weights of {folder} cannot be loaded: {type(error).__name__}: {error}") from error
    missing = sorted(name for name in report["missing_keys"] if unused is None or not name.startswith(unused))
    # If another class is loaded than the one that was saved, parts of the saved model are left out.
    strays = sorted(report["unexpected_keys"]) if unused is None and isinstance(model, SafetensorsModel) else []
    if strays:
        raise ValueError(
            f"the weights of {folder} have {_listed(strays)}, for which its config has no place; is it the config of "
            "another model?"
        )
    tied = model.get_expanded_tied_weights_keys(all_submodels=True)
    untied = sorted(tied.keys() - model.all_tied_weights_keys.keys())
    if untied:  # then Transformers uses both, and only logs it
        raise ValueError(
            f"the weights of {folder} have other values in {_listed(untied)} than in the weight that the config ties "
            "it to; are they the weights of another model? If not, write tie_word_embeddings: false into config.json"
        )
    if missing:
        raise ValueError(
            f"the weights of {folder} lack {_listed(missing)}, which its config asks for; random ones would stand in "
            "their place"
        )
    require_finite(model, str(folder))
    return model.eval()


def require_finite(model: PreTrainedModel, place: str) -> None:
    """Raise a ValueError if a weight is NaN or infinite. Weights of quantised models are whole numbers."""
    broken = [
        name
        for name, weight in model.named_parameters()
        if weight.is_floating_point() and not bool(weight.isfinite().all())
    ]
    if broken:
        raise ValueError(
            f"the weights of {place} have values that are not finite (NaN or infinite) in {_listed(broken)}; the "
            "training that made them failed, or the file is damaged"
        )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
