"""The shared-memory tiles of the shipped kernels and every access to them, declared by hand, a function per family.

A function has two parameters, the kernel's own source, which says by which layout policy it stores its tiles, and the
problem's size, which says how often each access is executed. Rows and columns of an `Access` are (requests, 32); a
column of requests, (N, 1), and one row of lanes, (1, 32), broadcast to that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as Names

import numpy as np

from ncu_swizzle.base.errors import BadProblem, NcuSwizzleError, Typed, UsageError
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.catalog import DeclaredProduct, KernelSource, Tile
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.smem import layout as layouts
from ncu_swizzle.smem.access import TYPES, Access
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.swizzle import Identity, Swizzle

FLOAT, HALF, CHUNK = 4, 2, 16  # bytes; a chunk is what cp.async and ldmatrix take of a row at once
IN_CHUNK = CHUNK // HALF
LANE = np.arange(32)[None, :]


def declared(family: str, kernel: str, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the tiles of a shipped kernel by name; none for a library kernel or one from another catalogue."""
    try:
        target = catalog.shipped().target(kernel, problem)
        return tiles_of(target) if target.family.name == family else ()
    except NcuSwizzleError:
        return ()


def has_tiles(target: Target) -> bool:
    """Return whether the accesses of a kernel are declared."""
    return target.family.name in FAMILIES and target.family.shipped and not target.kernel.library


def tiles_of(target: Target) -> tuple[Tile, ...]:
    """Return the tiles of a kernel and all accesses to them; raise UsageError if they are not declared."""
    family, kernel = target.family, target.kernel
    if kernel.library:
        raise UsageError(f"{kernel.name} is a library kernel: its layouts are not declared", "name another kernel")
    if family.standalone:
        raise UsageError(f"the accesses of {kernel.name} are not declared", "ncu-swizzle profile measures them")
    if family.name not in FAMILIES:
        raise UsageError(
            f"the accesses of the family {family.name} are not declared",
            "declare them in ncu_swizzle/kernels/tiles.py; docs/model.md says how",
        )
    return FAMILIES[family.name](KernelSource(target.source.read_text(encoding="utf-8")), target.problem)


# ---------------------------------------------------------------------------------------------- transpose, vectors

SQUARE = 32  # rows and columns of the tiles of both


def transpose(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the 32x32 tile of floats. Raises BadProblem if n is not a multiple of the tile."""
    n = problem["n"]
    if n % SQUARE:
        raise BadProblem(
            f"n={n} ends within a tile: accesses to partial tiles are not declared", Typed("--problem n=4096")
        )
    blocks = (n // SQUARE) ** 2
    line, lane = np.indices((SQUARE, 32))
    accesses = (
        Access("rows in", "st.shared.b32", line, lane, times=blocks),
        Access("columns out", "ld.shared.b32", lane, line, times=blocks),
    )
    return (Tile(name="32x32 tile", mapping=source.mapping(SQUARE, SQUARE, FLOAT, FLOAT), accesses=accesses),)


def vectors(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the 32x32 fp32 tile of each of a block's 4 warps: rows in, columns out by 4, 8 or 16 bytes per lane."""
    width = source.argument("sum_rows")  # floats per lane
    units = SQUARE // width
    step, lane = np.indices((units, 32))
    row, unit = np.divmod(32 * step + lane, units)
    kind = TYPES[FLOAT * width]
    accesses = (
        Access("rows in", f"st.shared.{kind}", row, unit * width, times=problem["tiles"]),
        Access("columns out", f"ld.shared.{kind}", lane, step * width, times=problem["tiles"]),
    )
    mapping = source.mapping(SQUARE, SQUARE, FLOAT, FLOAT * width)
    return (Tile(name="32x32 tile of a warp", mapping=mapping, accesses=accesses, copies=4, unit=width),)


# ---------------------------------------------------------------------------------------------- cute: a TiledCopy each

JOURNEY_REQUEST, JOURNEY_LANE = np.indices((32, 32))  # the 32 requests of a 128x32 tile, 4 floats per lane


def cute(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the single tile of a block, or of each of its 4 warps."""
    mapping = _written_in_cute(source.text)
    rows, columns = mapping.shape
    times = problem["n"] ** 2 // (rows * columns)
    journey = re.search(r"\btiles::([^\W_]++_\w++)\(", source.text)
    if not journey or journey[1] not in _JOURNEYS:
        raise UsageError("the kernel's source calls no known copy of a tile", f"one of {', '.join(_JOURNEYS)}")
    copies = 4 if rows == 8 else 1
    accesses = _JOURNEYS[journey[1]](times)
    return (Tile(name=f"{rows}x{columns} tile", mapping=mapping, accesses=accesses, copies=copies),)


def _written_in_cute(text: str) -> Mapping:
    """Return the mapping that the source writes in CuTe types."""
    match = re.search(r"Layout<Shape<_(\d+), _(\d+)>, Stride<_(\d+), _(\d+)>>", text)
    if not match:
        raise UsageError("the kernel's source names no layout", "Layout<Shape<_8, _8>, Stride<_1, _8>>() is one")
    layout = layouts.parse_layout("({},{}):({},{})".format(*match.groups()))
    swizzle = re.search(r"Swizzle<(\d+), (\d+), (\d+)>", text)
    if not swizzle:
        return Mapping(layout, Identity(), FLOAT)
    bits, base, shift = map(int, swizzle.groups())
    return Mapping(layout, Swizzle(bits=bits, base=base, shift=shift), FLOAT)


def _columns_of_8(times: int) -> tuple[Access, ...]:
    half = np.arange(2)[:, None]
    return (
        Access("columns in", "st.shared.b64", LANE % 4 * 2, LANE // 4, times=times),
        Access("rows out", "ld.shared.b32", 4 * half + LANE // 8, LANE % 8 + 0 * half, times=times),
    )


def _columns_of_128(times: int) -> tuple[Access, ...]:
    return (
        Access("columns in", "st.shared.v4.b32", 4 * JOURNEY_LANE, JOURNEY_REQUEST, times=times),
        Access("rows out", "ld.shared.v4.b32", 4 * JOURNEY_REQUEST, JOURNEY_LANE, times=times),
    )


def _rows_of_32(times: int) -> tuple[Access, ...]:
    group, word = np.divmod(JOURNEY_REQUEST, 8)
    rows, columns = 4 * JOURNEY_REQUEST + JOURNEY_LANE // 8, JOURNEY_LANE % 8 * 4
    return (
        Access("rows in", "st.shared.v4.b32", rows, columns, times=times),
        Access("rows out", "ld.shared.v4.b32", 32 * group + JOURNEY_LANE, 4 * word, times=times),
    )


def _words_of_32(times: int) -> tuple[Access, ...]:
    request, lane = np.indices((128, 32))
    group, column = np.divmod(request, 32)
    return (
        Access("rows in", "st.shared.b32", request, lane, times=times),
        Access("columns out", "ld.shared.b32", 32 * group + lane, column, times=times),
    )


_JOURNEYS = {"columns_of_8": _columns_of_8, "columns_of_128": _columns_of_128, "rows_of_32": _rows_of_32,
             "words_of_32": _words_of_32}  # fmt: skip


# ------------------------------------------------------------------------------- blocks for the tensor cores


def _blocks(name: str, op: str, rows: int, columns: int, times: int) -> Access:
    """Return an access by ldmatrix or stmatrix to each 16x16 block of a tile of halves: (blocks, 32)."""
    block, step = np.divmod(np.arange(rows // 16 * columns // 16)[:, None], columns // 16)
    return Access(name, op, 16 * block + LANE % 16, 16 * step + IN_CHUNK * (LANE // 16), times=times)


def _staged(name: str, rows: int, columns: int, times: int) -> Access:
    """Return what writes a tile of halves 8 rows at a time: four lanes per chunk, 4 bytes per lane."""
    eight, chunk = np.divmod(np.arange(rows // 8 * columns // IN_CHUNK)[:, None], columns // IN_CHUNK)
    return Access(name, "st.shared.b32", 8 * eight + LANE // 4, IN_CHUNK * chunk + 2 * (LANE % 4), times=times)


def _in_chunks(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the row and the chunk of each lane, (requests, 32) each, if neighbours take 16 bytes of a row each."""
    chunks = columns // IN_CHUNK
    request = np.arange(rows * chunks // 32)[:, None]
    return 32 // chunks * request + LANE // chunks, LANE % chunks + 0 * request


# ---------------------------------------------------------------------------------------------- gemm

DEPTH = 64  # columns of A and B, per tile; of wgmma's, too
A_ROWS, B_ROWS = 256, 128  # per tile
WARP_TILE = 64  # rows of A, and of B, that a warp reads


def gemm(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the tiles of A and B. A row of A is read by one row of warps, a row of B by one column of warps."""
    n = problem["n"]
    times = n // A_ROWS * (n // B_ROWS) * (n // DEPTH)
    copies = 3 if "Loads::kAhead" in source.text else 1  # tiles in shared memory if loads run ahead
    tiles = []
    for name, rows, readers in (("A", A_ROWS, B_ROWS // WARP_TILE), ("B", B_ROWS, A_ROWS // WARP_TILE)):
        mapping = source.mapping(rows, DEPTH, HALF, CHUNK)
        straddles = int(mapping.addresses(np.array([[1]]), np.array([[0]]))[0, 0]) % 128 != 0
        accesses = (
            _loaded_rows(f"{name} in", "ca" if straddles else "cg", rows, DEPTH, times),
            _blocks(f"{name} out", "ldmatrix.x4", rows, DEPTH, readers * times),
        )
        tiles.append(Tile(name=f"tile of {name}", mapping=mapping, accesses=accesses, copies=copies, unit=IN_CHUNK))
    return tuple(tiles)


def _loaded_rows(name: str, cache: str, rows: int, columns: int, times: int) -> Access:
    """Return the cp.async of a tile; each row of the source is in separate lines, wherever they are."""
    row, chunk = _in_chunks(rows, columns)
    source = row * columns * HALF + chunk * CHUNK
    return Access(name, f"cp.async.{cache}.16", row, chunk * IN_CHUNK, source=source, times=times)


# --------------------------------------------------------------------- wgmma, tma: TMA fills the tiles, uncounted

WGMMA_ROWS = 128  # rows of A, per tile
PIECE = 64  # rows and columns of C that a warpgroup stages at once
STEPS = ("InTurn", "Ring", "Wide", "Specialised", "Cluster", "Persistent", "Staged", "Matrix", "Stored")


def wgmma(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the tiles of A and B, which wgmma reads, and of the pieces of C if they are staged."""
    n, span = problem["n"], source.argument("Design")
    named = re.search(r"Step::k(\w+)", source.text)
    step = STEPS.index(named[1]) if named else 0
    columns = 256 if step >= STEPS.index("Wide") else 128
    stages = 4 if step >= STEPS.index("Wide") else 1 + (step >= STEPS.index("Ring"))
    # An instruction m64nNk16 does 64 x columns x 16 of the n^3 multiplications.
    product = DeclaredProduct(name="A B^T", columns=columns, times=n * n * n // (64 * columns * 16))
    a, b = (catalog.boxed(span, rows, DEPTH, HALF) for rows in (WGMMA_ROWS, columns))
    operands = (
        Tile(name="tile of A", mapping=a, accesses=(), copies=stages, unit=IN_CHUNK, products=(product,)),
        Tile(name="tile of B", mapping=b, accesses=(), copies=stages, unit=IN_CHUNK),
    )
    if step < STEPS.index("Staged"):
        return operands
    return (*operands, _pieces(source, STEPS[step], n * n // PIECE**2))


def _pieces(source: KernelSource, step: str, times: int) -> Tile:
    """Return the tile that stages 64x64 elements of C: a warpgroup has two."""
    if step == "Staged":
        mapping = catalog.policy_mapping("RowMajor", PIECE, PIECE, HALF, CHUNK)
        accesses = [_staged("C staged", PIECE, PIECE, times)]
    else:
        mapping = source.mapping(PIECE, PIECE, HALF, CHUNK)
        accesses = [_blocks("C staged", "stmatrix.x4", PIECE, PIECE, times)]
    if step != "Stored":
        rows, chunks = _in_chunks(PIECE, PIECE)
        accesses.append(Access("C out", "ld.shared.v4.b32", rows, IN_CHUNK * chunks, times=times))
    return Tile(name="piece of C", mapping=mapping, accesses=tuple(accesses), copies=4, unit=IN_CHUNK)


def tma(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the 64x64 fp16 tile as the hardware lays it out; ldmatrix reads it."""
    swizzled = re.search(r"layout::TmaSwizzle<(\d+),", source.text)
    mapping = catalog.boxed(int(swizzled[1]), 64, 64, HALF) if swizzled else source.mapping(64, 64, HALF, CHUNK)
    times = (problem["n"] // 64) ** 2
    accesses = [_blocks("blocks out", "ldmatrix.x4", 64, 64, times)]
    if "tma::stream<" in source.text:
        accesses.append(_blocks("blocks back", "stmatrix.x4", 64, 64, times))
    return (Tile(name="64x64 tile", mapping=mapping, accesses=tuple(accesses), unit=IN_CHUNK),)


# ---------------------------------------------------------------------------------------------- attention

QUERIES, HEAD = 64, 128  # rows of a tile, elements of a row
KEYS = 128  # rows of a tile of K or V that warpgroups read


def attention(source: KernelSource, problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return the one kind of tile: Q (later overwritten by O), K and V, 64x128 bf16 each."""
    if "warpgroups::" in source.text:
        return _of_warpgroups(problem)
    steps = problem["seq"] // QUERIES
    blocks = steps * problem["heads"] * problem["batch"]
    rows, chunks = _in_chunks(QUERIES, HEAD)
    accesses = (
        _loaded_rows("Q, K, V in", "cg", QUERIES, HEAD, blocks * (1 + 2 * steps)),
        _blocks("Q out", "ldmatrix.x4", QUERIES, HEAD, blocks),  # each of the 4 warps loads its own 16 rows
        _blocks("K out", "ldmatrix.x4", QUERIES, HEAD, 4 * blocks * steps),  # every warp loads all
        _blocks("V out", "ldmatrix.x4.trans", QUERIES, HEAD, 4 * blocks * steps),
        _staged("O staged", QUERIES, HEAD, blocks),
        Access("O out", "ld.shared.v4.b32", rows, IN_CHUNK * chunks, times=blocks),
    )
    mapping = source.mapping(QUERIES, HEAD, HALF, CHUNK)
    return (Tile(name="Q, K, V and O", mapping=mapping, accesses=accesses, copies=3, unit=IN_CHUNK),)


def _of_warpgroups(problem: Names[str, int]) -> tuple[Tile, ...]:
    """Return Q's tile (later O's), and those of K and V: TMA fills them, wgmma reads them."""
    heads = problem["heads"] * problem["batch"]
    queries, keys = -(-problem["seq"] // (2 * QUERIES)), -(-problem["seq"] // KEYS)
    # A wgmma takes 16 of the dimension that is summed over: QK^T sums over the head, PV over the keys.
    times = 2 * heads * queries * keys  # warpgroups, times their tiles of keys
    scores = DeclaredProduct(name="QK^T", columns=KEYS, times=times * HEAD // 16)
    values = DeclaredProduct(name="PV", columns=HEAD, times=times * KEYS // 16, a_in_shared=False)
    staged = _blocks("O staged", "stmatrix.x4", QUERIES, HEAD, 2 * heads * queries)
    own, shared = (catalog.boxed(128, rows, HEAD, HALF) for rows in (QUERIES, KEYS))
    return (
        Tile(name="Q and O", mapping=own, accesses=(staged,), copies=2, unit=IN_CHUNK, products=(scores,)),
        Tile(name="K and V", mapping=shared, accesses=(), copies=4, unit=IN_CHUNK, products=(values,)),
    )


FAMILIES: Names[str, Callable[[KernelSource, Names[str, int]], tuple[Tile, ...]]] = {
    "attention": attention, "cute": cute, "gemm": gemm, "tma": tma, "transpose": transpose, "vectors": vectors,
    "wgmma": wgmma,
}  # fmt: skip
