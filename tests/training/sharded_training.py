"""Weights sharded by FSDP over CPU processes.

Accelerate shards only on accelerators; torch can do so on CPUs, and here Accelerate is made to allow it.
"""

from pathlib import Path
from typing import Any
from unittest import mock

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType
from attnzoo.training import train
from attnzoo.training.loop.setup import Run
from attnzoo.training.loop.training_state import TrainingState
from torch.distributed.tensor import DTensor

initialise = AcceleratorState.__init__
save, step = TrainingState.save, train.step


def initialise_sharded(self: AcceleratorState, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
    initialise(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
    if fsdp_plugin is not None:  # as AcceleratorState does where there are GPUs
        self.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP
        self.fsdp_plugin = fsdp_plugin


def save_sharded(self: TrainingState, output: Path, keep: int) -> None:
    assert all(isinstance(parameter, DTensor) for parameter in self.model.parameters())
    save(self, output, keep)


def step_without_gathering(run: Run, rate: float) -> None:
    """A step; without a moving average none of its weights are gathered."""
    gathered: list[str] = []
    whole = DTensor.full_tensor

    def noting(self: DTensor, **options: Any) -> Any:
        gathered.append(str(self.shape))
        return whole(self, **options)

    with mock.patch.object(DTensor, "full_tensor", noting):
        step(run, rate)
    assert bool(gathered) == bool(run.recipe.training.ema_decay)


def allow_sharding() -> None:
    """Let this process shard the weights of its training."""
    train.step = step_without_gathering
    TrainingState.save = save_sharded  # type: ignore[method-assign]
    AcceleratorState.__init__ = initialise_sharded  # type: ignore[method-assign]
