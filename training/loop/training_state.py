"""The state of a training, saved so that the training can continue exactly. Loading it runs no code.

There are no pickles. Tensors are saved as safetensors, by the names of the parameters; everything else as JSON:

- ``model.safetensors``, ``optimizer.safetensors`` and, if there is a moving average, ``average.safetensors``: complete
  tensors, also if several processes share them in the training
- the files of the tokenizer, if the training started from a model
- ``state.json``: clock, position in the data, best evaluation, the scale of fp16 losses, and for each process its
  random states and its sums for the next line of the log

``checkpoint.py`` adds a manifest with their checksums.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object, set_seed
from safetensors.torch import load, load_file, save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import PreTrainedTokenizerBase

from attnzoo.json_files import read_mapping

from .average import MovingAverage
from .checkpoint import checkpoint_folder, replacing, rotate, save_tokenizer, write_manifest
from .progress import Batches, Best, Clock, SinceLog


def processes_and_batches(folder: Path) -> tuple[int, int]:
    """The number of processes that wrote a checkpoint, and the number of batches in a step of the optimiser.

    Raises:
        ValueError: it is of a version of attnzoo that did not write these numbers.
    """
    state = read_mapping(folder / "state.json")
    batches = state["batches"].get("batches_per_step")
    if batches is None:
        raise ValueError(f"{folder} is of an older version of attnzoo; --overwrite starts again")
    return len(state["processes"]), batches


@dataclass
class TrainingState:
    """Everything in a checkpoint. ``model`` is the model without Accelerate's wrapper.

    ``tokenizer`` is that of the model that the training started from, if any: the task cannot make it from its data.
    """

    accelerator: Accelerator
    model: nn.Module
    optimizer: torch.optim.Optimizer
    averaged: MovingAverage | None
    clock: Clock
    batches: Batches
    best: Best
    since_log: SinceLog
    tokenizer: PreTrainedTokenizerBase | None = None

    def save(self, output: Path, keep: int) -> None:
        """Write the checkpoint of this step and keep the newest ``keep``. All processes must call it.

        Raises:
            OSError: it could not be written; earlier checkpoints are unchanged.
        """
        tensors = {"model": _whole(dict(self.model.named_parameters())), "optimizer": _whole(self._moments())}
        if self.averaged is not None and self.averaged.updates:
            tensors["average"] = _whole(dict(self.averaged.model.named_parameters()))
        own = {"random": _random_states(self.accelerator.device), "since_log": self.since_log.state_dict()}
        state = {
            "clock": self.clock.state_dict(),
            "batches": self.batches.state_dict(),
            "best": self.best.state_dict(),
            "updates": self.averaged and self.averaged.updates,
            "scaler": self.accelerator.scaler and self.accelerator.scaler.state_dict(),
            "processes": gather_object([own]),
        }
        if self.accelerator.is_main_process:
            with replacing(checkpoint_folder(output, self.clock.steps)) as new:
                for name, of_file in tensors.items():
                    save_file(of_file, new / f"{name}.safetensors")
                if self.tokenizer is not None:
                    save_tokenizer(self.tokenizer, new)
                text = json.dumps(state, default=lambda array: array.tolist())
                (new / "state.json").write_text(text, encoding="utf-8")
                write_manifest(new)
            rotate(output, keep)
        self.accelerator.wait_for_everyone()

    def load(self, folder: Path) -> None:
        """Load a checkpoint. The caller has verified its checksums.

        It may be of another number of processes, or of another kind of device. Then dropout draws other numbers than
        it would have drawn.

        Raises:
            ValueError: it is of another model or of other data.
        """
        state = read_mapping(folder / "state.json")
        _copy(load_file(folder / "model.safetensors"), dict(self.model.named_parameters()), folder)
        # Not load_file: the optimiser keeps these tensors, and Windows cannot remove a file that is still mapped.
        self._set_moments(load((folder / "optimizer.safetensors").read_bytes()))
        if self.averaged is not None and state["updates"]:
            _copy(load_file(folder / "average.safetensors"), dict(self.averaged.model.named_parameters()), folder)
            self.averaged.updates = state["updates"]
        if self.accelerator.scaler is not None and state["scaler"]:
            self.accelerator.scaler.load_state_dict(state["scaler"])
        self.clock.load_state_dict(state["clock"])
        self.batches.load_state_dict(state["batches"])
        self.best.load_state_dict(state["best"])
        processes, number = state["processes"], self.accelerator.process_index
        sums = [process["since_log"] for process in processes]
        if len(processes) != self.accelerator.num_processes:  # the first takes the loss of all
            loss = 0.0 if number else sum(process["loss"] for process in sums)
            sums = [sums[0] | {"loss": loss}] * self.accelerator.num_processes
        self.since_log.load_state_dict(sums[number])
        set_seed(self.batches.order.seed + self.clock.steps, device_specific=True)  # where no state was saved
        if number < len(processes):
            _set_random_states(processes[number]["random"], self.accelerator.device)

    def _moments(self) -> dict[str, Tensor]:
        """The optimiser's tensors for each parameter, by the parameter's name; its settings come from the recipe."""
        names = [name for name, _ in self.model.named_parameters()]
        state = self.optimizer.state_dict()["state"]
        return {f"{names[i]}.{key}": value for i, values in state.items() for key, value in values.items()}

    def _set_moments(self, moments: dict[str, Tensor]) -> None:
        numbered = {name: (i, parameter) for i, (name, parameter) in enumerate(self.model.named_parameters())}
        state: dict[int, dict[str, Tensor]] = {}
        for full_name, value in moments.items():
            name, _, key = full_name.rpartition(".")
            number, parameter = numbered[name]
            is_count = value.shape != parameter.shape  # a count of steps
            state.setdefault(number, {})[key] = value if is_count else _placed(value, parameter)
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": state})


def _whole(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the CPU, gathered if they are sharded. All processes must call it."""
    with torch.no_grad():
        whole = {name: t.full_tensor() if isinstance(t, DTensor) else t for name, t in tensors.items()}
        return {name: tensor.detach().cpu().contiguous() for name, tensor in whole.items()}


def _placed(value: Tensor, like: Tensor) -> Tensor:
    """``value`` on the device of ``like``, and sharded in the same way. All processes must call it."""
    value = value.to(like.device)
    return distribute_tensor(value, like.device_mesh, like.placements) if isinstance(like, DTensor) else value


@torch.no_grad()
def _copy(values: dict[str, Tensor], parameters: dict[str, nn.Parameter], folder: Path) -> None:
    for name in sorted(values.keys() | parameters.keys()):
        there, here = (list(t[name].shape) if name in t else "missing" for t in (values, parameters))
        if there != here:
            raise ValueError(
                f"{folder} is of another model: {name} is {there} there and {here} here; did the data change?"
            )
    for name, parameter in parameters.items():
        parameter.copy_(_placed(values[name], parameter))


def _random_states(device: torch.device) -> dict[str, Any]:
    """The states of every random number generator of this process."""
    states = {"python": random.getstate(), "numpy": np.random.get_state(legacy=False), "torch": torch.get_rng_state()}
    if device.type != "cpu":
        states[device.type] = torch.get_device_module(device).get_rng_state()
    return states


def _set_random_states(states: dict[str, Any], device: torch.device) -> None:
    """Set the states of :func:`_random_states`; that of another kind of device is not used."""
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state(states["numpy"])
    torch.set_rng_state(torch.tensor(states["torch"], dtype=torch.uint8))
    if device.type in states:
        of_device = torch.tensor(states[device.type], dtype=torch.uint8)
        torch.get_device_module(device).set_rng_state(of_device)
