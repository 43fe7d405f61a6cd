"""Kernels as they are described, and as a word names them: files, projects, the catalogue."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
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
from ncu_swizzle.base.files import exists, is_file, is_folder, is_same_file, read_bytes
from ncu_swizzle.base.texts import encodable
from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import limits
from ncu_swizzle.kernels.catalog import Catalog, merge, shipped
from ncu_swizzle.kernels.family import (
    BINARIES,
    FILES,
    PYTHON,
    SOURCE,
    Family,
    Kernel,
    LaunchTexts,
    Parameter,
    Target,
    is_kernel_file,
    split_name,
)
from ncu_swizzle.kernels.limits import evaluate
from ncu_swizzle.kernels.options import LAUNCHES, RUN_MANIFEST, CatalogOptions, KernelDescription, LaunchOptions
from ncu_swizzle.kernels.project import KernelSpec, Project, Variant, declared, project_file, project_in, specs

# Kernels as they are described, and the families that they become.
#
# They are shipped, of a project's ncu-swizzle.toml, of a Python file's own dictionary, or of the command line, whose
# values take the place of the others'.

# A single kernel as its user describes it, on the command line or in ncu-swizzle.toml, and the family it becomes.

_ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?")


def family_of_spec(spec: KernelSpec) -> Family:
    """Return the kernel as a family whose kernels are its variants. Raises UsageError, which says what is wrong."""
    from ncu_swizzle.kernels.arguments import family as python_family  # which takes NumPy; most commands need none
    from ncu_swizzle.kernels.arguments import parse_arguments

    source = Path(os.path.normpath(spec.source.absolute()))
    if not is_file(source):
        raise BadFile(f"{spec.source} does not exist", "name the .cu file that holds the kernel")
    for name in (spec.name, *(variant.name for variant in spec.variants)):
        if not re.match(r"[^\s-][^\x00-\x1f\x7f]*$", name or spec.name):
            raise UsageError(f"{name!r} is not a valid kernel name", "start it with a letter: [kernel.transpose]")
    problem = {parameter.name: parameter.validated(parameter.default) for parameter in spec.problem}
    launch = spec.launch
    refuse_bad_architecture(launch.arch)
    if source.suffix == PYTHON:
        return _with_variants(python_family(spec, source, problem), spec, launch.entry)
    refuse_without_launch(spec)
    grid, block = limits.three(launch.grid, "grid"), limits.three(launch.block, "block")
    limits.refuse_bad_sizes(grid, "grid", problem)
    limits.refuse_bad_sizes(block, "block", problem)
    if not 0 <= evaluate(launch.shared or "0", problem) <= limits.MOST_SHARED:
        raise UsageError(
            f"shared is {launch.shared}, which is not a number of bytes up to {limits.MOST_SHARED:,}",
            Typed("--shared 49152"),
        )
    entry = launch.entry or only_kernel(source, spec.options)
    arguments = parse_arguments(launch.args, spec.args_folder, problem, spec.tolerance)
    for argument in arguments:
        if spec.args_checkout and argument.file:
            spec.args_checkout.path(argument.file, f"the argument {argument.name}")
    texts = LaunchTexts(grid=grid, block=block, shared=launch.shared or "0")
    described = spec.as_family(source, spec.name, texts, arguments)
    capability = tuple(int(part) for part in spec.compute_capability.split("."))
    return _with_variants(replace(described, compute_capability=capability), spec, entry)


def _with_variants(described: Family, spec: KernelSpec, entry: str) -> Family:
    """Return a family with the kernels that are its variants."""
    variants = spec.variants or (Variant(name="", options=(), title=spec.title, lesson=spec.lesson),)
    return replace(described, kernels=tuple(_kernel(spec, entry, variant, variants[0]) for variant in variants))


def refuse_bad_architecture(arch: str) -> None:
    """Raise UsageError for what is not an architecture's name; none is fine."""
    if arch and not _ARCHITECTURE.fullmatch(arch):
        raise UsageError(f"{arch!r} is not an architecture", Typed("--arch sm_90"))


def refuse_without_launch(spec: KernelSpec) -> None:
    """Raise LaunchLacking if a kernel has no grid or block, or its entry has a TODO."""
    refuse_to_do(spec)
    if missing := [what for what in ("grid", "block") if not getattr(spec.launch, what)]:
        raise lacking(spec, f"{spec.name} has no {' and no '.join(missing)}")


def refuse_to_do(spec: KernelSpec) -> None:
    """Raise LaunchLacking if an entry has a TODO."""
    if to_do := spec.to_do:
        raise LaunchLacking(f"{spec.name} has TODO in {', '.join(to_do)}", f"replace each TODO in {spec.origin}")


def lacking(spec: KernelSpec, message: str) -> LaunchLacking:
    """Return the error for a kernel without a launch; `build.completed` compiles it before the error is shown."""
    error = LaunchLacking(message, Hint(Typed(init_command(spec.source))))
    error.spec = spec
    return error


def init_command(*words: Path | str) -> str:
    """Return the command that describes the kernels of files."""
    return shlex.join(["ncu-swizzle", "init", *(as_word(str(word)) for word in words)])


def _kernel(spec: KernelSpec, entry: str, variant: Variant, first: Variant) -> Kernel:
    given = encodable(" ".join(variant.options))
    name = variant.name or spec.name
    return Kernel(
        name=name,
        title=variant.title or (f"With {given}" if given else encodable(spec.source.name)),
        lesson=variant.lesson,
        baseline="" if variant is first else (first.name or spec.name),
        file=spec.source.name,
        function=entry,
        options=variant.options,
    )


def only_kernel(source: Path, given: Sequence[str]) -> str:
    """Return the only kernel that a source, or else its headers, declares; raise UsageError if there are several."""
    names = kernels_in(source, given)
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(
            f"{source.name} declares no __global__ function",
            Hint("if a macro declares it, name it with ", Typed("--kernel NAME")),
        )
    init = init_command(source)
    raise UsageError(several(source, names), Hint(Typed(f"--kernel {names[0]}"), f", or {init} for all of them"))


def describing(*files: Path | str) -> str:
    """Return what describes the kernels of files: a command that writes ncu-swizzle.toml, or options for Python."""
    sources = [str(file) for file in files if split_name(str(file))[0].suffix != PYTHON]
    if sources:
        return init_command(*sources)
    first, entry = split_name(str(files[0]))
    lint = f"name one, with its launch: ncu-swizzle lint {first}::{entry or 'FUNCTION'} "
    return Hint(lint, Typed("--grid 128 --arg …"))


def several(source: Path, names: Sequence[str]) -> str:
    """Return that a file has several kernels."""
    return f"{source.name} has {len(names)} kernels: {', '.join(names)}"


def kernels_in(source: Path, given: Sequence[str]) -> list[str]:
    """Return the kernels that a source, or else its headers, declares; of a compiled file, their mangled names."""
    if source.suffix in BINARIES:
        return _compiled(source)
    texts = [text for _, text in limits.texts([source], limits.folders(given))]
    own = names.declared_kernels(texts[0])
    return own or list(dict.fromkeys(name for text in texts[1:] for name in names.declared_kernels(text)))


def _compiled(source: Path) -> list[str]:
    """Return the mangled names of the kernels in a cubin or PTX file."""
    data = read_bytes(source)
    if source.suffix == ".cubin":
        return list(Cubin(data, source.name).kernels)
    return re.findall(r"\.entry\s+([\w$.]+)", data.decode("utf-8", "replace"))


# The catalogue: what a kernel's name is looked up in.


def catalogue(sources: CatalogOptions = CatalogOptions(), start: Path | None = None) -> Catalog:
    """Return the shipped families and those of the project.

    The project's file is the nearest one, searching upwards from `start` (the current folder), unless one is named.
    Raises BadCatalog, BadFile and UsageError.
    """
    return with_project(project_file(sources.config, start or Path.cwd(), sources.trust))


def with_project(project: Project | None, without: Sequence[Path] = ()) -> Catalog:
    """Return the shipped and the project's kernels, except those in the files `without`."""
    if project is None:
        return shipped()
    others = (
        spec
        for spec in specs(project)
        if not spec.to_do and not any(is_same_file(spec.source, file) for file in without)
    )
    return merge((*shipped().families, *(_project_family(spec, project) for spec in others)))


def _project_family(spec: KernelSpec, project: Project) -> Family:
    try:
        return family_of_spec(spec)
    except NcuSwizzleError as error:
        located = type(error)(f"{project.file.name} [{project.outer}kernel.{spec.name}]: {error}", error.hint)
        if isinstance(located, LaunchLacking):
            init = Typed(f"{init_command(spec.source)} --config new.toml")
            located.hint = Hint(init, " writes what is known of it")
        if size := getattr(error.__cause__, "size", ""):
            scalar = next((at for arg in spec.launch.args if (at := re.fullmatch(rf"{size}=\w+:(\d+)", arg))), None)
            sizes = {**spec.sizes, size: int(scalar[1]) if scalar else limits.USUAL_SIZE}
            table = ", ".join(f"{name} = {value}" for name, value in sizes.items())
            located.hint = Hint("define it there: ", f"problem = {{ {table} }}")
        raise located from error


def refuse_unfinished(names: Sequence[str], project: Project | None) -> None:
    """Raise LaunchLacking if a name is that of an entry with a TODO."""
    for spec in specs(project) if project and names else ():
        if spec.name in names:
            refuse_to_do(spec)


def targets_in(source: Path, sources: CatalogOptions) -> list[Target]:
    """Return the kernels of a source that itself, else the catalogue or the nearest project describes."""
    own = Catalog(tuple(family_of_spec(spec) for spec in declared(source, sources.trust)))
    described = own if own.families else catalogue(sources, source.resolve().parent)
    # Who names a file wants it compiled, even if that means that a Python file is executed.
    return [
        replace(target, family=replace(target.family, untrusted=False))
        for target in described.targets()
        if is_same_file(target.source, source)
    ]


# A file's kernel, as the command line describes it first, the file or the project second.


def family_of(source: Path, description: KernelDescription, project: Sequence[KernelSpec]) -> Family:
    """Return the family of a source's kernel; `project` are the specs of the file itself and of the project.

    Raises BadFile, LaunchLacking with all that was typed in its hint, and UsageError.
    """
    if not is_file(source):
        raise BadFile(f"{source} does not exist", "name the .cu, cubin or PTX file that holds the kernel")
    here = [spec for spec in project if is_same_file(spec.source, source)]
    spec = None if _is_complete(source, description.launch, here) else _named_spec(source, description, here)
    spec = _with_typed(spec or _only_kernel(source, description), description)
    try:
        family = family_of_spec(spec)
    except LaunchLacking as error:
        raise error if spec.to_do else _with_init(error, description) from error
    if source.suffix == PYTHON:  # naming a file on the command line asks for its compilation
        family = replace(family, untrusted=False)
    return _before_and_after(family, description) if description.pair else family


def _is_complete(source: Path, typed: LaunchOptions, here: Sequence[KernelSpec]) -> bool:
    """Return whether a function's launch is typed: its arguments, and a grid if its compiler takes one."""
    if source.suffix != PYTHON or not typed.args:
        return False
    named = (spec for spec in here if typed.entry in (spec.name, spec.launch.entry))
    return bool(typed.grid) or not any(spec.launch.grid for spec in named)


def _named_spec(source: Path, description: KernelDescription, here: Sequence[KernelSpec]) -> KernelSpec | None:
    """Return the only spec of a source, or that of the named kernel; raise UsageError if there are several."""
    matching = list(here)
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


def _only_kernel(source: Path, description: KernelDescription) -> KernelSpec:
    """Return the spec of a source's only kernel, or of the named one, whose launch only the command line can say."""
    launch = description.launch
    if launch.entry:
        return _bare_spec(source, launch.entry, LaunchOptions(entry=launch.entry))
    names = kernels_in(source, description.options)
    if len(names) > 1 and not (launch.grid and launch.block):
        spec = _with_typed(_bare_spec(source, source.stem), description)
        raise _with_init(lacking(spec, f"{several(source, names)}; no launch is described"), description)
    only = only_kernel(source, description.options)
    return _bare_spec(source, only, LaunchOptions(entry=only))


def _bare_spec(source: Path, name: str, launch: LaunchOptions = LaunchOptions()) -> KernelSpec:
    """Return the spec of a source that nothing describes, with the options that its build passes to the compiler."""
    if source.suffix != SOURCE:
        return KernelSpec(name=name, source=source, launch=launch)
    from ncu_swizzle.kernels import nvcc_options  # most kernels are described

    options, origin = nvcc_options.build_options(source)
    return KernelSpec(name=name, source=source, launch=launch, options=options, origin=origin)


def _with_init(error: LaunchLacking, description: KernelDescription) -> LaunchLacking:
    """Return the error for a kernel without a launch, with `init` and all that was typed as its hint."""
    spec = error.spec
    if isinstance(spec, KernelSpec):
        typed = replace(description, launch=replace(description.launch, arch="", sample=None))
        error.hint = Hint(Typed(typed.command("init", str(spec.source))))
    return error


def _with_typed(spec: KernelSpec, description: KernelDescription) -> KernelSpec:
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


def for_compiler(family: Family, typed: LaunchOptions) -> Family:
    """Return a family with what can be typed for any kernel: an architecture and a sample. Raises UsageError."""
    refuse_bad_architecture(typed.arch)
    sample = family.sample if typed.sample is None else typed.sample
    return replace(family, arch=typed.arch or family.arch, sample=sample)


def spec_without_launch(source: Path, description: KernelDescription) -> KernelSpec | None:
    """Return the spec of a compiled or CUDA C++ file if nothing says how its kernels are launched, else None."""
    typed, sources = description.launch, description.sources
    if source.suffix not in FILES or not is_file(source):
        return None
    described = targets_in(source, sources)  # what is described wrongly is an error, whatever is typed
    is_described = any(not typed.entry or target.is_called(typed.entry) for target in described)
    if is_described or typed.grid or typed.args or description.pair:
        return None
    project = project_file(sources.config, source.resolve().parent, sources.trust)
    begun = [spec for spec in (specs(project) if project else ()) if spec.to_do and is_same_file(spec.source, source)]
    spec = _bare_spec(source, source.stem)
    if begun:  # how it is compiled is said, even if its launch is not
        spec = replace(spec, options=begun[0].options, origin=begun[0].origin)
    return _with_typed(spec, description)


# What words mean: kernels of the catalogue, files with kernels, saved reports. `resolve` is the one door.
#
# kernel2                     a kernel by name: shipped, or of a project's ncu-swizzle.toml
# my.cu  my.cubin  my.ptx     a file with a kernel, which options or the project describe
# my.py::name                 a function in a Python file
# build  app  libk.so         what is built, every kernel of which can be judged without a launch
# swizzle-out/kernel2         saved profiles, reports and launches, where those are asked for
#
# A word becomes a `Named` here, once; nothing further down sees it.

SAVED = (".json", ".ncu-rep", LAUNCHES)
JUDGES = " judges its kernels in every launch"
TargetOrFile = Target | Path  # a kernel at a size; or a report, a saved profile, a run's folder


@dataclass(frozen=True)
class Skipped:
    """A kernel that is left out, since no launch of it is described."""

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


@dataclass(frozen=True, kw_only=True)
class Named:
    """What one word names: kernels at a size, or something saved; and what it names without a described launch."""

    targets: tuple[Target, ...] = ()  # of a file all variants, the baseline first
    saved: Path | None = None
    skipped: tuple[Skipped, ...] = ()
    unlaunched: tuple[Unlaunched, ...] = ()

    @property
    def entries(self) -> tuple[TargetOrFile, ...]:
        """What has counts: the kernels, or what is saved."""
        return (self.saved,) if self.saved else self.targets


def resolve(
    words: Sequence[str],
    description: KernelDescription,
    *,
    beside: Sequence[str] = (),
    saved: bool = False,
    unlaunched: bool = False,
    every: bool = False,
    families: bool = False,
) -> list[Named]:
    """Return what each word names, then what each word `beside` them does: a kernel of their catalogue, or a file.

    The description is of every file among the words, whose kernels win over others of the same name. The options say
    what else counts: `saved` reports, profiles and runs; `unlaunched` files, of which no launch is described; the name
    of a family, which means all its kernels (`families`). With `every`, a source means all its described kernels at
    their default sizes, and a folder of ours or a project's file all of theirs; else it is one kernel and its variants.

    Raises UnknownKernel, BadProblem, BadFile, LaunchLacking, and UsageError for options that describe a file if there
    is none. With `every`, what is not described is skipped instead, if there are other words.
    """
    meanings: dict[str, Named] = {}
    for word in words if unlaunched else ():
        if files := _files_without_launch(word, description, runs=every):
            meanings[word] = Named(unlaunched=files)
    others = tuple(word for word in dict.fromkeys(words) if word not in meanings)
    together = _Words(others, description)
    for word in others:
        if every:
            meanings[word] = _every_kernel(word, description, alone=len(words) == 1)
        else:
            meanings[word] = together.named(word, saved, families)
    return [*(meanings[word] for word in words), *(together.named(word, saved=True) for word in beside)]


@dataclass(frozen=True)
class _Words:
    """Words that are read together: the kernels of files among them are in the catalogue of all."""

    words: tuple[str, ...]
    description: KernelDescription

    def named(self, word: str, saved: bool, families: bool = False) -> Named:
        """Return the kernels that a word names, or else what is saved under it."""
        if saved and word not in self.families and (file := self._saved(word)):
            return Named(saved=file)
        family = self.families.get(word)
        if families and self.words == (word,):
            family = next((family for family in self.catalog.families if family.name == word), family)
        names = [kernel.name for kernel in family.kernels] if family else [word]
        return Named(targets=tuple(self.catalog.target(name, self.description.problem) for name in names))

    def _saved(self, word: str) -> Path | None:
        """Return a run's folder, a report or a saved profile; None if a kernel has the name.

        A user's kernel wins over a folder of the same name; ``./name`` is the folder. Raises BadFile.
        """
        path = Path(word)
        is_saved, is_path = path.suffix in SAVED, path.parent != Path()
        kernels = () if is_saved or is_path else self.catalog
        if any(kernel.name == word and not family.shipped for family, kernel in kernels):
            return None
        self._refuse_options()
        if path.suffix == SOURCE and is_file(path):
            raise BadFile(f"{word} is a source, not a profile", Typed(f"ncu-swizzle profile {as_word(word)}"))
        if not is_saved and _is_built(path):
            raise BadFile(f"{word} is built, not a profile", Hint(Typed(f"ncu-swizzle lint {as_word(word)}"), JUDGES))
        if exists(path):
            return path
        if is_saved or is_path:
            raise BadFile(f"{word} does not exist", "ls swizzle-out shows what was saved")
        return None

    def _refuse_options(self) -> None:
        """Raise UsageError for options that describe a file if there is none among the words."""
        if not self.files:
            self.description.refuse_beside(self.words[0])

    @cached_property
    def files(self) -> dict[str, tuple[Path, str]]:
        """Each file with kernels, and what is named in it."""
        return {word: split_name(word) for word in self.words if is_kernel_file(word)}

    @cached_property
    def project(self) -> Project | None:
        start = next((path.absolute().parent for path, _ in self.files.values()), Path.cwd())
        sources = self.description.sources
        project = project_file(sources.config, start, sources.trust)
        refuse_unfinished([word for word in self.words if word not in self.files], project)
        return project

    @cached_property
    def families(self) -> dict[str, Family]:
        """The family of each file; those with the same name are called after their files as well."""
        if not self.files:
            return {}
        # What a file declares of itself goes before the project.
        own = [spec for path, _ in self.files.values() for spec in declared(path, self.description.sources.trust)]
        others = specs(self.project) if self.project else ()
        described = (*own, *(spec for spec in others if not any(is_same_file(spec.source, one.source) for one in own)))
        families = {
            word: family_of(path, self.description.of_entry(entry), described)
            for word, (path, entry) in self.files.items()
        }
        names = [family.name for family in families.values()]
        return {
            word: family if names.count(family.name) == 1 else _renamed(family, f" of {family.kernels[0].file}")
            for word, family in families.items()
        }

    @cached_property
    def catalog(self) -> Catalog:
        typed, project = self.description.launch, self.project
        self._refuse_options()
        families = with_project(project, [path for path, _ in self.files.values()]).families
        if not self.files and (typed.arch or typed.sample is not None):
            families = tuple(for_compiler(family, typed) for family in families)
        return Catalog((*families, *self.families.values()))


def _renamed(family: Family, suffix: str) -> Family:
    kernels = tuple(
        replace(kernel, name=kernel.name + suffix, baseline=kernel.baseline and kernel.baseline + suffix)
        for kernel in family.kernels
    )
    return replace(family, name=family.name + suffix, kernels=kernels)


# Files whose kernels nothing launches, and the kernels of a source if all of them are meant: ``lint``, ``fix``.


def _files_without_launch(word: str, description: KernelDescription, runs: bool) -> tuple[Unlaunched, ...]:
    """Return the file, or the built ones in a folder, if no launch is described; a run's folder counts with `runs`."""
    path = Path(word)
    if is_folder(path):
        if _shipped_in(path) or (exists(path / RUN_MANIFEST) and not runs):
            return ()
        from ncu_swizzle.cubin import elf  # most words are kernels and sources

        return tuple(map(Unlaunched, elf.built_files_in(path)))
    if is_kernel_file(word):
        spec = spec_without_launch(path, description)
        return (Unlaunched(path, spec if path.suffix == SOURCE else None),) if spec else ()
    return (Unlaunched(path),) if (runs or path.suffix not in SAVED) and _is_built(path) else ()


def _is_built(path: Path) -> bool:
    """Return whether a path is a file that may hold compiled kernels."""
    from ncu_swizzle.cubin import elf

    return is_file(path) and elf.is_built(path)


def _every_kernel(word: str, description: KernelDescription, alone: bool) -> Named:
    """Return all kernels of a source, a folder of ours or a project's file; what is not described is skipped.

    If it is the only word (`alone`), the reason is raised.
    """
    path, sources = Path(word), description.sources
    skipped: tuple[Skipped, ...] = ()
    if is_kernel_file(word) or path.suffix == PYTHON:
        named = _in_source(word, description, alone)
        targets, skipped = named.targets, named.skipped
    elif is_folder(path):
        families = _shipped_in(path)
        if not families:
            raise BadFile(f"{word} is a folder", "name its .cu files, or its ncu-swizzle.toml")
        targets = tuple(Catalog(families).targets())
    elif path.suffix == ".toml" and is_file(path):
        project = project_in(path, sources.trust)
        targets = tuple(target for target in with_project(project).targets() if not target.family.shipped)
        unfinished = [spec for spec in specs(project) if spec.to_do]
        if unfinished and not targets:
            refuse_to_do(unfinished[0])
        skipped = tuple(Skipped(spec.name, f"TODO in {', '.join(spec.to_do)}") for spec in unfinished)
    else:
        nearest = project_file(sources.config, Path.cwd(), sources.trust)
        refuse_unfinished([word], nearest)
        targets = (with_project(nearest).target(word),)
    typed = description.launch
    targets = tuple(replace(target, family=for_compiler(target.family, typed)) for target in targets)
    return Named(targets=targets, skipped=skipped)


def _in_source(word: str, description: KernelDescription, alone: bool) -> Named:
    """Return the kernels of a source that itself, the catalogue or the project describes, else the typed one."""
    file, entry = split_name(word)
    if not is_file(file):
        raise BadFile(f"{file} does not exist", "name a .cu, cubin or PTX file")
    # After a Python file, a function, or an entry of the project, can be named.
    described = tuple(
        target
        for target in targets_in(file, description.sources)
        if not entry or target.is_called(entry) or target.family.name == entry
    )
    if described and not description.typed:
        return Named(targets=described)
    try:
        if file.suffix == PYTHON and not entry:
            raise UsageError(f"{file.name}: no launch of its functions is described", describing(file))
        return resolve([word], description)[0]
    except (UnknownKernel, BadFile, Untrusted):
        raise
    except NcuSwizzleError as error:
        if description.typed or alone:
            raise
        how = "" if file.suffix == PYTHON else f"; {describing(file)} describes it"
        return Named(skipped=(Skipped(str(file), f"{error}{how}"),))


def _shipped_in(path: Path) -> tuple[Family, ...]:
    """Return the shipped families in a folder."""
    folder = path.resolve()
    return tuple(family for family in shipped().families if folder in (family.folder, family.folder.parent))
