"""Mutations of the GEMMs of umma_cases.py: one field of a map, a descriptor, an instruction, tensor memory changes."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.oracles.narrow_types import PackedMap
from bench.oracles.umma_cases import UmmaCase, right_cases, stored_cases
from bench.oracles.umma_oracle import BOX, FACTORS, Side, TensorMap, Umma, timed

# A field of a side, and what is put in its place: numbers, or a factor of what it was.
SIDE: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("leading", (0, 128, "x2", "x0.5")),
    ("stride", (128, 512, "x2", "x0.5")),
    ("base_offset", (1, 4)),
    ("layout", (0, 1, 2, 4, 6, 3)),
    ("version", (0, 2)),
    ("start", (16, 32, 128, 1024)),
    ("further", ("x2", "x0.5")),
    ("pair", (0, 16, 64)),
    ("at", ("+128", "+64", "+1024")),
    ("apart", ("x2", "x0.5")),
    ("boxes", ("x0.5",)),
    ("depth", ("x2", "x0.5")),
    ("box", ("x2",)),
    ("peer", ("x0",)),
)
# Where a matrix begins and how far apart its rows are is for the map to say: any other place is a matrix, too.
MAP: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("swizzle", (0, 1, 2, 3, 4)),
    ("box", ("x2", "x0.5", "second x0.5")),
    ("sizes", ("x0.5", "second x0.5")),
)
LAUNCH: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("expected", ("x2", "x0.5", "+16")),
    ("base", (128, 64, 512)),
    ("steps", (2,)),
    ("stages", (1,)),
    ("allocated", (48, 96, "x0.5", "x2")),
    ("freed", (0, "x0.5")),
    ("column", (8, 32)),
    ("commits", (0,)),
)
# Of the scale factors: which they are along K and across it, from the first on, is for the kernel to say.
SCALES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("start", (16, BOX)),
    ("stride", (16, 64, 256)),
    ("layout", (2, 3)),
    ("version", (0,)),
    ("column", ("+1", "+32", "-4", 0)),
    ("reads", (1, 4, -4, 32)),
    ("further", (0,)),
    ("deep", ("x0.5",)),
    ("at", ("+128", "+64")),
)
# Types of the other packed maps: a box is as wide.
OTHER_MAPS = {13: (14,), 14: (15, 13), 15: (14, 13)}
# Bits of the instruction descriptor that are turned over: majors, M, N, sparse; of types; of scale factors.
BITS = (15, 16, 18, 20, 24, 26, 27, 28)
TYPES = {"a": (7, 8), "b": (10, 11)}
OF_SCALES = (4, 5, 29, 30)


def _changed(value: Any, how: Any) -> Any:
    if not isinstance(how, str):
        return how
    if how.startswith("second"):
        return (value[0], int(value[1] * float(how.split("x")[1])), *value[2:])
    if isinstance(value, tuple):
        if how.startswith("x"):
            first = next((axis for axis, part in enumerate(value) if part), 0)
            return tuple(int(part * float(how[1:])) if axis == first else part for axis, part in enumerate(value))
        return (value[0] + int(how), *value[1:])
    return int(value * float(how[1:])) if how.startswith("x") else value + int(how)


# Where tiles that threads store begin along K, and what is beyond the matrix, is the kernel's business.
OF_TMA = ("depth", "peer", "expected", "stages", "steps", "sizes", "box", "commits")


def _mutations(g: Umma) -> Iterator[tuple[str, Umma]]:
    for label, changed in _all_mutations(g):
        if not g.stored or not (set(label.split()) & {*OF_TMA} or label.endswith("swizzle 4")):
            yield label, changed


def _all_mutations(g: Umma) -> Iterator[tuple[str, Umma]]:
    for name in ("a", "b"):
        side: Side = getattr(g, name)
        for field, values in SIDE:
            # MN-major, boxes are side by side across K: which rows they are of is the kernel's business.
            for how in () if field == "box" and g.arrangements["ab".index(name)] == "m" else values:
                yield (
                    f"{name} {field} {how}",
                    replace(g, **{name: replace(side, **{field: _changed(getattr(side, field), how)})}),
                )
        tensor: TensorMap = getattr(g, f"map_{name}")
        for field, values in MAP:
            for how in values:
                other = replace(tensor, **{field: _changed(getattr(tensor, field), how)})
                changed = replace(g, **{f"map_{name}": other})
                # What a box brings may change with the map: then the barrier expects that, or the bytes decide.
                yield (
                    f"map {name} {field} {how}",
                    replace(changed, expected=changed.brought) if field == "box" else changed,
                )
        for data_type in OTHER_MAPS.get(tensor.dtype, ()) if isinstance(tensor, PackedMap) else ():
            changed = replace(g, **{f"map_{name}": replace(tensor, dtype=data_type)})
            yield f"map {name} dtype {data_type}", replace(changed, expected=changed.brought)
    for field, values in LAUNCH:
        for how in values:
            yield f"{field} {how}", replace(g, **{field: _changed(getattr(g, field), how)})
    for name in ("scales_a", "scales_b") if g.factors else ():
        for field, values in SCALES:
            for how in values:
                scales = replace(getattr(g, name), **{field: _changed(getattr(getattr(g, name), field), how)})
                changed = replace(g, **{name: scales})
                yield f"{name} {field} {how}", replace(changed, expected=changed.brought)
    for bit in sorted(_bits(g)):
        yield f"instruction bit {bit}", replace(g, instruction=g.instruction ^ 1 << bit)


def _bits(g: Umma) -> Iterator[int]:
    """Yield the bits of the instruction descriptor that make a difference which can be known."""
    yield from BITS
    if g.factors:
        yield from OF_SCALES
        yield from (23,) if FACTORS[g.kind][1] == "ue8m0" else ()
    else:
        yield 5
        yield from (4,) if g.kind in ("tf32", "i8") else ()
    for name, tensor in (("a", g.map_a), ("b", g.map_b)):
        if tensor.dtype and not g.stored:  # which type a byte has, no tensor map says
            yield from TYPES[name]


def mutated_cases(cases: Iterable[UmmaCase]) -> Iterator[UmmaCase]:
    """Yield mutations of right cases; equal ones once."""
    for case in cases:
        seen = {case.gemm}
        for label, gemm in _mutations(case.gemm):
            if gemm not in seen and min(gemm.map_a.box + gemm.map_b.box + gemm.map_a.sizes + gemm.map_b.sizes) > 0:
                seen.add(gemm)
                if not timed(gemm):  # what no one can know has no right verdict
                    yield UmmaCase(f"{case.label} {label}", gemm)


def umma_case(label: str) -> UmmaCase:
    """Return the case of this label: a right one, or one with one field changed."""
    bases = [case for case in (*right_cases(), *stored_cases()) if f"{label} ".startswith(f"{case.label} ")]
    return next(case for case in (*bases, *mutated_cases(bases)) if case.label == label)
