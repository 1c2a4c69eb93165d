"""The predictions of a model for the text whose attention is shown."""

from typing import Any

from torch import Tensor
from transformers import PreTrainedConfig

from .tokens import tokens_of

MOST = 5  # candidates for a word
Predictions = list[tuple[str, str]]  # what is predicted, and the prediction


def label_of(logits: Tensor, config: PreTrainedConfig) -> str:
    """The prediction as text, by ``problem_type``. A model with one output predicts a number, unless it is multi-label.

    Shape:
        - logits: (number of labels,)
    """
    names = [name for _, name in sorted((config.id2label or {}).items())]
    if config.problem_type == "multi_label_classification":
        return ", ".join(f"{name} {100 * p:.0f} %" for name, p in zip(names, logits.sigmoid(), strict=True))
    if config.problem_type == "regression" or len(names) == 1:
        return ", ".join(f"{name} {value:.4g}" for name, value in zip(names, logits.tolist(), strict=True))
    probability, label = logits.softmax(dim=0).max(dim=0)
    return f"{names[int(label)]} {100 * probability:.0f} %"


def predictions_of(model: Any, tokenizer: Any, ids: list[int], logits: Tensor | None) -> Predictions:
    """The label of a classifier, the next word of a causal model, the words of a masked model's masks; else nothing.

    Shape:
        - logits: (1, number of labels) of a classifier, (1, T, vocabulary) of a language model
    """
    if logits is None:
        return []
    name = type(model).__name__
    if name.endswith("ForSequenceClassification"):
        return [("Predicted label", label_of(logits[0].float(), model.config))]
    special = {*tokenizer.all_special_ids}
    if model.can_generate():
        last = max((place for place, number in enumerate(ids) if number not in special), default=len(ids) - 1)
        return [("Next word", _candidates(tokenizer, logits[0, last]))]
    if not name.endswith("ForMaskedLM"):
        return []
    masks = [place for place, number in enumerate(ids) if number == tokenizer.mask_token_id]
    return [
        (f"Mask {number}" if len(masks) > 1 else "Mask", _candidates(tokenizer, logits[0, place]))
        for number, place in enumerate(masks, start=1)
    ]


def _candidates(tokenizer: Any, logits: Tensor) -> str:
    """The most probable tokens with their probabilities."""
    probabilities, found = logits.float().softmax(dim=0).topk(min(MOST, len(logits)))
    names = [tokens_of(tokenizer, [number]).names[0] for number in found.tolist()]
    return ", ".join(f"{name} {100 * p:.0f} %" for name, p in zip(names, probabilities.tolist(), strict=True))
