"""Prefer the installed pipelines of the package to the code of a repository.

Transformers prefers a registered model class to a repository's code, but a repository's pipeline to a registered one:
it then asks for trust in the code that the config names (``custom_pipelines``). So a config of this package still lists
its pipelines, from which ``pipeline(model="owner/name")`` finds the task, but shows no code for the registered ones.
"""

from typing import Any

from transformers import PreTrainedConfig


class InstalledPipelines(dict[str, Any]):
    """``custom_pipelines`` that lists every task and contains only those that the package lacks."""

    def __contains__(self, task: object) -> bool:
        from .pipelines import PIPELINES  # imports Transformers' pipelines, which take seconds

        return task not in PIPELINES and super().__contains__(task)


def prefer_installed_pipelines(config_class: type[PreTrainedConfig]) -> None:
    """Make ``custom_pipelines`` of every config of this class such a dictionary."""

    def read(config: PreTrainedConfig) -> InstalledPipelines:
        return InstalledPipelines(vars(config).get("custom_pipelines", {}))

    def write(config: PreTrainedConfig, pipelines: dict[str, Any]) -> None:
        vars(config)["custom_pipelines"] = pipelines  # where what is saved is taken from

    setattr(config_class, "custom_pipelines", property(read, write))  # noqa: B010  (it has no such field)
