"""The emulated engine: a kernel compiled here, its code carried out in NumPy, as a Profile.

Every count is what ncu would give for that cubin on the architecture that it was compiled for, or unknown, with the
reason among the profile's notes. There are no times and no stalls.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from ncu_swizzle import paths
from ncu_swizzle.build import compiled, headers
from ncu_swizzle.build.commit import commit_of
from ncu_swizzle.build.toolchain import ARCH, Toolchain
from ncu_swizzle.catalog.family import Problem
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin import symbols
from ncu_swizzle.cubin.demangled import demangle
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.line_table import LineTable, line_table
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.emulate import faults
from ncu_swizzle.emulate.run import Counts, Launch, Row, emulate
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.errors import BadFile, NcuSwizzleError, UsageError
from ncu_swizzle.files import read_bytes, slug, write_atomically
from ncu_swizzle.profiles.counts import NEVER, Instruction
from ncu_swizzle.profiles.engine import EMULATED
from ncu_swizzle.profiles.model import EXECUTED, IDEAL, WAVEFRONTS, KernelId, MachineInfo, Metric, Profile

OnProgress = Callable[[float], None]  # percent
NOTES = 3  # reasons that are told apart in notes; the rest is counted


@dataclass(frozen=True)
class EmulationSettings:
    """How kernels are compiled and emulated."""

    toolchain: Toolchain = field(default_factory=Toolchain)
    exhaustive: bool = False  # run every block, not one of each class that can differ


@dataclass(frozen=True)
class Binary:
    """A kernel's cubin, and where its sources lie: folders, and the text of each file by its path below one."""

    cubin: Cubin
    symbol: str
    roots: tuple[str, ...] = ()
    sources: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Emulated:
    """A profile, and what it was made from: the emulator's counts, and the cubin."""

    profile: Profile
    counts: Counts
    binary: Binary


def emulate_target(
    target: Target,
    settings: EmulationSettings | None = None,
    on_progress: OnProgress = lambda percent: None,
) -> Emulated:
    """Compile a kernel and emulate one launch of it.

    Raises EnvironmentLacking without a compiler, UsageError for a library's kernel, and what `run.emulate` raises.
    """
    settings_ = settings or EmulationSettings()
    if target.kernel.library:
        raise UsageError(
            f"{target.name} is a library's kernel: there is no source to emulate", "--engine recorded shows it"
        )
    if target.compiled:
        return emulate_cubin(target, _binary(target.source, settings_.toolchain), "", settings_, on_progress)
    code = compiled.cubin(target.family, target.kernel, ARCH, settings_.toolchain)
    return emulate_cubin(target, code, settings_.toolchain.version(), settings_, on_progress)


def emulate_cubin(
    target: Target,
    code: bytes,
    compiler: str = "",
    settings: EmulationSettings | None = None,
    on_progress: OnProgress = lambda percent: None,
) -> Emulated:
    """Emulate one launch of a target from its cubin; `compiler` is nvcc's version, if it is known."""
    family, kernel = target.family, target.kernel
    cubin = Cubin(code, target.source.name)
    symbol = symbols.find(cubin, kernel.entry)
    roots = tuple(map(str, headers.source_roots(family)))
    binary = Binary(cubin, symbol, roots, {} if target.compiled else family.source_texts())
    launch = emulated_launch.launch_of(target, cubin, symbol)
    counts = _run(binary, launch, settings or EmulationSettings(), on_progress)
    named = KernelId(kernel.name, demangle(symbol), family.name, kernel.title)
    profile = _profile(named, target.problem, binary, launch, counts, compiler)
    return Emulated(replace(profile, commit=commit_of(family.folder)), counts, binary)


def profile_binary(
    path: Path,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int],
    shared: int,
    parameters: Sequence[bytes | np.ndarray],
    settings: EmulationSettings | None = None,
    on_progress: OnProgress = lambda percent: None,
) -> Emulated:
    """Emulate one launch of a kernel in a cubin or PTX file.

    `kernel` is its plain or mangled name, empty for the only one; `shared` the bytes of dynamic shared memory;
    `parameters` the kernel's, in order: a scalar's bytes, or an array for a pointer, whose content is then known.
    Raises BadFile or DamagedFile for the file, UnknownKernel, and UsageError where the arguments do not fit.
    """
    settings_ = settings or EmulationSettings()
    cubin = Cubin(_binary(path, settings_.toolchain), path.name)
    symbol = symbols.find(cubin, kernel)
    binary = Binary(cubin, symbol)
    values = emulated_launch.values_of(parameters)
    launch = emulated_launch.launch(cubin, binary.symbol, grid, block, shared, values)
    counts = _run(binary, launch, settings_, on_progress)
    name = kernel or binary.symbol
    return Emulated(_profile(KernelId(name, demangle(symbol)), {}, binary, launch, counts, ""), counts, binary)


def _binary(path: Path, toolchain: Toolchain) -> bytes:
    content = read_bytes(path)
    if content.startswith(b"\x7fELF"):
        return content
    if path.suffix == ".ptx" or b".version" in content[:4096]:
        return toolchain.assemble(content, path.name)
    raise BadFile(f"{path} is neither a cubin nor PTX", "nvcc --cubin -arch=sm_90 -lineinfo FILE.cu makes one")


def _run(binary: Binary, launch: Launch, settings_: EmulationSettings, on_progress: OnProgress) -> Counts:
    """Emulate; what goes wrong in the program names the source line too."""
    text = settings_.toolchain.disassemble(binary.cubin.data, binary.cubin.name)
    code = emulated_launch.code(binary.cubin, binary.symbol, text)

    def progress(done: int, blocks: int) -> None:
        on_progress(100 * done / max(blocks, 1))

    try:
        return emulate(code, launch, exhaustive=settings_.exhaustive, on_progress=progress)
    except (faults.Unsupported, faults.MemoryFault, faults.Stuck, faults.Endless) as error:
        raise _located(error, binary) from error


def _located(error: NcuSwizzleError, binary: Binary) -> NcuSwizzleError:
    stack = list(_stack(binary, line_table(binary.cubin.data, binary.symbol), getattr(error, "offset", -1)))
    if stack:
        error.args = (f"{binary.symbol}, {stack[0][0]}:{stack[0][1]}: {error}",)
    else:
        error.args = (f"{binary.symbol}: {error}",)
    return error


# ---------------------------------------------------------------------------------------------- the profile


def _profile(
    kernel: KernelId, problem: Problem, binary: Binary, launch: Launch, counts: Counts, compiler: str
) -> Profile:
    cubin = binary.cubin
    launch_metrics = emulated_launch.metrics(launch, cubin.attributes(binary.symbol))
    instructions = tuple(_instructions(binary, counts.rows))
    profile = Profile(
        engine=EMULATED,
        kernel=kernel,
        problem=problem,
        machine=MachineInfo(compute_capability=f"{cubin.sm // 10}.{cubin.sm % 10}", cuda=compiler),
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        command="",
        report=f"{slug(kernel.name)}.cubin",
        report_sha256=hashlib.sha256(cubin.data).hexdigest(),
        errors={},
        metrics={name: Metric(value, unit) for name, (value, unit) in launch_metrics.items()},
        instructions=instructions,
        sources=binary.sources or {},
        notes=tuple(_notes(kernel.name, counts)),
    )
    return replace(profile, metrics={**profile.metrics, **_totals(profile)})


def _totals(profile: Profile) -> dict[str, Metric]:
    """Return the launch's totals under ncu's names; one that contains an unknown is left out."""
    executed = [instruction.executed for instruction in profile.instructions]
    total = profile.total
    nothing = (
        0 if not any(instruction.access for instruction in profile.instructions) else None
    )  # no access: no wavefronts
    totals = {
        EXECUTED: (
            None if None in executed else sum(instruction for instruction in executed if instruction is not None),
            "inst",
        ),
        WAVEFRONTS: (nothing if total.wavefronts is None else total.wavefronts, "sectors"),
        IDEAL: (nothing if total.ideal is None else total.ideal, "sectors"),
    }
    return {name: Metric(value, unit) for name, (value, unit) in totals.items() if value is not None}


def _instructions(binary: Binary, rows: Sequence[Row]) -> Iterator[Instruction]:
    table = line_table(binary.cubin.data, binary.symbol)
    for row in rows:
        yield Instruction(
            pc=row.offset,
            sass=row.sass,
            opcode=row.opcode,
            access="" if row.sass.startswith(NEVER) else row.access,
            stack=tuple(_stack(binary, table, row.offset)),
            executed=row.executed,
            wavefronts=row.wavefronts if row.access else None,
            ideal=row.ideal if row.access else None,
        )


def _stack(binary: Binary, table: LineTable, offset: int) -> Iterator[Location]:
    for file, line in table.stack(offset):
        yield paths.below(file, binary.roots), line


def _notes(name: str, counts: Counts) -> Iterator[str]:
    """Say what is unknown and why, most frequent first, and what the emulator noted itself."""
    unknown = counts.unknown
    reasons = Counter(row.reason or "for no reason that is known" for row in unknown)
    for reason, count in reasons.most_common(NOTES):
        first = next(row for row in unknown if (row.reason or "for no reason that is known") == reason)
        many = f"{count} accesses, such as" if count > 1 else "the access"
        yield f"{name}: unknown wavefronts of {many} {first.sass} at {first.offset:#x}: {reason}."
    if len(reasons) > NOTES:
        yield f"{name}: {len(reasons) - NOTES} further reasons for unknown wavefronts."
    for note in counts.notes:
        yield f"{name}: {note}"


# ---------------------------------------------------------------------------------------------- beside a recording


def beside(emulated: Profile, recorded: Profile) -> Profile:
    """Return the emulated profile with the recording's times, stalls and other metrics, which `beside` names.

    Counts stay the computed ones. Stall samples go to instructions where both have the same code.
    """
    borrowed = {name: metric for name, metric in recorded.metrics.items() if name not in emulated.metrics}
    own = {EXECUTED, WAVEFRONTS, IDEAL}
    metrics = {**{name: metric for name, metric in borrowed.items() if name not in own}, **emulated.metrics}
    origin = f"recorded on {recorded.machine.gpu}, {recorded.when[:10]}"
    instructions, notes = emulated.instructions, list(emulated.notes)
    samples = _samples(emulated, recorded)
    if samples is not None:
        instructions = tuple(
            replace(instruction, samples=samples.get(instruction.pc, {})) for instruction in instructions
        )
    else:
        notes.append(f"{emulated.kernel.name}: compiled to other code than was recorded: no stalls by instruction.")
    if recorded.machine.cuda and recorded.machine.cuda != emulated.machine.cuda:
        notes.append(
            f"{emulated.kernel.name}: compiled by CUDA {emulated.machine.cuda}, recorded with {recorded.machine.cuda}."
        )
    return replace(emulated, metrics=metrics, instructions=instructions, notes=tuple(notes), beside=origin)


def _samples(emulated: Profile, recorded: Profile) -> dict[int, Mapping[str, int]] | None:
    """Return the recorded stall samples by offset; None where the two are not of the same code."""
    first = recorded.instructions[0].pc if recorded.instructions else 0
    own = {instruction.pc: instruction.opcode for instruction in emulated.instructions}
    theirs = {
        instruction.pc - first: instruction for instruction in recorded.instructions
    }  # ncu leaves out what was never reached
    if any(own.get(offset) != instruction.opcode for offset, instruction in theirs.items()):
        return None
    return {offset: instruction.samples for offset, instruction in theirs.items()}


def save_cubin(emulated: Emulated, folder: Path) -> None:
    """Write the cubin that was emulated beside the profile, under the name that the profile gives."""
    write_atomically(folder / emulated.profile.report, emulated.binary.cubin.data)
