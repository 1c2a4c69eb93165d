"""The catalogue: which trained models there are, and what is known of each. It imports neither torch nor Transformers.

``catalogue.json`` has the records of all models. ``python -m attnzoo.training.zoo`` writes it from the files
``record.json`` beside the weights.
"""

import difflib
import fnmatch
import json
import re
from pathlib import Path
from types import UnionType
from typing import Any

CATALOGUE = Path(__file__).with_name("catalogue.json")
COMMERCIAL, NOT_COMMERCIAL = "commercial", "not-commercial"  # in place of the name of a licence
MANY_LANGUAGES = 4  # and more are counted where there is no room for all


def list_models(
    pattern: str = "*",
    *,
    task: str | None = None,
    paper: str | None = None,
    language: str | None = None,
    license: str | None = None,
    max_bytes: int | None = None,
) -> list[str]:
    """The names of the trained models that fit all that is asked, the smallest first.

    Args:
        pattern: a pattern of names, with ``*`` and ``?``, such as "*g2p*".
        task: the task, such as "translation".
        paper: a paper that the model follows: "luong2015", a part of its authors or title, its address, its number on
            arXiv, or a name that ``from_paper`` knows, which stands for its whole paper.
        language: a code of ISO 639, such as "sv".
        license: the identifier of a licence, such as "MIT"; or "commercial" for all models that may be redistributed
            and sold, or "not-commercial" for all others.
        max_bytes: the size of the weights, at most.

    Raises:
        TypeError: an argument is of another type.
        ValueError: no model at all has such a name, or this task, paper, language or licence.
    """
    texts = {"pattern": pattern, "task": task, "paper": paper, "language": language, "license": license}
    for key, text in texts.items():
        _require(key, text, str if key == "pattern" else str | None)
    _require("max_bytes", max_bytes, int | float | None)
    catalogue = _catalogue()
    models = catalogue["models"]
    values: dict[str, tuple[str | None, dict[str, set[str]]]] = {
        "task": (task, {model["name"]: {model["task"]} for model in models}),
        "language": (language, {model["name"]: {*model["languages"]} for model in models}),
        "license": (license, {model["name"]: _licenses(model) for model in models}),
    }
    found = [model for model in models if fnmatch.fnmatchcase(model["name"], pattern)]
    if not found:
        raise ValueError(f"no model has a name like pattern={pattern!r}; * stands for any letters, as in '*g2p*'")
    for key, (asked, of_model) in values.items():
        if asked is not None:
            known = set().union(*of_model.values())
            if asked.casefold() not in {value.casefold() for value in known}:
                raise ValueError(f"no model has {key}={asked!r}; there are {', '.join(sorted(known))}")
            found = [m for m in found if asked.casefold() in {value.casefold() for value in of_model[m["name"]]}]
    if paper is not None:
        followers = [model["name"] for model in models if _follows(model, paper, catalogue)]
        if not followers:
            keys = sorted({of_one["key"] for model in models for of_one in model["papers"]})
            raise ValueError(f"no model follows paper={paper!r}; there are {', '.join(keys)}")
        found = [model for model in found if model["name"] in followers]
    if max_bytes is not None:
        found = [model for model in found if model["bytes"] <= max_bytes]
    return [model["name"] for model in sorted(found, key=lambda model: model["bytes"])]


def model_info(name: str) -> dict[str, Any]:
    """All that the catalogue knows of a trained model. docs/models.md explains the keys.

    Raises:
        TypeError: the name is no string.
        ValueError: no trained model has this name. The message names those that are nearest: for an architecture that
            ``from_paper`` knows, the one that is most like it.
    """
    _require("name", name, str)
    catalogue = _catalogue()
    models = catalogue["models"]
    for model in models:
        if model["name"] == name:
            return dict(model)
    followers = [model["name"] for model in models if _follows(model, name, catalogue)]
    close = difflib.get_close_matches(name, [model["name"] for model in models], n=3)
    if nearest := _nearest(name, catalogue):
        hint = nearest
    elif followers:
        hint = f"; after this paper there are {', '.join(followers)}"
    elif close:
        hint = f"; did you mean {' or '.join(close)}?"
    else:
        hint = f"; choose one of {', '.join(model['name'] for model in models)}"
    raise ValueError(f"no trained model is named {name!r}{hint}")


def loading_lines(model: dict[str, Any]) -> str:
    """The three lines of Python that load a model, from its record."""
    place = f'attnzoo.model_path("{model["name"]}")'
    return f'import attnzoo\nfrom transformers import pipeline\nmodel = pipeline("{model["pipeline"]}", {place})'


def license_name(record: dict[str, Any]) -> str:
    """The name of the licence of a model or a source, from its record."""
    return str(record["license"]["name"]) if record["license"] else "none-stated"


def languages_of(model: dict[str, Any]) -> str:
    """The languages of a model, from its record; of a translator from which one it translates to which."""
    languages = model["languages"]
    if len(languages) >= MANY_LANGUAGES:
        return f"{len(languages)} languages"
    return ("→" if model["task"] == "translation" else ",").join(languages)


def first_figures(model: dict[str, Any]) -> list[str]:
    """The first two figures of a model on the test split, such as "PER 5.42 %", from its record."""
    tested = [figure for figure in model["figures"] if figure["split"] == "test"]
    return [f"{figure['name']} {figure['value']:.2f} {figure['unit']}".strip() for figure in tested[:2]]


def summary(model: dict[str, Any]) -> str:
    """What a model is, in one line, from its record."""
    papers = " and ".join(paper["name"] for paper in model["papers"])
    figures, use = ", ".join(first_figures(model)), "allowed" if model["commercial"] else "not allowed"
    return (
        f"{model['task']} ({languages_of(model)}) after {papers}; {figures} on the test split of "
        f"{model['data']}; {license_name(model)}: commercial use {use}"
    )


def _words(text: str) -> set[str]:
    return {*re.findall(r"\w+", text.casefold())}


def _require(key: str, value: object, kind: type | UnionType) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{key} must be {getattr(kind, '__name__', kind)}, got {value!r}")


def _catalogue() -> dict[str, Any]:
    catalogue: dict[str, Any] = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    return catalogue


def _licenses(model: dict[str, Any]) -> set[str]:
    """The licence of a model, and "commercial" if it and those of all sources allow that, else "not-commercial"."""
    return {license_name(model), COMMERCIAL if model["commercial"] else NOT_COMMERCIAL}


def _follows(model: dict[str, Any], paper: str, catalogue: dict[str, Any]) -> bool:
    asked, architectures = paper.casefold(), catalogue["architectures"]
    return any(
        asked in (of_one["key"], of_one["url"].casefold(), of_one["url"].casefold().rstrip("/").rpartition("/")[2])
        or (asked in architectures and asked.startswith(f"{of_one['key']}-"))
        or any(len(asked) > 2 and asked in of_one[field].casefold() for field in ("name", "title"))
        or (bool(words := _words(asked)) and words <= _words(f"{of_one['name']} {of_one['title']}"))
        for of_one in model["papers"]
    )


def _nearest(architecture: str, catalogue: dict[str, Any]) -> str:
    """The model most like an architecture of a paper, as the end of a sentence; empty if it is none."""
    nearest = catalogue["architectures"].get(architecture)
    if nearest is None:
        return ""
    config, name = nearest["config"], nearest["model"]
    return f"; it is an architecture, {config}.from_paper({architecture!r}), and the nearest trained model is {name}"
