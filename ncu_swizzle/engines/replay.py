"""The launches of a launches file, emulated one by one."""

from __future__ import annotations

import functools
import itertools
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base import bounds
from ncu_swizzle.base.errors import NotComparable, UnknownKernel, UsageError
from ncu_swizzle.capture.file import LaunchesFile, open_launches
from ncu_swizzle.capture.launches import DRY, CapturedLaunch, LaunchFilter
from ncu_swizzle.cubin import demangled
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.control import EXTERNALS
from ncu_swizzle.emulate.counts import Launch, Span
from ncu_swizzle.emulate.machine import LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from ncu_swizzle.emulate.requests import ARRAY_BYTES
from ncu_swizzle.engines import emulation, measured
from ncu_swizzle.engines.emulated_profile import Binary, profile_of_counts, unknown_notes
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.engines.measured import CONSTANT, GLOBAL_SECTIONS, GLOBALS, POINTER
from ncu_swizzle.engines.settings import OnDone, Progress, silent, unheard
from ncu_swizzle.kernels import build
from ncu_swizzle.kernels.options import LAUNCHES, NewBuild
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports.model import KernelId, LaunchId

# A module's variables as a capture found them before a launch.
#
# The host and earlier kernels may have written any of them, so what the cubin initializes them with is not believed.
# What was captured is, except for addresses in it: they are those of another process's module.


@dataclass(frozen=True)
class ModuleImage:
    """Contents of global variables by address, the bank of __constant__ variables, and its unknown bytes."""

    memory: Mapping[int, bytes]
    constants: Mapping[int, bytes]
    unknown_constants: Mapping[int, tuple[Span, ...]]


def captured_image(cubin: Cubin, kernel: str, contents: Mapping[str, bytes]) -> ModuleImage:
    """Return the image, given the contents of some variables by name."""
    bank = measured.constants(cubin, kernel).get(CONSTANT)
    if bank is None:
        return ModuleImage(dict(_memory(cubin, contents)), {}, {})
    filled, unknown = _filled(cubin, bank, contents)
    return ModuleImage(dict(_memory(cubin, contents)), {CONSTANT: filled}, {CONSTANT: unknown} if unknown else {})


def _memory(cubin: Cubin, contents: Mapping[str, bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield address and content of the global variables, in pieces between what the loader relocates."""
    places = measured.variables(cubin)
    for section in GLOBAL_SECTIONS:
        relocated = list(_relocated(cubin, section))
        for symbol in cubin.symbols:
            content = contents.get(symbol.name)
            if symbol.section == section and content is not None and len(content) == symbol.size:
                address = places[symbol.name][0]
                for first, end in _between(relocated, symbol.offset, symbol.size):
                    yield address + first - symbol.offset, content[first - symbol.offset : end - symbol.offset]


def _filled(cubin: Cubin, bank: bytes, contents: Mapping[str, bytes]) -> tuple[bytes, tuple[Span, ...]]:
    """Return the bank with what was captured, and the spans of it that are unknown."""
    section = f".nv.constant{CONSTANT}"
    filled, unknown = bytearray(bank), list(_relocated(cubin, section))
    for symbol in cubin.symbols:
        if symbol.section != section or not symbol.size:
            continue
        content = contents.get(symbol.name)
        if content is None or len(content) != symbol.size:
            unknown.append((symbol.offset, symbol.offset + symbol.size))
        else:
            filled[symbol.offset : symbol.offset + symbol.size] = content
    return bytes(filled[: len(bank)]), tuple(sorted(unknown))


def _relocated(cubin: Cubin, section: str) -> Iterator[Span]:
    for relocation in cubin.relocations(section):
        yield relocation.offset, relocation.offset + POINTER


def _between(relocated: Iterable[Span], start: int, size: int) -> Iterator[Span]:
    """Yield the spans of a variable that no relocation touches."""
    at, stop = start, start + size
    for first, end in sorted(relocated):
        if at < min(first, stop):
            yield at, min(first, stop)
        at = max(at, end)
    if at < stop:
        yield at, stop


# Replay: a captured launch, emulated with the cubin that it was captured with, or with that of a new build.


# Upper halves of the addresses that the emulator gives out itself; a real allocation may lie there by chance.
TAKEN = frozenset((SHARED_WINDOW, LOCAL_WINDOW, PARAMETER_WINDOW >> 32, GLOBALS >> 32, EXTERNALS >> 32))
CAPTURE_MEMORY = "ncu-swizzle capture --memory keeps it"


class _Remembering(Toolchain):
    """A toolchain that disassembles a cubin once: a program launches the kernels of one module in turn."""

    @functools.lru_cache(maxsize=2)  # noqa: B019 - one lives as long as a file is open
    def disassemble(self, cubin: bytes, name: str) -> str:
        return super().disassemble(cubin, name)


class Replay:
    """The launches of an open file; `builds` are the cubins of a new build, in place of the captured ones."""

    def __init__(
        self, file: LaunchesFile, settings: EmulationSettings | None = None, builds: Sequence[Cubin] = ()
    ) -> None:
        chosen = settings or EmulationSettings()
        toolchain = _Remembering(chosen.toolchain.nvcc, chosen.toolchain.timeout_s)
        self.file, self.settings, self.builds = file, replace(chosen, toolchain=toolchain), tuple(builds)
        self._cubin = functools.lru_cache(maxsize=8)(self._read_cubin)

    def _read_cubin(self, sha256: str) -> Cubin:
        return Cubin(self.file.cubin(sha256), f"{sha256[:12]}.cubin")

    def emulate(self, captured: CapturedLaunch, on_progress: OnDone = unheard) -> Emulated:
        """Emulate one launch.

        Raises UsageError if a new build lacks the kernel or has other parameters, NotComparable if an address is one
        of the emulator's own, DamagedFile, and whatever an emulation raises.
        """
        cubin, symbol = self._build_of(captured) if self.builds else self._captured(captured)
        launch = self._launch(captured, cubin, symbol)
        binary = Binary(cubin=cubin, symbol=symbol)
        counts = emulation.counts_of(binary, launch, self.settings, on_progress)
        function = demangled.demangle(symbol)
        kernel = KernelId(name=demangled.function(function), function=function, mangled=symbol)
        profile = profile_of_counts(kernel, {}, binary=binary, launch=launch, counts=counts, compiler="")
        memory = tuple(self._unknown(captured, kernel.name)) if counts.unknown else ()
        named = LaunchId(
            index=captured.index, occurrence=self._occurrence(captured), grid=captured.grid, block=captured.block
        )
        commit = "" if self.builds else self.file.manifest.commit
        profile = replace(profile, launch=named, notes=(*profile.notes, *memory), commit=commit)
        return Emulated(profile, counts, binary, (*unknown_notes(kernel.name, counts), *memory))

    def _captured(self, captured: CapturedLaunch) -> tuple[Cubin, str]:
        """Return a launch's own cubin; raise UsageError if it does not fit, which nobody's capture writes."""
        cubin = self._cubin(captured.cubin)
        if captured.kernel not in cubin.kernels or _layout(cubin, captured.kernel) != captured.layout:
            raise UsageError(
                f"launch {captured.index} is of {captured.kernel}, which its cubin does not have with these parameters",
                "capture again",
            )
        return cubin, captured.kernel

    def _occurrence(self, captured: CapturedLaunch) -> int:
        earlier = itertools.takewhile(lambda launch: launch is not captured, self.file.manifest.launches)
        return sum(launch.kernel == captured.kernel for launch in earlier)

    # ------------------------------------------------------------------------------------------ a new build

    def _build_of(self, captured: CapturedLaunch) -> tuple[Cubin, str]:
        """Return the cubin of the new build that has the kernel, and its mangled name there."""
        cubin, kernel = _same_kernel(captured.kernel, self.builds)
        captured_with = self._cubin(captured.cubin)
        if cubin.sm != captured_with.sm:
            raise UsageError(
                f"the new build is for sm_{cubin.sm}, the launch was captured on sm_{captured_with.sm}",
                f"compile it with -arch=sm_{captured_with.sm}",
            )
        now = _layout(cubin, kernel)
        if now != captured.layout:
            raise UsageError(
                f"the parameters of {demangled.function(demangled.demangle(kernel))} changed: captured with "
                f"{_in_words(captured.layout)}, {demangled.demangle(captured.kernel)}; in the new build "
                f"{_in_words(now)}, {demangled.demangle(kernel)}",
                "capture the program again with the new build",
            )
        return cubin, kernel

    # ------------------------------------------------------------------------------------------ memory

    def _launch(self, captured: CapturedLaunch, cubin: Cubin, symbol: str) -> Launch:
        _refuse_taken(captured)
        attributes = cubin.attributes(symbol)
        memory, notes = self._memory(captured)
        variables = {
            variable.name: self.file.memory(variable.contents.sha256)
            for variable in captured.variables
            if variable.contents.sha256 and variable.bytes <= ARRAY_BYTES
        }
        image = captured_image(cubin, symbol, variables)
        own = attributes.cluster if any(attributes.cluster) else (1, 1, 1)
        cluster = captured.cluster or own
        return Launch(
            grid=captured.grid,
            block=captured.block,
            shared_dynamic=captured.shared,
            parameters=_packed(captured, attributes.parameter_bytes),
            memory={**image.memory, **memory},
            cluster=(cluster[0], cluster[1], cluster[2]),
            constants=image.constants,
            unknown_constants=image.unknown_constants,
            notes=tuple(notes),
        )

    def _memory(self, captured: CapturedLaunch) -> tuple[Mapping[int, bytes], list[str]]:
        """Return what the buffers hold by address, the smallest first as long as they fit, and notes on the others."""
        kept: dict[int, bytes] = {}
        notes, total = [], 0
        for buffer in sorted(captured.buffers, key=lambda buffer: buffer.bytes):
            if not buffer.contents.sha256:
                continue
            total += buffer.bytes
            if total <= ARRAY_BYTES:
                kept[buffer.address] = self.file.memory(buffer.contents.sha256)
            else:
                notes.append(
                    f"the contents of a buffer at {buffer.address:#x} are not used: its {buffer.bytes:,} bytes exceed "
                    f"the {ARRAY_BYTES >> 20} MiB kept"
                )
        return kept, notes

    def _unknown(self, captured: CapturedLaunch, name: str) -> Iterator[str]:
        """Yield why contents that the unknown may depend on are not in the file."""
        if self.file.manifest.origin == DRY:
            yield f"{name}: captured without a GPU: what other kernels would have written is unknown."
            return
        for why in dict.fromkeys(contents.why for contents in captured.contents if not contents.sha256):
            hint = f"; {CAPTURE_MEMORY}" if "--memory" in why else ""
            yield f"{name}: what memory held before the launch is unknown: {why}{hint}."


def _packed(captured: CapturedLaunch, size: int) -> bytes:
    content = bytearray(size)
    for parameter in captured.parameters:
        content[parameter.offset : parameter.offset + len(parameter.bytes)] = parameter.bytes
    return bytes(content[:size])


def _refuse_taken(captured: CapturedLaunch) -> None:
    """Raise NotComparable if a pointer, or what may be one, lies where the emulator has memory of its own."""
    words = [
        word
        for parameter in captured.parameters
        for (word,) in struct.iter_unpack("<Q", parameter.bytes[: len(parameter.bytes) // 8 * 8])
    ]
    ends = [address for buffer in captured.buffers for address in (buffer.address, buffer.address + buffer.bytes - 1)]
    if taken := next((address for address in (*words, *ends) if address >> 32 in TAKEN), 0):
        raise NotComparable(
            f"{captured.kernel} was given the address {taken:#x}, which the emulator uses itself",
            "capture again: a program's addresses change from run to run",
        )


def _same_kernel(kernel: str, builds: Sequence[Cubin]) -> tuple[Cubin, str]:
    """Return the cubin and the mangled name of the kernel in a new build.

    The mangled name may change from build to build, for kernels in unnamed namespaces: then the full name tells, and if
    the parameters changed, the name without them. Raises UnknownKernel, and UsageError if several have the name.
    """
    every = [(cubin, name) for cubin in builds for name in cubin.kernels]
    spelled = demangled.demangle_all([kernel, *(name for _, name in every)])
    forms: tuple[Callable[[str], str], ...] = (
        lambda name: name, lambda name: spelled[name], lambda name: demangled.qualified(spelled[name])
    )  # fmt: skip
    for form in forms:
        matching = [(cubin, name) for cubin, name in every if form(name) == form(kernel)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            files = ", ".join(dict.fromkeys(cubin.name for cubin, _ in matching))
            raise UsageError(
                f"the new build has {len(matching)} kernels {form(kernel)}: {files}", "leave out the others"
            )
    has = bounds.some(sorted(demangled.qualified(spelled[name]) for _, name in every))
    raise UnknownKernel(
        f"the new build has no kernel {spelled[kernel]}; it has {has}",
        "ncu-swizzle capture -k NAME -- ./app captures only the kernels that you build",
    )


def _layout(cubin: Cubin, kernel: str) -> tuple[tuple[int, int], ...]:
    return tuple((slot.offset, slot.size) for slot in cubin.attributes(kernel).parameters)


def _in_words(layout: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{size} bytes at {offset}" for offset, size in layout) or "none"


EVERY_LAUNCH, NO_BUILD = LaunchFilter(), NewBuild()


@dataclass(frozen=True)
class ReplaySettings:
    """How launches files are replayed: the emulation, which launches, and a new build."""

    emulation: EmulationSettings = EmulationSettings()
    only: LaunchFilter = EVERY_LAUNCH
    build: NewBuild = NO_BUILD


class ChosenLaunches:
    """The chosen launches of an open file."""

    def __init__(self, file: LaunchesFile, settings: ReplaySettings, progress: Progress = silent) -> None:
        self.manifest = file.manifest
        self.chosen = settings.only.chosen(file.manifest.launches)
        self._progress = progress
        self._replay = Replay(file, settings.emulation, self._builds(file, settings))

    def _builds(self, file: LaunchesFile, settings: ReplaySettings) -> Sequence[Cubin]:
        if not settings.build.given:
            return ()
        captured = Cubin(file.cubin(self.chosen[0].cubin), file.name)
        return build.cubins(settings.build, settings.emulation.toolchain, f"sm_{captured.sm}")

    def emulate(self, launch: CapturedLaunch) -> Emulated:
        """Emulate one of them; raises what `Replay.emulate` raises."""
        name = title(launch)
        return self._replay.emulate(launch, lambda done: self._progress(name, done))

    def emulated(self) -> Iterator[Emulated]:
        yield from map(self.emulate, self.chosen)


def is_launches(path: Path | str) -> bool:
    return str(path).endswith(LAUNCHES)


def title(launch: CapturedLaunch) -> str:
    """Return a launch's number and short name."""
    return f"{launch.index} {demangled.shorten(demangled.demangle(launch.kernel))}"


@contextmanager
def opened(path: Path, settings: ReplaySettings, progress: Progress = silent) -> Iterator[ChosenLaunches]:
    """Yield a file's chosen launches. Raises BadFile, DamagedFile, and UsageError if none is chosen."""
    with open_launches(path) as file:
        yield ChosenLaunches(file, settings, progress)
