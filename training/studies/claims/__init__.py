"""Claims of papers and tutorials about attention, each with an experiment and a verdict: ``attnzoo claims``.

A claim is a file with a ``CLAIM``, see ``frame.py``. ``NAMES`` sets the order in lists and on the pages.
"""

NAMES: tuple[str, ...] = (
    # recurrence
    "fixed-vector-forgets",
    "vanishing-gradient",
    "long-lag",
    "teacher-forcing-helps",
    "attention-replaces-recurrence",
    # scores and alignments
    "dot-is-faster",
    "local-is-enough",
    "alignments-are-readable",
    "one-to-many",
    "one-size-for-any-length",
    "penalty-keeps-hops-apart",
    "weights-explain",
    # one attention
    "five-steps",
    "vectors-equal-loops",
    "dot-products-spread",
    "softmax-gradient",
    "confident-softmax",
    "training-needs-the-scale",
    "self-is-cross",
    # heads
    "heads-cost-one",
    "heads-are-single-heads",
    "heads-see-different-things",
    "every-head-matters",
    # positions, masks and meaning
    "order-is-invisible",
    "order-needs-positions",
    "sinusoids-extrapolate",
    "no-leak",
    "mask-before-or-after",
    "three-masks",
    "masks-decide-what-is-learned",
    "meaning-by-context",
    "it-finds-its-noun",
    # length
    "path-length-one",
    "window-limited-by-hardware",
    "parallel-not-sequential",
    "quadratic-cost",
)
