"""``attnzoo list``: the catalogue as a table, as JSON, or the lines that load a model."""

import json
from typing import Any

from ..catalogue import first_figures, languages_of, license_name, list_models, loading_lines, model_info, summary
from .parsers import list_parser


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    options = vars(list_parser().parse_intermixed_args(arguments))
    as_json, pattern = options.pop("json"), options.pop("pattern")
    if not {"*", "?", "["} & {*pattern}:
        model_info(pattern)  # raises an error that names the nearest model
    models = [model_info(name) for name in list_models(pattern, **options)]
    if as_json:
        print(json.dumps(models, indent=1, ensure_ascii=False))
    elif not models:
        raise ValueError("no trained model fits all of these options")
    elif [model["name"] for model in models] == [pattern]:
        _print_one(models[0])
    else:
        _print_table(models)


def _print_one(model: dict[str, Any]) -> None:
    """The lines that load a model, after comments that say what it is."""
    sources = [f"{source['name']} ({license_name(source)})" for source in model["sources"]]
    size, where = f"{model['bytes'] / 1e6:.1f} MB", f"version {model['version']}, in the package {model['package']}"
    where += "".join(f" (version {one['version']}: commit {one['commit'][:7]})" for one in model["earlier"])
    print(f"# {summary(model)}")
    print(f"# 95 % intervals: {', '.join(_intervals(model)) or 'not measured'}")
    print(f"# made from {'; '.join(sources)}")
    print(f"# {size}, {where}; measured by {model['command']}; SHA-256 of the weights {model['sha256']}")
    print(loading_lines(model))


def _intervals(model: dict[str, Any]) -> list[str]:
    """The intervals of all figures on the test split, such as "PER 6.66 to 7.02 %"."""
    known = [figure for figure in model["figures"] if figure["split"] == "test" and figure["low"] is not None]
    return [f"{one['name']} {one['low']:.2f} to {one['high']:.2f} {one['unit']}".rstrip() for one in known]


def _print_table(models: list[dict[str, Any]]) -> None:
    rows = [["name", "task", "languages", "MB", "licence", "commercial", "test figure"]]
    rows += [
        [
            model["name"],
            model["task"],
            languages_of(model),
            f"{model['bytes'] / 1e6:.1f}",
            license_name(model),
            "yes" if model["commercial"] else "no",
            first_figures(model)[0],
        ]
        for model in models
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
