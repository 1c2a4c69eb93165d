"""Start a training from a trained model, with its tokenizer and its weights."""

import re
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from attnzoo.commands.models import refuse_adapter
from attnzoo.loading import load_trained
from attnzoo.shipped_models import named_folder

from ..tasks.base import Task


def trained_model(key: str, folder: str) -> str:
    """The folder of a trained model: this folder, or that of the shipped model with this name.

    Raises:
        FileNotFoundError: there is no model; the message has the key of ``training`` that names it.
        ValueError: there is an adapter without its model.
    """
    found = named_folder(folder)
    refuse_adapter(Path(found))
    if not (Path(found) / "config.json").is_file():
        raise FileNotFoundError(f"training.{key}: there is no model in {folder!r}; train it first")
    return found


class Start:
    """The model that a training starts from.

    Args:
        folder: a checkpoint folder, or the name of a shipped model
        task: the task of the training

    Raises:
        FileNotFoundError: the folder has no model.
        ValueError: the task gives a new model word vectors, which would be lost.
    """

    def __init__(self, folder: str, task: Task) -> None:
        self.folder, self.auto_class = trained_model("start_from", folder), task.auto_class
        if getattr(task.data, "word_vectors", None) is not None:
            raise ValueError("training.start_from brings the embeddings of its model; leave task.data.word_vectors out")

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The model's tokenizer. One made from the new data would give the words other rows of the embeddings."""
        return AutoTokenizer.from_pretrained(self.folder, trust_remote_code=False)

    @torch.no_grad()
    def copy_weights(self, model: PreTrainedModel) -> None:
        """Copy the trained weights into a new model.

        Raises:
            ValueError: the new model computes something else, or has other labels; the message has the fields of the
                config that differ.
        """
        trained = load_trained(self.auto_class, self.folder)
        there, here = (_describing(config) for config in (trained.config, model.config))
        differ = [
            f"{field} is {there.get(field)!r} there and {here.get(field)!r} here"
            for field in sorted(there | here)
            if there.get(field) != here.get(field)
        ]
        if differ:
            raise ValueError(
                f"training.start_from: the model in {self.folder!r} is not the one that the section model and the data "
                f"of this recipe describe: {'; '.join(differ)}"
            )
        model.load_state_dict(trained.state_dict())


def _describing(config: PreTrainedConfig) -> dict[str, Any]:
    """The fields of a config that decide what a model computes, and its labels; not those of training and saving, and
    not what was measured on the data of the model.
    """
    free = re.compile(
        r"_name_or_path|architectures|dtype|transformers_version|problem_type|auto_map|custom_pipelines|"
        r".*dropout|penalty_.*|confidence_.*|longest_source|usual_score|.*_range|teacher_forcing_ratio|"
        r"coverage_loss_coefficient"
    )
    return {field: value for field, value in config.to_dict().items() if not free.fullmatch(field)}
