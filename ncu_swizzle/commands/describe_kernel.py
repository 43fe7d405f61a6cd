"""The job of ``ncu-swizzle init``: write what is known of a file's kernels to ncu-swizzle.toml.

Parameters and limits are the compiled kernel's; blocks, grid and shared memory those of its launch in the source, if
constants say them. TODO is in place of the rest, and an entry with one is no launch yet: nothing is made up.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ncu_swizzle.base import files
from ncu_swizzle.base.errors import BadFile, NotWritable, UsageError
from ncu_swizzle.base.texts import encodable, in_commas, one_line, without_last_ones
from ncu_swizzle.cubin.names import function, shorten
from ncu_swizzle.engines import launchless
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.launchless import CompiledKernel
from ncu_swizzle.kernels import catalog, naming, project, signature
from ncu_swizzle.kernels.family import FILES, SOURCE, Parameter
from ncu_swizzle.kernels.launch_sites import WrittenLaunch
from ncu_swizzle.kernels.options import KernelDescription
from ncu_swizzle.kernels.project import OWN, TODO, KernelSpec, Project, specs
from ncu_swizzle.kernels.signature import KernelSignature


@dataclass(frozen=True)
class DescribedKernels:
    """The file that was written, the new entries, and the functions that had one already."""

    file: Path
    entries: tuple[ProjectEntry, ...]
    already: tuple[str, ...]


def describe(
    source: Path, description: KernelDescription, settings: EmulationSettings = EmulationSettings()
) -> DescribedKernels:
    """Add an entry for each kernel of a source, or for the named one, to a project's file.

    The description names the file; by default it is the nearest, or else ncu-swizzle.toml beside the source. What the
    description says is taken over. No entry is ever changed. Raises UsageError, with the reasons of `family_of_spec`,
    rather than write what cannot be loaded.
    """
    if source.suffix not in FILES or not source.is_file():
        missing = "is not a .cu, cubin or PTX file" if source.exists() else "does not exist"
        raise BadFile(f"{source} {missing}", "name the file that holds the kernel: ncu-swizzle init my.cu")
    spec = _spec(source, description)
    kernels = _kernels(spec, settings)
    file = _file(source, description.sources.config)
    with files.locked(file.parent):
        current = project.project_in(file) if file.exists() else Project(file=file)
        old = specs(current)
        fresh = [kernel for kernel in kernels if not _is_described(source, kernel, old, len(kernels) == 1)]
        if not fresh:
            functions = ", ".join(kernel.spelled for kernel in kernels)
            raise UsageError(
                f"{file} already describes {functions} of {source.name}",
                "edit it, or write another: --config new.toml",
            )
        entries = list(_entries(fresh, spec, current, old))
        _append(current, entries)
    already = tuple(kernel.spelled for kernel in kernels if kernel not in fresh)
    return DescribedKernels(file, tuple(entries), already)


def _spec(source: Path, description: KernelDescription) -> KernelSpec:
    launch = replace(description.launch, arch="", sample=None)
    problem = tuple(Parameter(name, size) for name, size in description.problem.items())
    name = launch.entry or source.stem
    return KernelSpec(name=name, source=source, launch=launch, problem=problem, options=description.options)


def _kernels(spec: KernelSpec, settings: EmulationSettings) -> Sequence[CompiledKernel]:
    if spec.source.suffix == SOURCE:
        return launchless.of_source(spec, settings).kernels
    return launchless.of_built(spec.source, settings, wanted=spec.launch.entry).kernels


def _file(source: Path, config: str) -> Path:
    if config == project.NONE:
        raise UsageError("--config none leaves no file to write to", "--config ncu-swizzle.toml")
    if config:
        return Path(config).absolute()
    folder = source.absolute().parent
    nearest = project.nearest_project(folder)
    return nearest.file if nearest else folder / OWN


def _is_described(source: Path, kernel: CompiledKernel, old: Iterable[KernelSpec], only: bool) -> bool:
    """Return whether an entry describes this kernel; one without a function describes the only kernel of its file."""
    same = [spec for spec in old if files.is_same_file(spec.source, source)]
    names = {kernel.spelled, function(kernel.spelled)}
    return any(spec.launch.entry in names or (only and not spec.launch.entry) for spec in same)


def _entries(
    kernels: Iterable[CompiledKernel], spec: KernelSpec, current: Project, old: Iterable[KernelSpec]
) -> Iterator[ProjectEntry]:
    folder = current.file.parent
    relative = os.path.relpath(spec.source.absolute(), folder)
    options = tuple(_relative(option, folder) for option in spec.options)
    shipped = catalog.shipped()
    taken = {family.name for family in shipped.families} | {kernel.name for _, kernel in shipped}
    taken |= {name for other in old for name in (other.name, *(variant.name for variant in other.variants))}
    for kernel in kernels:
        plain = re.sub(r"\W+", "-", shorten(kernel.spelled), flags=re.ASCII).strip("-") or "kernel"
        stem = re.sub(r"\W+", "-", spec.source.stem, flags=re.ASCII).strip("-") or "my"
        numbered = (f"{stem}-{plain}-{number}" for number in range(2, len(taken) + 3))
        name = next(name for name in (plain, f"{stem}-{plain}", *numbered) if name not in taken)
        taken.add(name)
        yield ProjectEntry(
            name=name, source=relative, spec=spec, signature=kernel.signature, launches=kernel.launches,
            outer=current.outer, options=options,
        )  # fmt: skip


def _relative(option: str, folder: Path) -> str:
    for flag in ("-I", "-isystem=", "-include="):
        if option.startswith(f"{flag}/"):
            return flag + os.path.relpath(option.removeprefix(flag), folder)
    return option


def _append(current: Project, entries: Iterable[ProjectEntry]) -> None:
    """Write the file with the entries at its end, after reading them as any command would."""
    file = Path(os.path.realpath(current.file))
    old = files.read_bytes(file) if file.exists() else b""
    gap = b"" if not old else b"\n" if old.endswith(b"\n") else b"\n\n"
    try:
        new = old + gap + "\n".join(entry.text() for entry in entries).encode()
        content = tomllib.loads(new.decode())
    except ValueError as error:
        raise NotWritable(
            f"the entry cannot be added to {current.file}: {files.brief(error)}",
            "write it to another file: --config new.toml",
        ) from error
    own = content["tool"]["ncu-swizzle"] if current.outer else content
    names = {entry.name for entry in entries}
    for spec in specs(Project(file=current.file, content=own, outer=current.outer, trusted=current.trusted)):
        if spec.name in names and not spec.to_do:
            naming.family_of_spec(spec)
    with files.replacing(file, like_before=True) as written:
        written.write(new)
    files.note_finished(current.file)


# An entry's text.

WIDTH = 48  # columns before a comment
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, kw_only=True)
class ProjectEntry:
    """An entry: the kernel's name, its source relative to the file, the user's values, and other known ones."""

    name: str
    source: str
    spec: KernelSpec
    signature: KernelSignature
    launches: tuple[WrittenLaunch, ...] = ()
    outer: str = ""  # "tool.ncu-swizzle." in pyproject.toml
    options: tuple[str, ...] = ()  # nvcc's, with paths relative to the file

    @property
    def complete(self) -> bool:
        """Whether nothing is left to do."""
        return TODO not in self.text()

    def text(self) -> str:
        """Return the entry as TOML."""
        key = self.name if _BARE.fullmatch(self.name) else quoted(self.name)
        return "\n".join([f"[{self.outer}kernel.{key}]", *self._lines(), ""])

    def _lines(self) -> Iterator[str]:
        typed, signature_ = self.spec.launch, self.signature
        written = next((launch for launch in self.launches if launch.block), next(iter(self.launches), None))
        grid, block, shared = (written.grid, written.block, written.shared) if written else (None, None, None)
        yield f"source = {quoted(self.source)}"
        yield f"entry = {quoted(signature_.function)}"
        if self.spec.sizes:
            yield f"problem = {_table(self.spec.sizes)}"
        said = partial(_said, launch=written)
        yield said("grid", typed.grid, grid, "blocks")
        yield said("block", typed.block, signature_.required_block or block, "threads of a block")
        if typed.shared not in ("", "0"):
            yield f"shared = {quoted(typed.shared)}"
        elif signature_.dynamic_shared:
            yield said("shared", "", (shared,) if shared else None, "bytes of dynamic shared memory")
        if self.options:
            yield f"nvcc = [{', '.join(map(quoted, self.options))}]"
        described = signature.arguments(signature_.parameters)
        yield from _array([(text, "") for text in typed.args] or described)
        yield '# reference = "reference.py:FUNCTION"  a NumPy function; without it, outputs are not checked'


def _said(key: str, typed: str, known: Sequence[int] | None, what: str, launch: WrittenLaunch | None) -> str:
    """Return a line with the typed value, else the known one, else a TODO."""
    if typed or not known:
        return _line(f"{key} = {quoted(typed or TODO)}", "" if typed else what)
    where = f"{Path(launch.file).name}:{launch.line}" if launch and launch.file else ""
    return _line(f"{key} = {quoted(in_commas(without_last_ones(known)))}", where)


def _array(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    if not rows:
        yield "args = []"
        return
    yield "args = ["
    yield from (_line(f"    {quoted(text)},", what if TODO in text else "") for text, what in rows)
    yield "]"


def _line(text: str, comment: str) -> str:
    return f"{text:<{WIDTH}}  # {one_line(comment)}" if comment else text  # a type's name can hold anything


def _table(sizes: dict[str, int]) -> str:
    return f"{{ {', '.join(f'{name} = {size}' for name, size in sizes.items())} }}"


def quoted(text: str) -> str:
    """Return a text as a basic string of TOML, or a literal one if that needs no escapes."""
    text = encodable(text)
    if text.isprintable() and "\\" in text and "'" not in text:
        return f"'{text}'"
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
