"""Not a toolkit: only the matrix products of a training step, as an estimate of the fp32 limit.

Each product of a weight is one call over all real tokens, by the faster of torch's libraries, as if no step needed the
one before; autograd adds the two products of the backward pass. There are no gates, no softmax and no cross-entropy. So
no system can reach this speed, and all can be compared with it.
"""

from typing import Any

import torch
from torch import Tensor, nn

from attnzoo.fast_products import linear
from tests.benchmarks.systems.protocol import System, serve
from tests.benchmarks.workload import ATTENTION, DECODER, EMBEDDING, ENCODER, VOCABULARY, Pairs


class Limit(System):
    """The weights of the model, each with its own input."""

    package = "torch"
    decodes = False
    notes = "matrix products only"

    def __init__(self, score: str, has_input_feeding: bool) -> None:
        fed = DECODER if has_input_feeding else 0
        on_source = {
            "rightwards": (EMBEDDING + ENCODER, 4 * ENCODER),
            "leftwards": (EMBEDDING + ENCODER, 4 * ENCODER),
            "projected_keys": (2 * ENCODER, ATTENTION),
        }
        on_target = {
            "gates": (EMBEDDING + fed + DECODER, 4 * DECODER),
            "readout": (2 * ENCODER + DECODER, DECODER),
            "vocabulary": (DECODER, VOCABULARY),
        }
        if score == "additive":
            on_target["query"] = (DECODER, ATTENTION)
        self.has_dot_product = score == "general"
        self.sides = {"source": list(on_source), "target": list(on_target)}
        layers = {name: nn.Linear(*sizes, bias=False) for name, sizes in (on_source | on_target).items()}
        self.model: Any = nn.ModuleDict(layers | {side: nn.Embedding(VOCABULARY, EMBEDDING) for side in self.sides})

    def batch(self, pairs: Pairs) -> dict[str, Any]:
        rows = {"source": pairs.sources, "target": pairs.targets}
        return {side: torch.tensor([word for row in rows[side] for word in [*row, 2]]) for side in rows} | {
            "sizes": [len(pairs.sources), *(max(map(len, rows[side])) + 1 for side in ("target", "source"))]
        }

    def loss(self, batch: dict[str, Any]) -> Tensor:
        total = torch.zeros(())
        for side, names in self.sides.items():
            total = total + self.model[side](batch[side]).sum()
            for name in names:
                layer: Any = self.model[name]
                values = torch.ones(len(batch[side]), layer.in_features, requires_grad=True)
                total = total + linear(layer, values).sum()
        size, target, source = batch["sizes"]
        states = torch.ones(size, target, DECODER, requires_grad=True)
        outputs = torch.ones(size, source, 2 * ENCODER, requires_grad=True)
        weights = torch.ones(size, target, source, requires_grad=True)
        total = total + (weights @ outputs).sum()
        return total + (states @ outputs.mT).sum() if self.has_dot_product else total


if __name__ == "__main__":
    serve(Limit)
