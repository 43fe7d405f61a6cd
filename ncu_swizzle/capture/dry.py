"""Capture without a GPU: the program runs with a stand-in for CUDA's runtime, and no kernel runs.

Its device code is read from the file before it starts, so that the stand-in knows the parameters' sizes.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.elf.dynamic import DynamicSection
from elftools.elf.sections import SymbolTableSection

from ncu_swizzle import child
from ncu_swizzle.bounds import quotation
from ncu_swizzle.build import assembled
from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.capture import dry_recorded, fatbinary, gpus, library, running
from ncu_swizzle.capture.fatbinary import FatBinary
from ncu_swizzle.capture.gpus import StandInGpu
from ncu_swizzle.capture.recorded import Recording
from ncu_swizzle.capture.running import CaptureLimits
from ncu_swizzle.cubin.elf import Cubin, open_elf
from ncu_swizzle.errors import BadFile, EnvironmentLacking, NcuSwizzleError, NothingProfiled, ProgramFailed, UsageError
from ncu_swizzle.files import brief, read_bytes

SOURCE = "standin.c"
SHARED = "build it with the shared runtime: NVCC_APPEND_FLAGS='-cudart shared' make, or nvcc -cudart shared"
ON_A_GPU = "capture it on a machine with a GPU, without --dry; docs/launches.md lists what the stand-in has"
_RUNTIME = re.compile(r"libcudart\.so\.(\d+)(\.\d+)?$")
_OTHERS = re.compile(
    r"lib(cuda|cublas\w*|cufft\w*|cusparse\w*|cusolver\w*|curand|cudnn\w*|nccl|nvrtc|nvJitLink|npp\w+)\.so"
)
_DEFINED = re.compile(r"^(?:API .*?|LAUNCHES\()\b(_*cuda\w+)\(?", re.MULTILINE)
_CALLED = re.compile(r"_*cuda[A-Z]\w*$")


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
) -> Recording:
    """Run the program against the stand-in and return its launches; their bytes are in the scratch folder.

    Raises UsageError for a program that is not linked with the shared runtime, EnvironmentLacking for what the stand-in
    lacks, ProgramFailed if the program fails, and NothingProfiled.
    """
    program = _examined(argv[0], folder)
    into = scratch / "recording"
    into.mkdir(0o700)
    kernels = dict(_kernels(program, gpu, toolchain, cached))
    (into / "kernels.table").write_text("".join(_table(kernels)), encoding="utf-8")
    _build(program, scratch, gpu, cached)
    path = os.pathsep.join(filter(None, (str(scratch), os.environ.get("LD_LIBRARY_PATH"))))
    environment = {**os.environ, **running.settings(limits, into), "LD_LIBRARY_PATH": path}
    outcome = child.run(argv, limits.timeout_s, folder, environment)
    recording = dry_recorded.read(into, kernels, limits.count)
    if recording.problems:
        raise EnvironmentLacking(f"the stand-in for CUDA's runtime does not have {recording.problems[0]}", ON_A_GPU)
    ended = f"{Path(argv[0]).name} exited with status {outcome.status}, as no kernel ran; its last lines:\n"
    if outcome.status < 0 or (outcome.status and not recording.launches):
        raise ProgramFailed(ended + quotation.last_lines(outcome.log), ON_A_GPU)
    if not recording.launches:
        raise NothingProfiled("the program launched no kernel that was asked for", "leave out -k, or run it by itself")
    if outcome.status:  # such as one that verifies its results at the end
        recording.notes.append(ended.partition(";")[0] + ": what it launches after that is not captured.")
    recording.machine = gpu.machine
    return recording


# ---------------------------------------------------------------------------------------------- the program


def _examined(name: str, folder: Path) -> DryProgram:
    """Return the program; raise UsageError if there is no standing in for its runtime."""
    found = folder / name if "/" in name else Path(shutil.which(name) or name)
    data = read_bytes(found, "name the program itself: ncu-swizzle capture --dry -- ./app")
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
        elif section.name in fatbinary.SECTIONS:
            binaries += fatbinary.fat_binaries(section.data())
    return DryProgram(tuple(needed), tuple(filter(_CALLED.match, called)), tuple(binaries))


def _kernels(
    program: DryProgram, gpu: StandInGpu, toolchain: Toolchain, cached: bool
) -> Iterator[tuple[int, Mapping[str, Cubin]]]:
    """Yield the kernels of each fat binary by name, under its checksum: for the GPU, or from PTX that can be."""
    for number, binary in enumerate(program.binaries):
        found: dict[str, Cubin] = {}
        for cubin in _cubins(binary, gpu, toolchain, cached, f"{number}.cubin"):
            for kernel in cubin.kernels:
                found.setdefault(kernel, cubin)
        yield binary.checksum, found


def _cubins(binary: FatBinary, gpu: StandInGpu, toolchain: Toolchain, cached: bool, name: str) -> Iterator[Cubin]:
    compiled = [entry for entry in binary.entries if entry.kind == fatbinary.ELF and entry.sm == gpu.sm]
    ptx = [entry for entry in binary.entries if entry.kind == fatbinary.PTX and entry.sm <= gpu.sm]
    for entry in compiled:
        content = entry.content()
        if b".nv.constant0." in content:  # else it has no kernel
            yield Cubin(content, name)
    if not compiled and ptx:
        newest = max(ptx, key=lambda entry: entry.sm).content().rstrip(b"\0")
        if b".entry" in newest:
            yield Cubin(assembled.cubin(newest, name, toolchain, cached, f"sm_{gpu.sm}"), name)


def _table(kernels: Mapping[int, Mapping[str, Cubin]]) -> Iterator[str]:
    for checksum, found in kernels.items():
        for kernel, cubin in found.items():
            slots = cubin.attributes(kernel).parameters
            numbers = " ".join(f"{slot.offset} {slot.size}" for slot in slots)
            yield f"{checksum:x} {kernel} {len(slots)} {numbers}\n"


# ---------------------------------------------------------------------------------------------- the stand-in


def _build(program: DryProgram, scratch: Path, gpu: StandInGpu, cached: bool) -> None:
    """Build the stand-in, under the name and with the symbol version that the program asks for."""
    major = int(_version(program.runtime))
    generated: dict[str, Any] = {
        "device.h": gpus.header(gpu, major * 1000),
        "missing.h": "".join(_missing(program.called, defined())),
        "versions.map": f"{program.runtime} {{ global: *; }};\n",
    }
    options = (f"-Wl,-soname,{program.runtime}", "-Wl,--version-script=versions.map")
    library.build(SOURCE, scratch, program.runtime, options, generated, cached)


def _version(runtime: str) -> str:
    match = _RUNTIME.match(runtime)
    return match[1] if match else "0"


def defined() -> frozenset[str]:
    """Return the functions of the runtime that the stand-in has."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(library.sources().glob("standin*"))]
    return frozenset(name for text in texts for name in _DEFINED.findall(text))


def _missing(called: Sequence[str], present: frozenset[str]) -> Iterator[str]:
    """Yield a function for each that the program calls and the stand-in lacks, which says so and ends the program."""
    for name in dict.fromkeys(called):
        if name not in present:
            yield f'API int {name}(void) {{ return give_up("{name}"); }}\n'
