r"""Copying words from the source (See et al., 2017, "Get To The Point", section 2.2): the pointer-generator.

.. math:: P(w) = p_{gen} P_{vocab}(w) + (1 - p_{gen}) \sum_{j:\, x_j = w} a_j

At every step a gate :math:`p_{gen}` weighs writing a word of the vocabulary against copying a word of the source. The
attention weights :math:`a` choose the source word. Source and target share one vocabulary, so every source token is in
it.

Dimensions: B batch, N targets of a source, T target length, S source length, D model width.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid
from transformers.modeling_outputs import (
    BaseModelOutputWithPastAndCrossAttentions,
    Seq2SeqLMOutput,
    Seq2SeqModelOutput,
)

from .attention import attend, dot_score


class Copied(NamedTuple):
    """The values that a step needs to copy.

    Shape:
        - gate: (B * N, T), the logit of p_gen
        - attention_weights: (B * N, T, S), float32 at least; each row sums to 1, or to 0 if there is nothing to copy
        - source_ids: (B, S), the tokens of the source
    """

    gate: Tensor
    attention_weights: Tensor
    source_ids: Tensor


class CopyGate(nn.Module):
    r"""The gate between writing and copying (See et al., 2017, equation 8), as a logit.

    .. math:: p_{gen} = \sigma(w_{h^*}^\top h^*_t + w_s^\top s_t + w_x^\top x_t + b_{ptr})

    Symbols: the context :math:`h^*_t`, the decoder's state :math:`s_t` and its input :math:`x_t` are the parts in this
    order; :math:`[w_{h^*}\ w_s\ w_x]` side by side are the weight of ``gate_proj`` and :math:`b_{ptr}` is its bias.

    Shape:
        - parts: (..., sizes[0]), (..., sizes[1]) and so on
        - returns: (...)
    """

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(sum(sizes), 1)

    def forward(self, *parts: Tensor) -> Tensor:
        dtype = parts[-1].dtype
        return self.gate_proj(torch.cat([part.to(dtype) for part in parts], dim=-1)).squeeze(-1)


class CopyHead(nn.Module):
    r"""The pointer of the small Transformer: one attention head, on top of the decoder.

    .. math::
        a_t &= \mathrm{softmax}_j(h_t^\top W \bar h_j / \sqrt{d}) \\
        p_{gen} &= \sigma(w_{h^*}^\top \textstyle\sum_j a_{tj} \bar h_j + w_s^\top h_t + b_{ptr})

    Symbols: :math:`h_t` and :math:`\bar h_j` are the last hidden states of decoder and encoder, :math:`W` is the
    transposed weight of ``query_proj``, :math:`d` is the model width, and the second line is ``gate``.

    The decoder's own heads are not used. They attend to different things, so their mean is not an alignment, and fused
    attention kernels do not return their weights. This head costs less than the attention of one layer to the source.

    **Differs from See et al. (2017)**, whose model is recurrent: the gate does not read :math:`x_t` separately, since
    the residual connections add it to :math:`h_t`.

    Shape:
        - states: (B * N, T, D); source: (B, S, D), for N targets of every source
        - mask: (B, S) bool; source_ids: (B, S)
        - returns: :class:`Copied`
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.query_proj = nn.Linear(size, size, bias=False)
        self.gate = CopyGate(size, size)

    def forward(self, states: Tensor, source: Tensor, mask: Tensor, source_ids: Tensor) -> Copied:
        by_source = states.unflatten(0, (source.shape[0], -1)).flatten(1, 2)  # (B, N * T, D)
        scores = dot_score(self.query_proj(by_source), source, source.shape[-1] ** -0.5)
        context, weights = attend(scores, source, mask.unsqueeze(1))
        context, weights = (part.unflatten(1, (-1, states.shape[1])).flatten(0, 1) for part in (context, weights))
        return Copied(self.gate(context, states), weights, source_ids)


def pointer_generator(logits: Tensor, copied: Copied) -> Tensor:
    r"""The logarithm of the mixture of writing and copying (See et al., 2017, equation 9), at every word.

    .. math:: \log P(w) = \log\left(p_{gen} \, \mathrm{softmax}(z)_w + (1 - p_{gen}) \sum_{j:\, x_j = w} a_j\right)

    Symbols: :math:`z` are the ``logits``. Since the result is a log-probability, ``log_softmax`` does not change it:
    the loss and ``generate()`` can use it as logits. The sum is computed as a log-sum-exp, in float32 at least.
    If there is nothing to copy, :math:`p_{gen}` is 1.

    Shape:
        - logits: (B * N, T, vocabulary)
        - returns: (B * N, T, vocabulary), float32 or float64
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    gate, weights = copied.gate.to(logits.dtype), copied.attention_weights.to(logits.dtype)
    targets = weights.shape[0] // copied.source_ids.shape[0]
    ids = copied.source_ids.long().repeat_interleave(targets, dim=0).unsqueeze(1).expand_as(weights)
    has_source = weights.sum(dim=-1) > 0  # (B * N, T)
    written = logits.log_softmax(dim=-1) + logsigmoid(gate).masked_fill(~has_source, 0.0).unsqueeze(-1)
    # Only words of the source change, so the tensors from here on are (B * N, T, S), far smaller than the vocabulary.
    of_word = torch.zeros_like(logits).scatter_add(-1, ids, weights).gather(-1, ids)
    # The logarithm of a subnormal number has a gradient that overflows.
    is_copied = of_word >= torch.finfo(of_word.dtype).tiny
    from_source = of_word.where(is_copied, 1.0).log() + logsigmoid(-gate).unsqueeze(-1)
    written_here = written.gather(-1, ids)
    both = torch.where(is_copied, torch.logaddexp(written_here, from_source), written_here)
    # A word that is twice in the source has the same value twice, and its gradient must count once.
    is_first = (copied.source_ids.unsqueeze(-1) == copied.source_ids.unsqueeze(-2)).int().argmax(dim=-1)
    is_first = is_first == torch.arange(ids.shape[-1], device=ids.device)  # (B, S)
    is_first = is_first.repeat_interleave(targets, dim=0).unsqueeze(1)
    return written.scatter(-1, ids, torch.where(is_first, both, both.detach()))


def source_ids_of(encoder_outputs: Any) -> Tensor | None:
    """The source's tokens (B, S) in the encoder's outputs, an output object or a tuple; None if they are not there.

    They are the only integer tensor there.
    """
    parts = encoder_outputs if isinstance(encoder_outputs, tuple | list) else encoder_outputs.to_tuple()
    return next((part for part in parts if isinstance(part, Tensor) and not part.is_floating_point()), None)


@dataclass
class CopyableSource(BaseModelOutputWithPastAndCrossAttentions):
    """An encoder's output with the tokens of the source, ``source_ids`` (B, S)."""

    source_ids: Tensor | None = None


@dataclass
class CopyingDecoderOutput(BaseModelOutputWithPastAndCrossAttentions):
    """A decoder's output with the gate of :class:`Copied` and, for copying or coverage, the weights (B, T, S)."""

    copy_gate: Tensor | None = None
    alignments: Tensor | None = None


@dataclass
class CopyingModelOutput(Seq2SeqModelOutput):
    """The output of an encoder-decoder with what :class:`CopyingDecoderOutput` adds."""

    copy_gate: Tensor | None = None
    alignments: Tensor | None = None


@dataclass
class CopyingLMOutput(Seq2SeqLMOutput):
    """The output of a model that copies. Its logits are log-probabilities.

    Shape:
        - copy_probabilities: (B, T), 1 - p_gen, the weight of copying against writing
        - copy_attentions: with ``output_attentions=True`` a 1-tuple of (B, 1, T, S), the weights that choose a source
          token
    """

    copy_probabilities: Tensor | None = None
    copy_attentions: tuple[Tensor, ...] | None = None
