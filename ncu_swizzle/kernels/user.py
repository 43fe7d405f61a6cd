"""The catalogue with the user's kernels in it: a ``.cu`` file, ncu-swizzle.toml, and folders of families."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.base.errors import BadFile, Hint, LaunchLacking, NcuSwizzleError, Typed, UsageError
from ncu_swizzle.base.files import is_file
from ncu_swizzle.kernels import build, catalog
from ncu_swizzle.kernels.catalog import Catalog, Project, project_file
from ncu_swizzle.kernels.catalog import project_file as chosen_project_file
from ncu_swizzle.kernels.family import FILES, PYTHON, Family, Parameter
from ncu_swizzle.kernels.options import KernelDescription
from ncu_swizzle.kernels.project import KernelSpec, declared, specs

# Which texts name a kernel's file: ``my.cu``, a cubin or PTX file, or a function in a Python file, ``my.py::name``.
#
# A string of CUDA C++ in a Python file is named with its kernel: ``my.py::SOURCE::kernel``.


INSIDE = "::"


def split_name(text: str) -> tuple[Path, str]:
    """Return a file, and what is named in it; empty if that is nothing."""
    file, inside, name = text.partition(f"{PYTHON}{INSIDE}")
    return (Path(f"{file}{PYTHON}"), name) if inside and name else (Path(text), "")


def is_kernel_file(text: str) -> bool:
    """Return whether a text names a file with kernels, and of a Python file one of them."""
    file, name = split_name(text)
    return bool(name) or file.suffix in FILES


def everything(
    folders: Sequence[Path] = (), config: str = "", start: Path | None = None, trust: bool = False
) -> Catalog:
    """Return the shipped families, those in the folders, and those of the project.

    `config` names the project's file, or "none"; the default is the nearest one, searching upwards from `start` (the
    current folder). `trust` is --trust, see `checkout`. Raises BadCatalog, BadFile and UsageError.
    """
    return _beside(folders, project_file(config, start or Path.cwd(), trust), trust)


def _beside(folders: Sequence[Path], config: Project | None, trust: bool, without: Sequence[Path] = ()) -> Catalog:
    """Return the shipped and the user's kernels, except the project's kernels in the files `without`."""
    users = dict.fromkeys(folder.resolve() for folder in (*folders, *(config.catalog if config else ())))
    loaded = [family for folder in users for family in catalog.load(folder, trust=trust).families if not family.shipped]
    own = []
    for spec in specs(config) if config else ():
        if config and not any(_same(spec.source, file) for file in without):
            own.append(_family(spec, config))
    return catalog.merge([*catalog.shipped().families, *loaded, *own])


def _family(spec: KernelSpec, config: Project) -> Family:
    try:
        return build.family_of(spec)
    except NcuSwizzleError as error:
        located = type(error)(f"{config.file.name} [{config.outer}kernel.{spec.name}]: {error}", error.hint)
        if isinstance(located, LaunchLacking):
            located.hint = Hint(
                f"ncu-swizzle init {shlex.quote(str(spec.source))} --config new.toml writes what is missing"
            )
        raise located from error


def chosen(
    kernel: str,
    description: KernelDescription,
    folders: Sequence[Path] = (),
    config: str = "",
    trust: bool = False,
) -> tuple[Catalog, list[str]]:
    """Return the catalogue, and the names of the chosen kernels: one, or every variant of a .cu file's.

    The file's kernels win over others with the same name. Raises UsageError for options that only apply to a .cu file.
    """
    source, entry = split_name(kernel)
    if not is_kernel_file(kernel):
        refuse_description(description, kernel)
        return _adapted(everything(folders, config, trust=trust), description), [kernel]
    project_file = chosen_project_file(config, source.absolute().parent, trust)
    specs = _specs([source], project_file, trust)
    family = family_of(source, inside(description, entry), specs)
    catalog = Catalog((*_beside(folders, project_file, trust, [source]).families, family))
    return catalog, [variant.name for variant in family.kernels]


def _specs(files: Sequence[Path], config: Project | None, trust: bool) -> tuple[KernelSpec, ...]:
    """Return what the files declare of themselves, and what the project describes, except for those files' kernels."""
    own = [spec for file in files for spec in declared(file, trust)]
    described = specs(config) if config else ()
    return (*own, *(spec for spec in described if not any(_same(spec.source, each.source) for each in own)))


def chosen_together(
    kernels: Sequence[str],
    description: KernelDescription,
    folders: Sequence[Path] = (),
    config: str = "",
    trust: bool = False,
) -> tuple[Catalog, list[str]]:
    """Return the catalogue, and the names of several kernels or of one .cu file's; see `chosen`."""
    files = [kernel for kernel in kernels if is_kernel_file(kernel)]
    if files and len(kernels) > 1:
        raise UsageError(
            f"{files[0]} cannot be combined with other kernels", "give one .cu file, or the names of kernels"
        )
    catalog, names = chosen(kernels[0], description, folders, config, trust)
    return catalog, names if files else list(kernels)


def swept(
    kernels: Sequence[str],
    description: KernelDescription,
    folders: Sequence[Path] = (),
    config: str = "",
    trust: bool = False,
) -> tuple[Catalog, list[str]]:
    """Return the catalogue, and the names of a family or of its kernels; a .cu file is a family. See `chosen`."""
    catalog, names = chosen_together(kernels, description, folders, config, trust)
    return catalog, [catalog.families[-1].name] if is_kernel_file(kernels[0]) else names


def inside(description: KernelDescription, name: str) -> KernelDescription:
    """Return the description of what is named in a file, with what --kernel names inside of that."""
    names = [each for each in (name, description.entry) if each]
    return replace(description, entry=INSIDE.join(names))


def _adapted(catalog: Catalog, description: KernelDescription) -> Catalog:
    if not description.arch and description.sample is None:
        return catalog
    return Catalog(tuple(adapted(family, description) for family in catalog.families))


def adapted(family: Family, description: KernelDescription) -> Family:
    """Return a family with what may be given for any kernel: an architecture, a sample. Raises UsageError."""
    build.refuse_bad_architecture(description.arch)
    sample = family.sample if description.sample is None else description.sample
    return replace(family, arch=description.arch or family.arch, sample=sample)


def refuse_description(description: KernelDescription, kernel: str) -> None:
    """Raise UsageError if options that only apply to a .cu file are given for something else."""
    if typed := description.typed:
        given = f"{', '.join(typed)} describe{'s' if len(typed) == 1 else ''} a .cu file"
        raise UsageError(f"{given}, and {kernel} is not one", f"leave out {typed[0]}, or give a .cu file instead")


def with_files(
    entries: Sequence[str],
    description: KernelDescription,
    folders: Sequence[Path] = (),
    config: str = "",
    trust: bool = False,
) -> tuple[Catalog, list[list[str]]]:
    """Return the catalogue with the kernels of all .cu, cubin and PTX files among the entries, and each entry's names.

    A file stands for all of its variants; the options describe every file. Raises UsageError for options that only
    apply to a file if there is none.
    """
    files = list(dict.fromkeys(entry for entry in entries if is_kernel_file(entry)))
    if not files:
        refuse_description(description, entries[0])
        catalog = _adapted(everything(folders, config, trust=trust), description)
        return catalog, [[entry] for entry in entries]
    split = [split_name(file) for file in files]
    project_file = chosen_project_file(config, split[0][0].absolute().parent, trust)
    specs = _specs([file for file, _ in split], project_file, trust)
    families = _distinct([family_of(file, inside(description, entry), specs) for file, entry in split])
    names = {file: [kernel.name for kernel in family.kernels] for file, family in zip(files, families, strict=True)}
    beside = _beside(folders, project_file, trust, [file for file, _ in split])
    return Catalog((*beside.families, *families)), [names.get(entry, [entry]) for entry in entries]


def _distinct(families: Sequence[Family]) -> list[Family]:
    """Return the families of several files; those with the same name are called after their files as well."""
    names = [family.name for family in families]
    return [
        family if names.count(family.name) == 1 else _renamed(family, f" of {family.kernels[0].file}")
        for family in families
    ]


def _renamed(family: Family, suffix: str) -> Family:
    kernels = tuple(
        replace(kernel, name=kernel.name + suffix, baseline=kernel.baseline and kernel.baseline + suffix)
        for kernel in family.kernels
    )
    return replace(family, name=family.name + suffix, kernels=kernels)


def family_of(source: Path, description: KernelDescription, specs: Sequence[KernelSpec]) -> Family:
    """Return the family of a .cu file, described by the command line first and ncu-swizzle.toml second.

    `specs` are the project's kernels. Raises UsageError.
    """
    if not is_file(source):
        raise BadFile(f"{source} does not exist", "name the .cu, cubin or PTX file that holds the kernel")
    spec = None if _is_whole(source, description, specs) else _spec(source, description.entry, specs)
    if spec is None:
        spec = _described_here(source, description)
    family = build.family_of(_overridden(spec, description))
    if source.suffix == PYTHON:  # who names a file on the command line wants it compiled
        family = replace(family, untrusted=False)
    compiled_twice = description.before or description.after
    return _before_and_after(family, description) if compiled_twice else family


def _is_whole(source: Path, description: KernelDescription, specs: Sequence[KernelSpec]) -> bool:
    """Return whether a function's launch is on the command line: arguments, and a grid if its compiler wants one."""
    if source.suffix != PYTHON or not description.args:
        return False
    alike = [spec for spec in specs if _same(spec.source, source) and description.entry in (spec.name, spec.entry)]
    return bool(description.grid) or not any(spec.grid for spec in alike)


def _described_here(source: Path, description: KernelDescription) -> KernelSpec:
    """Return the spec of the file's only kernel, or of the named one; the command line is to describe it."""
    if description.entry:
        return KernelSpec(name=description.entry, source=source, entry=description.entry)
    names = build.kernels_in(source, description.options)
    if len(names) > 1 and not (description.grid and description.block):
        first = _overridden(KernelSpec(name=names[0], source=source, entry=names[0]), description)
        raise build.lacking(first, f"{build.several(source, names)}; no launch is described", names[0])
    entry = build.only_kernel(source, description.options)
    return KernelSpec(name=entry, source=source, entry=entry)


def _overridden(spec: KernelSpec, description: KernelDescription) -> KernelSpec:
    """Return the spec with the command line's values in place of its own."""
    sizes = {parameter.name: parameter for parameter in spec.problem}
    for name, size in description.problem.items():
        sizes[name] = replace(sizes[name], default=size) if name in sizes else Parameter(name, size)
    return replace(
        spec,
        entry=spec.entry if spec.entry and description.entry == spec.name else description.entry or spec.entry,
        grid=description.grid or spec.grid,
        block=description.block or spec.block,
        shared=description.shared or spec.shared,
        args=description.args or spec.args,
        args_folder=Path() if description.args else spec.args_folder,
        args_checkout=None if description.args else spec.args_checkout,
        problem=tuple(sizes.values()),
        options=(*spec.options, *_options(spec.source, description)),
        arch=description.arch or spec.arch,
        sample=spec.sample if description.sample is None else description.sample,
    )


def _options(source: Path, description: KernelDescription) -> tuple[str, ...]:
    """Return the options for the source's compiler; raise UsageError for those of another one."""
    python = source.suffix == PYTHON
    if python and description.options:
        raise UsageError(
            f"{description.options[0]} is for nvcc, which does not compile {source.name}", Typed("--option num_warps=8")
        )
    if description.tuning and not python:
        raise UsageError(
            f"--option {description.tuning[0]} is for a function in Python", "--nvcc-option is for a .cu file"
        )
    return description.tuning if python else description.options


def _before_and_after(family: Family, description: KernelDescription) -> Family:
    """Return the family with just two kernels: its first one, compiled in two ways."""
    ways = (("before", description.before), ("after", description.after))
    before, after = (
        replace(
            family.kernels[0],
            name=f"{family.name} ({way})",
            title=f"With {' '.join(given)}" if given else "Unchanged",
            lesson="",
            baseline="" if way == "before" else f"{family.name} (before)",
            options=given,
        )
        for way, given in ways
    )
    if before.options == after.options:
        raise UsageError("before and after are compiled identically", "--before -DSWIZZLE=0 --after -DSWIZZLE=1")
    return replace(family, kernels=(before, after))


def _spec(source: Path, entry: str, specs: Sequence[KernelSpec]) -> KernelSpec | None:
    """Return the project's spec of the file's kernel; raise UsageError if it has several."""
    matching = [spec for spec in specs if _same(spec.source, source)]
    if entry:
        unnamed = [spec for spec in matching if not spec.entry]
        matching = [spec for spec in matching if entry in (spec.name, spec.entry)] or unnamed
    if len(matching) > 1:
        names = ", ".join(spec.name for spec in matching)
        raise UsageError(
            f"ncu-swizzle.toml describes {len(matching)} kernels of {source.name}: {names}",
            Hint(
                Typed(f"ncu-swizzle profile {matching[0].name}"),
                ", or ",
                Typed(f"--kernel {matching[0].entry or 'NAME'}"),
            ),
        )
    return matching[0] if matching else None


def _same(path: Path, other: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)
