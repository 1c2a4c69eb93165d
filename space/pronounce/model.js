// The attentional RNN in plain JavaScript: the equations of recurrent_cells.py, recurrent_encoder.py,
// recurrent_decoder.py and attention.py, for one source without padding. Tensors have the names of the model's weights.
"use strict";

class Model {
  // details: {config, maxTokens, temperature, bias, tensors: [[name, rows, columns, isInt8], ...]}; bytes: their numbers
  constructor(details, bytes) {
    this.config = details.config;
    this.maxTokens = details.maxTokens;
    this.temperature = details.temperature;
    this.bias = details.bias;
    this.weights = {};
    let at = 0;
    for (const [name, rows, columns, isInt8] of details.tensors) {
      const values = new Float32Array(rows * columns);
      if (isInt8) {
        const scales = new Float32Array(bytes.slice(at, at + 4 * rows).buffer);
        const whole = new Int8Array(bytes.buffer, bytes.byteOffset + at + 4 * rows, rows * columns);
        for (let r = 0, n = 0; r < rows; r++) for (let c = 0; c < columns; c++, n++) values[n] = whole[n] * scales[r];
        at += 4 * rows + rows * columns;
      } else {
        values.set(new Float32Array(bytes.slice(at, at + 4 * rows * columns).buffer));
        at += 4 * rows * columns;
      }
      this.weights[name] = { values, rows, columns };
    }
    this.wiring = "model.decoder.wiring.";
    this.tables = new Map(); // of what embeddings add to the gates of a layer
    const { bidirectional, reverse_source: isReversed } = this.config;
    this.directions = bidirectional ? ["forward", "backward"] : [isReversed ? "backward" : "forward"];
  }

  // y += W x, with the columns of W from a place on. Four rows at a time: their sums do not wait for each other.
  product(name, x, y, from = 0) {
    const { values, rows, columns } = this.weights[name], size = x.length, even = size - (size % 2), whole = rows - (rows % 4);
    for (let r = 0; r < whole; r += 4) {
      const p = r * columns + from, q = p + columns, s = q + columns, t = s + columns;
      let a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
      for (let k = 0; k < even; k += 2) {
        const v = x[k], w = x[k + 1];
        a += values[p + k] * v;
        b += values[q + k] * v;
        c += values[s + k] * v;
        d += values[t + k] * v;
        e += values[p + k + 1] * w;
        f += values[q + k + 1] * w;
        g += values[s + k + 1] * w;
        h += values[t + k + 1] * w;
      }
      if (even < size) {
        const v = x[even];
        a += values[p + even] * v;
        b += values[q + even] * v;
        c += values[s + even] * v;
        d += values[t + even] * v;
      }
      y[r] += a + e;
      y[r + 1] += b + f;
      y[r + 2] += c + g;
      y[r + 3] += d + h;
    }
    for (let r = whole; r < rows; r++) y[r] += dot(values.subarray(r * columns + from, r * columns + from + size), x);
    return y;
  }

  linear(name, ...parts) {
    const bias = this.weights[name + ".bias"];
    const y = bias ? bias.values.slice() : new Float32Array(this.weights[name + ".weight"].rows);
    let from = 0;
    for (const part of parts) {
      this.product(name + ".weight", part, y, from);
      from += part.length;
    }
    return y;
  }

  row(name, number) {
    const { values, columns } = this.weights[name];
    return values.subarray(number * columns, (number + 1) * columns);
  }

  // What the inputs add to the gates of a layer, its biases included. An embedding's part is computed once.
  inputGates(layer, embedding, token, others) {
    const names = this.config.cell === "cho_gru" ? ["weight_input", "bias"] : ["weight_ih_l0", "bias_ih_l0", "bias_hh_l0"];
    const weight = layer + names[0];
    let gates, from = 0;
    const key = layer + token;
    if (token !== null && this.tables.has(key)) gates = this.tables.get(key).slice();
    else {
      gates = this.weights[layer + names[1]].values.slice();
      if (names[2] && this.config.cell !== "gru") add(gates, this.weights[layer + names[2]].values);
      if (token !== null) {
        this.product(weight, this.row(embedding, token), gates);
        this.tables.set(key, gates.slice());
      }
    }
    if (token !== null) from = this.weights[embedding].columns;
    for (const part of others) {
      this.product(weight, part, gates, from);
      from += part.length;
    }
    return gates;
  }

  // One step of a cell: the next {h, c} of a layer.
  cell(layer, gates, { h, c }) {
    const size = h.length, next = new Float32Array(size);
    if (this.config.cell === "lstm") { // i f g o
      this.product(layer + "weight_hh_l0", h, gates);
      const cell = new Float32Array(size);
      for (let n = 0; n < size; n++) {
        cell[n] = sigmoid(gates[size + n]) * c[n] + sigmoid(gates[n]) * Math.tanh(gates[2 * size + n]);
        next[n] = sigmoid(gates[3 * size + n]) * Math.tanh(cell[n]);
      }
      return { h: next, c: cell };
    }
    if (this.config.cell === "rnn") {
      this.product(layer + "weight_hh_l0", h, gates);
      return { h: gates.map(Math.tanh), c: null };
    }
    if (this.config.cell === "gru") { // r z n, the reset gate after U
      const hidden = this.product(layer + "weight_hh_l0", h, this.weights[layer + "bias_hh_l0"].values.slice());
      for (let n = 0; n < size; n++) {
        const reset = sigmoid(gates[n] + hidden[n]), update = sigmoid(gates[size + n] + hidden[size + n]);
        const candidate = Math.tanh(gates[2 * size + n] + reset * hidden[2 * size + n]);
        next[n] = (1 - update) * candidate + update * h[n];
      }
      return { h: next, c: null };
    }
    const hidden = this.product(layer + "weight_hidden", h, new Float32Array(3 * size)); // z r and the candidate
    const kept = h.map((value, n) => sigmoid(gates[size + n] + hidden[size + n]) * value); // the reset gate before U
    const candidate = this.product(layer + "weight_hidden", kept, new Float32Array(3 * size));
    for (let n = 0; n < size; n++) {
      const update = sigmoid(gates[n] + hidden[n]);
      next[n] = (1 - update) * h[n] + update * Math.tanh(gates[2 * size + n] + candidate[2 * size + n]);
    }
    return { h: next, c: null };
  }

  // What every step reads of a source, and the state before the first one.
  read(ids) {
    let values = null;
    const last = []; // of every layer, {h, c} of its directions side by side
    for (let layer = 0; layer < this.config.encoder_layers; layer++) {
      const outputs = [], states = [];
      for (const direction of this.directions) {
        const name = `model.encoder.rnn.layers.${layer}.${direction}_rnn.`, size = this.config.encoder_hidden_size;
        let state = { h: new Float32Array(size), c: new Float32Array(size) };
        const places = ids.map((_, n) => (direction === "forward" ? n : ids.length - 1 - n)), out = [];
        for (const n of places) {
          const gates = layer
            ? this.inputGates(name, null, null, [values[n]])
            : this.inputGates(name, "model.encoder.embed_tokens.weight", ids[n], []);
          state = this.cell(name, gates, state);
          out[n] = state.h;
        }
        outputs.push(out);
        states.push(state);
      }
      values = ids.map((_, n) => joined(outputs.map((out) => out[n])));
      last.push({ h: joined(states.map((s) => s.h)), c: states[0].c && joined(states.map((s) => s.c)) });
    }
    const score = this.wiring + "attention.score.";
    const keys = score + "key_proj.weight" in this.weights ? values.map((v) => this.linear(score + "key_proj", v)) : values;
    return { source: { values, keys }, state: this.start(last) };
  }

  start(last) {
    const { wiring, decoder_layers: layers, decoder_hidden_size: size } = this.config, name = this.wiring;
    const split = (whole) => Array.from({ length: layers }, (_, n) => whole.slice(n * size, (n + 1) * size));
    const zeros = () => new Float32Array(size);
    if (wiring === "luong" || wiring === "sutskever") {
      let states = last;
      if (name + "bridge.hidden_proj.weight" in this.weights) {
        const hidden = split(this.linear(name + "bridge.hidden_proj", joined(last.map((s) => s.h))).map(Math.tanh));
        const hasCell = name + "bridge.cell_proj.weight" in this.weights;
        const cells = hasCell ? split(this.linear(name + "bridge.cell_proj", joined(last.map((s) => s.c)))) : [];
        states = hidden.map((h, n) => ({ h, c: hasCell ? cells[n] : null }));
      }
      return { layers: states, feed: this.config.input_feeding ? new Float32Array(this.config.readout_size) : null, number: 0 };
    }
    let top = last[last.length - 1].h, feed = null;
    if (wiring === "cho") top = feed = this.linear(name + "context_proj", top).map(Math.tanh);
    else top = top.slice(top.length - this.weights[name + "initial_proj.weight"].columns);
    const hidden = split(this.linear(name + "initial_proj", top).map(Math.tanh));
    return { layers: hidden.map((h) => ({ h, c: zeros() })), feed, number: 0 };
  }

  // Log-probabilities of the token after this one, the next state, and the weight of every source token.
  step(token, source, state) {
    const { wiring } = this.config, words = "model.decoder.embed_tokens.weight", name = this.wiring;
    const run = (others) => {
      const layers = [];
      state.layers.forEach((before, n) => {
        const layer = `${name}rnn.layers.${n}.`;
        const gates = n
          ? this.inputGates(layer, null, null, [layers[n - 1].h])
          : this.inputGates(layer, words, token, others);
        layers.push(this.cell(layer, gates, before));
      });
      return layers;
    };
    const maxout = (...parts) => {
      const pairs = this.linear(name + "readout_proj", ...parts);
      return pairs.subarray(0, pairs.length / 2).map((_, n) => Math.max(pairs[2 * n], pairs[2 * n + 1]));
    };
    let layers, readout, weights = null, feed = state.feed;
    if (wiring === "bahdanau") {
      const query = state.layers[state.layers.length - 1].h;
      const looked = this.look(query, source, state.number);
      weights = looked.weights;
      layers = run([looked.context]);
      readout = maxout(query, this.row(words, token), looked.context);
    } else {
      layers = run(feed ? [feed] : []);
      const top = layers[layers.length - 1].h;
      if (wiring === "luong") {
        const looked = this.look(top, source, state.number);
        weights = looked.weights;
        readout = this.linear(name + "output_proj", looked.context, top).map(Math.tanh);
        if (feed) feed = readout;
      } else readout = wiring === "cho" ? maxout(top, this.row(words, token), feed) : top;
    }
    const logits = this.linear("lm_head", readout), most = Math.max(...logits);
    let total = 0;
    for (const logit of logits) total += Math.exp(logit - most);
    const shift = most + Math.log(total);
    return { logProbs: logits.map((logit) => logit - shift), state: { layers, feed, number: state.number + 1 }, weights };
  }

  // Score, window, softmax, sum.
  look(query, { values, keys }, number) {
    const { score, window, window_size: width, max_source_positions: positions } = this.config, length = values.length;
    const name = this.wiring + "attention.";
    let scores;
    if (score === "additive" || score === "concat") {
      const vector = this.weights[name + "score.score_vector"].values;
      const projected = this.linear(name + "score.query_proj", query);
      scores = keys.map((key) => {
        let sum = 0;
        for (let n = 0; n < key.length; n++) sum += vector[n] * Math.tanh(projected[n] + key[n]);
        return sum;
      });
    } else if (score === "location") {
      scores = keys.map((_, s) => (s < positions ? dot(this.row(name + "score.position_key", s), query) : -Infinity));
    } else scores = keys.map((key) => dot(key, query));
    let factor = () => 1;
    if (window !== "global") {
      let aligned = Math.min(number, length - 1);
      if (window === "predictive") {
        const hidden = this.linear(name + "window.query_proj", query).map(Math.tanh);
        aligned = length * sigmoid(this.linear(name + "window.position_proj", hidden)[0]);
        factor = (s) => Math.exp(-((s - aligned) ** 2) / (2 * (width / 2) ** 2));
      }
      scores = scores.map((value, s) => (Math.abs(s - aligned) <= width ? value : -Infinity));
    }
    const most = Math.max(...scores), context = new Float32Array(values[0].length);
    let weights = scores.map((value) => (most === -Infinity ? 0 : Math.exp(value - most)));
    const total = weights.reduce((a, b) => a + b) || 1;
    weights = weights.map((weight, s) => (weight / total) * factor(s));
    weights.forEach((weight, s) => {
      if (weight) for (let n = 0; n < context.length; n++) context[n] += weight * values[s][n];
    });
    return { context, weights };
  }

  // The tokens up to the end, log p, the probability of every token, and its weights.
  greedy({ source, state }) {
    const found = { tokens: [], score: 0, certainty: [], weights: [] };
    for (let token = this.config.decoder_start_token_id; found.tokens.length < this.maxTokens; ) {
      const next = this.step(token, source, state);
      state = next.state;
      token = next.logProbs.indexOf(Math.max(...next.logProbs));
      found.score += next.logProbs[token];
      if (this.isEnd(token)) break;
      found.tokens.push(token);
      found.certainty.push(Math.exp(next.logProbs[token]));
      found.weights.push(next.weights);
    }
    return found;
  }

  // The beam search of Transformers without length penalty, as far as it has come at every step; the best come first.
  *beams({ source, state }, count) {
    let running = [{ tokens: [], score: 0, weights: [], state }], ended = [];
    for (let length = 0; length < this.maxTokens && running.length; length++) {
      const candidates = [];
      for (const beam of running) {
        const token = length ? beam.tokens[length - 1] : this.config.decoder_start_token_id;
        const next = this.step(token, source, beam.state);
        next.logProbs.forEach((value, id) => candidates.push({ score: beam.score + value, beam, id, next }));
        yield;
      }
      candidates.sort((a, b) => b.score - a.score);
      const isEnded = (one) => this.isEnd(one.id) || length + 1 === this.maxTokens;
      for (const one of candidates.slice(0, count).filter(isEnded)) {
        const tokens = this.isEnd(one.id) ? one.beam.tokens : [...one.beam.tokens, one.id];
        ended.push({ tokens, score: one.score, weights: [...one.beam.weights, one.next.weights].slice(0, tokens.length) });
      }
      ended = ended.sort((a, b) => b.score - a.score).slice(0, count);
      running = candidates.slice(0, 2 * count).filter((one) => !isEnded(one)).slice(0, count).map(({ score, beam, id, next }) => ({
        score, tokens: [...beam.tokens, id], weights: [...beam.weights, next.weights], state: next.state,
      }));
      if (ended.length === count && (!running.length || running[0].score <= ended[count - 1].score)) break;
    }
    return ended;
  }

  isEnd(token) {
    const end = this.config.eos_token_id;
    return Array.isArray(end) ? end.includes(token) : token === end;
  }
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const dot = (a, b) => {
  let sum = 0;
  for (let n = 0; n < a.length; n++) sum += a[n] * b[n];
  return sum;
};
const add = (y, x) => x.forEach((value, n) => (y[n] += value));
const joined = (parts) => {
  const whole = new Float32Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
};
