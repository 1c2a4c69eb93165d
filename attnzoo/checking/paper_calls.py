"""Call a decoder's step or an attention as one line tells, and record what it computes.

Dimensions: B batch, S source length, E embedding width, H hidden width, V width of the keys, R readout width.
"""

import ast
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .classic_decoder import KEYS, STATES, TOKENS
from .layer import NAMES, MaskForm, Sizes, hidden_keys, mask_forms
from .options import OptionError
from .subject import TOLERANCE, CannotCallError, Subject, first_line, parts_of
from .tracing import Trace

EXACT = 1e-10  # between two ways to compute the same in float64
INPUTS = {
    "token": TOKENS,
    "embedding": ("embedding", "embedded", "emb", "embeddings", "y_emb", "prev_embedding", "embedded_token"),
    "state": (*STATES, *NAMES["query"], "s", "s_prev", "h_prev"),
    "cell": ("cell", "c_prev", "memory_cell", "cell_state"),
    "keys": (*KEYS, *NAMES["key"], "h_enc", "outputs", "values", "value", "enc_states"),
    "feed": ("feed", "input_feed", "prev_attn", "h_tilde", "attentional", "prev_attentional", "attn_vec"),
    "mask": ("mask", "src_mask", "source_mask", "encoder_mask", "enc_mask", "key_padding_mask", "padding_mask"),
}
QUANTITIES = ("scores", "alignment", "context", "state", "cell", "readout", "logits")
OUTPUTS = {**{name: name for name in QUANTITIES}, "weights": "alignment", "attention": "alignment", "feed": "readout"}
WIDTHS = {"embedding": "E", "state": "H", "keys": "V", "feed": "R"}
# Layouts in the order in which they are tried, of inputs that share them. D is the width, which a token does not have.
LAYOUTS = {
    ("token", "embedding", "feed"): ("BD", "B1D", "1BD"),
    ("state", "cell"): ("BD", "B1D", "1BD"),
    ("keys",): ("BSD", "SBD"),
}
MOST_SIZES = 200  # to try
EXAMPLE = "call='token, state, keys, mask -> logits, state, alignment'"


class Call(NamedTuple):
    """How a step is called.

    ``arguments`` has a role for each argument, or a tuple of roles; ``names`` the name by which it is passed, or None.
    ``outputs`` has a quantity for each returned tensor, "_" for one that is not compared; None if it was not told.
    """

    arguments: list[Any]
    names: list[str | None]
    outputs: list[str] | None

    @property
    def roles(self) -> list[str]:
        """The roles of all arguments."""
        return [role for part in self.arguments for role in (part if isinstance(part, tuple) else (part,))]


def call_of(subject: Subject, told: str | None) -> Call:
    """The call that was told, or the one that the signature suggests.

    Raises:
        OptionError: the line cannot be read.
        CannotCallError: an argument has no known role.
    """
    if told is not None:
        return _parsed(told)
    has_table = any(isinstance(part, nn.Embedding) for part in subject.parts)
    roles: dict[str, Any] = {}
    for name, parameter in subject.signature.items():
        role = next((role for role in ("embedding", *INPUTS) if name.lower() in INPUTS[role]), None)
        role = "embedding" if role == "token" and not has_table else role
        is_value = role == "keys" and name.lower() in NAMES["value"]
        role = None if role in roles.values() and not is_value else role
        if role is None and parameter.default is parameter.empty:
            raise CannotCallError(
                f"the argument {name!r} of {subject.name} has no known role; tell how it is called, such as {EXAMPLE}"
            )
        if role is not None:
            roles[name] = role
    is_lstm = any(isinstance(part, nn.LSTM | nn.LSTMCell) for part in subject.parts)
    if is_lstm and "cell" not in roles.values():
        roles = {name: ("state", "cell") if role == "state" else role for name, role in roles.items()}
    if not {"state", "keys"} <= {*Call([*roles.values()], [], None).roles}:
        raise CannotCallError(f"{subject.name} needs a state and keys; tell how it is called, such as {EXAMPLE}")
    return Call([*roles.values()], [*roles], None)


def _parsed(told: str) -> Call:
    left, arrow, right = told.partition("->")
    try:
        called = ast.parse(f"f({left})", mode="eval").body
        returned = ast.parse(f"f({right})", mode="eval").body
    except SyntaxError as error:
        raise OptionError(f"call={told!r} cannot be read; write {EXAMPLE}") from error
    assert isinstance(called, ast.Call)
    assert isinstance(returned, ast.Call)

    def role(node: ast.expr) -> Any:
        if isinstance(node, ast.Tuple | ast.List):
            return tuple(role(part) for part in node.elts)
        name = getattr(node, "id", "").lower()
        found = next((each for each, names in INPUTS.items() if name == each or name in names), None)
        if found is None:
            raise OptionError(
                f"{ast.unparse(node)!r} in call={told!r} is no input; an input is one of {', '.join(INPUTS)}"
            )
        return found

    outputs = [name for node in returned.args for name in _names(node)]
    wrong = [name for name in outputs if name not in OUTPUTS and name != "_"]
    if wrong:
        raise OptionError(f"{wrong[0]!r} in call={told!r} is no output; an output is one of {', '.join(OUTPUTS)} or _")
    arguments = [role(node) for node in called.args] + [role(each.value) for each in called.keywords]
    names = [*(None for _ in called.args), *(each.arg for each in called.keywords)]
    return Call(arguments, names, [OUTPUTS.get(name, "_") for name in outputs] if arrow else None)


def _names(node: ast.expr) -> list[str]:
    """The names of an expression, also of nested tuples, from left to right."""
    if isinstance(node, ast.Tuple | ast.List):
        return [name for part in node.elts for name in _names(part)]
    return [node.id if isinstance(node, ast.Name) else ast.unparse(node)]


@dataclass
class Run:
    """One call that ran: the inputs by role, (B, ...) each, what was returned, and all tensors that were recorded.

    ``numbers`` are those of all tensors, from the smallest to the largest.
    """

    inputs: dict[str, Tensor]
    outputs: list[Tensor]
    recorded: list[Tensor]
    numbers: Tensor
    tolerance: float
    form: str
    layout: tuple[str, ...]
    again: Callable[[], "Run"]  # the same call

    def shows(self, values: Tensor) -> bool:
        """Whether all these numbers were computed in the call, in tensors of any shape."""
        wanted = values.detach().flatten().double()
        if not len(self.numbers) or not bool(wanted.isfinite().all()):
            return False
        place = torch.searchsorted(self.numbers, wanted).clamp(max=len(self.numbers) - 1)
        near = torch.minimum(
            (self.numbers[place] - wanted).abs(), (self.numbers[(place - 1).clamp(min=0)] - wanted).abs()
        )
        return bool((near <= self.tolerance * wanted.abs().clamp(min=1)).all())

    def shows_together(self, values: Tensor) -> bool:
        """Whether these numbers were computed as one tensor. A maximum chooses among numbers that are all there."""
        wanted = values.detach().flatten().double().sort().values
        alike = (part for part in self.recorded if part.numel() == wanted.numel())
        return any(self.equals(part.flatten().double().sort().values, wanted) for part in alike)

    def gap(self, output: Tensor, values: Tensor) -> float | None:
        """The largest difference of a returned tensor from values (B, N); None if its shape is another."""
        placed = output.detach().double().squeeze()
        for each in (placed, placed.T) if placed.ndim == 2 else (placed,):
            if each.shape == values.shape:
                return float((each - values.double()).abs().nan_to_num(float("inf")).max())
        return None

    def equals(self, output: Tensor, values: Tensor) -> bool:
        """Whether a returned tensor has these values."""
        gap = self.gap(output, values)
        return gap is not None and gap <= self.tolerance * max(1.0, float(values.abs().max()))


def runs(
    subject: Subject, call: Call, mask: str | None, width: int | tuple[int, ...] | None, vocab_size: int | None
) -> Iterator[Run]:
    """Every way to call it that runs: widths, layouts, conventions of masks.

    Raises:
        CannotCallError: none does.
    """
    errors: list[str] = []
    for widths in itertools.islice(_widths(subject, call, width), MOST_SIZES):
        found = False
        for run in _with_widths(subject, call, mask, widths, vocab_size, errors):
            found = True
            yield run
        if found:
            return
    arguments = ", ".join(call.roles)
    raise CannotCallError(
        f"no shapes of {arguments} worked ({'; '.join(dict.fromkeys(errors[:3]))}). Tell how it is called, such as "
        f"{EXAMPLE}, and the widths, such as width=(embedding, state, keys)."
    )


def _widths(subject: Subject, call: Call, width: int | tuple[int, ...] | None) -> Iterator[dict[str, int]]:
    roles = [role for role in dict.fromkeys(call.roles) if role in WIDTHS]
    if width is not None:
        given = (width,) * len(roles) if isinstance(width, int) else width
        if len(given) != len(roles):
            raise OptionError(f"width={width!r} must have one width for each of {', '.join(roles)}")
        yield {WIDTHS[role]: size for role, size in zip(roles, given, strict=True)}
        return
    shapes = [parameter.shape for module in subject.modules for parameter in module.parameters()]
    sizes = [size for size in dict.fromkeys(size for shape in shapes for size in shape) if size > 1] or [8]
    recurrent = [part for part in subject.parts if isinstance(part, nn.RNNBase | nn.RNNCellBase)]
    tables = [part for part in subject.parts if isinstance(part, nn.Embedding)]
    states = [part.hidden_size for part in recurrent] or sizes
    embeddings = [part.embedding_dim for part in tables] or sizes
    more = [a - b for a in sizes for b in sizes if a - b > 1]
    of_input = [part.input_size - size for part in recurrent for size in embeddings if part.input_size > size]
    choices = {
        "E": embeddings if tables else [*sizes, *more],
        "H": states,
        "V": [*of_input, *sizes, *more],
        "R": [*of_input, *states, *sizes],
    }
    symbols = [WIDTHS[role] for role in roles]
    if not shapes:  # a dot score: query and key have one width
        choices = {symbol: [8] for symbol in choices}
    for found in itertools.product(*(dict.fromkeys(choices[symbol]) for symbol in symbols)):
        yield dict(zip(symbols, found, strict=True))


def _with_widths(
    subject: Subject,
    call: Call,
    mask: str | None,
    widths: dict[str, int],
    vocab_size: int | None,
    errors: list[str],
) -> Iterator[Run]:
    inputs = _inputs(subject, call, widths, vocab_size)
    groups = [group for group in LAYOUTS if {*group} & {*call.roles}]
    forms: list[Any] = [None]
    if "mask" in call.roles:
        forms = [*mask_forms(mask, ("BS", "B1S", "B11S", "SB"))]
        forms.insert(
            1, forms.pop(next(at for at, form in enumerate(forms) if (form.shape, form.kind) == ("B1S", "float")))
        )
    for chosen in itertools.product(*(LAYOUTS[group] for group in groups)):
        layouts = {role: layout for group, layout in zip(groups, chosen, strict=True) for role in group}
        raised: list[str] = []
        for form in forms:
            try:
                yield _run(subject, call, inputs, layouts, form)
                raised.append("")
            except Exception as error:
                raised.append(first_line(error))
                errors.append(raised[-1])
            if len(raised) == 2 and raised[0] == raised[1] != "":
                break  # the first two forms differ in shape and in kind, so something else is wrong


def _inputs(subject: Subject, call: Call, widths: dict[str, int], vocab_size: int | None) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    used = {1, *widths.values()}
    used |= {size for module in subject.modules for part in module.parameters() for size in part.shape}
    rows, length = [size for size in range(3, 40) if size not in used][:2]

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(subject.dtype)

    found = {"real": torch.ones(rows, length, dtype=torch.bool)}
    if "mask" in call.roles:
        found["real"] = hidden_keys(Sizes(rows, 1, length))
    for role in call.roles:
        if role == "token":
            tables = [part.num_embeddings for part in subject.parts if isinstance(part, nn.Embedding)]
            count = vocab_size or min(tables, default=4)
            found[role] = (torch.arange(rows) * max(1, count // rows)) % count
        elif role in ("state", "cell"):
            found[role] = draw(rows, widths["H"]).tanh()
        elif role in ("embedding", "feed"):
            found[role] = draw(rows, widths[WIDTHS[role]])
        elif role == "keys":
            found[role] = draw(rows, length, widths["V"])
    return found


def _tensors(result: Any) -> Iterator[Tensor]:
    """The tensors of a result, also of nested tuples, from left to right."""
    if isinstance(result, Tensor):
        yield result
    elif result is not None:
        for part in parts_of(result):
            yield from _tensors(part)


def _run(
    subject: Subject, call: Call, inputs: dict[str, Tensor], layouts: dict[str, str], form: MaskForm | None
) -> Run:
    def given(role: Any) -> Any:
        if isinstance(role, tuple):
            return tuple(map(given, role))
        if role == "mask":
            assert form is not None
            return form.make(inputs["real"].unsqueeze(1), 1, subject.dtype)
        values = inputs[role].clone()
        if layouts[role] == "SBD":
            return values.transpose(0, 1)
        axes = {"B1D": 1, "1BD": 0}
        return values.unsqueeze(axes[layouts[role]]) if layouts[role] in axes else values

    arguments = [given(role) for role in call.arguments]
    positional = [part for part, name in zip(arguments, call.names, strict=True) if name is None]
    named = {name: part for part, name in zip(arguments, call.names, strict=True) if name is not None}
    trace = Trace(without_dropout=subject.without_dropout)
    result = subject(*positional, trace=trace, **named)
    outputs = [part.detach() for part in _tensors(result) if part.is_floating_point()]
    if not outputs:
        raise ValueError("it returns no tensor")
    recorded = [*(event.result.detach() for event in trace.events), *outputs]
    numbers = torch.cat([part.flatten().double() for part in recorded])
    is_exact = all(part.dtype == torch.float64 for part in recorded)
    shapes = [f"{role} ({_letters(role, layouts[role])})" for role in dict.fromkeys(call.roles) if role in layouts]
    if form is not None:
        shapes.append(f"mask {form}")
    tolerance = EXACT if is_exact else TOLERANCE
    return Run(
        inputs,
        outputs,
        recorded,
        numbers[numbers.isfinite()].sort().values,
        tolerance,
        ", ".join(shapes),
        tuple(layouts.values()),
        partial(_run, subject, call, inputs, layouts, form),
    )


def _letters(role: str, layout: str) -> str:
    """The axes of an input, such as "1, B, H"."""
    return ", ".join(layout.replace("D", WIDTHS.get(role, "" if role == "token" else "H")))
