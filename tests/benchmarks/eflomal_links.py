"""eflomal, for comparison with the alignments of the translation models.

    python -m tests.benchmarks.environments eflomal
    python -m tests.benchmarks.eflomal_links WHEEL --links eflomal.txt

The verses, words and links are those of ``python -m attnzoo.training.studies.alignment_error``. eflomal (Östling and
Tiedemann, 2016) aligns all verses in both directions. The method of symmetrising is chosen on the verses for
development, and measured on the others. ``--links`` writes the links of all verses: for ``--beside`` of that study, and
as the first pass of a guided alignment (``training.alignment_links``).
"""

import argparse
import json
import subprocess
from pathlib import Path

from attnzoo.training.commands.exits import exit_on_user_error
from attnzoo.training.data.verses import read_verses
from attnzoo.training.studies.alignment_error import report

from attnzoo.aligning import METHODS, symmetrise
from attnzoo.alignment import alignment_error_rate, from_pharaoh, to_pharaoh
from tests.benchmarks.environments import interpreter

SYSTEM = Path(__file__).parent / "alignment_systems" / "eflomal.py"


def main() -> None:
    """Print the error rates."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.eflomal_links", description=__doc__.split("\n")[0]
    )
    parser.add_argument("wheel", type=Path, help="bible_alignments-0.4.2-py3-none-any.whl")
    parser.add_argument("--method", choices=METHODS, help="of symmetrising (default: the best on the development part)")
    parser.add_argument("--links", type=Path, metavar="FILE", help="write the symmetrised links of all verses")
    options = parser.parse_args()
    with exit_on_user_error():
        verses = read_verses(options.wheel)
        request = json.dumps([(verse.source_words, verse.target_words) for verse in verses])
        command = [str(interpreter("eflomal")), str(SYSTEM)]
        done = subprocess.run(command, input=request, stdout=subprocess.PIPE, text=True, check=True)
        forward, reverse = (
            [from_pharaoh(line)[0] for line in lines] for lines in json.loads(done.stdout.splitlines()[-1])
        )
        found = {"forward": forward, "reverse": reverse}
        found |= {
            method: [symmetrise(*pair, method) for pair in zip(forward, reverse, strict=True)] for method in METHODS
        }
        is_test = [not verse.is_for_development for verse in verses]
        rates = {}
        for name, links in found.items():
            development, test = (
                [(links[n], verse.links) for n, verse in enumerate(verses) if is_test[n] == part]
                for part in (False, True)
            )
            rates[name] = alignment_error_rate(*zip(*development, strict=True))
            report(f"eflomal, {name}, test, {len(test):,} verses", *map(list, zip(*test, strict=True)))
        method = options.method or min(METHODS, key=rates.__getitem__)
        print(f"best on the development part: {method}")
        if options.links is not None:
            options.links.write_text("".join(f"{to_pharaoh(links)}\n" for links in found[method]))


if __name__ == "__main__":
    main()
