"""Judge one call of a decoder's step, or of an attention alone, beside the paper's, quantity by quantity.

Dimensions: B batch, S source length, H hidden width, V width of the keys.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from .paper_blocks import Parameter, Reading, readings
from .paper_calls import Call, Run
from .paper_steps import Form, Part, attention_part, parts_of_step
from .subject import CannotCallError

MOST_READINGS = 150  # of a part's parameters
FREE = ("readout", "logits")  # compared if they are returned; tutorials have their own


class _Attempt(NamedTuple):
    """A form and a reading of the parameters, their values, and how many quantities of the part agree.

    ``proof`` is the quantity that is looked for. It is not ``wanted`` if that one is not computed by the module.
    """

    form: Form
    reading: Reading
    values: dict[str, Tensor]
    proof: str
    wanted: str
    agreeing: int


class _Wrong(NamedTuple):
    """The first quantity that differs."""

    quantity: str
    where: str
    has_cause: bool


@dataclass
class Comparison:
    """One call beside the paper's step."""

    run: Run
    call: Call
    paper: str
    parameters: list[Parameter]
    told: Mapping[str, str]
    ours: dict[str, Tensor] = field(default_factory=dict)  # the quantities that agree
    notes: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)  # of right code from the paper
    reasons: dict[str, str] = field(default_factory=dict)  # why a quantity was not judged
    asked: list[str] = field(default_factory=list)  # the quantities that the paper and the call assert
    wrong: _Wrong | None = None

    @property
    def is_complete(self) -> bool:
        """Whether everything was compared and agrees."""
        return self.wrong is None and not self.reasons

    @property
    def open(self) -> set[str]:
        """The quantities of the first part that differs or was not judged."""
        return {*self.reasons} | ({self.wrong.quantity} if self.wrong is not None else set())

    @property
    def rank(self) -> tuple[bool, int, bool, bool]:
        """The larger, the more agrees."""
        has_cause = self.wrong is not None and self.wrong.has_cause
        return self.is_complete, len(self.ours), has_cause, self.wrong is None

    @property
    def told_outputs(self) -> list[str] | None:
        """The quantities that are returned, if the call tells them."""
        outputs = self.call.outputs
        if outputs is not None and len(outputs) != len(self.run.outputs):
            raise CannotCallError(
                f"call tells {len(outputs)} outputs, and {len(self.run.outputs)} tensors are returned; write _ for one "
                "that is not to be compared"
            )
        return outputs

    def compare(self, embedding: Tensor | None) -> None:
        """Compare part by part, up to the first quantity that differs."""
        known = dict(self.run.inputs)
        known["query"] = known["previous_state"] = known["state"]
        self.sizes = {"H": known["state"].shape[1], "V": known["keys"].shape[2]}
        if "feed" in known:
            self.sizes["R"] = known["feed"].shape[1]
        parts = [attention_part(self.paper, None)]
        if embedding is not None:
            known["embedding"], self.sizes["E"] = embedding, embedding.shape[1]
            parts = parts_of_step(self.paper, "feed" in known, "cell" in known)
        self.asked = [name for part in parts if part.quantities[0] not in FREE for name in self._asked_of(part)]
        self.asked += [name for name in self.told_outputs or () if name not in ("_", "cell", *self.asked)]
        for part in parts:
            if not self._is_wanted(part):
                continue
            if not self._judge(part, known):
                for quantity in part.quantities:
                    if quantity not in self.ours and quantity not in self.reasons:
                        self.reasons[quantity] = "an earlier quantity differs"
                break
            known |= {name: values for name, values in self.ours.items() if name != "state"}
            if "state" in part.quantities:
                known["new_state"] = self.ours["state"]
                known["query"] = known["query"] if self.paper.startswith("bahdanau") else self.ours["state"]
        if self.wrong is None:
            self._compare_returned(known)

    def _is_wanted(self, part: Part) -> bool:
        """Whether a readout or logits are returned; other parts are always compared."""
        (quantity, *_), outputs = part.quantities, self.told_outputs
        if quantity not in FREE:
            return True
        if outputs is not None:
            return quantity in outputs or (quantity == "readout" and "logits" in outputs)
        return not all(map(self._explained, self.run.outputs))

    def _asked_of(self, part: Part) -> tuple[str, ...]:
        """The quantities of a part that are always compared."""
        return tuple(
            name for name in part.quantities[: part.quantities.index(self._last_of(part)) + 1] if name != "cell"
        )

    def _explained(self, output: Tensor) -> bool:
        return any(self.run.equals(output, values) for values in self.ours.values())

    def _last_of(self, part: Part) -> str:
        """The quantity by which a right part is recognised."""
        if part.quantities[0] != "scores" or "embedding" in self.run.inputs or "token" in self.run.inputs:
            return part.forms[0].proof
        outputs = self.told_outputs
        if outputs is not None:
            return next((each for each in reversed(part.quantities) if each in outputs), "context")
        width = (self.run.inputs["keys"].shape[0], self.sizes["V"])
        is_returned = any(tuple(output.squeeze().shape) in (width, width[::-1]) for output in self.run.outputs)
        return "context" if is_returned else "alignment"

    def _judge(self, part: Part, known: dict[str, Tensor]) -> bool:
        """Whether a part agrees; if not, note what is wrong, or why it cannot be judged.

        What is returned counts more than what is computed on the way: without its reset gate, a GRU's candidate is the
        state of a cell without gates.
        """
        last = self._last_of(part)
        attempts: list[_Attempt] = []
        found, is_cut = self._returned(part, known, last, attempts)
        most = max((each.agreeing for each in attempts), default=0)
        nearest = [each.values for each in attempts if not each.form.fault and each.agreeing == most]
        if found is None:
            found = next((each for each in attempts if each.proof == each.wanted and self._proves(each)), None)
        if found is not None and not found.form.fault:
            self._keep(part.quantities[: part.quantities.index(last) + 1], found)
            return True
        if found is not None:
            is_simpler = found.form.fault == "readout" and self.paper.startswith("bahdanau")  # as tutorials have it
            if self.told_outputs is None and (is_simpler or found.form.fault == "logits"):
                text = f"it is not the paper's ({found.form.text}); to compare it, tell that it is returned: call='...'"
                self.reasons[found.form.fault] = text
                return False
            return self._fail(part, found.form.fault, nearest, found.form.text)
        quantity = part.quantities[min(most, len(part.quantities) - 1)]
        if not nearest or is_cut or (self.told_outputs is None and quantity in FREE):
            self.reasons |= dict.fromkeys(part.quantities[most:], self._why_not(part, bool(nearest), is_cut))
            return False
        return self._fail(part, quantity, nearest, "")

    def _returned(
        self, part: Part, known: dict[str, Tensor], last: str, attempts: list[_Attempt]
    ) -> tuple["_Attempt | None", bool]:
        """The first form and reading whose numbers are returned, and whether readings were left out.

        Right forms come first. Without one that is returned, ``attempts`` has all of them, and those with a fault in a
        quantity that may be the first wrong one.
        """
        most, is_cut = 0, False
        for form in part.forms:
            if form.fault and form.fault not in part.quantities[min(most, len(part.quantities) - 1) :]:
                continue
            proof = min(form.proof, last, key=part.quantities.index)
            # If some quantities agree, it is known how the parameters are read.
            agreed = [each.reading for each in attempts if most and each.agreeing == most]
            is_known = bool(form.fault and agreed and form.grids == part.forms[0].grids)
            for number, reading in enumerate(agreed if is_known else self._readings(form), start=1):
                is_cut |= number == MOST_READINGS and not form.fault
                values = form.compute(reading.blocks, known)
                if not values:
                    continue
                agreeing = 0 if form.fault else self._agreeing(part, values)
                attempts.append(_Attempt(form, reading, values, proof, form.proof if form.fault else proof, agreeing))
                most = max(most, agreeing)
                if any(self.run.equals(output, values[proof]) for output in self.run.outputs):
                    return attempts[-1], is_cut
        return None, is_cut

    def _agreeing(self, part: Part, values: dict[str, Tensor]) -> int:
        """The place after the last quantity of a part that agrees."""
        return max((at for at, name in enumerate(part.quantities, 1) if self._computes(values[name], name)), default=0)

    def _proves(self, attempt: _Attempt) -> bool:
        return self._computes(attempt.values[attempt.proof], attempt.proof)

    def _readings(self, form: Form) -> Iterator[Reading]:
        is_output = form.grids and form.grids[0].heights[0] == "K"
        free = [each for each in self.parameters if is_output or each.name not in self.notes]  # may be tied
        return itertools.islice(readings(form.grids, free, self.sizes, self.told), MOST_READINGS)

    def _why_not(self, part: Part, is_read: bool, is_cut: bool) -> str:
        blocks = [name for grid in part.forms[0].grids for line in grid.blocks for name in line]
        if not is_read:
            return f"no parameters have the shapes of {', '.join(blocks)}; tell them by parameters={{...}}"
        if is_cut:
            return f"too many parameters have the shapes of {', '.join(blocks)}; tell them by parameters={{...}}"
        return "it is not computed as in the paper; if it is returned, tell so by call='... -> ...'"

    def _keep(self, quantities: tuple[str, ...], found: _Attempt) -> None:
        form, reading, values = found[:3]
        self.ours |= {name: values[name] for name in quantities}
        self.notes |= reading.notes
        self.sizes = {name: size for name, size in reading.sizes.items() if name != "1"}
        if "readout" in values:
            self.sizes["R"] = values["readout"].shape[1]
        if form.text:
            self.differences.append(form.text)

    def _fail(self, part: Part, quantity: str, nearest: list[dict[str, Tensor]], cause: str) -> bool:
        """Note the first quantity that differs, with the smallest of the largest differences of these values."""
        self.ours |= {name: nearest[0][name] for name in part.quantities[: part.quantities.index(quantity)] if nearest}
        output = self._output_of(quantity)
        gaps = [] if output is None else [self.run.gap(output, values[quantity]) for values in nearest]
        known = [gap for gap in gaps if gap is not None]
        where = f"they differ by up to {min(known):.3g}" if known else "the paper's numbers are not computed"
        where = "what is returned is not finite" if known and min(known) == float("inf") else where
        self._set_wrong(quantity, where, cause)
        return False

    def _output_of(self, quantity: str) -> Tensor | None:
        """The returned tensor of a quantity, as told, or by its shape."""
        outputs = self.told_outputs
        if outputs is not None:
            return self.run.outputs[outputs.index(quantity)] if quantity in outputs else None
        rows, length = self.run.inputs["real"].shape
        sizes = {"alignment": length, "scores": length, "state": self.sizes["H"], "context": self.sizes["V"]}
        shape = (rows, sizes.get(quantity, 0))
        alike = [each for each in self.run.outputs if tuple(each.squeeze().shape) in (shape, shape[::-1])]
        return alike[0] if len(alike) == 1 else None

    def _computes(self, values: Tensor, quantity: str) -> bool:
        if quantity == "logits":  # other forms compute them, too, and return something else
            return any(self.run.equals(output, values) for output in self.run.outputs)
        if quantity == "readout":
            return self.run.shows_together(values)
        if quantity == "scores":
            values = values[self.run.inputs["real"]]  # padding may have any score, or none
        if quantity == "alignment":
            values = values[values != 0]
        return self.run.shows(values)

    def _compare_returned(self, known: dict[str, Tensor]) -> None:
        """What is returned is what was computed."""
        outputs = self.told_outputs
        wanted = list(zip(outputs or (), self.run.outputs, strict=False))
        if outputs is None:
            for quantity in ("alignment", "state"):
                output = self._output_of(quantity)
                if quantity not in self.ours or any(
                    self.run.equals(each, self.ours[quantity]) for each in self.run.outputs
                ):
                    continue
                is_old = output is not None and self.run.equals(output, known["state"])
                if output is not None and not self._explained(output) and (is_old or not self.reasons):
                    wanted.append((quantity, output))
                elif quantity == "state":
                    del self.ours[quantity]
                    self.reasons[quantity] = (
                        "it is computed, but not recognised among what is returned; tell call='...'"
                    )
        for quantity, output in wanted:
            ours = self.ours.get(quantity)
            if ours is None and quantity != "_" and quantity not in self.reasons:
                missing = "an earlier quantity could not be judged" if self.reasons else "the paper has none here"
                self.reasons[quantity] = missing
            if ours is None or self.run.equals(output, ours):
                continue
            if quantity == "scores" and self.run.equals(
                torch.where(known["real"], _like(output, ours), 0.0), torch.where(known["real"], ours, 0.0)
            ):
                continue  # those of padding are hidden already
            names = {"the previous state": known["state"], **{f"the {name}": part for name, part in self.ours.items()}}
            other = next((name for name, part in names.items() if self.run.equals(output, part)), None)
            gap = self.run.gap(output, ours)
            where = (
                "what is returned has another shape" if gap is None else f"what is returned differs by up to {gap:.3g}"
            )
            where += "" if other else ", although the right numbers are computed"
            self._set_wrong(quantity, where, f"it is {other}" if other else "")
            return

    def _set_wrong(self, quantity: str, where: str, cause: str) -> None:
        name = "state" if quantity == "cell" else quantity
        self.wrong = _Wrong(name, f"{where}; {cause}" if cause else where, bool(cause))


def _like(output: Tensor, values: Tensor) -> Tensor:
    placed = output.detach().squeeze()
    return placed if placed.shape == values.shape else placed.T
