"""The labels of a batch, checked, and the target that a decoder reads for them.

Dimensions: B batch, T target length.
"""

from typing import Any

import torch
from torch import Tensor

from .loss import IGNORED, is_whole, problem_type_of
from .messages import described
from .value_checks import Checks, is_readable, out_of_range


def read_labels(model: Any, labels: Any, name: str, checks: Checks | None = None) -> Tensor:
    """Check labels; whole numbers become int64. Labels of tokens must be ids of the vocabulary."""
    if not isinstance(labels, Tensor) or labels.is_complex():
        raise TypeError(f"{name} must be a tensor, got {described(labels)}")
    own = Checks() if checks is None else checks
    has_vocabulary = model.get_output_embeddings() is not None
    if labels.is_floating_point() or labels.dtype == torch.bool:
        if has_vocabulary:
            raise TypeError(f"{name} must be a tensor of whole numbers, got {described(labels)}")
        if is_readable(labels):
            infinite = f"{name} has values that are not finite (NaN or infinite)"
            own.add(~labels.isfinite().all(), lambda: ValueError(infinite))
    else:
        labels = labels.long()
        if has_vocabulary and is_readable(labels):
            size = model.config.vocab_size
            is_wrong = ((labels < 0) | (labels >= size)) & (labels != IGNORED)
            nothing = f", or {IGNORED} where there is nothing to predict"
            own.add(
                is_wrong.any(),
                lambda: out_of_range(name, labels[is_wrong], f"vocab_size={size}: labels", size, nothing),
            )
            if (closed := getattr(model.config, "closed_token", None)) is not None:
                start = f"{name} has the token {closed}, the start token, which zero_start=True never predicts; put"
                own.add((labels == closed).any(), lambda: ValueError(f"{start} {IGNORED} where there is no word"))
    if not has_vocabulary and is_readable(labels):
        _check_classes(model, labels, own)
    if checks is None:
        own.read()
    return labels


def _check_classes(model: Any, labels: Tensor, checks: Checks) -> None:
    """Check the values of a classifier's labels. Their shape is checked when there are logits."""
    num_labels = model.config.num_labels
    problem_type = getattr(model, "problem_type", None)
    problem_type = problem_type_of(problem_type or model.config.problem_type, num_labels, labels)
    is_given = labels != IGNORED
    if problem_type == "regression":
        mark = f"a target of regression is {IGNORED}, the mark of a row without a label; shift or scale them"
        checks.add(~is_given.all(), lambda: ValueError(mark))
        return
    is_single = problem_type == "single_label_classification"
    if is_single and not is_whole(labels):
        return
    is_wrong = is_given & ((labels < 0) | (labels > (num_labels - 1 if is_single else 1)))

    def wrong_label() -> ValueError:
        value = labels[is_wrong][0].item()
        if not is_single:
            return ValueError(f"labels of multi-label classification are 0 or 1, got {value}")
        return ValueError(
            f"label {value} is out of range for num_labels={num_labels}: labels are 0 to {num_labels - 1}, or "
            f"{IGNORED} for a row without one"
        )

    checks.add(is_wrong.any(), wrong_label)


def check_labels(labels: Tensor, inputs: dict[str, Any], prefix: str = "") -> bool:
    """Check that ``labels`` (B, T) fit the text or target: the ids or embeddings among ``inputs`` with this prefix.

    Returns:
        Whether there is such a text or target.

    Raises:
        ValueError: the text or target has another shape.
    """
    ids, embeddings = inputs.get(f"{prefix}input_ids"), inputs.get(f"{prefix}inputs_embeds")
    tokens = ids if embeddings is None else embeddings
    if tokens is not None and labels.shape != tokens.shape[:2]:
        shapes = f"{tuple(labels.shape)} do not fit a {'target' if prefix else 'text'} of shape"
        raise ValueError(f"labels of shape {shapes} {tuple(tokens.shape[:2])}")
    return tokens is not None


def starts_target(inputs: dict[str, Any], parameters: list[str]) -> bool:
    """Whether the decoder's input is made of the labels: in an encoder-decoder, without a target among the inputs."""
    names = "decoder_input_ids", "decoder_inputs_embeds"
    return names[0] in parameters and inputs.get("labels") is not None and all(inputs.get(n) is None for n in names)


def check_padding(labels: Tensor, checks: Checks) -> None:
    """Check that no label follows a -100, as with padding on the left: the decoder would read the padding."""
    if labels.ndim == 2 and is_readable(labels):
        is_padding = labels == IGNORED
        side = "pad them on the right (tokenizer.padding_side='right')"
        checks.add(
            (is_padding[:, :-1] & ~is_padding[:, 1:]).any(),
            lambda: ValueError(f"labels have a token after a -100; {side}"),
        )


def shift_right(labels: Tensor, start_token_id: int, pad_token_id: int) -> Tensor:
    """The decoder's input for ``labels`` (B, T): the start token, then the labels without the last."""
    start = labels.new_full((len(labels), 1), start_token_id)
    return torch.cat([start, labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, pad_token_id)], dim=1)
