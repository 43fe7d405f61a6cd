"""Kernels of users' own, beside those of the catalogue: a ``.cu`` file, described on the command line (`Asked`) or in
ncu-swizzle.toml (`projectkernels`), and folders of families.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ncu_swizzle.catalog import collection, family, kernel_spec, project, project_kernels
from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.catalog.family import Family, Parameter
from ncu_swizzle.catalog.kernel_spec import Spec
from ncu_swizzle.catalog.project import Project
from ncu_swizzle.errors import BadFile, NcuSwizzleError, UsageError
from ncu_swizzle.texts import Texts, listed


@dataclass(frozen=True)
class Asked:
    """The options of the command line that describe a kernel; empty where they were not given."""

    entry: str = ""
    grid: str = ""
    block: str = ""
    shared: str = ""
    args: tuple[str, ...] = ()
    problem: Mapping[str, int] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def typed(self) -> list[str]:
        """The options that only a .cu file takes, of those that were given."""
        named = {
            "--kernel": self.entry, "--grid": self.grid, "--block": self.block, "--shared": self.shared,
            "--arg": self.args, "-D, -I, --std or --nvcc-option": self.options,
            "--before": self.before, "--after": self.after,
        }  # fmt: skip
        return [name for name, value in named.items() if value]


def asked(
    problem: Mapping[str, int],
    entry: str = "",
    grid: str | Sequence[str | int] = "",
    block: str | Sequence[str | int] = "",
    shared: str | int = "",
    args: Texts = (),
    define: Texts = (),
    include: Texts = (),
    std: str = "",
    nvcc_option: Texts = (),
    before: Texts = (),
    after: Texts = (),
) -> Asked:
    """Return the description that the options of these names give, paths taken from here. Raises UsageError."""
    from ncu_swizzle.catalog import nvcc_options

    here = Path()
    return Asked(
        entry=entry,
        grid=_commas(grid),
        block=_commas(block),
        shared=str(shared),
        args=listed(args),
        problem=problem,
        options=nvcc_options.options(listed(define), listed(include), listed(nvcc_option), std, here),
        before=nvcc_options.split(listed(before), here),
        after=nvcc_options.split(listed(after), here),
    )


def _commas(sizes: str | Sequence[str | int]) -> str:
    return sizes if isinstance(sizes, str) else ",".join(map(str, sizes))


def everything(folders: Sequence[Path] = (), config: str = "", start: Path | None = None) -> Catalog:
    """Return the shipped catalogue, and beside it the families in the folders and those of the project.

    `config` names the project's file, or none; else it is the nearest one, from `start` (the current folder) upwards.
    Raises BadCatalog, BadFile and UsageError.
    """
    return _beside(folders, project.asked(config, start or Path.cwd()))


def _beside(folders: Sequence[Path], found: Project | None, but: Path | None = None) -> Catalog:
    """Return everything but the project's kernels of the file `but`."""
    users = dict.fromkeys(folder.resolve() for folder in (*folders, *(found.catalog if found else ())))
    loaded = [one for folder in users for one in collection.load(folder).families if not one.shipped]
    described = project_kernels.specs(found) if found else ()
    own = [_of(spec, found) for spec in described if found and not (but and _same(spec.source, but))]
    return collection.merge([*collection.shipped().families, *loaded, *own])


def _of(spec: Spec, found: Project) -> Family:
    try:
        return kernel_spec.family(spec)
    except NcuSwizzleError as error:
        raise type(error)(f"{found.file.name} [{found.outer}kernel.{spec.name}]: {error}", error.hint) from error


def chosen(kernel: str, asked: Asked, folders: Sequence[Path] = (), config: str = "") -> tuple[Catalog, list[str]]:
    """Return the catalogue and the names of the kernels that the command line means: one, or all of a .cu file's.

    The file's own kernels go before others of their name. Raises UsageError where options are given that only a .cu
    file takes.
    """
    source = Path(kernel)
    if source.suffix not in family.FILES:
        if asked.typed:
            given = f"{', '.join(asked.typed)} describe{'s' if len(asked.typed) == 1 else ''} a .cu file"
            raise UsageError(f"{given}, and {kernel} is none", f"ncu-swizzle profile my.cu {asked.typed[0]} …")
        return everything(folders, config), [kernel]
    found = project.asked(config, source.absolute().parent)
    made = of_file(source, asked, project_kernels.specs(found) if found else ())
    return Catalog((*_beside(folders, found, source).families, made)), [one.name for one in made.kernels]


def chosen_together(
    kernels: Sequence[str], asked: Asked, folders: Sequence[Path] = (), config: str = ""
) -> tuple[Catalog, list[str]]:
    """Return the catalogue and the names of several kernels, or of one .cu file's; see `chosen`."""
    files = [kernel for kernel in kernels if kernel.endswith(family.FILES)]
    if files and len(kernels) > 1:
        raise UsageError(f"{files[0]} is a file beside other kernels", "one .cu file, or kernels by their names")
    known, names = chosen(kernels[0], asked, folders, config)
    return known, names if files else list(kernels)


def of_file(source: Path, asked: Asked, described: Sequence[Spec]) -> Family:
    """Return the family of a .cu file, as the command line describes it, and for the rest ncu-swizzle.toml.

    `described` are the project's kernels. Raises UsageError.
    """
    if not source.is_file():
        raise BadFile(f"{source} does not exist", "name the .cu, cubin or PTX file that holds the kernel")
    spec = _described(source, asked.entry, described)
    if spec is None:
        entry = asked.entry or kernel_spec.only(source, asked.options)
        spec = Spec(entry, source, entry)
    made = kernel_spec.family(_overridden(spec, asked))
    return _before_and_after(made, asked) if asked.before or asked.after else made


def _overridden(spec: Spec, asked: Asked) -> Spec:
    """Return a description with what the command line says instead."""
    sizes = {one.name: one for one in spec.problem}
    for name, size in asked.problem.items():
        sizes[name] = replace(sizes[name], default=size) if name in sizes else Parameter(name, size)
    return replace(
        spec,
        entry=asked.entry or spec.entry,
        grid=asked.grid or spec.grid,
        block=asked.block or spec.block,
        shared=asked.shared or spec.shared,
        args=asked.args or spec.args,
        args_folder=Path() if asked.args else spec.args_folder,
        problem=tuple(sizes.values()),
        options=(*spec.options, *asked.options),
    )


def _before_and_after(made: Family, asked: Asked) -> Family:
    """Return the family with two kernels alone: the same one, compiled in two ways."""
    one = made.kernels[0]
    ways = (("before", asked.before), ("after", asked.after))
    before, after = (
        replace(
            one,
            name=f"{made.name} ({way})",
            title=f"With {' '.join(given)}" if given else "As it is",
            lesson="",
            baseline="" if way == "before" else f"{made.name} (before)",
            options=given,
        )
        for way, given in ways
    )
    if before.options == after.options:
        raise UsageError("before and after are compiled alike", "--before -DSWIZZLE=0 --after -DSWIZZLE=1")
    return replace(made, kernels=(before, after))


def _described(source: Path, entry: str, described: Sequence[Spec]) -> Spec | None:
    """Return the project's description of the file's kernel; raise UsageError where it has several."""
    found = [spec for spec in described if _same(spec.source, source)]
    if entry:
        found = [spec for spec in found if entry in (spec.name, spec.entry)] or [
            spec for spec in found if not spec.entry
        ]
    if len(found) > 1:
        raise UsageError(
            f"ncu-swizzle.toml describes {len(found)} kernels of {source.name}: {', '.join(s.name for s in found)}",
            f"ncu-swizzle profile {found[0].name}, or --kernel {found[0].entry or 'NAME'}",
        )
    return found[0] if found else None


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
