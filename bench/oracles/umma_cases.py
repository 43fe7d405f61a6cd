"""GEMMs of tests/data/emulate/umma.cu with layouts that are right; bench/oracles/umma_mutations.py changes them."""

import itertools
import math
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.oracles.gemms import SHARED, A, B, C, encoded_map, followed
from bench.oracles.narrow_types import PACKED, PackedMap
from bench.oracles.umma_oracle import BOX, CODES, ELEMENT, FACTORS, Scales, Side, TensorMap, Umma, map_bits, outcome
from ncu_swizzle.emulate.counts import Buffer, FollowedTiles, Launch

AXES = 3
SCALES_A, SCALES_B = 0x7F0000300000, 0x7F0000400000


@dataclass(frozen=True)
class UmmaCase:
    """One launch of a kernel of umma.cu."""

    label: str
    gemm: Umma

    @property
    def right(self) -> bool:
        return outcome(self.gemm) == "right"

    def launch(self) -> Launch:
        g = self.gemm
        words = [*_words(g.a), *_words(g.b), *_scale_words(g.scales_a), *_scale_words(g.scales_b)]
        words += [g.base, g.expected, g.tiles, g.steps, g.stages, g.instruction]
        words += [g.allocated, g.freed, g.column, g.loaded, g.commits, g.waits, g.factors]
        shape = b"".join(struct.pack("<I", word & 0xFFFFFFFF) for word in words)
        if g.stored:
            tiles = [number for tensor in (g.map_a, g.map_b) for number in _of_threads(tensor)]
            parameters = struct.pack("<3Q8i", A, B, C, *tiles) + shape
        else:
            maps = encoded_map(g.map_a, A) + encoded_map(g.map_b, B)
            maps += encoded_map(SCALE_MAP, SCALES_A) + encoded_map(SCALE_MAP, SCALES_B)
            parameters = maps + struct.pack("<Q", C) + shape
        return Launch(
            grid=(g.group, 1, 1),
            block=(128, 1, 1),
            shared_dynamic=SHARED,
            parameters=parameters,
            cluster=(g.group, 1, 1),
            buffers=(
                Buffer("a", A, g.sizes[0]),
                Buffer("b", B, g.sizes[1]),
                Buffer("c", C, g.group * 128 * g.loaded * 4),
            ),
        )

    def judged(self) -> FollowedTiles:
        which = "stored" if self.gemm.stored else self.gemm.group
        return followed("umma", f"{self.gemm.kind}_{which}", self.launch())


def _of_threads(tensor: TensorMap) -> tuple[int, int, int, int]:
    """Return what threads are told that store as a tensor map would."""
    chunks = tensor.box[0] * tensor.copied // math.prod(tensor.box) // 16
    return tensor.strides[0], chunks, tensor.box[1], SPANS[tensor.swizzle] // 16 - 1


def _words(side: Side) -> Iterator[int]:
    yield from (side.boxes, side.apart, side.at, side.stage, side.start, side.pair, side.further, side.per)
    yield len(side.box)
    for axes in (side.box, side.block, side.peer, side.depth, side.origin):
        yield from (*axes, *(0,) * AXES)[:AXES]
    yield (side.leading >> 4) << 16
    yield side.stride >> 4 | side.version << 14 | side.base_offset << 17 | side.absolute << 20 | side.layout << 29


def _scale_words(s: Scales) -> Iterator[int]:
    yield from (s.at, s.stage, s.rows, s.deep, s.total, s.further, s.column, s.reads)
    yield s.start >> 4
    yield s.stride >> 4 | s.version << 14 | s.layout << 29


# ---------------------------------------------------------------------------------------------- layouts that are right

SPANS, LAYOUT_OF = (16, 32, 64, 128), (0, 6, 4, 2)  # by the tensor map's swizzle
MAP_TYPES = {"f16": 6, "bf16": 9, "tf32": 7, "e2m3": 15, "e3m2": 15, "e2m1": 14, "fp4": 13}  # of others 0
SCALE_MAP = TensorMap(0, (16, 1 << 14), (16,), (16, 32), 0)  # 512 bytes by 512
ALIGNED = 1024
Types = tuple[str, str]


def instruction(kind: str, types: Types, m: int, n: int, across: tuple[bool, bool] = (False, False)) -> int:
    """Return an instruction descriptor."""
    a, b = (CODES[one] for one in types)
    result = 0 if kind in FACTORS else 2 if kind == "i8" else 1
    scale = 1 << 23 if kind in FACTORS and FACTORS[kind][1] == "ue8m0" else 0
    majors = across[0] << 15 | across[1] << 16
    return result << 4 | a << 7 | b << 10 | majors | scale | n >> 3 << 17 | m >> 4 << 24


def tensor_map(kind: str, sizes: tuple[int, ...], box: tuple[int, ...], swizzle: int) -> TensorMap:
    """Return the map of a matrix without gaps."""
    data_type = MAP_TYPES.get(kind, 0)
    make = PackedMap if data_type in PACKED else TensorMap
    return make(data_type, sizes, (sizes[0] * map_bits(kind) // 8,), box, swizzle)


def in_elements(kind: str, size: int) -> int:
    """Return how many elements so many bytes of shared memory are."""
    return size // ELEMENT[kind] * (2 if kind == "fp4" else 1)


def k_major(kind: str, rows: int, swizzle: int, *, k: int, group: int) -> tuple[TensorMap, Side]:
    """Return a tile of `rows` of a block in boxes as wide as the swizzle, of 128 bytes along K."""
    span = SPANS[swizzle]
    wide = in_elements(kind, span)
    apart = span * rows
    pair, further, per = {16: (0, 2 * apart, 1), 32: (0, apart, 1), 64: (32, apart, 2), 128: (32, 64, 2)}[span]
    tensor = tensor_map(kind, (k, 2 * rows * group), (wide, rows), swizzle)
    side = Side(
        boxes=128 // span,
        apart=apart,
        pair=pair,
        further=further,
        per=per,
        box=(wide, 0),
        block=(0, rows * group),
        peer=(0, rows),
        depth=(in_elements(kind, 128), 0),
        leading=16 if swizzle else apart,
        stride=8 * span,
        layout=LAYOUT_OF[swizzle],
    )
    return tensor, side


def mn_major(kind: str, rows: int, swizzle: int, *, k: int, group: int) -> tuple[TensorMap, Side]:
    """Return a tile of four steps along K, MN-major, in boxes as wide as the swizzle. tf32 has atoms of 32 bytes."""
    element, span = ELEMENT[kind], SPANS[swizzle]
    wide, deep = span // element, 128 // element
    one, apart = 32 // element, span * deep
    atoms = kind == "tf32"
    tensor = tensor_map(kind, (2 * rows * group, k), (wide, deep), 4 if atoms else swizzle)
    side = Side(
        boxes=-(-rows // wide),
        apart=apart,
        further=one * span,
        box=(wide, 0),
        block=(rows * group, 0),
        peer=(rows, 0),
        depth=(0, deep),
        leading=8 * span if not swizzle else apart,
        stride=apart if not swizzle else (4 if atoms else 8) * span,
        layout=1 if atoms else LAYOUT_OF[swizzle],
    )
    return tensor, side


def placed(
    kind: str,
    types: Types,
    group: int,
    m: int,
    n: int,
    a: tuple[TensorMap, Side],
    b: tuple[TensorMap, Side],
    across: str,
) -> Umma:
    """Return the GEMM of these tiles, stages one after the other: A, B, and their scale factors."""
    (map_a, side_a), (map_b, side_b) = a, b
    size_a, size_b = (-(-rows * 128 // ALIGNED) * ALIGNED for rows in (m // group, n // group))
    majors = across[0] == "m", across[1] == "m"
    columns = n // 2 if group == 2 and m == 128 else n
    deep = FACTORS[kind][0] if kind in FACTORS else 0
    scales = [Scales(rows=rows, deep=deep, total=3 * deep, further=deep) for rows in (1, -(-n // 128))]
    at_scales, size = size_a + size_b, BOX * sum(one.boxes for one in scales)
    stage = -(-(at_scales + size) // ALIGNED) * ALIGNED
    scales = [
        replace(one, stage=stage, at=at_scales + before * BOX, column=columns + 4 * before)
        for one, before in zip(scales, (0, scales[0].boxes), strict=True)
    ]
    taken = max(32, 1 << (columns + 4 * size // BOX - 1).bit_length())
    gemm = Umma(
        kind=kind,
        types=types,
        group=group,
        m=m,
        n=n,
        a=replace(side_a, at=0, stage=stage),
        b=replace(side_b, at=size_a, stage=stage),
        map_a=map_a,
        map_b=map_b,
        instruction=instruction(kind, types, m, n, majors),
        arrangements=across,
        allocated=taken,
        freed=taken,
        loaded=columns,
        scales_a=scales[0],
        scales_b=scales[1],
    )
    return replace(gemm, expected=gemm.brought)


# Names of the cases, the kernel's kind and the types of A and B.
ALIKE = {"f16": ("f16", "f16"), "tf32": ("tf32", "tf32"), "f8": ("f8", "e4m3"), "i8": ("i8", "s8")}
WIDE: dict[str, tuple[str, Types]] = {
    **{name: (kind, (one, one)) for name, (kind, one) in ALIKE.items()},
    "bf16": ("f16", ("bf16", "bf16")),
    "e5m2": ("f8", ("e5m2", "e4m3")),
    "mxf8": ("mxf8", ("e4m3", "e5m2")),
}
NARROW: dict[str, tuple[str, Types]] = {
    "e2m1": ("f8", ("e2m1", "e2m1")),
    "e2m3": ("f8", ("e2m3", "e4m3")),
    "e3m2": ("f8", ("e2m1", "e3m2")),
    "mxf6": ("mxf8", ("e3m2", "e2m1")),
    "mxf4": ("mxf4", ("fp4", "fp4")),
    "nvf4": ("nvf4", ("fp4", "fp4")),
}


def right_cases() -> Iterator[UmmaCase]:
    """Yield GEMMs of all kinds, shapes, majors and modes."""
    for name, group, swizzle in itertools.product(WIDE | NARROW, (1, 2), range(4)):
        kind, types = (WIDE | NARROW)[name]
        if name in NARROW and "fp4" not in types and swizzle != 3:
            continue  # TMA leaves gaps with the 128-byte swizzle alone, or without one, which no descriptor reads
        k = in_elements(types[0], 3 * 128)
        of_one = ((128, 64), (128, 128), (128, 256)) if kind in FACTORS else ((64, 64), (128, 128), (128, 32))
        of_pair = ((256, 128), (256, 256)) if kind in FACTORS else ((256, 128), (128, 64), (256, 256))
        for m, n in of_one if group == 1 else of_pair:
            tiles = [
                k_major(one, rows // group, swizzle, k=k, group=group) for one, rows in zip(types, (m, n), strict=True)
            ]
            gemm = placed(kind, types, group, m, n, tiles[0], tiles[1], "kk")
            yield UmmaCase(f"{name} {group} {m}x{n} {SPANS[swizzle]}", gemm)
        if "fp4" in types or (name == "tf32" and swizzle != 3):
            continue
        m, n = (128, 128) if group == 1 else (256, 256)
        for across in ("mm", "km", "mk"):
            tiles = [
                (mn_major if major == "m" else k_major)(one, rows // group, swizzle, k=k, group=group)
                for one, rows, major in zip(types, (m, n), across, strict=True)
            ]
            gemm = placed(kind, types, group, m, n, tiles[0], tiles[1], across)
            yield UmmaCase(f"{name} {group} {across} {SPANS[swizzle]}", gemm)


FAR = 1 << 20  # threads know no end of a matrix


def stored_cases() -> Iterator[UmmaCase]:
    """Yield GEMMs of one block whose tiles threads store, one at a time."""
    for case in right_cases():
        g = case.gemm
        if g.group == 1 and not g.factors and g.types in {(one, one) for one in ("f16", "tf32", "e4m3")}:
            if g.kind == "tf32" and "m" in g.arrangements:
                continue  # atoms of 32 bytes
            maps = {name: replace(getattr(g, name), sizes=(FAR, FAR)) for name in ("map_a", "map_b")}
            yield UmmaCase(f"stored {case.label}", replace(g, stored=True, stages=1, **maps))
