"""ONNX graphs, built node by node from ONNX's own operators: nothing is traced, so no length or batch size is fixed.

Dimensions: I inputs, O outputs, D directions, H hidden width, G gates of a cell, B batch, S length.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from ..loss import closing_bias

Weights = Literal["float32", "float16", "int8"]
WEIGHTS: tuple[Weights, ...] = get_args(Weights)
OPSET, IR_VERSION = 20, 9  # of ONNX 1.15
MICROSOFT = "com.microsoft"  # the domain of ONNX Runtime's own operators, for an LSTM of eight bits
SMALL = 256  # an array of fewer numbers stays in float32
# The largest weight of a product in eight bits. x86 processors without VNNI add two products in 16 bits, and
# 2 * 255 * 127 is too much for them.
LARGEST_FACTOR = 63
FLOAT, INT64, INT32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL


def numbers(tensor: Tensor) -> np.ndarray:
    """A copy of a tensor as an array of float32: CTranslate2 quantises it in place."""
    return tensor.detach().float().cpu().numpy().copy()


def quantise(rows: np.ndarray, largest: int = 127) -> tuple[np.ndarray, np.ndarray]:
    """Rows of float32 (..., N) as int8, at most ``largest``, and one scale for each row, (..., 1)."""
    scale = np.abs(rows).max(axis=-1, keepdims=True) / np.float32(largest)
    scale[scale == 0] = 1
    return np.rint(rows / scale).astype(np.int8), scale


class Graph:
    """A graph that is being built. A value is the name of a node's output.

        y = graph.op("Add", x, np.float32(1))     # an array becomes an initializer, one for all equal arrays

    The body of a loop is a graph with a ``parent``; its initializers are in the outermost graph.

    Args:
        weights: how large weights are stored. "float16" is cast to float32 when the model is loaded. "int8" has a scale
            for each output; products and LSTMs then compute with eight bits, and quantise their inputs as they run,
            while other cells compute in float32.
        parent: the graph around the body of a loop
    """

    def __init__(self, weights: Weights = "float32", parent: "Graph | None" = None) -> None:
        self.root: Graph = parent.root if parent else self
        self.weights: Weights = parent.weights if parent else weights
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.renamed: dict[str, str] = {}  # the names of the outputs, by their values
        # Of the outermost graph alone:
        self.initializers: list[onnx.TensorProto] = []
        self.stored: dict[tuple[Any, ...], str] = {}  # the values of arrays, by what is in them
        self.count = 0

    def op(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """The output of a node, or a list of them.

        An input is a value, an array (or anything that numpy makes one of), or None for an input that is left out.
        """
        names = ["" if part is None else part if isinstance(part, str) else self.constant(part) for part in inputs]
        results = [self.root.name(kind) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, names, results, **attributes))
        return results[0] if outputs == 1 else results

    def input(self, name: str, dtype: Any, shape: Sequence[Any]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape))
        return name

    def output(self, name: str, value: str, dtype: Any, shape: Sequence[Any]) -> None:
        if value in self.renamed or not any(value in node.output for node in self.nodes):
            value = self.op("Identity", value)
        self.renamed[value] = name  # a copy under this name would take time
        info = helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        self.outputs.append(info)

    def proto(self, name: str) -> onnx.GraphProto:
        for node in self.nodes:
            for names in (node.input, node.output):
                names[:] = [self.renamed.get(one, one) for one in names]
        return helper.make_graph(self.nodes, name, self.inputs, self.outputs, self.initializers)

    def model(self, name: str) -> onnx.ModelProto:
        """The model, checked by onnx."""
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(
            self.proto(name), opset_imports=opsets, ir_version=IR_VERSION, producer_name="attnzoo"
        )
        onnx.checker.check_model(model, full_check=True)
        return model

    # Arrays and weights

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"

    def constant(self, array: Any) -> str:
        """The value of an array, in which large weights are stored as ``weights`` says."""
        root, array = self.root, np.asarray(array)
        key = array.dtype, array.shape, hashlib.sha256(array.tobytes()).digest()
        if key not in root.stored:
            root.stored[key] = root.restored_value(array)
        return root.stored[key]

    def restored_value(self, array: np.ndarray) -> str:
        if array.dtype != np.float32 or array.size < SMALL or self.weights == "float32":
            return self.initializer(array)
        if self.weights == "float16":
            return self.op("Cast", self.initializer(array.astype(np.float16)), to=FLOAT)
        if max(array.shape) == array.size:  # of biases or scales: a single large number would round the others to 0
            return self.initializer(array)
        quantised, scale = quantise(array)
        return self.op("Mul", self.op("Cast", self.initializer(quantised), to=FLOAT), self.initializer(scale))

    def initializer(self, array: np.ndarray) -> str:
        name = self.name("array")
        # np.ascontiguousarray would give a number a dimension, and a Loop refuses such a condition.
        self.initializers.append(numpy_helper.from_array(array.copy(order="C"), name))
        return name

    def product(self, x: str, *weights: Tensor) -> str:
        """Multiply x (..., I) by the weights (O, I), side by side: (..., sum of O)."""
        matrix = np.concatenate([numbers(weight) for weight in weights])  # (O, I)
        if self.weights != "int8" or matrix.size < SMALL:
            return self.op("MatMul", x, matrix.T)
        quantised, scale = quantise(matrix, LARGEST_FACTOR)
        x, x_scale, x_zero = self.op("DynamicQuantizeLinear", x, outputs=3)
        whole = self.op("Cast", self.op("MatMulInteger", x, quantised.T, x_zero), to=FLOAT)
        return self.op("Mul", whole, self.op("Mul", x_scale, scale[:, 0]))

    def linear(self, x: str, *layers: nn.Linear) -> str:
        """One or several linear layers of x, side by side; all have a bias or none."""
        y = self.product(x, *(layer.weight for layer in layers))
        if layers[0].bias is None:
            return y
        return self.op("Add", y, np.concatenate([numbers(layer.bias) for layer in layers]))

    def logits(self, x: str, layer: nn.Linear, closed: int | None = None) -> str:
        """An output projection of x (R, I), with a word that is never predicted, if there is one.

        A weight that is also a table of embeddings is stored once.
        """
        weight, bias = numbers(layer.weight), closing_bias(layer, closed)
        biases = [] if bias is None else [numbers(bias)]
        if self.weights == "int8" and weight.size >= SMALL:
            product = self.product(x, layer.weight)
            return self.op("Add", product, *biases) if biases else product
        return self.op("Gemm", x, weight, *biases, transB=1)

    def rows(self, table: Tensor, indices: str) -> str:
        """The rows of a table of embeddings."""
        array = numbers(table)
        if self.weights != "int8" or array.size < SMALL:
            return self.op("Gather", array, indices)
        quantised, scale = quantise(array)
        rows = self.op("Cast", self.op("Gather", quantised, indices), to=FLOAT)
        return self.op("Mul", rows, self.op("Gather", scale, indices))

    # What every graph needs

    def size(self, x: str, axis: int) -> str:
        """The size of one dimension, (1,)."""
        return self.op("Shape", x, start=axis, end=axis + 1)

    def unsqueeze(self, x: str, *axes: int) -> str:
        return self.op("Unsqueeze", x, axes)

    def squeeze(self, x: str, *axes: int) -> str:
        return self.op("Squeeze", x, axes)

    def reshape(self, x: str, *shape: int | str) -> str:
        """``x`` in another shape: 0 keeps a dimension, -1 is what remains, and a value (1,) of the root is a size."""
        if any(isinstance(size, str) for size in shape):
            sizes = [size if isinstance(size, str) else [size] for size in shape]
            return self.op("Reshape", x, self.root.op("Concat", *sizes, axis=0))
        return self.op("Reshape", x, shape)
