"""A training that starts from a trained model: with its tokenizer and its weights."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from attnzoo.shipped_models import named_folder


def trained_model(key: str, folder: str) -> str:
    """The folder of a trained model: this folder, or that of the shipped model of this name.

    Raises:
        FileNotFoundError: there is no model; the message has the key of ``training`` that names it.
    """
    found = named_folder(folder)
    if not (Path(found) / "config.json").is_file():
        raise FileNotFoundError(f"training.{key}: there is no model in {folder!r}; train it first")
    return found


class Start:
    """The model that a training starts from.

    Args:
        folder: a checkpoint folder, or the name of a shipped model
        auto_class: the Auto class of the task's models

    Raises:
        FileNotFoundError: the folder has no model.
    """

    def __init__(self, folder: str, auto_class: Any) -> None:
        self.folder, self.auto_class = trained_model("start_from", folder), auto_class

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Its tokenizer; a tokenizer made from the new data would give the words other rows of the embeddings."""
        return AutoTokenizer.from_pretrained(self.folder)

    @torch.no_grad()
    def copy_weights(self, model: PreTrainedModel) -> None:
        """Give a new model the trained weights.

        Raises:
            ValueError: the new model has other labels, or weights of other names or shapes; the message has the fields
                of the config that differ.
        """
        trained = self.auto_class.from_pretrained(self.folder)
        given, wanted = trained.state_dict(), model.state_dict()
        shapes, others = ({name: weight.shape for name, weight in state.items()} for state in (given, wanted))
        if shapes != others or trained.config.id2label != model.config.id2label:
            there, here = trained.config.to_dict(), model.config.to_dict()
            about = {"_name_or_path", "architectures", "dtype", "transformers_version"}
            differ = [
                f"{field} is {there.get(field)!r} there and {here.get(field)!r} here"
                for field in sorted((there | here).keys() - about)
                if there.get(field) != here.get(field)
            ]
            raise ValueError(
                f"training.start_from: the model in {self.folder!r} is not the one that the section model and the data "
                f"of this recipe describe: {'; '.join(differ)}"
            )
        model.load_state_dict(given)
