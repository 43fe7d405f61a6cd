"""Capture without a GPU: the program runs with a stand-in for CUDA's runtime, and no kernel runs.

Its device code is read from the file before it starts, so that the stand-in knows the parameters' sizes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elftools.elf.dynamic import DynamicSection
from elftools.elf.sections import SymbolTableSection

from ncu_swizzle.base import bounds, cache, child
from ncu_swizzle.base.errors import (
    BadFile,
    EnvironmentLacking,
    NcuSwizzleError,
    NotComparable,
    ProgramFailed,
    UsageError,
)
from ncu_swizzle.base.files import brief, read_bytes
from ncu_swizzle.capture import running
from ncu_swizzle.capture.launches import DRY, CapturedLaunch, CapturedProgram, Contents, Manifest, write
from ncu_swizzle.capture.running import CaptureLimits, Record, Recording, StandInGpu
from ncu_swizzle.cubin.elf import ELF, PTX, SECTIONS, Cubin, FatBinary, fat_binaries, open_elf
from ncu_swizzle.kernels import check
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports.model import MachineInfo

# What the stand-in for CUDA's runtime wrote, as launches.

INITIAL = "initial"  # a variable that has not been written yet
OF_CONSTANTS, OF_GLOBALS = ".nv.constant3", (".nv.global.init", ".nv.global")


class DryRecord(Record):
    """One process's events, as the stand-in writes them."""

    def __init__(self, file: Path, recording: Recording, kernels: Mapping[int, Mapping[str, Cubin]]) -> None:
        """Take the kernels of the program's fat binaries by checksum and name."""
        super().__init__(file, recording)
        self._kernels = kernels
        self._cubin: Cubin  # of the launch that is being read

    def launch(self, event: Mapping[str, Any]) -> CapturedLaunch | tuple[str, str]:
        """Return one launch, or its kernel and why it is left out."""
        return self._launch(dict(event))

    def cubin(self, event: dict[str, Any]) -> str:
        self._cubin = self._kernels[event["binary"]][event["kernel"]]
        sha256 = cache.sha256(self._cubin.data)
        if sha256 not in self.recording.cubins:
            self.recording.cubins[sha256] = _kept(self.folder, sha256, self._cubin.data)
        return sha256

    def contents(self, part: dict[str, Any]) -> Contents:
        if part["content"] is not None or part["why"] != INITIAL:
            return super().contents(part)
        initial = _initial(self._cubin, part["name"], part["bytes"])
        if initial is None:
            return Contents(why="its cubin does not say what it holds")
        digest = cache.sha256(initial)
        self.recording.memory.setdefault(digest, _kept(self.folder, digest, initial))
        return Contents(digest)


def _kept(folder: Path, sha256: str, content: bytes) -> Path:
    file = folder / sha256
    file.write_bytes(content)
    return file


def _initial(cubin: Cubin, name: str, size: int) -> bytes | None:
    """Return a variable's initial content; None if the cubin has no such variable."""
    for symbol in cubin.symbols:
        if symbol.name == name and symbol.size == size and symbol.section in (OF_CONSTANTS, *OF_GLOBALS):
            content = cubin.section(symbol.section)
            return content[symbol.offset : symbol.offset + size] if content else bytes(size)
    return None


SOURCE, DRIVER = "standin.c", "libcuda.so.1"
SHARED = "build it with the shared runtime: NVCC_APPEND_FLAGS='-cudart shared' make, or nvcc -cudart shared"
ON_A_GPU = "capture it on a machine with a GPU, without --dry; docs/launches.md lists what the stand-in has"
_RUNTIME = re.compile(r"libcudart\.so\.(\d+)(\.\d+)?$")
_OTHERS = re.compile(r"lib(cublas\w*|cufft\w*|cusparse\w*|cusolver\w*|curand|cudnn\w*|nccl|nvrtc|nvJitLink|npp\w+)\.so")
_DEFINED = re.compile(r"^(?:API .*?|LAUNCHES\()\b(_*cu(?:da)?[A-Z]\w+)\(?", re.MULTILINE)
_CALLED = re.compile(r"_*cu(?:da)?[A-Z]\w*$")


@dataclass(frozen=True)
class DryProgram:
    """An ELF program: the libraries that it needs, what it calls of the runtime, and its device code."""

    needed: tuple[str, ...]
    called: tuple[str, ...]
    binaries: tuple[FatBinary, ...]

    @property
    def runtime(self) -> str:
        """The shared runtime's name, such as libcudart.so.13; empty if it is linked in."""
        return next((name for name in self.needed if _RUNTIME.match(name)), "")


def record(
    argv: Sequence[str],
    folder: Path,
    limits: CaptureLimits,
    scratch: Path,
    gpu: StandInGpu,
    toolchain: Toolchain,
    cached: bool = True,
    execute: Execute | None = None,
) -> Recording:
    """Run the program against the stand-in and return its launches; their bytes are in the scratch folder.

    `execute` executes each launch while the program waits: it gets what the launch leaves.
    Raises UsageError for a program that is not linked with the shared runtime, EnvironmentLacking for what the stand-in
    lacks, ProgramFailed if the program fails, and NothingProfiled.
    """
    program = _inspect_program(argv[0], folder)
    into = scratch / "recording"
    into.mkdir(0o700)
    kernels = dict(_kernels(program, gpu, toolchain, cached))
    # For the stand-in, a line per kernel: its fat binary, its name, registers, static shared memory, the most threads
    # that it may have, the cluster that it is compiled for, and the number, offsets and sizes of its parameters.
    table = []
    for checksum, cubins in kernels.items():
        for kernel, cubin in cubins.items():
            attributes = cubin.attributes(kernel)
            numbers = (
                *(attributes.registers, attributes.static_shared, attributes.max_threads),
                *(attributes.cluster or (0, 0, 0)),
                len(attributes.parameters),
                *(number for slot in attributes.parameters for number in (slot.offset, slot.size)),
            )
            table.append(f"{checksum:x} {kernel} {' '.join(map(str, numbers))}\n")
    (into / "kernels.table").write_text("".join((*table, "\0")), encoding="utf-8")  # a text of C
    _build(program, scratch, gpu, cached)
    family = running.family(scratch, cached)
    with running.plain_path(scratch) as libraries:
        path = os.pathsep.join(filter(None, (str(libraries), os.environ.get("LD_LIBRARY_PATH"))))
        limits = replace(limits, execute=execute is not None)
        environment = {**os.environ, **running.settings(limits, into), "LD_LIBRARY_PATH": path}
        with Executor(into, scratch, kernels, execute) as executor:
            outcome = child.run(argv, limits.timeout_s, folder, environment, started_by=family)
    recording = running.read(into, limits.count, lambda file, of: DryRecord(file, of, kernels))
    if recording.problems:
        raise EnvironmentLacking(f"the stand-in for CUDA's runtime does not have {recording.problems[0]}", ON_A_GPU)
    if executor.fault:
        raise ProgramFailed(executor.fault, "fix it: a GPU may only compute something else there")
    if recording.unknown:
        raise NotComparable(f"the program reads what is not known: {recording.unknown[0]}", ON_A_GPU)
    if execute and outcome.status:
        running.refuse_failed(argv, outcome)
    recording.log = bounds.last_lines(outcome.log) if execute else ""
    recording.notes += executor.notes
    ended = f"{Path(argv[0]).name} exited with status {outcome.status}, as no kernel ran; its last lines:\n"
    # A program that checks its results ends with an error, as no kernel computed any: its launches until then
    # count. A signal is different.
    if outcome.status < 0 or (outcome.status and not recording.launches):
        raise ProgramFailed(ended + bounds.last_lines(outcome.log), ON_A_GPU)
    if not recording.launches:
        raise running.nothing(recording, limits)
    if outcome.status:  # such as one that verifies its results at the end
        recording.notes.append(ended.partition(";")[0] + ": what it launches after that is not captured.")
    recording.machine = gpu.machine
    return recording


# ---------------------------------------------------------------------------------------------- execution


@dataclass(frozen=True, kw_only=True)
class Left:
    """What a launch that was executed has left in memory."""

    known: tuple[tuple[int, bytes], ...] = ()  # by address, or by the number of a variable
    why: str = ""  # something is unknown
    inexact: tuple[str, ...] = ()  # instructions that it depends on and that are not bit-exact
    fault: str = ""  # it has an access out of bounds, or hangs
    notes: tuple[str, ...] = ()  # its races


Execute = Callable[[Path], Left]  # given a launches file with one launch
POLL_S, GRACE_S = 0.002, 1.0  # until the thread looks again, and until it is left alone with what it executes


class Executor:
    """A thread that executes what a program launches while the program waits for it."""

    def __init__(
        self, into: Path, scratch: Path, kernels: Mapping[int, Mapping[str, Cubin]], execute: Execute | None
    ) -> None:
        self.fault = ""
        self._failed: BaseException | None = None
        self._inexact: dict[str, None] = {}
        self._notes: dict[str, None] = {}
        self._into, self._file, self._kernels, self._execute = into, scratch / "one.launches", kernels, execute
        self._read: dict[Path, int] = {}  # bytes of each record
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Executor:
        if self._execute:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._execute:
            self._thread.join(GRACE_S)
        if self._failed:
            raise self._failed

    @property
    def notes(self) -> list[str]:
        """What is to be said of the results."""
        inexact = [f"The program's results are not bit-exact: {', '.join(self._inexact)}."] if self._inexact else []
        return [*self._notes, *inexact]

    def _serve(self) -> None:
        while not self._ended.wait(POLL_S):
            for record in self._into.glob("*.jsonl"):
                with record.open("rb") as lines:
                    lines.seek(self._read.get(record, 0))
                    new = lines.read()
                new = new[: new.rfind(b"\n") + 1]
                self._read[record] = self._read.get(record, 0) + len(new)
                for line in new.splitlines():
                    if b'"is": "dry"' in line:
                        self._answer(record, json.loads(line))

    def _answer(self, record: Path, event: Mapping[str, Any]) -> None:
        try:
            left = self._left(record, event)
        except BaseException as error:
            self._failed = error  # the program must not wait for ever
            left = Left(fault=str(error))
        if self._ended.is_set():  # nobody waits any more
            return
        self.fault = self.fault or left.fault
        self._inexact |= dict.fromkeys(left.inexact)
        self._notes |= dict.fromkeys(left.notes)
        parts = [(len(why := left.why.encode()[:250]), why), *((at, content) for at, content in left.known)]
        answer = bytearray(struct.pack("<Q", bool(left.fault)))
        for number, (at, content) in enumerate(parts):
            answer += struct.pack("<Q", at) if not number else struct.pack("<QQ", at, len(content))
            answer += content + bytes(-len(content) % 8)
        made = self._into / "answer"
        made.write_bytes(answer)
        made.rename(self._into / f"{record.stem}-r{event['seen']}")

    def _left(self, record: Path, event: Mapping[str, Any]) -> Left:
        recording = Recording()
        launch = DryRecord(record, recording, self._kernels).launch(event)
        if isinstance(launch, tuple):
            return Left(why=launch[1])
        sizes = [{digest: path.stat().st_size for digest, path in files.items()}
                 for files in (recording.cubins, recording.memory)]  # fmt: skip
        manifest = Manifest(
            origin=DRY, generator="", when="", machine=MachineInfo(), program=CapturedProgram(""), commit="",
            launches=(launch,), cubins=sizes[0], memory=sizes[1],
        )  # fmt: skip
        write(self._file, manifest, recording.cubins, recording.memory)
        assert self._execute is not None
        return self._execute(self._file)


# ---------------------------------------------------------------------------------------------- the program


def _inspect_program(name: str, folder: Path) -> DryProgram:
    """Inspect the program; raise UsageError if its runtime cannot be replaced by the stand-in."""
    path = folder / name if "/" in name else Path(shutil.which(name) or name)
    data = read_bytes(path, "name the program itself: ncu-swizzle capture --dry -- ./app")
    if data[:4] != b"\x7fELF":
        raise UsageError(
            f"{name} is not a program but a script", "ncu-swizzle capture --dry -- ./app names the program"
        )
    try:
        program = _read(data)
    except NcuSwizzleError:
        raise
    except Exception as error:  # whatever a damaged file makes pyelftools raise
        raise BadFile(f"{name} cannot be read: {brief(error)}", "build it again") from error
    if not program.binaries:
        raise UsageError(f"{name} has no device code", "name the program with the kernels, not one that starts it")
    if not program.runtime:
        raise UsageError(f"CUDA's runtime is linked into {name}", SHARED)
    if others := [library for library in program.needed if _OTHERS.match(library)]:
        raise EnvironmentLacking(f"{name} needs {', '.join(others)}, for which there is no stand-in", ON_A_GPU)
    return program


def _read(data: bytes) -> DryProgram:
    elf = open_elf(data)
    needed: list[str] = []
    called: list[str] = []
    binaries: list[FatBinary] = []
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            tags: Any = section.iter_tags("DT_NEEDED")
            needed += [tag.needed for tag in tags]
        elif isinstance(section, SymbolTableSection) and section.name == ".dynsym":
            called += [symbol.name for symbol in section.iter_symbols() if symbol["st_shndx"] == "SHN_UNDEF"]
        elif section.name in SECTIONS:
            binaries += fat_binaries(section.data())
    return DryProgram(tuple(needed), tuple(filter(_CALLED.match, called)), tuple(binaries))


def _kernels(
    program: DryProgram, gpu: StandInGpu, toolchain: Toolchain, cached: bool
) -> Iterator[tuple[int, Mapping[str, Cubin]]]:
    """Yield the kernels of each fat binary by name, under its checksum: built for the GPU, or compilable from PTX."""
    for number, binary in enumerate(program.binaries):
        by_name: dict[str, Cubin] = {}
        for cubin in _cubins(binary, gpu, toolchain, cached, f"{number}.cubin"):
            for kernel in cubin.kernels:
                by_name.setdefault(kernel, cubin)
        yield binary.checksum, by_name


def _cubins(binary: FatBinary, gpu: StandInGpu, toolchain: Toolchain, cached: bool, name: str) -> Iterator[Cubin]:
    compiled = [entry for entry in binary.entries if entry.kind == ELF and entry.sm == gpu.sm]
    ptx = [entry for entry in binary.entries if entry.kind == PTX and entry.sm <= gpu.sm]
    for entry in compiled:
        content = entry.content()
        if b".nv.constant0." in content:  # else it has no kernel
            yield Cubin(content, name)
    if not compiled and ptx:
        newest = max(ptx, key=lambda entry: entry.sm).content().rstrip(b"\0")
        if b".entry" in newest:
            yield Cubin(check.assembled(newest, name, toolchain, cached, f"sm_{gpu.sm}"), name)


# ---------------------------------------------------------------------------------------------- the stand-in


def _build(program: DryProgram, scratch: Path, gpu: StandInGpu, cached: bool) -> None:
    """Build the stand-in, under the name and with the symbol version that the program asks for."""
    match, present = _RUNTIME.match(program.runtime), defined()
    # Functions that the stand-in lacks report that and end the program.
    missing = [name for name in dict.fromkeys(program.called) if name not in present]
    generated: dict[str, Any] = {
        # As cudaRuntimeGetVersion counts: 13000 is 13.0.
        "device.h": running.header(gpu, int(match[1] if match else 0) * 1000),
        "missing.h": "".join(f'API int {name}(void) {{ return give_up("{name}"); }}\n' for name in missing),
        "versions.map": f"{program.runtime} {{ global: *; }};\n",
    }
    options = (f"-Wl,-soname,{program.runtime}", "-Wl,--version-script=versions.map")
    running.build(SOURCE, scratch, name=program.runtime, options=options, generated=generated, cached=cached)
    (scratch / DRIVER).symlink_to(program.runtime)  # it has the driver's functions, too


def defined() -> frozenset[str]:
    """Return the functions of the runtime that the stand-in has."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(running.sources().glob("standin*"))]
    return frozenset(name for text in texts for name in _DEFINED.findall(text))
