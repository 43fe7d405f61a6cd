"""What words mean: kernels of the catalogue, files with kernels, saved reports. `resolve` is the one door.

    kernel2                     a kernel by name: shipped, or of a project's ncu-swizzle.toml
    my.cu  my.cubin  my.ptx     a file with a kernel, which options or the project describe
    my.py::name                 a function in a Python file
    swizzle-out/kernel2         saved profiles, reports and launches, where those are asked for

A word becomes a `Target` here, once; nothing further down sees it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base.errors import (
    BadFile,
    Hint,
    LaunchLacking,
    NcuSwizzleError,
    Typed,
    UnknownKernel,
    Untrusted,
    UsageError,
    as_word,
)
from ncu_swizzle.base.files import exists, is_file, is_folder
from ncu_swizzle.cubin import fatbin
from ncu_swizzle.kernels import build, headers
from ncu_swizzle.kernels.catalog import Catalog, merge, shipped
from ncu_swizzle.kernels.family import FILES, PYTHON, SOURCE, Family, Kernel, Parameter, Target
from ncu_swizzle.kernels.options import LAUNCHES, RUN_MANIFEST, CatalogOptions, KernelDescription, LaunchOptions
from ncu_swizzle.kernels.project import KernelSpec, Project, declared, project_file, project_in, specs

INSIDE = "::"
SAVED = (".json", ".ncu-rep", LAUNCHES)
JUDGES = " judges its kernels in every launch"
TargetOrFile = Target | Path  # a kernel at a size; or a report, a saved profile, a run's folder


def resolve(words: Sequence[str], description: KernelDescription) -> list[list[Target]]:
    """Return the kernels that each word names: one, or every variant of a file's.

    A file's kernels win over others with the same name. Raises UnknownKernel, BadProblem, BadFile, and UsageError for
    options that only apply to a file if there is none.
    """
    catalog, names = catalog_with(words, description)
    return [[catalog.target(name, description.problem) for name in each] for each in names]


def resolve_saved(words: Sequence[str], description: KernelDescription) -> list[list[TargetOrFile]]:
    """Return what each word refers to, like `resolve`: kernels, or else saved profiles, reports and runs.

    Of a file that is compiled before and after, that is both. Raises BadFile, too.
    """
    catalog, names = catalog_with(words, description)
    return [[entry_of(catalog, name, description) for name in each] for each in names]


def entry_of(catalog: Catalog, name: str, description: KernelDescription) -> TargetOrFile:
    """Return a user's kernel, a run's folder, a file, or else a kernel by name.

    A user's kernel wins over a folder of the same name; ``./name`` is the folder. Raises BadFile, UnknownKernel and
    BadProblem.
    """
    path = Path(name)
    if any(kernel.name == name and not family.shipped for family, kernel in catalog):
        return catalog.target(name, description.problem)
    if path.suffix == SOURCE and is_file(path):
        raise BadFile(f"{name} is a source, not a profile", Typed(f"ncu-swizzle profile {as_word(name)}"))
    saved = path.suffix in SAVED
    if not saved and fatbin.is_built(path):
        raise BadFile(f"{name} is built, not a profile", Hint(Typed(f"ncu-swizzle lint {as_word(name)}"), JUDGES))
    if exists(path):
        return path
    if saved or path.parent != Path():
        raise BadFile(f"{name} does not exist", "ls swizzle-out shows what was saved")
    return catalog.target(name, description.problem)


def resolve_together(
    words: Sequence[str], description: KernelDescription, families: bool = False
) -> tuple[Family, list[Kernel]]:
    """Return kernels of one family, by their names; none of them stands for all: a file, or a family, was named.

    A family's name counts with `families`. Raises UsageError for a file beside other words, and for several families.
    """
    files = [word for word in words if is_kernel_file(word)]
    if files and len(words) > 1:
        raise UsageError(
            f"{files[0]} cannot be combined with other kernels", "give one .cu file, or the names of kernels"
        )
    catalog, (first, *_) = catalog_with(words, description)
    if files:
        return catalog.named(first[0])[0], []
    return catalog.family_or_kernels(words) if families else catalog.named_together(list(dict.fromkeys(words)))


def split_name(text: str) -> tuple[Path, str]:
    """Return a file, and what is named in it; empty if that is nothing."""
    file, inside, name = text.partition(f"{PYTHON}{INSIDE}")
    return (Path(f"{file}{PYTHON}"), name) if inside and name else (Path(text), "")


def is_kernel_file(text: str) -> bool:
    """Return whether a text names a file with kernels, and of a Python file one of them."""
    file, name = split_name(text)
    return bool(name) or file.suffix in FILES


def everything(sources: CatalogOptions = CatalogOptions(), start: Path | None = None) -> Catalog:
    """Return the shipped families and those of the project.

    The project's file is the nearest one, searching upwards from `start` (the current folder), unless one is named.
    Raises BadCatalog, BadFile and UsageError.
    """
    return _beside(project_file(sources.config, start or Path.cwd(), sources.trust))


def _beside(project: Project | None, without: Sequence[Path] = ()) -> Catalog:
    """Return the shipped and the project's kernels, except those in the files `without`."""
    if project is None:
        return shipped()
    others = (
        spec for spec in specs(project) if not spec.to_do and not any(_same(spec.source, file) for file in without)
    )
    return merge((*shipped().families, *(_family(spec, project) for spec in others)))


def _family(spec: KernelSpec, project: Project) -> Family:
    try:
        return build.family_of(spec)
    except NcuSwizzleError as error:
        located = type(error)(f"{project.file.name} [{project.outer}kernel.{spec.name}]: {error}", error.hint)
        if isinstance(located, LaunchLacking):
            init = Typed(shlex.join(["ncu-swizzle", "init", as_word(str(spec.source)), "--config", "new.toml"]))
            located.hint = Hint(init, " writes what is known of it")
        raise located from error


def _refuse_to_do(names: Sequence[str], project: Project | None) -> None:
    """Raise LaunchLacking if a name is that of an entry in which something is still to be said."""
    for spec in specs(project) if project and names else ():
        if spec.name in names:
            build.refuse_unfinished(spec)


def catalog_with(words: Sequence[str], description: KernelDescription) -> tuple[Catalog, list[list[str]]]:
    """Return the catalogue with the kernels of all files among the words, and each word's names in it.

    A file stands for all of its variants, any other word for itself; the description is of every file.
    """
    files = list(dict.fromkeys(word for word in words if is_kernel_file(word)))
    project = project_file(
        description.sources.config,
        split_name(files[0])[0].absolute().parent if files else Path.cwd(),
        description.sources.trust,
    )
    _refuse_to_do([word for word in words if word not in files], project)
    if not files:
        description.refuse_beside(words[0])
        families = _beside(project).families
        if description.launch.arch or description.launch.sample is not None:
            families = tuple(adapted(family, description) for family in families)
        return Catalog(families), [[word] for word in words]
    split = [split_name(file) for file in files]
    sources = [source for source, _ in split]
    own = [spec for source in sources for spec in declared(source, description.sources.trust)]
    project_specs = [spec for spec in (specs(project) if project else ()) if not _is_of(spec, own)]
    families = _distinct(
        [family_of(file, description.of_entry(entry), (*own, *project_specs)) for file, entry in split]
    )
    names = {file: [kernel.name for kernel in family.kernels] for file, family in zip(files, families, strict=True)}
    beside = _beside(project, sources)
    return Catalog((*beside.families, *families)), [names.get(word, [word]) for word in words]


def _is_of(spec: KernelSpec, others: Sequence[KernelSpec]) -> bool:
    """Return whether a kernel's file is one of the others': what a file declares of itself goes before the project."""
    return any(_same(spec.source, other.source) for other in others)


def adapted(family: Family, description: KernelDescription) -> Family:
    """Return a family with what may be given for any kernel: an architecture, a sample. Raises UsageError."""
    launch = description.launch
    build.refuse_bad_architecture(launch.arch)
    sample = family.sample if launch.sample is None else launch.sample
    return replace(family, arch=launch.arch or family.arch, sample=sample)


def _distinct(families: Sequence[Family]) -> tuple[Family, ...]:
    """Return the families of several files; those with the same name are called after their files as well."""
    names = [family.name for family in families]
    return tuple(
        family if names.count(family.name) == 1 else _renamed(family, f" of {family.kernels[0].file}")
        for family in families
    )


def _renamed(family: Family, suffix: str) -> Family:
    kernels = tuple(
        replace(kernel, name=kernel.name + suffix, baseline=kernel.baseline and kernel.baseline + suffix)
        for kernel in family.kernels
    )
    return replace(family, name=family.name + suffix, kernels=kernels)


def family_of(source: Path, description: KernelDescription, described: Sequence[KernelSpec]) -> Family:
    """Return the family of a file's kernel: as the command line describes it first, the file or the project second.

    `described` are their kernels. Raises UsageError.
    """
    if not is_file(source):
        raise BadFile(f"{source} does not exist", "name the .cu, cubin or PTX file that holds the kernel")
    spec = None if _is_complete(source, description, described) else _spec(source, description, described)
    if spec is None:
        spec = _described_here(source, description)
    family = _launched(_overridden(spec, description), description)
    if source.suffix == PYTHON:  # who names a file on the command line wants it compiled
        family = replace(family, untrusted=False)
    return _before_and_after(family, description) if description.pair else family


def _is_complete(source: Path, description: KernelDescription, described: Sequence[KernelSpec]) -> bool:
    """Return whether a function's launch is on the command line: arguments, and a grid if its compiler wants one."""
    launch = description.launch
    if source.suffix != PYTHON or not launch.args:
        return False
    own = (spec for spec in described if _same(spec.source, source))
    alike = (spec for spec in own if launch.entry in (spec.name, spec.launch.entry))
    return bool(launch.grid) or not any(spec.launch.grid for spec in alike)


def _described_here(source: Path, description: KernelDescription) -> KernelSpec:
    """Return the spec of the file's only kernel, or of the named one; the command line is to describe it."""
    launch = description.launch
    if launch.entry:
        return _undescribed(source, launch.entry, LaunchOptions(entry=launch.entry))
    names = build.kernels_in(source, description.options)
    if len(names) > 1 and not (launch.grid and launch.block):
        spec = _overridden(_undescribed(source, source.stem), description)
        raise _with_init(build.lacking(spec, f"{build.several(source, names)}; no launch is described"), description)
    only = build.only_kernel(source, description.options)
    return _undescribed(source, only, LaunchOptions(entry=only))


def _launched(spec: KernelSpec, description: KernelDescription) -> Family:
    """Return the family of a kernel; if its launch is not said, the hint has all that was typed."""
    try:
        return build.family_of(spec)
    except LaunchLacking as error:
        raise error if spec.to_do else _with_init(error, description) from error


def _with_init(error: LaunchLacking, description: KernelDescription) -> LaunchLacking:
    """Return the error for a kernel without a launch, with what writes that down: a command with all that was typed."""
    spec = error.spec
    if isinstance(spec, KernelSpec):
        typed = replace(description, launch=replace(description.launch, arch="", sample=None))
        error.hint = Hint(Typed(typed.command("init", str(spec.source))))
    return error


def _overridden(spec: KernelSpec, description: KernelDescription) -> KernelSpec:
    """Return the spec with the command line's values in place of its own. Raises UsageError for another compiler's."""
    typed, python = description.launch, spec.source.suffix == PYTHON
    if python and description.options:
        raise UsageError(
            f"{description.options[0]} is for nvcc, which does not compile {spec.source.name}",
            Typed("--option num_warps=8"),
        )
    if description.tuning and not python:
        raise UsageError(
            f"--option {description.tuning[0]} is for a function in Python", "--nvcc-option is for a .cu file"
        )
    if spec.launch.entry and typed.entry == spec.name:  # the name of an entry, not of a function
        typed = replace(typed, entry="")
    sizes = {parameter.name: parameter for parameter in spec.problem}
    for name, size in description.problem.items():
        sizes[name] = replace(sizes[name], default=size) if name in sizes else Parameter(name, size)
    return replace(
        spec,
        launch=typed.over(spec.launch),
        # Files in typed arguments are relative to the current folder, and the user's own to name.
        args_folder=Path() if typed.args else spec.args_folder,
        args_checkout=None if typed.args else spec.args_checkout,
        problem=tuple(sizes.values()),
        options=(*spec.options, *(description.tuning if python else description.options)),
    )


def _before_and_after(family: Family, description: KernelDescription) -> Family:
    """Return the family with just two kernels: its first one, compiled in two ways."""
    ways = (("before", description.before), ("after", description.after))
    before, after = (
        replace(
            family.kernels[0],
            name=f"{family.name} ({way})",
            title=f"With {' '.join(options)}" if options else "Unchanged",
            lesson="",
            baseline="" if way == "before" else f"{family.name} (before)",
            options=options,
        )
        for way, options in ways
    )
    if before.options == after.options:
        raise UsageError("before and after are compiled identically", "--before -DSWIZZLE=0 --after -DSWIZZLE=1")
    return replace(family, kernels=(before, after))


def _spec(source: Path, description: KernelDescription, described: Sequence[KernelSpec]) -> KernelSpec | None:
    """Return the project's spec of the file's kernel; raise UsageError if it has several."""
    matching = [spec for spec in described if _same(spec.source, source)]
    if entry := description.launch.entry:
        unnamed = [spec for spec in matching if not spec.launch.entry]
        matching = [spec for spec in matching if entry in (spec.name, spec.launch.entry)] or unnamed
    if len(matching) > 1:
        names = ", ".join(spec.name for spec in matching)
        raise UsageError(
            f"ncu-swizzle.toml describes {len(matching)} kernels of {source.name}: {names}",
            Hint(
                Typed(f"ncu-swizzle profile {matching[0].name}"),
                ", or ",
                Typed(f"--kernel {matching[0].launch.entry or 'NAME'}"),
            ),
        )
    return matching[0] if matching else None


def _same(path: Path, other: Path) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)


# The kernels of a source if all of them are meant, as for ``ncu-swizzle lint`` and ``fix``.


@dataclass(frozen=True)
class Skipped:
    """A source without a description of its launch."""

    name: str
    reason: str


@dataclass(frozen=True)
class Unlaunched:
    """A file whose kernels have no described launch; `spec` describes a source, None for a built file."""

    file: Path
    spec: KernelSpec | None = None

    @property
    def name(self) -> str:
        return str(self.file)


Found = Target | Skipped | Unlaunched


def resolve_all(words: Sequence[str], description: KernelDescription) -> list[Found]:
    """Return every kernel of the words, as `resolve_sources` does, and files whose kernels have no described launch.

    A word may also be a built file: a program, a library, an object, an archive, a wheel, or a folder of them.
    """
    without: dict[str, Unlaunched] = {}
    rest: list[str] = []
    for word in words:
        path, spec = Path(word), _without_launch(word, description)
        if spec is not None:
            without[str(path)] = Unlaunched(path, spec if path.suffix == SOURCE else None)
        elif is_folder(path) and not _shipped_in(path):
            built = fatbin.built_files_in(path)
            without |= {str(each): Unlaunched(each) for each in built}
            rest += [] if built else [word]
        elif not is_kernel_file(word) and fatbin.is_built(path):
            without[word] = Unlaunched(path)
        else:
            rest.append(word)
    return [*resolve_sources(rest, description, alone=len(words) == 1), *without.values()]


def unlaunched(word: str, description: KernelDescription) -> list[Unlaunched]:
    """Return the files with kernels of which no launch is described; none for anything else, such as what was saved.

    There are several in a folder of what is built.
    """
    path = Path(word)
    if is_folder(path):
        built = not exists(path / RUN_MANIFEST) and not _shipped_in(path) and bool(fatbin.built_files_in(path))
    else:
        built = path.suffix not in SAVED and is_file(path) and (is_kernel_file(word) or fatbin.is_built(path))
    found = resolve_all([word], description) if built else []
    files = [each for each in found if isinstance(each, Unlaunched)]
    return files if len(files) == len(found) else []


def _without_launch(word: str, description: KernelDescription) -> KernelSpec | None:
    """Return a file's spec if neither itself nor a project nor the command line says how its kernels are launched."""
    file, entry = split_name(word)
    launch = description.launch
    if file.suffix not in FILES or not is_file(file) or launch.grid or launch.args or description.pair:
        return None
    own = [
        target
        for target in described_in(file, description.sources)
        if launch.entry in ("", target.name, target.kernel.entry)
    ]
    if own:
        return None
    sources = description.sources
    project = project_file(sources.config, file.resolve().parent, sources.trust)
    begun = [spec for spec in (specs(project) if project else ()) if spec.to_do and _same(spec.source, file)]
    undescribed = _undescribed(file, file.stem)
    if begun:  # how it is compiled is said, even if its launch is not
        undescribed = replace(undescribed, options=begun[0].options, origin=begun[0].origin)
    return _overridden(undescribed, description.of_entry(entry))


def _undescribed(source: Path, name: str, launch: LaunchOptions = LaunchOptions()) -> KernelSpec:
    """Return the spec of a file that nothing describes, with the options that its build passes to the compiler."""
    options, origin = headers.build_options(source) if source.suffix == SOURCE else ((), "")
    return KernelSpec(name=name, source=source, launch=launch, options=options, origin=origin)


def resolve_sources(words: Sequence[str], description: KernelDescription, alone: bool = True) -> list[Target | Skipped]:
    """Return every kernel of the sources, each once, at its default size.

    A word is a source or a binary, a folder of shipped kernels, a project's file, or a kernel's name. What is not
    described is skipped, unless it is the only one (`alone`): then the reason is raised.
    """
    kernels: dict[tuple[Path | None, str], Target | Skipped] = {}
    for kernel in (each for word in words for each in _in_word(word, description, alone and len(words) == 1)):
        if isinstance(kernel, Skipped):
            kernels[None, kernel.name] = kernel
        else:
            kernels[kernel.family.folder, kernel.name] = replace(kernel, family=adapted(kernel.family, description))
    return list(kernels.values())


def _in_word(word: str, description: KernelDescription, alone: bool) -> Iterator[Target | Skipped]:
    path, sources = Path(word), description.sources
    if is_kernel_file(word) or path.suffix == PYTHON:
        yield from _in_source(word, description, alone)
    elif is_folder(path):
        families = _shipped_in(path)
        if not families:
            raise BadFile(f"{word} is a folder", "name its .cu files, or its ncu-swizzle.toml")
        yield from with_source(Catalog(families))
    elif path.suffix == ".toml" and is_file(path):
        own_project = project_in(path, sources.trust)
        own = [target for target in with_source(_beside(own_project)) if not target.family.shipped]
        for spec in specs(own_project):
            if to_do := spec.to_do:
                if not own:
                    build.refuse_unfinished(spec)
                yield Skipped(spec.name, f"TODO in {', '.join(to_do)}")
        yield from own
    else:
        project = project_file(sources.config, Path.cwd(), sources.trust)
        _refuse_to_do([word], project)
        yield _beside(project).target(word)


def _shipped_in(path: Path) -> tuple[Family, ...]:
    """Return the shipped families in a folder."""
    folder = path.resolve()
    return tuple(each for each in shipped().families if folder in (each.folder, each.folder.parent))


def with_source(catalog: Iterable[tuple[Family, Kernel]]) -> Iterator[Target]:
    """Yield the kernels at their default sizes, but for the libraries', whose source is not available."""
    return (Target(family, kernel, family.problem()) for family, kernel in catalog if not kernel.library)


def _in_source(word: str, description: KernelDescription, alone: bool) -> Iterator[Target | Skipped]:
    """Yield the file's kernels that itself, the catalogue or the project describes, else those of the command line."""
    file, entry = split_name(word)
    if not is_file(file):
        raise BadFile(f"{file} does not exist", "name a .cu, cubin or PTX file")
    # After a Python file, a function, or an entry of the project, can be named.
    described = [
        target
        for target in described_in(file, description.sources)
        if entry in ("", target.name, target.kernel.entry, target.family.name)
    ]
    if described and not description.typed:
        yield from described
        return
    try:
        if file.suffix == PYTHON and not entry:
            raise UsageError(f"{file.name}: no launch of its functions is described", describing(file))
        catalog, (names,) = catalog_with([word], description)
    except (UnknownKernel, BadFile, Untrusted):
        raise
    except NcuSwizzleError as error:
        if description.typed or alone:
            raise
        how = "" if file.suffix == PYTHON else f"; {describing(file)} describes it"
        yield Skipped(str(file), f"{error}{how}")
        return
    yield from map(catalog.target, names)


def describing(*files: Path | str) -> str:
    """Return what describes the kernels of files: a command that writes ncu-swizzle.toml, or options for Python."""
    sources = [str(file) for file in files if split_name(str(file))[0].suffix != PYTHON]
    if sources:
        return shlex.join(["ncu-swizzle", "init", *map(as_word, sources)])
    first, entry = split_name(str(files[0]))
    lint = f"name one, with its launch: ncu-swizzle lint {first}::{entry or 'FUNCTION'} "
    return Hint(lint, Typed("--grid 128 --arg …"))


def described_in(file: Path, sources: CatalogOptions) -> list[Target]:
    """Return the kernels of a source that itself, else the catalogue or the nearest project describes."""
    own = Catalog(tuple(build.family_of(spec) for spec in declared(file, sources.trust)))
    described = with_source(own if own.families else everything(sources, file.resolve().parent))
    # Who names a file wants it compiled, even if that means that a Python file is executed.
    return [
        replace(kernel, family=replace(kernel.family, untrusted=False))
        for kernel in described
        if _same(kernel.source, file)
    ]
