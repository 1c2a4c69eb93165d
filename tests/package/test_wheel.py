"""The wheels, installed in an empty environment outside the checkout, as by a user."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from attnzoo import list_models, model_info
from attnzoo.installing import FOLDERS
from setup import long_description

ROOT = Path(__file__).parents[2]


def test_the_description_has_no_relative_link() -> None:
    """A package index shows the README by itself: links into the repository need its address, or are left out."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    relative = re.compile(r"\]\((?!https?://|#)")
    assert relative.search(readme)
    for repository in ("", "https://example.org/owner/attnzoo"):
        assert not relative.search(long_description(readme, repository))
    text = "a ![pic](docs/a.png)\n[file](x/y.py), [site](https://z.org), [below](#here)"
    assert long_description(text, "") == "a file, [site](https://z.org), [below](#here)"
    assert long_description(text, "https://h/o/r") == (
        "a ![pic](https://h/o/r/raw/main/docs/a.png)\n[file](https://h/o/r/blob/main/x/y.py), "
        "[site](https://z.org), [below](#here)"
    )


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All wheels, built from a clean copy of the tracked files."""
    folder = tmp_path_factory.mktemp("wheels")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, tracked.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder / "dist")]
    places = [str(folder / "source" / place) for place in (".", *FOLDERS.values())]
    subprocess.run([*build, *places], check=True)
    built = {path.name.split("-")[0].replace("_", "-"): path for path in (folder / "dist").glob("*.whl")}
    assert built.keys() == {"attnzoo", *FOLDERS}
    return built


@pytest.fixture(scope="module")
def environment(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty environment with the wheel and the extra ``[train]``, in the versions of constraints.txt."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
    install += ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*install, f"{wheels['attnzoo']}[train]"], check=True)
    return folder


def run(environment: Path, cwd: Path, *command: str) -> subprocess.CompletedProcess[str]:
    cwd.mkdir(exist_ok=True)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}
    program, *arguments = command
    command = (str(environment / "bin" / program), *arguments)
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True)


@pytest.mark.wheel
def test_the_wheel_holds_the_package_and_its_metadata(wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels["attnzoo"]) as wheel:
        names = wheel.namelist()
        metadata = Parser().parsestr(wheel.read(next(n for n in names if n.endswith("METADATA"))).decode())
    paths = [
        f"attnzoo/{path.relative_to(ROOT)}"
        for path in (*ROOT.glob("training/**/*.py"), *ROOT.glob("configs/**/*.yaml"))
    ]
    paths += [str(path.relative_to(ROOT)) for path in ROOT.glob("attnzoo/**/*.py")]
    assert not {*paths} - {*names}
    assert not [name for name in names if not name.startswith(("attnzoo/", "attnzoo-"))]
    assert metadata["Author"]
    assert "](docs/" not in metadata.get_payload()
    packaged: dict[str, set[str]] = {}
    for name, path in wheels.items():
        with zipfile.ZipFile(path) as wheel:
            weights = {n for n in wheel.namelist() if n.endswith("model.safetensors")}
        packaged[name] = {Path(weight).parent.name.replace("_", "-") for weight in weights}
    for model in list_models():
        assert [name for name, models in packaged.items() if model in models] == [model_info(model)["package"]]
    assert sum(map(len, packaged.values())) == len(list_models())
    for name, limit in {"attnzoo": 25e6, "attnzoo-models": 80e6, "attnzoo-shelf": 60e6}.items():
        assert wheels[name].stat().st_size < limit


@pytest.mark.wheel
def test_from_an_empty_environment_to_a_model_of_ones_own(
    environment: Path, wheels: dict[str, Path], tmp_path: Path
) -> None:
    said = run(environment, tmp_path, "attnzoo", "pronounce", "philosophy")
    assert said.stdout == "philosophy\tF AH0 L AA1 S AH0 F IY0\n", said.stderr
    said = run(environment, tmp_path, "attnzoo", "pronounce", "--phones", "kokoro", "--accent", "en-gb", "bath")
    assert said.stdout == "bath\tb\u02c8\u0251\u02d0\u03b8\n", said.stderr
    said = run(environment, tmp_path, "attnzoo", "pronounce", "--sentence", "--phones", "ipa", "Hello, 寿司 cat!")
    assert (said.stdout, said.returncode) == ("hə\u02c8loʊ, \u02c8kæt!\n", 1), said.stderr
    # Steps and not minutes, in which a slow machine learns too little to pronounce a word.
    steps = "--set", "training.max_minutes=null", "--set", "training.max_steps=300"
    trained = run(environment, tmp_path, "attnzoo", "train", "demo", *steps)
    assert trained.returncode == 0, trained.stderr
    assert json.loads((tmp_path / "runs" / "demo" / "run.json").read_text())["versions"]["attnzoo"]
    evaluated = run(environment, tmp_path, "attnzoo", "evaluate", "runs/demo/best", "--split", "validation")
    assert re.search(r"PER \d+\.\d\d %", evaluated.stdout), evaluated.stderr
    own = run(environment, tmp_path, "attnzoo", "pronounce", "cat", "--model", "runs/demo/best")
    assert own.stdout.startswith("cat\t"), own.stderr

    # A model that is not there is named with the package that has it.
    absent = run(environment, tmp_path, "attnzoo", "translate", "A dog.")
    assert absent.returncode == 1
    assert "attentional-rnn-tatoeba-en-de" in absent.stderr
    assert "pip install . ./model_cards" in absent.stderr
    pip = "-m", "pip", "install", "--quiet", "--no-deps", str(wheels["attnzoo-models"])
    assert run(environment, tmp_path, "python", *pip).returncode == 0
    assert run(environment, tmp_path, "attnzoo", "translate", "A dog runs.").stdout.startswith("Ein Hund")
    assert run(environment, tmp_path, "attnzoo", "classify", "A moving film.").stdout.startswith("positive")


def commands_of_the_first_screen() -> tuple[list[str], str, list[tuple[str, str]]]:
    """The README's ``make`` commands, its line that installs from Git, and its commands with their output."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8").split("## One table")[0]
    makes = re.findall(r"^make \w+", readme, flags=re.MULTILINE)
    (from_git,) = re.findall(r"^pip install .*git\+ADDRESS.*$", readme, flags=re.MULTILINE)
    (console,) = re.findall(r"^```console\n(.*?)^```", readme, flags=re.DOTALL | re.MULTILINE)
    shown = [tuple(part.split("\n", 1)) for part in console.split("$ ")[1:]]
    return makes, from_git, shown  # type: ignore[return-value]


@pytest.mark.wheel
@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_first_screen_works_as_it_is_printed(tmp_path: Path) -> None:
    """In a fresh clone and in an empty environment. ``make test`` is not run: it contains this test."""
    clone, here = tmp_path / "clone", tmp_path / "here"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "environment")], check=True)
    here.mkdir()
    path = f"{tmp_path / 'environment' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    variables = os.environ | {"PATH": path, "PIP_CONSTRAINT": str(ROOT / "constraints.txt"), "HF_HUB_OFFLINE": "1"}
    variables.pop("PYTHONPATH", None)
    address = "https://example.org/attnzoo"  # git finds the clone in its place
    variables |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{clone.as_uri()}.insteadOf"}
    variables["GIT_CONFIG_VALUE_0"] = address
    variables["MINUTES"] = "1"  # of the demo's training, at least
    makes, from_git, shown = commands_of_the_first_screen()
    assert makes == ["make demo", "make test"]

    def say(command: str, cwd: Path) -> str:
        done = subprocess.run(command, shell=True, cwd=cwd, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    say(from_git.replace("ADDRESS", address), here)
    for command, printed in shown:
        assert say(command, here) == printed
    assert (here / "alignment.png").stat().st_size > 1000

    said = say("make demo", clone)
    right = int(re.findall(r"(\d+) of the 10 most frequent words that the model did not learn are right", said)[0])
    assert (right >= 6) == ("train longer: make demo" not in said)
    assert "torch" in said
    assert (clone / "runs/demo/alignment.png").stat().st_size > 1000
