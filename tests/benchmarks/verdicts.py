"""How long ``attnzoo.check`` takes: ``OMP_NUM_THREADS=1 python -m tests.benchmarks.verdicts`` prints the slowest ten.

Seconds of one core, over all code of tests/checking. A verdict should not take longer than five.
"""

import time

import torch

import attnzoo
from tests.checking.cases import RIGHT, WRONG


def main() -> None:
    """Run the command line."""
    found: list[tuple[float, str]] = []
    wrong = [(f"wrong: {name}", one.make) for name, one in WRONG.items()]
    for name, make in [*wrong, *((f"right: {name}", make) for name, make in RIGHT.items())]:
        torch.manual_seed(0)
        arguments, options = make()
        began = time.process_time()
        attnzoo.check(*arguments, **options)
        found.append((time.process_time() - began, name))
    print(f"{len(found)} verdicts in {sum(seconds for seconds, _ in found):.0f} seconds; the slowest:")
    for seconds, name in sorted(found, reverse=True)[:10]:
        print(f"{seconds:6.1f}  {name}")


if __name__ == "__main__":
    main()
