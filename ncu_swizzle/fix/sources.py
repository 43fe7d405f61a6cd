"""Fix the kernels of a source, one after the other: one patch for all of them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.build.toolchain import INSTALL
from ncu_swizzle.catalog import includes
from ncu_swizzle.catalog.family import BINARIES, PYTHON
from ncu_swizzle.catalog.kernel_options import CatalogOptions, KernelDescription
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.context import Context, Progress, Request, silent
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError, UsageError
from ncu_swizzle.fix import measuring
from ncu_swizzle.fix.cost import with_costs
from ncu_swizzle.fix.fixing import FixOptions, fix
from ncu_swizzle.fix.neighbours import neighbour
from ncu_swizzle.fix.other_sources import OtherSources
from ncu_swizzle.fix.result import KernelFix
from ncu_swizzle.gate import lint_inputs
from ncu_swizzle.gate.lint_inputs import LintOptions, Skipped
from ncu_swizzle.jobs.replays import is_launches
from ncu_swizzle.patch import headers
from ncu_swizzle.profiles.engine import EMULATED, Engine
from ncu_swizzle.source.spliced import parted


@dataclass(frozen=True)
class FixQuery:
    """The command line of ``ncu-swizzle fix``."""

    what: str
    request: Request = Request()
    description: KernelDescription = KernelDescription()
    sources: CatalogOptions = CatalogOptions()
    options: FixOptions = FixOptions()
    progress: Progress = silent
    on_gpu: bool | None = None  # measure what is proved, if there is a GPU; None: not even say that it was not
    report: Path | None = None  # measured, which says what the conflicts cost
    within: Callable[[Path], bool] = lambda folder: True  # whether headers of a folder may be read


@dataclass(frozen=True)
class ChangedFile:
    """A file of a fix, before and after."""

    path: Path
    before: bytes
    after: bytes


@dataclass(frozen=True)
class SourceFix:
    """A source with the fixes of its kernels; the text before and after all of them, with its headers spliced in."""

    source: Path
    before: bytes
    after: bytes
    kernels: tuple[KernelFix, ...]
    read: frozenset[Path] = frozenset()  # what the kernels are compiled from

    @property
    def changed(self) -> bool:
        return self.before != self.after

    @property
    def files(self) -> tuple[ChangedFile, ...]:
        """The files that change."""
        source = includes.plain(self.source)
        old, new = (parted(source, text) for text in (self.before, self.after))
        own = {source: self.source}  # as it was named
        return tuple(
            ChangedFile(own.get(file, file), old[file], text) for file, text in new.items() if old[file] != text
        )


def fix_all(query: FixQuery) -> SourceFix:
    """Return the fix of the kernels that a query names.

    Raises UsageError for what has no source to patch, and whatever emulating the kernels raises.
    """
    if missing := EmulationSettings.of(query.request).toolchain.lacking():
        raise EnvironmentLacking(f"nothing can be compiled here: {missing}", INSTALL)
    return fix_targets(_targets(query), query)


def fix_targets(targets: Sequence[Target], query: FixQuery) -> SourceFix:
    """Return the fix of kernels of one source."""
    context = Context(query.request, Engine(EMULATED), Path.cwd(), query.progress)
    settings = EmulationSettings.of(query.request)
    project = headers.project_of(targets[0].source, query.sources.config, query.sources.trust, query.within)
    targets = [headers.with_headers(target, project) for target in targets]
    before = text = headers.source_of(targets[0])
    several = [neighbour(target, settings) for target in targets] if len(targets) > 1 else []
    others = _others(targets[0], query, project, settings)
    kernels: list[KernelFix] = []
    for number, target in enumerate(targets):
        query.progress(target.name, 0)
        beside = [*several[:number], *several[number + 1 :]]
        applied = several[number].applied if several else ()
        try:
            made = fix(target, query.options, context, text, beside, applied, others)
        except NcuSwizzleError as error:
            if not beside:
                raise
            made = KernelFix(target.name, target.source, text, text, notes=(str(error),), applied=applied)
        kernels.append(replace(made, suggest=suggesting(query, target)))
        text = made.after
        if several:  # what the patches of later kernels must keep of this one
            several[number].applied = made.applied
        query.progress(target.name, 100)
    finished = _measured(kernels, targets, text, query, settings)
    if query.report is not None:
        finished = with_costs(finished, targets, query.report)
    kept = any(kernel.before != kernel.after for kernel in finished)
    if note := _not_looked_at(targets[0], text if kept else before, project):
        finished = tuple(
            replace(kernel, notes=(*kernel.notes, note)) if kernel.proved else kernel for kernel in finished
        )
    read = frozenset(Path(file) for target in targets for file in target.family.included())
    return SourceFix(targets[0].source, before, text if kept else before, finished, read)


def _not_looked_at(target: Target, after: bytes, project: Path) -> str:
    """Return the sentence about those who may rely on a header that changes, and are not known; empty without one."""
    before, source = headers.source_of(target), includes.plain(target.source)
    old, new = (parted(source, text) for text in (before, after))
    changed = sorted(file.name for file in new if file != source and new[file] != old.get(file))
    if not changed:
        return ""
    return (
        f"Not looked at: what includes {', '.join(changed)} from outside of {project}, and what reads it as text or "
        "forces its inclusion, such as NVRTC or a build file."
    )


def _others(target: Target, query: FixQuery, project: Path, settings: EmulationSettings) -> OtherSources:
    sources = query.sources
    options = LintOptions((), catalogs=sources.catalog, config=sources.config, trust=sources.trust)
    return OtherSources(includes.plain(target.source), project, options, settings)


def _measured(
    kernels: Sequence[KernelFix], targets: Sequence[Target], text: bytes, query: FixQuery, settings: EmulationSettings
) -> tuple[KernelFix, ...]:
    if query.on_gpu is None or not any(kernel.proved for kernel in kernels):
        return tuple(kernels)
    if not query.on_gpu:
        return measuring.unmeasured(kernels, measuring.NOT_ASKED)
    return measuring.measured(kernels, targets, text, settings.toolchain)


def _targets(query: FixQuery) -> list[Target]:
    """Return the kernels; raise UsageError if they are not of one CUDA C++ source."""
    if is_launches(query.what):
        raise UsageError(
            f"{query.what}: captured launches keep no source that could be patched",
            "describe the kernel's launch and name its .cu file: ncu-swizzle init my.cu",
        )
    sources = query.sources
    options = LintOptions(
        (query.what,), (), query.description, sources.catalog, sources.config, sources.trust, query.request.build
    )
    targets: list[Target] = []
    for variant in lint_inputs.variants(options):
        if isinstance(variant, Skipped):
            raise UsageError(f"{variant.name}: {variant.reason}", lint_inputs.describing(query.what))
        family, kernel = variant
        names = {parameter.name for parameter in family.parameters}
        problem = {name: size for name, size in query.request.problem.items() if name in names}
        targets.append(Target(family, kernel, family.problem(problem)))
    _refuse_others(query.what, targets)
    return targets


def _refuse_others(what: str, targets: Sequence[Target]) -> None:
    if not targets:
        raise UsageError(f"{what} has no kernel whose launch is described", lint_inputs.describing(what))
    for target in targets:
        if target.kernel.library or target.source.suffix in (*BINARIES, PYTHON):
            raise UsageError(
                f"{target.name} has no CUDA C++ source to patch", "ncu-swizzle suggest shows a mapping for it"
            )
    if len({target.source.resolve() for target in targets}) > 1:
        first, second = targets[0], next(t for t in targets if t.source.resolve() != targets[0].source.resolve())
        raise UsageError(
            f"{what} stands for several sources, such as {first.source.name} and {second.source.name}",
            f"name one kernel: ncu-swizzle fix {first.name}",
        )


def suggesting(query: FixQuery, target: Target) -> str:
    """Return the command that shows the mapping for a kernel: the same words, for ``suggest``."""
    described, words = query.description, ["ncu-swizzle", "suggest"]
    if not described.typed:
        words.append(target.name if target.family.origin or target.family.shipped else query.what)
    else:
        words += [query.what, *_flags(described)]
    problem = ",".join(f"{name}={size}" for name, size in query.request.problem.items())
    config = query.sources.config
    return shlex.join([*words, *(["--problem", problem] if problem else []), *(["--config", config] if config else [])])


def _flags(described: KernelDescription) -> list[str]:
    single = {
        "--kernel": described.entry, "--grid": described.grid, "--block": described.block, "--shared": described.shared,
        "--arch": described.arch, "--sample": "" if described.sample is None else str(described.sample),
    }  # fmt: skip
    words = [word for flag, value in single.items() if value for word in (flag, value)]
    words += [word for argument in described.args for word in ("--arg", argument)]
    return [*words, *(word for option in described.options for word in ("--nvcc-option", option))]
