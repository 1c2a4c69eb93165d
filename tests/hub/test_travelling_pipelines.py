"""Pipelines of pulled repositories give the results of the local ones, with the package and without it, and ask for
trust only if code of a repository runs.

One process has the package, another one does not; each makes pipelines from repositories with code and without.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import pipeline

from attnzoo import fast_products  # (attnzoo registers the pipelines)
from attnzoo.hub.model_code import add_code
from tests.factory import save_folder
from tests.hub.client import ROOT, environment, run_python
from tests.hub.server import loopback_hub

# The task of every repository, and what it reads; the first is a model that ships, an RNN; the other is tiny.
TASKS = {"pronouncer": "grapheme-to-phoneme", "transformer-encoder-decoder": "machine-translation"}
SOURCES = ["attention", "zoo", "abracadabra"]
OPTIONS: dict[str, Any] = {"n_best": 3, "alignments": True, "batch_size": 2, "max_new_tokens": 12}
Target = dict[str, Any]

PULL = """
import json
import sys

import transformers

attempts, sources, options, package = map(json.loads, sys.argv[1:])
try:
    import attnzoo
except ImportError:
    assert not package
else:
    assert package
said = {}
for label, (task, model, trust) in attempts.items():
    try:
        pipe = transformers.pipeline(task, model=model, trust_remote_code=trust, device="cpu")
        said[label] = {"of": type(pipe).__module__.split(".")[0], "found": pipe(sources, **options)}
    except Exception as error:
        said[label] = {"error": f"{type(error).__name__}: {error}"}
    said[label]["ran"] = any(name.startswith("transformers_modules.") for name in sys.modules)
print()  # after a question that got no answer
print(json.dumps(said))
"""


def attempts() -> dict[str, tuple[str | None, str, bool | None]]:
    """Every repository, with its task named or not; those that run a repository's code come last."""
    return {
        f"{kind} {name} {'told' if is_told else 'untold'} {trust}": (task if is_told else None, f"{kind}/{name}", trust)
        for trust in (False, None, True)
        for kind in ("plain", "code")
        for name, task in TASKS.items()
        for is_told in (True, False)
    }


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("folders")
    found = {kind: save_folder(kind, home / kind) for kind in TASKS if kind != "pronouncer"}
    shutil.copytree(ROOT / "model_cards" / "attentional-rnn-g2p-cmudict", home / "pronouncer")
    return found | {"pronouncer": home / "pronouncer"}


@pytest.fixture(scope="module")
def said(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[bool, dict[str, dict[str, Any]]]:
    """The result of every attempt, with the package and without it."""
    home = tmp_path_factory.mktemp("pulled")
    results = {}
    with loopback_hub() as hub:
        for name, folder in folders.items():
            hub.put(f"plain/{name}", {path.name: path.read_bytes() for path in folder.iterdir()})
            with_code = home / name
            shutil.copytree(folder, with_code)
            add_code(with_code)
            hub.put(f"code/{name}", {path.name: path.read_bytes() for path in with_code.iterdir()})
        for package in (True, False):
            given = [json.dumps(item) for item in (attempts(), SOURCES, OPTIONS, package)]
            place = home / ("with" if package else "without")
            place.mkdir()
            ended = run_python(
                *("-c", PULL, *given),
                environment=environment(hub.endpoint, place / "home", None, xet=False, ATTNZOO_ONEDNN="0"),
                cwd=ROOT if package else place,
                without_attnzoo=not package,
            )
            assert ended.returncode == 0, ended.stderr[-3000:]
            results[package] = json.loads(ended.stdout.splitlines()[-1])
    return results


@pytest.fixture(scope="module")
def expected(folders: dict[str, Path]) -> dict[str, list[list[Target]]]:
    """The expected results, by BLAS as in the other processes: oneDNN rounds differently."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast_products, "onednn_is_faster", lambda: False)
        return {
            name: pipeline(TASKS[name], model=str(folder), device="cpu")(SOURCES, **OPTIONS)
            for name, folder in folders.items()
        }


def assert_same(found: list[list[Target]], expected: list[list[Target]]) -> None:
    assert [len(targets) for targets in found] == [3, 3, 3]
    for targets, others in zip(found, expected, strict=True):
        for target, other in zip(targets, others, strict=True):
            assert target.keys() == other.keys() >= {"score", "alignment", "source_tokens", "target_tokens"}
            for key, value in other.items():
                if key == "alignment":
                    for row, other_row in zip(target[key], value, strict=True):
                        assert row == pytest.approx(other_row, abs=1e-6)
                else:
                    assert target[key] == (pytest.approx(value, abs=1e-6) if key == "score" else value)


@pytest.mark.parametrize("label", attempts())
def test_with_the_package_no_repository_runs_code(
    label: str, said: dict[bool, dict[str, dict[str, Any]]], expected: dict[str, list[list[Target]]]
) -> None:
    kind, name, told, trust = label.split()
    result = said[True][label]
    assert not result["ran"]
    if told == "untold" and (kind == "plain" or trust == "False"):  # then the Hub says the task, by its own names
        assert result["error"].startswith(("KeyError", "RuntimeError"))
    else:
        assert result["of"] == "attnzoo"
        assert_same(result["found"], expected[name])


@pytest.mark.parametrize("label", attempts())
def test_without_the_package_the_code_that_is_trusted_gives_the_same(
    label: str, said: dict[bool, dict[str, dict[str, Any]]], expected: dict[str, list[list[Target]]]
) -> None:
    kind, name, _, trust = label.split()
    result = said[False][label]
    if kind == "plain":
        assert "does not recognize this architecture" in result["error"]
    elif trust == "True":
        assert result["of"] == "transformers_modules"
        assert_same(result["found"], expected[name])
    else:
        assert "contains custom code which must be executed" in result["error"]
        assert not result["ran"]
