"""The claims that papers and tutorials make of attention, each with an experiment and a verdict: ``attnzoo claims``.

A claim is a file with a ``CLAIM``, see ``frame.py``. ``NAMES`` has their order in lists and on the pages.
"""

NAMES: tuple[str, ...] = (
    # recurrence
    "vanishing-gradient",
    # one attention
    "five-steps",
    "dot-products-spread",
    "softmax-gradient",
    "confident-softmax",
    "self-is-cross",
    # heads
    "heads-cost-one",
    "heads-are-single-heads",
    # positions and masks
    "order-is-invisible",
    "no-leak",
    "mask-before-or-after",
    "three-masks",
    # length
    "path-length-one",
    "quadratic-cost",
)
