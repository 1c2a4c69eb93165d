"""``attnzoo.training.train`` with its weights sharded by FSDP over CPU processes.

Accelerate shards on accelerators alone; torch can do so on CPUs, and here Accelerate is told that it may.
"""

from typing import Any

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType
from attnzoo.training import train

initialise = AcceleratorState.__init__


def initialise_sharded(self: AcceleratorState, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
    initialise(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
    if fsdp_plugin is not None:  # as AcceleratorState does where there are GPUs
        self.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP
        self.fsdp_plugin = fsdp_plugin


if __name__ == "__main__":
    AcceleratorState.__init__ = initialise_sharded  # type: ignore[method-assign]
    train.main()
