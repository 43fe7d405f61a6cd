"""What words mean: kernels of the catalogue, files with kernels, saved reports. `resolve` is the one door.

    kernel2                     a kernel by name: shipped, or of a project's ncu-swizzle.toml
    my.cu  my.cubin  my.ptx     a file with a kernel, which options or the project describe
    my.py::name                 a function in a Python file
    build  app  libk.so         what is built, every kernel of which can be judged without a launch
    swizzle-out/kernel2         saved profiles, reports and launches, where those are asked for

A word becomes a `Named` here, once; nothing further down sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ncu_swizzle.base.errors import BadFile, Hint, NcuSwizzleError, Typed, UnknownKernel, Untrusted, UsageError, as_word
from ncu_swizzle.base.files import exists, is_file, is_folder, is_same_file
from ncu_swizzle.kernels import descriptions
from ncu_swizzle.kernels.catalog import Catalog, shipped
from ncu_swizzle.kernels.family import PYTHON, SOURCE, Family, Target, is_kernel_file, split_name
from ncu_swizzle.kernels.options import LAUNCHES, RUN_MANIFEST, KernelDescription
from ncu_swizzle.kernels.project import KernelSpec, Project, declared, project_file, project_in, specs

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
        descriptions.refuse_unfinished([word for word in self.words if word not in self.files], project)
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
            word: descriptions.family_of(path, self.description.of_entry(entry), described)
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
        families = descriptions.with_project(project, [path for path, _ in self.files.values()]).families
        if not self.files and (typed.arch or typed.sample is not None):
            families = tuple(descriptions.for_compiler(family, typed) for family in families)
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
        from ncu_swizzle.cubin import fatbin  # most words are kernels and sources

        return tuple(map(Unlaunched, fatbin.built_files_in(path)))
    if is_kernel_file(word):
        spec = descriptions.spec_without_launch(path, description)
        return (Unlaunched(path, spec if path.suffix == SOURCE else None),) if spec else ()
    return (Unlaunched(path),) if (runs or path.suffix not in SAVED) and _is_built(path) else ()


def _is_built(path: Path) -> bool:
    """Return whether a path is a file that may hold compiled kernels."""
    from ncu_swizzle.cubin import fatbin

    return is_file(path) and fatbin.is_built(path)


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
        targets = tuple(target for target in descriptions.with_project(project).targets() if not target.family.shipped)
        unfinished = [spec for spec in specs(project) if spec.to_do]
        if unfinished and not targets:
            descriptions.refuse_to_do(unfinished[0])
        skipped = tuple(Skipped(spec.name, f"TODO in {', '.join(spec.to_do)}") for spec in unfinished)
    else:
        nearest = project_file(sources.config, Path.cwd(), sources.trust)
        descriptions.refuse_unfinished([word], nearest)
        targets = (descriptions.with_project(nearest).target(word),)
    typed = description.launch
    targets = tuple(replace(target, family=descriptions.for_compiler(target.family, typed)) for target in targets)
    return Named(targets=targets, skipped=skipped)


def _in_source(word: str, description: KernelDescription, alone: bool) -> Named:
    """Return the kernels of a source that itself, the catalogue or the project describes, else the typed one."""
    file, entry = split_name(word)
    if not is_file(file):
        raise BadFile(f"{file} does not exist", "name a .cu, cubin or PTX file")
    # After a Python file, a function, or an entry of the project, can be named.
    described = tuple(
        target
        for target in descriptions.targets_in(file, description.sources)
        if not entry or target.is_called(entry) or target.family.name == entry
    )
    if described and not description.typed:
        return Named(targets=described)
    try:
        if file.suffix == PYTHON and not entry:
            raise UsageError(f"{file.name}: no launch of its functions is described", descriptions.describing(file))
        return resolve([word], description)[0]
    except (UnknownKernel, BadFile, Untrusted):
        raise
    except NcuSwizzleError as error:
        if description.typed or alone:
            raise
        how = "" if file.suffix == PYTHON else f"; {descriptions.describing(file)} describes it"
        return Named(skipped=(Skipped(str(file), f"{error}{how}"),))


def _shipped_in(path: Path) -> tuple[Family, ...]:
    """Return the shipped families in a folder."""
    folder = path.resolve()
    return tuple(family for family in shipped().families if folder in (family.folder, family.folder.parent))
