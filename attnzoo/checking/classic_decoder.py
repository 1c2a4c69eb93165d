"""A decoder's step as tutorials write it, (token, hidden, encoder_outputs, mask), seen as attention.

Its query is the hidden state, its keys are the encoder's outputs, and its output is the logits.

Dimensions: B batch, S source length, H hidden size, E width of the encoder's outputs.
"""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .layer import WIDTHS
from .subject import CannotCallError, Subject, first_line, largest_difference, tensors_of

TOKENS = (
    "token",
    "tokens",
    "input",
    "x",
    "input_ids",
    "tgt",
    "trg",
    "y",
    "word",
    "input_step",
    "embedded",
    "prev_token",
)
STATES = ("hidden", "state", "prev_hidden", "decoder_hidden", "last_hidden", "h", "hidden_state", "dec_hidden")
KEYS = ("encoder_outputs", "encoder_output", "enc_outputs", "enc_output", "enc_out", "memory", "keys", "annotations")
ROWS, LENGTH = 3, 7


def as_attention(subject: Subject, vocab_size: int | None) -> tuple[Subject, tuple[int, int]]:
    """The step as a function (query, keys, mask), and the widths of both.

    Raises:
        CannotCallError: no shapes of token, state and outputs worked.
    """
    roles: dict[str, str] = {}
    for name in subject.signature:
        for role, names in (("token", TOKENS), ("state", STATES), ("keys", KEYS)):
            if name.lower() in names:
                roles.setdefault(role, name)
        if "mask" in name.lower():
            roles.setdefault("mask", name)
    missing = {"token", "state", "keys"} - roles.keys()
    if missing:
        raise CannotCallError(
            f"{subject.name} has no argument for {', '.join(sorted(missing))}; pass functions start and step instead"
        )
    tables = [part for part in subject.parts if isinstance(part, nn.Embedding)]
    recurrent = [part for part in subject.parts if isinstance(part, nn.RNNBase | nn.RNNCellBase)]
    layers = getattr(recurrent[0], "num_layers", 1) if recurrent else 1
    vocabulary = vocab_size or (tables[0].num_embeddings if tables else 0)
    is_lstm = bool(recurrent) and isinstance(recurrent[0], nn.LSTM | nn.LSTMCell)
    tokens: list[Callable[[int], Tensor]] = [
        lambda rows: torch.full((rows,), vocabulary - 1),  # the same in every row, so that rows can change places
        lambda rows: torch.full((1, rows), vocabulary - 1),
        lambda rows: torch.full((rows, 1), vocabulary - 1),
    ]
    states: list[Callable[[Tensor], Any]] = [
        lambda query: query.expand(layers, -1, -1).contiguous(),
        lambda query: query,
        lambda query: query[:, None],
    ]
    keys: list[Callable[[Tensor], Tensor]] = [lambda part: part, lambda part: part.transpose(0, 1)]
    sizes = [part.hidden_size for part in recurrent] or [int(subject.attribute(*WIDTHS) or 8)]
    widths = [part.in_features for part in subject.parts if isinstance(part, nn.Linear)]
    widths = list(
        dict.fromkeys([sizes[0], 2 * sizes[0], *widths, *(size - sizes[0] for size in widths if size > sizes[0])])
    )
    errors: list[str] = []
    working: list[tuple[bool, int, Any, int]] = []
    for takes_none, width, token, state, lay_out in itertools.product((True, False), widths, tokens, states, keys):
        function = _bind(subject, roles, token, state, lay_out, is_lstm, takes_none, vocabulary)
        query = torch.randn(ROWS, sizes[0], generator=torch.Generator().manual_seed(0)).to(subject.dtype)
        source = torch.randn(ROWS, LENGTH, width, generator=torch.Generator().manual_seed(1)).to(subject.dtype)
        try:
            with torch.no_grad():
                first = function(query, source)
                other = function(query, torch.cat([source[:1], -source[1:]]))
        except Exception as error:
            errors.append(first_line(error))
            continue
        working.append((largest_difference(first[0][:1], other[0][:1]) > 1e-5, len(working), function, width))
    if not working:
        raise CannotCallError(
            f"no shapes of token, state and outputs worked ({'; '.join(dict.fromkeys(errors))[:300]})"
        )
    _, _, function, width = min(working, key=lambda each: each[:2])
    attention = Subject(function, subject.dtype)
    attention.modules, attention.dtype, attention.has_parameters = subject.modules, subject.dtype, True
    return attention, (sizes[0], width)


def _bind(
    subject: Subject,
    roles: dict[str, str],
    token: Callable[[int], Tensor],
    state: Callable[[Tensor], Any],
    lay_out: Callable[[Tensor], Tensor],
    is_lstm: bool,
    takes_none: bool,
    vocabulary: int,
) -> Callable[..., Any]:
    def attention(query: Tensor, keys: Tensor, mask: Tensor | None = None) -> Any:
        hidden = state(query)
        named = {
            roles["token"]: token(len(query)),
            roles["state"]: (hidden, torch.zeros_like(hidden)) if is_lstm else hidden,
            roles["keys"]: lay_out(keys),
        }
        if "mask" in roles and (mask is not None or subject.signature[roles["mask"]].default is not None):
            named[roles["mask"]] = mask if mask is not None or takes_none else torch.ones(keys.shape[:2]).bool()
        result = subject.target(**named)
        rows = len(keys)
        parts = result if isinstance(result, tuple | list) else (result,)
        logits = parts[0].squeeze(0) if parts[0].ndim == 3 and parts[0].shape[0] == 1 != rows else parts[0]
        logits = logits.reshape(rows, -1)
        others = tensors_of(parts[1:])
        is_state = logits.numel() == query.numel() != rows * vocabulary  # a pointer's, which has weights for logits
        return (*others, logits) if is_state else (logits, *others)

    return attention if "mask" in roles else lambda query, keys: attention(query, keys)
