"""The launches of a launches file, emulated one by one."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ncu_swizzle.base import bounds, cache, pool
from ncu_swizzle.base.errors import NcuSwizzleError, NotComparable, UnknownKernel, UsageError
from ncu_swizzle.base.pool import ItemOutcome
from ncu_swizzle.capture.launches import (
    DRY,
    WITHOUT_MEMORY,
    CapturedLaunch,
    LaunchesFile,
    LaunchFilter,
    Manifest,
    open_launches,
)
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.code import EXTERNALS, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from ncu_swizzle.emulate.counts import ARRAY_BYTES, Launch
from ncu_swizzle.engines import emulated_profile, emulation
from ncu_swizzle.engines.emulated_launch import GLOBALS, Binary, captured_image
from ncu_swizzle.engines.emulated_profile import CAPTURED, kernel_id, profile_of_counts
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.engines.settings import BUDGET_S, EMULATOR, NEVER, OnDone, Progress, Request, silent, unheard
from ncu_swizzle.kernels import toolchain
from ncu_swizzle.kernels.check import code_in
from ncu_swizzle.kernels.options import NewBuild
from ncu_swizzle.kernels.toolchain import NVDISASM
from ncu_swizzle.reports.model import LaunchId, Profile

if TYPE_CHECKING:
    from ncu_swizzle.capture.dry import Left

# Replay: a captured launch, emulated with the cubin that it was captured with, or with that of a new build.


# Upper halves of the addresses that the emulator gives out itself; a real allocation may lie there by chance.
TAKEN = frozenset((SHARED_WINDOW, LOCAL_WINDOW, PARAMETER_WINDOW >> 32, GLOBALS >> 32, EXTERNALS >> 32))
MOST_CUBINS = 8  # kept
CAPTURE_MEMORY = "ncu-swizzle capture --memory keeps it"


class Replay:
    """The launches of an open file; `builds` are the cubins of a new build, in place of the captured ones.

    `cubins` are those that were read, by their digests.
    """

    def __init__(
        self,
        file: LaunchesFile,
        settings: EmulationSettings | None = None,
        builds: Sequence[Cubin] = (),
        cubins: dict[str, Cubin] | None = None,
    ) -> None:
        self.file, self.builds = file, tuple(builds)
        self._cubins = {} if cubins is None else cubins
        settings = settings or EmulationSettings()
        # A program has many launches: one that takes long must not hold up the others.
        self.settings = replace(settings, budget_s=settings.budget_s or BUDGET_S)

    def _cubin(self, sha256: str) -> Cubin:
        if sha256 not in self._cubins:
            while len(self._cubins) >= MOST_CUBINS:
                del self._cubins[next(iter(self._cubins))]
            self._cubins[sha256] = Cubin(self.file.cubin(sha256), f"{sha256[:12]}.cubin")
        return self._cubins[sha256]

    def emulate(self, captured: CapturedLaunch, on_progress: OnDone = unheard) -> Emulated:
        """Emulate one launch.

        Raises UsageError if a new build lacks the kernel or has other parameters, NotComparable if an address is one
        of the emulator's own, DamagedFile, and whatever an emulation raises.
        """
        cubin, symbol = self.build_of(captured)
        launch = self.launch_of(captured, cubin, symbol)
        binary = Binary(cubin=cubin, symbol=symbol)
        counts = emulation.counts_of(binary, launch, self.settings, on_progress)
        kernel = kernel_id(symbol)
        profile = profile_of_counts(kernel, {}, binary=binary, launch=launch, counts=counts, compiler="")
        memory = tuple(self._unknown(captured, kernel.name)) if counts.unknown else ()
        earlier = itertools.takewhile(lambda other: other is not captured, self.file.manifest.launches)
        named = LaunchId(
            index=captured.index, occurrence=sum(other.kernel == captured.kernel for other in earlier),
            grid=captured.grid, block=captured.block,
        )  # fmt: skip
        commit = "" if self.builds else self.file.manifest.commit
        told = CAPTURED if self.settings.cycles != NEVER and profile.total.excessive else None
        profile = replace(profile, simulated=told)
        if self.settings.check:
            from ncu_swizzle.engines.captured_outputs import with_check  # what cached counts do without

            profile = with_check(profile, self.file, captured, binary, launch, self.settings)
        return emulation.emulated_of(replace(profile, launch=named, commit=commit), counts, binary, memory)

    def build_of(self, captured: CapturedLaunch) -> tuple[Cubin, str]:
        """Return the cubin that a launch is emulated with, and its kernel there; raises UsageError."""
        return self._new_build_of(captured) if self.builds else self._captured(captured)

    def _captured(self, captured: CapturedLaunch) -> tuple[Cubin, str]:
        """Return a launch's own cubin; raise UsageError if it does not fit, which no capture writes."""
        cubin = self._cubin(captured.cubin)
        if captured.kernel not in cubin.kernels or _layout(cubin, captured.kernel) != captured.layout:
            raise UsageError(
                f"launch {captured.index} is of {captured.kernel}, which its cubin does not have with these parameters",
                "capture again",
            )
        return cubin, captured.kernel

    # ------------------------------------------------------------------------------------------ a new build

    def _new_build_of(self, captured: CapturedLaunch) -> tuple[Cubin, str]:
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
                f"the parameters of {names.function(names.demangle(kernel))} changed: captured with "
                f"{_in_words(captured.layout)}, {names.demangle(captured.kernel)}; in the new build "
                f"{_in_words(now)}, {names.demangle(kernel)}",
                "capture the program again with the new build",
            )
        return cubin, kernel

    # ------------------------------------------------------------------------------------------ memory

    def launch_of(self, captured: CapturedLaunch, cubin: Cubin, symbol: str) -> Launch:
        """Return what is emulated; raises NotComparable."""
        _refuse_taken(captured)
        attributes = cubin.attributes(symbol)
        memory, notes = self._memory(captured)
        variables = {
            variable.name: self.file.memory(variable.contents.sha256)
            for variable in captured.variables
            if variable.contents.sha256 and variable.bytes <= ARRAY_BYTES
        }
        image = captured_image(cubin, symbol, variables)
        cluster = captured.cluster or (attributes.cluster if any(attributes.cluster) else (1, 1, 1))
        parameters = bytearray(attributes.parameter_bytes)
        for parameter in captured.parameters:
            parameters[parameter.offset : parameter.offset + len(parameter.bytes)] = parameter.bytes
        return Launch(
            grid=captured.grid,
            block=captured.block,
            shared_dynamic=captured.shared,
            parameters=bytes(parameters[: attributes.parameter_bytes]),
            memory={**image.memory, **memory},
            cluster=(cluster[0], cluster[1], cluster[2]),
            constants=image.constants,
            unknown_constants=image.unknown_constants,
            notes=tuple(notes),
            uncompared="which words of global memory threads share, which is not looked at in captures",
        )

    def _memory(self, captured: CapturedLaunch) -> tuple[Mapping[int, bytes], list[str]]:
        """Return the contents of buffers by address, the smallest first while they fit, and notes on the others."""
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
        """Yield why the file lacks contents of memory that unknown counts may depend on."""
        if self.file.manifest.origin == DRY:
            yield f"{name}: captured without a GPU: what other kernels would have written is unknown."
            return
        for why in dict.fromkeys(contents.why for contents in captured.contents if not contents.sha256):
            hint = f"; {CAPTURE_MEMORY}" if why == WITHOUT_MEMORY else ""
            yield f"{name}: what memory held before the launch is unknown: {why}{hint}."


def left_by(path: Path, settings: EmulationSettings, judged: set[tuple[object, ...]]) -> Left:
    """Return what the only launch of a launches file leaves in memory, and races of kernels and shapes not `judged`."""
    from ncu_swizzle.capture.dry import Left  # what only a dry run needs
    from ncu_swizzle.engines import captured_outputs

    with open_launches(path) as file:
        replay, (captured,) = Replay(file, settings), file.manifest.launches
        try:
            cubin, symbol = replay.build_of(captured)
            launch = replay.launch_of(captured, cubin, symbol)
        except NcuSwizzleError as error:
            return Left(why=str(error))
        shape = (captured.cubin, symbol, captured.grid, captured.block, captured.shared)
        races = shape not in judged
        judged.add(shape)
        return captured_outputs.left_by(captured, Binary(cubin=cubin, symbol=symbol), launch, settings, races=races)


def _refuse_taken(captured: CapturedLaunch) -> None:
    """Raise NotComparable if a pointer, or a possible one, lies in the emulator's own memory."""
    # A captured parameter is bytes without a type: each aligned 8 bytes of it may be a pointer.
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
    spelled = names.demangle_all([kernel, *(name for _, name in every)])
    forms: tuple[Callable[[str], str], ...] = (
        lambda name: name, lambda name: spelled[name], lambda name: names.qualified(spelled[name])
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
    has = bounds.some(sorted(names.qualified(spelled[name]) for _, name in every))
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
    """How launches files are replayed: the emulation, which launches, a new build, and on how many cores."""

    emulation: EmulationSettings = EmulationSettings()
    only: LaunchFilter = EVERY_LAUNCH
    build: NewBuild = NO_BUILD
    jobs: int | None = 1

    @classmethod
    def of(cls, request: Request) -> ReplaySettings:
        """Return the launches' settings from a request."""
        filters = request.options.launches
        only = LaunchFilter(filters.kernel_name, filters.launch_skip, request.options.launch_count)
        return cls(EmulationSettings.of(request, simulating=True), only, request.build, request.jobs)


class ChosenLaunches:
    """The chosen launches of a file, which is open; in another process it is opened again on first use."""

    def __init__(self, path: Path, settings: ReplaySettings, progress: Progress = silent) -> None:
        self.path, self.settings, self._progress = path, settings, progress
        self._opened = contextlib.ExitStack()
        self._cubins: dict[str, Cubin] = {}
        self._first: CapturedLaunch | None = None  # most processes begin with its kernel

    _read: Manifest | None = None  # by the process that this one works for

    def __getstate__(self) -> tuple[Path, ReplaySettings, Manifest, dict[str, str], toolchain.Texts, Any]:
        return self.path, self.settings, self.manifest, self.demangled, toolchain.remembered(), self._first

    def __setstate__(self, state: tuple[Path, ReplaySettings, Manifest, dict[str, str], toolchain.Texts, Any]) -> None:
        path, settings, self._read, demangled, texts, first = state
        ChosenLaunches.__init__(self, path, settings)
        names.remember(demangled)
        toolchain.remember(texts)
        if first is not None:
            self._read_code(first)

    def _read_code(self, captured: CapturedLaunch) -> None:
        """Read the code of a launch, before this process is forked: each of its children opens the file itself."""
        from ncu_swizzle.emulate.program import parse  # the emulator, which emulations in this process load

        with contextlib.suppress(Exception):  # which the emulation says
            cubin, symbol = self._replay.build_of(captured)
            parse(emulation.code_of(Binary(cubin=cubin, symbol=symbol), self._replay.settings))
        self._opened.close()
        self.__dict__.pop("_replay", None)

    def close(self) -> None:
        self._opened.close()

    @functools.cached_property
    def _replay(self) -> Replay:
        file = self._opened.enter_context(open_launches(self.path, self._read))
        tools = self.settings.emulation.toolchain
        builds = [Cubin(code_in(path, tools), path.name) for path in self.settings.build.cubin]
        return Replay(file, self.settings.emulation, builds, self._cubins)

    @property
    def manifest(self) -> Manifest:
        return self._replay.file.manifest

    @functools.cached_property
    def chosen(self) -> list[CapturedLaunch]:
        return self.settings.only.chosen(self.manifest.launches)

    @functools.cached_property
    def demangled(self) -> dict[str, str]:
        """The kernels' names, for all processes: what takes one of its own is done once."""
        demangled = names.demangle_all(launch.kernel for launch in self.chosen)
        names.remember(demangled)
        return demangled

    def depends_on(self) -> str:
        """Return a digest of all that decides the profiles, but for the time that each may take."""
        settings, builds = self.settings, self._replay.builds
        emulation = settings.emulation
        disassembler = emulation.toolchain.version(NVDISASM)
        said = (
            self.manifest, settings.only, emulation.exhaustive, emulation.races, emulation.cycles, emulation.check,
            disassembler, [cache.sha256(build.data) for build in builds], emulated_profile.code_digest(),
        )  # fmt: skip
        return cache.sha256(repr(said).encode(errors="backslashreplace"))

    def emulate(self, number: int, progress: Progress) -> Emulated:
        """Emulate one of the chosen; raises what `Replay.emulate` raises."""
        launch = self.chosen[number]
        name = title(launch)
        return self._replay.emulate(launch, lambda done: progress(name, done))

    def replayed(
        self,
        finish: Callable[[Emulated], Any],
        numbers: Sequence[int] | None = None,
        meanwhile: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[int, ItemOutcome]]:
        """Yield the number of each of the chosen, and what `finish` makes of it, as they end: on several cores.

        `finish` goes to other processes, `meanwhile` is called here while they work. Raises UsageError, which a wrong
        build or file is.
        """
        numbers = range(len(self.chosen)) if numbers is None else numbers
        jobs = pool.jobs_for(self.settings.jobs)
        with ThreadPoolExecutor(1) as aside:  # another program translates the names meanwhile
            aside.submit(lambda: self.demangled)
            self._disassemble([self.chosen[number] for number in numbers[:jobs]])
        found = pool.outcomes(_replay_one, (self, finish), numbers, jobs, self._progress, EMULATOR, meanwhile)
        for at, outcome in found:
            if isinstance(outcome.error, UsageError):
                raise outcome.error
            yield numbers[at], outcome

    def _disassemble(self, first: Sequence[CapturedLaunch]) -> None:
        """Disassemble what most processes begin with: once, and while they are being started."""
        alike = Counter((each.cubin, each.kernel) for each in first).most_common(1)
        if len(first) > 1 and alike[0][1] > len(first) // 2:
            launch = next(each for each in first if (each.cubin, each.kernel) == alike[0][0])
            emulation = self.settings.emulation
            with contextlib.suppress(NcuSwizzleError):  # the emulation says so
                cubin, symbol = self._replay.build_of(launch)
                toolchain.disassembly(cubin, emulation.toolchain, emulation.cached, symbol)
                if cache.sha256(cubin.data) in toolchain.made:  # else its counts are likely cached, too
                    self._first = launch

    def profiles(self) -> list[Profile]:
        """Return the profiles of the chosen launches; raises what emulating one raises."""
        found = pool.in_order(self.replayed(operator.attrgetter("profile")))
        return [outcome.result() for outcome in found]


def _replay_one(common: tuple[ChosenLaunches, Callable[[Emulated], Any]], number: int, hear: Progress) -> Any:
    launches, finish = common
    return finish(launches.emulate(number, hear))


def title(launch: CapturedLaunch) -> str:
    """Return a launch's number and short name."""
    return f"{launch.index} {names.shorten(names.demangle(launch.kernel))}"


@contextmanager
def opened(path: Path, settings: ReplaySettings, progress: Progress = silent) -> Iterator[ChosenLaunches]:
    """Yield a file's chosen launches. Raises BadFile, DamagedFile, and UsageError if none is chosen."""
    launches = ChosenLaunches(path, settings, progress)
    try:
        _ = launches.chosen
        yield launches
    finally:
        launches.close()
