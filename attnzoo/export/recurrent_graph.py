"""The attentional RNN as graphs: its cells, its encoder, and a step of each of the four decoders.

Dimensions: B sources, R rows (equally many for each source), S source length, D directions, H hidden width, G
gates of a cell, I input width, E embedding width, V width of the encoder's outputs, L layers.
"""

from typing import Any

import numpy as np
from torch import Tensor, nn

from ..recurrent_cells import WITH_CELL_STATE, ChoGRU, PaddedLSTM, TorchGRU, TorchRNN, layer_weights
from ..recurrent_decoder import BahdanauDecoder, ChoDecoder, LuongDecoder, StateBridge, SutskeverDecoder
from ..recurrent_encoder import RecurrentEncoder
from .attention_graph import SCORES, WINDOWS, AttentionGraph, Positions
from .generation_graphs import Decoder
from .graph import FLOAT, INT32, LARGEST_FACTOR, MICROSOFT, SMALL, Graph, numbers, quantise

# The parts that this file computes. Another class, even a subclass of one of these, may compute something else.
KNOWN_PARTS: dict[str, tuple[type, ...]] = {
    "wiring": (ChoDecoder, SutskeverDecoder, BahdanauDecoder, LuongDecoder),
    "cell": (ChoGRU, TorchGRU, PaddedLSTM, TorchRNN),
    "score": SCORES,
    "window": WINDOWS,
}
OPERATORS = {"lstm": "LSTM", "gru": "GRU", "cho_gru": "GRU", "rnn": "RNN"}
# The places of ONNX's gates among torch's: of i f c o as i o f c, of r z h as z r h. Cho's are z r h already.
GATES = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "cho_gru": (0, 1, 2), "rnn": (0,)}


def refuse_unknown_parts(model: Any, form: str) -> None:
    """Raise a ValueError for a wiring, cell, score or window of an attentional RNN that is not in ``KNOWN_PARTS``."""
    wiring = model.model.decoder.wiring
    rnns = [rnn for layer in model.model.encoder.rnn.layers for rnn in (layer.forward_rnn, layer.backward_rnn)]
    found = {"wiring": [wiring], "cell": [*rnns, *wiring.rnn.layers]}
    if wiring.attention is not None:
        found |= {"score": [wiring.attention.score], "window": [wiring.attention.window]}
    for field, parts in found.items():
        for part in parts:
            if part is not None and type(part) not in KNOWN_PARTS[field]:
                raise ValueError(
                    f"{field}={getattr(model.config, field)!r} is a {type(part).__name__}, which an export to {form} "
                    f"does not compute; export a model with another {field}"
                )


def cell_weights(
    cell: str, layers: list[Any], embedding: Tensor | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The weights of one layer in its directions, as ONNX has them: W (D, G H, I), R (D, G H, H) and B (D, 2 G H).

    With an embedding (V, I), W is (D, G H, V): its products with the embeddings, for tokens as rows of an identity.
    """

    def ordered(rows: np.ndarray) -> np.ndarray:
        parts = np.split(rows, len(GATES[cell]))
        if cell == "cho_gru":  # here z is the share of the new state; in ONNX, of the old one
            parts[0] = -parts[0]
        return np.concatenate([parts[place] for place in GATES[cell]])

    both = []
    for layer in layers:
        if isinstance(layer, ChoGRU):
            weights = [layer.weight_input, layer.weight_hidden, layer.bias, layer.bias * 0]
        else:
            weights = layer_weights(layer)
        w, r, of_input, of_hidden = (ordered(numbers(weight)) for weight in weights)
        both.append((w, r, np.concatenate([of_input, of_hidden])))
    w, r, b = (np.stack(parts) for parts in zip(*both, strict=True))
    return w if embedding is None else w @ numbers(embedding).T, r, b


def is_small(embedding: nn.Embedding) -> bool:
    """Whether the products of all tokens with a weight are no larger than the embedding and the weight."""
    return embedding.num_embeddings <= embedding.embedding_dim


def run_cell(
    g: Graph,
    cell: str,
    layers: list[Any],
    direction: str,
    x: str,
    lengths: str | None = None,
    *state: str,
    embedding: Tensor | None = None,
) -> list[str]:
    """ONNX's operator of a layer: outputs (S, D, B, H), and the parts of the last state, each (D, B, H).

    Shape:
        - x: (S, B, I), or with an embedding (S, B, V), its tokens as rows of an identity
        - lengths: (B,) int32, or None where all rows are S long
        - state: the parts of the first state, each (D, B, H); zeros if there are none
    """
    w, r, b = cell_weights(cell, layers, embedding)
    kind, first = OPERATORS[cell], [*state, None, None][: 2 if cell in WITH_CELL_STATE else 1]
    last: list[np.ndarray | None] = []
    options: dict[str, Any] = {"hidden_size": layers[0].hidden_size, "direction": direction}
    if kind == "GRU":
        options["linear_before_reset"] = int(cell == "gru")  # the reset gate after U, as torch has it
    if kind == "LSTM" and g.weights == "int8" and w.size >= SMALL:
        kind, options["domain"] = "DynamicQuantizeLSTM", MICROSOFT
        w, r, last = quantised_weights(w, r)
    return g.op(kind, x, w, r, b, lengths, *first, *last, outputs=3 if cell in WITH_CELL_STATE else 2, **options)


def lstm_of_tokens(
    g: Graph, layer: nn.LSTM, embedding: nn.Embedding, tokens: str, hidden: str, cell: str
) -> tuple[str, str]:
    """A step of an LSTM that reads embeddings alone: the next state. Their products with W are a table.

    This is faster than ONNX's operator, which multiplies each embedding by W again.

    Shape:
        - tokens: (R,); hidden, cell: (R, H); returns: the same
    """
    w, r, of_input, of_hidden = layer_weights(layer)
    table = numbers(embedding.weight @ w.T + of_input + of_hidden)  # (vocabulary, 4 H)
    gates = g.op("Add", g.op("Gather", table, tokens), g.product(hidden, r))
    gates = g.op("Split", gates, outputs=4, axis=1, num_outputs=4)
    input_gate, forget_gate, output_gate = (g.op("Sigmoid", gates[place]) for place in (0, 1, 3))
    candidate = g.op("Tanh", gates[2])
    cell = g.op("Add", g.op("Mul", forget_gate, cell), g.op("Mul", input_gate, candidate))
    return g.op("Mul", output_gate, g.op("Tanh", cell)), cell


def quantised_weights(w: np.ndarray, r: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray | None]]:
    """Transposed weights in eight bits, and the inputs that follow them: peepholes, which are left out, scales, zero
    points.
    """
    arrays: list[np.ndarray] = []
    others: list[np.ndarray | None] = [None]
    for weight in (w, r):
        whole, scale = quantise(weight, LARGEST_FACTOR)
        arrays.append(whole.transpose(0, 2, 1).copy())
        others += [scale[:, :, 0].copy(), np.zeros(scale.shape[:2], np.int8)]
    return arrays[0], arrays[1], others


class EncoderGraph:
    """:class:`attnzoo.recurrent_encoder.RecurrentEncoder` as a graph; padding may be anywhere."""

    def __init__(self, encoder: RecurrentEncoder, cell: str, embedding: nn.Embedding) -> None:
        self.layers, self.cell, self.embedding = encoder.layers, cell, embedding

    def __call__(self, g: Graph, input_ids: str, attention_mask: str) -> tuple[str, list[list[str]]]:
        """Outputs (B, S, V), 0 on padding; and the last states: of every layer its parts, each (B, V)."""
        positions = Positions.of(g, attention_mask)
        # Real tokens go to the front, in their order, and padding after them.
        padding = g.op("Sub", [1], attention_mask)
        after = g.op("Sub", g.op("Add", positions.length, g.op("CumSum", padding, [1])), [1])
        is_real = g.op("Greater", attention_mask, [0])
        place = g.op("Where", is_real, positions.ranks, after)  # (B, S)
        ids = g.op("ScatterElements", input_ids, place, input_ids, axis=1)
        # A row without a real token is read for one step, and then set to zero.
        lengths = g.op("Cast", g.squeeze(g.op("Max", positions.length, [1]), 1), to=INT32)
        ids, embedding = g.op("Transpose", ids, perm=[1, 0]), None
        if is_small(self.embedding):
            embedding = self.embedding.weight
            x = g.op("Gather", g.initializer(np.eye(len(embedding), dtype=np.float32)), ids)  # (S, B, V)
        else:
            x = g.rows(self.embedding.weight, ids)  # (S, B, E)
        has_token = g.op("Cast", g.op("Min", positions.length, [1]), to=FLOAT)  # (B, 1)
        states = []
        for layer in self.layers:
            rnns = [rnn for rnn in (layer.forward_rnn, layer.backward_rnn) if rnn is not None]
            direction = "bidirectional" if len(rnns) == 2 else "reverse" if layer.forward_rnn is None else "forward"
            y, *last = run_cell(g, self.cell, rnns, direction, x, lengths, embedding=embedding)
            embedding = None  # of the first layer alone
            x = g.reshape(g.op("Transpose", y, perm=[0, 2, 1, 3]), 0, 0, -1)  # (S, B, V)
            side_by_side = [g.reshape(g.op("Transpose", part, perm=[1, 0, 2]), 0, -1) for part in last]
            states.append([g.op("Mul", part, has_token) for part in side_by_side])
        back = g.op("GatherND", g.op("Transpose", x, perm=[1, 0, 2]), g.unsqueeze(place, 2), batch_dims=1)
        return g.op("Mul", back, g.unsqueeze(g.op("Cast", attention_mask, to=FLOAT), 2)), states


class RecurrentGraphs(Decoder):
    """The attentional RNN for conditional generation, as the parts of the graphs in ``generation_graphs.py``.

    The state of a step, by name: hidden_0, cell_0, hidden_1, ... (R, H) of the layers; feed (R, ...), what a step reads
    in addition to its embedding; number (R,), the step's, for a monotonic window.

    Raises:
        ValueError: a part of the model is not in ``KNOWN_PARTS``.
    """

    def __init__(self, model: Any) -> None:
        refuse_unknown_parts(model, "ONNX")
        self.config = config = model.config
        self.encoder = EncoderGraph(model.model.encoder.rnn, config.cell, model.model.encoder.embed_tokens)
        self.embedding, self.lm_head = model.model.decoder.embed_tokens, model.lm_head
        self.wiring = model.model.decoder.wiring
        self.attention: Any = None if self.wiring.attention is None else AttentionGraph(self.wiring.attention)
        self.parts = ["hidden", "cell"] if config.cell in WITH_CELL_STATE else ["hidden"]
        layers, size = range(config.decoder_layers), config.decoder_hidden_size
        self.state = {f"{part}_{layer}": (np.float32, ["R", size]) for layer in layers for part in self.parts}
        if config.wiring == "cho" or config.input_feeding:
            self.state["feed"] = np.float32, ["R", size if config.wiring == "cho" else config.readout_size]
        if config.window == "monotonic":
            self.state["number"] = np.int64, ["R"]
        self.source = {}
        if self.attention is not None:
            self.source["values"] = np.float32, ["B", "S", config.encoder_output_size]
            if self.attention.key_proj is not None:
                self.source["keys"] = np.float32, ["B", "S", self.attention.key_proj.out_features]

    def read(self, g: Graph, input_ids: str, attention_mask: str) -> tuple[dict[str, str], dict[str, str]]:
        """What the steps attend to, and the state before the first step."""
        values, states = self.encoder(g, input_ids, attention_mask)
        source = {"values": values} if "values" in self.source else {}
        if "keys" in self.source:
            source["keys"] = g.linear(values, self.attention.key_proj)
        state = self.first_state(g, states)
        if "number" in self.state:
            state["number"] = g.op("Expand", [0], g.size(input_ids, 0))
        return source, state

    def first_state(self, g: Graph, states: list[list[str]]) -> dict[str, str]:
        """``initial_state`` of the wirings, from the encoder's last states."""
        wiring: Any = self.wiring
        if isinstance(wiring, LuongDecoder | SutskeverDecoder):
            state = self._bridged(g, wiring.bridge, states)
            if "feed" in self.state:
                shape = g.op("Concat", g.size(states[0][0], 0), [self.config.readout_size], axis=0)
                state["feed"] = g.op("Expand", np.float32(0), shape)
            return state
        top = states[-1][0]  # (B, V)
        feed = None
        if isinstance(wiring, ChoDecoder):
            top = feed = g.op("Tanh", g.linear(top, wiring.context_proj))
        else:  # Bahdanau's, from the backward RNN
            width = wiring.initial_proj.in_features
            top = g.op("Slice", top, [-width], [2**31], [1])
        hidden = g.op("Tanh", g.linear(top, wiring.initial_proj))
        state = self._by_layer(g, hidden, "hidden")
        if "cell" in self.parts:
            state |= self._by_layer(g, g.op("Mul", hidden, np.float32(0)), "cell")
        return state if feed is None else state | {"feed": feed}

    def _bridged(self, g: Graph, bridge: StateBridge, states: list[list[str]]) -> dict[str, str]:
        if bridge.hidden_proj is None:
            return {
                f"{p}_{n}": value for n, layer in enumerate(states) for p, value in zip(self.parts, layer, strict=True)
            }
        hidden, *cell = (self._joined(g, list(part)) for part in zip(*states, strict=True))
        state = self._by_layer(g, g.op("Tanh", g.linear(hidden, bridge.hidden_proj)), "hidden")
        if bridge.cell_proj is not None:
            state |= self._by_layer(g, g.linear(cell[0], bridge.cell_proj), "cell")
        return state

    def _by_layer(self, g: Graph, whole: str, part: str) -> dict[str, str]:
        """(R, L H) as the part (R, H) of every layer."""
        count = self.config.decoder_layers
        layers = g.op("Split", whole, outputs=count, axis=1, num_outputs=count) if count > 1 else [whole]
        return {f"{part}_{number}": value for number, value in enumerate(layers)}

    def _joined(self, g: Graph, parts: list[str]) -> str:
        return parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis=-1)

    def step(
        self, g: Graph, tokens: str, source: dict[str, str], state: dict[str, str]
    ) -> tuple[str, dict[str, str], str | None]:
        """Logits (R, vocabulary) after the tokens (R,), the next state, and the weights (R, S), if there are any."""
        wiring: Any = self.wiring
        words = g.rows(self.embedding.weight, tokens)  # (R, E)
        weights = None
        after: dict[str, str] = {}
        if isinstance(wiring, BahdanauDecoder):
            query = state[f"hidden_{self.config.decoder_layers - 1}"]
            context, weights = self._attend(g, query, source, state)
            after, _ = self._run(g, [words, context], state)
            readout = self._maxout(g, [query, words, context])
        elif isinstance(wiring, ChoDecoder):
            after, top = self._run(g, [words, state["feed"]], state)
            readout = self._maxout(g, [top, words, state["feed"]])
            after["feed"] = state["feed"]
        elif isinstance(wiring, LuongDecoder):
            after, top = self._run(g, [words, state["feed"]] if "feed" in state else [words], state, tokens)
            context, weights = self._attend(g, top, source, state)
            readout = g.op("Tanh", g.linear(self._joined(g, [context, top]), wiring.output_proj))
            if "feed" in state:
                after["feed"] = readout
        else:  # Sutskever's
            after, readout = self._run(g, [words], state, tokens)
        if "number" in state:
            after["number"] = g.op("Add", state["number"], [1])
        return g.logits(readout, self.lm_head), after, weights

    def _run(
        self, g: Graph, inputs: list[str], state: dict[str, str], tokens: str | None = None
    ) -> tuple[dict[str, str], str]:
        """The layers' next states, and the top one's hidden state (R, H); ``inputs`` may be of ``tokens`` alone."""
        x = self._joined(g, inputs)
        after: dict[str, str] = {}
        has_table = self.config.cell == "lstm" and len(inputs) == 1 and is_small(self.embedding)
        for number, layer in enumerate(self.wiring.rnn.layers):
            before = [state[f"{part}_{number}"] for part in self.parts]
            if number == 0 and has_table and tokens is not None:
                last = list(lstm_of_tokens(g, layer, self.embedding, tokens, *before))
            else:
                before = [g.unsqueeze(part, 0) for part in before]
                _, *last = run_cell(g, self.config.cell, [layer], "forward", g.unsqueeze(x, 0), None, *before)
                last = [g.squeeze(part, 0) for part in last]
            after |= {f"{part}_{number}": value for part, value in zip(self.parts, last, strict=True)}
            x = after[f"hidden_{number}"]
        return after, x

    def _attend(self, g: Graph, query: str, source: dict[str, str], state: dict[str, str]) -> tuple[str, str]:
        """Context (R, V) and weights (R, S) of queries (R, H). The rows of a source share it."""
        queries = g.reshape(query, g.root.size(source["values"], 0), -1, self.config.decoder_hidden_size)
        context, weights = self.attention(g, queries, source, state.get("number"))
        width, length = self.config.encoder_output_size, g.root.size(source["values"], 1)
        return g.reshape(context, -1, width), g.reshape(weights, -1, length)

    def _maxout(self, g: Graph, inputs: list[str]) -> str:
        pairs = g.linear(self._joined(g, inputs), self.wiring.readout_proj)
        return g.op("ReduceMax", g.reshape(pairs, 0, -1, 2), [2], keepdims=0)
