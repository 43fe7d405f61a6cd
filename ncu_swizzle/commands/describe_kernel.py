"""The job of ``ncu-swizzle init``: describe the kernels of a file in ncu-swizzle.toml, as far as a signature tells."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base import files
from ncu_swizzle.base.errors import BadFile, NotWritable, UsageError
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.names import function, shorten
from ncu_swizzle.kernels import build, catalog, project
from ncu_swizzle.kernels.build import cubin_of
from ncu_swizzle.kernels.family import FILES, Parameter
from ncu_swizzle.kernels.guess import LaunchGuess, ProjectEntry
from ncu_swizzle.kernels.options import KernelDescription
from ncu_swizzle.kernels.project import OWN, KernelSpec, Project, specs
from ncu_swizzle.kernels.toolchain import Toolchain


@dataclass(frozen=True)
class DescribedKernels:
    """The file that was written, the names of the new entries, and the functions that had one already."""

    file: Path
    names: tuple[str, ...]
    already: tuple[str, ...]


def describe(source: Path, description: KernelDescription, toolchain: Toolchain = Toolchain()) -> DescribedKernels:
    """Add an entry for each kernel of a source, or for the one that is named, to a project's file.

    The description names the file; by default it is the nearest, or else ncu-swizzle.toml beside the source. What the
    description says is taken over, the rest is guessed. No entry is ever changed. Raises UsageError, with the reasons
    of `build.family_of`, rather than write what cannot be loaded.
    """
    if source.suffix not in FILES or not source.is_file():
        missing = "is not a .cu, cubin or PTX file" if source.exists() else "does not exist"
        raise BadFile(f"{source} {missing}", "name the file that holds the kernel: ncu-swizzle init my.cu")
    spec = _spec(source, description)
    guesses = list(_guesses(spec, toolchain))
    file = _file(source, description.sources.config)
    with files.locked(file.parent):
        current = project.project_in(file) if file.exists() else Project(file=file)
        old = specs(current)
        fresh = [guess for guess in guesses if not _described(source, guess, old, len(guesses) == 1)]
        if not fresh:
            functions = ", ".join(guess.launch.entry for guess in guesses)
            raise UsageError(
                f"{file} already describes {functions} of {source.name}",
                "edit it, or write another: --config new.toml",
            )
        entries = list(_entries(fresh, spec, current, old))
        _append(current, entries)
    already = tuple(guess.launch.entry for guess in guesses if guess not in fresh)
    return DescribedKernels(file, tuple(entry.name for entry in entries), already)


def _spec(source: Path, description: KernelDescription) -> KernelSpec:
    launch = replace(description.launch, arch="", sample=None)
    problem = tuple(Parameter(name, size) for name, size in description.problem.items())
    name = launch.entry or source.stem
    return KernelSpec(name=name, source=source, launch=launch, problem=problem, options=description.options)


def _guesses(spec: KernelSpec, toolchain: Toolchain) -> Iterator[LaunchGuess]:
    cubin = cubin_of(spec, toolchain)
    for symbol in [names.find(cubin, spec.launch.entry)] if spec.launch.entry else cubin.kernels:
        yield build.guess_in(cubin, symbol, spec, toolchain)


def _file(source: Path, config: str) -> Path:
    if config == project.NONE:
        raise UsageError("--config none leaves no file to write to", "--config ncu-swizzle.toml")
    if config:
        return Path(config).absolute()
    folder = source.absolute().parent
    nearest = project.nearest_project(folder)
    return nearest.file if nearest else folder / OWN


def _described(source: Path, guess: LaunchGuess, old: Iterable[KernelSpec], only: bool) -> bool:
    """Return whether an entry describes this kernel; one without a function describes the only kernel of its file."""
    same = [spec for spec in old if os.path.realpath(spec.source) == os.path.realpath(source)]
    names = {guess.launch.entry, function(guess.launch.entry)}
    return any(spec.launch.entry in names or (only and not spec.launch.entry) for spec in same)


def _entries(
    guesses: Iterable[LaunchGuess], spec: KernelSpec, current: Project, old: Iterable[KernelSpec]
) -> Iterator[ProjectEntry]:
    folder = current.file.parent
    relative = os.path.relpath(spec.source.absolute(), folder)
    options = tuple(_relative(option, folder) for option in spec.options)
    shipped = catalog.shipped()
    taken = {family.name for family in shipped.families} | {kernel.name for _, kernel in shipped}
    taken |= {name for other in old for name in (other.name, *(variant.name for variant in other.variants))}
    for guess in guesses:
        plain = re.sub(r"\W+", "-", shorten(guess.launch.entry), flags=re.ASCII).strip("-") or "kernel"
        stem = re.sub(r"\W+", "-", spec.source.stem, flags=re.ASCII).strip("-") or "my"
        numbered = (f"{stem}-{plain}-{number}" for number in range(2, len(taken) + 3))
        name = next(name for name in (plain, f"{stem}-{plain}", *numbered) if name not in taken)
        taken.add(name)
        yield ProjectEntry(name=name, source=relative, spec=spec, guess=guess, outer=current.outer, options=options)


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
        if spec.name in names:
            build.family_of(spec)
    with files.replacing(file, like_before=True) as written:
        written.write(new)
    files.note_finished(current.file)
