"""Private names of torch and Transformers. Only this file reads them; each has a public fallback.

A name with a leading underscore may disappear with any release. ``tests/package/test_library_internals.py`` removes
each of these names and expects the same results. It also checks that no other file of the package reads one.

Private members that Transformers expects of a model, a config or a pipeline are not read, but defined in their classes:
``_init_weights``, ``_tied_weights_keys``, ``_sanitize_parameters`` and others. Some of them override a step of loading
or of ``generate()``, such as ``_prepare_generation_config``. The same test lists all of them and expects that the
library still has them.

Dimensions: R rows, I input width, O output width.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

# Where a module keeps its hooks, and the public method that adds one.
FORWARD_HOOKS: dict[str, Callable[..., Any]] = {
    "_forward_hooks": nn.Module.register_forward_hook,
    "_forward_pre_hooks": nn.Module.register_forward_pre_hook,
}
BACKWARD_HOOKS: dict[str, Callable[..., Any]] = {
    "_backward_hooks": nn.Module.register_full_backward_hook,
    "_backward_pre_hooks": nn.Module.register_full_backward_pre_hook,
}
HOOKS = [*FORWARD_HOOKS, *BACKWARD_HOOKS]
# oneDNN's operators on float32 weights in blocks, as torch's own compiler calls them for a frozen linear layer.
REORDER_WEIGHT = "_reorder_linear_weight"
BLOCKED_LINEAR = "_linear_pointwise"
INT8_PRODUCT = "_int_mm"
BFLOAT16_SUPPORTED = "_is_mkldnn_bf16_supported"
# oneDNN's LSTM, which torch.lstm() calls on a CPU, and its weights in blocks, as torch's compiler has them.
REORDER_LSTM, BLOCKED_LSTM = "_reorder_mkldnn_rnn_layer_weight", "mkldnn_rnn_layer"
VERSION = "_version"  # of a tensor
GIVEN_CACHE = "_is_user_defined"  # set by generate()
# The transforms of torch.func and the dispatch modes that are active, and the level of forward-mode AD, -1 for none.
TRANSFORMS, DISPATCH_MODES, DUAL_LEVEL = "peek_interpreter_stack", "_len_torch_dispatch_stack", "_current_level"


def hooks_of(module: nn.Module, kinds: Mapping[str, Callable[..., Any]]) -> list[Any]:
    """The hooks of a module itself, of the given kinds (``FORWARD_HOOKS``, ``BACKWARD_HOOKS``).

    If torch no longer has the private name, a hook is added and removed: its handle refers to all hooks of its kind.
    """
    found: list[Any] = []
    for name, register in kinds.items():
        hooks = getattr(module, name, None)
        if hooks is None:
            handle = register(module, lambda *_: None)
            hooks = dict(handle.hooks_dict_ref())
            handle.remove()
            del hooks[handle.id]
        found += hooks.values()
    return found


def forward_hooks(module: nn.Module) -> list[Any]:
    """The forward hooks of a module itself, except two kinds that Transformers leaves there and that change nothing.

    Those that record a layer's outputs do nothing in calls that request none. That of activation checkpointing lets the
    embeddings require a gradient.
    """
    of_checkpointing = ("transformers.modeling_utils", "make_inputs_require_grads")
    return [
        hook
        for hook in hooks_of(module, FORWARD_HOOKS)
        if hook.__module__ != "transformers.utils.output_capturing"
        and (hook.__module__, getattr(hook, "__name__", None)) != of_checkpointing
    ]


def has_hooks(module: nn.Module) -> bool:
    """Whether a module itself has backward hooks, or forward hooks that change something."""
    state = vars(module)
    if not any(map(state.get, HOOKS, (True,) * len(HOOKS))):
        return False
    return bool(forward_hooks(module) or hooks_of(module, BACKWARD_HOOKS))


def has_blocked_linear(weight: Tensor) -> bool:
    """Whether torch has oneDNN's product with a weight of this type in blocks; torch's own product is the same."""
    is_supported = weight.device.type == "cpu" and weight.dtype == torch.float32
    return is_supported and hasattr(torch.ops.mkldnn, REORDER_WEIGHT) and has_onednn_product()


def is_transformed() -> bool:
    """Whether a trace, torch.func, forward-mode AD or a counter of operations follows each operator of torch.

    These know torch's own product, and not oneDNN's. If torch no longer has the private names, this is True.
    """
    stack = getattr(getattr(torch._C, "_functorch", None), TRANSFORMS, None)
    modes = getattr(torch._C, DISPATCH_MODES, None)
    level = getattr(forward_ad, DUAL_LEVEL, None)
    if stack is None or modes is None or level is None:
        return True
    return torch.jit.is_tracing() or stack() is not None or modes() > 0 or level >= 0


def has_onednn_product() -> bool:
    """Whether torch has oneDNN's product for matrices of float32 on a CPU."""
    return hasattr(torch.ops.mkldnn, BLOCKED_LINEAR) and torch.backends.mkldnn.is_available()


def onednn_product(left: Tensor, right: Tensor) -> Tensor:
    """``left`` (R, I) times ``right`` (I, O) by oneDNN, without gradients.

    oneDNN reads a whole matrix in its stored layout, transposed or not. A part of a wider matrix can take it a hundred
    times as long, so parts are copied.
    """
    left, right = (
        part if part.is_contiguous() or part.t().is_contiguous() else part.contiguous() for part in (left, right)
    )
    return getattr(torch.ops.mkldnn, BLOCKED_LINEAR)(left, right.t(), None, "none", [], "")


def blocked_weight(weight: Tensor, rows: int) -> Tensor:
    """A weight (O, I) in blocks, for products with about this many rows."""
    return getattr(torch.ops.mkldnn, REORDER_WEIGHT)(weight.contiguous(), rows)


def blocked_linear(values: Tensor, blocks: Tensor, bias: Tensor | None) -> Tensor:
    """``values`` (R, I) times a :func:`blocked_weight`, and the bias: (R, O)."""
    return getattr(torch.ops.mkldnn, BLOCKED_LINEAR)(values.contiguous(), blocks, bias, "none", [], "")


def has_blocked_lstm() -> bool:
    """Whether torch has oneDNN's LSTM with weights in blocks; :func:`torch.lstm` has the same results."""
    has_names = hasattr(torch.ops.mkldnn, REORDER_LSTM) and hasattr(torch, BLOCKED_LSTM)
    return has_names and torch.backends.mkldnn.is_available() and bool(torch.backends.mkldnn.enabled)


def has_bfloat16() -> bool:
    """Whether oneDNN computes in bfloat16 on this CPU."""
    is_supported = getattr(torch.ops.mkldnn, BFLOAT16_SUPPORTED, None)
    return is_supported is None or is_supported()


def blocked_lstm_weights(weight_input: Tensor, weight_hidden: Tensor, is_backward: bool) -> list[Tensor]:
    """The weights of one direction of an LSTM in blocks."""
    reorder = getattr(torch.ops.mkldnn, REORDER_LSTM)
    return list(reorder(weight_input, weight_hidden, weight_hidden.shape[1], is_backward, True, False))


def blocked_lstm(
    inputs: Tensor, weights: Sequence[Tensor], state: Sequence[Tensor], is_backward: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """One direction of an LSTM, without gradients: outputs (T, B, H), last hidden state and cell state (B, H).

    Shape:
        - inputs: (T, B, I)
        - weights: the two of :func:`blocked_lstm_weights` and the two biases
        - state: (B, H) each
    """
    size, state = state[0].shape[1], [part.contiguous() for part in state]
    options: Any = is_backward, [], 2, size, 1, True, False, False, False  # 2 is an LSTM, of 1 layer with biases
    outputs, hidden, cell, _ = getattr(torch, BLOCKED_LSTM)(inputs, *weights, *state, *options)
    return outputs, hidden, cell


def has_int8_product() -> bool:
    """Whether torch has a product of integers of eight bits."""
    return hasattr(torch, INT8_PRODUCT)


def int8_product(left: Tensor, right: Tensor) -> Tensor:
    """``left`` (R, I) times ``right`` (I, O), integers of eight bits, in integers of 32 bits."""
    found: Tensor = getattr(torch, INT8_PRODUCT)(left, right)
    return found


def version_of(weight: Tensor) -> int | None:
    """A number that changes with every operation in place on a weight; None where torch does not count them."""
    return None if weight.is_inference() else getattr(weight, VERSION, None)


def origin_of(part: Tensor) -> Tensor:
    """The tensor that a view is of, or the tensor itself if it is no view, or if torch does not say."""
    base: Tensor | None = getattr(part, "_base", None)
    return part if base is None else base


def attention_backend(config: Any) -> str:
    """The attention function that a config asks for; where none is known "eager", which has the same results."""
    return getattr(config, "_attn_implementation", None) or "eager"


def is_given(cache: Any) -> bool:
    """Whether the caller of ``generate()`` gave this cache. Without the private name: whether it holds anything."""
    return bool(getattr(cache, GIVEN_CACHE, cache.get_seq_length() > 0))
