// Which cells of a tile the lanes of each request access: ncu_swizzle.smem.access and expression, in the browser.
"use strict";

const WARP = 32;
const ROW = 16; // bytes of a matrix row
const MOST_THREADS = 1024;
const LARGEST_NUMBER = 1n << 40n;
const TYPES = { 1: "u8", 2: "u16", 4: "b32", 8: "v2.b32", 16: "v4.b32" };

const floorDivide = (a, b) => (b === 0n ? refuse("division by zero") : (a - (((a % b) + b) % b)) / b);
const bounded = (value) =>
  value > LARGEST_NUMBER || value < -LARGEST_NUMBER ? refuse("a number too large for an address") : value;
const shifted = (by) => (by < 0n || by > 40n ? refuse("a shift by fewer than 0 or more than 40 bits") : by);
const BINARY = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => bounded(a * b),
  "/": floorDivide,
  "//": floorDivide,
  "%": (a, b) => (b === 0n ? refuse("division by zero") : ((a % b) + b) % b),
  "<<": (a, b) => bounded(a << shifted(b)),
  ">>": (a, b) => a >> shifted(b),
  "&": (a, b) => a & b,
  "|": (a, b) => a | b,
  "^": (a, b) => a ^ b,
};
const COMPARE = {
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
  "==": (a, b) => a === b,
  "!=": (a, b) => a !== b,
};
const LEVELS = [["|"], ["^"], ["&"], ["<<", ">>"], ["+", "-"], ["*", "/", "//", "%"]]; // loosest first, as in Python

// The value of an integer expression in tid, lane and warp for each thread, as numbers.
function evaluate(expression, threads) {
  if (threads % WARP || threads <= 0 || threads > MOST_THREADS) refuse(`${threads} threads are not whole warps`);
  const tokens = expression.trim().match(/0[xX][\da-fA-F]+|0[bB][01]+|\d+|\w+|<<|>>|\/\/|\*\*|[<>=!]=|\S/g) ?? [];
  const unreadable = () => refuse(`cannot evaluate '${expression}'`);
  let next = 0;
  const atom = () => {
    const token = tokens[next++];
    if (token === undefined) unreadable();
    if (token === "-" || token === "~") {
      const operand = atom();
      return (names) => (token === "-" ? -operand(names) : ~operand(names));
    }
    if (token === "(") {
      const inside = comparison();
      return tokens[next++] === ")" ? inside : unreadable();
    }
    if (/^(?:0[xX][\da-fA-F]+|0[bB][01]+|0+|[1-9]\d*)$/.test(token)) {
      const number = BigInt(token);
      return number < LARGEST_NUMBER ? () => number : unreadable();
    }
    return ["tid", "lane", "warp"].includes(token) ? (names) => names[token] : unreadable();
  };
  const binary = (level) => {
    if (level === LEVELS.length) return atom();
    let left = binary(level + 1);
    while (LEVELS[level].includes(tokens[next])) {
      const [operator, first, second] = [BINARY[tokens[next++]], left, binary(level + 1)];
      left = (names) => operator(first(names), second(names));
    }
    return left;
  };
  const comparison = () => {
    const left = binary(0);
    const compare = COMPARE[tokens[next]];
    if (!compare) return left;
    next++;
    const right = binary(0);
    return (names) => BigInt(compare(left(names), right(names)));
  };
  const value = comparison();
  if (next !== tokens.length) unreadable();
  const names = (tid) => ({ tid: BigInt(tid), lane: BigInt(tid % WARP), warp: BigInt(Math.floor(tid / WARP)) });
  return span(threads).map((tid) => Number(value(names(tid))));
}

function splitAtCommas(text) {
  const parts = [""];
  let depth = 0;
  for (const character of text) {
    depth += (character === "(") - (character === ")");
    if (character === "," && depth === 0) parts.push("");
    else parts[parts.length - 1] += character;
  }
  return parts;
}

// A tile as accesses see it: its rows and columns, and which of the two is contiguous in memory.
class Surface {
  constructor(plain) {
    Object.assign(this, { layout: plain.layout, shape: plain.shape, elementBytes: plain.elementBytes });
    const [rows, columns] = plain.modes;
    this.columnMajor =
      rows.leaves[0][1] === 1 && rows.size > 1 && (columns.leaves[0][1] !== 1 || columns.size === 1);
  }

  // Units of `width` bytes down and across, and the elements of a unit.
  units(width) {
    const length = Math.max(1, Math.floor(width / this.elementBytes));
    const [down, across] = this.columnMajor ? [this.shape[1], this.shape[0]] : this.shape;
    if (across % length) refuse(`${this.layout} has runs of ${across} elements, not a multiple of ${width} bytes`);
    const units = [down, across / length];
    return [...(this.columnMajor ? units.reverse() : units), length];
  }

  // The row and column of a unit's first element.
  cell(down, across, length) {
    return this.columnMajor ? [down * length, across] : [down, across * length];
  }

  // The unit that an element is in.
  unit(row, column, length) {
    return this.columnMajor ? [Math.floor(row / length), column] : [row, Math.floor(column / length)];
  }
}

const named = (width, write) =>
  TYPES[width] ? `${write ? "st" : "ld"}.shared.${TYPES[width]}` : refuse(`a lane cannot access ${width} bytes`);

// An access: its operation, and for each request the cell of each of 32 lanes, null for an inactive one.
function parseAccess(text, plain, write, threads) {
  const surface = new Surface(plain);
  if (text.includes("@")) return expressed(text, threads, surface);
  const names = "rows?|columns?|cp\\.async|mma|(?:ld|st)matrix(?:\\.x[124])?(?:\\.trans)?";
  const match = new RegExp(`^(${names})(?::(\\d{1,9}))?$`).exec(text) ?? refuse(`'${text}' is not a valid access`);
  const [name, width] = [match[1], Number(match[2] ?? 0)];
  if (name.includes("matrix")) {
    if (width) refuse(`'${text}': a row of ${name} is always 16 bytes`);
    return matrices(name, surface);
  }
  if (name === "mma") return accumulators(surface, width || 2 * surface.elementBytes, write);
  if (name === "cp.async") return copied(surface, width || ROW);
  return lines(name, surface, width || surface.elementBytes, write);
}

function lines(name, surface, width, write) {
  const op = named(width, write);
  const [down, across, length] = surface.units(width);
  const byRow = name.startsWith("row");
  const [count, cells] = byRow ? [down, across] : [across, down];
  const run = name.endsWith("s") ? count * cells : cells; // all lines in one run, or each by itself
  const requests = [];
  for (let start = 0; start < count * cells; start += run) {
    for (let first = start; first < start + run; first += WARP) {
      requests.push(
        span(WARP).map((lane) => {
          const number = first + lane;
          if (number >= start + run) return null;
          const at = [Math.floor(number / cells), number % cells];
          return surface.cell(...(byRow ? at : at.reverse()), length);
        }),
      );
    }
  }
  return { op, requests };
}

function copied(surface, width) {
  if (![4, 8, 16].includes(width)) refuse(`cp.async cannot copy ${width} bytes per lane`);
  const { requests } = lines(surface.columnMajor ? "columns" : "rows", surface, width, true);
  const run = surface.shape[surface.columnMajor ? 0 : 1];
  const from = ([row, column]) => (surface.columnMajor ? column * run + row : row * run + column);
  const source = requests.map((lanes) => lanes.map((cell) => (cell ? from(cell) * surface.elementBytes : 0)));
  return { op: width === ROW ? "cp.async.cg.16" : `cp.async.ca.${width}`, requests, source };
}

function matrices(name, surface) {
  const units = surface.units(ROW);
  const [rows, wideUnits] = surface.columnMajor ? [units[1], units[0]] : units;
  const wanted = /\.x([124])/.exec(name);
  for (const count of wanted ? [Number(wanted[1])] : [4, 2, 1]) {
    for (const tall of { 4: [2, 1, 4], 2: [2, 1], 1: [1] }[count]) {
      const wide = count / tall;
      if (rows % (8 * tall) || wideUnits % wide) continue;
      const [opcode, trans] = [name.slice(0, 8), name.endsWith(".trans") ? ".trans" : ""];
      return { op: `${opcode}.x${count}${trans}`, requests: blocks(surface, rows, wideUnits, 8 * tall, wide, units[2]) };
    }
  }
  return refuse(`${name} does not fit ${surface.layout}: 8x8 matrices of 16-byte rows`);
}

// Blocks of `tall` rows by `wide` units; lanes run down the rows first.
function blocks(surface, rows, units, tall, wide, length) {
  const across = units / wide;
  return span((rows / tall) * across).map((block) =>
    span(WARP).map((warpLane) => {
      const lane = warpLane % (tall * wide);
      const row = Math.floor(block / across) * tall + (lane % tall);
      const unit = (block % across) * wide + Math.floor(lane / tall);
      return surface.columnMajor ? surface.cell(unit, row, length) : surface.cell(row, unit, length);
    }),
  );
}

function accumulators(surface, width, write) {
  const [rows, columns] = surface.shape;
  if (surface.columnMajor || rows % 8 || columns % 8) {
    refuse(`mma accumulators need a row-major tile of 8x8 blocks, not ${surface.layout}`);
  }
  if (width !== 2 * surface.elementBytes) refuse("a lane holds two adjacent accumulators");
  const across = columns / 8;
  const cell = (block, lane) => [
    Math.floor(block / across) * 8 + (lane >> 2),
    (block % across) * 8 + (lane & 3) * 2,
  ];
  const requests = span((rows / 8) * across).map((block) => span(WARP).map((lane) => cell(block, lane)));
  return { op: named(width, write), requests };
}

function expressed(text, threads, surface) {
  const at = text.indexOf("@");
  const [op, cells] = [text.slice(0, at), text.slice(at + 1)];
  const parts = splitAtCommas(cells);
  operation(op);
  if (parts.length !== 2) refuse(`${cells} must be a row and a column, separated by a comma`);
  const [rows, columns] = parts.map((part) => evaluate(part, threads));
  for (const [what, values, size] of [["row", rows, surface.shape[0]], ["column", columns, surface.shape[1]]]) {
    const thread = values.findIndex((value) => value < 0 || value >= size);
    if (thread >= 0) refuse(`'${text}' puts thread ${thread} in ${what} ${values[thread]} of ${size}`);
  }
  const lane = (request, i) => [rows[request * WARP + i], columns[request * WARP + i]];
  return { op, requests: span(threads / WARP).map((request) => span(WARP).map((i) => lane(request, i))) };
}
