// The page: it reads what is typed, asks the worker, and draws what comes back.
"use strict";

const byId = (id) => document.getElementById(id);
const models = JSON.parse(byId("models").textContent);
// The name of a language from its code, after which there may be a dialect: "por bz". Browsers lack some names.
const names = new Intl.DisplayNames("en", { type: "language" });
function named(language) {
  const code = language.slice(0, 3), name = code === "hbs" ? "Serbo-Croatian" : names.of(code);
  return /^\p{Lu}/u.test(name) ? `${name} (${language})` : language;
}
// Every accent or language of every model: {label, model, prefixes}, by the script of a word a token of the source. For
// accents the script is empty, which is any; without accents the token is, too.
const voices = models.flatMap((model, number) => {
  const labelled = model.voices.map((voice) => ({ ...voice, label: voice.label ?? named(voice.language), model: number }));
  return model.voices[0].language ? labelled.sort((a, b) => a.label.localeCompare(b.label, "en")) : labelled;
});
const code = new Blob([byId("worker").textContent], { type: "text/javascript" });
const worker = new Worker(URL.createObjectURL(code));
const loaded = new Map(); // for each model a promise
const waiting = new Map(); // by kind and number, what to do with an answer
const MAX_LETTERS = 64;
let number = 0;

worker.onmessage = ({ data }) => {
  if (data.kind === "failed") return fail(data.message);
  const key = `${data.kind} ${data.model ?? data.number}`;
  waiting.get(key)?.(data);
  waiting.delete(key);
};
worker.onerror = (event) => fail(event.message);
const answer = (kind, which) => new Promise((resolve) => waiting.set(`${kind} ${which}`, resolve));

function load(model) {
  if (!loaded.has(model)) {
    loaded.set(model, answer("loaded", model));
    const { details } = models[model], base64 = byId(`weights-${model}`).textContent;
    worker.postMessage({ kind: "load", model, details, base64 });
  }
  return loaded.get(model);
}

// The word as the model's tokenizer normalises it.
function normalised(word, steps) {
  for (const step of steps) {
    if (step.type === "Lowercase") word = word.toLowerCase();
    else if (step.type === "Strip") word = word.trim();
    else if (step.type === "Replace") {
      const pattern = step.regex === undefined ? step.string : new RegExp(step.regex, "gu");
      word = word.replaceAll(pattern, () => step.content); // a function, since "$" has a meaning in a string
    } else word = word.normalize(step.type); // NFC, NFD, NFKC or NFKD
  }
  return word;
}

// The script of a word is that of its first letter, as in attnzoo/pronunciation/languages.py.
function prefixOf(word, { prefixes }) {
  const letter = word.match(/[\p{Lu}\p{Ll}\p{Lt}\p{Lo}]/u)?.[0] ?? "";
  return prefixes[Object.keys(prefixes).find((script) => !script || new RegExp(`\\p{Script=${script}}`, "u").test(letter))];
}

// The ids of a word; and the letters that the model does not know, and whether the voice does not have its script.
function tokens(word, voice) {
  const { vocabulary, normaliser, end } = models[voice.model];
  const letters = [...normalised(word, normaliser)], token = prefixOf(word, voice);
  const unknown = [...new Set(letters.filter((letter) => !(letter in vocabulary)))];
  const prefix = token ? [vocabulary[token]] : [], isOther = token === undefined;
  const ids = [...prefix, ...letters.map((letter) => vocabulary[letter]), ...end];
  return { letters, unknown, isOther, ids, skip: prefix.length };
}

const spoken = (ids, voice) => ids.map((id) => models[voice.model].phones[id]).filter((phone) => phone !== undefined);
const written = (phones, voice) => phones.join(models[voice.model].separator);

// For a word its best pronunciation, and a promise of the n best.
async function pronounce(word, voice, count) {
  await load(voice.model);
  const read = tokens(word, voice);
  const isRefused = !read.letters.length || read.unknown.length || read.isOther || read.letters.length > MAX_LETTERS;
  if (isRefused) return { ...read, best: null };
  waiting.delete(`beams ${number}`); // the worker gives up an older search
  const mine = ++number;
  const greedy = answer("greedy", mine), beams = count ? answer("beams", mine) : null;
  worker.postMessage({ kind: "pronounce", model: voice.model, number: mine, ids: read.ids, count });
  const { best, milliseconds } = await greedy;
  return { ...read, best, milliseconds, beams, number: mine };
}

function fail(message) {
  byId("message").textContent = `This page does not work here: ${message}`;
}

// The colours of weights from 0 to 1, as in the other pages and pictures of attnzoo: interpolated between those of the style.
const colours = JSON.parse(byId("colours").textContent);
const wantsDark = window.matchMedia("(prefers-color-scheme: dark)");
const scale = () => colours[wantsDark.matches ? "dark" : "light"];
function colour(weight) {
  const rgb = scale().map((one) => [1, 3, 5].map((place) => parseInt(one.slice(place, place + 2), 16)));
  const place = Math.min(1, Math.max(0, weight)) * (rgb.length - 1), left = Math.min(Math.floor(place), rgb.length - 2);
  return `rgb(${rgb[left].map((low, k) => Math.round(low + (place - left) * (rgb[left + 1][k] - low))).join(", ")})`;
}

const element = (tag, text = "", attributes = {}) => {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

// One row for each sound; the columns are the letters, and the darker a cell, the more the sound was read from it.
function drawAlignment({ letters, best, skip }, voice) {
  byId("alignment-part").hidden = !best.weights[0]; // a model without attention has no weights
  if (!best.weights[0]) return;
  const table = byId("alignment"), { phones } = models[voice.model];
  const sounds = best.tokens.map((id, n) => [phones[id], best.weights[n]]).filter(([phone]) => phone !== undefined);
  const head = element("tr");
  head.append(element("td"), ...letters.map((letter) => element("th", letter, { scope: "col" })));
  const rows = sounds.map(([phone, weights]) => {
    const row = element("tr");
    row.append(element("th", phone, { scope: "row" }));
    letters.forEach((letter, place) => {
      const percent = Math.round(100 * weights[place + skip]);
      const cell = element("td", "", { title: `${phone} from ${letter}: ${percent} %` });
      cell.style.background = colour(weights[place + skip]);
      cell.append(element("span", percent ? `${percent} %` : "", { class: "spoken" }));
      row.append(cell);
    });
    return row;
  });
  byId("legend").style.background = `linear-gradient(to right, ${scale().join(", ")})`;
  table.querySelector("thead").replaceChildren(head);
  table.querySelector("tbody").replaceChildren(...rows);
}

function drawList(list, voice) {
  const seen = new Map(); // other tokens may be written alike
  for (const { tokens: ids, confidence } of list) {
    const phones = written(spoken(ids, voice), voice);
    if (phones) seen.set(phones, (seen.get(phones) ?? 0) + confidence);
  }
  byId("list").replaceChildren(
    ...[...seen].map(([phones, confidence]) => {
      const item = element("li"), percent = `${(100 * confidence).toFixed(confidence < 0.1 ? 1 : 0)} %`;
      item.append(element("span", phones, { class: "phones" }), element("span", percent, { class: "percent" }));
      item.style.setProperty("--share", confidence.toFixed(4));
      return item;
    }),
  );
}

// Why a word is not pronounced, a sentence each.
function reasons({ letters, unknown, isOther }, voice) {
  const signs = unknown.filter((letter) => letter.trim());
  return [
    unknown.length > signs.length && "Type one word, without spaces.",
    signs.length && `This model does not know ${signs.join(" ")}.`,
    letters.length && isOther && !signs.length && `This language is read in another script: ${Object.keys(voice.prefixes).join(", ")}.`,
    letters.length > MAX_LETTERS && `A word has at most ${MAX_LETTERS} letters.`,
  ].filter(Boolean);
}

let asked = 0;
async function update() {
  const mine = ++asked, word = byId("word").value.trim(), voice = voices[byId("voice").value];
  const link = `#${new URLSearchParams({ word, voice: voice.label })}`;
  byId("permalink").href = link;
  const result = await pronounce(word, voice, 5);
  if (mine !== asked) return;
  const has = Boolean(result.best);
  byId("result").hidden = !has;
  byId("message").textContent = has ? "" : reasons(result, voice).join("\n");
  if (!has) return byId("phones").replaceChildren();
  const phones = spoken(result.best.tokens, voice);
  byId("phones").textContent = written(phones, voice);
  drawAlignment(result, voice);
  byId("list").replaceChildren();
  byId("time").textContent = `${result.milliseconds.toFixed(1)} ms`;
  const { list, milliseconds } = await result.beams;
  if (mine !== asked) return;
  drawList(list, voice);
  byId("time").textContent = `${result.milliseconds.toFixed(1)} ms, the list after ${milliseconds.toFixed(0)} ms`;
}

function readLink() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has("word")) byId("word").value = given.get("word");
  const found = voices.findIndex((voice) => voice.label === given.get("voice"));
  const readable = voices.findIndex((voice) => prefixOf(byId("word").value, voice) !== undefined);
  byId("voice").value = Math.max(0, found < 0 ? readable : found);
  return update();
}

byId("voice").append(...voices.map((voice, n) => element("option", voice.label, { value: n })));
byId("voices").hidden = voices.length < 2;
byId("word").addEventListener("input", update);
byId("voice").addEventListener("change", update);
window.addEventListener("hashchange", readLink);
wantsDark.addEventListener("change", update);
window.ready = readLink().then(() => "ready", (error) => (fail(error.message), `failed: ${error.stack}`));
