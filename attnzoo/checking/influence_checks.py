"""The keys have influence on the output, and not on the returned weights alone.

Dimensions: B batch, S keys.
"""

import torch

from .layer import Sizes, reads_keys
from .layer_checker import LayerChecker
from .report import CONTEXT_UNUSED, Finding

SEEDS = 6  # inputs: hard attention does not choose every key on each of them


def context_unused(checker: LayerChecker, sizes: Sizes) -> Finding | None:
    """The output does not depend on the keys; in self-attention, not on other positions."""
    if reads_keys(checker.layer, sizes, checker.tolerance):
        return None
    where = (
        "no position of the output depends on another one"
        if checker.layer.is_self
        else "no key has influence on the output"
    )
    return checker.finding("real_positions_masked", where, checker.layer.inputs(sizes), advice=CONTEXT_UNUSED)


def check_every_key(checker: LayerChecker) -> None:
    """Check that each key of another sequence has influence on some output; that of a window need not have it."""
    if checker.layer.is_self:
        return None
    silent = _silent_key(checker)
    if silent is None:
        return checker.report.done("real positions")
    reason = f"key {silent} has no influence on any output, also without a mask; is it outside of a window?"
    return checker.report.skip("real positions", reason)


def _silent_key(checker: LayerChecker) -> int | None:
    """A key that has no influence on any output, without padding; None if all have."""
    layer, sizes = checker.layer, checker.sizes
    silent = [*range(sizes.keys)]
    for seed in range(SEEDS):
        query, key, value = layer.inputs(sizes, 2 * seed)
        _, other_key, other_value = layer.inputs(sizes, 2 * seed + 1)
        first = layer(query, key, value).context
        for place in list(silent):
            at = (torch.arange(sizes.keys) == place)[:, None]
            second = layer(query, torch.where(at, other_key, key), torch.where(at, other_value, value)).context
            if checker.differs(first, second):
                silent.remove(place)
    return next(iter(silent), None)
