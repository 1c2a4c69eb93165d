"""The folders of the trained models that are installed, and the file that marks an exported model."""

import importlib.util
from pathlib import Path

from .catalogue import list_models, model_info
from .installing import pip_install

PRONUNCIATION = "attentional-rnn-g2p-cmudict"
KOKORO = "attentional-rnn-g2p-kokoro"
MULTILINGUAL = "attentional-rnn-g2p-multilingual"
SUMMARIES = "attentional-rnn-debian-summaries"
TRANSLATION = "attentional-rnn-tatoeba-en-de"
SENTIMENT = "self-attentive-sst2"
HETERONYMS = "self-attentive-heteronyms"
EXPORT = "export.json"  # is in every folder that attnzoo export wrote
SHIPPED = tuple(sorted(list_models()))


def named_folder(model: str) -> str:
    """The folder of this path; if there is none, that of the trained model of this name.

    Raises:
        FileNotFoundError: the package that has the model is not installed.
    """
    return model_path(model) if model in SHIPPED and not Path(model).exists() else model


def model_path(name: str) -> str:
    """The folder of a trained model that is installed, for ``from_pretrained`` and ``pipeline``.

    Args:
        name: a name of :func:`list_models`, such as "attentional-rnn-g2p-cmudict".

    Raises:
        ValueError: no trained model has this name; the message names the nearest.
        FileNotFoundError: the package that has the model is not installed.
    """
    model = model_info(name)
    package, module = model["package"], name.replace("-", "_")
    here = Path(__file__).parent
    folders = [here.parent / model["folder"]]  # in a checkout
    if package == "attnzoo":
        folders.append(here / "models" / module)
    elif (found := importlib.util.find_spec(package.replace("-", "_"))) is not None:
        folders += [Path(place) / module for place in found.submodule_search_locations or ()]
    for folder in folders:
        if (folder / "config.json").is_file():
            return str(folder)
    raise FileNotFoundError(f"the model {name} is in the package {package}: {pip_install(models=package)}")
