"""What every check of one attention layer uses: the layer, the report, and the smallest input that shows a fault.

Dimensions: B batch, T queries, S keys.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .inside import Inside, look_inside
from .layer import Layer, Sizes
from .report import Finding, Report
from .subject import TOLERANCE, largest_difference

SMALL = [(1, 1, 2), (1, 2, 2), (1, 2, 3), (2, 1, 2), (2, 2, 2), (2, 2, 3), (2, 3, 4), (3, 3, 4)]
LATER = ["softmax axis", "heads", "batch", "scale", "keys", "query", "real positions", "padding", "future"]
LATER += ["sum of the weights"]


class LayerChecker:
    """One attention layer under check. ``sizes`` are those at which every fault shows."""

    def __init__(self, report: Report, layer: Layer, sizes: Sizes) -> None:
        self.report, self.layer, self.sizes = report, layer, sizes
        self.tolerance = TOLERANCE
        self.inside: Inside | str = "not run"

    def look_inside(self, sizes: Sizes) -> Inside | str:
        """The attention of one call; that of the full sizes is recorded once."""
        if sizes != self.sizes or self.inside == "not run":
            return look_inside(self.layer, sizes)
        return self.inside

    def stops(self, test: "Test") -> bool:
        """Run a test whose failure makes later ones meaningless."""
        found = self.smallest(test)
        if not self.report.add(found) or found is None:
            return False
        for check in LATER:
            self.report.skip(check, f"cannot be judged until {found.name} is repaired")
        return True

    def smallest(self, test: "Test") -> Finding | None:
        """The finding of the smallest sizes that show the fault; only what the full sizes show counts."""
        found = test(self, self.sizes)
        if found is None:
            return None
        for small in SMALL:
            rows, queries, keys = small
            if keys in self.layer.widths and not self.layer.is_self:
                continue  # its output could not be told from weights
            sizes = Sizes(rows, keys if self.layer.is_self else 1 if self.layer.is_step else queries, keys)
            try:
                smaller = test(self, sizes)
            except Exception:  # the layer cannot take this size
                continue
            if smaller is not None and smaller.name == found.name:
                return smaller
        return found

    def finding(self, name: str, where: str, *calls: tuple[Any, ...], advice: str = "") -> Finding:
        """A finding with the arguments of one or two calls, and other advice than the usual."""
        made = [self.layer.arguments(*call) for call in calls]
        given = [{key: part for key, part in each.items() if isinstance(part, Tensor)} for each in made]
        first, second = [*given, {}][:2]
        return Finding(name, where, first, second, advice)

    def differs(self, first: Tensor, second: Tensor) -> bool:
        return largest_difference(first, second) > self.tolerance

    def influence(self, sizes: Sizes, with_mask: bool, allowed: Tensor | None) -> Tensor:
        """(T, T): whether the output of a position depends on a position of the query, in rows without padding.

        In self-attention the query is the input.
        """
        before = self.layer(*self.layer.inputs(sizes), allowed, with_mask).context
        seen = torch.zeros(sizes.queries, sizes.queries, dtype=torch.bool)
        real = torch.ones(sizes.rows, sizes.queries, dtype=torch.bool)
        if allowed is not None and self.layer.is_self:
            real = allowed
        for position in range(sizes.queries):
            after = self.layer(*self.with_query_at(sizes, position), allowed, with_mask).context
            for place in range(sizes.queries):
                shown = real[:, place]
                seen[place, position] = self.differs(before[shown, place], after[shown, place])
        return seen

    def with_query_at(self, sizes: Sizes, position: int) -> tuple[Tensor, Tensor, Tensor]:
        """The inputs with another query at one position; in self-attention, with another input there."""
        query, key, value = self.layer.inputs(sizes)
        changed = query.clone()
        changed[:, position] = self.layer.inputs(sizes, seed=1)[0][:, position]
        return (changed, changed, changed) if self.layer.is_self else (changed, key, value)

    def fewer_keys(self, sizes: Sizes) -> int:
        """A smaller number of keys; at the full sizes one that no other size of the layer equals."""
        free = (n for n in range(3, sizes.keys) if n not in {sizes.rows, *self.layer.taken})
        return next(free, sizes.keys - 1)


Test = Callable[[LayerChecker, Sizes], Finding | None]
