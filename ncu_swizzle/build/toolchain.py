"""CUDA's compiler, assembler and disassembler: find them and run them. Nothing else runs them, except PyCUDA.

The search order is: next to the nvcc named by --nvcc, CUDA_HOME, PATH, /usr/local/cuda, and last the installed Python
packages, where ``pip install 'ncu-swizzle[nvcc]'`` puts them. A toolkit may lack the disassembler, so each tool is
searched for separately; a newer disassembler reads an older compiler's output.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle import child
from ncu_swizzle.build.compiled import Refused
from ncu_swizzle.errors import BadFile, EnvironmentLacking, ProgramFailed

ARCH = "sm_90"  # the wavefront rules were measured on it
INSTALL = "pip install 'ncu-swizzle[nvcc]', or pass a toolkit's compiler with --nvcc"
TOOLKIT = Path("/usr/local/cuda")
NVCC, PTXAS, NVDISASM = "nvcc", "ptxas", "nvdisasm"
TIMEOUT_S = 600.0


def nvcc_release(text: str) -> str:
    """Return release and build, such as 13.0 (V13.0.88), from the output of ``nvcc --version``; "" if it has none."""
    match = re.search(r"release (\S+), (\S+)", text)
    return f"{match[1]} ({match[2]})" if match else ""


@dataclass(frozen=True)
class Toolchain:
    """The CUDA tools, those next to `nvcc` preferred if it is given."""

    nvcc: Path | None = None
    timeout_s: float = TIMEOUT_S

    def find(self, tool: str) -> Path:
        """Return a tool's path; raise EnvironmentLacking if it is not found."""
        if self.nvcc is not None and not _runs(self.nvcc):
            raise EnvironmentLacking(f"{self.nvcc} is not a program", "name the compiler itself: --nvcc /…/bin/nvcc")
        if tool == NVCC and self.nvcc is not None:
            return self.nvcc
        for folder in _folders(self.nvcc):
            if _runs(folder / tool):
                return folder / tool
        raise EnvironmentLacking(f"{tool} was not found", INSTALL)

    def lacking(self, *tools: str) -> str:
        """Return a message about the first missing tool; empty if none is missing."""
        try:
            for tool in tools or (NVCC, NVDISASM):
                self.find(tool)
        except EnvironmentLacking as error:
            return str(error)
        return ""

    def version(self) -> str:
        """Return nvcc's release and build, such as 13.0 (V13.0.88)."""
        text = self._run(NVCC, ["--version"])
        return nvcc_release(text) or text.strip()

    def compile(self, unit: str, options: Sequence[str], arch: str, include: Sequence[Path]) -> bytes:
        """Return the cubin of a translation unit; raise Refused, or EnvironmentLacking if nvcc does not work."""
        folders = [part for folder in include for part in ("-I", str(folder))]
        with _scratch() as folder:
            source, out = folder / "kernel.cu", folder / "kernel.cubin"
            source.write_text(unit, encoding="utf-8")
            try:
                self._run(NVCC, [*options, "-arch", arch, *folders, "--cubin", str(source), "-o", str(out)])
            except ProgramFailed as error:
                raise Refused(str(error)) from error
            return out.read_bytes()

    def assemble(self, ptx: bytes, name: str) -> bytes:
        """Return the cubin of a PTX file, for the architecture that it targets; raise BadFile if it is invalid."""
        target = re.search(rb"^\s*\.target\s+(sm_\w+)", ptx, re.MULTILINE)
        if target is None:
            raise BadFile(
                f"{name} is not PTX: it has no .target", "create it with nvcc --ptx -arch=sm_90 -lineinfo FILE.cu"
            )
        with _scratch() as folder:
            source, out = folder / "kernel.ptx", folder / "kernel.cubin"
            source.write_bytes(ptx)
            arguments = ["-arch", target[1].decode(), "-lineinfo", str(source), "-o", str(out)]
            try:
                self._run(PTXAS, arguments, f"ptxas could not assemble {name}", "compile it again with nvcc --ptx")
            except ProgramFailed as error:
                raise BadFile(str(error), error.hint) from error
            return out.read_bytes()

    def disassemble(self, cubin: bytes, name: str) -> str:
        """Return the disassembly of all functions in a cubin; raise BadFile if nvdisasm rejects it."""
        with _scratch() as folder:
            file = folder / "kernel.cubin"
            file.write_bytes(cubin)
            try:
                return self._run(NVDISASM, ["-c", str(file)], f"{name} cannot be disassembled", "compile it again")
            except ProgramFailed as error:
                raise BadFile(str(error), error.hint) from error

    def _run(self, tool: str, arguments: Sequence[str], failure: str = "", hint: str = "") -> str:
        """Run a tool and return its output; raise ProgramFailed with the end of that output if it fails."""
        program = self.find(tool)
        # Tools of one toolkit find each other; nvcc finds the host compiler on PATH.
        outcome = child.run([str(program), *arguments], self.timeout_s)
        if outcome.status == 0:
            return outcome.log
        if re.search(r"(gcc|g\+\+|cl\.exe|cc1plus)\S*: (command )?not found|Failed to preprocess host", outcome.log):
            raise EnvironmentLacking(
                f"nvcc needs a host C++ compiler: {child.last_lines(outcome.log)}", "apt-get install g++"
            )
        raise ProgramFailed(f"{failure}:\n{_reason(outcome.log)}" if failure else _reason(outcome.log), hint)


def _reason(log: str) -> str:
    """Return why a compiler failed: its error lines, or the end of its output."""
    errors = [line for line in log.splitlines() if re.search(r"\b(error|fatal)\b", line)]
    return "\n".join(errors[:5]) or child.last_lines(log)


def _folders(nvcc: Path | None) -> Iterator[Path]:
    if nvcc is not None:
        yield nvcc.resolve().parent
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            yield Path(home) / "bin"
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder)
    yield TOOLKIT / "bin"
    yield from packaged()


def packaged() -> list[Path]:
    """Return the folders of tools installed as Python packages, newest toolkit first, without importing anything."""
    spec = importlib.util.find_spec("nvidia")
    locations = (spec.submodule_search_locations or ()) if spec else ()
    folders = [folder for location in locations for folder in Path(location).glob("cu*/bin")]
    return sorted(folders, key=lambda folder: (len(folder.parent.name), folder.parent.name), reverse=True)


def _runs(file: Path) -> bool:
    return file.is_file() and os.access(file, os.X_OK)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ncu-swizzle-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
