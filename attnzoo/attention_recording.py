r"""Attention weights of chosen layers and heads, while the model keeps its fused kernel.

``output_attentions=True`` needs the eager backend, which holds the weights of all layers. :func:`record_attention`
leaves the backend as it is. Next to the fused kernel of a chosen layer it computes :math:`\mathrm{softmax}(QK^\top)`
from the same queries, keys and mask.

Dimensions: B batch, H heads, T target length (queries), S source length (keys), K head width.
"""

import re
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .attention import dot_score, masked_softmax
from .library_internals import attention_backend
from .messages import described

KINDS = ("self", "encoder", "decoder", "cross")
Recorded = dict[str, dict[int, list[Tensor]]]  # kind, layer, forward pass


@contextmanager
def record_attention(
    model: nn.Module,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    kinds: Sequence[str] | None = None,
) -> Iterator[Recorded]:
    """Record the attention weights of chosen layers in every forward pass of a ``with`` block.

    ::

        with attnzoo.record_attention(model, layers=[3]) as recorded:
            model(**inputs)
        recorded["self"][3][0]  # (B, H, T, S), of the first forward pass

    It takes every model that uses Transformers' attention interface, with the backend "sdpa" or "eager". The weights
    are those before dropout. Of a model of Transformers in training mode with "eager" they are those after dropout,
    since no others exist. They have no gradient.

    The value is ``{kind: {layer: [weights of each forward pass]}}``. The kind is "self" for a model with one stack,
    otherwise "encoder", "decoder" or "cross". ``generate()`` makes a forward pass for every step. A model that uses one
    layer several times (ALBERT) has one layer here, with one entry for every use. Forward passes in other threads are
    not recorded.

    Args:
        model: a model of Transformers, or of attnzoo
        layers: numbers of layers from 0; negative numbers count from the end. None records all layers
        heads: numbers of heads from 0, in the order of the result. None records all heads
        kinds: some of "self", "encoder", "decoder", "cross". None records all that the model has

    Shape:
        - weights: (B, H, T, S); H is the number of chosen heads

    Raises:
        ValueError: the model has no attention layers of the interface, a layer, head or kind does not exist, or a layer
            computes its attention with another backend.
        TypeError: ``model`` is not a model; ``layers``, ``heads`` or ``kinds`` is not a list.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a model of Transformers or of attnzoo, got {described(model)}")
    for argument, chosen in (("layers", layers), ("heads", heads), ("kinds", kinds)):
        if chosen is not None and (isinstance(chosen, str) or not isinstance(chosen, Collection)):
            raise TypeError(f"{argument} must be a list, or None for all, got {chosen!r}")
    of_kind = attention_layers(model)
    if not of_kind:
        raise ValueError(
            f"{type(model).__name__} has no layers of Transformers' attention interface; "
            "call the model with output_attentions=True instead"
        )
    for kind in kinds or ():
        if kind not in of_kind:
            raise ValueError(f"kinds of {type(model).__name__} are {', '.join(of_kind)}, got {kind!r}")
    of_kind = {kind: of_kind[kind] for kind in kinds or of_kind}
    most = max(map(len, of_kind.values()))
    for layer in layers or ():
        if layer not in range(-most, most):
            raise ValueError(f"layers must be 0 to {most - 1}, got {layer!r}")
    recorded: Recorded = {kind: {} for kind in of_kind}
    with ExitStack() as hooks:  # at its end all are removed
        for kind, modules in of_kind.items():
            for number, module in enumerate(modules):
                if layers is None or number in layers or number - len(modules) in layers:
                    recorder = _Recorder(module, heads, recorded[kind].setdefault(number, []).append)
                    hooks.enter_context(module.register_forward_pre_hook(recorder.begin))
                    hooks.enter_context(module.register_forward_hook(recorder.finish, always_call=True))
        yield recorded


def attention_layers(model: nn.Module) -> dict[str, list[nn.Module]]:
    """The attention module of every layer, by kind: those of Transformers' attention interface.

    These are the innermost modules whose class is called Attention. Transformers calls a decoder's attention to the
    encoder "crossattention", "cross_attn", "encoder_attn" or "EncDecAttention".
    """
    config: Any = getattr(model, "config", None)
    encoder: set[nn.Module] = set()
    if getattr(config, "is_encoder_decoder", False) and callable(getattr(model, "get_encoder", None)):
        encoder = set(model.get_encoder().modules())  # type: ignore[operator]
    found: dict[str, list[nn.Module]] = {kind: [] for kind in KINDS}
    for name, module in model.named_modules():
        attentions = [part for part in module.modules() if re.search(r"Attention(?![a-z])", type(part).__name__)]
        if attentions == [module] and re.search(r"\.\d+\.", name):
            kind = "encoder" if module in encoder else "decoder" if encoder else "self"
            is_cross = re.search(r"cross|encoder_attn|encdec", name, re.IGNORECASE)
            found["cross" if is_cross else kind].append(module)
    return {kind: modules for kind, modules in found.items() if modules}


class _Recorder(TorchFunctionMode):
    """Computes the weights of one attention module whenever it runs torch's fused attention, or takes those that it
    returns. It is active only in the forward pass of this module, so nothing else becomes slower, and only in the
    thread that made it, since other threads may run the same module.
    """

    def __init__(self, module: nn.Module, heads: Sequence[int] | None, record: Callable[[Tensor], None]) -> None:
        super().__init__()
        self.module, self.heads, self.record = module, heads, record
        self.weights: Tensor | None = None
        self.thread = threading.get_ident()

    def begin(self, module: nn.Module, inputs: Any) -> None:
        """Become active before the forward pass of the module."""
        if threading.get_ident() == self.thread:
            self.__enter__()

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is nn.functional.scaled_dot_product_attention:
            self.weights = self.weights_of(*args, **kwargs)
        return func(*args, **kwargs)

    @torch.no_grad()
    def weights_of(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """The weights of a call of ``scaled_dot_product_attention``, by its arguments."""
        if getattr(self.module, "num_key_value_groups", 1) > 1:  # one query, with its heads in place of several queries
            config: Any = self.module.config
            query = query.reshape(len(query), config.num_attention_heads, -1, query.shape[-1])
        length, num_heads = query.shape[2], query.shape[1]
        heads = torch.tensor(self.chosen_heads(num_heads), device=query.device)
        if self.heads is not None:
            query = query[:, heads]
        if self.heads is not None or key.shape[1] < num_heads:  # several heads share a key
            key = key[:, heads * key.shape[1] // num_heads]
        if is_causal:  # then there is no other mask
            attn_mask = torch.ones(length, key.shape[2], dtype=torch.bool, device=query.device).tril()
        elif attn_mask is not None and attn_mask.shape[1] > 1:  # a head has its own mask, or bias of positions
            attn_mask = attn_mask[:, heads]
        scores = dot_score(query, key, query.shape[-1] ** -0.5 if scale is None else scale)
        if attn_mask is not None and attn_mask.dtype != torch.bool:
            scores, attn_mask = scores + attn_mask, None
        return masked_softmax(scores, attn_mask).to(query.dtype)

    def finish(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """Store the weights after the forward pass of the module."""
        if threading.get_ident() != self.thread:
            return
        self.__exit__(None, None, None)
        weights, self.weights = self.weights, None
        if output is None:  # the forward pass ended in an error
            return
        if weights is None:
            returned = output[-1] if isinstance(output, tuple) else None
            if not isinstance(returned, Tensor) or returned.ndim != 4:
                backend = attention_backend(getattr(module, "config", None))
                raise ValueError(
                    f"{type(module).__name__} has no attention weights to record with "
                    f"attn_implementation={backend!r}; call model.set_attn_implementation('sdpa') or 'eager'"
                )
            weights = returned.detach()
            weights = weights if self.heads is None else weights[:, self.chosen_heads(weights.shape[1])]
        states = output[0] if isinstance(output, tuple) else output
        rows = len(states)
        if states.ndim == 3 and len(weights) < rows:  # the beams of a search, whose queries follow each other
            weights = weights.unflatten(2, (rows // len(weights), -1)).transpose(1, 2).flatten(0, 1)
        self.record(weights)

    def chosen_heads(self, num_heads: int) -> list[int]:
        """The numbers of the heads to record."""
        for head in self.heads or ():
            if head not in range(num_heads):
                raise ValueError(f"heads must be 0 to {num_heads - 1}, got {head!r}")
        return list(range(num_heads) if self.heads is None else self.heads)
