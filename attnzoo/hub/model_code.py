"""Put a model's code into its repository, for users without attnzoo (``trust_remote_code=True``)."""

import inspect
import json
import shutil
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCard
from transformers import AutoConfig
from transformers.dynamic_module_utils import get_relative_import_files

from ..json_files import read_mapping
from ..pipelines import PIPELINES, SourceToTargetPipeline
from ..registered_models import auto_classes

HEADING = "## Without attnzoo"
IN_CARD = f"""

{HEADING}

The model's code is in this repository. Without attnzoo installed, leave out `import attnzoo` and pass
`trust_remote_code=True` to every `from_pretrained` and `pipeline`. Set `revision=` to the commit whose code you have
read.
"""


def add_code(folder: Path) -> None:
    """Copy a model's code into its folder, enter its classes in ``config.json``, and explain the use in the card.

    The code is the flat files of the model's classes and all that these import of each other. ``config.json`` gets an
    entry for every Auto class that the model serves (a causal Transformer serves no masked language model). The code of
    the pipeline that the card's tags or ``pipeline_tag`` name is copied, too.

    Raises:
        ValueError: the model is not of this package.
    """
    classes, pipelines = _travelling_classes(folder)
    path = folder / "config.json"
    entries = read_mapping(path)
    entries.pop("custom_pipelines", None)  # of what it was fine-tuned from
    entries["auto_map"] = {name: _place(class_) for name, class_ in classes.items()}
    if pipelines:
        entries["custom_pipelines"] = {
            task: {"impl": _place(class_), "pt": [class_.auto_class.__name__]} for task, class_ in pipelines.items()
        }
    _write(path, entries)
    for source in code_files(folder):
        shutil.copyfile(source, folder / source.name)
    if HEADING not in ModelCard.load(folder / "README.md").text:
        with open(folder / "README.md", "a", encoding="utf-8") as file:  # the rest stays as it was written
            file.write(IN_CARD)


def code_files(folder: Path) -> list[Path]:
    """The files of this package that :func:`add_code` copies, in alphabetical order.

    Raises:
        ValueError: the model is not of this package.
    """
    classes, pipelines = _travelling_classes(folder)
    files = {inspect.getfile(class_) for class_ in (*classes.values(), *pipelines.values())}
    return sorted(map(Path, files.union(*map(get_relative_import_files, files))))


def forget_missing_code(folder: Path) -> None:
    """Remove names of code that is not in the folder from ``config.json``.

    ``save_pretrained`` of a model that came with code writes the names without the code, and loading with
    ``trust_remote_code=True`` would fail. Names of another repository's code stay.
    """
    path = folder / "config.json"
    entries = read_mapping(path)

    def is_there(entry: Any) -> bool:
        """Whether the code is there: of a model, of a slow and a fast tokenizer, or of a pipeline."""
        places = entry["impl"] if isinstance(entry, dict) else entry
        return all(
            "--" in place or (folder / f"{place.split('.')[0]}.py").is_file()
            for place in ([places] if isinstance(places, str) else places)
            if place is not None
        )

    kept = dict(entries)
    for field in ("auto_map", "custom_pipelines"):
        if named := {name: entry for name, entry in kept.pop(field, {}).items() if is_there(entry)}:
            kept[field] = named
    if kept != entries:
        _write(path, kept)


def _write(path: Path, entries: dict[str, Any]) -> None:
    path.write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _travelling_classes(folder: Path) -> tuple[dict[str, type], dict[str, type[SourceToTargetPipeline]]]:
    """The config and models of a folder by their Auto classes, and its pipelines by their tasks."""
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    if not type(config).__module__.startswith("attnzoo."):
        raise ValueError(f"{folder} holds a {type(config).__name__}, whose code is not attnzoo's; push it without code")
    data = ModelCard.load(folder / "README.md").data
    tags = [*(data.tags or []), data.pipeline_tag]
    pipelines = {task: class_ for task, class_ in PIPELINES.items() if class_.card_tag in tags}
    return {"AutoConfig": type(config), **auto_classes(config)}, pipelines


def _place(class_: type) -> str:
    return f"{class_.__module__.rsplit('.', 1)[-1]}.{class_.__name__}"
