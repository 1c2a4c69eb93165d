"""README and docs: snippets run and print the shown output, commands exist, links and anchors have a target."""

import ast
import importlib.util
import io
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from itertools import pairwise
from pathlib import Path

import pytest
from attnzoo.training.recipe import load_recipe

from attnzoo import AttentionalRNNConfig, installing
from attnzoo.attention import SCORES
from attnzoo.cli import COMMANDS, main
from tests.package.snippets import Block, blocks, run_alone

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
install_lines = importlib.import_module("install_lines")
README, CONTRIBUTING, *DOCS = PATHS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PATHS}
BLOCKS = [(name, block) for name, page in PAGES.items() for block in blocks(page)]
SNIPPETS = [
    pytest.param(block, id=f"{Path(name).stem}-{re.sub(r'[^a-z]+', '-', block.code.splitlines()[-1].lower())[:40]}")
    for name, block in BLOCKS
    if block.runs
]


# Snippets ------------------------------------------------------------------------------------------------------------


def run_commands(console: str) -> list[tuple[str, str]]:
    """The output of each command ``attnzoo`` of a block ``console``, in this process, and that in the block."""
    shown = re.findall(r"^\$ attnzoo (.*)\n((?:(?!\$ ).*\n)*)", console, flags=re.MULTILINE)
    assert len(shown) == len(re.findall(r"^\$ ", console, flags=re.MULTILINE)) > 0
    compared = []
    for arguments, output in shown:
        with redirect_stdout(io.StringIO()) as printed:
            main(shlex.split(arguments))
        compared.append((printed.getvalue(), output))
    return compared


@pytest.mark.parametrize("block", SNIPPETS)
def test_a_snippet_works_when_it_is_copied_alone(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if block.language == "console":
        compared = run_commands(block.code)
    else:
        compared = [(run_alone(block.code, tmp_path), block.output or "...")]
    for printed, shown in compared:
        assert OutputChecker().check_output(shown, printed, ELLIPSIS | NORMALIZE_WHITESPACE), printed
    for name in re.findall(r"\b\w+\.(?:png|html)\b", block.code):  # what it draws
        assert (tmp_path / name).stat().st_size > 1000


def test_a_block_that_is_not_run_says_what_it_takes() -> None:
    """Python and ``console`` blocks run in the test above, unless their first line says what they need."""
    assert len(SNIPPETS) > 20
    for name, block in BLOCKS:
        assert block.language in ("python", "console", "sh", "text", "yaml"), (name, block)
        if block.language == "sh":
            assert re.match(r"# (Takes|Needs|Installs) .*[.:]?$", block.code.splitlines()[0]), (name, block)
        if block.language == "python":
            ast.parse(block.code)


def commands_shown() -> Iterator[tuple[str, list[str]]]:
    """Every command of the pages, split into words, from their ``sh`` and ``console`` blocks and from the text."""
    for name, page in PAGES.items():
        lines = re.findall(r"`((?:attnzoo|python -m|make) [^`\n]+)`", page)
        for block in blocks(page):
            of_block = block.code.replace("\\\n", " ").splitlines()
            if block.language == "sh":
                lines += of_block
            elif block.language == "console":  # the other lines are what the commands print
                lines += [line.removeprefix("$ ") for line in of_block if line.startswith("$ ")]
        for line in lines:
            for command in re.split(r" && | < ", line):
                words = [word for word in shlex.split(command, comments=True) if not re.match(r"[A-Z_]+=", word)]
                if words and not any(re.fullmatch(r"[A-Z]{2,}|\.\.\.|.*[./]NAME", word) for word in words):
                    yield name, words


def test_commands_exist_and_know_their_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those that take hours: names of commands, recipes, keys, modules, folders and targets of make."""
    monkeypatch.chdir(ROOT)
    makefile = (ROOT / "Makefile").read_text()
    seen = {"attnzoo": 0, "python": 0, "make": 0}
    for page, words in commands_shown():
        program, *rest = words
        seen[program] = seen.get(program, 0) + 1
        for word in rest:
            if re.match(r"(configs|docs|model_cards|tests|training)/", word):
                assert Path(word).exists(), (page, words)
        if program == "make":
            targets = {word for word in rest if "=" not in word}
            assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets), (page, words)
        elif program == "python" and rest[1].startswith(("attnzoo.", "tests.")):
            assert importlib.util.find_spec(rest[1]) is not None, (page, words)
        elif program == "attnzoo" and rest[0] in COMMANDS:
            with pytest.raises(SystemExit):
                main([rest[0], "--help"])
            known = capsys.readouterr().out
            assert all(option in known for option in rest if option.startswith("--")), (page, words)
            if rest[0] == "train" and rest[1:] and not rest[1].startswith("--"):
                changes = [after for option, after in pairwise(rest) if option == "--set"]
                load_recipe("demo" if Path(rest[1]).name == "recipe.yaml" else rest[1], changes)
        elif program == "attnzoo":
            assert rest[0].startswith("--"), (page, words)
    assert min(seen["attnzoo"], seen["python"], seen["make"]) > 5


def test_no_command_asks_an_index_for_packages_that_it_lacks() -> None:
    """Pages, cards, notebooks and messages name install commands that work today, those of ``attnzoo.installing``."""
    tracked = [
        *PATHS,
        *ROOT.glob("model_cards/*/README.md"),
        *ROOT.glob("notebooks/*.ipynb"),
        *ROOT.glob("space/*/*.*"),
    ]
    tracked += [*ROOT.glob("attnzoo/**/*.py"), *ROOT.glob("training/**/*.*"), *ROOT.glob("configs/*.yaml")]
    texts = {
        path: path.read_text(encoding="utf-8") for path in tracked if path.suffix in (".md", ".py", ".ipynb", ".yaml")
    }
    commands = [(path, found) for path, text in texts.items() for found in re.findall(r"pip install ([^\n#`;]*)", text)]
    named = [(path, re.sub(r'"attnzoo\S* @ git\S*', "", command)) for path, command in commands]
    asked = {path for path, command in named if re.search(r"(?<![/\w.])attnzoo", command)}
    assert bool(asked) == installing.ON_INDEX, asked


@pytest.mark.parametrize("path", install_lines.PAGES, ids=lambda path: path.stem)
def test_the_lines_that_install_are_todays(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert install_lines.with_lines(page) == page
    assert install_lines.lines() in page


def test_the_first_screen_has_the_commands_of_a_clone() -> None:
    first = next(block for name, block in BLOCKS if name == "README.md" and block.language == "sh")
    assert re.findall(r"^make \w+", first.code, flags=re.MULTILINE) == ["make demo", "make test"]
    assert PAGES["README.md"].index("make test") < 2600


# Pages ---------------------------------------------------------------------------------------------------------------


def test_the_readme_is_short() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 220


def test_nothing_is_left_to_fill_in() -> None:
    paths = [*PATHS, *ROOT.glob("configs/*.yaml"), *ROOT.glob("model_cards/*/README.md")]
    texts = [(path.relative_to(ROOT), path.read_text(encoding="utf-8")) for path in paths]
    assert not [path for path, text in texts if re.search(r"TODO|TBD|XXX|DEMO_|WHICH_|@[A-Z]+@", text)]


def anchors(page: str) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    without_code = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", without_code, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_links_anchors_and_pictures_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), target
        assert there.is_relative_to(ROOT), target
        assert not anchor or anchor in anchors(there.read_text(encoding="utf-8")), target


def test_the_index_and_the_readme_list_every_page() -> None:
    for path in DOCS:
        if path.name != "index.md":
            assert f"]({path.name})" in PAGES["docs/index.md"], path.name
            assert f"](docs/{path.name})" in PAGES["README.md"], path.name


def test_every_picture_of_the_docs_is_shown() -> None:
    pictures = {path.name for path in (ROOT / "docs").glob("*.png")}
    assert pictures == {
        Path(name).name for page in PAGES.values() for name in re.findall(r"\((?:docs/)?(\w+\.png)", page)
    }


@pytest.mark.parametrize("name", PAGES)
def test_a_table_of_figures_stands_beside_its_command(name: str) -> None:
    for section in re.split(r"^## ", PAGES[name], flags=re.MULTILINE):
        rows = re.findall(r"^\|.*\|$(?!\n\| ?---)", section, flags=re.MULTILINE)  # without headers
        if any(re.search(r"\| \d+\.\d+ ?[%(/|]", row) for row in rows):
            assert re.search(r"^```sh|`(?:attnzoo|make|python -m) ", section, flags=re.MULTILINE), section[:60]


def test_every_choice_of_the_config_is_in_the_table() -> None:
    # The fields are of Literal[...] or of Literal[...] | None; any registered score can be chosen.
    fields = AttentionalRNNConfig.__dataclass_fields__
    for field in ("wiring", "score", "window", "cell"):
        choices = re.findall(r"'(\w+)'", str(fields[field].type)) if field != "score" else ["none", *SCORES]
        row = next(line for line in PAGES["docs/models.md"].splitlines() if line.startswith(f"| `{field}`"))
        assert re.findall(r"`(\w+)`", row.split("|")[2]) == choices
