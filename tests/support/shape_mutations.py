"""Mutations of the launches in shape_cases.py, and what messages name, applied; the oracle says what is right."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace

from tests.support.shape_cases import MODES, SPANS, ShapeCase, bases
from tests.support.tile_oracle import Gemm, Side, TensorMap


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
