"""Alignments: which source tokens a model looked at for each token it generated.

Letters in shapes: N sequences, B rows in the decoder (sources times beams), T generated tokens, S source length.
"""

from typing import Any

import torch
from torch import Tensor


def generation_alignments(generated: Any) -> Tensor:
    """The alignment of every returned sequence, out of what ``generate()`` recorded.

    Call ``model.generate(..., output_attentions=True, return_dict_in_generate=True)`` and give its result. In a beam
    search the rows of a step belong to the beams as they stood at that step; each returned sequence is followed back
    through them. Row t is the look at the source from which token t + 1 of the sequence was chosen (token 0 is the
    start token). Rows past the end of a sequence mean nothing.

    Shape:
        - returns: (N, T, S)

    Raises:
        ValueError: the result holds no attentions.
    """
    steps = getattr(generated, "cross_attentions", None)
    if not steps:
        raise ValueError(
            "no attentions in this result; call generate(..., output_attentions=True, return_dict_in_generate=True)"
        )
    attention_weights = torch.stack([step[0][:, 0, -1] for step in steps], dim=1)  # (B, T, S)
    beam_indices = getattr(generated, "beam_indices", None)  # (N, T), -1 past the end of a sequence
    if beam_indices is None:
        return attention_weights
    step_indices = torch.arange(beam_indices.shape[1], device=beam_indices.device)
    return attention_weights[beam_indices.clamp(min=0), step_indices]
