// The worker of the page: it unpacks models and pronounces, so that the page never waits for it.
"use strict";

const models = new Map();
let latest = 0; // the number of the last word that was asked for

async function unpacked(base64) {
  const packed = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const pause = () => new Promise((resolve) => setTimeout(resolve)); // so that a newer word can arrive

const handlers = {
  async load({ model, details, base64 }) {
    const begun = performance.now();
    models.set(model, new Model(details, await unpacked(base64)));
    postMessage({ kind: "loaded", model, milliseconds: performance.now() - begun });
  },
  async pronounce({ model, number, ids, count }) {
    latest = number;
    const begun = performance.now(), network = models.get(model), read = network.read(ids);
    const best = network.greedy(read);
    postMessage({ kind: "greedy", number, best, milliseconds: performance.now() - begun });
    if (!count) return;
    await pause();
    const search = network.beams(read, count);
    let state = search.next(), since = performance.now();
    for (; !state.done; state = search.next()) {
      if (performance.now() - since > 10) {
        await pause();
        since = performance.now();
      }
      if (latest !== number) return;
    }
    const found = state.value, rivals = Math.exp(-network.bias);
    const weights = found.map((one) => Math.exp((one.score - found[0].score) / network.temperature));
    const total = weights.reduce((a, b) => a + b, 0);
    const confidences = weights.map((weight) => weight / (weight + rivals * (total - weight)));
    const list = found.map((one, n) => ({ ...one, confidence: confidences[n] }));
    postMessage({ kind: "beams", number, list, milliseconds: performance.now() - begun });
  },
};

onmessage = ({ data }) =>
  handlers[data.kind](data).catch((error) => postMessage({ kind: "failed", message: String(error.stack || error) }));
