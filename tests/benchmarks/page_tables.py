"""Write the tables of speed, export and faithfulness into the pages: ``python -m tests.benchmarks.page_tables``.

A table stands between ``<!-- table NAME, written by python -m tests.benchmarks.page_tables -->`` and
``<!-- end of the table -->``. Its figures are in a file that a measurement wrote into docs/.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from attnzoo.training.studies.faithfulness import TESTS

from tests.benchmarks import certificates, run, speeds
from tests.benchmarks.environments import ROOT

PLACE = re.compile(
    r"(?P<start><!-- table (?P<name>\w+), written by python -m tests.benchmarks.page_tables -->\n\n)"
    r".*?(?P<end>\n\n<!-- end of the table -->)",
    re.DOTALL,
)
EXAMINED = {
    "classifier": "classifier, SST-2",
    "pronunciation": "RNN, pronunciation",
    "translation": "RNN, translation",
}


def stored(name: str) -> Any:
    """A file of docs/."""
    return json.loads((ROOT / "docs" / name).read_text(encoding="utf-8"))


def toolkits(bench: Mapping[str, Any]) -> str:
    """The rows of ``run.py`` with one thread and sources of 32 tokens."""
    rows = [row for row in bench["rows"] if (row["threads"], row["source_length"]) == (1, 32)]
    return run.markdown({**bench, "rows": rows}).strip()


def faithfulness(of_models: Mapping[str, Mapping[str, Any]]) -> str:
    """The means and 95 % intervals of every test."""
    lines = [["mean (95 % interval)", *(EXAMINED[name] for name in of_models)]]
    for test in TESTS:
        found = [of_model["tests"].get(test.name) for of_model in of_models.values()]
        cells = [f"{one['mean']:.3f} ({one['low']:.3f} to {one['high']:.3f})" if one else "" for one in found]
        lines.append([test.description, *cells])
    return run.markdown_table(*lines)


def tables() -> dict[str, str]:
    """All tables, by name."""
    found = {name: speeds.markdown(name, section) for name, section in stored("speeds.json").items()}
    found["toolkits"] = toolkits(stored("bench.json"))
    found["certificates"] = certificates.table(stored("certificates.json")["certificates"])
    found["faithfulness"] = faithfulness({name: stored(f"faithfulness/{name}.json") for name in EXAMINED})
    return found


def filled(text: str, of_names: Mapping[str, str]) -> str:
    """A page with its tables as they are now.

    Raises:
        KeyError: there is no table of a name.
    """
    return PLACE.sub(lambda place: place["start"] + of_names[place["name"]] + place["end"], text)


def main() -> None:
    """Write the tables into all pages."""
    of_names = tables()
    for page in sorted((ROOT / "docs").glob("*.md")):
        page.write_text(filled(page.read_text(encoding="utf-8"), of_names), encoding="utf-8")


if __name__ == "__main__":
    main()
