"""What nvcc, ptxas and nvdisasm make of the tests' kernels, kept in tests/data/cubins: most tests need neither to run.

`install` lets `Toolchain` answer from there. An entry's name is the SHA-256 of all that goes into it: of a cubin the
sources with their headers, their paths relative to each other, the options and the architecture; of SASS the cubin. So
an entry cannot be stale, and what is not kept is compiled as ever. Compilers that a test names or puts in place, and
whatever fails, are never answered from there; the fixture `real_tools` switches it off.

    python -m tests.support.kept            make all entries again (`make cubins`), and say what changed
    python -m tests.support.kept PATH …     add what the tests of these paths lack

Both run tests with VARIABLE set to a folder: what is looked for there and is not there is made.
"""

from __future__ import annotations

import contextlib
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ncu_swizzle.base.cache import sha256, sha256_of_texts
from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.cubin import lines
from ncu_swizzle.cubin.elf import open_elf
from ncu_swizzle.kernels import limits, toolchain
from ncu_swizzle.kernels.toolchain import NVCC, NVDISASM, PTXAS, Refused, Toolchain
from tests.support.places import DATA, ROOT

VARIABLE = "NCU_SWIZZLE_KEEP"
KEPT = DATA / "cubins"
MADE_BY = "made_by.txt"

# Sources are compiled in folders whose names have this length, since no path in a line table can become longer later.
LENGTH = 160
RECORDING = Path("/tmp/ncu-swizzle")  # the same on every machine
CHECKOUT, PROJECT, SCRATCH = "checkout", "project", "scratch"
PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")  # nvcc writes other characters in its own way
MODULE = re.compile(toolchain._MODULE.pattern.replace(b"[0-9a-f]{8}", b"([0-9a-f]{8})"))
NO_DIGEST = b"0" * 8
FOREIGN = re.compile(rb"/tmp/(?!ncu-swizzle/)|/root/|/home/|" + re.escape(str(ROOT).encode()))  # this machine's

compile_now, assemble_now, disassemble_now = Toolchain.compile, Toolchain.assemble, Toolchain.disassemble


def install() -> None:
    """Answer from the kept entries in this process, if the tools are the installed ones."""
    for tool in (NVCC, PTXAS, NVDISASM):
        _installed(tool)
    for method in (compile, assemble, disassemble):
        setattr(Toolchain, method.__name__, method)


def uninstall() -> None:
    """Run the tools again."""
    for method, name in ((compile_now, "compile"), (assemble_now, "assemble"), (disassemble_now, "disassemble")):
        setattr(Toolchain, name, method)


def compile(self: Toolchain, unit: str, options: Sequence[str], arch: str, include: Sequence[Path]) -> bytes:  # noqa: A001
    sources = Sources.of(unit, options, include) if _is_installed(self, NVCC) else None
    if sources is None:
        return compile_now(self, unit, options, arch, include)
    name = f"{sources.key(arch)}.cubin"
    cubin = loaded(name)
    if cubin is None and VARIABLE in os.environ:
        with contextlib.suppress(Refused):  # what the compiler says names the real paths, below
            cubin = sources.compiled(self, arch)
            save(name, cubin)
    if cubin is None:
        return compile_now(self, unit, options, arch, include)
    return toolchain._with_module(sources.placed(cubin), sha256_of_texts(unit, arch, *options))


def assemble(self: Toolchain, ptx: bytes, name: str, arch: str = "", level: int = 3) -> bytes:
    if not _is_installed(self, PTXAS) or b"/tmp/" in ptx or level != 3:
        return assemble_now(self, ptx, name, arch, level)
    entry = f"{sha256_of_texts(sha256(ptx), arch)[:20]}.cubin"
    cubin = loaded(entry)
    if cubin is None:
        cubin = assemble_now(self, ptx, name, arch)
        save(entry, cubin)
    return cubin


def disassemble(self: Toolchain, cubin: bytes, name: str, *only: int) -> str:
    if only:  # of a large cubin
        return disassemble_now(self, cubin, name, *only)
    anonymous, digest = without_places(cubin) if _is_installed(self, NVDISASM) else (b"", b"")
    if not anonymous:
        return disassemble_now(self, cubin, name)
    entry = f"{sha256(anonymous)[:20]}.sass"
    kept = loaded(entry)
    if kept is None:
        text = disassemble_now(self, cubin, name)
        save(entry, MODULE.sub(rb"\g<1>" + NO_DIGEST, text.encode()) if digest else text.encode())
        return text
    return (MODULE.sub(rb"\g<1>" + digest, kept) if digest else kept).decode()


@cache
def _installed(tool: str) -> Path | None:
    """Return the program that was found when the tests began."""
    with contextlib.suppress(NcuSwizzleError):
        return Toolchain().find(tool)
    return None


def _is_installed(tools: Toolchain, tool: str) -> bool:
    if tools.nvcc is not None or tools.timeout_s < toolchain.TIMEOUT_S / 60:
        return False
    return tools.find(tool) == _installed(tool)


def folder() -> Path:
    return Path(os.environ.get(VARIABLE, KEPT))


def loaded(name: str) -> bytes | None:
    """Return an entry's content; None if it is not kept."""
    try:
        return lzma.decompress((folder() / f"{name}.xz").read_bytes())
    except FileNotFoundError:
        return None


def save(name: str, content: bytes) -> None:
    """Keep an entry, if this run makes entries and it names nothing of this machine."""
    if VARIABLE not in os.environ or FOREIGN.search(content):
        return
    unfinished = folder() / f".{name}.{os.getpid()}"
    unfinished.write_bytes(lzma.compress(content, preset=9))
    unfinished.replace(folder() / f"{name}.xz")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What is compiled: a translation unit, its options, and the files that it includes, by their paths."""

    unit: str
    options: Sequence[str]
    include: Sequence[Path]
    files: Mapping[Path, str]
    folders: Mapping[str, str]  # where they lie, by what the folder is

    @classmethod
    def of(cls, unit: str, options: Sequence[str], include: Sequence[Path]) -> Sources | None:
        """Return the sources; None if not all that they include is known, or their folders cannot stand elsewhere."""
        searched = [*include, *limits.folders(options)]
        named = [limits.included_file(name, False, Path(), searched) or Path(name) for name, _ in limits.named(unit)]
        own = [file for file in named if file.is_absolute()]
        files = dict(limits.texts(own, searched))
        needed = [*(file.parent for file in files), *map(limits.plain, searched)]
        if (
            any(os.environ.get(name) for name in toolchain.INHERITED)
            or any(re.match(r"--?((pre-)?include|ccbin|compiler-bindir)(=|$)", option) for option in options)
            or any(limits.has_computed_include(text) for text in (unit, *files.values()))
            or any(file not in files for file in own)
            or any(path.is_relative_to(sys.prefix) for path in needed)  # an installed library's
        ):
            return None
        folders = {CHECKOUT: str(ROOT)} if any(path.is_relative_to(ROOT) for path in needed) else {}
        if others := [path for path in needed if not path.is_relative_to(ROOT)]:
            folders[PROJECT] = os.path.commonpath(others)
            if ROOT.is_relative_to(folders[PROJECT]):
                return None
        if not all(PLAIN.fullmatch(path) and len(path) < LENGTH for path in folders.values()):
            return None
        return cls(unit=unit, options=tuple(options), include=tuple(include), files=files, folders=folders)

    def key(self, arch: str) -> str:
        """Return the name of the cubin's entry."""
        moved = self._in({name: _place(name) for name in self.folders})
        texts = [part for path in sorted(moved.files) for part in (str(path), moved.files[path])]
        return sha256_of_texts(moved.unit, arch, *moved.options, "", *map(str, moved.include), "", *texts)[:20]

    def compiled(self, tools: Toolchain, arch: str) -> bytes:
        """Return the cubin, compiled where it names nothing of this machine."""
        here = {name: _place(name, str(os.getpid())) for name in (*self.folders, SCRATCH)}
        moved = self._in(here)
        for path, text in moved.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            os.utime(path, (0, 0))  # the line table has it
        for path in map(Path, (*here.values(), *moved.include)):
            path.mkdir(parents=True, exist_ok=True)
        scratch = toolchain.scratch
        try:
            toolchain.scratch = lambda: contextlib.nullcontext(Path(here[SCRATCH]))  # type: ignore[assignment]
            cubin = compile_now(tools, moved.unit, moved.options, arch, moved.include)
        finally:
            toolchain.scratch = scratch
            for path in here.values():
                shutil.rmtree(path, ignore_errors=True)
        for name, path in here.items():
            cubin = cubin.replace(path.encode(), _place(name).encode())
        return toolchain._with_module(cubin, NO_DIGEST.decode())

    def placed(self, cubin: bytes) -> bytes:
        """Return a kept cubin as if it had been compiled where the sources are."""
        there = {**self.folders, SCRATCH: "/tmp/ncu-swizzle-kept"}
        for start, end in line_table_names(cubin):
            names = cubin[start:end]
            for name, path in there.items():
                names = names.replace(_place(name).encode(), path.encode())
            # A reader goes on where the header says, whatever is between the last name and there.
            cubin = cubin[:start] + names.ljust(end - start, b"\0") + cubin[end:]
        return cubin

    def _in(self, folders: Mapping[str, str]) -> Sources:
        """Return the same sources in other folders."""

        def moved(text: str) -> str:
            for name, path in self.folders.items():
                text = re.sub(rf"{re.escape(path)}(?![\w.-])", folders[name], text)
            return text

        return Sources(
            unit=moved(self.unit),
            options=tuple(map(moved, self.options)),
            include=tuple(Path(moved(str(path))) for path in self.include),
            files={Path(moved(str(path))): text for path, text in self.files.items()},
            folders={name: folders[name] for name in self.folders},
        )


def _place(name: str, process: str = "") -> str:
    """Return a folder's path in kept cubins, or where a process compiles."""
    return str(RECORDING / f"{name}{process}".ljust(LENGTH - len(str(RECORDING)) - 1, "_"))


def line_table_names(cubin: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the names of folders and files begin and end in each unit of a cubin's line tables.

    DWARF 2, 6.2.4: length of the unit, version, length of what is left of the header, five bytes and the lengths of the
    opcodes, of which the fifth byte says how many there are, and one more.
    """
    elf = open_elf(cubin)
    for section in filter(None, map(elf.get_section_by_name, (lines.SOURCE, lines.PTX))):
        at, end = section["sh_offset"], section["sh_offset"] + section["sh_size"]
        while at < end:
            opcodes = at + 14
            yield opcodes + cubin[opcodes], at + 10 + int.from_bytes(cubin[at + 6 : at + 10], "little")
            at += 4 + int.from_bytes(cubin[at : at + 4], "little")


def without_places(cubin: bytes) -> tuple[bytes, bytes]:
    """Return a cubin without its sources' paths, times and its module's digest, and that digest.

    Nothing is returned of what cannot be read, or has several modules.
    """
    try:
        names = list(line_table_names(cubin))
    except Exception:  # pyelftools raises whatever a damaged file causes
        return b"", b""
    for start, end in names:
        cubin = cubin[:start] + bytes(end - start) + cubin[end:]
    digests = {match[2] for match in MODULE.finditer(cubin)}
    if len(digests) > 1:
        return b"", b""
    return MODULE.sub(rb"\g<1>" + NO_DIGEST, cubin), min(digests, default=b"")


def make(paths: Sequence[str]) -> int:
    """Make all entries again, or add those of some tests; say what changed."""
    before = {file.name: file.read_bytes() for file in KEPT.glob("*.xz")}
    with tempfile.TemporaryDirectory() as work:
        if paths:
            shutil.copytree(KEPT, work, dirs_exist_ok=True)
        workers = ["-n", "0", *paths] if paths else ["-n", "2", "--dist", "loadgroup"]
        # With an empty cache, or cubins would be found there.
        command = [sys.executable, "-m", "pytest", "-m", "not slow", "-o", f"cache_dir={work}/.cache", *workers]
        status = subprocess.run(command, cwd=ROOT, env={**os.environ, VARIABLE: work}, check=False).returncode
        after = {file.name: file.read_bytes() for file in Path(work).glob("*.xz")}
    with contextlib.suppress(OSError):
        RECORDING.rmdir()
    KEPT.mkdir(exist_ok=True)
    for name in before.keys() - after.keys():
        (KEPT / name).unlink()
    for name, content in after.items():
        (KEPT / name).write_bytes(content)
    tools = [f"{tool} {Toolchain().version(tool)}\n" for tool in (NVCC, PTXAS, NVDISASM)]
    (KEPT / MADE_BY).write_text("".join(tools), encoding="utf-8")
    changed = sum(before[name] != after[name] for name in before.keys() & after.keys())
    added, dropped = len(after.keys() - before.keys()), len(before.keys() - after.keys())
    size = sum(map(len, after.values())) / 1024
    print(f"{len(after)} entries, {size:,.0f} KiB: {added} new, {changed} changed, {dropped} dropped")
    return status


if __name__ == "__main__":
    sys.exit(make(sys.argv[1:]))
