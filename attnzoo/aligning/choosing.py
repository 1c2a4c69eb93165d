"""Which heads of a Transformer align, and which step belongs to a word."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..alignment import Heads, Links, align, alignment_error_rate, links_of
from ..attention_recording import attention_layers

SHIFTS = (0, 1)
MOST_HEADS = 4


class HeadChoice(NamedTuple):
    """How to read a model's attention: arguments of :func:`attnzoo.alignment.align`, and the error rate measured.

    Attributes:
        heads: pairs of (layer, head), whose mean is taken; a head of None is the mean of the layer's heads.
        shift: 0 for the step that predicts a word, 1 for the step that reads it.
        error_rate: the alignment error rate on the pairs that were used for the choice, against gold links or between
            the two directions.
    """

    heads: tuple[tuple[int, int | None], ...]
    shift: int
    error_rate: float

    @property
    def options(self) -> dict[str, Any]:
        """The arguments for ``align``."""
        return {"heads": self.heads, "shift": self.shift}


def choose_heads(
    model: Any,
    tokenizer: Any,
    sources: Sequence[Any],
    targets: Sequence[Any],
    links: Sequence[Links],
    batch_size: int = 64,
) -> HeadChoice:
    """The heads and the shift with the lowest alignment error rate on pairs whose links are known.

    Every head of every layer is tried alone, and the mean of every layer, each with both shifts. Then the next best
    heads with the same shift join the best one, as long as the error rate of their mean falls; at most four.

    Args:
        model: a model for conditional generation with attention
        tokenizer: its tokenizer
        sources: texts or lists of words of a development set, not of the test set
        targets: the target of each source
        links: the gold links of each pair
        batch_size: pairs in a forward pass

    Raises:
        ValueError: as :func:`attnzoo.alignment.align`, or ``links`` and ``sources`` differ in number.
    """
    if len(links) != len(sources):
        raise ValueError(f"every source needs its gold links, got {len(sources)} sources and links of {len(links)}")
    weights = _weights(model, tokenizer, sources, targets, _options(model), batch_size)

    def error_rate(heads: Heads, shift: int) -> float:
        found = [
            links_of(torch.stack(each).mean(dim=0)) for each in zip(*(weights[h, shift] for h in heads), strict=True)
        ]
        return alignment_error_rate(found, links)

    rates = {(head, shift): error_rate([head], shift) for head, shift in weights}
    (best, shift), lowest = min(rates.items(), key=lambda item: item[1])
    heads = [best]
    others = sorted((head for head, s in rates if s == shift and head != best), key=lambda head: rates[head, shift])
    for head in others[: MOST_HEADS - 1]:
        rate = error_rate([*heads, head], shift)
        if rate < lowest:
            heads, lowest = [*heads, head], rate
    return HeadChoice(tuple(heads), shift, lowest)


def choose_heads_by_agreement(
    forward: tuple[Any, Any],
    backward: tuple[Any, Any],
    sources: Sequence[Any],
    targets: Sequence[Any],
    batch_size: int = 64,
) -> tuple[HeadChoice, HeadChoice]:
    """Choose a layer for each of two directions without gold links: the two that agree best (Chen et al., 2020).

    The weights of a layer are the mean of its heads. The alignments of one direction count as the gold links of the
    other. For a Transformer, the alignment of a word is the attention of the step that reads the word (the paper's
    Shift-Att). For an RNN, it is the attention of the step that predicts the word.

    **Differs from the paper**: only in the RNN, which the paper does not have.

    Args:
        forward: a model and its tokenizer, which read the source and predict the target
        backward: a model and its tokenizer of the other direction
        sources: lists of words, some hundred sentences
        targets: the target of each source
        batch_size: pairs in a forward pass

    Raises:
        ValueError: as :func:`attnzoo.alignment.align`.
    """
    found = []
    for (model, tokenizer), pair in ((forward, (sources, targets)), (backward, (targets, sources))):
        shift = 1 if attention_layers(model) else 0
        layers = [option for option in _options(model) if option[1] is None]
        weights = _weights(model, tokenizer, *pair, layers, batch_size, shifts=(shift,))
        found.append({key: [links_of(one) for one in of_key] for key, of_key in weights.items()})
    rates = {
        (there, back): alignment_error_rate(links, [{(s, t) for t, s in one} for one in found[1][back]])
        for there, links in found[0].items()
        for back in found[1]
    }
    ((first, first_shift), (second, second_shift)), rate = min(rates.items(), key=lambda item: item[1])
    return HeadChoice((first,), first_shift, rate), HeadChoice((second,), second_shift, rate)


def _options(model: Any) -> list[tuple[int, int | None]]:
    """Every head of every layer of the decoder, and the mean of each layer. An RNN has one layer and one head."""
    cross = attention_layers(model).get("cross")
    if cross is None:
        return [(0, None)]
    config = model.config
    heads = getattr(config, "decoder_attention_heads", None) or config.num_attention_heads
    return [(layer, head) for layer in range(len(cross)) for head in (*range(heads), None)]


def _weights(
    model: Any,
    tokenizer: Any,
    sources: Sequence[Any],
    targets: Sequence[Any],
    options: list[tuple[int, int | None]],
    batch_size: int,
    shifts: Sequence[int] = SHIFTS,
) -> dict[tuple[tuple[int, int | None], int], list[Tensor]]:
    """The weights (target words, source words) of every pair, by head and shift."""
    return {
        (option, shift): [
            pair.weights.nan_to_num()
            for pair in align(model, tokenizer, sources, targets, batch_size, shift=shift, heads=[option])
        ]
        for option in options
        for shift in shifts
    }
