"""Kernels without a described launch: compiled from a source, or found in built files.

Of each, what its cubin and its source say about launches: shapes of blocks, as required, written down or admitted; and
the degrees of its accesses in every launch with such blocks.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ncu_swizzle.base.degrees import AccessDegree, KernelDegrees
from ncu_swizzle.base.errors import BadFile, NcuSwizzleError, UsageError
from ncu_swizzle.base.files import read_bytes
from ncu_swizzle.cubin import elf, names
from ncu_swizzle.cubin.elf import PTX, Cubin, DeviceImage
from ncu_swizzle.cubin.lines import Location, is_library
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.engines.emulated_launch import Binary
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.frontends import python_kernels
from ncu_swizzle.kernels import check, kernels_only, launch_sites, toolchain
from ncu_swizzle.kernels.kernels_only import CompiledAs
from ncu_swizzle.kernels.launch_sites import Sizes, WrittenLaunch
from ncu_swizzle.kernels.limits import along_axes
from ncu_swizzle.kernels.naming import Unlaunched
from ncu_swizzle.kernels.options import LaunchOptions
from ncu_swizzle.kernels.project import KernelSpec
from ncu_swizzle.kernels.signature import KernelSignature
from ncu_swizzle.kernels.toolchain import ARCH, Toolchain, disassembly
from ncu_swizzle.smem.access import Index
from ncu_swizzle.smem.opcodes import row

LARGEST_SCALAR = 8  # bytes
LIBRARIES = ("cub::", "thrust::")  # namespaces of library kernels
EMPTY = re.compile(r"\bEmptyKernel\b")  # CUB's, which only tell a file's architecture
# Shapes that are tried if none is known, by how many axes of the thread index the code reads.
SHAPES: dict[int, tuple[Index, ...]] = {
    0: ((32, 1, 1),),
    1: ((64, 1, 1), (256, 1, 1)),
    2: ((16, 16, 1), (32, 8, 1), (32, 32, 1)),
    3: ((256, 1, 1), (8, 8, 4), (32, 4, 2)),  # cooperative groups read all axes to number a block's threads
}


@dataclass(frozen=True)
class BlockShape:
    """A shape of blocks, and what says so: the command line, the kernel, a line of a source, or the code's limits."""

    sizes: Sizes
    source: str
    certain: bool  # launches have such blocks; else the code admits them


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


@dataclass(frozen=True, kw_only=True)
class CompiledKernel:
    """A kernel of a cubin: its short name, and the launches of it that its source writes down.

    `supposed`: it is an instance of a template whose types nothing says.
    """

    name: str
    binary: Binary
    text: str  # the disassembly of its cubin
    launches: tuple[WrittenLaunch, ...] = ()
    spec: KernelSpec | None = None  # of its source; None: it is built
    supposed: bool = False

    @property
    def demangled(self) -> str:
        """Its name in C++."""
        return names.demangle(self.binary.symbol)

    @property
    def function(self) -> str:
        """Its name without template arguments."""
        return names.function(self.demangled)

    @property
    def is_library(self) -> bool:
        """Whether it is one of CUB's or Thrust's."""
        return names.qualified(self.demangled).startswith(LIBRARIES)

    @property
    def spelled(self) -> str:
        """What --kernel takes for it."""
        return names.spelled(self.demangled, names.demangle_all(self.binary.cubin.kernels).values())

    @cached_property
    def signature(self) -> KernelSignature:
        """What it takes, with the names that its source has for that."""
        return check.signed(self.binary.cubin, self.binary.symbol, self.spec, self.text)

    def parameter(self, offset: int) -> str:
        """Return the name of the parameter at a byte; without its source, its number and type."""
        slots = self.binary.cubin.attributes(self.binary.symbol).parameters
        number = next((n for n, slot in enumerate(slots) if slot.offset <= offset < slot.offset + slot.size), -1)
        if number < 0:
            return f"the parameter at byte {offset:#x}"
        known, inside = self.signature.parameters[number], offset - slots[number].offset
        name = known.name or f"parameter {number + 1}{f' ({known.type})' if known.type else ''}"
        return f"byte {inside} of {name}" if inside and slots[number].size > LARGEST_SCALAR else name

    @cached_property
    def code(self) -> Code:
        """Its instructions."""
        return emulated_launch.code(self.binary.cubin, self.binary.symbol, self.text)

    @property
    def computed(self) -> list[WrittenLaunch]:
        """The launches whose blocks the program computes."""
        return [launch for launch in self.launches if launch.block is None]

    @cached_property
    def accesses_shared(self) -> bool:
        """Whether an instruction of it may access shared memory."""
        return any(_accesses(each.text) for each in self.code.instructions)

    def blocks(self, typed: Sizes | None = None) -> list[BlockShape]:
        """Return the shapes of its blocks: as typed, as required, as launches have them, else such as it admits."""
        if typed:
            return [BlockShape(typed, "--block", certain=True)]
        if required := self.binary.cubin.attributes(self.binary.symbol).required_block:
            return [BlockShape(along_axes(required), "the kernel requires it", certain=True)]
        found: dict[Sizes, BlockShape] = {}
        for launch in self.launches:
            if launch.block:
                where = f"{kernels_only.shown(Path(launch.file))}:{launch.line}" if launch.file else "its source"
                found.setdefault(launch.block, BlockShape(launch.block, where, certain=True))
        admitted = _admitted_shapes(self.binary.cubin, self.code)
        return list(found.values()) or [BlockShape(shape, "admitted by the code", certain=False) for shape in admitted]

    def judged(self, typed: Sizes | None = None) -> JudgedKernel:
        """Return the degrees of its accesses in every launch with such blocks."""
        from ncu_swizzle.emulate.degrees import degrees  # with the emulator, which kernels with a launch may not need

        blocks = self.blocks(typed)
        shapes = tuple(degrees(self.code, block.sizes, self.parameter) for block in blocks)
        table, lines = python_kernels.lines(self.binary.cubin.data, self.code.name), {}
        for access in (access for shape in shapes for access in shape.accesses):
            stack = table.stack(access.offset)
            own = next((frame for frame in stack if not is_library(frame[0])), next(iter(stack), None))
            if own is not None:
                lines[access.offset] = own
        stated = all(block.certain for block in blocks) and not self.supposed
        return JudgedKernel(name=self.name, symbol=self.code.name, shapes=shapes, stated=stated, lines=lines)


def _accesses(text: str) -> bool:
    """Return whether an instruction may access shared memory, by its text."""
    words = text.split()
    mnemonic = words[1] if words and words[0].startswith("@") and len(words) > 1 else words[0] if words else ""
    return row(mnemonic.partition(".")[0]).may_be_counted


def _admitted_shapes(cubin: Cubin, code: Code) -> tuple[Index, ...]:
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


@dataclass(frozen=True, kw_only=True)
class CompiledFile:
    """The kernels of a file, those that access shared memory first; and notes on how it was compiled, or chosen."""

    name: str
    kernels: tuple[CompiledKernel, ...]
    notes: tuple[str, ...] = ()
    lacking: tuple[tuple[str, str], ...] = ()  # kernels of the source that are not among them, and why

    @cached_property
    def judged(self) -> list[CompiledKernel]:
        """The kernels that access shared memory; library kernels only if there are no others."""
        own = [each for each in self.kernels if not each.is_library]
        return [each for each in own or self.kernels if each.accesses_shared]


def of_file(file: Unlaunched, settings: EmulationSettings, launch: LaunchOptions) -> CompiledFile:
    """Return the kernels of a file, be it a source or built; a launch says which, and for which architecture."""
    if file.spec is not None:
        return of_source(file.spec, settings)
    return of_built(file.file, settings, launch.arch, launch.entry)


def of_source(spec: KernelSpec, settings: EmulationSettings) -> CompiledFile:
    """Return the kernels that a source compiles to, as a whole or in part. Raises what `kernels_only.compiled` does."""
    tools = settings.toolchain
    family = check.family_without_launch(spec)
    kernel = family.kernels[0]
    arch = family.architecture(kernel, ARCH)
    compiled = kernels_only.compiled(family, kernel, arch, tools, settings.cached)
    cubin = Cubin(compiled.code, spec.source.name)
    way = compiled.way or CompiledAs(family=family, kernel=kernel)
    wanted = [names.find(cubin, spec.launch.entry)] if spec.launch.entry else list(cubin.kernels)
    if way.functions:
        meant = names.demangle_all(wanted)
        wanted = [symbol for symbol in wanted if names.function(meant[symbol]) in way.functions]
    roots = tuple(map(str, toolchain.source_roots(family)))
    every = _kernels(cubin, wanted, settings, roots, family.source_texts(), spec)
    made = [replace(each, supposed=each.function in compiled.supposed) for each in every]
    with contextlib.suppress(NcuSwizzleError):  # of a file that compiles, the preprocessor alone does not fail
        source = kernels_only.read(way.family, way.kernel, arch, tools)
        made = [
            replace(each, launches=tuple(launch_sites.launches_of(source.unit, source.sites, each.demangled)))
            for each in made
        ]
    options = (
        [f"{spec.source.name} was compiled with the options of {kernels_only.shown(Path(spec.origin))}"]
        if spec.origin
        else []
    )
    notes = (*options, *compiled.notes)
    return CompiledFile(name=str(spec.source), kernels=_sorted(made), notes=notes, lacking=compiled.lacking)


def _kernels(
    cubin: Cubin,
    symbols: Sequence[str],
    settings: EmulationSettings,
    roots: tuple[str, ...],
    sources: dict[str, str] | None,
    spec: KernelSpec | None = None,
) -> list[CompiledKernel]:
    text = disassembly(cubin, settings.toolchain, settings.cached)
    demangled = names.demangle_all(symbols)
    short = names.distinct([demangled[symbol] for symbol in symbols])
    return [
        CompiledKernel(
            name=name, binary=Binary(cubin=cubin, symbol=symbol, roots=roots, sources=sources), text=text, spec=spec
        )
        for symbol, name in zip(symbols, short, strict=True)
        if not EMPTY.search(demangled[symbol])
    ]


def _sorted(kernels: Iterable[CompiledKernel]) -> tuple[CompiledKernel, ...]:
    """Return the kernels by name, those that access shared memory first, those of libraries last."""

    def rank(kernel: CompiledKernel) -> tuple[bool, bool, str]:
        return kernel.is_library or not kernel.accesses_shared, kernel.is_library, kernel.name

    return tuple(sorted(kernels, key=rank))


# What is built already.


def of_built(path: Path, settings: EmulationSettings, arch: str = "", wanted: str = "") -> CompiledFile:
    """Return the kernels in a file, each once: those for the architecture asked for, else for the nearest.

    `wanted` names one. Raises BadFile and DamagedFile, and what ptxas says against PTX.
    """
    made: dict[str, CompiledKernel] = {}
    others: set[int] = set()
    tools = settings.toolchain
    for cubin, sm in _cubins(path, arch or ARCH, tools, settings.cached):
        if sm != _number(arch or ARCH):
            others.add(sm)
        fresh = [symbol for symbol in cubin.kernels if symbol not in made]
        made |= {each.binary.symbol: each for each in _kernels(cubin, fresh, settings, (), None)}
    if not made:
        raise BadFile(f"{path} has no kernel", "name the program or library with the kernels")
    kernels = list(made.values())
    if len(short := names.distinct([each.demangled for each in kernels])) == len(kernels):
        kernels = [replace(each, name=name) for each, name in zip(kernels, short, strict=True)]
    if wanted:
        kernels = [each for each in kernels if wanted in (each.name, each.binary.symbol, each.demangled,
                   names.qualified(each.demangled), names.function(each.demangled))]  # fmt: skip
        if not kernels:
            raise UsageError(f"{path} has no kernel {wanted}", f"ncu-swizzle lint {path} lists those that it has")
    taken = ", ".join(f"sm_{number}" for number in sorted(others))
    notes = [f"{path.name} has no code for {arch or ARCH}: that for {taken} was taken"] if others else []
    return CompiledFile(name=str(path), kernels=_sorted(kernels), notes=tuple(notes))


def _number(arch: str) -> int:
    return int(re.sub(r"\D", "", arch))


def _cubins(path: Path, arch: str, tools: Toolchain, cached: bool) -> Iterator[tuple[Cubin, int]]:
    """Yield the cubins of a file, one of each translation unit, and the architecture that each is for."""
    if path.suffix == ".ptx":
        cubin = Cubin(check.assembled(read_bytes(path), path.name, tools, cached, ""), path.name)
        yield cubin, _number(arch)
        return
    units: dict[int, list[DeviceImage]] = {}
    for image in elf.images(path):
        units.setdefault(image.unit, []).append(image)
    for images in units.values():
        for image in _nearest(images, _number(arch)):
            content = image.content()
            if image.kind == PTX:
                if b".entry" in content:
                    yield (
                        Cubin(check.assembled(content, image.origin, tools, cached, arch), image.origin),
                        _number(arch),
                    )
            elif b".nv.constant0." in content:  # else it has no kernel
                cubin = Cubin(content, image.origin)
                yield cubin, cubin.sm if path.suffix != ".cubin" else _number(arch)


def _nearest(images: Sequence[DeviceImage], sm: int) -> list[DeviceImage]:
    """Return those images of a translation unit that are for an architecture; else PTX for it; else the nearest."""
    compiled = [image for image in images if image.kind != PTX]
    if exact := [image for image in compiled if image.sm in (sm, 0)]:
        return exact
    if ptx := [image for image in images if image.kind == PTX and image.sm <= sm]:
        return [max(ptx, key=lambda image: image.sm)]
    if not compiled:
        return []
    near = min(compiled, key=lambda image: (abs(image.sm - sm), -image.sm))
    return [image for image in compiled if image.sm == near.sm]
