"""Points for the properties of a report, and what a student is told of each."""

from dataclasses import dataclass
from typing import Any

from .assignment import Assignment

# Findings about how the code runs: a short description, and what to change.
PROBLEMS = {
    "does_not_load": (
        "the file cannot be loaded",
        "Run the file by itself first. The names of the file and of the class must be those of the assignment.",
    ),
    "cannot_be_made": (
        "the class cannot be made",
        "Compare __init__ with the key 'arguments' of the assignment (--assignment FILE.yaml). If the solution fails, "
        "too, correct the key.",
    ),
    "wrong_options": (
        "the assignment cannot be used",
        "This is no fault of the code. Correct the keys 'kind', 'options' and 'points' of the assignment, or the "
        "options of the command.",
    ),
    "cannot_be_called": (
        "the code cannot be called",
        "Keep the names and the order of the arguments of the assignment.",
    ),
    "ends_the_process": ("the code ends the process", "Do not call exit, quit or sys.exit; return a value."),
    "too_slow": ("the code takes too long", "Look for a loop that does not end."),
    "too_much_memory": ("the code takes too much memory", "Look for tensors whose sizes are multiplied by mistake."),
    "prints_too_much": ("the code prints too much", "Remove the print calls from forward."),
}
PASSED, FAILED, NOT_JUDGED = "passed", "failed", "not judged"


@dataclass(frozen=True)
class Test:
    """One property: the points for it, whether it holds, and what the student is told."""

    name: str
    status: str
    points: float
    out_of: float
    message: str


@dataclass(frozen=True)
class Grade:
    """The tests of one submission.

    ``problems`` are about how the code runs, one text for each. ``not_judged`` are further properties, each with the
    reason; ``assumed`` is what the check assumed of the code.
    """

    subject: str
    tests: list[Test]
    problems: list[str]
    printed: str
    not_judged: dict[str, str]
    assumed: list[str]

    @property
    def points(self) -> float:
        """The sum of the points."""
        return sum(test.points for test in self.tests)

    @property
    def out_of(self) -> float:
        """The largest sum of points."""
        return sum(test.out_of for test in self.tests)

    @property
    def told(self) -> list[str]:
        """What was assumed and what was not judged, one text for each."""
        return [f"not judged: {name}: {reason}" for name, reason in self.not_judged.items()] + self.told_assumed

    @property
    def told_assumed(self) -> list[str]:
        """What was assumed, one text for each."""
        return [f"assumed: {text}" for text in self.assumed]

    @property
    def passed(self) -> bool:
        """Whether every property holds, and the code runs within the limits."""
        return not self.problems and all(test.status == PASSED for test in self.tests)


def grade(subject: str, report: dict[str, Any], assignment: Assignment) -> Grade:
    """Give points for a report. A property that could not be judged gets none, and the reason is told.

    A property that does not hold is told even if the assignment gives no points for it.
    """
    broken: dict[str, list[dict[str, Any]]] = {}
    problems = []
    for finding in report["findings"]:
        if finding["property"] == "runs":
            what, change = PROBLEMS[finding["name"]]
            problems.append(f"{finding['name']}: {what}: {finding['where']}. {change}")
        else:
            broken.setdefault(finding["property"], []).append(finding)
    checked, reasons = report.get("checked", []), report.get("not_checked", {})
    known = sorted({*broken, *checked, *reasons})
    unknown = f"this code has no such property; it has {', '.join(known)}" if known else "the code could not be run"
    for finding in report["findings"] if assignment.hints != "where" else []:  # a reason must not tell the fault
        reasons = {name: text.replace(finding["name"], repr(finding["property"])) for name, text in reasons.items()}
    points = assignment.points or dict.fromkeys([*checked, *broken, *report.get("asserted", [])], 1)
    points = points | {name: 0 for name in broken if name not in points}
    tests = []
    for name, out_of in points.items():
        if name in broken:
            message = "\n".join(_told(finding, assignment.hints) for finding in broken[name])
            tests.append(Test(name, FAILED, 0, out_of, message))
        elif name in checked:
            tests.append(Test(name, PASSED, out_of, out_of, ""))
        else:
            tests.append(Test(name, NOT_JUDGED, 0, out_of, f"not judged: {reasons.get(name, unknown)}"))
    others = {name: reason for name, reason in reasons.items() if name not in points}
    assumed = report.get("assumed", []) if assignment.hints == "where" else []
    if assignment.hints == "something":
        tests, others = (_together(tests) if tests else []), {}
    return Grade(subject, tests, problems, report.get("printed", ""), others, assumed)


def _told(finding: dict[str, Any], hints: str) -> str:
    """What a student is told of one finding."""
    if hints != "where":
        return "this property does not hold"
    shapes = ", ".join(f"{name} {tuple(shape)}" for name, shape in finding["inputs"].items())
    told = [f"{finding['name']}: {finding['what']}", f"where: {finding['where']}", finding["explanation"]]
    return "\n".join(told + ([f"smallest failing input: {shapes}"] if shapes else []))


def _together(tests: list[Test]) -> list[Test]:
    """One test for all properties, which does not tell which of them fail."""
    failed = sum(test.status != PASSED for test in tests)
    status = PASSED if not failed else FAILED
    message = f"{failed} of {len(tests)} properties do not hold or were not judged" if failed else ""
    points, out_of = sum(test.points for test in tests), sum(test.out_of for test in tests)
    return [Test("all properties", status, points, out_of, message)]
