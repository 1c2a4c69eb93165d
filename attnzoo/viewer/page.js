"use strict";
// The page of attention weights. Every text reaches the document as textContent, never as markup.

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const root = document.documentElement;
const state = { view: null, map: null, layer: 0, head: 0, side: "from", token: null, stretch: false, merge: false };
let shown = null; // the weights of the chosen head, after merging: {rows, columns, values, largest}
let palette = []; // 256 colours [red, green, blue]
let inks = []; // the colours of text on them: ink and paper
let turn = 0; // counts redraws: a slow one gives way to a later one

// Elements ----------------------------------------------------------------------------------------------------------

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "className") made.className = value;
    else if (value !== null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const token = (text) => element("bdi", {}, text);
const places = (value) => (value > 0 && value < 0.005 ? "<0.01" : value.toFixed(2));

// Arrow keys move between the buttons of a group, of which one can be reached with Tab.
function moveByArrows(group, columns) {
  group.addEventListener("keydown", (event) => {
    const buttons = [...group.querySelectorAll("button")];
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns() };
    let next = buttons.indexOf(document.activeElement) + (steps[event.key] ?? 0);
    if (event.key === "Home") next = 0;
    else if (event.key === "End") next = buttons.length - 1;
    else if (!(event.key in steps)) return;
    event.preventDefault();
    if (buttons[next]) reach(group, buttons[next]).focus();
  });
}

function reach(group, button) {
  for (const other of group.querySelectorAll("button[tabindex='0']")) other.tabIndex = -1;
  button.tabIndex = 0;
  return button;
}

// Colours -----------------------------------------------------------------------------------------------------------

// 256 colours, by interpolation between those of the style.
function makePalette(colours) {
  const anchors = colours.map(rgbOf);
  return Array.from({ length: 256 }, (_, step) => {
    const place = (step / 255) * (anchors.length - 1);
    const left = Math.min(Math.floor(place), anchors.length - 2);
    return anchors[left].map((low, k) => Math.round(low + (place - left) * (anchors[left + 1][k] - low)));
  });
}

const rgbOf = (colour) => [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));

function luminance(rgb) {
  const linear = rgb.map((x) => x / 255).map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
}

function contrast(one, other) {
  const [darker, lighter] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (lighter + 0.05) / (darker + 0.05);
}

const colour = (level) => palette[Math.min(255, Math.max(0, Math.round(level)))];
const css = (rgb) => `rgb(${rgb.join(",")})`;

function textOn(level) {
  const [one, other] = inks.map((ink) => contrast(rgbOf(ink), colour(level)));
  return inks[one >= other ? 0 : 1];
}

function paint(canvas, rows, columns, levelAt) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const bytes = image.data;
  for (let i = 0; i < rows * columns; i++) {
    const [red, green, blue] = colour(levelAt(i));
    bytes[4 * i] = red;
    bytes[4 * i + 1] = green;
    bytes[4 * i + 2] = blue;
    bytes[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

// Weights -----------------------------------------------------------------------------------------------------------

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The weight that has the last colour: 1, or with the switch the largest weight of the map.
const scaleOf = (largest) => (state.stretch ? largest : 1) || 1;

// The head's weights, 8 bits as shares of its largest weight. Of words: columns added up, rows averaged.
async function weightsOf(map, layer, head) {
  const levels = await unpack(map.heads[layer][head]);
  const largest = map.largest[layer][head];
  const unmerged = { rows: map.rows, columns: map.columns, values: Float32Array.from(levels, (x) => (x * largest) / 255) };
  if (!state.merge) return { ...unmerged, largest };
  const [rows, columns] = [map.rowWordNames, map.columnWordNames];
  const values = new Float32Array(rows.length * columns.length);
  const sizes = new Float32Array(rows.length);
  for (const word of map.rowWords) sizes[word]++;
  map.rowWords.forEach((row, t) => {
    map.columnWords.forEach((column, s) => {
      values[row * columns.length + column] += unmerged.values[t * map.columns.length + s] / sizes[row];
    });
  });
  return { rows, columns, values, largest: values.reduce((a, b) => Math.max(a, b), 0) };
}

// The overview of all heads -----------------------------------------------------------------------------------------

async function drawOverview() {
  const map = state.map;
  const heads = Math.max(...map.heads.map((layer) => layer.length));
  $("overview").hidden = map.heads.length * heads === 1;
  document.querySelector("main").className = $("overview").hidden ? "single" : heads > 16 ? "wide" : "";
  if ($("overview").hidden) return;
  const [rows, columns] = map.overviewSize;
  const room = document.querySelector("main").clientWidth - 70; // next to the names of the layers
  const size = Math.max(12, Math.min(heads > 8 ? 44 : 84, room / heads - 6));
  const scale = size / Math.max(rows, columns);
  root.style.setProperty("--thumb", `${Math.max(12, columns * scale)}px`);
  root.style.setProperty("--thumb-height", `${Math.max(12, rows * scale)}px`);
  const grid = $("grid");
  grid.style.gridTemplateColumns = `auto repeat(${heads}, auto)`;
  const cells = [element("span", {}, heads > 8 ? "layer, head" : "")];
  for (let head = 0; head < heads; head++) cells.push(element("span", { className: "column" }, heads > 8 ? `${head}` : `head ${head}`));
  const canvases = [];
  map.layers.forEach((number, layer) => {
    cells.push(element("span", {}, heads > 8 ? `${number}` : `layer ${number}`));
    for (let head = 0; head < heads; head++) {
      if (head >= map.heads[layer].length) {
        cells.push(element("span"));
        continue;
      }
      const canvas = element("canvas", { "aria-hidden": "true" });
      const label = `Layer ${number}, head ${head}, largest weight ${places(map.largest[layer][head])}`;
      const button = element("button", { type: "button", tabindex: "-1", "aria-label": label, title: label }, canvas);
      button.dataset.layer = layer;
      button.dataset.head = head;
      button.addEventListener("click", () => choose(layer, head));
      cells.push(button);
      canvases.push({ canvas, layer, head });
    }
  });
  grid.replaceChildren(...cells);
  markChosen();
  const all = map.overview && (await unpack(map.overview));
  if (map !== state.map) return;
  let start = 0;
  for (const { canvas, layer, head } of canvases) {
    const levels = all ? all.subarray(start, (start += rows * columns)) : await unpack(map.heads[layer][head]);
    const share = map.largest[layer][head] / scaleOf(map.largest[layer][head]);
    paint(canvas, rows, columns, (i) => levels[i] * share);
  }
  grid.dataset.drawn = map.kind;
}

const isOne = (map) => map.heads.length === 1 && map.heads[0].length === 1;

function markChosen() {
  for (const button of $("grid").querySelectorAll("button")) {
    const isChosen = Number(button.dataset.layer) === state.layer && Number(button.dataset.head) === state.head;
    button.setAttribute("aria-pressed", isChosen);
    if (isChosen) reach($("grid"), button);
  }
}

// The chosen head ---------------------------------------------------------------------------------------------------

async function drawHead() {
  const mine = ++turn;
  const { map, layer, head } = state;
  const found = await weightsOf(map, layer, head);
  if (mine !== turn) return;
  shown = { ...found, scale: scaleOf(found.largest) };
  state.token = null;
  const isHops = map.kind === "hops";
  $("detail-title").textContent = isHops
    ? `${map.rows.length} hops`
    : isOne(map) ? map.name : `${map.name}: layer ${map.layers[layer]}, head ${head}`;
  $("largest").textContent = places(shown.scale);
  paint($("legend"), 1, 256, (i) => i);
  $("lines").hidden = isHops;
  $("sentence").replaceChildren();
  if (isHops) drawSentence();
  else drawTokens();
  drawMatrix();
  $("table").replaceChildren();
  if ($("numbers").open) drawTable();
  read(null);
  $("detail").dataset.drawn = `${map.kind} ${map.layers[layer]} ${head}`;
}

const at = (row, column) => shown.values[row * shown.columns.length + column];
const level = (weight) => (255 * weight) / shown.scale;
const rowOf = (row) => Array.from(shown.columns, (_, column) => at(row, column));
const columnOf = (column) => Array.from(shown.rows, (_, row) => at(row, column));

function drawTokens() {
  const titles = { cross: ["target", "source"], encoder: ["attends", "is attended to"] };
  const [from, to] = titles[state.map.kind] ?? titles.encoder;
  $("from-title").textContent = from;
  $("to-title").textContent = to;
  for (const [side, texts] of [["from", shown.rows], ["to", shown.columns]]) {
    const items = texts.map((text, place) => {
      const number = element("output");
      const label = token(text);
      const button = element("button", { type: "button", tabindex: place ? "-1" : "0" });
      button.append(...(side === "from" ? [number, label] : [label, number]));
      button.addEventListener("pointerenter", () => read(side, place));
      button.addEventListener("focus", () => read(side, place));
      return element("li", {}, button);
    });
    $(`${side}-tokens`).replaceChildren(...items);
  }
  drawThreads();
}

const STEP = 22; // pixels of a token in the lists
const MOST_LINES = 3000; // of a long text, the strongest; a token that is pointed at has all of its own

function drawThreads() {
  const canvas = $("threads");
  const [rows, columns] = [shown.rows.length, shown.columns.length];
  const [width, height] = [canvas.clientWidth, STEP * Math.max(rows, columns)];
  const sharpness = height > 8000 ? 1 : window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [width * sharpness, height * sharpness];
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(sharpness, sharpness);
  context.strokeStyle = getComputedStyle(root).getPropertyValue("--accent");
  let lines = [];
  for (let row = 0; row < rows; row++) {
    if (state.side === "from" && state.token !== null && state.token !== row) continue;
    for (let column = 0; column < columns; column++) {
      if (state.side === "to" && state.token !== null && state.token !== column) continue;
      const share = Math.min(1, at(row, column) / shown.scale);
      if (share >= 0.03) lines.push([share, STEP * (row + 0.5), STEP * (column + 0.5)]);
    }
  }
  if (lines.length > MOST_LINES) lines = lines.sort((a, b) => b[0] - a[0]).slice(0, MOST_LINES);
  for (const [share, top, bottom] of lines) {
    context.globalAlpha = share;
    context.lineWidth = 0.6 + 2.2 * share;
    context.beginPath();
    context.moveTo(0, top);
    context.bezierCurveTo(width / 2, top, width / 2, bottom, width, bottom);
    context.stroke();
  }
}

const LABEL = 13; // pixels of a label's letters, where they have room
const HIGHEST = 40; // pixels of a cell

// The map is as wide as its place.
function drawMatrix() {
  const [rows, columns] = [shown.rows.length, shown.columns.length];
  const longest = (texts) => Math.min(26, Math.max(...texts.map((text) => [...text].length)));
  const left = Math.ceil(longest(shown.rows) * LABEL * 0.68) + 8;
  const across = Math.ceil(longest(shown.columns) * LABEL * 0.68) + 6; // pixels of a column's label
  const room = $("matrix").clientWidth - left - 2;
  const isUpright = across > room / columns;
  const above = isUpright ? Math.ceil(across * 0.84) + 8 : LABEL + 8;
  const wide = (isUpright ? room - Math.ceil(above * 0.75) : room) / columns;
  const width = Math.max(1, wide < 9 ? ($("matrix").clientWidth - 2) / columns : wide);
  const height = Math.max(1, Math.min(HIGHEST, width, 720 / rows));
  const isLabelled = Math.min(width, height) >= 9;
  const [top, start] = isLabelled ? [above, left] : [0, 0];
  const size = Math.min(LABEL, width, height);
  paint($("map"), rows, columns, (i) => level(shown.values[i]));
  Object.assign($("map").style, { width: `${width * columns}px`, height: `${height * rows}px` });
  $("map").setAttribute("aria-label", `Weights of ${rows} rows and ${columns} columns; the table below has the numbers`);
  const box = $("matrix-box");
  for (const label of box.querySelectorAll("span")) label.remove();
  box.style.setProperty("--left", `${start}px`);
  box.style.setProperty("--top", `${top}px`);
  box.style.setProperty("--label", `${size}px`);
  box.style.padding = `${top}px ${isLabelled && isUpright ? Math.ceil(top * 0.75) : 0}px 0 ${start}px`;
  if (!isLabelled) return;
  shown.rows.forEach((text, row) => {
    const label = element("span", { className: "row", dir: "auto", "aria-hidden": "true" }, text);
    label.style.top = `${top + height * row + (height - size) / 2}px`;
    box.append(label);
  });
  shown.columns.forEach((text, column) => {
    const label = element("span", { className: isUpright ? "column upright" : "column", dir: "auto", "aria-hidden": "true" }, text);
    label.style.left = `${start + width * (column + 0.5) + (isUpright ? size / 3 : 0)}px`;
    box.append(label);
  });
}

// Lin's hops: all together, their sum over its total, and each of them, over the sentence.
function drawSentence() {
  const sums = shown.columns.map((_, column) => columnOf(column).reduce((a, b) => a + b, 0));
  const total = sums.reduce((a, b) => a + b, 0) || 1;
  const lines = [["all hops", sums.map((x) => x / total)], ...shown.rows.map((name, row) => [name, rowOf(row)])];
  const made = lines.map(([name, weights]) => {
    const tokens = weights.map((weight, place) => {
      const word = token(shown.columns[place]);
      const height = Math.min(255, level(weight));
      word.style.background = css(colour(height));
      word.style.color = textOn(height);
      word.title = places(weight);
      return word;
    });
    return element("p", {}, element("span", {}, name), element("span", {}, ...tokens));
  });
  $("sentence").replaceChildren(...made);
}

function drawTable() {
  const most = 128;
  const [rows, columns] = [shown.rows.slice(0, most), shown.columns.slice(0, most)];
  const head = element("tr", {}, element("td"), ...columns.map((text) => element("th", { scope: "col" }, token(text))));
  const body = rows.map((text, row) =>
    element("tr", {}, element("th", { scope: "row" }, token(text)), ...columns.map((_, c) => element("td", {}, places(at(row, c))))),
  );
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
  const isCut = shown.rows.length > most || shown.columns.length > most;
  $("table").replaceChildren(...(isCut ? [element("p", {}, `The first ${most} rows and columns.`)] : []), table);
}

// A token: its lines, its numbers, and a sentence for a screen reader -------------------------------------------------

function read(side, place, column = null) {
  if (side !== null && side === state.side && place === state.token && column === null) return;
  state.side = side ?? "from";
  state.token = side === null ? null : place;
  const weights = side === null ? null : side === "from" ? rowOf(place) : columnOf(place);
  for (const one of ["from", "to"]) {
    const buttons = $(`${one}-tokens`).querySelectorAll("button");
    buttons.forEach((button, i) => {
      const isOther = weights !== null && one !== side;
      button.classList.toggle("current", one === side && i === place);
      button.style.background = isOther ? css(colour(level(weights[i]))) : "";
      button.style.color = isOther ? textOn(level(weights[i])) : "";
      const number = button.querySelector("output");
      number.textContent = isOther ? places(weights[i]) : "";
      number.style.color = isOther ? textOn(level(weights[i])) : "";
    });
  }
  const box = $("matrix-box");
  box.querySelectorAll(".row").forEach((label, i) => label.classList.toggle("current", side === "from" && i === place));
  box.querySelectorAll(".column").forEach((label, i) => label.classList.toggle("current", i === column || (side === "to" && i === place)));
  $("sentence").querySelectorAll("p").forEach((line, i) => line.classList.toggle("current", side === "from" && i === place + 1));
  if (!$("lines").hidden) drawThreads();
  const say = $("reading");
  if (weights === null) {
    say.textContent = "Move over a token, or reach it with Tab and the arrow keys, to read its weights.";
    return;
  }
  const [own, others] = side === "from" ? [shown.rows, shown.columns] : [shown.columns, shown.rows];
  const best = weights.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, 5).filter(([weight], n) => n === 0 || weight >= 0.005);
  if (column !== null) best.unshift([weights[column], column]);
  const parts = best.flatMap(([weight, i], n) => [
    n ? ", " : "", element("b", {}, token(others[i])), ` ${places(weight)}`, column !== null && n === 0 ? "; most" : "",
  ]);
  say.replaceChildren(element("b", {}, token(own[place])), side === "from" ? " attends to " : " is attended to by ", ...parts);
}

function cellAt(event) {
  const box = $("map").getBoundingClientRect();
  const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  const inside = (share, count) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));
  return [inside(y, shown.rows.length), inside(x, shown.columns.length)];
}

// Controls ----------------------------------------------------------------------------------------------------------

function choose(layer, head) {
  state.layer = layer;
  state.head = Math.min(head, state.map.heads[layer].length - 1);
  fillHeads();
  $("layer").value = layer;
  $("head").value = state.head;
  markChosen();
  return drawHead();
}

function fillHeads() {
  const heads = state.map.heads[state.layer].map((_, head) => element("option", { value: head }, String(head)));
  $("head").replaceChildren(...heads);
}

function chooseMap(map) {
  state.map = map;
  [state.layer, state.head] = map.best;
  const isHops = map.kind === "hops";
  $("layer").replaceChildren(...map.layers.map((number, i) => element("option", { value: i }, String(number))));
  $("layer").parentElement.hidden = map.layers.length === 1;
  $("head").parentElement.hidden = map.heads.every((layer) => layer.length === 1);
  $("merging").hidden = map.rows.length === new Set(map.rowWords).size && map.columns.length === new Set(map.columnWords).size;
  const [layer, head] = map.best;
  const opened = `Layers and heads are counted from 0. Opened at layer ${map.layers[layer]}, head ${head}, which points most ` +
    `clearly (${places(map.clarity)}): for every ${map.kind === "cross" ? "source token" : "token"}, take the largest weight ` +
    "that another token gives it; this is their mean. Special tokens do not count.";
  $("caption").textContent = isOne(map) ? map.caption : `${map.caption} ${opened}`;
  $("stretch-text").textContent = isHops || isOne(map) ? "colours up to the largest weight" : "colours up to the largest weight of each head";
  return Promise.all([drawOverview(), choose(...map.best)]);
}

// One of the texts of the page: what the model predicts for it, and its kinds of attention.
function chooseView(view) {
  state.view = view;
  $("title").textContent = view.title;
  $("model").textContent = `${view.model}, attention weights`;
  $("predictions").replaceChildren(
    ...view.predictions.map(([what, text]) => element("div", {}, element("dt", {}, what), element("dd", { dir: "auto" }, text))),
  );
  const radios = view.maps.map((map, i) => {
    const radio = element("input", { type: "radio", name: "kind", value: map.kind });
    radio.checked = i === 0;
    radio.addEventListener("change", () => chooseMap(map));
    return element("label", {}, radio, ` ${map.name}`);
  });
  $("kinds").replaceChildren($("kinds").querySelector("legend"), ...radios);
  $("kinds").hidden = view.maps.length === 1;
  return chooseMap(view.maps[0]);
}

function setTheme(isDark) {
  root.classList.toggle("dark", isDark);
  $("theme").textContent = isDark ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", isDark ? "Light colours" : "Dark colours");
  palette = makePalette(data.colours[isDark ? "dark" : "light"]);
  inks = data.ink[isDark ? "dark" : "light"];
}

const redraw = () => Promise.all([drawOverview(), drawHead()]);

function start() {
  const names = data.views.map((view, i) => element("option", { value: i }, [view.predictions[0]?.[1], view.title].filter(Boolean).join(": ")));
  $("text").replaceChildren(...names);
  $("text").parentElement.hidden = names.length === 1;
  $("text").addEventListener("change", () => chooseView(data.views[$("text").value]));
  $("layer").addEventListener("change", () => choose(Number($("layer").value), state.head));
  $("head").addEventListener("change", () => choose(state.layer, Number($("head").value)));
  $("stretch").addEventListener("change", () => { state.stretch = $("stretch").checked; redraw(); });
  $("merge").addEventListener("change", () => { state.merge = $("merge").checked; drawHead(); });
  $("theme").addEventListener("click", () => { setTheme(!root.classList.contains("dark")); redraw(); });
  $("controls").addEventListener("submit", (event) => event.preventDefault());
  $("numbers").addEventListener("toggle", () => { if ($("numbers").open) drawTable(); });
  $("map").addEventListener("pointermove", (event) => { const [row, column] = cellAt(event); read("from", row, column); });
  $("lines").addEventListener("pointerleave", () => read(null));
  $("map").addEventListener("pointerleave", () => read(null));
  moveByArrows($("grid"), () => Math.max(...state.map.heads.map((layer) => layer.length)));
  moveByArrows($("from-tokens"), () => 1);
  moveByArrows($("to-tokens"), () => 1);
  const wantsDark = window.matchMedia("(prefers-color-scheme: dark)");
  wantsDark.addEventListener("change", () => { setTheme(wantsDark.matches); redraw(); });
  let wasDark = false;
  window.addEventListener("beforeprint", () => { wasDark = root.classList.contains("dark"); if (wasDark) { setTheme(false); redraw(); } });
  window.addEventListener("afterprint", () => { if (wasDark) { setTheme(true); redraw(); } });
  setTheme(wantsDark.matches);
  window.addEventListener("resize", () => { if (shown) { drawMatrix(); if (!$("lines").hidden) drawThreads(); } });
  return chooseView(data.views[0]);
}

start().then(
  () => { root.dataset.state = "ready"; },
  (error) => { $("reading").textContent = `The page could not be drawn: ${error.message}`; root.dataset.state = "failed"; },
);
