"""A model's code beside its weights, for users who have not installed attnzoo (``trust_remote_code=True``)."""

import json
import shutil
import sys
from pathlib import Path

from huggingface_hub import ModelCard
from transformers import AutoConfig
from transformers.dynamic_module_utils import get_relative_import_files

from ..pipelines import PIPELINES, SourceToTargetPipeline
from ..registered_models import auto_classes

HEADING = "## Without attnzoo"
IN_CARD = f"""

{HEADING}

The model's code is in this repository. Who has not installed attnzoo leaves `import attnzoo` out and gives
`trust_remote_code=True` to every `from_pretrained` and `pipeline`; pin what was read with `revision=`.
"""


def add_code(folder: Path) -> None:
    """Put the code that a model needs beside it, its classes into ``config.json`` and what to do into the card.

    The files of its classes with all that they import of each other, flat as they are here, and an entry for every Auto
    class that the model serves: of a causal Transformer not those of a masked one. The pipeline of the card's tags or
    ``pipeline_tag`` comes along.

    Raises:
        ValueError: the model is none of this package.
    """
    classes, pipelines = _travelling_classes(folder)
    path = folder / "config.json"
    entries = json.loads(path.read_text(encoding="utf-8"))
    entries.pop("custom_pipelines", None)  # of what it was fine-tuned from
    entries["auto_map"] = {name: _place(class_) for name, class_ in classes.items()}
    if pipelines:
        entries["custom_pipelines"] = {
            task: {"impl": _place(class_), "pt": [class_.auto_class.__name__]} for task, class_ in pipelines.items()
        }
    path.write_text(json.dumps(entries, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    for source in code_files(folder):
        shutil.copyfile(source, folder / source.name)
    if HEADING not in ModelCard.load(folder / "README.md").text:
        with open(folder / "README.md", "a", encoding="utf-8") as file:  # the rest stays as it was written
            file.write(IN_CARD)


def code_files(folder: Path) -> list[Path]:
    """The files of this package that :func:`add_code` puts beside a model, in alphabetical order.

    Raises:
        ValueError: the model is none of this package.
    """
    classes, pipelines = _travelling_classes(folder)
    modules = {
        Path(str(sys.modules[class_.__module__].__file__)) for class_ in (*classes.values(), *pipelines.values())
    }
    return sorted(modules.union(*(map(Path, get_relative_import_files(module)) for module in modules)))


def forget_missing_code(folder: Path) -> None:
    """Take the names of code that is not in the folder out of ``config.json``.

    Of a model that came with code ``save_pretrained`` keeps the names and leaves the code; whoever trusted them would
    look for files that are not there. Names of another repository's code stay.
    """
    path = folder / "config.json"
    entries = json.loads(path.read_text(encoding="utf-8"))

    def is_there(place: str) -> bool:
        return "--" in place or (folder / f"{place.split('.')[0]}.py").is_file()

    kept = {
        "auto_map": {name: place for name, place in entries.get("auto_map", {}).items() if is_there(place)},
        "custom_pipelines": {
            task: entry for task, entry in entries.get("custom_pipelines", {}).items() if is_there(entry["impl"])
        },
    }
    if any(named != entries.get(name, {}) for name, named in kept.items()):
        entries = {name: value for name, value in entries.items() if name not in kept}
        entries |= {name: named for name, named in kept.items() if named}
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
