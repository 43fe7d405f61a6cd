"""What ``ncu-swizzle lint`` does: emulate each kernel and judge each line that accesses shared memory."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ncu_swizzle.base import bounds, codes, paths, pool
from ncu_swizzle.base.errors import (
    EnvironmentLacking,
    Hint,
    LaunchLacking,
    NcuSwizzleError,
    NotComparable,
    Typed,
    UsageError,
    as_word,
)
from ncu_swizzle.base.files import read_source
from ncu_swizzle.base.texts import in_crosses, without_last_ones
from ncu_swizzle.cubin import names
from ncu_swizzle.engines import emulation, launchless, replay
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.engines.launchless import CompiledFile, CompiledKernel, JudgedKernel
from ncu_swizzle.engines.replay import ChosenLaunches, ReplaySettings
from ncu_swizzle.engines.settings import ALONE, EMULATOR, Done, FleetOptions, Progress, Request, silent
from ncu_swizzle.gate import baseline, memory
from ncu_swizzle.gate.baseline import EACH, Policy, Rule
from ncu_swizzle.gate.judge import LineAccesses, judge_lines, line_accesses
from ncu_swizzle.gate.memory import judge_degrees
from ncu_swizzle.gate.suppressions import Coverage, Suppressions, in_settings
from ncu_swizzle.gate.verdict import (
    BUILT,
    MAX_DEGREE,
    MAX_SECTORS,
    SUPPRESSIONS,
    WORST_FIRST,
    Check,
    Outcome,
    Place,
    UnknownNote,
    Verdict,
    files_in,
    moved,
    with_rule_origin,
)
from ncu_swizzle.kernels import fills, limits, naming
from ncu_swizzle.kernels.family import BINARIES, PYTHON, SOURCE, Family, Target, split_name
from ncu_swizzle.kernels.launch_sites import Sizes
from ncu_swizzle.kernels.naming import Skipped, Unlaunched
from ncu_swizzle.kernels.nvcc_options import readable
from ncu_swizzle.kernels.options import KernelDescription, is_launches
from ncu_swizzle.kernels.project import NONE, project_file
from ncu_swizzle.kernels.toolchain import INSTALL, NVDISASM
from ncu_swizzle.reports import remarks
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import LintOptions
from ncu_swizzle.smem.access import ALLOCATED

PAD = "declare the tile with longer rows, and pass their length to load_matrix_sync and store_matrix_sync"
MEMORY = "ncu-swizzle capture --memory also keeps the contents of memory"
FEW = 4  # kernels that a note names
MOST_INSTANCES = 8  # of a template that are judged
MOST_JUDGED_S = 40.0  # of CPU time for a file without a launch, compilers included: then one instance of each is enough


@dataclass(frozen=True)
class LintedLaunch:
    """A captured launch, by its file and its number of those that are chosen."""

    file: str
    number: int


Kernel = Target | Skipped | Unlaunched  # one kernel, or those of a file without a launch
Linted = Kernel | LintedLaunch
CONFLICT_FREE = Rule(criterion=MAX_DEGREE, limit=1, access=EACH)


@dataclass(frozen=True, kw_only=True)
class KernelLint:
    """The checks of one kernel or captured launch, and notes on it.

    `lines` are the counts, with places in the current folder. They are empty if it was not run, as are `launch`,
    which identifies the launch, since counts of different launches cannot be compared, and `function`.
    """

    name: str
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    lines: tuple[LineAccesses, ...] = ()
    profile: Profile | None = None
    sampling: bool = False  # whether random data would decide the unknown counts
    lacking: tuple[str, str] | None = None  # what this machine lacks to run it, and what to type for that
    skipped: bool = False  # no launch of it is described
    instructed: frozenset[tuple[str, int]] = frozenset()  # files, as places have them, and lines with instructions
    compiler: str = ""  # with its version; empty for what was compiled already

    @property
    def launch(self) -> str:
        profile = self.profile
        return f"{dict(profile.problem)} {profile.grid} {profile.block}" if profile else ""

    @property
    def function(self) -> str:
        return self.profile.kernel.function if self.profile else ""


def verdict_of(kernels: Sequence[KernelLint]) -> Verdict:
    """Return the checks and notes of kernels, each once."""
    checks = [check for kernel in kernels for check in kernel.checks]
    notes = [note for kernel in kernels for note in kernel.notes]
    notes += [f"Compiled by {kernel.compiler}." for kernel in kernels if kernel.compiler]
    unknowns = [unknown for kernel in kernels for unknown in unknown_notes(kernel)]
    return Verdict(
        checks=tuple(dict.fromkeys(checks)), notes=tuple(dict.fromkeys(notes)), unknowns=tuple(dict.fromkeys(unknowns))
    )


def unknown_notes(kernel: KernelLint) -> Iterator[UnknownNote]:
    """Yield what remained unknown besides the checks: a kernel was not run, or not fully checked."""
    if kernel.skipped or kernel.lacking:
        remedy = kernel.lacking[1] if kernel.lacking else codes.CATALOGUE[codes.NOT_LAUNCHED].remedy
        yield UnknownNote(kernel=kernel.name, code=codes.NOT_LAUNCHED, reason=kernel.notes[0], remedy=remedy)
    for why in kernel.profile.unknowns if kernel.profile else ():
        if not why.offsets:
            yield UnknownNote(kernel=kernel.name, code=why.code, reason=why.reason, remedy=why.remedy)


def refuse_nothing(kernels: Sequence[KernelLint], files: Sequence[str]) -> None:
    """Raise NotComparable if nothing was judged, with the reason that can be removed first."""
    if any(kernel.checks for kernel in kernels):
        return
    for kernel in kernels:
        if kernel.lacking:
            why, hint = kernel.lacking
            raise NotComparable(f"nothing was linted: {why}", hint)
    raise NotComparable("nothing was linted: no launch is described", naming.describing(*files))


def kernels_in(files: Sequence[str], description: KernelDescription) -> list[Kernel]:
    """Return the kernels of all files except launches files, each once; files without a launch are the last."""
    words = [file for file in files if not is_launches(file)]
    kernels: dict[tuple[Path | None, str], Kernel] = {}
    unlaunched: dict[str, Kernel] = {}
    for named in naming.resolve(words, description, every=True, unlaunched=True):
        kernels |= {(None, skipped.name): skipped for skipped in named.skipped}
        kernels |= {(target.family.folder, target.name): target for target in named.targets}
        unlaunched |= {file.name: file for file in named.unlaunched}
    return [*kernels.values(), *unlaunched.values()]


def policy(options: LintOptions) -> Policy:
    """Return the limits of each line: degree 1, overridden by what was typed. Raises UsageError."""
    rules = [baseline.parse_rule(MAX_DEGREE, text) for text in options.max_degree]
    rules += [baseline.parse_rule(MAX_SECTORS, text) for text in options.max_sectors]
    baseline.check_accesses(rules, ())
    return _of_lines(rules)


def _of_lines(rules: Sequence[Rule]) -> Policy:
    """Return the policy that judges each line by these rules."""
    return Policy(rules=(CONFLICT_FREE, *(replace(rule, access=rule.access or EACH) for rule in rules)))


def lint_kernels(
    files: Sequence[str],
    description: KernelDescription,
    request: Request,
    options: LintOptions = LintOptions(),
    on_progress: Progress = silent,
    fleet: FleetOptions = ALONE,
) -> Iterator[KernelLint]:
    """Yield the lint of each kernel of the files, and of each captured launch, in order.

    It has a failed or inconclusive check per offending line, one that passed if there is none, and an error if a kernel
    does not compile or its launch does not fit. Raises EnvironmentLacking without a compiler, BadFile and UsageError
    for input that cannot be linted at all.
    """
    request.build.refuse_without_launches(files)
    rules = policy(options)
    fleet.refuse_nonsense()
    # Python compilers bring what they need, except the disassembler.
    only_python = all(split_name(file)[0].suffix == PYTHON for file in files)
    settings = replace(EmulationSettings.of(request, simulating=True), races=not options.no_races)
    if missing := settings.toolchain.lacking(*([NVDISASM] if only_python else [])):
        raise EnvironmentLacking(f"nothing can be compiled here: {missing}", INSTALL)
    disassembler = settings.toolchain.version(NVDISASM) if fleet.given else ""
    work = LintWork(
        files=files, description=description, rules=rules, folder=Path.cwd(), disassembler=disassembler,
        settings=ReplaySettings(settings, build=request.build, jobs=request.jobs),
    )  # fmt: skip
    kernels = kernels_in(files, description)
    sources = description.sources
    project = project_file(sources.config, Path.cwd(), sources.trust)
    named = [split_name(file)[0] for file in files] + ([project.file] if project else [])
    hiding = Suppressions(
        in_settings(project) if project else (),
        readable(named, [paths.data_root(), *limits.folders(description.options)]),
        request.timeout_s,
    )
    run: list[KernelLint] = []
    with contextlib.ExitStack() as opened:
        captured: dict[str, ChosenLaunches] = {}
        for file in filter(is_launches, files):
            description.refuse_beside(file)
            captured[file] = opened.enter_context(replay.opened(Path(file), work.settings))
            _ = captured[file].demangled  # all together
        for lint in _all_linted(replace(work, captured=captured), kernels, on_progress, fleet):
            run.append(replace(lint, checks=tuple(hiding.marked(lint.checks))))
            yield run[-1]
    judged = Coverage(
        lines=frozenset(line for lint in run for line in lint.instructed),
        kernels=frozenset(lint.name for lint in run if lint.profile),
        complete=not any(lint.skipped or lint.lacking or (lint.checks and not lint.profile) for lint in run),
    )
    if leftover := tuple(hiding.leftover("lint", judged)):
        yield KernelLint(name=SUPPRESSIONS, checks=leftover)


def lint_every_launch(
    files: Sequence[Unlaunched], description: KernelDescription, request: Request, rules: Policy, on_progress: Progress
) -> list[KernelLint]:
    """Lint files whose kernels have no described launch, by the allowed degrees."""
    work = LintWork(
        files=[file.name for file in files], description=description, folder=Path.cwd(), disassembler="",
        rules=_of_lines([rule for rule in rules.rules if rule.criterion == MAX_DEGREE]),
        settings=ReplaySettings(EmulationSettings.of(request), build=request.build),
    )  # fmt: skip
    return [lint for file in files for lint in _lint_unlaunched(work, file, on_progress)]


def _all_linted(
    work: LintWork, kernels: Sequence[Kernel], on_progress: Progress, fleet: FleetOptions
) -> Iterator[KernelLint]:
    """Yield the lint of all kernels and launches, on this machine's cores or by a cluster's workers, in order."""
    items: list[Linted] = list(kernels)
    for file, launches in work.captured.items():
        yield KernelLint(name=file, notes=tuple(launches.manifest.notes))
        items += [LintedLaunch(file, number) for number in range(len(launches.chosen))]
    if not fleet.given or len(items) < 2:
        jobs = pool.jobs_for(work.settings.jobs)
        if jobs > 1 and len(items) > 1:  # else one file may use the cores for its kernels
            work = replace(work, settings=replace(work.settings, jobs=1))
        for outcome in pool.in_order(pool.outcomes(_linted, work, items, jobs, on_progress, EMULATOR)):
            yield from outcome.result()
    else:
        yield from _linted_by_fleet(work, items, on_progress, fleet)


def _linted_by_fleet(
    work: LintWork, items: Sequence[Linted], on_progress: Progress, fleet: FleetOptions
) -> Iterator[KernelLint]:
    from ncu_swizzle.sweep import worker  # with what keeps many workers busy
    from ncu_swizzle.sweep.crew import results_of
    from ncu_swizzle.sweep.worker import FleetJob, FleetTask

    files = [Path(file).absolute() for file in work.captured]  # a worker needs those that are here: lines name them
    tasks = []
    for item in items:
        if isinstance(item, LintedLaunch):
            tasks.append(FleetTask(f"{item.file} {item.number}", item))
        elif isinstance(item, Unlaunched):
            tasks.append(FleetTask(str(item.file), item))
            files.append(item.file.absolute())
        else:
            tasks.append(FleetTask(item.name, item))
            files += worker.files_of(item.family) if isinstance(item, Target) else ()
    job = FleetJob(work=_in_worker, common=work, examine=_same_tools, files=tuple(dict.fromkeys(files)))
    for lints in results_of(job, tasks, fleet, on_progress):
        yield from lints


@dataclass(frozen=True, kw_only=True)
class LintWork:
    """What the lint of all kernels shares: the options; for workers, the folder and the version of nvdisasm."""

    files: Sequence[str]
    description: KernelDescription
    rules: Policy
    settings: ReplaySettings
    folder: Path
    disassembler: str
    captured: Mapping[str, ChosenLaunches] = field(default_factory=dict)  # by their file


def _in_worker(work: LintWork, kernel: Linted, _folder: Path, on_progress: Progress) -> list[KernelLint]:
    """Lint in a worker, which may have been started elsewhere."""
    with contextlib.chdir(work.folder):
        return _linted(work, kernel, on_progress)


def _same_tools(work: LintWork) -> None:
    """Raise EnvironmentLacking in a worker whose tools would give other counts."""
    here = work.settings.emulation.toolchain.version(NVDISASM)
    if here != work.disassembler:
        raise EnvironmentLacking(f"its nvdisasm is {here}, not {work.disassembler}", INSTALL)


def _linted(work: LintWork, kernel: Linted, on_progress: Progress) -> list[KernelLint]:
    """Return the lint of one kernel, of a file's kernels, or of a launch."""
    if isinstance(kernel, Skipped):
        return [KernelLint(name=kernel.name, notes=(f"{kernel.name} was not run: {kernel.reason}.",), skipped=True)]
    if isinstance(kernel, Unlaunched):
        return list(_lint_unlaunched(work, kernel, on_progress))
    if isinstance(kernel, LintedLaunch):
        return [_lint_launch(work, kernel, on_progress)]
    return [_lint_kernel(work, kernel, on_progress)]


def _lint_unlaunched(work: LintWork, file: Unlaunched, on_progress: Progress) -> Iterator[KernelLint]:
    """Yield the lint of each kernel of a file, for every launch.

    Raises what prevents compiling the file, if it is the only one.
    """
    started, settings, launch = _cpu_s(), work.settings.emulation, work.description.launch
    place = moved(Place(str(file.file)), Path.cwd())
    try:
        sizes = {parameter.name: parameter.default for parameter in file.spec.problem} if file.spec else {}
        block = limits.block_of(launch.block, sizes) if launch.block else None
        compiled = launchless.of_file(file, settings, launch)
    except UsageError as error:
        if len(work.files) == 1:
            raise
        yield _unjudged(file.file.stem, Outcome.error, place, error)
        return
    shared = compiled.judged
    compiled_s, lints, chosen = _cpu_s(), list[KernelLint](), _some_of_each(shared)
    judged: Counter[str] = Counter()  # instances of each function
    pending, elsewhere_s, late = list(range(len(chosen))), 0.0, False  # seconds of processes that still run
    while pending:
        common = work, tuple(chosen), block, str(file.file)
        found = pool.outcomes(_kernel_judged, common, pending, pool.jobs_for(work.settings.jobs))
        rest: list[int] = []
        for at, outcome in enumerate(pool.in_order(found)):
            lint, taken_s, process = outcome.result()
            kernel, rest = chosen[pending[at]], pending[at + 1 :]
            lints.append(lint)
            judged[kernel.function] += 1
            on_progress(kernel.name, Done(len(lints) / len(chosen)))
            elsewhere_s += 0.0 if process == os.getpid() else taken_s
            spent_s = _cpu_s() + elsewhere_s
            if spent_s - compiled_s > MOST_JUDGED_S or (not late and spent_s - started > MOST_JUDGED_S):
                break
        # From now on, one instance of each function is enough; and after as long again none.
        firsts = {chosen[number].function: number for number in reversed(rest)}
        late, pending = True, sorted(number for function, number in firsts.items() if not judged[function])
        if pending and _cpu_s() + elsewhere_s - compiled_s > MOST_JUDGED_S:
            one = shlex.quote(chosen[pending[0]].spelled)
            left = f"{len(pending)} more kernels were not judged: --kernel {one} is one"
            check = Check(
                outcome=Outcome.inconclusive, kernel=compiled.name, criterion=MAX_DEGREE, message=left, place=place,
                code=codes.NOT_LAUNCHED, hint=work.description.command("lint", str(file.file)),
            )  # fmt: skip
            lints.append(KernelLint(name=compiled.name, checks=(check,)))
            break
    yield from sorted(lints, key=lambda lint: min(WORST_FIRST.index(check.outcome) for check in lint.checks))
    if not shared:
        message = "no access to shared memory"
        passed = (
            Check(outcome=Outcome.passed, kernel=kernel.name, criterion=MAX_DEGREE, message=message, place=place)
            for kernel in compiled.kernels
            if not kernel.is_library
        )
        yield KernelLint(name=compiled.name, checks=tuple(passed))
    compiler = settings.toolchain.compiler if file.file.suffix == SOURCE else ""
    yield KernelLint(name=compiled.name, notes=tuple(_notes(compiled, shared, judged, block)), compiler=compiler)


def _kernel_judged(
    common: tuple[LintWork, Sequence[CompiledKernel], Sizes | None, str],
    number: int,
    hear: Progress,  # noqa: ARG001
) -> tuple[KernelLint, float, int]:
    """Return the lint of one kernel of a file, the CPU time that it took, and the process that took it."""
    work, kernels, block, file = common
    started = time.process_time()
    lint = _in_every_launch(work, kernels[number], block, file)
    return lint, time.process_time() - started, os.getpid()


def _cpu_s() -> float:
    """Return the CPU time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def _in_every_launch(work: LintWork, kernel: CompiledKernel, block: Sizes | None, file: str) -> KernelLint:
    """Return the lint of a kernel in every launch with its blocks."""
    try:
        judged = kernel.judged(block)
        checks = judge_degrees(judged, work.rules, file, _launching(work, kernel, Path(file), judged))
        here = tuple(replace(check, place=check.place and moved(check.place, Path.cwd())) for check in checks)
    except NcuSwizzleError as error:
        return _unjudged(kernel.name, Outcome.inconclusive, moved(Place(file), Path.cwd()), error)
    return KernelLint(name=kernel.name, checks=here)


def _launching(work: LintWork, kernel: CompiledKernel, file: Path, judged: JudgedKernel) -> str:
    """Return the command that gives a kernel a launch (the program's own, or a described one) or its block shape."""
    if file.suffix != SOURCE:
        program = str(file) if not file.suffix and os.access(file, os.X_OK) else "app"
        capture = shlex.join(["ncu-swizzle", "capture", "--dry", "-o", f"{Path(program).name}.launches", "--"])
        typed = shlex.quote(program if "/" in program else f"./{program}")
        return Hint(Typed(f"{capture} {typed}"), " keeps its launches, to lint them")
    if re.search(r"\bmain\s*\(", read_source(file)):
        return Hint(Typed(f"{work.description.command('lint', str(file))} --run"), " judges the program's own launches")
    launch, sources = work.description.launch, work.description.sources
    kept = replace(sources, config="" if sources.config == NONE else sources.config)
    if not judged.stated:
        shape = ",".join(map(str, without_last_ones(judged.shapes[0].block)))
        entry = kernel.spelled if kernel.supposed else launch.entry
        so = replace(work.description, launch=replace(launch, block=shape, entry=entry))
        return Hint(Typed(so.command("lint", str(file))), " judges it so")
    named = replace(work.description, launch=replace(launch, entry=kernel.spelled), sources=kept)
    return Hint(Typed(named.command("init", str(file))), " describes a launch, to judge that")


def _some_of_each(kernels: Sequence[CompiledKernel]) -> list[CompiledKernel]:
    """Return at most MOST_INSTANCES of each template, spread evenly; the first of each come first."""
    by_function: dict[str, list[CompiledKernel]] = {}
    for kernel in kernels:
        by_function.setdefault(kernel.function, []).append(kernel)
    some = [
        [each[number * len(each) // MOST_INSTANCES] for number in range(MOST_INSTANCES)]
        if len(each) > MOST_INSTANCES
        else each
        for each in by_function.values()
    ]
    return [kernel for rank in itertools.zip_longest(*some) for kernel in rank if kernel is not None]


def _notes(
    compiled: CompiledFile, shared: Sequence[CompiledKernel], judged: Mapping[str, int], block: Sizes | None
) -> Iterator[str]:
    """Yield how a file was compiled, the blocks that its verdict is for, and what a launch would add."""
    yield from (f"{note}." for note in compiled.notes)
    for function, number in judged.items():
        instances = [kernel for kernel in shared if kernel.function == function]
        if number < len(instances):
            other = shlex.quote(instances[-1].spelled)
            yield f"{function}: {number} of its {len(instances)} instances were judged; --kernel {other} judges that."
    own_kernels = [kernel for kernel in compiled.kernels if not kernel.is_library]
    if own_kernels and (left := [kernel for kernel in compiled.kernels if kernel.is_library]):
        one = shlex.quote(left[0].spelled)
        yield f"{len(left)} kernels of CUB and Thrust were not judged: --kernel {one} judges one."
    if others := len(own_kernels or compiled.kernels) - len(shared) if shared else 0:
        yield f"{compiled.name}: {others} kernel{'s' if others > 1 else ''} without access to shared memory."
    said: dict[str, list[str]] = {}
    for kernel in shared if block is None else ():
        shapes = kernel.blocks()
        if all(shape.certain for shape in shapes):
            named = "; ".join(f"{in_crosses(shape.sizes)} ({shape.source})" for shape in shapes)
            said.setdefault(f"blocks of {named}.", []).append(kernel.name)
        else:
            tried = ", ".join(in_crosses(shape.sizes) for shape in shapes)
            text = f"blocks of unknown shape; {tried} were looked at, --block gives another."
            said.setdefault(text, []).append(kernel.name)
    yield from (f"{bounds.some(kernels, FEW)}: {text}" for text, kernels in said.items())
    yield f"{compiled.name}: totals, times, races and bounds need a launch, and were not judged."


def _lint_launch(work: LintWork, linted: LintedLaunch, on_progress: Progress) -> KernelLint:
    """Return the lint of a captured launch; one that cannot be emulated is inconclusive.

    Raises DamagedFile, and UsageError if a new build does not fit.
    """
    file, launches = linted.file, work.captured[linted.file]
    try:
        emulated = launches.emulate(linted.number, on_progress)
    except UsageError:
        raise
    except NcuSwizzleError as error:
        name = names.function(names.demangle(launches.chosen[linted.number].kernel))
        return _unjudged(name, Outcome.inconclusive, Place(file), error)
    return _judged(work, emulated, MEMORY, {"": shlex.join(["ncu-swizzle", "explain", as_word(file)])})


def _lint_kernel(work: LintWork, kernel: Target, on_progress: Progress) -> KernelLint:
    source = moved(Place(str(kernel.source)), Path.cwd())
    try:
        target = kernel.sized(work.description.problem)
        settings = work.settings.emulation
        emulated = emulation.emulate_target(target, settings, lambda done: on_progress(kernel.name, done))
    except EnvironmentLacking as error:
        note = f"{kernel.name} was not run: {error} ({error.hint})."
        return KernelLint(name=kernel.name, notes=(note,), lacking=(str(error), error.hint))
    except UsageError as error:  # it does not compile, or cannot be launched like this
        if isinstance(error, LaunchLacking) and len(work.files) == 1:
            raise  # the command that was typed can be completed
        return _unjudged(kernel.name, Outcome.error, source, error)
    except NcuSwizzleError as error:
        return _unjudged(kernel.name, Outcome.inconclusive, source, error)
    sampling = emulated.counts.on_data and fills.drawable(target.family.arguments, emulated.counts.decisive)
    judged = _judged(work, emulated, _data(target.family, emulated), _hints(work, kernel))
    made_by = settings.toolchain.compiler if kernel.source.suffix == SOURCE else emulated.profile.machine.cuda
    return replace(judged, sampling=sampling, compiler=made_by)


def _hints(work: LintWork, kernel: Target) -> dict[str, str]:
    """Return what to type against a conflict, by code: `fix` for a source in CUDA C++, else what shows the mapping."""
    description, source = work.description, moved(Place(str(kernel.source)), Path.cwd()).file
    name = kernel.name if kernel.family.shipped else source
    if kernel.source.suffix == PYTHON:
        words = [file for file in work.files if split_name(file)[0].resolve() == kernel.source.resolve()]
        name = words[0] if description.typed and words else f"{source}::{kernel.name}"
        again = description.command("profile", name) + " --before num_warps=4 --after num_warps=8"
        return {"": description.command("explain", name), codes.COMPILER: again}
    return {"": description.command("explain" if kernel.source.suffix in BINARIES else "fix", name)}


def _unjudged(name: str, outcome: Outcome, place: Place, error: NcuSwizzleError) -> KernelLint:
    """Return the lint of a kernel that could not be emulated, because of a user error or otherwise."""
    criterion, code = (BUILT, codes.BUILD) if outcome is Outcome.error else (MAX_DEGREE, codes.NOT_RUN)
    check = Check(
        outcome=outcome, kernel=name, criterion=criterion, message=str(error), place=place, hint=error.hint, code=code
    )
    return KernelLint(name=name, checks=(check,))


def _judged(work: LintWork, emulated: Emulated, hint: str, hints: Mapping[str, str]) -> KernelLint:
    """Return the lint of a launch that was emulated.

    `hint` is what to type for counts that are unknown, `hints` against a conflict: see `judge_lines`.
    """
    hints = {codes.WMMA: PAD, **hints}
    profile, here = emulated.profile, Path.cwd()

    def in_checkout(place: Place | None) -> Place | None:
        return place and moved(place, here, emulated.binary.roots)

    lines, rules = line_accesses(profile, files_in(here)), work.rules
    why = next(iter(emulated.on_unknown), "").rstrip(".")
    checks = [
        replace(
            check,
            place=in_checkout(check.place),
            related=tuple(filter(None, map(in_checkout, check.related))),
            hint=check.hint or (hint if check.outcome is Outcome.inconclusive else ""),
        )
        for check in (
            *with_rule_origin(judge_lines(profile, lines, rules, why, hints), [profile]),
            *memory.judge_memory(profile, rules, files_in(here)),
        )
    ]
    return KernelLint(
        name=profile.kernel.name,
        checks=tuple(checks),
        notes=(
            *emulated.other_notes,
            *(f"{note}." for note in (remarks.saving(profile), remarks.wide(profile)) if note),
        ),
        lines=tuple(replace(line, place=in_checkout(line.place)) for line in lines),
        profile=profile,
        instructed=_instructed(profile, emulated.binary.roots),
    )


def _instructed(profile: Profile, roots: Sequence[str]) -> frozenset[tuple[str, int]]:
    """Return the files, as places name them, and lines that have instructions of a kernel."""
    lines = {frame for stack in {instruction.stack for instruction in profile.instructions} for frame in stack}
    here = {file: moved(Place(file), Path.cwd(), roots).file for file, _ in lines}
    return frozenset((here[file], line) for file, line in lines)


def _data(family: Family, emulated: Emulated) -> str:
    """Return the option for the data that decides unknown counts; without such data, a size of dynamic shared memory.

    A kernel reads that size rounded up: counts that depend on it are known only for multiples of ALLOCATED bytes.
    """
    if emulated.counts.on_data:
        option = fills.options(family.arguments, emulated.counts.decisive)
        drawn = fills.or_random(family.arguments, emulated.counts.decisive)
        return f"{option}, or a .npy file: give the data that addresses depend on{drawn}" if option else ""
    size = emulated.profile.metrics["launch__shared_mem_per_block_dynamic"].value
    if not isinstance(size, int) or size % ALLOCATED == 0:
        return ""
    rounded = -(-size // ALLOCATED) * ALLOCATED
    return f"--shared {rounded}: what a kernel reads as its size is known of multiples of {ALLOCATED}"
