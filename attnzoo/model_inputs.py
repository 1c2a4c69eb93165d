"""What a model reads: token ids or embeddings, the mask of the real tokens, the target that labels make; checked, and
converted in one place.

Letters in shapes: B batch, N number of tokens, E embedding width, T target length.
"""

import torch
from torch import Tensor, nn


def embed(
    embedding: nn.Embedding, ids: Tensor | None, embeddings: Tensor | None, ids_name: str, embeddings_name: str
) -> Tensor:
    """The embeddings of exactly one of ``ids`` (B, N) and ``embeddings`` (B, N, E), of at least one row and token.

    Raises:
        ValueError: both are given, or neither, or one of another shape, or without a token.
    """
    if ids is not None and embeddings is None:
        if ids.ndim != 2 or ids.numel() == 0:
            raise ValueError(
                f"{ids_name} must be (batch, length) with at least one token, got shape {tuple(ids.shape)}"
            )
        return embedding(ids)
    if embeddings is None or ids is not None:
        raise ValueError(f"give exactly one of {ids_name} and {embeddings_name}")
    if embeddings.ndim != 3 or embeddings.numel() == 0 or embeddings.shape[-1] != embedding.embedding_dim:
        raise ValueError(
            f"{embeddings_name} must be (batch, length, {embedding.embedding_dim}) with at least one token, "
            f"got shape {tuple(embeddings.shape)}"
        )
    return embeddings


def source_mask(attention_mask: Tensor | None, states: Tensor) -> Tensor:
    """Hugging Face's attention_mask (B, N) as bool, True on real tokens; the only place where it is converted.

    Raises:
        ValueError: a mask of another shape than the tokens, or of the additive kind, 0 and -inf.
    """
    if attention_mask is None:
        return torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
    if attention_mask.shape != states.shape[:2]:
        raise ValueError(
            f"attention_mask must be (batch, source length) = {tuple(states.shape[:2])}, "
            f"got {tuple(attention_mask.shape)}"
        )
    if attention_mask.is_floating_point() and bool((attention_mask < 0).any()):
        raise ValueError("attention_mask must be 1 on real tokens and 0 on padding; this one has negative values")
    return attention_mask.to(device=states.device, dtype=torch.bool)


def check_target_labels(labels: Tensor, ids: Tensor | None, embeddings: Tensor | None, is_new: bool) -> None:
    """Refuse labels (B, T) that do not fit the target, which is ids or embeddings, or made of them if ``is_new``.

    Raises:
        ValueError: no label, another shape than the target's, or no target where an old one goes on.
    """
    if labels.ndim != 2 or labels.numel() == 0:
        raise ValueError(
            f"labels must be (batch, target length) with at least one token, got shape {tuple(labels.shape)}"
        )
    target = embeddings if ids is None else ids
    if target is None and not is_new:
        raise ValueError("labels start a new target and past_key_values continues one; give decoder_input_ids")
    if target is not None and labels.shape != target.shape[:2]:
        raise ValueError(
            f"labels of shape {tuple(labels.shape)} do not fit a target of shape {tuple(target.shape[:2])}"
        )


def shift_right(labels: Tensor, start_token_id: int, pad_token_id: int) -> Tensor:
    """What a decoder reads for ``labels`` (B, T): the start token, then the labels without the last.

    Raises:
        ValueError: a label after a -100, as left padding makes it: the decoder would read the padding.
    """
    is_padding = labels == -100
    is_compiling = torch.compiler.is_compiling()  # a graph cannot branch on what the labels are
    if not is_compiling and bool((is_padding[:, :-1] & ~is_padding[:, 1:]).any()):
        raise ValueError("labels have a token after a -100; pad them on the right (tokenizer.padding_side='right')")
    start = labels.new_full((len(labels), 1), start_token_id)
    return torch.cat([start, labels[:, :-1].masked_fill(is_padding[:, :-1], pad_token_id)], dim=1)
