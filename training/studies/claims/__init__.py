"""The claims that papers and tutorials make of attention, each with an experiment and a verdict: ``attnzoo claims``.

A claim is a file with a ``CLAIM``, see ``frame.py``. ``NAMES`` has their order in lists and on the pages.
"""

NAMES: tuple[str, ...] = (
    "softmax-gradient",
    "heads-are-single-heads",
    "quadratic-cost",
)
