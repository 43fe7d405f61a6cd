"""What ``ncu-swizzle lint`` does: emulate each kernel and judge each line that accesses shared memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ncu_swizzle.base.errors import EnvironmentLacking, LaunchLacking, NcuSwizzleError, NotComparable, UsageError
from ncu_swizzle.capture.launches import CapturedLaunch
from ncu_swizzle.cubin import demangled
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.emulate.counts import ALLOCATED
from ncu_swizzle.engines import emulation, replay
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.engines.replay import ReplaySettings
from ncu_swizzle.engines.settings import Progress, silent
from ncu_swizzle.gate import baseline, lint_inputs, verdict
from ncu_swizzle.gate.baseline import EACH, Policy, Rule
from ncu_swizzle.gate.lint_inputs import LintOptions, Skipped, Variant
from ncu_swizzle.gate.verdict import BUILT, MAX_DEGREE, Check, Outcome, Place, Verdict, marked
from ncu_swizzle.kernels import fills, user
from ncu_swizzle.kernels.family import Family, Target
from ncu_swizzle.kernels.toolchain import INSTALL, NVDISASM
from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.sweep import worker
from ncu_swizzle.sweep.crew import mapped
from ncu_swizzle.sweep.options import ALONE, GPUS, FleetOptions
from ncu_swizzle.sweep.worker import FleetJob, FleetTask

# What is linted of one kernel: its accesses to shared memory line by line, and the checks made of them.


@dataclass(frozen=True)
class LineAccesses:
    """All accesses of one kind on one line."""

    access: str
    place: Place | None
    instructions: tuple[Instruction, ...]

    @property
    def unknown(self) -> bool:
        return any(access.wavefronts is None or access.ideal is None for access in self.instructions)

    @property
    def wavefronts(self) -> int:
        return sum(access.wavefronts or 0 for access in self.instructions)

    @property
    def ideal(self) -> int:
        return sum(access.ideal or 0 for access in self.instructions)

    @property
    def degree(self) -> float:
        if not self.ideal:
            return 1.0 if not self.wavefronts else float("inf")
        return self.wavefronts / self.ideal


def line_accesses(profile: Profile) -> list[LineAccesses]:
    """Return the shared-memory accesses by kind and by the line that they are attributed to."""
    groups: dict[tuple[str, Location | None], list[Instruction]] = {}
    sites = {id(site.access): site for site in attribution.sites(profile, verdict.files_in(Path.cwd()))}
    for instruction in profile.shared():
        site = sites.get(id(instruction))
        groups.setdefault((instruction.access, site.line if site else None), []).append(instruction)
    return [
        LineAccesses(access, verdict.of_sites(line, [sites[id(i)] for i in made]) if line else None, tuple(made))
        for (access, line), made in groups.items()
    ]


@dataclass(frozen=True, kw_only=True)
class KernelLint:
    """The checks of one kernel or captured launch, and notes on it.

    `lines` are what was counted, with places in the current folder; empty if it was not run. `launch` says how it was
    launched: counts of different launches cannot be compared.
    """

    name: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    lines: tuple[LineAccesses, ...] = ()
    launch: str = ""
    function: str = ""
    profile: Profile | None = None
    sampling: bool = False  # random data would decide what is unknown
    lacking: tuple[str, str] | None = None  # what this machine lacks to run it, and what to type for that

    @classmethod
    def of(cls, emulated: Emulated, checks: tuple[Check, ...], sampling: bool = False) -> KernelLint:
        """Return the lint of a launch that was emulated."""
        profile = emulated.profile
        lines = tuple(
            replace(line, place=line.place and in_checkout(line.place, emulated)) for line in line_accesses(profile)
        )
        launch = f"{dict(profile.problem)} {profile.grid} {profile.block}"
        return cls(
            name=profile.kernel.name,
            checks=checks,
            notes=emulated.other_notes,
            lines=lines,
            launch=launch,
            function=profile.kernel.function,
            profile=profile,
            sampling=sampling,
        )


def in_checkout(place: Place, emulated: Emulated) -> Place:
    """Return a place of an emulated kernel with its path in the current folder."""
    return verdict.moved(place, Path.cwd(), emulated.binary.roots)


# Lint what a program launched: each launch of a launches file, emulated and judged line by line.


MEMORY = "ncu-swizzle capture --memory also keeps what memory holds"


def lint_launches(
    file: str,
    options: LintOptions,
    settings: EmulationSettings,
    judge: Callable[[Emulated], Iterable[Check]],
    on_progress: Progress,
) -> Iterator[KernelLint]:
    """Yield the lint of each of a file's launches; one that cannot be emulated is inconclusive.

    Raises BadFile or DamagedFile, and UsageError if a new build does not fit.
    """
    user.refuse_description(options.description, file)
    with replay.opened(Path(file), ReplaySettings(settings, build=options.build), on_progress) as launches:
        yield KernelLint(name=file, checks=(), notes=tuple(launches.manifest.notes))
        for launch in launches.chosen:
            try:
                emulated = launches.emulate(launch)
            except UsageError:
                raise
            except NcuSwizzleError as error:
                check = _unjudged_launch(file, launch, error)
                yield KernelLint(name=check.kernel, checks=(check,))
                continue
            checks = tuple(
                replace(check, hint=check.hint or MEMORY) if check.outcome is Outcome.inconclusive else check
                for check in marked(judge(emulated), [emulated.profile])
            )
            yield KernelLint.of(emulated, checks)


def _unjudged_launch(file: str, launch: CapturedLaunch, error: NcuSwizzleError) -> Check:
    name = demangled.function(demangled.demangle(launch.kernel))
    return Check(
        outcome=Outcome.inconclusive,
        kernel=name,
        criterion=MAX_DEGREE,
        message=str(error),
        place=Place(file),
        hint=error.hint,
    )


SUGGEST = "ncu-swizzle suggest KERNEL prints code for its tiles; it takes the same options"
RECOMPILE = "ncu-swizzle profile KERNEL --before num_warps=4 --after num_warps=8 compares two ways to compile it"
PAD = "declare the tile with longer rows, and pass their length to load_matrix_sync and store_matrix_sync"


def verdict_of(kernels: Sequence[KernelLint]) -> Verdict:
    """Return the checks and notes of kernels, each once."""
    checks = [check for kernel in kernels for check in kernel.checks]
    notes = [note for kernel in kernels for note in kernel.notes]
    return Verdict(checks=tuple(dict.fromkeys(checks)), notes=tuple(dict.fromkeys(notes)))


def refuse_nothing(kernels: Sequence[KernelLint], files: Sequence[str]) -> None:
    """Raise NotComparable if nothing was judged, with the reason that can be removed first."""
    if any(kernel.checks for kernel in kernels):
        return
    for kernel in kernels:
        if kernel.lacking:
            why, hint = kernel.lacking
            raise NotComparable(f"nothing was linted: {why}", hint)
    raise NotComparable("nothing was linted: no launch is described", lint_inputs.describing(*files))


def lint_kernels(
    options: LintOptions,
    settings: EmulationSettings,
    on_progress: Progress = silent,
    fleet: FleetOptions = ALONE,
) -> Iterator[KernelLint]:
    """Yield the lint of each kernel and of each captured launch, in order.

    It has a failed or inconclusive check per offending line, one that passed if there is none, and an error if a kernel
    does not compile or its launch does not fit. Raises EnvironmentLacking without a compiler, BadFile and UsageError
    for what cannot be linted at all.
    """
    fleet.refuse_nonsense()
    if fleet.workers == GPUS or fleet.gpu:
        raise UsageError("lint needs no GPU: its workers are processes", "--workers 2")
    if missing := settings.toolchain.lacking(*([NVDISASM] if lint_inputs.only_python(options) else [])):
        raise EnvironmentLacking(f"nothing can be compiled here: {missing}", INSTALL)
    _policy(options.max_degree)  # nonsense is said before anything runs
    work = LintWork(
        options=options,
        settings=settings,
        folder=Path.cwd(),
        disassembler=settings.toolchain.version(NVDISASM) if fleet.given else "",
    )
    given: list[Variant | Skipped | str] = [*lint_inputs.variants(options), *options.launches]
    if not fleet.given or len(given) < 2:
        for each in given:
            yield from linted(work, each, on_progress)
        return
    job = FleetJob(work=_linted, common=work, examine=_same_tools, files=_files(given))
    for found in mapped(job, [FleetTask(_name(each), each) for each in given], fleet, on_progress):
        yield from found


@dataclass(frozen=True, kw_only=True)
class LintWork:
    """What the lint of all kernels shares: where paths are relative to, and for workers the disassembler's version."""

    options: LintOptions
    settings: EmulationSettings
    folder: Path
    disassembler: str


def linted(work: LintWork, given: Variant | Skipped | str, on_progress: Progress) -> Iterator[KernelLint]:
    """Yield the lint of one kernel, or of each launch of a launches file."""
    rules = _policy(work.options.max_degree)
    if isinstance(given, Skipped):
        yield KernelLint(name=given.name, checks=(), notes=(f"{given.name} was not run: {given.reason}.",))
    elif isinstance(given, str):
        yield from lint_launches(given, work.options, work.settings, partial(judge, rules=rules), on_progress)
    else:
        yield _lint_kernel(given, work.options, work.settings, rules, on_progress)


def _linted(work: LintWork, given: Variant | Skipped | str, _folder: Path, on_progress: Progress) -> list[KernelLint]:
    """Lint in a worker, which may have been started elsewhere."""
    with contextlib.chdir(work.folder):
        return list(linted(work, given, on_progress))


def _same_tools(work: LintWork) -> None:
    """Raise EnvironmentLacking in a worker whose tools would give other counts."""
    here = work.settings.toolchain.version(NVDISASM)
    if here != work.disassembler:
        raise EnvironmentLacking(f"its nvdisasm is {here}, not {work.disassembler}", INSTALL)


def _name(given: Variant | Skipped | str) -> str:
    if isinstance(given, str):
        return given
    return given.name if isinstance(given, Skipped) else given[1].name


def _files(given: Sequence[Variant | Skipped | str]) -> tuple[Path, ...]:
    """Return the files that a worker needs where they are here: lines are named by them."""
    families = [each[0] for each in given if isinstance(each, tuple)]
    launches = [Path(each).absolute() for each in given if isinstance(each, str)]
    return tuple(dict.fromkeys((*(file for family in families for file in worker.files_of(family)), *launches)))


def _policy(typed: Sequence[str]) -> Policy:
    """Return the limits: degree 1 for every line, overridden by the command line."""
    rules = [baseline.parse_rule(MAX_DEGREE, text) for text in typed]
    baseline.check_accesses(rules, ())
    each = [replace(rule, access=rule.access or EACH) for rule in rules]
    return Policy(rules=(Rule(criterion=MAX_DEGREE, limit=1, access=EACH), *each))


def _lint_kernel(
    variant: Variant, options: LintOptions, settings: EmulationSettings, rules: Policy, on_progress: Progress
) -> KernelLint:
    family, kernel = variant
    names = {parameter.name for parameter in family.parameters}
    problem = {name: size for name, size in options.description.problem.items() if name in names}
    try:
        target = Target(family, kernel, family.problem(problem))
        emulated = emulation.emulate_target(target, settings, lambda percent: on_progress(kernel.name, percent))
    except EnvironmentLacking as error:
        note = f"{kernel.name} was not run: {error} ({error.hint})."
        return KernelLint(name=kernel.name, checks=(), notes=(note,), lacking=(str(error), error.hint))
    except UsageError as error:  # it does not compile, or cannot be launched like this
        if isinstance(error, LaunchLacking) and len(options.files) == 1:
            raise  # the command that was typed can be completed
        return KernelLint(name=kernel.name, checks=(_unjudged(variant, Outcome.error, BUILT, error),))
    except NcuSwizzleError as error:
        return KernelLint(name=kernel.name, checks=(_unjudged(variant, Outcome.inconclusive, MAX_DEGREE, error),))
    hint = _data(family, emulated)
    checks = tuple(
        replace(check, hint=hint) if check.outcome is Outcome.inconclusive and not check.hint else check
        for check in marked(judge(emulated, rules), [emulated.profile])
    )
    sampling = emulated.counts.on_data and fills.drawable(family.arguments, emulated.counts.decisive)
    return KernelLint.of(emulated, checks, sampling)


def _data(family: Family, emulated: Emulated) -> str:
    """Return what gives the data that decides unknown counts; empty if all data is known."""
    decisive = emulated.counts.decisive
    if not emulated.counts.on_data:
        return _rounded(emulated)
    option = fills.options(family.arguments, decisive)
    drawn = fills.or_random(family.arguments, decisive)
    return f"{option}, or a .npy file: give the data that addresses depend on{drawn}" if option else ""


def _rounded(emulated: Emulated) -> str:
    """Return the dynamic shared memory whose size is known to the kernel, if unknown counts depend on that size."""
    given = emulated.profile.metrics["launch__shared_mem_per_block_dynamic"].value
    if not isinstance(given, int) or given % ALLOCATED == 0:
        return ""
    whole = -(-given // ALLOCATED) * ALLOCATED
    return f"--shared {whole}: what a kernel reads as its size is known of multiples of {ALLOCATED}"


def _unjudged(variant: Variant, outcome: Outcome, criterion: str, error: NcuSwizzleError) -> Check:
    family, kernel = variant
    place = verdict.moved(Place(str(family.source(kernel))), Path.cwd())
    return Check(
        outcome=outcome, kernel=kernel.name, criterion=criterion, message=str(error), place=place, hint=error.hint
    )


def judge(emulated: Emulated, rules: Policy) -> Iterator[Check]:
    """Yield a failed check per line over its limit, an inconclusive one per unknown line, else one that passed."""
    profile = emulated.profile
    names = (profile.kernel.name, profile.kernel.function)
    lines = line_accesses(profile)
    limits = rules.limits(names, dict.fromkeys(line.access for line in lines))
    advised = {offset: tip.text for tip in attribution.advice(profile) for offset in tip.offsets}
    for note in profile.layouts:
        advised |= {pc: "; ".join(filter(None, (note.text, advised.get(pc)))) for pc in note.offsets}
    ordered = sorted(lines, key=lambda line: line.ideal - line.wavefronts)
    checks = [_judge_line(emulated, line, limits[MAX_DEGREE, line.access], advised) for line in ordered]
    offending = [
        check for check in (*verdict.of_violations(profile.kernel.name, profile), *checks) if check is not None
    ]
    if offending:
        yield from (replace(check, place=check.place and in_checkout(check.place, emulated)) for check in offending)
        return
    accesses = sum(len(line.instructions) for line in lines)
    message = f"{accesses} accesses to shared memory, none over its limit" if accesses else "no access to shared memory"
    yield Check(
        outcome=Outcome.passed, kernel=profile.kernel.name, criterion=MAX_DEGREE, message=message + profile.of_sample
    )


def _judge_line(emulated: Emulated, line: LineAccesses, rule: Rule, advised: dict[int, str]) -> Check | None:
    """Return the check of one line; None if it is within its limit."""
    profile = emulated.profile
    place = line.place or Place(next(iter(profile.sources), profile.report))
    name = profile.kernel.name
    if line.unknown:
        why = next(iter(emulated.on_unknown), "").rstrip(".")
        message = f"wavefronts of {len(line.instructions)} accesses are unknown{f': {why}' if why else ''}"
        return Check(
            outcome=Outcome.inconclusive,
            kernel=name,
            criterion=MAX_DEGREE,
            message=message,
            access=line.access,
            place=place,
            origin=rule.origin,
            limit=rule.limit,
        )
    if line.degree <= rule.limit:
        return None
    message = (
        f"degree {line.degree:.4g}, at most {rule.limit:.12g} allowed: "
        f"{line.wavefronts - line.ideal:,} excessive wavefronts{profile.of_sample}"
    )
    tip = next((advised[access.pc] for access in line.instructions if access.pc in advised), "")
    return Check(
        outcome=Outcome.failed,
        kernel=name,
        criterion=MAX_DEGREE,
        message=f"{message}; {tip}" if tip else message,
        access=line.access,
        place=place,
        origin=rule.origin,
        hint=_hint(profile, line),
        actual=line.degree,
        limit=rule.limit,
    )


def _hint(profile: Profile, line: LineAccesses) -> str:
    """Return what to type next: for layouts that a compiler chose, another way to compile."""
    pcs = {access.pc for access in line.instructions}
    if any(pcs.intersection(note.offsets) for note in profile.layouts if not note.explicit):
        return RECOMPILE
    return PAD if any(access.by_wmma for access in line.instructions) else SUGGEST
