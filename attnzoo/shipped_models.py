"""The trained models that come with the package, by name, and the file that marks an exported model."""

import importlib.util
from pathlib import Path

from .installing import pip_install

PRONUNCIATION = "attentional-rnn-g2p-cmudict"
KOKORO = "attentional-rnn-g2p-kokoro"
SUMMARIES = "attentional-rnn-debian-summaries"
TRANSLATION = "small-transformer-multi30k-en-de"
SENTIMENT = "self-attentive-sst2"
EXPORT = "export.json"  # is in every folder that attnzoo export wrote
# The first two are installed with attnzoo, the others with the package attnzoo-models.
SHIPPED = (
    PRONUNCIATION,
    KOKORO,
    SUMMARIES,
    "attentional-rnn-g2p-it",
    "attentional-rnn-g2p-sv",
    "attentional-rnn-multi30k-en-de",
    SENTIMENT,
    TRANSLATION,
    "small-transformer-sotu-causal",
    "small-transformer-sotu-masked",
)


def named_folder(model: str) -> str:
    """The folder of this path; if there is none, that of the model of this name that comes with attnzoo.

    Raises:
        FileNotFoundError: the model comes with attnzoo-models, which is not installed.
    """
    return model_path(model) if model in SHIPPED and not Path(model).exists() else model


def model_path(name: str) -> str:
    """The folder of a model that comes with attnzoo or attnzoo-models, for ``from_pretrained`` and ``pipeline``.

    Args:
        name: the name of its folder in ``model_cards/``, such as "attentional-rnn-g2p-cmudict".

    Raises:
        ValueError: no model has this name.
        FileNotFoundError: it comes with attnzoo-models, which is not installed.
    """
    if name not in SHIPPED:
        raise ValueError(f"no model named {name!r} comes with attnzoo; choose one of {', '.join(SHIPPED)}")
    package = Path(__file__).parent
    module = name.replace("-", "_")
    folders = [package / "models" / module, package.parent / "model_cards" / name]  # installed; in a checkout
    models = importlib.util.find_spec("attnzoo_models")
    if models is not None:
        folders += [Path(place) / module for place in models.submodule_search_locations or ()]
    for folder in folders:
        if (folder / "config.json").is_file():
            return str(folder)
    raise FileNotFoundError(f"the model {name} is in the package attnzoo-models: {pip_install(models=True)}")
