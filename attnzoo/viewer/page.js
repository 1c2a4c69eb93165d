"use strict";
// The page of attention weights. Every text reaches the document as textContent, never as markup.

const $ = (id) => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const root = document.documentElement;
const state = { map: data.maps[0], layer: 0, head: 0, side: "from", token: null, common: false, merge: false };
let shown = null; // the weights of the chosen head, after merging: {rows, columns, values, largest}
let palette = []; // 256 colours [red, green, blue]
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

// A path through OKLab (Ottosson, 2020) from the paper to the ink, in 256 steps of equal length: perceptually uniform.
function makePalette(isDark) {
  const path = [];
  let length = 0;
  for (let i = 0; i <= 2048; i++) {
    const t = i / 2048;
    const lightness = isDark ? 0.2 + 0.75 * t : 0.995 - 0.73 * t;
    const hue = ((isDark ? 300 + 150 * t : 85 - 150 * t) * Math.PI) / 180;
    const chroma = isDark ? 0.02 + 0.15 * Math.sin(Math.PI * (0.06 + 0.86 * t)) : 0.17 * Math.sin(Math.PI * 0.8 * t);
    const rgb = fromOklab(lightness, chroma * Math.cos(hue), chroma * Math.sin(hue));
    const lab = toOklab(rgb);
    if (i) length += Math.hypot(...lab.map((x, k) => x - path[i - 1].lab[k]));
    path.push({ rgb, lab, length });
  }
  let at = 0;
  return Array.from({ length: 256 }, (_, step) => {
    while (at < 2048 && path[at].length < (length * step) / 255) at++;
    return path[at].rgb.map((x) => Math.round(255 * x));
  });
}

function fromOklab(L, a, b) {
  const [l, m, s] = [
    L + 0.3963377774 * a + 0.2158037573 * b,
    L - 0.1055613458 * a - 0.0638541728 * b,
    L - 0.0894841775 * a - 1.291485548 * b,
  ].map((x) => x ** 3);
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((x) => {
    const inside = Math.min(1, Math.max(0, x));
    return inside <= 0.0031308 ? 12.92 * inside : 1.055 * inside ** (1 / 2.4) - 0.055;
  });
}

function toOklab(rgb) {
  const [r, g, b] = rgb.map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
  const [l, m, s] = [
    0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b,
    0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b,
    0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b,
  ].map(Math.cbrt);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

const colour = (level) => palette[Math.min(255, Math.max(0, Math.round(level)))];
const css = (rgb) => `rgb(${rgb.join(",")})`;

function textOn(level) {
  const [red, green, blue] = colour(level);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#1d1a26" : "#ffffff";
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

const largestOfAll = (map) => Math.max(...map.largest.flat());
const scaleOf = (map, layer, head) => (state.common ? largestOfAll(map) : map.largest[layer][head]) || 1;

// The head's weights, 8 bits as shares of its largest weight. Of words: columns added up, rows averaged.
async function weightsOf(map, layer, head) {
  const levels = await unpack(map.heads[layer][head]);
  const largest = map.largest[layer][head];
  const unmerged = { rows: map.rows, columns: map.columns, values: Float32Array.from(levels, (x) => (x * largest) / 255) };
  if (!state.merge) return { ...unmerged, largest };
  const [rows, columns] = [words(map.rows, map.rowWords), words(map.columns, map.columnWords)];
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

function words(tokens, numbers) {
  const joined = [];
  tokens.forEach((text, place) => {
    const number = numbers[place];
    joined[number] = (joined[number] ?? "") + (joined[number] === undefined ? text : text.replace(/^##/, ""));
  });
  return joined;
}

// The overview of all heads -----------------------------------------------------------------------------------------

async function drawOverview() {
  const map = state.map;
  const heads = Math.max(...map.heads.map((layer) => layer.length));
  $("overview").hidden = map.heads.length * heads === 1;
  document.querySelector("main").className = $("overview").hidden ? "single" : heads > 16 ? "wide" : "";
  if ($("overview").hidden) return;
  const [rows, columns] = map.overviewSize;
  const size = heads > 8 ? 44 : 84;
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
    const share = map.largest[layer][head] / scaleOf(map, layer, head);
    paint(canvas, rows, columns, (i) => levels[i] * share);
  }
  grid.dataset.drawn = map.kind;
}

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
  shown = { ...found, scale: state.common ? Math.max(largestOfAll(map), found.largest) || 1 : found.largest || 1 };
  state.token = null;
  const isHops = map.kind === "hops";
  $("detail-title").textContent = isHops
    ? `${map.rows.length} hops`
    : `${map.name}: layer ${map.layers[layer]}, head ${head}`;
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
  const [width, height] = [150, STEP * Math.max(rows, columns)];
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

function drawMatrix() {
  const [rows, columns] = [shown.rows.length, shown.columns.length];
  // Beside the lines where there is room, else below them.
  const whole = $("views").clientWidth;
  const beside = whole - ($("lines").hidden ? 0 : $("lines").offsetWidth + 40) - 150;
  const room = Math.min(640, beside < 250 ? whole - 150 : beside);
  const cell = Math.max(1, Math.min(26, Math.floor(room / columns), Math.floor(720 / rows)));
  paint($("map"), rows, columns, (i) => level(shown.values[i]));
  Object.assign($("map").style, { width: `${cell * columns}px`, height: `${cell * rows}px` });
  $("map").setAttribute("aria-label", `Weights of ${rows} rows and ${columns} columns; the table below has the numbers`);
  const box = $("matrix-box");
  for (const label of box.querySelectorAll("span")) label.remove();
  const size = Math.min(13, cell);
  const longest = (texts) => Math.min(26, Math.max(...texts.map((text) => [...text].length)));
  const isLabelled = cell >= 9;
  const left = isLabelled ? Math.ceil(longest(shown.rows) * size * 0.62) + 8 : 0;
  const top = isLabelled ? Math.ceil(longest(shown.columns) * size * 0.52) + 14 : 0;
  box.style.setProperty("--left", `${left}px`);
  box.style.setProperty("--top", `${top}px`);
  box.style.setProperty("--label", `${size}px`);
  box.style.padding = `${top}px ${Math.ceil(top * 0.75)}px 0 ${left}px`;
  if (!isLabelled) return;
  shown.rows.forEach((text, row) => {
    const label = element("span", { className: "row", dir: "auto", "aria-hidden": "true" }, text);
    label.style.top = `${top + cell * row + (cell - size) / 2}px`;
    box.append(label);
  });
  shown.columns.forEach((text, column) => {
    const label = element("span", { className: "column", dir: "auto", "aria-hidden": "true" }, text);
    label.style.left = `${left + cell * (column + 0.5) + size / 3}px`;
    box.append(label);
  });
}

// Lin's hops: all together, their sum over its total, and each of them, over the sentence.
function drawSentence() {
  const sums = shown.columns.map((_, column) => columnOf(column).reduce((a, b) => a + b, 0));
  const total = sums.reduce((a, b) => a + b, 0) || 1;
  const lines = [["all hops", sums.map((x) => x / total)], ...shown.rows.map((name, row) => [name, rowOf(row)])];
  const made = lines.map(([name, weights]) => {
    const largest = state.common ? shown.scale : Math.max(...weights) || 1;
    const tokens = weights.map((weight, place) => {
      const word = token(shown.columns[place]);
      const height = Math.min(255, (255 * weight) / largest);
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
  [state.layer, state.head] = [0, 0];
  $("layer").replaceChildren(...map.layers.map((number, i) => element("option", { value: i }, String(number))));
  $("layer").parentElement.hidden = map.layers.length === 1;
  $("head").parentElement.hidden = map.heads.every((layer) => layer.length === 1);
  $("merging").hidden = map.rows.length === new Set(map.rowWords).size && map.columns.length === new Set(map.columnWords).size;
  $("common").parentElement.hidden = map.heads.length * map.heads[0].length === 1 && map.kind !== "hops";
  $("caption").textContent = `${map.caption} Layers and heads are counted from 0.`;
  if (map.kind === "hops") $("caption").textContent = map.caption;
  $("common-text").textContent = `one colour scale for all ${map.kind === "hops" ? "hops" : "heads"}`;
  return Promise.all([drawOverview(), choose(0, 0)]);
}

function setTheme(isDark) {
  root.classList.toggle("dark", isDark);
  $("theme").textContent = isDark ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", isDark ? "Light colours" : "Dark colours");
  palette = makePalette(isDark);
}

const redraw = () => Promise.all([drawOverview(), drawHead()]);

function start() {
  $("model").textContent = `${data.model}, attention weights`;
  data.maps.forEach((map, i) => {
    const radio = element("input", { type: "radio", name: "kind", value: map.kind });
    radio.checked = i === 0;
    radio.addEventListener("change", () => chooseMap(map));
    $("kinds").append(element("label", {}, radio, ` ${map.name}`));
  });
  $("kinds").hidden = data.maps.length === 1;
  $("layer").addEventListener("change", () => choose(Number($("layer").value), state.head));
  $("head").addEventListener("change", () => choose(state.layer, Number($("head").value)));
  $("common").addEventListener("change", () => { state.common = $("common").checked; redraw(); });
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
  return chooseMap(data.maps[0]);
}

start().then(
  () => { root.dataset.state = "ready"; },
  (error) => { $("reading").textContent = `The page could not be drawn: ${error.message}`; root.dataset.state = "failed"; },
);
