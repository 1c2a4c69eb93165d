"""The zip of an autograder that Gradescope takes: ``setup.sh``, ``run_autograder``, and what they need.

https://gradescope-autograders.readthedocs.io/en/latest/specs/ says what is where: Gradescope unpacks the zip into
``/autograder/source`` and runs ``setup.sh`` once. For each submission it puts the files into ``/autograder/submission``
and runs ``run_autograder``, which writes ``/autograder/results/results.json``.
"""

import dataclasses
import re
import shlex
import zipfile
from importlib import metadata
from pathlib import Path

from .assignment import Assignment

PACKAGE = Path(__file__).parents[1]
# Folders of attnzoo that the check does not need. The assignments have the solutions, which no student may read.
LEFT_OUT = ("assignments", "configs", "models", "training")
SETUP = """#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the container.
set -euo pipefail
root=$(cd "$(dirname "${{BASH_SOURCE[0]}}")/.." && pwd)  # /autograder

make_environment() {{
    for python in python3 python3.14 python3.13 python3.12 python3.11; do
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null &&
            "$python" -m venv --clear "$root/venv" && return
    done
    return 1
}}

if ! make_environment; then
    for version in 3.14 3.13 3.12 3.11; do
        DEBIAN_FRONTEND=noninteractive apt-get install -y "python$version-venv" && break
    done
    make_environment
fi
install="$root/venv/bin/python -m pip install --no-cache-dir"
# The build for CPUs; on Linux the package index has the one for GPUs, of several GB.
$install --index-url https://download.pytorch.org/whl/cpu {torch} || $install {torch}
$install --requirement "$root/source/requirements.txt"
"""
RUN = """#!/usr/bin/env bash
# Gradescope runs this in /autograder for each submission, and reads results/results.json.
cd "$(dirname "$0")"
mkdir -p results
PYTHONPATH=$PWD/source exec venv/bin/python -P -m attnzoo.cli check {code} \\
    --assignment source/assignment.yaml --format gradescope --output results/results.json
"""


def requirements() -> dict[str, str]:
    """The packages that attnzoo needs, with the versions that are installed here."""
    needed = [line for line in metadata.requires("attnzoo") or [] if "extra ==" not in line]
    names = re.findall(r"^[\w.-]+", "\n".join(needed), flags=re.MULTILINE)
    # A local version, such as 2.13.0+cpu, is not on the index.
    return {name: metadata.version(name).split("+")[0] for name in [*names, "pyyaml"]}


def write_autograder(path: Path, file: str, name: str, assignment: Assignment) -> None:
    """Write the zip.

    It has this version of attnzoo, and neither the solution nor the assignments of the lessons.

    Args:
        path: of the zip
        file: the name of the file that students hand in
        name: of the class, the module or the function in it
        assignment: with the points of each property
    """
    import yaml

    versions = {name: f"{name}=={version}" for name, version in requirements().items()}
    contents = {
        "setup.sh": SETUP.format(torch=versions["torch"]),
        "run_autograder": RUN.format(code=shlex.quote(f"submission/{file}:{name}")),
        "requirements.txt": "".join(f"{line}\n" for line in versions.values()),
        "assignment.yaml": yaml.safe_dump(dataclasses.asdict(assignment), sort_keys=False),
    }
    for source in [PACKAGE / "catalogue.json", *sorted(PACKAGE.rglob("*.py"))]:
        place = source.relative_to(PACKAGE)
        if place.parts[0] not in LEFT_OUT:
            contents[f"attnzoo/{place.as_posix()}"] = source.read_text(encoding="utf-8")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file_of_zip:
        for place_in_zip, text in contents.items():
            entry = zipfile.ZipInfo(place_in_zip)  # with a fixed date: the same assignment gives the same bytes
            entry.external_attr = (0o755 if place_in_zip in ("setup.sh", "run_autograder") else 0o644) << 16
            file_of_zip.writestr(entry, text, zipfile.ZIP_DEFLATED)
