"""What a model reads: token ids or embeddings, and the mask of the real tokens; checked, and converted in one place.

Letters in shapes: B batch, N number of tokens, E embedding width.
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
