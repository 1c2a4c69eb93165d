"""Code that is safe to call: a copy in eval mode, with the same random numbers in every call."""

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.overrides import TorchFunctionMode

from .tracing import Trace, masks_of_one_type

TOLERANCE = 2e-5  # smaller differences are rounding, also of code that computes its softmax in float32
HALF_TOLERANCE = 0.03  # of code that rounds to 16 bits
DEEP_TOLERANCE = 10 * TOLERANCE  # of models, which round more than one layer


class CannotCallError(ValueError):
    """The check cannot call the code; the message shows the adapter to write."""


def attempts(errors: dict[str, str], count: int) -> str:
    """What the first attempts raised, each with how it was made; only the error if it was always the same."""
    if len({*errors.values()}) == 1:
        return next(iter(errors.values()))
    return "; ".join(f"{what}: {error}" for what, error in list(errors.items())[:count])


class Subject:
    """A module or a function that is checked.

    A module is copied. The modules of a function (bound, closed over, or global names it reads) cannot be copied. They
    are set to eval mode, and :meth:`ready` restores them.
    """

    def __init__(self, target: Any, dtype: torch.dtype = torch.float64) -> None:
        if not callable(target):
            raise TypeError(f"check takes a module or a function, got {type(target).__name__}")
        self.original = target
        self.modules = modules_of(target)
        self.target = target
        if isinstance(target, nn.Module):
            self.target = _copied(target).cpu().eval().to(dtype)
            self.modules = [self.target]
        parameters = [parameter for module in self.modules for parameter in module.parameters()]
        if any(isinstance(parameter, UninitializedParameter) for parameter in parameters):
            raise CannotCallError(
                f"{self.name} has lazy modules, which have no shapes yet: call it once before the check"
            )
        if isinstance(target, nn.Module):
            _fill_zeros(self.target)
        self.dtype = parameters[0].dtype if parameters else dtype
        self.has_parameters = bool(parameters)
        self.without_dropout = False
        self.seed = 0

    @property
    def name(self) -> str:
        """What the report calls it."""
        inner = getattr(self.original, "__name__", None)
        return inner if isinstance(inner, str) else type(self.original).__name__

    @property
    def parts(self) -> list[nn.Module]:
        """Its modules with all modules inside them, from the outside inwards."""
        return [part for module in self.modules for part in module.modules()]

    @property
    def signature(self) -> dict[str, inspect.Parameter]:
        """The parameters by name; empty if Python cannot tell."""
        target = self.target.forward if isinstance(self.target, nn.Module) else self.target
        try:
            return dict(inspect.signature(target).parameters)
        except (TypeError, ValueError):
            return {}

    @property
    def required(self) -> list[str]:
        """The parameters without a default."""
        repeated = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        parameters = self.signature.items()
        return [name for name, part in parameters if part.default is part.empty and part.kind not in repeated]

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Set eval mode, and restore modes and random numbers afterwards."""
        with ExitStack() as stack:
            stack.enter_context(torch.random.fork_rng(devices=[]))
            for child in {*self.parts}:
                stack.callback(setattr, child, "training", child.training)
            for module in self.modules:
                module.eval()
            yield

    def __call__(self, *arguments: Any, seed: int | None = None, trace: Trace | None = None, **named: Any) -> Any:
        """Call it, with gradients only for a trace."""
        torch.default_generator.manual_seed(self.seed if seed is None else seed)  # torch.manual_seed seeds all devices
        mode: Any = trace or (Trace(without_dropout=True) if self.without_dropout else masks_of_one_type())
        with torch.set_grad_enabled(trace is not None), mode:
            return self.target(*arguments, **named)

    def attribute(self, *names: str) -> Any:
        """The first of these attributes that one of its modules has, from the outside inwards; None without one."""
        found = (getattr(part, name, None) for part in self.parts for name in names)
        return next((value for value in found if isinstance(value, int | float)), None)


class _Detached(TorchFunctionMode):
    """Copy a tensor that has a graph, such as weights kept from an earlier call, without its graph."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is Tensor.__deepcopy__ and not args[0].is_leaf:
            return args[0].detach().clone()
        return func(*args, **kwargs or {})


def _copied(module: nn.Module) -> nn.Module:
    with _Detached():
        return copy.deepcopy(module)


def _fill_zeros(module: nn.Module) -> None:
    """Give random values to matrices and biases that are all zero: they would hide what they are multiplied with."""
    generator = torch.Generator().manual_seed(0)
    for name, parameter in module.named_parameters():
        if (parameter.ndim == 2 or name.endswith("bias")) and not bool(parameter.any()):
            values = torch.randn(parameter.shape, generator=generator) / 5
            parameter.data.copy_(values)


def modules_of(target: Any) -> list[nn.Module]:
    """The modules that a callable uses: itself, bound to it, closed over, or global names that it reads."""
    if isinstance(target, nn.Module):
        return [target]
    if isinstance(target, functools.partial):
        parts = [target.func, *target.args, *target.keywords.values()]
        return [module for part in parts if callable(part) for module in modules_of(part)]
    found: list[Any] = [getattr(target, "__self__", None)]
    function = getattr(target, "__func__", target)
    if inspect.isfunction(function):
        found += _values_read(function)
    elif not inspect.isroutine(function) and not isinstance(function, type):
        found += vars(function).values() if hasattr(function, "__dict__") else []
    inner = [
        value for part in found if inspect.isfunction(part) and part is not function for value in _values_read(part)
    ]
    return [part for part in found + inner if isinstance(part, nn.Module)]


def _values_read(function: Callable[..., Any]) -> list[Any]:
    """The values of the names that a function reads and does not set: closed over, or global."""
    variables = inspect.getclosurevars(function)
    return [*variables.nonlocals.values(), *variables.globals.values()]


def parts_of(result: Any) -> list[Any]:
    """The parts of a result, in their order: of a tuple, a list, a dict, or an object with attributes."""
    return [part for _, part in named_parts_of(result)]


def named_parts_of(result: Any) -> list[tuple[str, Any]]:
    """The parts of a result with their names, which are empty in a tuple or a list."""
    if isinstance(result, Tensor):
        return [("", result)]
    if isinstance(result, tuple | list):
        return list(zip(getattr(result, "_fields", [""] * len(result)), result, strict=True))
    return list((result if isinstance(result, dict) else vars(result)).items())


def tensors_of(value: Any) -> list[Tensor]:
    """All tensors of a nested structure, of caches and other objects too, in a fixed order."""
    found: list[Tensor] = []
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, Tensor):
            found.append(part)
        elif id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, dict):
                waiting += part.values()
            elif isinstance(part, list | tuple | set):
                waiting += part
            elif hasattr(part, "__dict__") and not callable(part):
                waiting += vars(part).values()
    return found


def largest_difference(first: Tensor, second: Tensor) -> float:
    """The largest absolute difference, relative to the size of the numbers; infinite if one is not finite."""
    if first.shape != second.shape:
        return float("inf")
    if not first.numel():
        return 0.0
    if not bool(torch.isfinite(first).all() and torch.isfinite(second).all()):
        return float("inf")
    size = max(1.0, float(first.abs().max()))
    return float((first - second).abs().max()) / size


def gap(first: Tensor, second: Tensor) -> float:
    """The largest absolute difference; a million for NaN."""
    return float((first - second).abs().nan_to_num(1e6).max())


def leaked_share(leak: float, effect: float) -> float:
    """How much of the effect that shown keys have is left to hidden ones; 0 if it is rounding."""
    return round(leak / max(effect, 1e-30), 3)


def first_line(error: Exception) -> str:
    """The first line of an error's message, or the name of its class if it has none."""
    return (str(error) or type(error).__name__).splitlines()[0]
