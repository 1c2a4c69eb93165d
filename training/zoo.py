"""Write all that is said of the trained models from their records: ``python -m attnzoo.training.zoo``.

A record is ``record.json`` beside the weights, in a folder next to a ``pyproject.toml``. The command updates what the
files of each folder say, and writes

- the record, the card and the Hub's figures of every model
- the catalogue ``attnzoo/catalogue.json``, from which :func:`attnzoo.list_models` and ``attnzoo list`` read
- the tables of models in ``README.md`` and ``docs/models.md``
- the models of every package in its ``pyproject.toml``: a model is in the package that its record names

``--check`` writes nothing, and names the files that are out of date. ``training/retrain.py`` trains the models again.
"""

import itertools
import json
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from attnzoo.catalogue import first_figures, languages_of, license_name
from attnzoo.commands.parsers import command_parser
from attnzoo.configuration_attentional_rnn import PAPERS as RNN_PAPERS
from attnzoo.configuration_attentional_rnn import AttentionalRNNConfig
from attnzoo.configuration_self_attentive import PAPERS as CLASSIFIER_PAPERS
from attnzoo.configuration_self_attentive import SelfAttentiveConfig
from attnzoo.configuration_small_transformer import PAPERS as TRANSFORMER_PAPERS
from attnzoo.configuration_small_transformer import SmallTransformerConfig
from attnzoo.installing import SHELF

from .card import EVAL_RESULTS, write_released
from .commands.exits import exit_on_user_error
from .markdown import code, escaped
from .recipe import load_recipe
from .record import RECORD, read_figures, read_record, with_files

START, END = "written by python -m attnzoo.training.zoo", "end of the zoo"
SECTION = re.compile(rf"^([^\n]*{re.escape(START)}[^\n]*\n).*?^([^\n]*{re.escape(END)})", re.DOTALL | re.MULTILINE)
README, PAGE, CATALOGUE = Path("README.md"), Path("docs/models.md"), Path("attnzoo/catalogue.json")
COLUMNS = ["model", "what it does, on which data, after which paper", "MB", "test split"]
# The most alike model agrees on the earliest of these fields; of several it is the largest, as the papers' are larger.
LIKENESS: dict[type[AttentionalRNNConfig | SelfAttentiveConfig | SmallTransformerConfig], tuple[str, ...]] = {
    AttentionalRNNConfig: ("wiring", "copy", "coverage", "score", "window", "cell", "input_feeding", "bidirectional"),
    SelfAttentiveConfig: ("sentence_pair", "compare_hops"),
    SmallTransformerConfig: ("attention_pattern", "decoder_mixer"),
}


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = command_parser("python -m attnzoo.training.zoo", "Write all that is said of the trained models.")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository (default: the working directory)")
    parser.add_argument("--check", action="store_true", help="only name the files that are out of date")
    options = parser.parse_args(arguments)
    with exit_on_user_error():
        if not options.check:
            write_zoo(options.root)
        elif late := out_of_date(options.root):
            sys.exit("\n".join(["out of date; run python -m attnzoo.training.zoo:", *map(str, late)]))


def write_zoo(root: Path) -> None:
    """Write all files that are out of date.

    Raises:
        FileNotFoundError: no folder has a record, or a file to write into is missing.
        ValueError: a file of a model is damaged, a file has no place for its part, a record names a package that no
            folder has or another model than its folder, or two models have one name.
    """
    for path, content in contents(root).items():
        if content is None:
            (root / path).unlink()
        elif not _is_there(root / path, content):
            (root / path).parent.mkdir(exist_ok=True)
            (root / path).write_bytes(content)


def out_of_date(root: Path) -> list[Path]:
    """The files that :func:`write_zoo` would change."""
    written = contents(root)
    return sorted(path for path, of_file in written.items() if not _is_there(root / path, of_file))


def _is_there(path: Path, content: bytes | None) -> bool:
    return path.is_file() and path.read_bytes() == content


def contents(root: Path) -> dict[Path, bytes | None]:
    """Every file that is written from the records, with its content; None for one that is to be removed.

    Raises:
        FileNotFoundError, ValueError: as for :func:`write_zoo`.
    """
    packaged = sorted(path.parent for path in root.glob("*/pyproject.toml"))
    folders = [path.parent for folder in packaged for path in sorted(folder.glob(f"*/{RECORD}"))]
    if not folders:
        raise FileNotFoundError(
            f"{root.resolve()} has no {RECORD} in a folder beside a pyproject.toml; run this in the repository"
        )
    files: dict[Path, bytes | None] = {}
    models: list[dict[str, Any]] = []
    for folder in folders:
        place = folder.relative_to(root)
        of_model = _model_files(folder, place)
        models.append(json.loads(of_model[Path(RECORD)] or b"") | {"folder": place.as_posix()})
        files |= {place / name: content for name, content in of_model.items()}
    models.sort(key=lambda model: model["name"])
    for one, other in itertools.pairwise(models):
        if one["name"] == other["name"]:
            raise ValueError(f"{one['folder']} and {other['folder']} have one name; give each model its own")
    files[CATALOGUE] = _json(
        {"models": [_public(model) for model in models], "architectures": architectures(models, root)}
    )
    for path, table in ((README, index(models)), (PAGE, overview(models))):
        files[path] = with_sections((root / path).read_text(encoding="utf-8"), path, f"\n{table}\n\n").encode()
    return files | packages(models, root)


def _model_files(folder: Path, place: Path) -> dict[Path, bytes | None]:
    """What is written into the folder of a model; None for figures of other data, which are to be removed."""
    recipe, run, record = load_recipe(folder / "recipe.yaml"), read_figures(folder), read_record(folder)
    if record is None or record["name"] != folder.name:
        raise ValueError(f"{place / RECORD} must have the name of its folder, {folder.name!r}")
    record = with_files(record, folder, recipe, run, folder.parent)
    if record["package"] is None:
        record["package"] = _project(folder.parent / "pyproject.toml")
    with TemporaryDirectory() as name:
        written = Path(name)
        for file in folder.iterdir():
            if file.suffix in (".json", ".png"):
                shutil.copy(file, written)
        write_released(written, place, record, recipe, run)
        names = [Path(RECORD), Path("README.md"), *(p.relative_to(written) for p in written.glob(f"{EVAL_RESULTS}/*"))]
        late = dict.fromkeys(path.relative_to(folder) for path in folder.glob(f"{EVAL_RESULTS}/*.yaml"))
        return late | {path: (written / path).read_bytes() for path in names}


def _public(model: dict[str, Any]) -> dict[str, Any]:
    """The part of a record that the package has: without the texts of its card."""
    return {key: value for key, value in model.items() if key not in ("card", "tags", "decodes")}


def architectures(models: list[dict[str, Any]], root: Path) -> dict[str, dict[str, str]]:
    """For every architecture that ``from_paper`` knows its config class and the model that is most like it."""
    found = {}
    for (config_class, fields), papers in zip(
        LIKENESS.items(), (RNN_PAPERS, CLASSIFIER_PAPERS, TRANSFORMER_PAPERS), strict=True
    ):
        configs = {
            model["name"]: config_class.from_pretrained(root / model["folder"])
            for model in sorted(models, key=lambda model: -model["bytes"])
            if model["model_type"] == config_class.model_type
        }
        for paper in papers if configs else ():
            wanted = config_class.from_paper(paper)
            alike = {
                name: [getattr(config, field) == getattr(wanted, field) for field in fields]
                for name, config in configs.items()
            }
            nearest = max(alike, key=lambda name: (alike[name], name.startswith(paper.partition("-")[0])))
            found[paper] = {"config": config_class.__name__, "model": nearest}
    return found


def index(models: list[dict[str, Any]]) -> str:
    """The table of the README, a row for every model that is not of the shelf, as Markdown."""
    return _table(COLUMNS, [_row(model) for model in models if model["package"] != SHELF])


def _row(model: dict[str, Any]) -> list[str]:
    papers = ", ".join(f"[{paper['name']}]({paper['url']})" for paper in model["papers"])
    return [
        f"[{_name(model)}]({model['folder']})",
        f"{model['task'].replace('-', ' ')}; {escaped(model['data'])}; {papers}",
        f"{model['bytes'] / 1e6:.1f}",
        ", ".join(first_figures(model)),
    ]


def _name(model: dict[str, Any]) -> str:
    """The name of a model as code in a table."""
    return code(model["name"]).replace("|", r"\|")


def overview(models: list[dict[str, Any]]) -> str:
    """The table of the page about models: what one needs to choose a model and to use it."""
    header = ["model", "task", "languages", "parameters", "licence", "commercial use", "version", "package"]
    rows = [
        [
            f"[{_name(model)}](../{model['folder']}/README.md)",
            model["task"],
            languages_of(model),
            f"{model['parameters']:,}",
            f"[{license_name(model)}]({model['license']['url']})" if model["license"] else license_name(model),
            "yes" if model["commercial"] else "no",
            str(model["version"]),
            f"`{model['package']}`",
        ]
        for model in models
    ]
    return _table(header, rows)


def _table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *rows])


def packages(models: list[dict[str, Any]], root: Path) -> dict[Path, bytes]:
    """The files ``pyproject.toml`` of all packages, each with the models whose records name it."""
    files = {}
    named = set()
    for path in sorted(path.relative_to(root) for depth in ("", "*/") for path in root.glob(f"{depth}pyproject.toml")):
        text, package = (root / path).read_text(encoding="utf-8"), _project(root / path)
        named.add(package)
        module = "attnzoo.models" if package == "attnzoo" else package.replace("-", "_")
        places = {
            f'"{module}.{model["name"].replace("-", "_")}"': Path(
                os.path.relpath(model["folder"], path.parent)
            ).as_posix()
            for model in models
            if model["package"] == package
        }
        lists = [
            "".join(f"    {name},\n" for name in places),  # packages
            "".join(f'{name} = "{place}"\n' for name, place in places.items()),  # package-dir
            "".join(f'{name} = ["*", "{EVAL_RESULTS}/*"]\n' for name in places),  # package-data
        ]
        files[path] = with_sections(text, path, *lists).encode()
    if homeless := [model for model in models if model["package"] not in named]:
        raise ValueError(
            f"{homeless[0]['folder']}/{RECORD} names the package {homeless[0]['package']!r}; there are "
            f"{', '.join(sorted(named))}"
        )
    return files


def _project(path: Path) -> str:
    """The name of the package of a ``pyproject.toml``."""
    name: str = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["name"]
    return name


def with_sections(text: str, path: Path, *sections: str) -> str:
    """The text of a file with these sections between its marks.

    Raises:
        ValueError: it has not as many pairs of marks.
    """
    if len(SECTION.findall(text)) != len(sections):
        raise ValueError(
            f"{path} must have {len(sections)} times a line with {START!r} and a later line with {END!r}, for what is "
            "written between them"
        )
    left = iter(sections)
    return SECTION.sub(lambda found: f"{found[1]}{next(left)}{found[2]}", text)


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


if __name__ == "__main__":
    main()
