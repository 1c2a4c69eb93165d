"""The record of a model: every fact about its weights, in ``record.json`` beside them.

Cards, tables, the Hub's metadata and the catalogue of the package are written from records; see ``card.py`` and
``zoo.py``. :func:`make_record` needs the data, since a task's texts depend on them. :func:`with_files` updates
what the files and the known data say. It needs no data.
"""

import json
import math
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from transformers import AutoConfig

from attnzoo.catalogue import list_models, model_info
from attnzoo.json_files import checksum, read_mapping

from .architecture import PAPERS, architecture
from .commands.parsers import shipped_recipes
from .data.known import find_known
from .data.licenses import License, Origin
from .data.pronunciations import EXTRA_WORDS
from .data.text_files import short
from .data.word_vectors import KNOWN_VECTORS
from .markdown import one_line
from .recipe import Recipe, hub_id, load_recipe
from .tasks import TASKS
from .tasks.base import Task

RECORD = "record.json"
DTYPES = {"F16": "float16", "BF16": "bfloat16", "F32": "float32"}  # as safetensors and as torch name them

# What a record must have, and the types. The other keys are written anew from the files of the folder.
_LICENSE: dict[str, Any] = {"name": str, "commercial": bool, "url": str, "terms": str | None}
_KEYS: dict[str, Any] = {"name": str, "version": int, "earlier": list, "package": str | None, "task": str, "data": str}
_KEYS |= {"pipeline": str | None, "pipeline_tag": str | None, "tags": list, "languages": list, "sha256": str}
_KEYS |= {"license": dict | None, "figures": list, "decodes": bool, "example": object, "limits": str, "card": dict}
_FIGURE = dict.fromkeys(("split", "key", "name", "unit"), str)
_CARD: dict[str, Any] = {"snippet": str, "usage": str, "metric_note": str, "split_note": str | None, "pictures": dict}
_CARD |= {"published": str | None}

# The figures that run.json must have, and their types.
FIGURES: dict[str, Any] = {name: int for name in ("steps", "seed", "processes", "threads")}
FIGURES |= {"minutes": float | int, "precision": str, "validation": dict}


def read_figures(folder: Path) -> dict[str, Any]:
    """The figures in ``run.json`` of a folder.

    Raises:
        FileNotFoundError: the folder has no ``run.json``.
        ValueError: it is damaged, or lacks a figure.
    """
    if not (folder / "run.json").is_file():
        raise FileNotFoundError(
            f"{folder} is not a released model: it has no run.json; `attnzoo release RUN NEW_FOLDER` makes one from a "
            "finished run"
        )
    run = read_mapping(folder / "run.json")
    if missing := [name for name, kind in FIGURES.items() if not isinstance(run.get(name), kind)]:
        raise ValueError(f"{folder / 'run.json'} is damaged: it has no {', '.join(missing)}")
    return run


def read_record(folder: Path) -> dict[str, Any] | None:
    """The record in a folder; None if it has none.

    Raises:
        ValueError: it is damaged, or lacks what does not follow from the other files.
    """
    path = folder / RECORD
    if not path.is_file():
        return None
    record = read_mapping(path)
    wrong = _wrong(record, _KEYS)
    if not wrong:
        wrong = [f"card.{key}" for key in _wrong(record["card"], _CARD)]
        wrong += [f"figures.{key}" for figure in record["figures"] for key in _wrong(figure, _FIGURE)]
        wrong += [f"license.{key}" for key in _wrong(record["license"] or {}, _LICENSE if record["license"] else {})]
    if wrong:
        raise ValueError(f"{path} is no record of a model: it has no valid {', '.join(dict.fromkeys(wrong))}")
    return record


def _wrong(values: Any, kinds: dict[str, Any]) -> list[str]:
    """The keys that are missing or of another type."""
    there = values if isinstance(values, dict) else {}
    return [key for key, kind in kinds.items() if key not in there or not isinstance(there[key], kind)]


def make_record(
    folder: Path, recipe: Recipe, task: Task, run: dict[str, Any], name: str, replaced: Path | None = None
) -> dict[str, Any]:
    """The record of the model in ``folder``, which will be called ``name``.

    Args:
        folder: the checkpoint, with its config and its weights.
        recipe: what it was trained from.
        task: the task of the recipe, which has read the data.
        run: the figures of the run; a released model has those of the test split under "test".
        name: the name of the model.
        replaced: the folder that the model will replace. If that has a record of other weights, the version is counted
            up, and the record says which the earlier weights were and in which commit they are.

    A figure that is not finite in one of the splits is left out, except the one that chose the weights: a group of
    words may be in one split alone, and a perplexity may be too large for a number.

    Raises:
        ValueError: a figure is of a wrong type or not finite, or a record is damaged.
        OSError: the weights are damaged.
    """
    words, before = task.card, None if replaced is None else read_record(replaced)
    languages = [words.language] if isinstance(words.language, str) else words.language or []
    example = json.dumps(words.example, ensure_ascii=False)
    splits = [split for split in ("validation", "test") if isinstance(run.get(split), dict)]
    figures = [
        {"split": split, "key": key, "name": metric, "unit": task.units.get(key, "").strip()}
        for split in splits
        for key, metric in task.metric_names.items()
        if key == task.metric or all(_is_finite(run[one], key) for one in splits)
    ]
    record = {
        "name": name,
        "version": 1,
        "earlier": [],
        "package": None,
        "task": words.pipeline_tag or words.tags[0],
        "pipeline_tag": words.pipeline_tag,
        "pipeline": words.pipeline or words.pipeline_tag,
        "tags": [*words.tags],
        "languages": languages,
        "data": one_line(task.name),
        "license": words.license and asdict(words.license),
        "figures": figures,
        "decodes": task.num_beams is not None,
        "example": words.example,
        "limits": words.limits,
        "card": {
            "snippet": words.snippet.replace("{example}", example),
            "usage": words.usage,
            "metric_note": words.metric_note,
            "split_note": words.split_note,
            "pictures": words.pictures,
            "published": words.published,
        },
    }
    if before is not None:
        record |= {key: before[key] for key in ("version", "earlier", "package")}
    record = with_files(record, folder, recipe, run, (replaced or folder).parent)
    if replaced is not None and before is not None and before["sha256"] != record["sha256"]:
        earlier = {"version": before["version"], "sha256": before["sha256"], "commit": _commit_of(replaced)}
        record |= {"version": before["version"] + 1, "earlier": [*before["earlier"], earlier]}
    return record


def _is_finite(figures: dict[str, Any], key: str) -> bool:
    """Whether a figure and the bounds of its interval are no infinite numbers and no NaN."""
    values = [figures.get(f"{key}{end}") for end in ("", "_low", "_high")]
    return all(math.isfinite(value) for value in values if isinstance(value, float))


def with_files(
    record: dict[str, Any], folder: Path, recipe: Recipe, run: dict[str, Any], beside: Path
) -> dict[str, Any]:
    """The record, with what the files and the known data say.

    Args:
        record: the record; what depends on the data must be in it.
        folder: the files of the model.
        recipe: what it was trained from.
        run: the figures of the run.
        beside: the folder of other released models, which may be its teachers.

    Raises:
        ValueError: a figure is of a wrong type or not finite.
        OSError: the weights are damaged.
    """
    check_run(run, [figure["key"] for figure in record["figures"]])
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    known = find_known(recipe.task.data.path, TASKS[recipe.task.name].known_data)
    license_ = asdict(known.license) if known is not None and known.license is not None else record["license"]
    sources = [asdict(source) for source in origins(recipe, beside)]
    _, papers = architecture(config)
    weights = folder / "model.safetensors"
    parameters, dtypes = _sizes(weights)
    allowed = [license_, *(source["license"] for source in sources)]
    return record | {
        "model_type": config.model_type,
        "papers": [{"key": key, **PAPERS[key]._asdict()} for key in papers],
        "dataset": hub_id(recipe),
        "parameters": parameters,
        "dtype": "/".join(DTYPES.get(dtype, dtype) for dtype in dtypes),
        "bytes": weights.stat().st_size,
        "sha256": checksum(weights),
        "license": license_,
        "commercial": all(of_one is not None and of_one["commercial"] for of_one in allowed),
        "sources": sources,
        "figures": [_measured(figure, run, recipe, record["decodes"]) for figure in record["figures"]],
        "command": f"attnzoo evaluate {shlex.quote(record['name'])}",
    }


def check_run(run: dict[str, Any], metrics: list[str]) -> None:
    """Raise a ValueError for a figure that a card cannot show: ``run.json`` may come from elsewhere."""
    kinds = FIGURES | {"averaged": int, "git_commit": str, "note": str, "test": dict, "versions": dict}
    shown = [("", run, {name: kind for name, kind in kinds.items() if run.get(name) is not None})]
    for split in ("validation", "test"):
        if isinstance(of_split := run.get(split), dict):
            numbers = {"examples": int, **dict.fromkeys(metrics, float | int)}
            others = ["num_beams", "length_penalty", *(f"{key}_{end}" for key in metrics for end in ("low", "high"))]
            given = {name: float | int for name in others if name in of_split}
            shown.append((f"{split}.", of_split, numbers | given))
    for place, figures, kinds in shown:
        for name, kind in kinds.items():
            value = figures.get(name)
            is_kind = isinstance(value, kind) and not isinstance(value, bool)
            if not is_kind or (isinstance(value, float) and not math.isfinite(value)):
                raise ValueError(
                    f"run.json has {place}{name}={short(repr(value))}, which a card cannot show; correct it, or train "
                    "again"
                )


def origins(recipe: Recipe, beside: Path) -> list[Origin]:
    """All that the weights of a recipe were made from: its data, and those of the models that it started or learned
    from, which are in the folder ``beside``, in the catalogue, or trained from a shipped recipe. An unknown source has
    only its name.
    """
    return [*dict.fromkeys(_origins(recipe, beside, set()))]


def _origins(recipe: Recipe, beside: Path, seen: set[str]) -> Iterator[Origin]:
    data = recipe.task.data
    known = find_known(data.path, TASKS[recipe.task.name].known_data)
    yield from [Origin(name=Path(data.path).name)] if known is None or not known.sources else known.sources
    if (vectors := getattr(data, "word_vectors", None)) is not None:
        yield KNOWN_VECTORS.get(Path(vectors).name, Origin(name=Path(vectors).name))
    if (words := getattr(data, "extra_words", None)) is not None:
        yield from EXTRA_WORDS.get(Path(words).name, (Origin(name=Path(words).name),))
    for folder in filter(None, (recipe.training.start_from, *recipe.training.teachers)):
        run = folder.rstrip("/").removesuffix("/best")
        name = Path(run).name if Path(run).is_absolute() else run.removeprefix("runs/")
        if run not in seen:
            seen.add(run)
            if (path := _recipe_of(folder, run, beside / name, name)) is not None:
                yield from _origins(load_recipe(path), beside, seen)
            elif name in list_models() and not (Path(folder).is_absolute() or Path(folder).exists()):
                yield from map(_origin, model_info(name)["sources"])
            else:
                yield Origin(name=name)


def _recipe_of(folder: str, run: str, released: Path, name: str) -> Path | None:
    """The recipe of a model that another one starts or learns from; None if it is not known.

    A folder that is here says itself what it was trained from. In place of one that is not here stands a released
    model of its name, or the shipped recipe that its run is named after.
    """
    recipes = [Path(place, "recipe.yaml") for place in (folder, run)]
    if not (Path(folder).exists() or recipes[1].is_file() or Path(folder).is_absolute()):
        shipped = shipped_recipes() if folder.startswith("runs/") else {}
        recipes += [released / "recipe.yaml", shipped.get(Path(run).name, released)]
    return next((path for path in recipes if path.is_file()), None)


def _origin(source: dict[str, Any]) -> Origin:
    """An origin, from a record."""
    return Origin(**(source | {"license": source["license"] and License(**source["license"])}))


def _sizes(weights: Path) -> tuple[int, list[str]]:
    """The number of parameters, and their dtypes."""
    try:
        with safe_open(weights, framework="pt") as opened:
            slices = [opened.get_slice(name) for name in opened.keys()]  # noqa: SIM118
            return sum(math.prod(of_one.get_shape()) for of_one in slices), sorted({s.get_dtype() for s in slices})
    except SafetensorError as error:
        raise OSError(f"{weights} is damaged or incomplete: {error}") from error


def _measured(figure: dict[str, Any], run: dict[str, Any], recipe: Recipe, decodes: bool) -> dict[str, Any]:
    """A figure with its value and, where the run has one, its confidence interval."""
    of_split = {"num_beams": recipe.training.num_beams} | run[figure["split"]]
    bounds = {bound: of_split.get(f"{figure['key']}_{bound}") for bound in ("low", "high")}
    beams = of_split["num_beams"]
    decoding = "greedy" if beams == 1 else f"beam {beams}"
    if "length_penalty" in of_split:
        decoding += f", length penalty {of_split['length_penalty']}"
    return figure | {
        "examples": of_split["examples"],
        "value": round(of_split[figure["key"]], 2),
        **{bound: None if value is None else round(value, 2) for bound, value in bounds.items()},
        "decoding": decoding if decodes else None,
    }


def _commit_of(folder: Path) -> str | None:
    """The commit of Git that has the files of a folder; None if there is none, as after changes."""
    changed, last = ["git", "status", "--porcelain", "."], ["git", "log", "-1", "--format=%H", "--", "."]
    try:
        if subprocess.run(changed, cwd=folder, capture_output=True, text=True, check=False).stdout.strip():
            return None
        said = subprocess.run(last, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:  # no git
        return None
    return said.stdout.strip() or None
