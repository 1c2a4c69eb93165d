"""Where the package is installed, its pipelines are the installed ones, whatever code a repository brings along.

Of models, Transformers takes the registered class before a repository's. Of pipelines it takes the repository's, and
asks for trust in its code, wherever the config has one of that name (``custom_pipelines``). A config of this package
still names its pipelines, by which ``pipeline(model="owner/name")`` finds the task, but has no code for those that are
registered.
"""

from typing import Any

from transformers import PreTrainedConfig

from .pipelines import PIPELINES


class InstalledPipelines(dict[str, Any]):
    """``custom_pipelines`` that names every task and has only those which the package lacks."""

    def __contains__(self, task: object) -> bool:
        return task not in PIPELINES and super().__contains__(task)


def prefer_installed_pipelines(config_class: type[PreTrainedConfig]) -> None:
    """Have every config of this class, as it was loaded and as it will be, read its ``custom_pipelines`` so."""

    def read(config: PreTrainedConfig) -> InstalledPipelines:
        return InstalledPipelines(vars(config).get("custom_pipelines", {}))

    def write(config: PreTrainedConfig, pipelines: dict[str, Any]) -> None:
        vars(config)["custom_pipelines"] = pipelines  # where what is saved is taken from

    setattr(config_class, "custom_pipelines", property(read, write))  # noqa: B010  (it has no such field)
