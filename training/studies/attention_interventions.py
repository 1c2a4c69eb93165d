"""One prediction of each example, under other attention weights or without some of its source tokens.

For Lin's classifier the prediction is the class of the sentence. For the RNN it is the token of one step, after the
given tokens before it.

Letters in shapes: B batch, Q hops or target steps, S source tokens, E embedding width, K classes or tokens.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnzoo.attention import PredictiveWindow, SourceAttention, StructuredSelfAttention, attend

Change = Callable[[Tensor], Tensor]


def attention_layer(model: nn.Module) -> SourceAttention | StructuredSelfAttention:
    """The layer whose weights the study replaces.

    Raises:
        ValueError: the model is neither Lin's classifier nor an RNN with attention, or its weights do not sum to 1.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, SourceAttention | StructuredSelfAttention)]
    if len(layers) != 1:
        raise ValueError(
            f"{type(model).__name__} has {len(layers)} layers of attention that can be replaced; the study is of the "
            "structured self-attentive classifier and of the RNN with attention"
        )
    (layer,) = layers
    if isinstance(layer, SourceAttention) and isinstance(layer.window, PredictiveWindow):
        raise ValueError(
            "the study replaces weights by others that sum to 1, and the weights of window='predictive' (local-p) do "
            "not; give a model whose window is 'global' or 'monotonic'"
        )
    return layer


@contextmanager
def changed_attention(model: nn.Module, change: Change, steps: Tensor | None = None) -> Iterator[list[Tensor]]:
    """Replace the attention weights of a model in a ``with`` block. The value is a list of the weights of every call.

    Args:
        model: Lin's classifier, or the RNN
        change: a function from the model's weights (B, Q, S) to the scores (B, Q, S) of the weights that replace them;
            these are their softmax
        steps: (B,), the target step whose weights are replaced, for the RNN; None replaces all

    Raises:
        ValueError: as :func:`attention_layer`.
    """
    layer = attention_layer(model)
    recorded: list[Tensor] = []

    def replace(layer: nn.Module, inputs: tuple[Any, ...], outputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        context, weights = outputs
        value = inputs[0] if isinstance(layer, StructuredSelfAttention) else inputs[1].value
        new_context, new_weights = attend(change(weights), value)
        if steps is not None:
            first = inputs[2]
            numbers = torch.arange(first, first + weights.shape[1], device=weights.device)
            is_chosen = (numbers == steps.unsqueeze(1)).unsqueeze(-1)  # (B, Q, 1)
            new_context = torch.where(is_chosen, new_context, context)
            new_weights = torch.where(is_chosen, new_weights, weights)
        recorded.append(new_weights)
        return new_context, new_weights

    handle = layer.register_forward_hook(replace)
    try:
        yield recorded
    finally:
        handle.remove()


class Predictions:
    """One prediction of each example of a batch.

    Args:
        model: Lin's classifier, or the RNN, in evaluation mode
        batch: ``input_ids`` and ``attention_mask``; for the RNN also ``decoder_input_ids``
        is_word: (B, S), the tokens that are compared and removed; not special tokens or padding
        steps: (B,), the target step of the prediction, for the RNN

    Attributes:
        probabilities: (B, K), of the model as it is
        weights: (B, Q, S), of the model as it is: all hops, or the one step
    """

    def __init__(self, model: Any, batch: dict[str, Tensor], is_word: Tensor, steps: Tensor | None = None) -> None:
        self.model, self.batch, self.is_word, self.steps = model, batch, is_word, steps
        self.mask = batch["attention_mask"].bool()
        self.source_read = batch  # for calls in which the encoder reads what it has read before
        with torch.no_grad():
            outputs = model(**batch, output_attentions=True)
            if steps is not None:
                source = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
                self.source_read = batch | {"encoder_outputs": model.get_encoder()(**source)}
                del self.source_read["input_ids"]
        self.probabilities = self._probabilities(outputs)
        (attentions,) = outputs.attentions if steps is None else outputs.cross_attentions
        weights = attentions[:, 0]
        self.weights = weights if steps is None else weights[torch.arange(len(steps)), steps].unsqueeze(1)

    @property
    def importance(self) -> Tensor:
        """The weight of each source token (B, S), for Lin's classifier the mean of the hops."""
        return self.weights.mean(dim=1)

    @property
    def chosen(self) -> Tensor:
        """The predicted class or token, (B, 1)."""
        return self.probabilities.argmax(dim=1, keepdim=True)

    def under(self, change: Change) -> Tensor:
        """The probabilities (B, K) under other weights, see :func:`changed_attention`."""
        with changed_attention(self.model, change, self.steps):
            return self._probabilities(self.model(**self.source_read))

    @torch.no_grad()
    def without(self, is_removed: Tensor) -> Tensor:
        """The probabilities (B, K) if these tokens (B, S) are removed: encoder and attention do not read them."""
        batch = self.batch | {"attention_mask": (self.mask & ~is_removed).long()}
        return self._probabilities(self.model(**batch))

    def gradients(self) -> Tensor:
        """How much each token (B, S) changes the probability of the prediction through the encoder, by the gradient.

        It is the absolute product of embedding and gradient, with the attention weights held fixed, as in Jain and
        Wallace (2019, section 4.1).
        """
        embeddings = self.model.get_input_embeddings()(self.batch["input_ids"]).detach().requires_grad_()  # (B, S, E)
        batch = {name: value for name, value in self.batch.items() if name != "input_ids"}
        with changed_attention(self.model, lambda weights: weights.detach().log(), None):
            probabilities = self._probabilities(self.model(**batch, inputs_embeds=embeddings))
        (gradient,) = torch.autograd.grad(probabilities.gather(1, self.chosen).sum(), embeddings)
        return (gradient * embeddings).sum(dim=-1).abs().detach()

    def _probabilities(self, outputs: Any) -> Tensor:
        logits = outputs.logits
        if self.steps is not None:
            logits = logits[torch.arange(len(self.steps)), self.steps]
        return logits.softmax(dim=-1)


def uniform(mask: Tensor) -> Change:
    """The same weight for every real token; ``mask`` is (B, S)."""
    return lambda weights: torch.zeros_like(weights).masked_fill(~mask.unsqueeze(1), -math.inf)


def permuted(mask: Tensor, generator: torch.Generator) -> Change:
    """The weights of each row moved to other real tokens at random, those of all hops in the same way."""
    keys = torch.rand(mask.shape, generator=generator).to(mask.device)
    places = (~mask).int().argsort(dim=1, stable=True)  # the real tokens first, in their order
    origins = keys.masked_fill(~mask, 2).argsort(dim=1)  # the real tokens first, in a random order

    def change(weights: Tensor) -> Tensor:
        from_, to = (index.unsqueeze(1).expand_as(weights) for index in (origins, places))
        return torch.zeros_like(weights).scatter(2, to, weights.gather(2, from_)).log()

    return change


def total_variation(p: Tensor, q: Tensor) -> Tensor:
    """The total variation distance of distributions in the last dimension, from 0 to 1."""
    return (p - q).abs().sum(dim=-1) / 2


def jensen_shannon(p: Tensor, q: Tensor) -> Tensor:
    r"""The Jensen-Shannon divergence of distributions in the last dimension, in bits, from 0 to 1.

    .. math:: \frac{1}{2} \mathrm{KL}(p \| m) + \frac{1}{2} \mathrm{KL}(q \| m), \qquad m = \frac{p + q}{2}
    """
    log_p, log_q, log_m = (part.clamp(min=torch.finfo(p.dtype).tiny).log() for part in (p, q, (p + q) / 2))
    return (p * (log_p - log_m) + q * (log_q - log_m)).sum(dim=-1) / (2 * math.log(2))


def adversarial(predictions: Predictions, tolerance: float, updates: int, generator: torch.Generator) -> Tensor:
    r"""The largest Jensen-Shannon divergence (B,) of weights that leave the prediction as it is, by a search.

    .. math:: \max_{\tilde\alpha} \mathrm{JS}(\alpha, \tilde\alpha) \quad \text{with} \quad
              \mathrm{TVD}(\hat y(\alpha), \hat y(\tilde\alpha)) \le \epsilon

    Jain and Wallace (2019, section 4.2.2): gradient ascent on the divergence minus a penalty for a distance above
    :math:`\epsilon`, from random weights. The divergence is that of :attr:`Predictions.importance`. It is 0 where the
    search found no weights within the tolerance. The search gives a lower bound: other weights may be further away.

    **Differs from the paper**: Adam takes fewer and larger steps, and the best weights of all steps count.
    """
    mask = predictions.mask.unsqueeze(1)
    scores = torch.randn(predictions.weights.shape, generator=generator).to(predictions.weights).requires_grad_()
    optimizer = torch.optim.Adam([scores], lr=0.3)
    best = torch.zeros_like(predictions.importance[:, 0])
    for _ in range(updates):
        masked = scores.masked_fill(~mask, -math.inf)
        changed = predictions.under(partial(_as, masked))
        distance = total_variation(predictions.probabilities, changed)
        divergence = jensen_shannon(predictions.importance, masked.softmax(dim=-1).mean(dim=1))
        is_better = (distance <= tolerance) & (divergence > best)
        best = torch.where(is_better, divergence.detach(), best)
        loss = (10 * (distance - tolerance).clamp(min=0) - divergence).sum()
        (scores.grad,) = torch.autograd.grad(loss, scores)
        optimizer.step()
    return best


def _as(scores: Tensor, weights: Tensor) -> Tensor:
    """Scores (B, 1, S) for the weights (B, Q, S) of every step; those of Lin's classifier are (B, Q, S) already."""
    return scores.expand_as(weights)
