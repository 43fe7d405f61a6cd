"""GEMMs of tests/data/emulate/umma.cu with layouts that are right; umma_mutations.py changes them."""

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench.gemms import SHARED, A, B, C, encoded_map, followed
from ncu_swizzle.emulate.contents import Buffer
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.tile_record import FollowedTiles
from tests.support.umma_oracle import ELEMENT, Side, TensorMap, Umma, outcome

AXES = 3


@dataclass(frozen=True)
class UmmaCase:
    """One launch of a kernel of umma.cu."""

    label: str
    gemm: Umma

    @property
    def fate(self) -> str:
        return outcome(self.gemm)

    def launch(self) -> Launch:
        g = self.gemm
        words = [*_words(g.a), *_words(g.b), g.base, g.expected, g.tiles, g.steps, g.stages, g.instruction]
        words += [g.allocated, g.freed, g.column, g.loaded, g.scales_a, g.scales_b, g.commits, g.waits]
        shape = b"".join(struct.pack("<I", word & 0xFFFFFFFF) for word in words)
        parameters = encoded_map(g.map_a, A) + encoded_map(g.map_b, B) + struct.pack("<Q", C) + shape
        return Launch(
            grid=(g.group, 1, 1),
            block=(128, 1, 1),
            shared_dynamic=SHARED,
            parameters=parameters,
            cluster=(g.group, 1, 1),
            buffers=(
                Buffer("a", A, g.bytes_a),
                Buffer("b", B, g.bytes_b),
                Buffer("c", C, g.group * 128 * g.loaded * 4),
            ),
        )

    def judged(self) -> FollowedTiles:
        return followed("umma", f"{self.gemm.kind}_{self.gemm.group}", self.launch())


def _words(side: Side) -> Iterator[int]:
    yield from (side.boxes, side.apart, side.at, side.stage, side.start, side.pair, side.further, side.per)
    yield len(side.box)
    for axes in (side.box, side.block, side.peer, side.depth, side.origin):
        yield from (*axes, *(0,) * AXES)[:AXES]
    yield (side.leading >> 4) << 16
    yield side.stride >> 4 | side.version << 14 | side.base_offset << 17 | side.absolute << 20 | side.layout << 29


# ---------------------------------------------------------------------------------------------- layouts that are right

SPANS, LAYOUT_OF = (16, 32, 64, 128), (0, 6, 4, 2)  # by the tensor map's swizzle
MAP_TYPES = {"f16": 6, "tf32": 7, "f8": 0, "i8": 0, "mxf8": 0}
TYPE_CODES = {"f16": 0, "tf32": 2, "f8": 0, "i8": 1, "mxf8": 0}
ALIGNED = 1024


def instruction(kind: str, m: int, n: int, across: tuple[bool, bool] = (False, False)) -> int:
    """Return an instruction descriptor."""
    code = TYPE_CODES[kind]
    result = {"i8": 2, "mxf8": 0}.get(kind, 1)
    scale = 1 << 23 if kind == "mxf8" else 0  # E8M0
    majors = across[0] << 15 | across[1] << 16
    return result << 4 | code << 7 | code << 10 | majors | scale | n >> 3 << 17 | m >> 4 << 24


def k_major(kind: str, rows: int, swizzle: int, *, k: int, group: int) -> tuple[TensorMap, Side]:
    """Return a tile of `rows` of a block in boxes as wide as the swizzle, of 128 bytes along K."""
    element, span = ELEMENT[kind], SPANS[swizzle]
    wide = span // element
    apart = span * rows
    pair, further, per = {16: (0, 2 * apart, 1), 32: (0, apart, 1), 64: (32, apart, 2), 128: (32, 64, 2)}[span]
    tensor = TensorMap(MAP_TYPES[kind], (k, 2 * rows * group), (k * element,), (wide, rows), swizzle)
    side = Side(
        boxes=128 // span,
        apart=apart,
        pair=pair,
        further=further,
        per=per,
        box=(wide, 0),
        block=(0, rows * group),
        peer=(0, rows),
        depth=(128 // element, 0),
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
    tensor = TensorMap(
        MAP_TYPES[kind], (2 * rows * group, k), (2 * rows * group * element,), (wide, deep), 4 if atoms else swizzle
    )
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
    kind: str, group: int, m: int, n: int, a: tuple[TensorMap, Side], b: tuple[TensorMap, Side], across: str
) -> Umma:
    """Return the GEMM of these tiles, stages one after the other."""
    (map_a, side_a), (map_b, side_b) = a, b
    size_a, size_b = (-(-rows * 128 // ALIGNED) * ALIGNED for rows in (m // group, n // group))
    majors = across[0] == "m", across[1] == "m"
    columns = n // 2 if group == 2 and m == 128 else n
    taken = max(32, 1 << (columns - 1).bit_length()) * (2 if kind == "mxf8" else 1)
    gemm = Umma(
        kind=kind,
        group=group,
        m=m,
        n=n,
        a=replace(side_a, at=0, stage=size_a + size_b),
        b=replace(side_b, at=size_a, stage=size_a + size_b),
        map_a=map_a,
        map_b=map_b,
        instruction=instruction(kind, m, n, majors),
        arrangements=across,
        allocated=taken,
        freed=taken,
        loaded=columns,
    )
    return replace(gemm, expected=gemm.brought)


def right_cases() -> Iterator[UmmaCase]:
    """Yield GEMMs of all kinds, shapes, majors and modes."""
    k = {kind: 3 * 128 // element for kind, element in ELEMENT.items()}
    for kind, group, swizzle in itertools.product(("f16", "tf32", "f8", "i8"), (1, 2), range(4)):
        for m, n in ((64, 64), (128, 128), (128, 32)) if group == 1 else ((256, 128), (128, 64), (256, 256)):
            tiles = [k_major(kind, rows // group, swizzle, k=k[kind], group=group) for rows in (m, n)]
            gemm = placed(kind, group, m, n, tiles[0], tiles[1], "kk")
            yield UmmaCase(f"{kind} {group} {m}x{n} {SPANS[swizzle]}", gemm)
        if kind == "tf32" and swizzle != 3:
            continue
        m, n = (128, 128) if group == 1 else (256, 256)
        for across in ("mm", "km", "mk"):
            tiles = [
                (mn_major if major == "m" else k_major)(kind, rows // group, swizzle, k=k[kind], group=group)
                for rows, major in zip((m, n), across, strict=True)
            ]
            yield UmmaCase(f"{kind} {group} {across} {SPANS[swizzle]}", placed(kind, group, m, n, *tiles, across))
