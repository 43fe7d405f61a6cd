// CuTe layouts and what is applied to their offsets: ncu_swizzle.smem.layout, swizzle and mapping, in the browser.
// A test compares this file with them on 10,000 random cases (tests/docs/test_pages.py).
"use strict";

const LARGEST = 2 ** 18; // elements of a tile
const ELEMENTS = [1, 2, 4, 8, 16]; // bytes
const TMA_MODES = { "128B": [3, 4, 3], "64B": [2, 4, 3], "32B": [1, 4, 3] }; // on byte offsets
const SQUARE_4 = [[3, 2, 0, 1], [0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 1, 0]];

class Refused extends Error {}

const refuse = (message) => {
  throw new Refused(message);
};
const span = (n) => Array.from({ length: n }, (_, i) => i);
const product = (shape) => (Array.isArray(shape) ? shape.reduce((all, part) => all * product(part), 1) : shape);
const written = (value) => (Array.isArray(value) ? `(${value.map(written).join(",")})` : String(value));
const congruent = (a, b) =>
  Array.isArray(a) && Array.isArray(b)
    ? a.length === b.length && a.length > 0 && a.every((part, i) => congruent(part, b[i]))
    : !Array.isArray(a) && !Array.isArray(b);
const leavesOf = (shape, stride) =>
  Array.isArray(shape) ? shape.flatMap((part, i) => leavesOf(part, stride[i])) : [[shape, stride]];

class Layout {
  constructor(shape, stride) {
    Object.assign(this, { shape, stride });
    if (!congruent(shape, stride)) refuse(`the layout ${this} has a shape and a stride of different structure`);
    this.leaves = leavesOf(shape, stride);
    if (this.leaves.some(([size]) => size < 1)) refuse(`the layout ${this} needs sizes of at least 1`);
    this.size = product(shape);
    this.cosize = 1 + this.leaves.reduce((sum, [size, step]) => sum + (size - 1) * step, 0);
    if (Math.max(this.size, this.cosize) > LARGEST) refuse(`the layout ${this} is larger than shared memory`);
  }

  toString() {
    return `${written(this.shape)}:${written(this.stride)}`;
  }

  get modes() {
    return Array.isArray(this.shape) ? this.shape.map((part, i) => new Layout(part, this.stride[i])) : [this];
  }

  // The offset of an integer coordinate; the last part takes the remainder.
  at(index) {
    return this.leaves.reduce((offset, [size, step], i) => {
      const part = i === this.leaves.length - 1 ? index : index % size;
      index = Math.floor(index / size);
      return offset + part * step;
    }, 0);
  }

  coalesce() {
    const parts = [];
    for (const [size, stride] of this.leaves) {
      const last = parts.at(-1);
      if (size === 1) continue;
      if (last && stride === last[0] * last[1]) last[0] *= size;
      else parts.push([size, stride]);
    }
    return flat(parts);
  }

  compose(inner) {
    if (!Array.isArray(inner.shape)) return flat(composeLeaf(this, ...inner.leaves[0]));
    const modes = inner.modes.map((mode) => this.compose(mode));
    const composed = new Layout(modes.map((mode) => mode.shape), modes.map((mode) => mode.stride));
    // One mode may carry into what another one runs through.
    const same = span(inner.size).every((i) => composed.at(i) === this.at(inner.at(i)));
    return same ? composed : refuse(`${this} o ${inner} is not a layout`);
  }
}

function flat(parts) {
  if (!parts.length) return new Layout(1, 0);
  return parts.length === 1 ? new Layout(...parts[0]) : new Layout(parts.map(([s]) => s), parts.map(([, d]) => d));
}

function composeLeaf(outer, size, stride) {
  if (stride === 0) return [[size, 0]];
  const whole = `${outer} o ${size}:${stride}`;
  const parts = outer.coalesce().leaves;
  const taken = [];
  for (const [length, step] of parts.slice(0, -1)) {
    if (size === 1) break;
    if (stride >= length) {
      if (stride % length) refuse(`${whole} is not a layout`);
      stride /= length;
      continue;
    }
    const take = Math.min(Math.floor(length / stride), size);
    if (length % stride || size % take) refuse(`${whole} is not a layout`);
    taken.push([take, step * stride]);
    [size, stride] = [size / take, 1];
  }
  if (size > 1) taken.push([size, parts.at(-1)[1] * stride]);
  return taken;
}

function parseLayout(text) {
  const parts = text.trim().split(/\s+o\s+|∘/).map(parseOne);
  return parts.reduceRight((inner, outer) => outer.compose(inner));
}

function parseOne(text) {
  const colon = text.indexOf(":");
  if (colon < 0) refuse(`'${text}' is not a valid layout: write shape:stride`);
  return new Layout(parseInts(text.slice(0, colon), text), parseInts(text.slice(colon + 1), text));
}

function parseInts(part, whole) {
  const unreadable = () => refuse(`'${whole}' is not a valid layout`);
  const tokens = part.replaceAll("_", "").match(/[(),]|\d+|\S/g) ?? [];
  let next = 0;
  const value = (depth) => {
    const token = tokens[next++];
    if (depth > 32 || token === undefined) unreadable();
    if (/^\d{1,18}$/.test(token)) return Number(token);
    if (token !== "(") unreadable();
    const values = [];
    for (;;) {
      values.push(value(depth + 1));
      const end = tokens[next++];
      if (end === ")") return values;
      if (end !== ",") unreadable();
    }
  };
  const found = value(0);
  return next === tokens.length ? found : unreadable();
}

const IDENTITY = { name: "", at: (offset) => offset, code: (offset) => offset };

// CuTe's Swizzle<bits, base, shift>; other operations than XOR are there to show why they lose elements.
function swizzle(bits, base, shift, combine = "xor") {
  const by = combine === "xor" ? "" : ` by ${combine.toUpperCase()}`;
  const name = `Swizzle<${bits},${base},${shift}>${by}`;
  if (bits + base + Math.abs(shift) > 30) refuse(`${name} reaches beyond the bits of an offset`);
  if (Math.abs(shift) < bits) refuse(`${name} would XOR bits with themselves: the shift must be at least ${bits}`);
  const ones = 2 ** bits - 1;
  const target = ones << (base - Math.min(0, shift));
  const source = ones << (base + Math.max(0, shift));
  const combined = {
    xor: (old, moved) => old ^ moved,
    add: (old, moved) => (old + moved) & target,
    and: (old, moved) => old & moved,
    or: (old, moved) => old | moved,
  }[combine];
  const at = (offset) => {
    const moved = shift >= 0 ? (offset & source) >> shift : (offset & source) << -shift;
    return (offset & ~target) | combined(offset & target, moved);
  };
  const code = (o) => {
    if (!bits) return o;
    const [mask, moved] = [`0x${target.toString(16)}`, shift >= 0 ? `(${o} >> ${shift})` : `(${o} << ${-shift})`];
    const operator = { add: "+", and: "&", or: "|" }[combine];
    return combine === "xor"
      ? `${o} ^ (${moved} & ${mask})`
      : `(${o} & ~${mask}) | (((${o} & ${mask}) ${operator} (${moved} & ${mask})) & ${mask})`;
  };
  return { name, at, code };
}

function padding(every, by) {
  const code = (o) => `${o} + ${o} / ${every}${by > 1 ? ` * ${by}` : ""}`;
  return { name: `padding ${every}+${by}`, at: (o) => o + Math.floor(o / every) * by, code };
}

// A Latin square: row r holds unit u at square[r % n][u].
function table(square) {
  const n = square.length;
  const at = (o) => Math.floor(o / n) * n + square[Math.floor(o / n) % n][o % n];
  const code = (o) => `(${o} / 1 / ${n} * ${n} + kSquare[${o} / 1 / ${n} % ${n}][${o} / 1 % ${n}]) * 1 + ${o} % 1`;
  return { name: `table of ${n}x${n}`, at, code };
}

function square32() {
  const entry = (r, c) =>
    SQUARE_4[r >> 3][c >> 3] * 8 + SQUARE_4[(r >> 1) & 3][(c >> 1) & 3] * 2 + ((r ^ c) & 1);
  return span(32).map((r) => span(32).map((c) => entry(r, c)));
}

function parseSwizzle(text, elementBytes, columns) {
  text = text.trim();
  const bits = Math.log2(elementBytes);
  const onElements = (b, base, shift, combine) =>
    base < bits
      ? refuse(`${swizzle(b, base, shift, combine).name} on bytes would split elements of ${elementBytes} bytes`)
      : swizzle(b, base - bits, shift, combine);
  if (TMA_MODES[text.toUpperCase()]) return onElements(...TMA_MODES[text.toUpperCase()]);
  if (text === "sudoku") {
    const square = { 4: SQUARE_4, 32: square32() }[columns];
    return square ? table(square) : refuse(`there is no square for rows of ${columns} elements`);
  }
  const number = "\\s*(\\d{1,9})\\s*";
  const form = `^(bytes:)?(?:(xor|add|and|or):)?(?:Swizzle<)?${number},${number},\\s*(-?\\d{1,9})\\s*>?$`;
  const match = new RegExp(form).exec(text) ?? refuse(`'${text}' is not a valid swizzle`);
  const [, bytes, combine, ...numbers] = match;
  return (bytes ? onElements : swizzle)(...numbers.map(Number), combine);
}

// A tile: the byte offset of each of its cells, from the start of a 128-byte bank row.
class Mapping {
  constructor(layout, transform, elementBytes) {
    Object.assign(this, { layout, transform, elementBytes });
    if (!ELEMENTS.includes(elementBytes)) refuse(`an element cannot have ${elementBytes} bytes`);
    this.modes = layout.modes;
    if (this.modes.length !== 2) refuse(`the layout ${layout} must have two modes, rows and columns`);
    this.shape = this.modes.map((mode) => mode.size);
  }

  address(row, column) {
    return this.transform.at(this.modes[0].at(row) + this.modes[1].at(column)) * this.elementBytes;
  }

  // The first two cells that share an offset, in the order of the offsets; null for a bijection.
  collision() {
    const columns = this.shape[1];
    const cells = span(this.layout.size).map((i) => [this.address(Math.floor(i / columns), i % columns), i]);
    cells.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const found = cells.findIndex(([address], i) => i > 0 && cells[i - 1][0] === address);
    if (found < 0) return null;
    return [cells[found - 1], cells[found]].map(([, i]) => [Math.floor(i / columns), i % columns]);
  }
}

function parseMapping(layoutText, elementBytes, swizzleText, pad) {
  const plain = new Mapping(parseLayout(layoutText), IDENTITY, elementBytes);
  if (!(pad >= 0 && pad <= LARGEST)) refuse(`a padding of ${pad} elements exceeds shared memory`);
  if (swizzleText && pad) refuse("a swizzle and padding together");
  if (swizzleText) return new Mapping(plain.layout, parseSwizzle(swizzleText, elementBytes, plain.shape[1]), elementBytes);
  if (!pad) return plain;
  const strides = plain.layout.leaves.filter(([size, stride]) => size > 1 && stride).map(([, stride]) => stride);
  return new Mapping(plain.layout, padding(Math.max(1, ...strides), pad), elementBytes);
}
