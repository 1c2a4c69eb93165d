"""Write the pages of the reference that come from the code: ``python docs/reference_pages.py``.

``docs/reference/recipe_keys.md`` has the keys of a recipe, from the dataclasses and their docstrings;
``docs/reference/command_line.md`` the options of every command, from its parser; ``docs/reference/files.md`` the first
sentence of every Python file. A test compares them with the code.
"""

import argparse
import ast
import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path

from attnzoo.training.recipe import CONFIGS, Training
from attnzoo.training.tasks import TASKS

from attnzoo.cli import COMMANDS

ROOT = Path(__file__).parents[1]
WRITTEN = "Written from the code by `python docs/reference_pages.py`."
Documented = dict[str, str]


def documented(owner: type) -> Documented:
    """What the docstrings of a class and its bases say of each attribute, in one line."""
    found: Documented = {}
    for one in reversed(owner.__mro__):
        section = re.split(r"\n\s*Attributes:\n", inspect.getdoc(one) or "")
        if len(section) < 2 or "__doc__" not in vars(one):
            continue
        body = re.split(r"\n(?=\S)", section[1])[0]  # up to the next section
        for names, text in re.findall(r"^    ([\w, ]+): ((?:.|\n {5,}|\n$)*)", body, re.MULTILINE):
            if not text.startswith("as for every"):  # what the base class says
                found |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return found


def keys(owner: type, hidden: frozenset[str] = frozenset()) -> Iterator[list[str]]:
    """Key, type, default and meaning of every field of a dataclass that its docstring describes."""
    meanings = documented(owner)
    for field in dataclasses.fields(owner):  # type: ignore[arg-type]
        if field.name in meanings and field.name not in hidden:
            kind = field.type if isinstance(field.type, str) else inspect.formatannotation(field.type)
            kind = re.sub(r"^typing\.Optional\[(.*)\]$", r"\1 | None", kind)
            kind = re.sub(r"(?:typing\.)?Literal\[([^]]*)\]", r"\1", kind)
            required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
            shown = "required" if required else f"`{json.dumps(default)}`"
            yield [f"`{field.name}`", f"`{kind}`", shown, plain(meanings[field.name])]


def plain(text: str) -> str:
    """A docstring's text as Markdown."""
    text = re.sub(r":(?:class|func|meth|mod):`~?([^`]+)`", r"`\1`", text)
    text = re.sub(r":math:`([^`]+)`", r"$\1$", text)
    return text.replace("``", "`")


def table(header: list[str], rows: Iterator[list[str]] | list[list[str]]) -> str:
    """Rows as a Markdown table."""
    cells = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def recipe_keys() -> str:
    """The page of a recipe's keys."""
    header = ["key", "type", "default", "meaning"]
    parts = [
        f"# Recipe keys\n\n{WRITTEN}\n\nA recipe is a YAML file with the sections `model`, `task`, `training` and "
        "`expected`. `--set section.key=value` changes a key on the command line. An unknown key is an error that "
        "names the nearest known one.\n\n## `training`\n\n" + table(header, keys(Training))
    ]
    for name, task in TASKS.items():
        parts.append(f"## `task.data` of `{name}`\n\n" + table(header, keys(task.data_class)))
    for name, config in CONFIGS.items():
        parts.append(f"## `model` with `model_type: {name}`\n\n" + table(header, keys(config)))
    return "\n\n".join(parts) + "\n"


def arguments(parser: argparse.ArgumentParser) -> Iterator[list[str]]:
    """Argument, values and meaning of everything that a command takes."""
    for action in parser._actions:
        if not isinstance(action, argparse._HelpAction):
            name = ", ".join(action.option_strings) or str(action.metavar or action.dest)
            values = ", ".join(map(str, action.choices)) if action.choices else ""
            if not values and action.option_strings and action.nargs != 0:
                values = str(action.metavar or action.dest.upper())
            text = (action.help or "") % {"default": action.default, "prog": parser.prog}
            yield [f"`{name}`", f"`{values}`" if values else "", text]


def command_line() -> str:
    """The page of the commands."""
    parts = [f"# Command line\n\n{WRITTEN} `attnzoo COMMAND --help` prints the same."]
    for name, command in COMMANDS.items():
        parser, purpose = command.parser(name), command.help
        example = re.sub(r"\s+", " ", parser.epilog or "").removeprefix("example: ")
        code = f"```sh\n{example}\n```\n\n" if example.startswith("attnzoo ") else ""
        rows = table(["argument", "values", "meaning"], arguments(parser))
        parts.append(f"## `attnzoo {name}`\n\n{purpose[0].upper()}{purpose[1:]}.\n\n{code}{rows}")
    return "\n\n".join(parts) + "\n"


def first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, as Markdown."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return plain(" ".join(re.split(r"(?<=[.!?])\s+(?=[A-Z])|::?\n\n|\n\n", text)[0].split()))


def files() -> str:
    """The page of the Python files of ``attnzoo/`` and ``training/``, by their folders."""
    parts = [f"# Files\n\n{WRITTEN} [Contributing](../../CONTRIBUTING.md#where-things-are) shows where to begin."]
    for top in ("attnzoo", "training"):
        # Without training/ and configs/, which a checkout may have as links in attnzoo/.
        folders = {path.parent for path in sorted((ROOT / top).glob("**/*.py")) if path.resolve() == path}
        for folder in sorted(folders):
            contents = {path: first_sentence(path) for path in sorted(folder.glob("*.py"))}
            about = contents.pop(folder / "__init__.py")
            rows = [
                [f"[`{path.name}`](../../{path.relative_to(ROOT).as_posix()})", contents[path]] for path in contents
            ]
            parts += [
                f"## `{folder.relative_to(ROOT).as_posix()}/`",
                *filter(None, [about]),
                table(["file", "content"], rows),
            ]
    return "\n\n".join(parts) + "\n"


PAGES = {"recipe_keys.md": recipe_keys, "command_line.md": command_line, "files.md": files}


def write(folder: Path) -> None:
    """Write the pages into a folder."""
    folder.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write(ROOT / "docs" / "reference")
