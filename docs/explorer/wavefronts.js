// How many wavefronts a request takes, and which words it wants of each bank: ncu_swizzle.smem.wavefronts, copies,
// operations, bankmap and bankload, in the browser.
"use strict";

const LINE = 128; // bytes of a bank row
const WORD = 4;
const BANKS = 32;
const REDUCTIONS = ["add.u32", "and.b32", "or.b32", "max.u32"];
const ATOMICS = [...REDUCTIONS, "max.s32", "min.u32", "min.s32", "xor.b32", "inc.u32", "dec.u32", "exch.b32", "cas.b32"];

const OPERATIONS = (() => {
  const all = new Map();
  const add = (name, kind, width, lanes = Math.min(WARP, LINE / width)) => all.set(name, { name, kind, width, lanes });
  for (const [opcode, kind] of [["ld", "load"], ["st", "store"]]) {
    const types = { u8: 1, u16: 2, b32: 4, "v2.b32": 8, "v4.b32": 16, b64: 8 };
    for (const [type, width] of Object.entries(types)) add(`${opcode}.shared.${type}`, kind, width);
  }
  for (const opcode of ["ldmatrix", "stmatrix"]) {
    for (const count of [1, 2, 4]) for (const form of ["", ".trans"]) add(`${opcode}.x${count}${form}`, opcode, ROW);
  }
  for (const kind of ATOMICS) add(`atom.shared.${kind}`, "atomic", 4);
  for (const kind of REDUCTIONS) add(`red.shared.${kind}`, "atomic", 4);
  for (const kind of ["exch.b64", "cas.b64"]) add(`atom.shared.${kind}`, "atomic", 8);
  for (const name of ["atoms.popc.inc", "atoms.cast.spin"]) add(name, "atomic", 4);
  for (const width of [4, 8, 16]) add(`cp.async.ca.${width}`, "copy", width);
  for (const form of ["", ".zfill"]) add(`cp.async.cg.16${form}`, "copy", 16);
  return all;
})();

// The operation of this name; a type of the same size (f32 for b32) works too.
function operation(name) {
  const plain = /^(ld|st)\.shared\.(?:v([24])\.)?[bfsu](8|16|32|64)$/.exec(name);
  const width = plain ? (Number(plain[2] ?? 1) * Number(plain[3])) / 8 : 0;
  const alike = (o) => plain && o.width === width && o.name.startsWith(`${plain[1]}.shared.`);
  const found = OPERATIONS.get(name) ?? [...OPERATIONS.values()].find(alike);
  return found ?? refuse(`unknown operation '${name}'`);
}

const addressed = ({ name }) => 8 * Number(/matrix\.x([124])/.exec(name)?.[1] ?? 4);
const phasesOf = (op) => span(addressed(op) / op.lanes).map((p) => span(op.lanes).map((i) => p * op.lanes + i));
const bankOf = (address) => Math.floor(address / WORD) % BANKS;

// The most different units of the active lanes in one bank, or run of banks. A lane is its address, null if inactive.
function degree(lanes, width) {
  const unit = Math.max(width, WORD);
  const units = new Set(lanes.filter((address) => address !== null).map((address) => Math.floor(address / unit)));
  const counts = new Map();
  for (const one of units) counts.set(one % (LINE / unit), (counts.get(one % (LINE / unit)) ?? 0) + 1);
  return Math.max(0, ...counts.values());
}

// The most active lanes in one bank, at one address or not.
function mostLanes(lanes, width) {
  const counts = new Map();
  for (const address of lanes.filter((one) => one !== null)) {
    const bank = Math.floor(address / width) % (LINE / width);
    counts.set(bank, (counts.get(bank) ?? 0) + 1);
  }
  return Math.max(0, ...counts.values());
}

// Whether every lane i has the address of lane i^1, or every lane that of lane i^2.
function paired(lanes, strictly = false) {
  return [1, 2].some((distance) =>
    lanes.every((address, i) => {
      const partner = lanes[i ^ distance];
      if (address === null || partner === null) return !strictly || address === partner;
      return address === partner;
    }),
  );
}

function merged(lanes, width, degrees, may) {
  const sum = degrees.reduce((all, one) => all + one, 0);
  const alone = sum === 2 && Math.max(...degrees) === 1;
  return may && alone && degree(lanes, width) === 1 ? 1 : sum;
}

function merged128(lanes, degrees) {
  const active = lanes.filter((address) => address !== null);
  if (active.every((address) => address === active[0])) return Math.ceil(active.length / 16);
  const [low, high] = [lanes.slice(0, 16), lanes.slice(16)];
  const lower = merged(low, 16, degrees.slice(0, 2), paired(low, true) || lanes[31] === null);
  return lower + merged(high, 16, degrees.slice(2), paired(high));
}

const filled = (lanes, width) => Math.ceil((lanes.filter((address) => address !== null).length * width) / LINE);

// Actual and ideal wavefronts of one request, and whether they are known.
function wavefronts(op, given, source = span(WARP).map((i) => 16 * i)) {
  const lanes = given.map((address, i) => (i < addressed(op) ? address : null));
  checkFaults(op, lanes, source);
  if (op.kind === "copy") return copyWavefronts(op, lanes, source);
  const ideal = filled(lanes, op.width);
  if (op.name === "atoms.cast.spin") {
    const twice = lanes.some((address) => address !== null) ? 2 : 0;
    return { actual: twice, ideal: twice, known: true };
  }
  const parts = phasesOf(op).map((phase) => phase.map((lane) => lanes[lane]));
  if (op.kind === "atomic" && op.name !== "atoms.popc.inc") {
    const times = op.name.includes(".cas.") ? 2 : 1; // a compare-and-swap passes twice
    const actual = times * parts.reduce((sum, part) => sum + mostLanes(part, op.width), 0);
    return { actual, ideal: Math.min(times * ideal, actual), known: true };
  }
  const degrees = parts.map((part) => degree(part, op.width));
  let actual = degrees.reduce((sum, one) => sum + one, 0);
  if (op.kind === "load" && op.width === 8) actual = merged(lanes, 8, degrees, paired(lanes));
  if (op.kind === "load" && op.width === 16) actual = merged128(lanes, degrees);
  return { actual, ideal: Math.min(ideal, actual), known: true };
}

function checkFaults(op, lanes, source) {
  const fault = (address) => address < 0 || address % op.width !== 0;
  const lane = lanes.findIndex((address) => address !== null && fault(address));
  if (lane >= 0) refuse(`${op.name} faults at address ${lanes[lane]} (lane ${lane}): not a multiple of ${op.width}`);
  if (op.kind !== "copy") return;
  const reader = lanes.findIndex((address, i) => address !== null && source[i] !== -1 && fault(source[i]));
  if (reader >= 0) refuse(`${op.name} faults at address ${source[reader]} (lane ${reader}), which it reads`);
}

function copyWavefronts(op, lanes, source) {
  if (!op.name.includes(".cg.")) {
    return { actual: throughL1(op, lanes, source), ideal: filled(lanes, op.width), known: true };
  }
  const writers = lanes.map((address, i) => (source[i] >= 0 && lanes.indexOf(address) === i ? address : null));
  const counted = bypass(writers, source);
  let ideal = filled(writers, ROW);
  if (op.name.endsWith(".zfill") || lanes.some((address, i) => address !== null && source[i] < 0)) {
    counted.actual += throughL1(op, lanes, source);
    ideal += filled(lanes, ROW);
  }
  return { actual: counted.known ? counted.actual : -1, ideal, known: counted.known };
}

// Lanes that read the same bank, or write the same bank, conflict even at the same address.
function throughL1(op, lanes, source) {
  const position = (address) => Math.floor((address % LINE) / op.width);
  const conflicts = (a, b) =>
    position(lanes[a]) === position(lanes[b]) ||
    (source[a] >= 0 && source[b] >= 0 && position(source[a]) === position(source[b]));
  const worst = phasesOf(op).map((phase) => {
    const active = phase.filter((lane) => lanes[lane] !== null);
    return Math.max(0, ...active.map((a) => active.filter((b) => conflicts(a, b)).length));
  });
  return worst.reduce((sum, one) => sum + one, 0);
}

// Past L1: a wavefront moves chunks from one line to one line, as whole sectors or as even or odd chunks, all alike.
function bypass(writers, source) {
  const active = span(WARP).filter((lane) => writers[lane] !== null);
  const copies = active.map((lane) => {
    const [chunk, target] = [source, writers].map((addresses) => Math.floor(addresses[lane] / ROW) % 8);
    const lines = `${Math.floor(source[lane] / LINE)}:${Math.floor(writers[lane] / LINE)}`;
    const sector = [lines, chunk >> 1, target >> 1, (chunk ^ target) & 1].join();
    return { chunk, target, lines, sector, read: Math.floor(source[lane] / ROW) };
  });
  const often = (key) => copies.reduce((all, copy) => all.set(key(copy), (all.get(key(copy)) ?? 0) + 1), new Map());
  const sectors = often((copy) => copy.sector);
  const kind = ({ sector, chunk, target, lines }) =>
    [lines, sectors.get(sector) > 1 ? "whole" : chunk & 1, (chunk ^ target) & 3].join();
  const kinds = often(kind);
  const chunks = often((copy) => `${kind(copy)}/${copy.chunk}`);
  const again = new Set([...chunks].filter(([, count]) => count > 1).map(([key]) => key.split("/")[0]));
  const reads = often((copy) => copy.read);
  const beside = (read) => reads.has(read % 2 ? read - 1 : read + 1);
  const known = !copies.some(({ read }) => reads.get(read) > 1 && beside(read));
  return { actual: kinds.size + again.size, known };
}

// The words that a phase wants of each bank, each with its lanes; of atomics, every lane's word counts.
function wanted(op, addresses, phase) {
  const banks = span(BANKS).map(() => []);
  for (const lane of phase.filter((one) => addresses[one] !== null)) {
    const first = Math.floor(addresses[lane] / WORD);
    for (const word of span(Math.max(1, op.width / WORD)).map((i) => first + i)) {
      const bank = banks[word % BANKS];
      const same = op.kind === "atomic" ? undefined : bank.find((other) => other.word === word);
      if (same) same.lanes.push(lane);
      else bank.push({ word, lanes: [lane] });
    }
  }
  return banks;
}

// For each lane, how many units its phase wants in the lane's bank, or run of banks; 0 for an inactive lane.
function contention(op, addresses) {
  const unit = Math.max(op.width, WORD);
  const ways = span(WARP).map(() => 0);
  for (const phase of phasesOf(op)) {
    const active = phase.filter((lane) => addresses[lane] !== null);
    const units = active.map((lane) => Math.floor(addresses[lane] / unit));
    const counted = op.kind === "atomic" ? units : [...new Set(units)];
    active.forEach((lane, i) => {
      ways[lane] = counted.filter((one) => one % (LINE / unit) === units[i] % (LINE / unit)).length;
    });
  }
  return ways;
}

// A tile under an access: the first bank and the contention of each cell, and the wavefronts of each request.
function bankMap(mapping, access) {
  const op = operation(access.op);
  const surface = new Surface(mapping);
  const [down, across, length] = surface.units(Math.max(op.width, mapping.elementBytes));
  const banks = span(down).map((r) => span(across).map((c) => bankOf(mapping.address(...surface.cell(r, c, length)))));
  const ways = span(down).map(() => span(across).fill(0));
  const addresses = access.requests.map((lanes) =>
    lanes.map((cell, i) => (cell && i < addressed(op) ? mapping.address(...cell) : null)),
  );
  const perLane = addresses.map((lanes) => contention(op, lanes));
  access.requests.forEach((lanes, request) =>
    lanes.forEach((cell, lane) => {
      if (addresses[request][lane] === null) return;
      const [row, column] = surface.unit(...cell, length);
      ways[row][column] = Math.max(ways[row][column], perLane[request][lane]);
    }),
  );
  const counts = addresses.map((lanes, request) => wavefronts(op, lanes, access.source?.[request]));
  const cell = (request, lane) => surface.unit(...access.requests[request][lane], length);
  return { mapping, op, surface, length, banks, ways, addresses, counts, cell, busiest: perLane.map((l) => Math.max(...l)) };
}

// The request with the busiest bank under any of the maps.
function worstRequest(maps) {
  const most = maps[0].busiest.map((_, request) => Math.max(...maps.map((map) => map.busiest[request])));
  return most.indexOf(Math.max(...most));
}

// What the page shows of a case: the tile before and after the change, under the access.
function explore({ layout, element, swizzle: change, pad, access, write, threads }) {
  const plain = parseMapping(layout, element, "", 0);
  const after = parseMapping(layout, element, change, pad);
  const taken = parseAccess(access, plain, write, threads);
  const maps = [plain, after].map((mapping) => bankMap(mapping, taken));
  return { maps, access: taken, request: worstRequest(maps) };
}
