"""Prefer the installed pipelines of the package to the code of a repository.

If a model class is registered, Transformers uses it instead of a repository's code. For pipelines it does the reverse:
it uses the code that the config names in ``custom_pipelines``, and asks the user to trust that code. So a config of
this package still lists its pipelines, and ``pipeline(model="owner/name")`` finds the task in this list. But for
registered pipelines the config shows no code.
"""

from typing import Any

from transformers import PreTrainedConfig


class InstalledPipelines(dict[str, Any]):
    """``custom_pipelines`` that lists every task; ``in`` is True only for tasks that the package does not have."""

    def __contains__(self, task: object) -> bool:
        from .pipelines import PIPELINES  # imports Transformers' pipelines, which take seconds

        return task not in PIPELINES and super().__contains__(task)


def prefer_installed_pipelines(config_class: type[PreTrainedConfig]) -> None:
    """Make ``custom_pipelines`` of every config of this class such a dictionary."""

    def read(config: PreTrainedConfig) -> InstalledPipelines:
        return InstalledPipelines(vars(config).get("custom_pipelines") or {})

    def write(config: PreTrainedConfig, pipelines: dict[str, Any]) -> None:
        vars(config)["custom_pipelines"] = pipelines  # saving takes it from here

    setattr(config_class, "custom_pipelines", property(read, write))  # noqa: B010  (it has no such field)
