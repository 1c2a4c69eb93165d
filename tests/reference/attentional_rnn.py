"""The attentional RNN of the papers as loops: one sentence, one token, one state vector at a time.

The executable specification of the recurrent cells, the encoder, the four decoders and the model around them. Weights
are read from a module by their names; everything else is written from the equations.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tests.reference import attention, copying

Weights = dict[str, Tensor]


class State(NamedTuple):
    """The state of one cell after one token: ``hidden`` (H,) and, for an LSTM, ``memory`` (H,)."""

    hidden: Tensor
    memory: Tensor | None = None


class Translation(NamedTuple):
    """The model's outputs for a batch: logits (B, T, vocabulary), alignments (B, T, S), None without attention.

    The logits of a model that copies are log-probabilities.
    """

    logits: Tensor
    alignments: Tensor | None


def weights_of(module: nn.Module) -> Weights:
    return dict(module.named_parameters(remove_duplicate=False))


def below(weights: Weights, prefix: str) -> Weights:
    return {name.removeprefix(prefix): weight for name, weight in weights.items() if name.startswith(prefix)}


# The cells: one token


def cho_gru_step(weights: Weights, x: Tensor, state: State) -> State:
    """Bahdanau et al., 2014, appendix A.1.1 (the GRU of Cho et al., 2014): the reset gate acts before U.

    z = sigma(W_z x + U_z s + b_z); r = sigma(W_r x + U_r s + b_r); s~ = tanh(W x + U [r * s] + b);
    s' = (1 - z) * s + z * s~. The rows of every weight are z, r, candidate.
    """
    s = state.hidden
    w_z, w_r, w = weights["weight_input"].split(len(s))
    u_z, u_r, u = weights["weight_hidden"].split(len(s))
    b_z, b_r, b = weights["bias"].split(len(s))
    z = torch.sigmoid(w_z @ x + u_z @ s + b_z)
    r = torch.sigmoid(w_r @ x + u_r @ s + b_r)
    candidate = torch.tanh(w @ x + u @ (r * s) + b)
    return State((1 - z) * s + z * candidate)


def torch_gru_step(weights: Weights, x: Tensor, state: State) -> State:
    """torch.nn.GRU, as in its documentation: the reset gate acts after U, and z is the share of the old state.

    r = sigma(W_ir x + b_ir + W_hr h + b_hr); z likewise; n = tanh(W_in x + b_in + r * (W_hn h + b_hn));
    h' = (1 - z) * n + z * h. The rows of every weight are r, z, n.
    """
    h = state.hidden
    w_ir, w_iz, w_in = weights["weight_ih_l0"].split(len(h))
    w_hr, w_hz, w_hn = weights["weight_hh_l0"].split(len(h))
    b_ir, b_iz, b_in = weights["bias_ih_l0"].split(len(h))
    b_hr, b_hz, b_hn = weights["bias_hh_l0"].split(len(h))
    r = torch.sigmoid(w_ir @ x + b_ir + w_hr @ h + b_hr)
    z = torch.sigmoid(w_iz @ x + b_iz + w_hz @ h + b_hz)
    n = torch.tanh(w_in @ x + b_in + r * (w_hn @ h + b_hn))
    return State((1 - z) * n + z * h)


def lstm_step(weights: Weights, x: Tensor, state: State) -> State:
    """torch.nn.LSTM, as in its documentation (no peepholes).

    i, f, o = sigma(W x + b + U h + b'), g = tanh(the same); c' = f * c + i * g; h' = o * tanh(c').
    The rows of every weight are i, f, g, o.
    """
    h, c = state
    w_i, w_f, w_g, w_o = weights["weight_ih_l0"].split(len(h))
    u_i, u_f, u_g, u_o = weights["weight_hh_l0"].split(len(h))
    b_i, b_f, b_g, b_o = (weights["bias_ih_l0"] + weights["bias_hh_l0"]).split(len(h))
    i = torch.sigmoid(w_i @ x + u_i @ h + b_i)
    f = torch.sigmoid(w_f @ x + u_f @ h + b_f)
    g = torch.tanh(w_g @ x + u_g @ h + b_g)
    o = torch.sigmoid(w_o @ x + u_o @ h + b_o)
    memory = f * c + i * g
    return State(o * torch.tanh(memory), memory)


def rnn_step(weights: Weights, x: Tensor, state: State) -> State:
    """torch.nn.RNN, as in its documentation: h' = tanh(W x + b + U h + b')."""
    x_part = weights["weight_ih_l0"] @ x + weights["bias_ih_l0"]
    return State(torch.tanh(x_part + weights["weight_hh_l0"] @ state.hidden + weights["bias_hh_l0"]))


STEPS = {"cho_gru": cho_gru_step, "gru": torch_gru_step, "lstm": lstm_step, "rnn": rnn_step}


def zero_state(cell: str, size: int) -> State:
    zeros = torch.zeros(size, dtype=torch.float64)
    return State(zeros, zeros if cell == "lstm" else None)


def read(cell: str, weights: Weights, inputs: list[Tensor], state: State) -> list[State]:
    """The states of one cell after each of the inputs."""
    states = []
    for x in inputs:
        state = STEPS[cell](weights, x, state)
        states.append(state)
    return states


# The encoder: one sentence without its padding


class Encoding(NamedTuple):
    """The encoder's output for one sentence, each layer from the bottom: annotations of every token, final states."""

    annotations: list[list[Tensor]]
    finals: list[State]


def encode_sentence(
    weights: Weights, cell: str, size: int, depth: int, tokens: list[Tensor], directions: tuple[str, ...]
) -> Encoding:
    """Bahdanau et al., 2014, section 3.2: h_j = [forward h_j; backward h_j]; layers above read the h of the one below.

    The final state of a layer is its forward RNN's after the last token and its backward RNN's after the first; for a
    sentence without tokens both are zero, as at the start. With one direction h_j has only its half.
    """
    annotations, finals = [], []
    for layer in range(depth):
        start = zero_state(cell, size)
        halves, ends = [], []
        if "forward" in directions:
            forward = read(cell, below(weights, f"layers.{layer}.forward_rnn."), tokens, start)
            halves.append(forward)
            ends.append(forward[-1] if tokens else start)
        if "backward" in directions:
            backward = read(cell, below(weights, f"layers.{layer}.backward_rnn."), tokens[::-1], start)[::-1]
            halves.append(backward)
            ends.append(backward[0] if tokens else start)
        tokens = [torch.cat([half.hidden for half in place]) for place in zip(*halves, strict=True)]
        annotations.append(tokens)
        memory = torch.cat([end.memory for end in ends]) if cell == "lstm" else None
        finals.append(State(torch.cat([end.hidden for end in ends]), memory))
    return Encoding(annotations, finals)


def encode(
    weights: Weights, cell: str, size: int, depth: int, inputs: Tensor, mask: Tensor, directions: tuple[str, ...]
) -> tuple[list[Tensor], Tensor, Tensor | None]:
    """A padded batch, each row as a sentence of its own: annotations per layer (B, S, V), finals (B, L, V)."""
    annotations = [torch.zeros(*mask.shape, len(directions) * size, dtype=inputs.dtype) for _ in range(depth)]
    finals = []
    for row in range(len(inputs)):
        places = [j for j in range(inputs.shape[1]) if mask[row, j]]
        encoding = encode_sentence(weights, cell, size, depth, [inputs[row, j] for j in places], directions)
        for layer in range(depth):
            for place, annotation in zip(places, encoding.annotations[layer], strict=True):
                annotations[layer][row, place] = annotation
        finals.append(encoding.finals)
    hidden = torch.stack([torch.stack([state.hidden for state in row]) for row in finals])
    memory = torch.stack([torch.stack([state.memory for state in row]) for row in finals]) if cell == "lstm" else None
    return annotations, hidden, memory


# The decoders: one sentence, one word after the other


class Attention(NamedTuple):
    """A score function and a window, as the model's config names them, and their weights."""

    weights: Weights
    score: str
    window: str
    window_size: int

    def score_of(self, query: Tensor, annotation: Tensor, position: int, covered: Tensor) -> attention.Score:
        if self.score == "dot":
            return attention.dot(query, annotation)
        if self.score == "general":
            return attention.general(query, annotation, self.weights["score.key_proj.weight"])
        if self.score == "location":
            return attention.location(query, position, self.weights["score.position_key"])
        w_a, u_a = self.weights["score.query_proj.weight"], self.weights["score.key_proj.weight"]
        v_a = self.weights["score.score_vector"]
        if "score.coverage_vector" in self.weights:
            w_c = self.weights["score.coverage_vector"]
            return attention.additive_with_coverage(query, annotation, covered, w_a, u_a, v_a, w_c)
        if self.score == "additive":
            return attention.additive(query, annotation, w_a, u_a, v_a)
        assert self.score == "concat"
        return attention.concat(query, annotation, torch.cat([w_a, u_a], dim=1), v_a)

    def look(
        self, query: Tensor, annotations: list[Tensor], step: int, before: Sequence[list[Tensor]] = ()
    ) -> list[Tensor]:
        """The weights of one query on the tokens of one sentence (Luong et al., 2015, section 3).

        ``before`` are the weights of the earlier steps; their sum is the coverage (See et al., 2017, eq. 10).
        """
        num_tokens = len(annotations)
        zero = torch.zeros((), dtype=torch.float64)
        coverage = [sum((weights[position] for weights in before), zero) for position in range(num_tokens)]
        if self.window == "predictive":
            w_p, v_p = self.weights["window.query_proj.weight"], self.weights["window.position_proj.weight"][0]
            aligned = attention.predicted_position(query, w_p, v_p, num_tokens)
        else:
            aligned = attention.monotonic_position(step, num_tokens)
        scores: list[attention.Score] = []
        for position, annotation in enumerate(annotations):
            inside = self.window == "global" or attention.in_window(position, aligned, self.window_size)
            scores.append(self.score_of(query, annotation, position, coverage[position]) if inside else None)
        weights = attention.softmax(scores)
        if self.window == "predictive":
            return [w * attention.gaussian(s, aligned, self.window_size) for s, w in enumerate(weights)]
        return weights


def context_of(weights: list[Tensor], annotations: list[Tensor], size: int) -> Tensor:
    """The context of a sentence; a sentence without tokens has the context zero."""
    return attention.context(weights, annotations) if annotations else torch.zeros(size, dtype=torch.float64)


Drop = Callable[[str, Tensor], Tensor]  # a named place of a decoder, and what is dropped there


def keep(place: str, values: Tensor) -> Tensor:
    """No dropout."""
    return values


def read_token(cell: str, weights: Weights, x: Tensor, states: list[State], drop: Drop = keep) -> list[State]:
    """A stack of cells reads one token, each layer the new state of the one below."""
    new_states = []
    for layer, state in enumerate(states):
        state = STEPS[cell](below(weights, f"rnn.layers.{layer}."), x, state)
        new_states.append(state)
        x = drop("rnn.dropout", state.hidden) if layer + 1 < len(states) else state.hidden
    return new_states


def maxout(pairs: Tensor) -> Tensor:
    """Bahdanau et al., 2014, appendix A.2.2: t_j is the larger of t~_{2j-1} and t~_{2j}."""
    return torch.stack([torch.maximum(pairs[j], pairs[j + 1]) for j in range(0, len(pairs), 2)])


def projected_start(weights: Weights, cell: str, size: int, depth: int, vector: Tensor) -> list[State]:
    """s_0 = tanh(W_s v), with one W_s for each layer; LSTM cells start at zero."""
    states = []
    for layer in range(depth):
        rows = slice(layer * size, (layer + 1) * size)
        w_s, b_s = weights["initial_proj.weight"][rows], weights["initial_proj.bias"][rows]
        states.append(State(torch.tanh(w_s @ vector + b_s), zero_state(cell, size).memory))
    return states


def bridged_start(weights: Weights, cell: str, size: int, depth: int, source: Encoding) -> list[State]:
    """The encoder's final states if they fit (Sutskever, Luong et al., 2015), else a linear map of all of them."""
    states = source.finals
    if (len(states), len(states[0].hidden)) == (depth, size):
        return states
    everything = torch.cat([state.hidden for state in states])
    hidden = torch.tanh(weights["bridge.hidden_proj.weight"] @ everything + weights["bridge.hidden_proj.bias"])
    memory: tuple[Tensor | None, ...] = (None,) * depth
    if cell == "lstm":
        everything = torch.cat([state.memory for state in states])
        memory = (weights["bridge.cell_proj.weight"] @ everything + weights["bridge.cell_proj.bias"]).split(size)
    return [State(h, c) for h, c in zip(hidden.split(size), memory, strict=True)]


class Step(NamedTuple):
    """A readout, the weights on the source's tokens, if there is attention, and p_gen if the model copies."""

    readout: Tensor
    alignment: list[Tensor] | None = None
    p_gen: Tensor | None = None


def p_gen_of(weights: Weights, *parts: Tensor) -> Tensor | None:
    """See et al., 2017, eq. 8, from context, state and input."""
    if "copy_gate.gate_proj.weight" not in weights:
        return None
    w, b = weights["copy_gate.gate_proj.weight"][0], weights["copy_gate.gate_proj.bias"][0]
    return copying.generation_probability(w, b, *parts)


def cho_decode(weights: Weights, cell: str, size: int, depth: int, words: list[Tensor], source: Encoding) -> list[Step]:
    """Cho et al., 2014, section 2.2 and appendix A.1: one c for all words.

    c = tanh(V h_S); s_0 = tanh(V' c); s_i = f(s_{i-1}, [E y_{i-1}; c]); t~_i = O_h s_i + O_y E y_{i-1} + O_c c.
    """
    c = torch.tanh(weights["context_proj.weight"] @ source.finals[-1].hidden + weights["context_proj.bias"])
    states = projected_start(weights, cell, size, depth, c)
    o_h, o_y, o_c = weights["readout_proj.weight"].split([size, len(words[0]), len(c)], dim=1)
    steps = []
    for word in words:
        states = read_token(cell, weights, torch.cat([word, c]), states)
        readout = maxout(o_h @ states[-1].hidden + o_y @ word + o_c @ c + weights["readout_proj.bias"])
        steps.append(Step(readout))
    return steps


def sutskever_decode(
    weights: Weights, cell: str, size: int, depth: int, words: list[Tensor], source: Encoding
) -> list[Step]:
    """Sutskever et al., 2014, section 2: s_0 is the encoder's; s_i = f(s_{i-1}, E y_{i-1}); words are read from s_i."""
    states = bridged_start(weights, cell, size, depth, source)
    steps = []
    for word in words:
        states = read_token(cell, weights, word, states)
        steps.append(Step(states[-1].hidden))
    return steps


def bahdanau_decode(
    weights: Weights,
    look: Attention,
    cell: str,
    size: int,
    depth: int,
    words: list[Tensor],
    source: Encoding,
    direction_size: int,
    fixed_context: Tensor | None = None,
    drop: Drop = keep,
) -> list[Step]:
    """Bahdanau et al., 2014, appendix A.2.2: readout t_i and weights a_i for every word before the one to predict.

    s_0 = tanh(W_s backward h_1); c_i by s_{i-1}; t~_i = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i; t_ij the larger of
    t~_{i,2j-1} and t~_{i,2j}; s_i = f(s_{i-1}, [E y_{i-1}; c_i]). With one direction s_0 is made of its final state.
    With every c_i fixed to one vector it is the RNN Encoder-Decoder, as the appendix says.
    """
    annotations = source.annotations[-1]
    width = len(source.finals[-1].hidden)
    states = projected_start(weights, cell, size, depth, source.finals[-1].hidden[width - direction_size :])
    u_o, v_o, c_o = weights["readout_proj.weight"].split([size, len(words[0]), width], dim=1)
    steps: list[Step] = []
    for step, word in enumerate(words):
        s = states[-1].hidden  # s_{i-1}
        alignment = look.look(s, annotations, step, [before.alignment for before in steps])
        c = context_of(alignment, annotations, width) if fixed_context is None else fixed_context
        readout = maxout(u_o @ s + v_o @ word + c_o @ c + weights["readout_proj.bias"])
        states = read_token(cell, weights, torch.cat([word, c]), states, drop)  # s_i
        steps.append(Step(drop("dropout", readout), alignment, p_gen_of(weights, c, s, word)))
    return steps


def luong_decode(
    weights: Weights,
    look: Attention,
    cell: str,
    size: int,
    depth: int,
    words: list[Tensor],
    source: Encoding,
    input_feeding: bool,
    drop: Drop = keep,
) -> list[Step]:
    """Luong et al., 2015, section 3: h~_t and weights a_t for every word before the one to predict.

    h_t = f(h_{t-1}, E y_{t-1}), or with input feeding (section 3.3) f(h_{t-1}, [E y_{t-1}; h~_{t-1}]); c_t by h_t;
    h~_t = tanh(W_c [c_t; h_t]).
    """
    annotations = source.annotations[-1]
    states = bridged_start(weights, cell, size, depth, source)
    fed = torch.zeros(len(weights["output_proj.weight"]), dtype=torch.float64) if input_feeding else None
    steps: list[Step] = []
    for step, word in enumerate(words):
        x = word if fed is None else torch.cat([word, drop("dropout", fed)])
        states = read_token(cell, weights, x, states, drop)
        h = states[-1].hidden
        alignment = look.look(h, annotations, step, [before.alignment for before in steps])
        c = context_of(alignment, annotations, len(source.finals[-1].hidden))
        attentional = torch.tanh(weights["output_proj.weight"] @ torch.cat([c, h]))
        fed = attentional if input_feeding else None
        steps.append(Step(attentional, alignment, p_gen_of(weights, c, h, word)))
    return steps


# The whole model


def shift_right(labels: list[int], start: int, pad: int) -> list[int]:
    """The decoder's input to predict the labels: the start token, then every label except the last."""
    return [start] + [pad if label == -100 else label for label in labels[:-1]]


def directions_of(config: Any) -> tuple[str, ...]:
    if config.bidirectional:
        return ("forward", "backward")
    return ("backward",) if config.reverse_source else ("forward",)


def translate(
    model: nn.Module,
    input_ids: Tensor,
    mask: Tensor,
    decoder_input_ids: Tensor,
    fix_context: bool = False,
    drop: Callable[[int], Drop] = lambda row: keep,
) -> Translation:
    """Logits and alignments of an ``AttentionalRNNForConditionalGeneration``, sentence by sentence.

    With ``fix_context`` every context of Bahdanau's decoder is the encoder's last state. ``drop`` gives the dropout of
    every row for Bahdanau's and Luong's decoder; those of embeddings and encoder are not here.
    """
    config, weights = model.config, weights_of(model)
    embed_source = weights["model.encoder.embed_tokens.weight"]
    embed_target = weights["model.decoder.embed_tokens.weight"]
    encoder = below(weights, "model.encoder.rnn.")
    decoder = below(weights, "model.decoder.wiring.")
    look = Attention(below(decoder, "attention."), config.score, config.window, config.window_size)
    encoder_shape = (config.cell, config.encoder_hidden_size, config.encoder_layers)
    shape = (config.cell, config.decoder_hidden_size, config.decoder_layers)
    logits = []
    alignments = None
    if config.score != "none":
        alignments = torch.zeros(*decoder_input_ids.shape, input_ids.shape[1], dtype=torch.float64)
    for row in range(len(input_ids)):
        places = [j for j in range(input_ids.shape[1]) if mask[row, j]]
        tokens = [embed_source[input_ids[row, j]] for j in places]
        source = encode_sentence(encoder, *encoder_shape, tokens, directions_of(config))
        words = [embed_target[i] for i in decoder_input_ids[row]]
        if config.wiring == "cho":
            steps = cho_decode(decoder, *shape, words, source)
        elif config.wiring == "sutskever":
            steps = sutskever_decode(decoder, *shape, words, source)
        elif config.wiring == "bahdanau":
            fixed = source.finals[-1].hidden if fix_context else None
            steps = bahdanau_decode(decoder, look, *shape, words, source, config.encoder_hidden_size, fixed, drop(row))
        else:
            assert config.wiring == "luong"
            steps = luong_decode(decoder, look, *shape, words, source, config.input_feeding, drop(row))
        of_row = [weights["lm_head.weight"] @ step.readout for step in steps]
        if config.copy:
            ids = [int(input_ids[row, j]) for j in places]
            pairs = zip(of_row, steps, strict=True)
            of_row = [copying.mixture(scores, step.p_gen, step.alignment, ids) for scores, step in pairs]
        logits.append(torch.stack(of_row))
        if alignments is not None:
            for step, of_step in enumerate(steps):
                for place, weight in zip(places, of_step.alignment, strict=True):
                    alignments[row, step, place] = weight
    return Translation(torch.stack(logits), alignments)


def own_words(model: nn.Module, input_ids: Tensor, mask: Tensor, length: int) -> Tensor:
    """The decoder's input without given words: the start token, then its own best word at every step.

    Bengio et al., 2015, section 2.4, with a probability of the true word of 0.
    """
    read = torch.full((len(input_ids), 1), model.config.decoder_start_token_id)
    while read.shape[1] < length:
        best = translate(model, input_ids, mask, read).logits[:, -1].argmax(dim=-1)
        read = torch.cat([read, best.unsqueeze(1)], dim=1)
    return read


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-log p(y | x) per word, p = softmax(logits), averaged over the words of the whole batch; -100 is not a word."""
    losses = []
    for row in range(len(labels)):
        for step in range(labels.shape[1]):
            if labels[row, step] != -100:
                scores = logits[row, step]
                losses.append(torch.log(torch.exp(scores).sum()) - scores[labels[row, step]])
    return sum(losses) / len(losses)
