"""GEMMs on tensor maps and wgmma: right ones, ones with one thing changed, and those that an H100 ran, to emulate."""

import random
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.oracles.tile_oracle import ELEMENT, Gemm, Side, TensorMap, outcome
from ncu_swizzle.emulate.counts import Buffer, FollowedTiles, Launch
from ncu_swizzle.emulate.liveness import Demand
from ncu_swizzle.emulate.program import PreparedCode, prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.run import setting_of
from ncu_swizzle.emulate.tensor_map import Tiled
from ncu_swizzle.emulate.tile_probes import followed_tiles
from tests.support.emulation import kernel
from tests.support.places import measured

A, B, C = 0x7F0000000000, 0x7F0000100000, 0x7F0000200000
MAPS_AT, SHARED = 0x70, 160 * 1024
SPANS, MODES = (16, 32, 64, 128), (0, 3, 2, 1)  # by the tensor map's swizzle
TYPES = {"f16": 6, "bf16": 9, "tf32": 7, "e4m3": 0, "s8": 0}
RANKS = 5


@cache
def _prepared(file: str, name: str, arrays: bool) -> PreparedCode:
    return prepare(kernel(file, name), Demand(arrays=arrays))


def followed(file: str, name: str, launch: Launch) -> FollowedTiles:
    """Return what is said of the tiles of a launch of tests/data/emulate."""
    code = kernel(file, name)
    setting = setting_of(code, launch, _prepared(file, name, bool(launch.memory)), Clock())
    return followed_tiles(code, setting, launch.buffers)


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
        first = struct.pack("<Q", a) if g.a_in_registers else encoded_map(g.map_a, a)
        return [first, encoded_map(g.map_b, b), struct.pack("<Q", c), shapes]

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
        return followed("shapes", self.kernel, self.launch())


def _words(side: Side) -> list[int]:
    coordinates = [
        value for axes in (side.box, side.block, side.depth, side.origin) for value in (*axes, *(0,) * RANKS)[:RANKS]
    ]
    first = (side.boxes, side.apart, side.at, side.stage, side.start, side.group, side.pair, side.further, side.per)
    low = side.leading >> 4 << 16
    high = side.stride >> 4 | side.base_offset << 17 | side.mode << 30
    return [*first, len(side.box), *coordinates, low, high]


def encoded_map(tensor: TensorMap, address: int) -> bytes:
    """Return the tensor map of a buffer at an address, as the driver encodes it."""
    modes = (tensor.swizzle, tensor.interleave, 0, tensor.fill)
    return Tiled(address + tensor.offset, tensor.dtype, tensor.sizes, tensor.strides, tensor.box, *modes).encoded()


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
        made, a=replace(a[1], at=0, stage=stage), b=replace(b[1], at=size_a, stage=stage), expected=made.brought
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


def sides(side: Side) -> Iterator[tuple[str, Side]]:
    """Yield an operand with one field changed."""
    yield from ((f"mode {mode}", replace(side, mode=mode)) for mode in range(4) if mode != side.mode)
    offsets = (0, 16, 128, 256, 512, 1024, 2048, 4096, side.leading * 2, side.leading // 2 // 16 * 16)
    yield from ((f"LBO {n}", replace(side, leading=n)) for n in sorted({*offsets} - {side.leading}))
    offsets = (0, 16, 128, 256, 512, 1024, 2048, side.stride * 2, side.stride // 2)
    yield from ((f"SBO {n}", replace(side, stride=n)) for n in sorted({*offsets} - {side.stride}))
    yield from ((f"base offset {n}", replace(side, base_offset=n)) for n in range(1, 8))
    yield from ((f"start {n}", replace(side, start=n)) for n in (16, 32, 64, 128, 256, 512, 1024, 4096, 8192, 65536))
    yield from ((f"pair {n}", replace(side, pair=n)) for n in (0, 16, 64, 128) if side.per > 1 and n != side.pair)
    further = {0, 32, 128, side.further * 2, side.further // 2 // 16 * 16}
    yield from ((f"further {n}", replace(side, further=n)) for n in sorted(further - {side.further}))
    yield from (
        (f"apart {n}", replace(side, apart=n))
        for n in (512, 1024, side.apart * 2)
        if side.boxes > 1 and n != side.apart
    )
    yield from ((f"at +{n}", replace(side, at=side.at + n)) for n in (128, 512, 1024))
    yield "boxes", replace(side, boxes=max(1, side.boxes // 2))
    for axis in range(len(side.box)):
        for name in ("box", "depth", "origin"):  # which rows a block takes is its own affair
            values = getattr(side, name)
            for n in {0, values[axis] * 2, values[axis] // 2, values[axis] + 8} - {values[axis]}:
                changed = (*values[:axis], n, *values[axis + 1 :])
                yield f"{name} {axis} {n}", replace(side, **{name: changed})


def maps(tensor: TensorMap) -> Iterator[tuple[str, TensorMap]]:
    """Yield a tensor map with one field changed."""
    yield from ((f"swizzle {n}", replace(tensor, swizzle=n)) for n in range(4) if n != tensor.swizzle)
    for axis in range(len(tensor.box)):
        for n in sorted({tensor.box[axis] * 2, max(1, tensor.box[axis] // 2)} - {tensor.box[axis]}):
            yield f"box {axis} {n}", replace(tensor, box=(*tensor.box[:axis], n, *tensor.box[axis + 1 :]))
        size = tensor.sizes[axis]
        for n in sorted({size // 2, max(1, size - 1), size * 2} - {size}):
            yield (
                f"size {axis} {n}",
                replace(tensor, sizes=(*tensor.sizes[:axis], max(1, n), *tensor.sizes[axis + 1 :])),
            )
    for axis, stride in enumerate(tensor.strides):
        for n in sorted({stride // 2, stride * 2, stride + 16, max(16, stride - 16), 16} - {stride}):
            yield (
                f"stride {axis} {n}",
                replace(tensor, strides=(*tensor.strides[:axis], n, *tensor.strides[axis + 1 :])),
            )
    yield from ((f"type {n}", replace(tensor, dtype=n)) for n in (0, 1, 2, 6, 7, 9, 11) if n != tensor.dtype)
    yield "fill", replace(tensor, fill=1)
    yield from ((f"offset {n}", replace(tensor, offset=n)) for n in (16, 512))
    yield "interleave 1", replace(tensor, interleave=1)


def shape_case(label: str) -> ShapeCase:
    """Return the case of this label: a right one, or one with one field changed."""
    base = next(case for case in bases() if label.partition(":")[0] == case.label)
    return base if label == base.label else next(case for case in mutations(base) if case.label == label)


_VALUES = (
    (r"a base offset of (\d+) would", "base_offset"),
    (r"an SBO of (\d+) would", "stride"),
    (r"an LBO of (\d+) would", "leading"),
)


def repaired(case: ShapeCase, message: str) -> ShapeCase:
    """Return the case with the value that a message names."""
    name = "a" if " as A (" in message else "b"
    side, tensor, fit = getattr(case.gemm, name), getattr(case.gemm, f"map_{name}"), message.rpartition("; ")[2]
    for pattern, field in _VALUES:
        if found := re.match(pattern, fit):
            side = replace(side, **{field: int(found[1])})
    if found := re.match(r"the (\d+)-byte mode would", fit):
        side = replace(side, mode=MODES[SPANS.index(int(found[1]))])
    if fit.startswith("the mode without swizzle would"):
        side = replace(side, mode=0)
    if found := re.match(r"a start (\d+) bytes (earlier|further) would", fit):
        side = replace(side, start=side.start + int(found[1]) * (1 if found[2] == "further" else -1))
    if found := re.match(r"CU_TENSOR_MAP_SWIZZLE_(\w+) in", fit):
        tensor = replace(tensor, swizzle=("NONE", "32B", "64B", "128B").index(found[1]))
    if found := re.match(r"a box of ([\dx ]+) in", fit):
        tensor = replace(tensor, box=tuple(map(int, found[1].split(" x "))))
    made = replace(case.gemm, **{name: side, f"map_{name}": tensor})
    return replace(case, gemm=replace(made, expected=made.brought))


def _fitting(case: ShapeCase, label: str, made: Gemm, exact: bool) -> ShapeCase:
    expected = made.brought if exact else made.expected
    return replace(
        case,
        label=f"{case.label}: {label}{'' if exact else ', expected as before'}",
        gemm=replace(made, expected=expected),
    )


def mutations(case: ShapeCase) -> Iterator[ShapeCase]:
    """Yield every case with one field changed; the barrier expects the bytes that come."""
    g = case.gemm
    for name in "ab":
        if name == "a" and g.a_in_registers:
            continue
        for label, side in sides(getattr(g, name)):
            yield _fitting(case, f"{name} {label}", replace(g, **{name: side}), True)
        for label, tensor in maps(getattr(g, f"map_{name}")):
            yield _fitting(case, f"{name} map {label}", replace(g, **{f"map_{name}": tensor}), True)
    for n in (128, 512, 640, 1024, 64):
        yield _fitting(case, f"base {n}", replace(g, base=n), True)
    if g.kind == "f16" and not g.a_in_registers and not any(g.across):
        yield from (_in_words(case, dtype) for dtype in (2, 11))
    for n in (-16, 16, g.expected):
        yield replace(case, label=f"{case.label}: expected {n:+}", gemm=replace(g, expected=g.expected + n))


def _in_words(case: ShapeCase, dtype: int) -> ShapeCase:
    """Return a case whose A is copied in words of 4 bytes, two halves each."""
    side, tensor = case.gemm.a, case.gemm.map_a

    def halved(axes: tuple[int, ...]) -> tuple[int, ...]:
        return (axes[0] // 2, *axes[1:])

    side = replace(side, box=halved(side.box), depth=halved(side.depth))
    tensor = replace(tensor, dtype=dtype, sizes=halved(tensor.sizes), box=halved(tensor.box))
    return _fitting(case, f"a in words of type {dtype}", replace(case.gemm, a=side, map_a=tensor), True)


def together(case: ShapeCase, choose: random.Random, count: int) -> Iterator[ShapeCase]:
    """Yield cases with two fields changed, drawn at random."""
    for _ in range(count):
        g, labels = case.gemm, []
        for _ in range(2):
            name = "b" if g.a_in_registers else choose.choice("ab")
            if choose.random() < 0.5:
                label, side = choose.choice(list(sides(getattr(g, name))))
                g = replace(g, **{name: side})
            else:
                label, tensor = choose.choice(list(maps(getattr(g, f"map_{name}"))))
                g = replace(g, **{f"map_{name}": tensor})
                label = f"map {label}"
            labels.append(f"{name} {label}")
        yield _fitting(case, " and ".join(labels), g, choose.random() < 0.8)


TILE_BYTES = 128 * 64 * 2
SIZE, TILES_SHARED = 256, 96 * 1024
BUFFERS = (Buffer("a", A, 2 * SIZE**2), Buffer("b", B, 2 * SIZE**2), Buffer("c", C, 4 * SIZE**2))
OPERAND = ("boxes", "columns", "rows", "apart", "along_x", "start", "group", "pair", "further", "per")
DESCRIPTOR = ("leading", "stride", "base_offset", "mode")
STEPS, COPIED = 52, 64  # where a tensor map has its element strides and the bytes of a box


@dataclass(frozen=True)
class MutatedCase:
    """One launch, and what the GPU computed: right, wrong, hang, fault or refused."""

    fields: dict[str, str]

    @property
    def label(self) -> str:
        return self.fields["case"]

    @property
    def right(self) -> bool:
        return self.fields["result"] == "right"

    def launch(self) -> Launch:
        words = [*self._operand("a"), *self._operand("b"), int(self.fields["base"]), int(self.fields["expected"])]
        parameters = bytes(MAPS_AT) + self._map("a", A) + self._map("b", B) + struct.pack("<Q", C)
        parameters += b"".join(struct.pack("<I", word & 0xFFFFFFFF) for word in words)
        return Launch(
            grid=(2, 2, 1), block=(256, 1, 1), shared_dynamic=TILES_SHARED, parameters=parameters, buffers=BUFFERS
        )

    def judged(self) -> FollowedTiles:
        return followed("tiles", self.fields["kernel"], self.launch())

    def gemm(self) -> Gemm:
        """Return what the oracle computes."""
        across = self.fields["kernel"][0] == "m", self.fields["kernel"][1] == "m"
        a, b = self._side("a", 0), self._side("b", TILE_BYTES)
        base, expected = self._number("base"), self._number("expected")
        maps = self._tensor("a"), self._tensor("b")
        return Gemm("f16", 128, a, b, *maps, across=across, groups=2, base=base, expected=expected)

    @property
    def arrangements(self) -> str:
        return self.fields["a_map_arrangement"] + self.fields["b_map_arrangement"]

    def _side(self, side: str, at: int) -> Side:
        def of(name: str) -> int:
            return self._number(f"{side}_{name}")

        along_x = of("along_x")
        return Side(
            boxes=of("boxes"),
            apart=of("apart"),
            at=at,
            stage=2 * TILE_BYTES,
            start=of("start"),
            group=of("group"),
            pair=of("pair"),
            further=of("further"),
            per=of("per"),
            box=(of("columns"), of("rows")),
            block=(0, 128) if along_x else (128, 0),
            depth=(64, 0) if along_x else (0, 64),
            leading=of("leading"),
            stride=of("stride"),
            base_offset=of("base_offset"),
            mode=of("mode"),
        )

    def _tensor(self, side: str) -> TensorMap:
        def of(name: str) -> int:
            return self._number(f"{side}_map_{name}")

        return TensorMap(
            of("dtype"),
            (of("inner"), of("outer")),
            (of("stride"),),
            (of("box_inner"), of("box_outer")),
            of("swizzle"),
            offset=of("offset"),
            interleave=of("interleave"),
            fill=of("fill"),
            steps=(of("step_inner"), of("step_outer")),
        )

    def _number(self, name: str) -> int:
        return int(self.fields[name])

    def _operand(self, side: str) -> list[int]:
        leading, stride, base, mode = (
            self._number(f"{side}_{n}") for n in ("leading", "stride", "base_offset", "mode")
        )
        high = stride >> 4 | base << 17 | mode << 30
        return [*(self._number(f"{side}_{name}") for name in OPERAND), leading >> 4 << 16, high]

    def _map(self, side: str, address: int) -> bytes:
        def of(name: str) -> int:
            return self._number(f"{side}_map_{name}")

        box = of("box_inner"), of("box_outer")
        sizes = of("inner"), of("outer")
        modes = of("swizzle"), of("interleave"), of("promotion"), of("fill")
        tiled = Tiled(address + of("offset"), of("dtype"), sizes, (of("stride"),), box, *modes)
        content = bytearray(tiled.encoded())
        if (step := of("step_outer")) > 1:  # Tiled has none
            struct.pack_into("<I", content, STEPS, struct.unpack_from("<I", content, STEPS)[0] | step - 1 << 3)
            struct.pack_into("<I", content, COPIED, box[0] * -(-box[1] // step) * tiled.bits // 8)
        return bytes(content)


@cache
def mutated_cases() -> tuple[MutatedCase, ...]:
    return tuple(map(MutatedCase, measured("descriptors")))
