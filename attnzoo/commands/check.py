"""``attnzoo check``: the properties of attention code in a file, with points, in the format of a grader."""

import sys
from dataclasses import replace
from pathlib import Path

from ..grading.assignment import read_assignment
from ..grading.formats import AUTOGRADER, OF_SOLUTION, OF_SUBMISSION
from ..grading.grades import PASSED, grade
from ..grading.gradescope import write_autograder
from ..grading.isolation import check_apart
from .outputs import refuse_overwriting
from .parsers import check_parser


def main(arguments: list[str]) -> None:
    """Run the command line.

    Raises:
        SystemExit: 1 if a property does not hold or the code does not run, except for a grader, which reads the result.
    """
    options = check_parser().parse_args(arguments)
    place, _, name = options.code.rpartition(":")
    if not place or not name.isidentifier():
        raise ValueError(f"give a file and a name in it, such as attention.py:Attention, got {options.code!r}")
    if options.format == AUTOGRADER and options.output is None:
        raise ValueError(f"--format {AUTOGRADER} needs a file to write, such as --output autograder.zip")
    if options.output is not None and (options.output.is_dir() or not options.output.parent.is_dir()):
        raise ValueError(f"--output {str(options.output)!r} must be a file in a folder that exists")
    path = Path(place)
    if options.output is not None:
        refuse_overwriting("--output", options.output, path, options.assignment)
    if options.format != "gradescope" and not path.exists():  # Gradescope's students get a result that says it
        raise ValueError(f"there is no file {place}")
    given = {each: getattr(options, each) for each in ("kind", "hints", "seconds", "megabytes")}
    assignment = read_assignment(options.assignment, **given)
    told = {each: getattr(options, each) for each in ("paper", "call") if getattr(options, each) is not None}
    assignment = replace(assignment, options={**assignment.options, **told})
    result = grade(name, check_apart(path, name, assignment), assignment)
    if options.format in OF_SOLUTION or options.format == AUTOGRADER:
        print("\n".join(result.told), file=sys.stderr)
        judged = {test.name: test.out_of for test in result.tests}
        if not result.passed or assignment.hints == "something":
            wrong = [*result.problems, *(test.name for test in result.tests if test.status != PASSED)]
            reason = (
                f"in this one these do not hold: {'; '.join(wrong)}" if wrong else "use the hints 'property' or 'where'"
            )
            raise ValueError(f"a grader's tests are written from a solution that passes: {reason}")
        if options.format == AUTOGRADER:
            write_autograder(options.output, path.name, name, replace(assignment, points=judged))
            return
        text = OF_SOLUTION[options.format](name, judged, assignment)
    else:
        text = OF_SUBMISSION[options.format](result)
    if options.output is None:
        print(text)
    else:
        options.output.write_text(text + "\n", encoding="utf-8")
    if not result.passed and options.format in ("text", "json", "junit"):
        sys.exit(1)
