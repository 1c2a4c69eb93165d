"""The claims that papers and tutorials make of attention, each with an experiment and a verdict: ``attnzoo claims``.

A claim is a file with a ``CLAIM``, see ``frame.py``. ``NAMES`` has their order in lists and on the pages.
"""

NAMES: tuple[str, ...] = (
    # recurrence
    "vanishing-gradient",
    # scores and alignments
    "dot-is-faster",
    "alignments-are-readable",
    "one-to-many",
    "one-size-for-any-length",
    "weights-explain",
    # one attention
    "five-steps",
    "vectors-equal-loops",
    "dot-products-spread",
    "softmax-gradient",
    "confident-softmax",
    "self-is-cross",
    # heads
    "heads-cost-one",
    "heads-are-single-heads",
    "heads-see-different-things",
    "every-head-matters",
    # positions, masks and meaning
    "order-is-invisible",
    "no-leak",
    "mask-before-or-after",
    "three-masks",
    "meaning-by-context",
    "it-finds-its-noun",
    # length
    "path-length-one",
    "parallel-not-sequential",
    "quadratic-cost",
)
