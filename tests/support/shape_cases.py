"""GEMMs of tests/data/emulate/shapes.cu with layouts that are right; shape_mutations.py changes them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ncu_swizzle.emulate.contents import Buffer
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.run import setting_of
from ncu_swizzle.emulate.tensor_map import Tiled
from ncu_swizzle.emulate.tile_probes import followed_tiles
from ncu_swizzle.emulate.tile_record import FollowedTiles
from tests.support.emulation import kernel
from tests.support.tile_oracle import ELEMENT, Gemm, Side, TensorMap, outcome

A, B, C = 0x7F0000000000, 0x7F0000100000, 0x7F0000200000
MAPS_AT, SHARED = 0x70, 160 * 1024
SPANS, MODES = (16, 32, 64, 128), (0, 3, 2, 1)  # by the tensor map's swizzle
TYPES = {"f16": 6, "bf16": 9, "tf32": 7, "e4m3": 0, "s8": 0}
RANKS = 5


@dataclass(frozen=True)
class ShapeCase:
    """One launch of a kernel of shapes.cu."""

    label: str
    kernel: str
    gemm: Gemm
    arrangements: str = "kk"

    @property
    def right(self) -> bool:
        return outcome(self.gemm, self.arrangements) == "right"

    def arguments(self, a: int, b: int, c: int) -> list[bytes]:
        """Return the kernel's arguments, with the buffers at these addresses."""
        g = self.gemm
        words = [*_words(g.a), *_words(g.b), g.base, g.expected, g.tiles, g.steps, g.stages, g.k]
        shapes = b"".join(struct.pack("<I", word & 0xFFFFFFFF) for word in words)
        first = struct.pack("<Q", a) if g.a_in_registers else _map(g.map_a, a)
        return [first, _map(g.map_b, b), struct.pack("<Q", c), shapes]

    def launch(self) -> Launch:
        g = self.gemm
        first, *others = self.arguments(A, B, C)
        element, rows, columns = ELEMENT[g.kind], 128 * g.groups, 2 * g.columns
        buffers = (
            Buffer("a", A, rows * g.k * element),
            Buffer("b", B, columns * g.k * element),
            Buffer("c", C, rows * columns * 4),
        )
        head = first + bytes(MAPS_AT - len(first)) if g.a_in_registers else bytes(MAPS_AT) + first
        cluster = (1, 2, 1) if g.multicast else (1, 1, 1)
        block = (128 * g.groups, 1, 1)
        return Launch(
            grid=(2, 2, 1),
            block=block,
            shared_dynamic=SHARED,
            parameters=head + b"".join(others),
            cluster=cluster,
            buffers=buffers,
        )

    def judged(self) -> FollowedTiles:
        code, launch = kernel("shapes", self.kernel), self.launch()
        setting = setting_of(code, launch, prepare(code, arrays=bool(launch.memory)), Clock())
        return followed_tiles(code, setting, launch.buffers)


def _words(side: Side) -> list[int]:
    coordinates = [
        value for axes in (side.box, side.block, side.depth, side.origin) for value in (*axes, *(0,) * RANKS)[:RANKS]
    ]
    first = (side.boxes, side.apart, side.at, side.stage, side.start, side.group, side.pair, side.further, side.per)
    low = side.leading >> 4 << 16
    high = side.stride >> 4 | side.base_offset << 17 | side.mode << 30
    return [*first, len(side.box), *coordinates, low, high]


def _map(tensor: TensorMap, address: int) -> bytes:
    tiled = Tiled(
        address + tensor.offset,
        tensor.dtype,
        tensor.sizes,
        tensor.strides,
        tensor.box,
        tensor.swizzle,
        tensor.interleave,
        0,
        tensor.fill,
    )
    return tiled.encoded()


# ---------------------------------------------------------------------------------------------- layouts that are right


def k_major(kind: str, rows: int, groups: int, swizzle: int, *, k: int, is_a: bool) -> tuple[TensorMap, Side]:
    """Return a tile in boxes as wide as the swizzle, of 128 bytes along K."""
    element, span = ELEMENT[kind], SPANS[swizzle]
    wide, high = span // element, rows * groups
    apart = span * high
    pair, further, per = {16: (0, 2 * apart, 1), 32: (0, apart, 1), 64: (32, apart, 2), 128: (32, 64, 2)}[span]
    tensor = TensorMap(TYPES[kind], (k, 2 * high), (k * element,), (wide, high), swizzle)
    side = Side(
        boxes=128 // span,
        apart=apart,
        group=8 * 8 * span if is_a else 0,
        pair=pair,
        further=further,
        per=per,
        box=(wide, 0),
        block=(0, high),
        depth=(128 // element, 0),
        leading=16 if swizzle else apart,
        stride=8 * span,
        mode=MODES[swizzle],
    )
    return tensor, side


def mn_major(kind: str, rows: int, groups: int, swizzle: int, *, k: int, is_a: bool) -> tuple[TensorMap, Side]:
    """Return a tile of 64 values of k, MN-major, in boxes as wide as the swizzle."""
    span, high = SPANS[swizzle], rows * groups
    wide, deep = span // 2, 64
    apart = span * deep
    tensor = TensorMap(TYPES[kind], (2 * high, k), (2 * high * 2,), (wide, deep), swizzle)
    side = Side(
        boxes=high // wide,
        apart=apart,
        group=64 // wide * apart if is_a else 0,
        further=16 * span,
        box=(wide, 0),
        block=(high, 0),
        depth=(0, deep),
        leading=apart if swizzle else 128,
        stride=8 * span if swizzle else apart,
        mode=MODES[swizzle],
    )
    return tensor, side


def blocked(
    kind: str, rows: int, groups: int, swizzle: int, rank: int, *, k: int, is_a: bool
) -> tuple[TensorMap, Side]:
    """Return a K-major tile copied as one box of 3 to 5 dimensions: K is divided, and the rows from 4 on."""
    plain, side = k_major(kind, rows, groups, swizzle, k=k, is_a=is_a)
    element, high, (wide, _) = ELEMENT[kind], rows * groups, plain.box
    slices = 128 // element // wide
    pitch = k * element
    sizes, strides, box, block = [wide, 2 * high], [pitch], [wide, high], [0, high]
    if rank > 3:
        sizes, strides, box, block = [wide, 8, high // 4], [pitch, 8 * pitch], [wide, 8, high // 8], [0, 0, high // 8]
    depth = [0] * len(box)
    sizes, strides, box, block = [*sizes, k // wide], [*strides, wide * element], [*box, slices], [*block, 0]
    depth.append(slices)
    if rank > 4:  # a batch of one
        sizes, strides, box, block, depth = (
            [*sizes, 1],
            [*strides, 2 * high * pitch],
            [*box, 1],
            [*block, 0],
            [*depth, 0],
        )
    tensor = replace(plain, sizes=tuple(sizes), strides=tuple(strides), box=tuple(box))
    zero = (0,) * len(box)
    return tensor, replace(side, boxes=1, box=zero, block=tuple(block), depth=tuple(depth), origin=zero)


def gemm(kind: str, columns: int, a: tuple[TensorMap, Side], b: tuple[TensorMap, Side], **more: object) -> Gemm:
    """Return a launch with A's stages before B's, at multiples of 1024 bytes."""
    made = Gemm(kind, columns, a[1], b[1], a[0], b[0], **more)  # type: ignore[arg-type]
    size_a, size_b = a[1].boxes * a[0].copied, b[1].boxes * b[0].copied
    stage = -(-(size_a + size_b) // 1024) * 1024
    return replace(
        made,
        a=replace(a[1], at=0, stage=stage),
        b=replace(b[1], at=size_a, stage=stage),
        expected=made.brought,
    )


def bases() -> Iterator[ShapeCase]:
    """Yield launches that are right, of every kernel."""
    for swizzle in (3, 2, 1, 0):
        for name, kind in (("half64kk", "f16"), ("tf32", "tf32"), ("fp8", "e4m3"), ("int8", "s8")):
            k = 4 * 128 // ELEMENT[kind]
            made = [k_major(kind, 64, 1, swizzle, k=k, is_a=is_a) for is_a in (True, False)]
            yield ShapeCase(f"{name} {SPANS[swizzle]}", name, gemm(kind, 64, *made))
        made = [mn_major("f16", 64, 1, swizzle, k=256, is_a=is_a) for is_a in (True, False)]
        across = (True, True)
        yield ShapeCase(f"half64mm {SPANS[swizzle]}", "half64mm", gemm("f16", 64, *made, across=across), "mm")
    for ranks, swizzle in (((3, 2), 3), ((3, 3), 2), ((4, 3), 3), ((5, 4), 1), ((2, 5), 0), ((4, 2), 2)):
        made = [
            blocked("f16", 64, 1, swizzle, rank, k=256, is_a=is_a) if rank > 2
            else k_major("f16", 64, 1, swizzle, k=256, is_a=is_a)
            for rank, is_a in zip(ranks, (True, False), strict=True)
        ]  # fmt: skip
        yield ShapeCase(f"half64kk {SPANS[swizzle]} {ranks[0]}-D {ranks[1]}-D", "half64kk", gemm("f16", 64, *made))
    a = k_major("bf16", 64, 2, 3, k=256, is_a=True)
    for swizzle in (3, 1):
        b = mn_major("bf16", 256, 1, swizzle, k=256, is_a=False)
        made = gemm("bf16", 256, a, b, across=(False, True), groups=2)
        yield ShapeCase(f"brain256km {SPANS[swizzle]}", "brain256km", made, "km")
    for swizzle in (3, 0):
        made = [k_major("f16", rows, 1, swizzle, k=256, is_a=rows == 64) for rows in (64, 8)]
        yield ShapeCase(f"half8kk {SPANS[swizzle]}", "half8kk", gemm("f16", 8, *made))
    a = k_major("f16", 64, 1, 3, k=256, is_a=True)
    for swizzle in (3, 2):
        b = k_major("f16", 64, 1, swizzle, k=256, is_a=False)
        made = gemm("f16", 64, (a[0], replace(a[1], boxes=0)), b, a_in_registers=True)
        yield ShapeCase(f"registersK {SPANS[swizzle]}", "registers_k", made)
        b = mn_major("f16", 64, 1, swizzle, k=256, is_a=False)
        made = gemm("f16", 64, (a[0], replace(a[1], boxes=0)), b, across=(False, True), a_in_registers=True)
        yield ShapeCase(f"registersM {SPANS[swizzle]}", "registers_m", made, "km")
    for swizzle in (2, 1):
        made = [k_major("f16", 64, 1, swizzle, k=256, is_a=is_a) for is_a in (True, False)]
        yield ShapeCase(f"multicast {SPANS[swizzle]}", "multicast", gemm("f16", 64, *made, multicast=True))
