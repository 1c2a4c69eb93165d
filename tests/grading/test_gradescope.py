"""The zip for Gradescope, unpacked and run as its container does; a stand-in takes the place of pip."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from attnzoo import cli
from tests.grading.submissions import FAULTY, RIGHT

# In place of python3: an environment whose python notes the calls of pip, and otherwise is the Python of the tests.
PYTHON = """#!/bin/sh
if [ "$1" = -c ]; then exit {old}; fi
mkdir -p "$4/bin"
cat > "$4/bin/python" <<'END'
#!/bin/sh
if [ "$2" = pip ]; then echo "$@" >> {calls}; case "$*" in *whl/cpu*) exit {code};; esac; exit 0; fi
exec {python} "$@"
END
chmod +x "$4/bin/python"
"""
# In place of apt-get, of an Ubuntu that has Python 3.12: it takes the stand-in above.
APT_GET = """#!/bin/sh
if [ "$3" != python3.12-venv ]; then exit 100; fi
sed 's/exit 1; fi$/exit 0; fi/' {bin}/python3 > {bin}/python3.12
chmod +x {bin}/python3.12
"""


@pytest.fixture(scope="module")
def autograder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A zip for an assignment of one's own."""
    folder = tmp_path_factory.mktemp("assignment")
    (folder / "my attention.py").write_text(RIGHT)
    (folder / "points.yaml").write_text("kind: self_attention\npoints: {padding: 3, scale: 1.5}\nhints: property\n")
    call = ["check", f"{folder}/my attention.py:Attention", "--assignment", f"{folder}/points.yaml"]
    cli.main([*call, "--format", "gradescope-zip", "-o", f"{folder}/autograder.zip"])
    with pytest.raises(SystemExit, match="--format gradescope-zip needs a file to write"):
        cli.main([*call, "--format", "gradescope-zip"])
    return folder / "autograder.zip"


def container(autograder: Path, root: Path, code: int = 0, old: int = 0) -> list[str]:
    """Build the container in a folder, and return the calls of pip.

    Args:
        autograder: the zip
        root: the folder, in place of /autograder
        code: that pip ends with for the index of torch for CPUs
        old: 1 if the Python of the container is too old
    """
    programs = root / "bin"
    programs.mkdir()
    (root / "submission").mkdir()
    python = PYTHON.format(calls=root / "calls", code=code, old=old, python=sys.executable)
    for name, text in {"python3": python, "apt-get": APT_GET.format(bin=programs)}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    with zipfile.ZipFile(autograder) as content:
        content.extractall(root / "source")
    (root / "run_autograder").write_bytes((root / "source" / "run_autograder").read_bytes())
    (root / "run_autograder").chmod(0o755)
    for name in ("bash", "cat", "chmod", "dirname", "mkdir", "sed", "sh"):  # and no other Python
        (programs / name).symlink_to(str(shutil.which(name)))
    environment = os.environ | {"PATH": str(programs)}
    subprocess.run(["bash", str(root / "source" / "setup.sh")], env=environment, cwd="/", check=True)
    return (root / "calls").read_text().splitlines()


def result_of(root: Path) -> dict[str, Any]:
    """The results.json of a run, which has what its specification wants."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([str(root / "run_autograder")], env=environment, cwd=root, check=True)
    result: dict[str, Any] = json.loads((root / "results" / "results.json").read_text())
    assert result["stdout_visibility"] == "hidden"
    assert result["score"] == sum(test["score"] for test in result["tests"])
    assert [(test["name"], test["max_score"]) for test in result["tests"]] == [("padding", 3), ("scale", 1.5)]
    return result


def test_the_zip_has_scripts_at_its_root_and_no_solution(autograder: Path) -> None:
    with zipfile.ZipFile(autograder) as content:
        modes = {entry.filename: entry.external_attr >> 16 for entry in content.infolist()}
        texts = {name: content.read(name).decode() for name in modes}
    assert modes["setup.sh"] == modes["run_autograder"] == 0o755
    assert "attnzoo/checking/checker.py" in texts
    assert not [name for name in texts if "solution" in name or "assignments/" in name]
    assert not [name for name, text in texts.items() if "class Attention(nn.Module)" in text and "self.q," in text]


@pytest.mark.parametrize(("code", "old"), [(0, 0), (1, 0), (0, 1)])
def test_the_setup_takes_torch_for_cpus_if_its_index_answers(
    autograder: Path, code: int, old: int, tmp_path: Path
) -> None:
    torch, *others = container(autograder, tmp_path, code, old)
    assert (tmp_path / "bin" / "python3.12").exists() == bool(old)
    assert "--index-url https://download.pytorch.org/whl/cpu torch==" in torch
    assert len(others) == 1 + code
    assert others[-1].endswith(f"--requirement {tmp_path}/source/requirements.txt")
    pinned = (tmp_path / "source" / "requirements.txt").read_text().splitlines()
    names = [line.split("==")[0] for line in pinned]
    assert names == ["torch", "transformers", "huggingface_hub", "safetensors", "pyyaml"]
    assert "+" not in "".join(pinned)


def test_every_submission_gets_a_result(autograder: Path, tmp_path: Path) -> None:
    container(autograder, tmp_path)
    absent = result_of(tmp_path)
    assert absent["score"] == 0
    assert "No such file or directory" in absent["output"]
    file = tmp_path / "submission" / "my attention.py"
    # The code of attnzoo is that of the zip.
    file.write_text(
        RIGHT + f"\nimport attnzoo\nassert attnzoo.__file__.startswith({str(tmp_path)!r}), attnzoo.__file__"
    )
    right = result_of(tmp_path)
    assert right["score"] == 4.5
    assert right["output"] == ""
    file.write_text(FAULTY)
    faulty = result_of(tmp_path)
    assert faulty["score"] == 0
    assert {test["output"] for test in faulty["tests"]} == {"this property does not hold"}
