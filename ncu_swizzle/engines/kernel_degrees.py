"""The degrees of a kernel's accesses in every launch, from its cubin alone, for the block shapes that are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ncu_swizzle.base.degrees import AccessDegree, KernelDegrees
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.lines import Location, is_library
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.frontends import python_kernels
from ncu_swizzle.smem.access import Index
from ncu_swizzle.smem.opcodes import row

# Shapes that are tried if none is known, by how many axes of the thread index the code reads.
SHAPES: dict[int, tuple[Index, ...]] = {
    0: ((32, 1, 1),),
    1: ((64, 1, 1), (256, 1, 1)),
    2: ((16, 16, 1), (32, 8, 1), (32, 32, 1)),
    3: ((8, 8, 4), (32, 4, 2)),
}


@dataclass(frozen=True, kw_only=True)
class JudgedKernel:
    """A kernel's accesses for each of some block shapes; `stated`: the shapes and types are given, not guessed."""

    name: str
    symbol: str
    shapes: tuple[KernelDegrees, ...]
    stated: bool
    lines: dict[int, Location]  # by offset: the line of the user's own, if there is one

    def accesses(self) -> Iterator[dict[Index, AccessDegree]]:
        """Yield each access as it is for the shapes."""
        by_offset: dict[int, dict[Index, AccessDegree]] = {}
        for shape in self.shapes:
            for access in shape.accesses:
                by_offset.setdefault(access.offset, {})[shape.block] = access
        yield from (by_offset[offset] for offset in sorted(by_offset))


def judged_kernel(
    cubin: Cubin,
    code: Code,
    shapes: Sequence[Index],
    *,
    name: str,
    stated: bool,
    named: Callable[[int], str] | None = None,
) -> JudgedKernel:
    """Return the degrees of a kernel's accesses for each of these block shapes."""
    from ncu_swizzle.emulate.degrees import (  # with the emulator, which kernels with a launch may not need
        by_byte,
        degrees,
    )

    found = tuple(degrees(code, shape, named or by_byte) for shape in shapes)
    table = python_kernels.lines(cubin.data, code.name)
    lines = {}
    for access in (access for shape in found for access in shape.accesses):
        stack = table.stack(access.offset)
        own = next((frame for frame in stack if not is_library(frame[0])), next(iter(stack), None))
        if own is not None:
            lines[access.offset] = own
    return JudgedKernel(name=name, symbol=code.name, shapes=found, stated=stated, lines=lines)


def accesses_shared(code: Code) -> bool:
    """Return whether an instruction of the kernel may access shared memory."""
    return any(_accesses(each.text) for each in code.instructions)


def _accesses(text: str) -> bool:
    """Return whether an instruction may access shared memory, by its text."""
    words = text.split()
    mnemonic = words[1] if words and words[0].startswith("@") and len(words) > 1 else words[0] if words else ""
    return row(mnemonic.partition(".")[0]).may_be_counted


def admitted_shapes(cubin: Cubin, code: Code) -> tuple[Index, ...]:
    """Return block shapes that a kernel's code admits, if none is known."""
    attributes = cubin.attributes(code.name)
    text = "\n".join(each.text for each in code.instructions)
    axes = max((number for number, axis in enumerate("XYZ", 1) if f"SR_TID.{axis}" in text), default=0)
    axes = 3 if "SR_TID " in text or text.endswith("SR_TID") else axes
    most = attributes.max_threads or 1024
    fitting = tuple(shape for shape in SHAPES[axes] if shape[0] * shape[1] * shape[2] <= most)
    if axes == 1 and attributes.max_threads and attributes.max_threads % 32 == 0:
        fitting = tuple(dict.fromkeys((*fitting, (attributes.max_threads, 1, 1))))
    return fitting or ((min(32, most), 1, 1),)
