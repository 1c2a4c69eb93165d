"""``attnzoo assignment``: write the exercise of a lesson, with its solution, its points and a note for the teacher."""

from importlib import resources
from pathlib import Path

from ..new_folders import new_folder
from .parsers import assignment_parser


def main(arguments: list[str]) -> None:
    """Run the command line."""
    options = assignment_parser().parse_args(arguments)
    files = {path.name: path for path in resources.files("attnzoo.assignments").iterdir()}
    (start,) = (
        name.removesuffix(".yaml")
        for name in files
        if name.startswith(f"lesson_{options.lesson}_") and name.endswith(".yaml")
    )
    student = start.removeprefix(f"lesson_{options.lesson}_") + ".py"
    places = {
        student: f"{start}.py",
        f"solution/{student}": f"{start}_solution.py",
        "assignment.yaml": f"{start}.yaml",
        "note.md": f"{start}.md",
    }
    with new_folder(options.folder) as folder:
        (folder / "solution").mkdir()
        for place, name in places.items():
            (folder / place).write_text(files[name].read_text(encoding="utf-8"), encoding="utf-8")
    for place in places:
        print(Path(options.folder) / place)
