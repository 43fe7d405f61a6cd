// The page: reads the form, draws the maps, steps through the phases, keeps it all in the address.
"use strict";

const [CELL, HIGH, LEFT, TOP, SQUARE] = [22, 18, 34, 16, 16]; // pixels
const [MOST_ROWS, MOST_COLUMNS] = [32, 64]; // that a map shows at once
const FIELDS = ["layout", "element", "swizzle", "pad", "access", "write", "threads"];
const by = (id) => document.getElementById(id);
let shown = null; // what explore() answered to the form as it is
let steps = []; // [request, phase] with active lanes

function node(name, attributes = {}, text = "") {
  const svg = ["svg", "g", "rect", "text", "title"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== "") made.textContent = text;
  return made;
}

function read() {
  const number = (id) => Number(by(id).value || 0);
  return {
    layout: by("layout").value,
    element: number("element"),
    swizzle: by("swizzle").value.trim(),
    pad: number("pad"),
    access: by("access").value.trim(),
    write: by("write").checked,
    threads: number("threads"),
  };
}

function fill(state) {
  for (const id of FIELDS) {
    if (id === "write") by(id).checked = state[id];
    else by(id).value = id === "pad" && !state.pad ? "" : state[id];
  }
}

function stateOf(hash) {
  const given = new URLSearchParams(hash.slice(1));
  const state = { ...DEFAULT, ...(given.has("layout") ? { swizzle: "", pad: 0 } : {}) };
  for (const [key, value] of given) {
    if (!FIELDS.includes(key)) continue;
    state[key] = key === "write" ? value === "1" : typeof DEFAULT[key] === "number" ? Number(value) : value;
  }
  return { state, step: given.get("step") };
}

function remember() {
  const state = read();
  const given = FIELDS.filter((id) => state[id] && state[id] !== (id === "threads" && DEFAULT[id]));
  const words = new URLSearchParams(given.map((id) => [id, state[id] === true ? "1" : state[id]]));
  const step = steps[by("step").value];
  if (step) words.set("step", step.join("."));
  history.replaceState(null, "", `#${words}`);
}

function answer(step = null) {
  try {
    shown = explore(read());
    by("refused").hidden = true;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    by("refused").textContent = error.message;
    by("refused").hidden = false;
    shown = null;
  }
  by("answer").hidden = !shown;
  steps = [];
  if (!shown) return;
  const [{ op, addresses }] = shown.maps;
  addresses.forEach((lanes, request) =>
    phasesOf(op).forEach((phase, i) => {
      if (phase.some((lane) => lanes[lane] !== null)) steps.push([request, i]);
    }),
  );
  by("step").max = Math.max(0, steps.length - 1);
  count();
  go(Math.max(0, steps.findIndex((each) => (step ? each.join(".") === step : each[0] === shown.request))));
}

const label = ({ mapping }) => `${mapping.layout}${mapping.transform.name ? ` with ${mapping.transform.name}` : ", plain"}`;

function count() {
  const rows = shown.maps.map((map) => {
    const sum = (key) => map.counts.reduce((all, each) => all + each[key], 0);
    const known = map.counts.every((each) => each.known);
    const [actual, ideal] = [known ? sum("actual") : "unknown", sum("ideal")];
    const degree = known && ideal ? (actual / ideal).toFixed(2) : "";
    const row = node("tr");
    row.append(node("td", {}, label(map)), node("td", {}, map.op.name), node("td", {}, map.counts.length));
    row.append(node("td", {}, actual), node("td", {}, ideal), node("td", degree > 1 ? { class: "bad" } : {}, degree));
    return row;
  });
  by("counts").tBodies[0].replaceChildren(...rows);
}

function go(number) {
  by("step").value = number;
  const [request, phase] = steps[by("step").value] ?? [0, 0];
  const lanes = phasesOf(shown.maps[0].op)[phase].filter((lane) => shown.maps[0].addresses[request][lane] !== null);
  const words = shown.maps.map((map) => Math.max(...wanted(map.op, map.addresses[request], lanes).map((w) => w.length)));
  const said = `lanes ${lanes[0] ?? "none"} to ${lanes.at(-1) ?? ""}. Words of the busiest bank: ${words.join(" → ")}.`;
  by("where").textContent = `Request ${request} of ${shown.access.requests.length}, phase ${phase}: ${said}`;
  by("maps").replaceChildren(...shown.maps.map((map) => figure(map, request, lanes)));
  remember();
}

function figure(map, request, lanes) {
  const made = node("figure", { tabindex: "0", "aria-label": label(map) });
  const lost = map.mapping.collision();
  const code = map.mapping.transform.code("offset");
  const where = lost ? ` Not a bijection: cells (${lost[0].join(", ")}) and (${lost[1].join(", ")}) share an offset.` : "";
  const caption = node("figcaption", {}, `${label(map)}${code === "offset" ? "" : `: ${code}`}.${where}`);
  made.append(caption, drawn(map, request, lanes), bars(map, request, lanes));
  return made;
}

// The rows or columns to show: all, or those around what the phase accesses.
function shownPart(size, most, used) {
  const first = Math.max(0, Math.min(size - most, Math.floor(Math.min(...used, size) / 8) * 8));
  return span(Math.min(size, most)).map((i) => first + i);
}

function drawn(map, request, lanes) {
  const cells = lanes.map((lane) => map.cell(request, lane));
  const rows = shownPart(map.banks.length, MOST_ROWS, cells.map(([row]) => row));
  const columns = shownPart(map.banks[0].length, MOST_COLUMNS, cells.map(([, column]) => column));
  const [width, height] = [LEFT + CELL * columns.length + 2, TOP + HIGH * rows.length + 2];
  const svg = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `banks of ${label(map)}`, class: "bankmap" });
  const place = (row, column) => ({ x: LEFT + CELL * (column - columns[0]), y: TOP + HIGH * (row - rows[0]), width: CELL - 1, height: HIGH - 1 });
  columns.forEach((column) => svg.append(node("text", { class: "label", x: place(0, column).x + CELL / 2, y: 11 }, column)));
  for (const row of rows) {
    svg.append(node("text", { class: "label row", x: LEFT - 6, y: place(row, 0).y + 13 }, row));
    for (const column of columns) {
      const [bank, ways, at] = [map.banks[row][column], map.ways[row][column], place(row, column)];
      svg.append(node("rect", { ...at, style: `fill: var(--b${bank})`, class: ways ? "cell" : "cell idle" }));
      if (ways > 1) svg.append(node("rect", { ...at, class: "conflict" }));
      svg.append(node("text", { x: at.x + CELL / 2, y: at.y + 13 }, bank));
    }
  }
  for (const [row, column] of cells) {
    if (rows.includes(row) && columns.includes(column)) svg.append(node("rect", { ...place(row, column), class: "own" }));
  }
  return svg;
}

function bars(map, request, lanes) {
  const banks = wanted(map.op, map.addresses[request], lanes);
  const most = Math.max(1, ...banks.map((words) => words.length));
  const [width, height] = [LEFT + SQUARE * BANKS + 2, SQUARE * most + 24];
  const said = `words wanted of each bank, at most ${most}`;
  const svg = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said, class: "bankload" });
  banks.forEach((words, bank) => {
    const x = LEFT + SQUARE * bank;
    svg.append(node("text", { class: "label", x: x + SQUARE / 2, y: height - 4 }, bank));
    words.forEach((word, i) => {
      const y = height - 18 - SQUARE * (i + 1);
      const square = node("g");
      square.append(node("title", {}, `bank ${bank}, word ${word.word}: lanes ${word.lanes.join(", ")}`));
      square.append(node("rect", { x, y, width: SQUARE - 1, height: SQUARE - 1, style: `fill: var(--b${bank})` }));
      if (words.length > 1) square.append(node("rect", { x, y, width: SQUARE - 1, height: SQUARE - 1, class: "conflict" }));
      square.append(node("text", { x: x + SQUARE / 2, y: y + 12 }, word.lanes[0]));
      svg.append(square);
    });
  });
  return svg;
}

function start() {
  const { state, step } = stateOf(location.hash);
  fill(state);
  answer(step);
}

by("example").append(node("option", { value: "" }, "choose…"));
for (const name of Object.keys(EXAMPLES)) by("example").append(node("option", { value: name }, name));
by("example").addEventListener("change", () => {
  if (!by("example").value) return;
  fill({ ...DEFAULT, ...EXAMPLES[by("example").value] });
  answer();
});
by("form").addEventListener("submit", (event) => event.preventDefault());
for (const id of FIELDS) by(id).addEventListener("input", () => answer());
by("step").addEventListener("input", () => go(by("step").value));
by("previous").addEventListener("click", () => go(Math.max(0, Number(by("step").value) - 1)));
by("next").addEventListener("click", () => go(Math.min(steps.length - 1, Number(by("step").value) + 1)));
by("worst").addEventListener("click", () => go(steps.findIndex(([request]) => request === shown.request)));
by("share").addEventListener("click", async () => {
  remember();
  const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  by("share").textContent = copied ? "Copied" : "The address has it";
});
addEventListener("hashchange", start);
start();
