"""Accesses: which cells of a tile the lanes of each request touch, and with which instruction; the limits of a block.

Common patterns have names (see `parse`); any other is an expression in ``tid``.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.smem import operations
from ncu_swizzle.smem.layout import LONGEST_TEXT, Layout
from ncu_swizzle.smem.mapping import Mapping as TileMapping
from ncu_swizzle.smem.operations import ATOMIC, COPY, ROW, STMATRIX, STORE, WARP, Bools, Ints, Operation
from ncu_swizzle.smem.wavefronts import Wavefronts, wavefronts

# What a block can have: threads, and how much of its SM's shared memory.
#
# Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability". The system reserves 1,024 bytes
# for each resident block from sm_80 on, so a block can use 1 KiB less than its SM has.


KIB_PER_SM = {"sm_80": 164, "sm_86": 100, "sm_89": 100, "sm_90": 228, "sm_100": 228, "sm_120": 100}
MOST_THREADS = 1024  # of a block
Index = tuple[int, int, int]  # x, y and z, of a block or a thread, or of a shape
ALLOCATED = 256  # bytes: shared memory is allocated in multiples of it, or of a part; other sizes may be rounded up
RESERVED_BYTES = 1024  # per block; on sm_90 and newer at the start of the block's shared memory
MOST_BLOCKS = 32  # resident on an SM at most; fewer on sm_86, sm_89 and sm_120


def sm_bytes(arch: str) -> int:
    """Return the bytes of shared memory of an SM, which is also a block's limit including its reserved bytes."""
    return KIB_PER_SM[arch.rstrip("af")] * 1024


def block_bytes(arch: str) -> int:
    """Return the bytes that a block can use, static and dynamic together."""
    return sm_bytes(arch) - RESERVED_BYTES


def resident_blocks(arch: str, block_shared: int) -> int:
    """Return how many blocks with `block_shared` bytes each fit into an SM's shared memory."""
    return min(sm_bytes(arch) // (block_shared + RESERVED_BYTES), MOST_BLOCKS)


# Granularities of the occupancy calculator: registers are given to a warp in units of 256, shared memory to a block in
# units of 128 bytes.
SM_REGISTERS, REGISTER_UNIT = 65536, 256
SM_WARPS = {"sm_80": 64, "sm_86": 48, "sm_89": 48, "sm_90": 64, "sm_100": 64, "sm_120": 48}
SM_BLOCKS = {"sm_86": 16, "sm_89": 24, "sm_120": 24}
SHARED_UNIT = 128


def blocks_per_sm(arch: str, threads: int, registers: int, shared: int) -> int:
    """Return how many blocks fit on an SM, given registers per thread and a block's own bytes of shared memory.

    An unknown architecture counts as sm_90.
    """
    arch = arch if arch in SM_WARPS else "sm_90"
    warps = -(-threads // operations.WARP)
    # 33 registers per thread are 1,056 per warp, of which 1,280 are allocated.
    per_warp = -(-max(registers, 1) * operations.WARP // REGISTER_UNIT) * REGISTER_UNIT
    # The driver's own bytes count too: a block of 32 KiB takes 33 of the SM's.
    taken = -(-(shared + RESERVED_BYTES) // SHARED_UNIT) * SHARED_UNIT
    return min(
        SM_BLOCKS.get(arch, MOST_BLOCKS),
        SM_WARPS[arch] // warps,
        # Each of the SM's four sub-cores has a quarter of the registers, for its own warps.
        4 * (SM_REGISTERS // 4 // per_warp) // warps,
        sm_bytes(arch) // taken,
    )


# Integer expressions in ``tid``, ``lane`` and ``warp``, for all threads of a block at once.


LARGEST = 1 << 40  # larger products could overflow 64 bits; shared memory needs 18
HINT = "use tid, lane, warp, integers, + - * / % << >> & | ^ ~, comparisons and parentheses: (tid % 32) * 128"

_BINARY: dict[type[ast.operator], Callable[[Ints, Ints], Ints]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,  # integer division, as in CUDA
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Ints, Ints], Ints]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def evaluate(expression: str, threads: int = WARP) -> Ints:
    """Return the value for each thread; a comparison is 1 or 0. Raises UsageError."""
    if threads % WARP or not 0 < threads <= MOST_THREADS:
        raise UsageError(f"{threads} threads are not whole warps of one block", "a multiple of 32, up to 1024")
    tid = np.arange(threads, dtype=np.int64)
    return value_of(expression, {"tid": tid, "lane": tid % WARP, "warp": tid // WARP})


def value_of(expression: str, names: Mapping[str, Ints]) -> Ints:
    """Return the value of an expression for values of its names, which have one shape. Raises UsageError."""
    try:
        if len(expression) > LONGEST_TEXT:
            raise ValueError(f"it has {len(expression):,} characters")
        value = _value(ast.parse(expression.strip(), mode="eval").body, names)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = f": {error}" if isinstance(error, ValueError) else ""
        raise UsageError(f"cannot evaluate {expression!r}{reason}", HINT) from error
    return np.broadcast_to(value, next(iter(names.values())).shape).astype(np.int64)


def split(text: str) -> list[str]:
    """Split at the commas outside parentheses."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def _value(node: ast.expr, names: Mapping[str, Ints]) -> Ints:
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool) and abs(number) < LARGEST:
            return np.asarray(number, dtype=np.int64)
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name):
            raise ValueError(f"{name} is not a variable")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return ~_value(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _binary(op, _value(left, names), _value(right, names))
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            return _COMPARE[type(op)](_value(left, names), _value(right, names)).astype(np.int64)
    raise ValueError(f"{ast.unparse(node)!r} is not integer arithmetic")


def _binary(op: ast.operator, left: Ints, right: Ints) -> Ints:
    if isinstance(op, ast.Div | ast.FloorDiv | ast.Mod) and (right == 0).any():
        raise ValueError("division by zero")
    if isinstance(op, ast.LShift | ast.RShift) and ((right < 0) | (right > 40)).any():
        raise ValueError("a shift by fewer than 0 or more than 40 bits")
    # In floating point first: as integers, a product beyond 64 bits would have wrapped to a small one.
    scale = np.exp2(right.astype(float)) if isinstance(op, ast.LShift) else right.astype(float)
    if isinstance(op, ast.Mult | ast.LShift) and (np.abs(left.astype(float) * scale) > LARGEST).any():
        raise ValueError("a number too large for an address")
    return _BINARY[type(op)](left, right)


_NAMED = re.compile(r"(rows?|columns?|cp\.async|mma|(?:ld|st)matrix(?:\.x[124])?(?:\.trans)?)(?::(\d{1,9}))?")
TYPES = {1: "u8", 2: "u16", 4: "b32", 8: "v2.b32", 16: "v4.b32"}
EXAMPLE = "row, row:16, rows:16, column, column:16, cp.async, ldmatrix, mma, or ld.shared.b32@tid%32,tid/32"


@dataclass(frozen=True, eq=False)
class Access:
    """N requests of 32 lanes: each lane's first cell. `times` is how often all of them, or each, is executed.

    `source` holds the global byte addresses that cp.async reads, relative to the start of a line.
    """

    name: str
    op: str
    rows: Ints
    columns: Ints
    active: Bools | None = None
    source: Ints | None = None
    times: int | Ints = 1  # an array of shape (N,) if it differs from request to request

    @property
    def operation(self) -> Operation:
        return operations.find(self.op)

    @property
    def mask(self) -> Bools:
        """Which lanes take part, (N, 32): the active ones that give an address."""
        active = np.ones(self.rows.shape, bool) if self.active is None else self.active
        return active & (np.arange(self.rows.shape[1]) < self.operation.addressed)

    @property
    def writes(self) -> bool:
        return self.operation.kind in (STORE, STMATRIX, COPY, ATOMIC)

    @property
    def requests(self) -> int:
        return len(self.rows)

    def addresses(self, mapping: TileMapping) -> Ints:
        """Return the byte offsets of all lanes, (N, 32)."""
        return mapping.addresses(self.rows, self.columns)

    def wavefronts(self, mapping: TileMapping) -> Wavefronts:
        """Return the wavefronts of each request under a mapping."""
        return wavefronts(self.op, self.addresses(mapping), self.active, self.source)

    def total(self, per_request: Ints) -> int:
        """Return the sum of a count of each request, (N,), over all executions."""
        return int((per_request * self.times).sum())

    @property
    def executed(self) -> int:
        """How often a request is executed."""
        return self.total(np.ones(self.requests, np.int64))

    def chosen(self, requests: Ints) -> Access:
        """Return the access with only these of its requests, by index."""
        return replace(
            self,
            rows=self.rows[requests],
            columns=self.columns[requests],
            active=None if self.active is None else self.active[requests],
            source=None if self.source is None else self.source[requests],
            times=self.times if isinstance(self.times, int) else self.times[requests],
        )

    def granule(self, element_bytes: int) -> int:
        """Return how many contiguous elements a lane needs."""
        return max(1, self.operation.width_bytes // element_bytes)

    def cells(self, length: int) -> tuple[Ints, Ints]:
        """Return the rows and columns of all cells that it touches, `length` neighbours in a row for each lane."""
        rows, columns = self.rows[self.mask], self.columns[self.mask]
        return np.repeat(rows, length), (columns[:, None] + np.arange(length)).ravel()


@dataclass(frozen=True)
class Surface:
    """A tile as accesses see it: its rows and columns, and which of the two is contiguous in memory."""

    layout: Layout
    element_bytes: int

    @property
    def shape(self) -> tuple[int, int]:
        return TileMapping(self.layout, element_bytes=self.element_bytes).shape

    @property
    def column_major(self) -> bool:
        """Whether columns are contiguous in memory."""
        # A mode of one cell may have any stride, so it does not tell which way memory runs.
        rows, columns = self.layout.modes
        return bool(rows.leaves[0][1] == 1 and rows.size > 1 and (columns.leaves[0][1] != 1 or columns.size == 1))

    def units(self, width_bytes: int) -> tuple[int, int, int]:
        """Return how many units of `width_bytes` the tile has down and across, and the elements per unit."""
        length = max(1, width_bytes // self.element_bytes)
        down, across = self.shape[::-1] if self.column_major else self.shape
        if across % length:
            raise UsageError(
                f"{self.layout} has runs of {across} elements, not a multiple of {width_bytes} bytes per lane", EXAMPLE
            )
        units = (down, across // length)
        return (*(units[::-1] if self.column_major else units), length)

    def units_of(self, rows: Any, columns: Any, length: int) -> tuple[Any, Any]:
        """Return how far down and across the unit of each cell is."""
        return (rows // length, columns) if self.column_major else (rows, columns // length)

    def cells(self, down: Ints, across: Ints, length: int) -> tuple[Ints, Ints]:
        """Return the row and the column of each unit's first element."""
        return (down * length, across) if self.column_major else (down, across * length)


def parse(text: str, layout: Layout, element_bytes: int, write: bool = False, threads: int = WARP) -> Access:
    """Return the access with this name, over a whole tile. Raises UsageError.

    ``row``, ``column``      one request per row or column, one element per lane; ``row:16``: 16 bytes per lane
    ``rows``, ``columns``    the same in full warps: a request may continue in the next row
    ``cp.async``             ``rows:16`` from contiguous global rows, bypassing L1; ``cp.async:4``, ``:8`` through L1
    ``ldmatrix``             8x8 matrices of 16-byte rows, as many per instruction as fit; ``.x1 .x2 .x4``, ``.trans``
    ``stmatrix``             the same for stores
    ``mma``                  the accumulators of mma.m16n8: two elements per lane, four lanes per row
    ``OP@ROW,COLUMN``        any instruction; two expressions in tid, lane and warp
    """
    surface = Surface(layout, element_bytes)
    if "@" in text:
        return _expression(text, threads, surface)
    match = _NAMED.fullmatch(text)
    if not match:
        raise UsageError(f"{text!r} is not a valid access", EXAMPLE)
    name, width = match[1], int(match[2] or 0)
    if "matrix" in name:
        if width:
            raise UsageError(f"{text!r}: a row of {name} is always 16 bytes", EXAMPLE)
        return _matrices(name, surface)
    if name == "mma":
        return _accumulators(surface, width or 2 * element_bytes, write)
    if name == "cp.async":
        return _copy(surface, width or ROW)
    return _lines(name, surface, width or element_bytes, write)


def _named(width: int, write: bool) -> str:
    if width not in TYPES:
        raise UsageError(f"a lane cannot access {width} bytes", f"one of {', '.join(map(str, TYPES))} bytes; {EXAMPLE}")
    return f"{'st' if write else 'ld'}.shared.{TYPES[width]}"


def _lines(name: str, surface: Surface, width: int, write: bool) -> Access:
    op = _named(width, write)
    down, across, length = surface.units(width)
    lines, cells = (down, across) if name.startswith("row") else (across, down)
    # Either all lines in one run, or each line by itself in requests of up to 32 lanes.
    run = lines * cells if name.endswith("s") else cells
    starts = np.arange(0, lines * cells, run)[:, None]
    # One row per request, (N, 32): each run is filled up to whole warps with -1, for lanes that do nothing.
    number = np.pad(starts + np.arange(run), ((0, 0), (0, -run % WARP)), constant_values=-1).reshape(-1, WARP)
    active = number >= 0  # the rest of a run's last warp is idle
    line, cell = np.divmod(np.maximum(number, 0), cells)
    rows, columns = surface.cells(*((line, cell) if name.startswith("row") else (cell, line)), length)
    suffix = f":{width}" if width != surface.element_bytes else ""
    return Access(f"{name}{suffix}", op, rows, columns, None if active.all() else active)


def _copy(surface: Surface, width: int) -> Access:
    if width not in (4, 8, 16):
        raise UsageError(f"cp.async cannot copy {width} bytes per lane", "cp.async, cp.async:8 or cp.async:4")
    lines = _lines("columns" if surface.column_major else "rows", surface, width, True)
    run = surface.shape[0 if surface.column_major else 1]
    line, cell = (lines.columns, lines.rows) if surface.column_major else (lines.rows, lines.columns)
    # Global memory holds the tile without gaps, line after line, from the start of a 128-byte line on.
    source = (line * run + cell) * surface.element_bytes
    op = "cp.async.cg.16" if width == ROW else f"cp.async.ca.{width}"
    return Access(
        "cp.async" if width == ROW else f"cp.async:{width}",
        op,
        rows=lines.rows,
        columns=lines.columns,
        active=lines.active,
        source=source,
    )


def _matrices(name: str, surface: Surface) -> Access:
    units_down, units_across, length = surface.units(ROW)
    rows, units = (units_across, units_down) if surface.column_major else (units_down, units_across)
    match = re.search(r"\.x([124])", name)
    wanted = [int(match[1])] if match else [4, 2, 1]
    for count in wanted:
        # An .x4 of 16 rows by 32 bytes first: that is A of mma.m16n8k16. If the tile does not divide into these, 8 rows
        # by 64 bytes, then 32 by 16.
        for tall in (2, 1, 4) if count == 4 else (2, 1) if count == 2 else (1,):
            wide = count // tall
            if rows % (8 * tall) == 0 and units % wide == 0:
                plain = name.replace(f".x{count}", "")
                opcode, dot, trans = plain.partition(".")
                op = f"{opcode}.x{count}{dot}{trans}"
                row, unit = _blocks(rows // (8 * tall), units // wide, 8 * tall, wide)
                cells = surface.cells(unit, row, length) if surface.column_major else surface.cells(row, unit, length)
                return Access(op, op, *cells)
    raise UsageError(f"{name} does not fit {surface.layout}: 8x8 matrices of 16-byte rows", EXAMPLE)


def _blocks(down: int, across: int, tall: int, wide: int) -> tuple[Ints, Ints]:
    """Return the row and unit of each lane in blocks of `tall` rows by `wide` units; lanes run down rows first."""
    # .x1 and .x2 take 8 or 16 addresses: the lanes above repeat them, and `Access.mask` leaves them out.
    block = np.arange(down * across)[:, None]
    lane = np.arange(WARP)[None, :] % (tall * wide)
    return block // across * tall + lane % tall, block % across * wide + lane // tall


def _accumulators(surface: Surface, width: int, write: bool) -> Access:
    rows, columns = surface.shape
    if surface.column_major or rows % 8 or columns % 8:
        raise UsageError(f"mma accumulators need a row-major tile of 8x8 blocks, not {surface.layout}", EXAMPLE)
    if width != 2 * surface.element_bytes:
        raise UsageError(
            "a lane holds two adjacent accumulators", f"mma without a width: {2 * surface.element_bytes} bytes"
        )
    lane = np.arange(WARP)[None, :]
    # Lane l holds C[l / 4][2 (l mod 4)] and its neighbour (PTX ISA, "Matrix Fragments for mma.m16n8k16"); the other two
    # of its four elements are 8 rows down, which is another store.
    block = np.arange(rows // 8 * (columns // 8))[:, None]
    return Access(
        "mma",
        _named(width, write),
        block // (columns // 8) * 8 + lane // 4,
        block % (columns // 8) * 8 + lane % 4 * 2,
    )


def _expression(text: str, threads: int, surface: Surface) -> Access:
    op, _, cells = text.partition("@")
    parts = split(cells)
    operations.find(op)
    if len(parts) != 2:
        raise UsageError(f"{cells!r} must be a row and a column, separated by a comma", EXAMPLE)
    rows, columns = (evaluate(part, threads).reshape(-1, WARP) for part in parts)
    for what, values, size in (("row", rows, surface.shape[0]), ("column", columns, surface.shape[1])):
        outside = np.argwhere((values < 0) | (values >= size))
        if len(outside):
            request, lane = (int(index) for index in outside[0])
            raise UsageError(
                f"{text!r} puts thread {request * WARP + lane} in {what} {values[request, lane]} of {size}",
                f"keep the {what} between 0 and {size - 1}, e.g. with % {size}",
            )
    return Access(text, op, rows, columns)
