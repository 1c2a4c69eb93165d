"""Forward and backward of a batch as a CUDA graph.

A recurrent decoder launches dozens of small kernels for each target step, and the GPU waits for the host to launch
them. A graph is launched as a whole. It has fixed shapes and fixed places in memory. So batches are padded to few
shapes, and copied to where the graph reads. Padding changes neither loss nor gradients. Nothing in the graph may depend
on a value that the host would have to read: that is why batches are checked where they are collated
(:func:`~attnzoo.model_inputs.check_batch`).

The translators of ``model_cards/*-tatoeba-en-de`` were trained so on one H100. A test runs all but CUDA's own part on a
CPU.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attnzoo.loss import IGNORED

MOST_GRAPHS = 128  # batches of further shapes run without a graph
WARM_UPS = 1

Gradients = Callable[[dict[str, Tensor], Any], Tensor]
Replay = Callable[[], Tensor]


def captured(step: Replay) -> Replay:
    """Capture a step as a CUDA graph: a function that replays it and returns the tensor of the step's result.

    Every replay advances torch's generator of the GPU, so dropout draws other numbers each time. Casts that autocast
    keeps for a forward pass are made and dropped inside the graph.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # cuBLAS and cuDNN choose algorithms and allocate here
        for _ in range(WARM_UPS):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=_memory()):
        result = step()

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay


@cache
def _memory() -> Any:
    """The memory of all graphs. They may share it, since a replay leaves nothing there that another one reads."""
    return torch.cuda.graph_pool_handle()


def padded_size(size: int) -> int:
    """The next of few sizes: multiples of an eighth of the next power of two, and of 4."""
    multiple = max(4, 2 ** (size - 1).bit_length() // 8)
    return -(-size // multiple) * multiple


class Graph(NamedTuple):
    """The places of the batch that a graph reads, and the function that replays it."""

    inputs: dict[str, Tensor]
    num_labels: Tensor
    replay: Replay


class GraphedStep:
    """Adds the gradients of a batch, as ``gradients`` does, but replays a graph where there is one for its shape.

    The first batch of a shape runs without a graph, the second one is captured. Gradients are always added to the same
    tensors, which the graphs write to, so they may be accumulated over several batches.

    Args:
        gradients: adds the gradients of a batch, given its inputs on the device and the number of labels of the
            optimiser step, and returns the loss. It reads no value of the device.
        parameters: those of the model
        pad_token_id: the token of padding
        capture: turns a step into what replays it
    """

    def __init__(
        self,
        gradients: Gradients,
        parameters: Sequence[nn.Parameter],
        pad_token_id: int,
        capture: Callable[[Replay], Replay] = captured,
    ) -> None:
        self.gradients, self.parameters, self.capture = gradients, parameters, capture
        self.padding = {"input_ids": pad_token_id, "attention_mask": 0, "labels": IGNORED}
        self.padding |= {"decoder_input_ids": pad_token_id}
        self.held: dict[nn.Parameter, Tensor] = {}  # the gradients that the graphs add to
        self.shapes: set[Any] = set()
        self.graphs: dict[Any, Graph] = {}

    def __call__(self, inputs: dict[str, Tensor], num_labels: int) -> Tensor:
        """The loss of the batch; the next call overwrites it.

        Raises:
            ValueError: it is not known how to pad an input.
        """
        if unknown := inputs.keys() - self.padding.keys():
            raise ValueError(f"training.cuda_graphs cannot pad {', '.join(sorted(unknown))}; set it to false")
        shape = tuple((name, *map(padded_size, value.shape)) for name, value in sorted(inputs.items()))
        self._hold_gradients()
        graph = self.graphs.get(shape)
        if graph is not None:
            self._copy(inputs, num_labels, graph)
        elif shape in self.shapes and len(self.graphs) < MOST_GRAPHS:
            graph = self.graphs[shape] = self._capture(inputs, num_labels)
        else:
            self.shapes.add(shape)
            loss = self.gradients(inputs, num_labels)
            self._hold_gradients()
            return loss
        return graph.replay()

    def _copy(self, inputs: dict[str, Tensor], num_labels: int, graph: Graph) -> None:
        """Pad a batch into the places that a graph reads."""
        for name, value in inputs.items():
            graph.inputs[name].fill_(self.padding[name])[: value.shape[0], : value.shape[1]] = value
        graph.num_labels.fill_(num_labels)

    def _capture(self, inputs: dict[str, Tensor], num_labels: int) -> Graph:
        """A graph for batches of this shape, to be replayed first with this one."""
        places = {name: value.new_empty([*map(padded_size, value.shape)]) for name, value in inputs.items()}
        count = torch.empty((), dtype=torch.int64, device=inputs["labels"].device)
        graph = Graph(places, count, lambda: self.gradients(places, count))
        self._copy(inputs, num_labels, graph)
        before = [gradient.clone() for gradient in self.held.values()]
        graph = graph._replace(replay=self.capture(graph.replay))
        if any(parameter.grad is not self.held.get(parameter) for parameter in self.parameters):
            raise RuntimeError("a weight has a gradient now and had none in the batches before; no graph would add it")
        for gradient, value in zip(self.held.values(), before, strict=True):
            gradient.copy_(value)  # as it was before the warm-up
        return graph

    def _hold_gradients(self) -> None:
        """Give every parameter the gradient that graphs add to, filled with 0 if ``zero_grad`` had set it to None."""
        for parameter in self.parameters:
            if parameter.grad is not None:
                self.held.setdefault(parameter, parameter.grad)
            elif parameter in self.held:
                parameter.grad = self.held[parameter].zero_()
