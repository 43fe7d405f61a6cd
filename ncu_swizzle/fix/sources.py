"""Files of a fix that are written together: all of them, or none."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, NotWritable, UsageError
from ncu_swizzle.base.files import note_finished, read_bytes, replacing
from ncu_swizzle.base.files import replace as replace_files
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.replay import is_launches
from ncu_swizzle.engines.settings import Context, Progress, Request, silent
from ncu_swizzle.fix import copies, on_gpu
from ncu_swizzle.fix.applied import neighbour
from ncu_swizzle.fix.claims import About, Claim, ClaimState
from ncu_swizzle.fix.copies import rebuilt
from ncu_swizzle.fix.fixing import FixOptions, fix
from ncu_swizzle.fix.includers import OtherSources
from ncu_swizzle.fix.result import KernelFix
from ncu_swizzle.fix.spliced import parted
from ncu_swizzle.gate import lint_inputs
from ncu_swizzle.gate.lint_inputs import LintOptions, Skipped
from ncu_swizzle.kernels import gpu, limits
from ncu_swizzle.kernels.family import BINARIES, PYTHON, Target
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription
from ncu_swizzle.kernels.toolchain import INSTALL, Toolchain
from ncu_swizzle.reports import pack, reader
from ncu_swizzle.reports.options import EMULATED, Engine

# What the excess of a kernel costs, as the rule ConflictCost estimates it from a measured report.


RULE = "ConflictCost"


def with_costs(kernels: Sequence[KernelFix], targets: Sequence[Target], report: Path) -> tuple[KernelFix, ...]:
    """Return the fixes with what a report says of their kernels, of the launch that loses most.

    Raises UsageError if it has none of them, and whatever reading it raises.
    """
    profiles = reader.read(report)
    said: list[str] = []
    for target in targets:
        function = target.kernel.entry.partition("<")[0].rpartition("::")[2]
        found = [
            finding
            for profile in profiles
            if function in (profile.kernel.function, profile.kernel.function.partition("<")[0].rpartition("::")[2])
            for finding in pack.findings(profile)
            if finding.rule == RULE
        ]
        said.append(max(found, key=lambda each: each.saving or 0.0).message if found else "")
    if not any(said):
        names = ", ".join(dict.fromkeys(profile.kernel.function for profile in profiles))
        wanted = ", ".join(target.kernel.entry for target in targets)
        raise UsageError(f"{report} says nothing of what conflicts cost {wanted}", f"it has launches of {names}")
    return tuple(replace(kernel, cost=cost) for kernel, cost in zip(kernels, said, strict=True))


# Fixes measured on the GPU that is here; one that the GPU refutes is not offered.


NO_GPU = "no GPU"
NOT_ASKED = "--no-gpu"


def measured(
    kernels: Sequence[KernelFix], targets: Sequence[Target], text: bytes, toolchain: Toolchain
) -> tuple[KernelFix, ...]:
    """Return the fixes with what launching their kernels says of `text`, the source with all of them.

    If it refutes one, none is offered: they share a patch.
    """
    if gpu.absent():
        return unmeasured(kernels, NO_GPU)
    chosen = [number for number, kernel in enumerate(kernels) if kernel.proved or kernel.along]
    try:
        claims = dict(zip(chosen, _launched([targets[number] for number in chosen], text, toolchain), strict=True))
    except NcuSwizzleError as error:
        return unmeasured(kernels, str(error))
    made = tuple(replace(kernel, measured=claims.get(number, ())) for number, kernel in enumerate(kernels))
    refuted = next(_refuted(made), None)
    return made if refuted is None else tuple(_withdrawn(kernel, *refuted) for kernel in made)


def unmeasured(kernels: Sequence[KernelFix], reason: str) -> tuple[KernelFix, ...]:
    """Return the fixes with the reason why they were not measured."""
    return tuple(
        replace(kernel, not_measured=reason) if kernel.proved or kernel.along else kernel for kernel in kernels
    )


def _launched(targets: Sequence[Target], text: bytes, toolchain: Toolchain) -> list[tuple[Claim, ...]]:
    with scratch() as folder:
        pairs = []
        for number, target in enumerate(targets):
            with rebuilt(target, text) as after:
                pairs.append(on_gpu.compiled_pair(target, after, folder / str(number), toolchain))
        return on_gpu.measure(pairs, folder, toolchain)


def _refuted(kernels: Sequence[KernelFix]) -> Iterator[tuple[str, Claim]]:
    for kernel in kernels:
        yield from ((kernel.kernel, claim) for claim in kernel.measured if claim.state is ClaimState.FAILED)


def _withdrawn(kernel: KernelFix, launched: str, claim: Claim) -> KernelFix:
    """Return a fix whose patch is not offered, because launching one of the kernels refutes it."""
    where = "on the GPU" if launched == kernel.kernel else f"for {launched}, on the GPU"
    otherwise = "; --no-gpu offers it without timing it" if claim.about is About.TIME else ""
    reason = f"it is proved, but {where}: {claim.reason}{otherwise}"
    tiles = tuple(
        replace(tile, proved=False, reason=reason, reason_line=tile.line, reason_file=tile.file)
        if tile.proved
        else tile
        for tile in kernel.tiles
    )
    return replace(kernel, after=kernel.before, tiles=tiles)


# Fix the kernels of a source, one after the other: one patch for all of them.


@dataclass(frozen=True, kw_only=True)
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


@dataclass(frozen=True, kw_only=True)
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
        source = limits.plain(self.source)
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
    context = Context(request=query.request, engine=Engine(EMULATED), folder=Path.cwd(), progress=query.progress)
    settings = EmulationSettings.of(query.request)
    project = copies.project_of(targets[0].source, query.sources.config, query.sources.trust, query.within)
    targets = [copies.with_headers(target, project) for target in targets]
    before = text = copies.source_of(targets[0])
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
            made = KernelFix(
                kernel=target.name, source=target.source, before=text, after=text, notes=(str(error),), applied=applied
            )
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
    return SourceFix(
        source=targets[0].source, before=before, after=text if kept else before, kernels=finished, read=read
    )


def _not_looked_at(target: Target, after: bytes, project: Path) -> str:
    """Return the sentence about those who may rely on a header that changes, and are not known; empty without one."""
    before, source = copies.source_of(target), limits.plain(target.source)
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
    options = LintOptions(files=(), catalogs=sources.catalog, config=sources.config, trust=sources.trust)
    return OtherSources(source=limits.plain(target.source), project=project, options=options, settings=settings)


def _measured(
    kernels: Sequence[KernelFix], targets: Sequence[Target], text: bytes, query: FixQuery, settings: EmulationSettings
) -> tuple[KernelFix, ...]:
    if query.on_gpu is None or not any(kernel.proved for kernel in kernels):
        return tuple(kernels)
    if not query.on_gpu:
        return unmeasured(kernels, NOT_ASKED)
    return measured(kernels, targets, text, settings.toolchain)


def _targets(query: FixQuery) -> list[Target]:
    """Return the kernels; raise UsageError if they are not of one CUDA C++ source."""
    if is_launches(query.what):
        raise UsageError(
            f"{query.what}: captured launches keep no source that could be patched",
            "describe the kernel's launch and name its .cu file: ncu-swizzle init my.cu",
        )
    sources = query.sources
    options = LintOptions(
        files=(query.what,),
        max_degree=(),
        description=query.description,
        catalogs=sources.catalog,
        config=sources.config,
        trust=sources.trust,
        build=query.request.build,
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


def written_together(files: Sequence[ChangedFile], hint: str) -> None:
    """Write files under temporary names, then rename them; what was renamed before one fails is put back.

    Raises UsageError with the hint if one is no longer what was read, NotWritable if one cannot be written.
    """
    for file in files:
        if read_bytes(file.path) != file.before:
            raise UsageError(f"{file.path} has changed since it was read", hint)
    try:
        with contextlib.ExitStack() as renamed:
            for file in files:
                renamed.enter_context(replacing(file.path)).write(file.after)
    except NotWritable:
        for file in files:
            with contextlib.suppress(NotWritable):
                if read_bytes(file.path) == file.after:
                    replace_files(file.path, file.before)
        raise
    for file in files:
        note_finished(file.path)
