"""The files that GitHub reads."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").iterdir() if path.name != "config.yml")
REQUIRED = {"markdown": {"value"}, "input": {"label"}, "textarea": {"label"}}  # attributes, by the type of an element


def test_ci_may_read_alone_and_runs_what_was_looked_at() -> None:
    for path in (ROOT / ".github" / "workflows").iterdir():
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert workflow["permissions"] == {"contents": "read"}
        for job in workflow["jobs"].values():
            assert job.get("permissions", {}).keys() <= {"id-token"}, path  # of the job that publishes
        for step in [step for job in workflow["jobs"].values() for step in job["steps"]]:
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step.get("uses", "a/a@" + 40 * "0")), step


def test_ci_tests_other_systems_on_the_oldest_and_the_newest_python() -> None:
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python ::" in line]
    assert ci["jobs"]["macos-and-windows"]["strategy"]["matrix"] == {
        "os": ["macos-latest", "windows-latest"],
        "python-version": [pythons[0], pythons[-1]],
    }


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_a_form_has_what_github_needs(path: Path) -> None:
    """Otherwise GitHub does not offer it, without an error."""
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert form.keys() == {"name", "description", "labels", "body"}
    asked = [element for element in form["body"] if element["type"] != "markdown"]
    assert asked
    assert len({element["id"] for element in asked}) == len(asked)
    for element in form["body"]:
        assert element.keys() <= {"type", "id", "attributes", "validations"}
        assert REQUIRED[element["type"]] <= element["attributes"].keys()
        assert element.get("validations", {"required": True}) == {"required": True}
    names = [yaml.safe_load(other.read_text(encoding="utf-8"))["name"] for other in FORMS]
    assert names.count(form["name"]) == 1
