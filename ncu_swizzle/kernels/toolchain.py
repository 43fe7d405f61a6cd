"""How kernels are compiled, and CUDA's tools: find them and run them. Nothing else runs them, except PyCUDA.

The search order is: next to the nvcc named by --nvcc, CUDA_HOME, PATH, /usr/local/cuda, and last the installed Python
packages, where ``pip install 'ncu-swizzle[nvcc]'`` puts them; of CUDA_HOME and PATH only absolute folders count. A
toolkit may lack the disassembler, so each tool is searched for separately; a newer disassembler reads an older
compiler's output.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ncu_swizzle.base import bounds, cache, child, paths
from ncu_swizzle.base.cache import sha256, sha256_of_texts
from ncu_swizzle.base.errors import BadFile, EnvironmentLacking, NcuSwizzleError, ProgramFailed, TimeLimit, UsageError
from ncu_swizzle.base.files import is_file, slug
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import limits, nvcc_options
from ncu_swizzle.kernels.family import Family, Kernel

# A kernel's cubin, from the cache or compiled now, by PyCUDA or by our own toolchain.

KIND = "cubins"


class Refused(Exception):
    """The compiler rejected the source; the text is why, `log` all that it printed."""

    def __init__(self, reason: str, log: str = "") -> None:
        super().__init__(reason)
        self.log = log or reason


class _Printed(Exception):
    """All that a tool printed before it failed."""


@dataclass(frozen=True, kw_only=True)
class Translation:
    """A translation unit as the two compilers of nvcc left it: PTX of the device, assembly of the host."""

    ptx: str  # empty if it is not CUDA
    host: str
    module: str  # what the compiler calls the unit in the names of internal symbols, which differs in every folder
    read: tuple[Path, ...]  # every file that the preprocessor read, but for the unit itself


class Compiler(Protocol):
    """What compiles a translation unit."""

    def version(self) -> str:
        """Return release and build, such as 13.0 (V13.0.88)."""

    def compile(self, unit: str, options: Sequence[str], arch: str, include: Sequence[Path]) -> bytes:
        """Return the unit's cubin; raise Refused."""


def cubin(family: Family, kernel: Kernel, arch: str, compiler: Compiler, cached: bool = True) -> bytes:
    """Return the kernel's cubin, compiled unless cached for the same sources, options and compiler.

    Without `cached` the cache is neither read nor written. Raises ProgramFailed (for a user's source: UsageError) if it
    does not compile, EnvironmentLacking if headers or the compiler are missing.
    """
    key = cache_key(family, kernel, arch, compiler.version())
    keeps = cached and cacheable(family, kernel)
    if keeps and (kept := cache.load(KIND, key)):
        return kept
    text, include = unit(family, kernel), include_folders(family)
    try:
        code = compiler.compile(text, options(family, kernel), arch, include)
    except Refused as error:
        specific = needed_arch(str(error))
        if specific.rstrip("af") != arch:
            raise failure(family, kernel, str(error)) from error
        try:  # its code for sm_90a runs wherever that for sm_90 does that needs such instructions
            code = compiler.compile(text, options(family, kernel), specific, include)
        except Refused as again:
            raise failure(family, kernel, str(again)) from again
    if keeps:
        cache.save(KIND, key, code)
    return code


def cache_key(family: Family, kernel: Kernel, arch: str, compiler_version: str) -> str:
    """Return the cubin's key in the cache, which changes with the sources, the options and the compiler."""
    return f"{slug(kernel.name)}-{arch}-{digest(family, kernel, arch, compiler_version)[:32]}"


SASS = "sass"
MOST_SASS_BYTES = 4 << 20  # of a text in the cache


LARGE_CUBIN = 1 << 20  # bytes: of a library's, with hundreds of kernels, one alone is disassembled


def disassembly(cubin: Cubin, toolchain: Toolchain, cached: bool = True, kernel: str = "") -> str:
    """Return the SASS of all functions in a cubin, disassembled unless cached for the same cubin and nvdisasm.

    Of a large one only of the `kernel` that is named, and of what it may call. The last few are remembered, too: a
    sweep emulates one cubin at many sizes, a program launches the kernels of one module in turn. Raises what
    `Toolchain.disassemble` raises.
    """
    program = toolchain.find(NVDISASM)
    only = cubin.reachable(kernel) if kernel and len(cubin.data) > LARGE_CUBIN else ()
    which = sha256(cubin.data), f"{program} {program.stat().st_mtime_ns}", cached, only
    text = _TEXTS.pop(which, None) or _disassembly(cubin.data, cubin.name, toolchain, cached, only)
    remember({which: text})
    if isinstance(text, NcuSwizzleError):
        raise text.with_traceback(None)
    return text


# By cubin, nvdisasm, whether the cache is used, and functions.
Texts = dict[tuple[str, str, bool, tuple[int, ...]], str | NcuSwizzleError]
_TEXTS: Texts = {}
MOST_TEXTS = 4
made: set[str] = set()  # cubins that this process had disassembled, by their digests: not in the cache, or not cached


def remember(texts: Texts) -> None:
    """Keep the disassemblies of this process, or of another one, as the last ones."""
    _TEXTS.update(texts)
    while len(_TEXTS) > MOST_TEXTS:
        del _TEXTS[next(iter(_TEXTS))]


def remembered() -> Texts:
    """Return the disassemblies that another process may keep; what failed, it says itself."""
    return {which: text for which, text in _TEXTS.items() if isinstance(text, str)}


def _disassembly(
    code: bytes, name: str, toolchain: Toolchain, cached: bool, only: tuple[int, ...]
) -> str | NcuSwizzleError:
    """Return the text, or why there is none: remembered as well, for nvdisasm may have taken its whole limit."""
    version = toolchain.working_version(NVDISASM) if cached else ""
    key = sha256_of_texts(sha256(code), version, *([str(only)] if only else []))[:40] if version else ""
    if key and (kept := cache.load(SASS, key)) is not None:
        return kept.decode(errors="replace")
    try:
        text = toolchain.disassemble(code, name, *only)
        made.add(sha256(code))
    except (BadFile, ProgramFailed) as error:
        return error
    if key and len(content := text.encode(errors="replace")) <= MOST_SASS_BYTES:
        cache.save(SASS, key, content)
    return text


ARCH = "sm_90"  # the wavefront rules were measured on it
INSTALL = "pip install 'ncu-swizzle[nvcc]', or pass a toolkit's compiler with --nvcc"
TOOLKIT = Path("/usr/local/cuda")
NVCC, PTXAS, NVDISASM = "nvcc", "ptxas", "nvdisasm"
PTX_ONLY = "-ptx"  # of the options of nvcc: the device's half alone
TIMEOUT_S = 600.0
DISASSEMBLY_BYTES = 64 << 20  # of text, from a cubin of about that size
MEMORY_BYTES = 8 << 30  # of a tool's address space: a damaged file, or a hostile source, could take any amount
# A damaged file can keep a tool busy for ever; an intact one takes far less than this.
ALLOWED_S, ALLOWED_S_PER_BYTE = 6.0, {NVDISASM: 1 / 100_000, PTXAS: 1 / 2_000}
# In names of internal symbols: a hash of our temporary folder, and the length and name of our file.
_MODULE = re.compile(rb"(_INTERNAL_|_GLOBAL__N__)[0-9a-f]{8}(?=_9_kernel_cu_)")
_TOO_NEW = re.compile(r"Unsupported \.version|is not defined for option 'gpu-name'")
_NO_HOST_COMPILER = re.compile(
    r"(gcc|g\+\+|cl\.exe|cc1plus)[^\s:]{0,40}: (command )?not found|Failed to preprocess host"
)


def nvcc_release(text: str) -> str:
    """Return release and build, such as 13.0 (V13.0.88), from the output of ``nvcc --version``; "" if it has none."""
    match = re.search(r"release (\S{1,40}), (\S{1,40})", text)
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
        if (found := next(self._installed(tool), None)) is not None:
            return found
        raise EnvironmentLacking(f"{tool} was not found", INSTALL)

    def _installed(self, tool: str) -> Iterator[Path]:
        """Yield the paths of a tool, in the order in which it is searched for."""
        return (folder / tool for folder in _folders(self.nvcc) if _runs(folder / tool))

    def lacking(self, *tools: str) -> str:
        """Return a message about the first missing tool; empty if none is missing."""
        try:
            for tool in tools or (NVCC, NVDISASM):
                self.find(tool)
        except EnvironmentLacking as error:
            return str(error)
        return ""

    def version(self, tool: str = NVCC) -> str:
        """Return a tool's release and build, such as 13.0 (V13.0.88)."""
        program = self.find(tool)
        return self._version(tool, program, program.stat().st_mtime_ns)

    def working_version(self, tool: str) -> str:
        """Return a tool's version, for names in the cache; empty if it does not work, which using it says better."""
        try:
            return self.version(tool)
        except NcuSwizzleError:
            return ""

    @functools.cache  # noqa: B019 - toolchains are few and small
    def _version(self, tool: str, program: Path, changed_ns: int) -> str:  # noqa: ARG002 - the last is for the cache
        text = self._run(tool, ["--version"], program=program)
        return nvcc_release(text) or bounds.last_lines(text)

    @property
    def compiler(self) -> str:
        """nvcc with its version, and the newer one of this environment, if an installed one is found before it."""
        own = self.version()
        text, found = f"nvcc {own}", self.find(NVCC)
        other = next((folder / NVCC for folder in packaged() if _runs(folder / NVCC)), found)
        if self.nvcc is None and other != found:
            newer = self._version(NVCC, other, other.stat().st_mtime_ns)
            if _release(newer) > _release(own):
                text += f", which is {found}; this environment has nvcc {newer}: --nvcc {other} takes it"
        return text

    def compile(self, unit: str, options: Sequence[str], arch: str, include: Sequence[Path]) -> bytes:
        """Return the cubin of a translation unit; raise Refused, or EnvironmentLacking if nvcc does not work."""
        with scratch() as folder:
            out = folder / "kernel.cubin"
            self._nvcc(_written(unit, folder), [*options, "-arch", arch, "--cubin"], out, include)
            return _with_module(out.read_bytes(), sha256_of_texts(unit, arch, *options))

    def preprocess(self, unit: str, options: Sequence[str], arch: str, include: Sequence[Path]) -> str:
        """Return a translation unit as the device's compiler reads it, with its headers and without macros.

        Raises Refused.
        """
        with scratch() as folder:
            out = folder / "kernel.ii"
            self._nvcc(_written(unit, folder), [*options, "-arch", arch, "-E"], out, include)
            return _decoded(out)

    def compile_preprocessed(self, text: str, options: Sequence[str], arch: str) -> bytes:
        """Return the cubin of what `preprocess` returned, perhaps without some of it; raise Refused.

        Options for the preprocessor have no effect.
        """
        with scratch() as folder:
            out = folder / "kernel.cubin"
            # nvcc includes this header before anything else, and finds it in the current folder first: the text has
            # its content already.
            (folder / "cuda_runtime.h").touch()
            self._nvcc(_written(text, folder), [*options, "-arch", arch, "--cubin"], out)
            return _with_module(out.read_bytes(), sha256_of_texts(text, arch, *options))

    def link(self, source: Path, options: Sequence[str], arch: str, include: Sequence[Path], out: Path) -> None:
        """Write the program that a source with ``main`` is, linked with the shared runtime; raise Refused."""
        self._nvcc(source, [*options, "-cudart", "shared", "-arch", arch, *self._runtime(out.parent)], out, include)

    def _runtime(self, folder: Path) -> list[str]:
        """Return options for the linker to find the runtime, which Python packages have under versioned names only."""
        libraries = self.find(NVCC).resolve().parent.parent / "lib"
        versions = sorted(libraries.glob("libcudart.so.*"))
        if not versions or (libraries / "libcudart.so").exists():
            return []
        (folder / "libcudart.so").symlink_to(versions[-1])
        return ["-L", str(folder)]

    def translate(self, unit: str, suffix: str, options: Sequence[str], include: Sequence[Path]) -> Translation:
        """Return what the two compilers of nvcc make of a translation unit, before anything is assembled.

        The suffix says in which language it is; with -ptx, only the device's half is compiled. Raises Refused, or
        EnvironmentLacking if nvcc does not work.
        """
        with scratch() as folder:
            source = _written(unit, folder, suffix)
            out, read, kept = (folder / name for name in ("kernel.s", "kernel.d", "kept"))
            kept.mkdir()
            ways = ["--keep", "--keep-dir", str(kept), "-MD", "-MF", str(read)]
            if device_only := PTX_ONLY in options:
                out = kept / "kernel.ptx"
            else:
                ways += ["-c", "-Xcompiler", "-S"]
            self._nvcc(source, [*options, *ways], out, include, folder)
            ptx, module = kept / "kernel.ptx", kept / "kernel.module_id"
            return Translation(
                ptx=_decoded(ptx) if ptx.exists() else "",
                host="" if device_only else _decoded(out),
                module=_decoded(module).strip() if module.exists() else "",
                read=tuple(file for file in _prerequisites(_decoded(read)) if file != source),
            )

    def _nvcc(
        self, source: Path, words: Sequence[str], out: Path, include: Sequence[Path] = (), folder: Path | None = None
    ) -> None:
        """Run nvcc on a source; raise Refused, or EnvironmentLacking if nvcc does not work.

        It runs in our own `folder`, by default the output's: the preprocessor prefers a cuda_runtime.h of the current
        one to the toolkit's.
        """
        folders = [part for place in include for part in ("-I", str(place))]
        try:
            self._run(NVCC, [*words, *folders, str(source), "-o", str(out)], folder or out.parent)
        except TimeLimit:
            raise
        except ProgramFailed as error:
            raise Refused(str(error), str(error.__cause__ or "")) from error

    def assemble(self, ptx: bytes, name: str, arch: str = "", level: int = 3) -> bytes:
        """Return the cubin of a PTX file, for `arch` or else its own target; raise BadFile if it is invalid."""
        target = re.search(rb"^[^\S\n]*+\.target\s++(sm_\w++)", ptx, re.MULTILINE)
        if target is None:
            raise BadFile(
                f"{name} is not PTX: it has no .target", "create it with nvcc --ptx -arch=sm_90 -lineinfo FILE.cu"
            )
        with scratch() as folder:
            source, out = folder / "kernel.ptx", folder / "kernel.cubin"
            source.write_bytes(ptx)
            chosen = arch or target[1].decode()
            arguments = ["-arch", chosen, f"-O{level}", "-lineinfo", str(source), "-o", str(out)]
            programs = list(self._installed(PTXAS)) or [self.find(PTXAS)]
            for program in programs:
                try:
                    self._run(PTXAS, arguments, folder, len(ptx), program)
                    break
                except ProgramFailed as error:
                    # PTX of a compiler in the environment may be newer than an installed ptxas, and not than its own.
                    if program != programs[-1] and _TOO_NEW.search(str(error)):
                        continue
                    raise _unusable(error, f"ptxas could not assemble {name}", _other_ptx(ptx, str(error))) from error
            return out.read_bytes()

    def disassemble(self, cubin: bytes, name: str, *only: int) -> str:
        """Return the disassembly of a cubin's functions, or only of those whose symbols have these numbers.

        Raises BadFile if nvdisasm rejects it.
        """
        with scratch() as folder:
            file = folder / "kernel.cubin"
            file.write_bytes(cubin)
            try:
                some = ["-fun", ",".join(map(str, only))] if only else []
                return self._run(NVDISASM, ["-c", *some, str(file)], folder, len(cubin))
            except ProgramFailed as error:
                raise _unusable(error, f"{name} cannot be disassembled", "compile it again") from error

    def _run(
        self,
        tool: str,
        arguments: Sequence[str],
        folder: Path | None = None,
        size: int = 0,
        program: Path | None = None,
    ) -> str:
        """Run a tool and return its output; raise ProgramFailed with the end of that output if it fails.

        It runs in the folder and has its temporary files there: a tool that is killed leaves them. `size` is that of
        its input in bytes, `program` the tool if it is not the one to find.
        """
        program = (program or self.find(tool)).absolute()
        # Tools of one toolkit find each other; nvcc finds the host compiler on PATH.
        environment = paths.tool_environment() | ({"TMPDIR": str(folder)} if folder else {})
        limit_s = self._limit_s(tool, size)
        kept_bytes = DISASSEMBLY_BYTES // 2 if tool == NVDISASM else child.KEPT_BYTES
        command = [str(program), *arguments]
        outcome = child.run(command, limit_s, folder, environment, kept_bytes=kept_bytes, memory_bytes=MEMORY_BYTES)
        if outcome.left_out and tool == NVDISASM:
            raise ProgramFailed(
                f"{tool} printed more than {DISASSEMBLY_BYTES >> 20} MiB",
                "extract one kernel: nvprune, cuobjdump -xelf",
            )
        if outcome.status == 0:
            return outcome.log
        if any(_NO_HOST_COMPILER.search(bounds.shortened(line)) for line in outcome.log.splitlines()):
            raise EnvironmentLacking(
                f"nvcc needs a host C++ compiler: {bounds.last_lines(outcome.log)}", "apt-get install g++"
            )
        raise ProgramFailed(reason(outcome.log)) from _Printed(outcome.log)

    def _limit_s(self, tool: str, size: int) -> float:
        """Return a tool's time limit, which --timeout lowers, and raises in proportion."""
        if tool not in ALLOWED_S_PER_BYTE:
            return self.timeout_s
        allowed_s = ALLOWED_S + size * ALLOWED_S_PER_BYTE[tool]
        return min(self.timeout_s, allowed_s * max(1.0, self.timeout_s / TIMEOUT_S))


def _release(version: str) -> tuple[int, ...]:
    """Return the release in a version, such as (13, 0), to compare it."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", version)
    return (int(found[1]), int(found[2])) if found else ()


def _written(unit: str, folder: Path, suffix: str = ".cu") -> Path:
    """Write a translation unit to the folder, and return the file; names of files in it may be any bytes."""
    source = folder / f"kernel{suffix}"
    source.write_bytes(os.fsencode(unit))
    return source


def _decoded(file: Path) -> str:
    return os.fsdecode(file.read_bytes())


def _prerequisites(rule: str) -> Iterator[Path]:
    """Yield the files that a rule for make names, which the preprocessor wrote: all that it read."""
    words = re.sub(r"\\\n", " ", rule).partition(": ")[2]
    for word in re.findall(r"(?:\\.|\S)+", words):
        yield Path(os.path.normpath(re.sub(r"\\(.)", r"\1", word).replace("$$", "$")))


def _with_module(cubin: bytes, digest: str) -> bytes:
    """Return the cubin with internal symbols named after the digest, not after the temporary folder."""
    return _MODULE.sub(lambda match: match[1] + digest[:8].encode(), cubin)


def _unusable(error: ProgramFailed, failure: str, hint: str) -> NcuSwizzleError:
    """Return the error for a file that a tool rejects; a time limit stays one."""
    if isinstance(error, TimeLimit):
        return TimeLimit(f"{failure}: {error}", error.hint)
    return BadFile(f"{failure}:\n{error}", error.hint or hint)


def _other_ptx(ptx: bytes, log: str) -> str:
    """Return what to give in place of PTX that ptxas rejects: nvcc did not write all of it."""
    if _TOO_NEW.search(log):
        return "it is newer than this ptxas: give its compiler's cubin, or --nvcc PATH of a newer toolkit"
    if b"NVIDIA NVVM Compiler" in ptx[:4096]:
        return "create it with nvcc --ptx -arch=sm_90 -lineinfo FILE.cu"
    return "create it again with the compiler that wrote it, or give that compiler's cubin"


def reason(log: str) -> str:
    """Return why a compiler failed: its error lines, or the end of its output."""
    told = (line for line in log.splitlines() if "detected in the compilation of" not in line)  # of a file of ours
    errors = bounds.quoted(line for line in told if re.search(r"\b(error|fatal)\b", line))
    return errors or bounds.last_lines(log)


def _folders(nvcc: Path | None) -> Iterator[Path]:
    if nvcc is not None:
        yield nvcc.resolve().parent
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if (home := Path(os.environ.get(variable, ""))).is_absolute():
            yield home / "bin"
    yield from map(Path, paths.program_folders())
    yield TOOLKIT / "bin"
    yield from packaged()


def packaged() -> list[Path]:
    """Return the folders of tools installed as Python packages, newest toolkit first, without importing anything."""
    spec = importlib.util.find_spec("nvidia")
    locations = (spec.submodule_search_locations or ()) if spec else ()
    folders = [folder for location in locations for folder in Path(location).glob("cu*/bin")]
    return sorted(folders, key=lambda folder: (len(folder.parent.name), folder.parent.name), reverse=True)


def _runs(file: Path) -> bool:
    return os.path.isfile(file) and os.access(file, os.X_OK)  # noqa: PTH113 - Path.is_file raises for closed folders


# The translation unit, nvcc's options, include folders and the cache key.

_MISSING_HEADER = re.compile(r"fatal error: (\S+): No such file or directory")
_NEAR = 5  # folders above a source, whose own folders may hold a header

# Third-party headers installed as Python packages, such as CuTe's in nvidia-cutlass.

DISTRIBUTIONS = {"cutlass_library": "nvidia-cutlass>=4.0"}  # package → what pip installs for it


def locate(header: str) -> Path:
    """Return the folder inside an installed package that ``package:folder`` names.

    Raises EnvironmentLacking if the package is not installed or has no such folder.
    """
    package, _, inside = header.partition(":")
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(location) / inside).is_dir():
            return Path(location) / inside
    wanted = DISTRIBUTIONS.get(package)
    install = f"pip install '{wanted}'" if wanted else f"install the package that provides {package}"
    raise EnvironmentLacking(f"the headers {header} are not installed", install)


def source_roots(family: Family) -> Iterator[Path]:
    """Yield the folders that source paths are shown relative to, including those of installed third-party headers.

    Headers that are not installed are skipped: code compiled elsewhere does not need them here.
    """
    yield family.root
    if not family.shipped:
        yield paths.data_root()
    for name in family.headers:
        with contextlib.suppress(EnvironmentLacking):
            yield locate(name)


OPTIONS = ("-lineinfo", "-std=c++17", "-O3")
SPECIFIC = {"sm_90a": ("wgmma", "setmaxnreg"), "sm_100a": ("tcgen05",)}  # instructions of one architecture alone
STANDARD = ("-std=", "--std=")
FLAGS = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
INHERITED = (*FLAGS, "CPATH", "CPLUS_INCLUDE_PATH")  # they change nvcc's output


def options(family: Family, kernel: Kernel) -> tuple[str, ...]:
    """Return nvcc's options: ours, the family's, the kernel's. Their -std replaces ours.

    Raises UsageError for one that nvcc's shell would execute a part of, and for an include folder that is missing.
    """
    own = (*family.options, *kernel.options)
    nvcc_options.refuse_shell(own)
    nvcc_options.refuse_missing_folders(own, family.origin)
    replaced = any(option.startswith(STANDARD) for option in own)
    return (*(option for option in OPTIONS if not (replaced and option.startswith(STANDARD))), *own)


def source(family: Family, kernel: Kernel) -> Path:
    """Return the file to compile; raise ProgramFailed (for a user's: UsageError) if it does not exist."""
    file = family.source(kernel)
    if not is_file(file):
        kind: type[NcuSwizzleError] = ProgramFailed if family.shipped else UsageError
        raise kind(f"{file} is missing", "the variant's name in family.toml must match the file's name")
    return file


def unit(family: Family, kernel: Kernel) -> str:
    """Return the text to compile, which includes the kernel's file: the cubin then names that file."""
    return including(source(family, kernel))


def including(file: Path) -> str:
    """Return the text that includes a file; raise UsageError for a path that nvcc cannot handle."""
    if any(character in str(file) for character in '"\\\n\r'):
        raise UsageError(f"nvcc cannot handle the path {str(file)!r}", "rename the file or its folder")
    return f'#include "{file}"\n'


def include_folders(family: Family) -> list[Path]:
    """Return the include path; raise EnvironmentLacking if third-party headers are not installed.

    Raises UsageError for a folder that nvcc's shell would execute a part of.
    """
    folders = [*family.include_folders(), *map(locate, family.headers)]
    for folder in folders:
        nvcc_options.refuse_shell_in_folder(folder)
    return folders


def _folder_with(header: str, file: Path) -> str:
    """Return a folder beside one of the source's folders that has the header; "" if none of them does."""
    beside = (folder for parent in file.absolute().parents[:_NEAR] for folder in (parent, *sorted(parent.glob("*/"))))
    return next((str(folder) for folder in beside if is_file(folder / header)), "")


def failure(family: Family, kernel: Kernel, log: str) -> NcuSwizzleError:
    """Return the error for a source that does not compile: UsageError if it is the user's."""
    kind: type[NcuSwizzleError] = ProgramFailed if family.shipped else UsageError
    file = family.source(kernel)
    given = " ".join((*family.options, *kernel.options))
    needed = needed_arch(log)
    command = shlex.join(
        ["nvcc", "-cubin", f"-arch={needed}", "-lineinfo", *family.options, *kernel.options, str(file)]
    )
    hint = f"correct {file}"
    if needed:
        hint = f"it needs {needed}: {command} makes {file.stem}.cubin, to give in its place"
    elif missing := _MISSING_HEADER.search(log):
        hint = f"--include {_folder_with(missing[1], file) or 'FOLDER'}, the folder of {missing[1]}"
    return kind(f"nvcc could not compile {file.name}{f' with {given}' if given else ''}:\n{log}", hint)


def needed_arch(log: str) -> str:
    """Return the architecture that a refused source needs by ptxas's words, such as sm_90a; empty if another fault."""
    if required := re.search(r"requires .target (sm_\d+[af]?)\b", log):
        return required[1]
    refused = re.search(r"'(\w++)[^\s']*+' (?:not supported on|cannot be compiled for) \S+ 'sm_\d+'", log)
    return next((arch for arch, names in SPECIFIC.items() if refused and refused[1] in names), "")


def cacheable(family: Family, kernel: Kernel) -> bool:
    """Return whether all sources are known: headers named by a macro, or by another option than -I, are not."""
    if any(re.search(r"-I|include|isystem", os.environ.get(name, "")) for name in FLAGS):
        return False
    return family.shipped or limits.knows_includes(options(family, kernel), family.included().values())


def digest(family: Family, kernel: Kernel, arch: str, compiler: str) -> str:
    """Return the SHA-256 of everything that goes into a cubin: sources, options, environment, compiler version."""
    # Paths count too: -lineinfo writes them into the cubin.
    texts = family.source_texts() if family.shipped else {**family.source_texts(), **family.included()}
    sources = [part for item in texts.items() for part in item]
    foreign = [f"{folder} {folder.stat().st_mtime_ns}" for folder in map(locate, family.headers)]
    inherited = [os.environ.get(name, "") for name in INHERITED]
    file = str(family.source(kernel))
    parts = [file, kernel.name, arch, compiler, *options(family, kernel), *inherited, *foreign, *sources]
    return sha256_of_texts(*parts)
