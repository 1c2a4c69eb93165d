"""A pretended accelerator for torch: :func:`install` adds the device ``pretended`` to this process.

Its tensors hold their numbers on the CPU and compute there, so results equal the CPU's. What differs from the CPU is
what CUDA demands and what costs time there:

- an operation on tensors of two devices raises an error, except what CUDA allows: copies, CPU tensors of no dimension
  in pointwise operations, CPU indices
- RNNs are those of cuDNN: one operation, contiguous states, everything in one dtype (float16 under autocast), lengths
  of packed sequences on the CPU, and no gradients in eval mode
- autocast has CUDA's lists of operations
- :func:`counting` counts the operations, the reads of a value by the host, each of which waits for the device, and the
  copies from the host, with the line of the package that causes them

It uses torch's hooks for a backend in Python, which are experimental: :data:`MISSING` names what torch lacks, if
anything. A process that has the device keeps it, so the tests of it run in a process of their own.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils import backend_registration

NAME = "pretended"
SETUP = "_setup_privateuseone_for_python_backend"
MISSING = "" if hasattr(backend_registration, SETUP) else f"torch {torch.__version__} has no {SETUP}"

ROOT = Path(__file__).parents[2]
PACKAGE = (str(ROOT / "attnzoo"), str(ROOT / "training"))
aten = torch.ops.aten


class Counts:
    """The operations of the device in a block of :func:`counting`.

    Attributes:
        operations: by name
        reads: values that the host read, by the line that asked; "backward" where the autograd engine did
        uploads: copies from the host, by line
    """

    def __init__(self) -> None:
        self.operations: Counter[str] = Counter()
        self.reads: Counter[str] = Counter()
        self.uploads: Counter[str] = Counter()


COUNTS = Counts()  # of the block that is counted at present


def line() -> str:
    """The innermost line of the package among the callers, such as "loss.py:12"; if there is none, that of another
    library.

    Threads of the autograd engine run without a caller: "backward".
    """
    frame: Any = sys._getframe(1)
    other = "backward"
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PACKAGE):
            return f"{Path(name).relative_to(ROOT).as_posix()}:{frame.f_lineno}"
        if other == "backward" and not name.startswith((str(Path(torch.__file__).parent), __file__)):
            other = f"{'/'.join(Path(name).parts[-2:])}:{frame.f_lineno}"
        frame = frame.f_back
    return other


class PretendedTensor(torch.Tensor):
    """A tensor of the device, around a CPU tensor of the same shape, strides and dtype."""

    numbers: Tensor

    @staticmethod
    def __new__(cls, numbers: Tensor) -> "PretendedTensor":
        return torch.Tensor._make_wrapper_subclass(
            cls,
            numbers.size(),
            strides=numbers.stride(),
            storage_offset=numbers.storage_offset(),
            dtype=numbers.dtype,
            device=torch.device(NAME, 0),
        )

    def __init__(self, numbers: Tensor) -> None:
        self.numbers = numbers

    def __repr__(self, **_: Any) -> str:
        return f"{type(self).__name__}({self.numbers!r})"

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["numbers"], None

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Tensor], *_: Any) -> "PretendedTensor":
        return PretendedTensor(parts["numbers"])

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copied = PretendedTensor(self.numbers.clone())
            is_parameter = isinstance(self, torch.nn.Parameter)
            memo[id(self)] = torch.nn.Parameter(copied, self.requires_grad) if is_parameter else copied
        return memo[id(self)]

    def untyped_storage(self) -> Any:
        return self.numbers.untyped_storage()

    def numpy(self, **_: Any) -> Any:
        raise TypeError(f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() first")

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(function, args, kwargs or {})


def is_pretended(value: Any) -> bool:
    return isinstance(value, PretendedTensor)


# Operations -----------------------------------------------------------------------------------------------------------

# Their result has a shape, or is a number, that depends on values: the host waits for it.
READING = {
    *("_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "bincount", "repeat_interleave"),
    *("unique_dim", "unique_consecutive", "_unique", "_unique2", "_linalg_check_errors"),
}
BY_INDEX = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
TAKES_BOTH = {"copy_", "_to_copy", "set_data", "_pack_padded_sequence"}
TAKES_A_CPU_SCALAR = {"masked_fill", "masked_fill_", "fill", "fill_", "index_fill", "index_fill_", "where"}
# No arithmetic, and on a GPU no kernel.
WITHOUT_KERNEL = {
    *("view", "_unsafe_view", "_reshape_alias", "expand", "transpose", "t", "permute", "unsqueeze", "squeeze"),
    *("slice", "select", "split", "split_with_sizes", "unbind", "alias", "detach", "as_strided", "unfold", "diagonal"),
    *("lift_fresh", "empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "is_pinned"),
    *("_local_scalar_dense", "_has_compatible_shallow_copy_type", "set_data"),
}


def run(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation with an argument on the device, or with the device as an argument."""
    name = function.overloadpacket.__name__
    values, spec = pytree.tree_flatten((args, kwargs))
    inputs = [value for value in values if is_pretended(value)]
    of_cpu = [value for value in values if isinstance(value, Tensor) and not is_pretended(value)]
    device = next((value for value in values if isinstance(value, torch.device)), None)
    if name == "_fused_sdp_choice":
        return 0  # the choice of plain operations
    check_devices(function, name, args, inputs, of_cpu)
    count(name, args, kwargs, inputs, device)
    inner = [
        value.numbers if is_pretended(value) else torch.device("cpu") if isinstance(value, torch.device) else value
        for value in values
    ]
    args_of_cpu, kwargs_of_cpu = pytree.tree_unflatten(inner, spec)
    found = function(*args_of_cpu, **kwargs_of_cpu)
    is_download = name == "copy_" and not is_pretended(args[0])
    if is_download or (device is not None and device.type == "cpu"):
        return args[0] if is_download else found
    by_numbers = {id(value.numbers): value for value in inputs}

    def wrap(part: Tensor) -> Tensor:
        known = by_numbers.get(id(part))
        return PretendedTensor(part) if known is None else known

    if name == "_pack_padded_sequence":
        found, batch_sizes = found
        return PretendedTensor(found), batch_sizes
    wrapped = pytree.tree_map_only(Tensor, wrap, found)
    return torch.utils._python_dispatch.return_and_correct_aliasing(function, args, kwargs, wrapped)


def check_devices(function: Any, name: str, args: Any, inputs: list[Any], of_cpu: list[Tensor]) -> None:
    """Raise an error for tensors of two devices, as CUDA does."""
    if not inputs or not of_cpu or name in TAKES_BOTH or (name in BY_INDEX and is_pretended(args[0])):
        return
    takes_scalar = torch.Tag.pointwise in function.tags or name in TAKES_A_CPU_SCALAR
    if not takes_scalar or any(value.ndim for value in of_cpu):
        shapes = [tuple(value.shape) for value in of_cpu]
        raise RuntimeError(
            f"Expected all tensors to be on the same device: {function} got tensors of {shapes} on the CPU beside "
            f"those of {NAME}:0, at {line()}"
        )


def count(name: str, args: Any, kwargs: dict[str, Any], inputs: list[Any], device: torch.device | None) -> None:
    """Count the operation, the values that the host reads for it, and its copies from the host."""
    if name not in WITHOUT_KERNEL:
        COUNTS.operations[name] += 1
    is_masked = name in BY_INDEX and any(
        isinstance(part, Tensor) and part.dtype in (torch.bool, torch.uint8) for part in pytree.tree_leaves(args[1])
    )
    is_repeated = name == "repeat_interleave" and kwargs.get("output_size") is not None
    if name == "copy_":
        is_download, is_upload = not is_pretended(args[0]), len(inputs) == 1 and is_pretended(args[0])
    else:
        is_download, is_upload = name == "_to_copy" and device is not None and device.type == "cpu", False
    if is_masked or is_download or (name in READING and not is_repeated):
        COUNTS.reads[line()] += 1
    if is_upload:
        COUNTS.uploads[line()] += 1


# cuDNN's RNNs ---------------------------------------------------------------------------------------------------------

KERNELS: dict[str, Callable[..., Any]] = {"lstm": torch.lstm, "gru": torch.gru, "rnn_tanh": torch.rnn_tanh}


class CudnnRNN(torch.autograd.Function):
    """One call of an RNN on the CPU's numbers, with its graph for the backward pass."""

    @staticmethod
    def forward(ctx: Any, call: Callable[..., Any], training: bool, *tensors: Any) -> Any:
        inner = [tensor.numbers.detach().requires_grad_(tensor.is_floating_point()) for tensor in tensors]
        with torch.enable_grad():
            outputs = call(*inner)
        ctx.inner, ctx.outputs, ctx.training = inner, outputs, training
        COUNTS.operations["_cudnn_rnn"] += 1
        return tuple(PretendedTensor(output.detach()) for output in outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        if not ctx.training:
            raise RuntimeError("cudnn RNN backward can only be called in training mode")
        COUNTS.operations["_cudnn_rnn_backward"] += 1
        given = [
            (output, part.numbers) for output, part in zip(ctx.outputs, gradients, strict=True) if part is not None
        ]
        outputs, of_outputs = zip(*given, strict=True)
        found = torch.autograd.grad(outputs, ctx.inner, of_outputs, retain_graph=True, allow_unused=True)
        return None, None, *(None if part is None else PretendedTensor(part) for part in found)


def run_rnn(kind: str, inputs: Tensor, lengths: Tensor | None, state: Any, weights: Any, options: Any) -> Any:
    """Check cuDNN's requirements, and run it. Options: biases, layers, dropout, training, directions, batch first."""
    states = list(state) if isinstance(state, list | tuple) else [state]
    tensors = [inputs, *states, *weights]
    if lengths is not None and lengths.device.type != "cpu":
        raise RuntimeError(f"lengths of a packed sequence must be on the CPU, and are on {lengths.device}")
    if len({tensor.device for tensor in tensors}) > 1:
        raise RuntimeError(f"Input, state and weights of {kind} are on {[str(tensor.device) for tensor in tensors]}")
    if not all(part.is_contiguous() for part in states):
        raise RuntimeError("rnn: hx is not contiguous")
    if torch.is_autocast_enabled(NAME):
        tensors = [tensor.to(torch.float16) for tensor in tensors]
    if len({tensor.dtype for tensor in tensors}) > 1:
        raise RuntimeError(f"rnn: input, state and weights have the dtypes {[tensor.dtype for tensor in tensors]}")
    count = len(states)

    def call(inputs: Tensor, *others: Tensor) -> Any:
        given: Any = list(others[:count]) if kind == "lstm" else others[0]
        before = (inputs,) if lengths is None else (inputs, lengths)
        return KERNELS[kind](*before, given, list(others[count:]), *options)

    return CudnnRNN.apply(call, options[3], *tensors)


def register_rnns(library: Any) -> None:
    for kind in KERNELS:

        def of_batch(inputs: Tensor, state: Any, weights: Any, *options: Any, kind: str = kind) -> Any:
            return run_rnn(kind, inputs, None, state, weights, options)

        def of_packed(data: Tensor, lengths: Tensor, state: Any, weights: Any, *options: Any, kind: str = kind) -> Any:
            return run_rnn(kind, data, lengths, state, weights, options)

        library.impl(f"{kind}.input", of_batch, f"Autograd{DISPATCH_KEY}")
        library.impl(f"{kind}.data", of_packed, f"Autograd{DISPATCH_KEY}")


# Autocast -------------------------------------------------------------------------------------------------------------

DISPATCH_KEY = "PrivateUse1"
LOW_PRECISION = (
    *("linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "addbmm"),
    *("scaled_dot_product_attention", "conv1d"),
)
FLOAT32 = (
    *("exp", "expm1", "log", "log10", "log1p", "log2", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "rsqrt", "reciprocal"),
    *("softmax.int", "log_softmax.int", "layer_norm", "cumsum", "cumprod", "logsumexp", "cosine_similarity"),
    *("mse_loss", "nll_loss", "cross_entropy_loss", "nll_loss_nd", "binary_cross_entropy_with_logits", "kl_div"),
    *("sum", "sum.dim_IntList", "prod", "prod.dim_int", "norm.Scalar", "norm.ScalarOpt_dim", "cdist", "dist"),
)
PROMOTED = ("addcmul", "addcdiv", "cat", "stack", "index_put", "scatter_add", "dot", "bilinear", "cross")


def register_autocast(library: Any) -> None:
    """CUDA's lists of operations in autocast's precision, in float32, and in the widest type of their inputs."""
    for names, choose in (
        (LOW_PRECISION, lambda _: torch.get_autocast_dtype(NAME)),
        (FLOAT32, lambda _: torch.float32),
        (PROMOTED, lambda inputs: torch.float32 if torch.float32 in inputs else torch.get_autocast_dtype(NAME)),
    ):
        for name in names:
            packet, _, overload = name.partition(".")
            function = getattr(getattr(aten, packet), overload or "default")
            library.impl(name, cast_before(function, choose), f"Autocast{DISPATCH_KEY}")


def cast_before(function: Any, choose: Callable[[set[torch.dtype]], torch.dtype]) -> Callable[..., Any]:
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def is_cast(value: Tensor) -> bool:
        return value.is_floating_point() and value.dtype != torch.float64 and value.device.type == NAME

    def call(*args: Any, **kwargs: Any) -> Any:
        values = [part for part in pytree.tree_leaves((args, kwargs)) if isinstance(part, Tensor) and is_cast(part)]
        dtype = choose({value.dtype for value in values})
        with torch._C._ExcludeDispatchKeyGuard(keys):
            args, kwargs = pytree.tree_map_only(
                Tensor, lambda value: value.to(dtype) if is_cast(value) else value, (args, kwargs)
            )
            return function(*args, **kwargs)

    return call


# The device -----------------------------------------------------------------------------------------------------------


class DeviceModule:
    """``torch.pretended``, of which torch and Accelerate read these."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def set_device(self, device: Any) -> None:
        pass

    def synchronize(self, device: Any = None) -> None:
        pass

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        pass

    def get_rng_state(self, device: Any = None) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        torch.set_rng_state(state)


LIBRARIES: list[Any] = []  # torch forgets what a library registered once it is collected


def install() -> torch.device:
    """Add the device to this process, for good, and return it."""
    device_name = torch._C._get_privateuse1_backend_name()
    if device_name != NAME:
        getattr(backend_registration, SETUP)(NAME, backend_module=DeviceModule())
        torch._C._set_only_lift_cpu_tensors(True)
        library = torch.library.Library("aten", "IMPL")
        everything = torch.library.Library("_", "IMPL")
        LIBRARIES.extend((library, everything))
        everything.fallback(torch.library.fallthrough_kernel, f"Autocast{DISPATCH_KEY}")
        everything.fallback(make, DISPATCH_KEY)
        register_autocast(library)
        register_rnns(library)
    return torch.device(NAME, 0)


def make(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Run an operation that makes a tensor on the device."""
    return run(function, args, kwargs)


@contextmanager
def counting() -> Iterator[Counts]:
    """The operations of the device in the block."""
    global COUNTS
    COUNTS = Counts()
    yield COUNTS
