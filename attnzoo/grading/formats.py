"""The result of a check in the formats of graders."""

import json
from collections.abc import Callable
from xml.etree import ElementTree

from .assignment import Assignment
from .grades import FAILED, NOT_JUDGED, PASSED, Grade


def as_text(grade: Grade) -> str:
    """For a terminal."""
    lines = [f"{grade.subject}: {grade.points:g} of {grade.out_of:g} points"]
    lines += grade.problems
    for test in grade.tests:
        lines.append(f"{test.status:<10}  {test.points:g}/{test.out_of:g}  {test.name}")
        lines += [f"    {line}" for line in test.message.splitlines()]
    return "\n".join([*lines, *grade.told])


def as_json(grade: Grade) -> str:
    """All of it."""
    tests = [vars(test) for test in grade.tests]
    content = {"subject": grade.subject, "points": grade.points, "out_of": grade.out_of, "passed": grade.passed}
    content |= {"problems": grade.problems, "tests": tests, "not_judged": grade.not_judged, "assumed": grade.assumed}
    return json.dumps({**content, "printed": grade.printed}, indent=1)


def as_junit(grade: Grade) -> str:
    """JUnit's XML, which most systems of continuous integration read. A problem of the run is an error."""
    counts = {
        "tests": len(grade.tests) + len(grade.problems),
        "failures": sum(test.status == FAILED for test in grade.tests),
        "errors": len(grade.problems),
        "skipped": sum(test.status == NOT_JUDGED for test in grade.tests),
    }
    suites = ElementTree.Element("testsuites")
    numbers = {name: str(count) for name, count in counts.items()}
    suite = ElementTree.SubElement(suites, "testsuite", {"name": grade.subject, **numbers})
    for test in grade.tests:
        case = ElementTree.SubElement(suite, "testcase", classname=grade.subject, name=test.name)
        if test.status != PASSED:
            tag = "failure" if test.status == FAILED else "skipped"
            lines = test.message.splitlines()
            ElementTree.SubElement(case, tag, message=_printable(lines[0])).text = _printable(test.message)
    for text in grade.problems:
        case = ElementTree.SubElement(suite, "testcase", classname=grade.subject, name=text.split(":")[0])
        ElementTree.SubElement(case, "error", message=_printable(text))
    if grade.told or grade.printed:
        text = "\n".join([*grade.told, grade.printed])
        ElementTree.SubElement(suite, "system-out").text = _printable(text)
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True)


def _printable(text: str) -> str:
    """The text without the control characters that XML does not allow."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def as_gradescope(grade: Grade) -> str:
    """The results.json of a Gradescope autograder.

    Students read it, so it leaves out what could not be judged and has no points.
    """
    tests = [
        {
            "name": test.name,
            "score": test.points,
            "max_score": test.out_of,
            "status": "passed" if test.status == PASSED else "failed",
            "output": test.message,
            "visibility": "visible",
        }
        for test in grade.tests
    ]
    told = "\n".join([*grade.problems, *grade.told_assumed])
    content = {"score": grade.points, "output": told, "stdout_visibility": "hidden", "tests": tests}
    return json.dumps(content, indent=1)


def _call(name: str, prop: str, assignment: Assignment) -> str:
    """The call of ``expect`` for one property."""
    given = {key: getattr(assignment, key) for key in ("kind", "arguments", "options", "hints", "seed")}
    named = ", ".join(f"{key}={value!r}" for key, value in given.items() if value)
    return f"expect({name}, {prop!r}, {named})"


def as_otter(name: str, points: dict[str, float], assignment: Assignment) -> str:
    """A test file of Otter, with one test case for each property."""
    lines = ["import attnzoo.grading", "from otter.test_files import test_case", "", "OK_FORMAT = False", ""]
    lines += [f"name = {name!r}", f"points = {sum(points.values()):.10g}", ""]
    for number, (prop, out_of) in enumerate(points.items(), start=1):
        call = _call(f"env[{name!r}]", prop, assignment)
        lines += ["", f"@test_case(name={prop!r}, points={out_of:.10g}, hidden=False)", f"def test_{number}(env):"]
        lines += [f"    attnzoo.grading.{call}", ""]
    return "\n".join(lines)


def as_nbgrader(name: str, points: dict[str, float], assignment: Assignment) -> str:
    """A notebook of nbgrader: a cell for the solution, and a locked cell with points for each property."""
    cells = [_cell(f"{name}-solution", "### BEGIN SOLUTION\n### END SOLUTION", solution=True)]
    for number, (prop, out_of) in enumerate(points.items(), start=1):
        source = f"from attnzoo.grading import expect\n\n{_call(name, prop, assignment)}"
        cells.append(_cell(f"{name}-{number}", source, points=out_of))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def _cell(identity: str, source: str, solution: bool = False, points: float | None = None) -> dict[str, object]:
    graded: dict[str, object] = {
        "grade": points is not None,
        "grade_id": identity,
        "locked": not solution,
        "schema_version": 3,
    }
    graded |= {"solution": solution, "task": False} | ({} if points is None else {"points": points})
    content: dict[str, object] = {
        "cell_type": "code",
        "execution_count": None,
        "id": identity,
        "outputs": [],
        "source": source,
    }
    return {**content, "metadata": {"nbgrader": graded}}


OF_SUBMISSION: dict[str, Callable[[Grade], str]] = {
    "text": as_text,
    "json": as_json,
    "junit": as_junit,
    "gradescope": as_gradescope,
}
OF_SOLUTION: dict[str, Callable[[str, dict[str, float], Assignment], str]] = {
    "otter": as_otter,
    "nbgrader": as_nbgrader,
}
AUTOGRADER = "gradescope-zip"  # a zip, written from a solution, too
