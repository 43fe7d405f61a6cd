"""Which kernels a file given to ``ncu-swizzle lint`` stands for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base.errors import BadFile, Hint, NcuSwizzleError, Typed, UnknownKernel, Untrusted, UsageError
from ncu_swizzle.base.files import is_file, is_folder
from ncu_swizzle.engines.replay import is_launches
from ncu_swizzle.kernels import build, catalog, user
from ncu_swizzle.kernels.family import PYTHON, Family, Kernel
from ncu_swizzle.kernels.options import KernelDescription, NewBuild
from ncu_swizzle.kernels.project import declared

DESCRIPTION = "family.toml"


@dataclass(frozen=True, kw_only=True)
class LintOptions:
    """The command line of ``ncu-swizzle lint``: files, and how a .cu, cubin or PTX file is launched."""

    files: tuple[str, ...]
    max_degree: tuple[str, ...] = ()
    description: KernelDescription = KernelDescription()
    catalogs: tuple[Path, ...] = ()
    config: str = ""
    trust: bool = False
    build: NewBuild = NewBuild()  # of the launches in launches files

    @property
    def launches(self) -> tuple[str, ...]:
        """The launches files among the files."""
        return tuple(file for file in self.files if is_launches(file))


@dataclass(frozen=True)
class Skipped:
    """A source without a description of its launch."""

    name: str
    reason: str


Variant = tuple[Family, Kernel]


def variants(options: LintOptions) -> list[Variant | Skipped]:
    """Return the kernels of all files, each once."""
    named = [
        variant if isinstance(variant, Skipped) else (user.adapted(variant[0], options.description), variant[1])
        for file in options.files
        if not is_launches(file)
        for variant in variants_in(file, options)
    ]
    return list({_identity(variant): variant for variant in named}.values())


def only_python(options: LintOptions) -> bool:
    """Return whether all files are Python's, whose compilers bring what they need."""
    return all(user.split_name(file)[0].suffix == PYTHON for file in options.files)


def _identity(variant: Variant | Skipped) -> tuple[Path | None, str]:
    return (None, variant.name) if isinstance(variant, Skipped) else (variant[0].folder, variant[1].name)


def variants_in(file: str, options: LintOptions) -> Iterator[Variant | Skipped]:
    """Yield the kernels of a source, a binary, a family, a catalogue or a project, or the kernel of that name."""
    path = Path(file)
    if user.is_kernel_file(file) or path.suffix == PYTHON:
        yield from _in_source(file, options)
    elif is_folder(path) or path.name == DESCRIPTION:
        yield from _in_folder(path if is_folder(path) else path.parent, options.trust)
    elif path.suffix == ".toml" and is_file(path):
        catalog = user.everything((), str(path), trust=options.trust)
        yield from _with_source((family, kernel) for family, kernel in catalog if not family.shipped)
    else:
        yield user.everything(options.catalogs, options.config, trust=options.trust).find(file)


def _with_source(variants: Iterable[Variant]) -> Iterator[Variant]:
    """Leave out library kernels: their source is not available."""
    return (variant for variant in variants if not variant[1].library)


def _in_folder(folder: Path, trust: bool) -> Iterator[Variant]:
    if is_file(folder / DESCRIPTION):
        beside = catalog.load(folder.resolve().parent, trust=trust)
        yield from _with_source((family, kernel) for family, kernel in beside if family.folder == folder.resolve())
    else:
        yield from _with_source(catalog.load(folder, trust=trust))


def _in_source(text: str, options: LintOptions) -> Iterator[Variant | Skipped]:
    """Yield the kernels that the project or a family beside the file describes, else those of the command line."""
    file, entry = user.split_name(text)
    if not is_file(file):
        raise BadFile(f"{file} does not exist", "name a .cu, cubin or PTX file, or the folder of a family.toml")
    named = [variant for variant in described(file, options) if _is_named(variant, entry)]
    if named and not options.description.typed:
        yield from named
        return
    try:
        if file.suffix == PYTHON and not entry:
            raise UsageError(f"{file.name}: no launch of its functions is described", describing(file))
        catalog, names = user.chosen(text, options.description, options.catalogs, options.config, options.trust)
    except (UnknownKernel, BadFile, Untrusted):
        raise
    except NcuSwizzleError as error:
        if options.description.typed or len(options.files) == 1:
            raise
        how = "" if file.suffix == PYTHON else f"; {describing(file)} describes it"
        yield Skipped(str(file), f"{error}{how}")
        return
    yield from map(catalog.find, names)


def _is_named(variant: Variant, entry: str) -> bool:
    """Return whether a kernel is what is named after its Python file, if anything is."""
    family, kernel = variant
    return entry in ("", kernel.name, kernel.entry, family.name)


def describing(*files: Path | str) -> str:
    """Return what describes the kernels of files: a command that writes ncu-swizzle.toml, or options for Python."""
    sources = [str(file) for file in files if user.split_name(str(file))[0].suffix != PYTHON]
    if sources:
        return shlex.join(["ncu-swizzle", "init", *sources])
    first, entry = user.split_name(str(files[0]))
    return Hint(
        f"name one, with its launch: ncu-swizzle lint {first}::{entry or 'FUNCTION'} ", Typed("--grid 128 --arg …")
    )


def beside(folder: Path, trust: bool = False) -> list[Variant]:
    """Return the kernels of the family that is described in a folder, if one is."""
    return list(_in_folder(folder, trust)) if is_file(folder / DESCRIPTION) else []


def described(file: Path, options: LintOptions) -> Iterator[Variant]:
    """Yield the kernels of a source that the project or a family beside it describes."""
    folder = file.resolve().parent
    own = [build.family_of(spec) for spec in declared(file, options.trust)]
    if own:
        yield from ((replace(family, untrusted=False), kernel) for family in own for kernel in family.kernels)
        return
    project = list(_with_source(user.everything(options.catalogs, options.config, folder, options.trust)))
    seen = set()
    for family, kernel in (*beside(folder, options.trust), *project):
        same = os.path.realpath(family.source(kernel)) == os.path.realpath(file)
        if same and kernel.name not in seen:
            seen.add(kernel.name)
            yield replace(family, untrusted=False), kernel  # who names a file wants it compiled
