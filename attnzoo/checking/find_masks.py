"""The forms of the masks that a layer takes: those that hide padding, or later positions, best.

Dimensions: B batch, T queries, S keys.
"""

from dataclasses import replace

import torch
from torch import Tensor

from .layer import PADDING_SHAPES, PAIR_SHAPES, Layer, MaskForm, Sizes, hidden_keys, mask_forms
from .subject import TOLERANCE, gap, largest_difference, leaked_share


def with_masks(layer: Layer, sizes: Sizes, mask: str | None) -> Layer:
    """The layer with the mask forms that hide padding best."""
    padding = _best(layer, sizes, mask, PADDING_SHAPES, is_padding=True) if layer.takes_padding else None
    return with_pairs(replace(layer, padding=padding), sizes, mask)


def with_pairs(layer: Layer, sizes: Sizes, mask: str | None = None) -> Layer:
    """The layer with the form of a mask of pairs that hides later positions best."""
    if not layer.takes_pairs:
        return layer
    is_same = layer.has("mask") and not layer.has("padding") and not layer.has("target_mask")  # one argument for both
    convention = mask or (layer.padding.convention if layer.padding and is_same else None)
    pairs = _best(layer, sizes, convention, PAIR_SHAPES, is_padding=False) or layer.pairs
    if pairs is None and layer.has("target_mask"):
        pairs = _without_effect(layer, sizes, convention)
    return replace(layer, pairs=pairs)


def _without_effect(layer: Layer, sizes: Sizes, mask: str | None) -> MaskForm | None:
    """A form of a mask of pairs that the layer takes, if it takes no notice of any."""
    inputs, taken = layer.inputs(sizes), None
    plain = layer(*inputs).context
    for form in mask_forms(mask, tuple(dict.fromkeys((*PAIR_SHAPES, *PADDING_SHAPES)))):
        try:
            masked = replace(layer, pairs=form)(*inputs, causal=True).context
        except Exception:
            continue
        if largest_difference(plain, masked) > TOLERANCE:
            return None
        taken = taken or form
    return taken


def _best(layer: Layer, sizes: Sizes, mask: str | None, shapes: tuple[str, ...], is_padding: bool) -> MaskForm | None:
    call, others = layer.inputs(sizes), layer.inputs(sizes, seed=1)
    of_queries = layer.is_self or not is_padding  # whether positions of the query are hidden
    real = torch.ones(sizes.rows, sizes.queries if of_queries else sizes.keys, dtype=torch.bool)
    if is_padding:
        real = hidden_keys(sizes)
    else:
        real[:, -2:] = False
    shown = real if of_queries else torch.ones(sizes.rows, sizes.queries, dtype=torch.bool)

    def changed(places: Tensor) -> tuple[Tensor, ...]:
        """Query, key and value with others at these places."""
        of_keys = is_padding or layer.is_self
        parts = zip(call, others, (of_queries, of_keys, of_keys), strict=True)
        return tuple(torch.where(places[..., None], other, part) if moves else part for part, other, moves in parts)

    calls = call, changed(~real), changed(real)
    ranked: list[tuple[float, int, MaskForm]] = []
    for number, form in enumerate(mask_forms(mask, shapes)):
        candidate = replace(layer, padding=form) if is_padding else replace(layer, pairs=form)
        try:
            leaks = []
            for query, key, value in calls:
                result = candidate(query, key, value, real if is_padding else None, causal=not is_padding)
                leaks.append(torch.where(shown[..., None], result.context, 0.0))
        except Exception:
            continue
        leak = gap(leaks[0], leaks[1])
        effect = min(gap(first, second) for first, second in zip(leaks[0], leaks[2], strict=True))
        if not is_padding and not _acts_on_one_query(candidate, sizes):
            continue
        is_usable = bool(torch.isfinite(leaks[0]).all()) and effect > TOLERANCE  # else it hides all keys of a row
        ranked.append((leaked_share(leak, effect) if is_usable else 1e6, number, form))
    if ranked and min(ranked)[0] > 0:  # no form hides: prefer those in which a mask that hides nothing has no effect
        harmless = [each for each in ranked if _hides_nothing(layer, sizes, each[2], is_padding)]
        ranked = harmless or ranked
    return min(ranked)[2] if ranked else None


def _hides_nothing(layer: Layer, sizes: Sizes, form: MaskForm, is_padding: bool) -> bool:
    """Whether a mask of this form that should hide nothing hides nothing."""
    candidate = replace(layer, padding=form) if is_padding else replace(layer, pairs=form)
    if layer.needs_mask:
        return not is_padding or shows_keys(candidate, sizes)
    shape = (sizes.rows, sizes.keys) if is_padding else (sizes.rows, sizes.queries, sizes.queries)
    inputs = layer.inputs(sizes)
    plain, masked = (candidate(*inputs, allowed).context for allowed in (None, torch.ones(shape, dtype=torch.bool)))
    return largest_difference(plain, masked) < TOLERANCE


def shows_keys(layer: Layer, sizes: Sizes) -> bool:
    """Whether the scores matter, with a mask that should hide nothing.

    If it hides all keys, the weights are equal, zero or NaN; then the output is affine in the inputs, or not finite.
    """
    every = torch.ones(sizes.rows, sizes.keys, dtype=torch.bool)
    first, second = layer.inputs(sizes), layer.inputs(sizes, seed=1)
    query, key, value = ((one + other) / 2 for one, other in zip(first, second, strict=True))
    results = [layer(*call, every).context for call in (first, second, (query, key, value))]
    if not all(bool(torch.isfinite(each).all()) for each in results):
        return False
    return largest_difference((results[0] + results[1]) / 2, results[2]) > TOLERANCE


def _acts_on_one_query(layer: Layer, sizes: Sizes) -> bool:
    """Whether hiding keys from one query changes the output of that query alone."""
    inputs = layer.inputs(sizes)
    every = torch.ones(sizes.rows, sizes.queries, sizes.queries, dtype=torch.bool)
    one = every.clone()
    one[:, 1, 2:] = False
    first, second = (layer(*inputs, allowed).context for allowed in (every, one))
    changed = [largest_difference(first[:, place], second[:, place]) > TOLERANCE for place in range(sizes.queries)]
    return changed == [place == 1 for place in range(sizes.queries)]
