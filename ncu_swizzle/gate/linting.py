"""What ``ncu-swizzle lint`` does: emulate each kernel and judge each line that accesses shared memory."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.base import bounds, codes, paths
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
from ncu_swizzle.engines.kernel_degrees import JudgedKernel
from ncu_swizzle.engines.launchless import CompiledFile, CompiledKernel
from ncu_swizzle.engines.replay import ReplaySettings
from ncu_swizzle.engines.settings import ALONE, GPUS, Done, FleetOptions, Progress, Request, silent
from ncu_swizzle.gate import baseline, memory
from ncu_swizzle.gate.baseline import EACH, Policy, Rule
from ncu_swizzle.gate.degrees import judge_degrees
from ncu_swizzle.gate.judge import LineAccesses, judge_lines, line_accesses
from ncu_swizzle.gate.suppressions import Judged, Suppressions, in_settings
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
    marked,
    moved,
)
from ncu_swizzle.kernels import fills, limits, naming
from ncu_swizzle.kernels.family import BINARIES, PYTHON, SOURCE, Family, Target
from ncu_swizzle.kernels.launch_sites import Sizes
from ncu_swizzle.kernels.naming import Found, Skipped, Unlaunched
from ncu_swizzle.kernels.nvcc_options import readable
from ncu_swizzle.kernels.options import KernelDescription
from ncu_swizzle.kernels.project import NONE, project_file
from ncu_swizzle.kernels.toolchain import INSTALL, NVDISASM
from ncu_swizzle.reports import remarks
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import LintOptions
from ncu_swizzle.smem.access import ALLOCATED
from ncu_swizzle.sweep import worker
from ncu_swizzle.sweep.crew import mapped
from ncu_swizzle.sweep.worker import FleetJob, FleetTask

PAD = "declare the tile with longer rows, and pass their length to load_matrix_sync and store_matrix_sync"
MEMORY = "ncu-swizzle capture --memory also keeps what memory holds"
FEW = 4  # kernels that a note names
MOST_INSTANCES = 8  # of a template that are judged
MOST_JUDGED_S = 40.0  # of CPU time for a file without a launch, compilers included: then one instance of each is enough
Linted = Found | str  # a kernel, a file without a launch, or a launches file
CONFLICT_FREE = Rule(criterion=MAX_DEGREE, limit=1, access=EACH)


@dataclass(frozen=True, kw_only=True)
class KernelLint:
    """The checks of one kernel or captured launch, and notes on it.

    `lines` are what was counted, with places in the current folder. They are empty if it was not run, as are `launch`,
    which says how it was launched, since counts of different launches cannot be compared, and `function`.
    """

    name: str
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    lines: tuple[LineAccesses, ...] = ()
    profile: Profile | None = None
    sampling: bool = False  # random data would decide what is unknown
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
    """Yield what was not found out of a kernel beside its checks: it was not run, or not all of it was checked."""
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


def kernels_in(files: Sequence[str], description: KernelDescription) -> list[Found]:
    """Return the kernels of the files that are not launches files, each once."""
    return naming.resolve_all([file for file in files if not replay.is_launches(file)], description)


def policy(options: LintOptions) -> Policy:
    """Return the limits of each line: degree 1, overridden by what was typed. Raises UsageError."""
    rules = [baseline.parse_rule(MAX_DEGREE, text) for text in options.max_degree]
    rules += [baseline.parse_rule(MAX_SECTORS, text) for text in options.max_sectors]
    baseline.check_accesses(rules, ())
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
    for what cannot be linted at all.
    """
    request.build.refuse_without_launches(files)
    rules = policy(options)
    fleet.refuse_nonsense()
    if fleet.workers == GPUS or fleet.gpu:
        raise UsageError("lint needs no GPU: its workers are processes", "--workers 2")
    # Compilers of Python bring what they need, but for the disassembler.
    only_python = all(naming.split_name(file)[0].suffix == PYTHON for file in files)
    settings = replace(EmulationSettings.of(request, simulating=True), races=not options.no_races)
    if missing := settings.toolchain.lacking(*([NVDISASM] if only_python else [])):
        raise EnvironmentLacking(f"nothing can be compiled here: {missing}", INSTALL)
    disassembler = settings.toolchain.version(NVDISASM) if fleet.given else ""
    work = LintWork(
        files=files, description=description, rules=rules, settings=ReplaySettings(settings, build=request.build),
        folder=Path.cwd(), disassembler=disassembler,
    )  # fmt: skip
    kernels: list[Linted] = [*kernels_in(files, description), *filter(replay.is_launches, files)]
    sources = description.sources
    project = project_file(sources.config, Path.cwd(), sources.trust)
    named = [naming.split_name(file)[0] for file in files] + ([project.file] if project else [])
    hiding = Suppressions(
        in_settings(project) if project else (),
        readable(named, [paths.data_root(), *limits.folders(description.options)]),
        request.timeout_s,
    )
    run: list[KernelLint] = []
    for lint in _all_linted(work, kernels, on_progress, fleet):
        run.append(replace(lint, checks=tuple(hiding.marked(lint.checks))))
        yield run[-1]
    judged = Judged(
        lines=frozenset(line for lint in run for line in lint.instructed),
        kernels=frozenset(lint.name for lint in run if lint.profile),
        complete=not any(lint.skipped or lint.lacking or (lint.checks and not lint.profile) for lint in run),
    )
    if leftover := tuple(hiding.leftover("lint", judged)):
        yield KernelLint(name=SUPPRESSIONS, checks=leftover)


def in_every_launch(
    files: Sequence[Unlaunched], description: KernelDescription, request: Request, rules: Policy, on_progress: Progress
) -> list[KernelLint]:
    """Return the lint of files of whose kernels no launch is described, by the degrees that are allowed."""
    degrees = (rule for rule in rules.rules if rule.criterion == MAX_DEGREE)
    work = LintWork(
        files=[file.name for file in files], description=description, folder=Path.cwd(), disassembler="",
        rules=Policy(rules=(CONFLICT_FREE, *(replace(rule, access=rule.access or EACH) for rule in degrees))),
        settings=ReplaySettings(EmulationSettings.of(request), build=request.build),
    )  # fmt: skip
    return [lint for file in files for lint in _lint_unlaunched(work, file, on_progress)]


def _all_linted(
    work: LintWork, kernels: Sequence[Linted], on_progress: Progress, fleet: FleetOptions
) -> Iterator[KernelLint]:
    """Yield the lint of all kernels, here or by workers, in order."""
    if not fleet.given or len(kernels) < 2:
        for kernel in kernels:
            yield from _linted(work, kernel, on_progress)
        return
    tasks, files = [], []  # of the files, a worker needs those that are here: lines are named by them
    for kernel in kernels:
        if isinstance(kernel, str | Unlaunched):
            file = kernel if isinstance(kernel, str) else kernel.file
            tasks.append(FleetTask(str(file), kernel))
            files.append(Path(file).absolute())
        else:
            tasks.append(FleetTask(kernel.name, kernel))
            files += worker.files_of(kernel.family) if isinstance(kernel, Target) else ()
    job = FleetJob(work=_in_worker, common=work, examine=_same_tools, files=tuple(dict.fromkeys(files)))
    for lints in mapped(job, tasks, fleet, on_progress):
        yield from lints


@dataclass(frozen=True, kw_only=True)
class LintWork:
    """What the lint of all kernels shares: what was typed; for workers, the folder and the version of nvdisasm."""

    files: Sequence[str]
    description: KernelDescription
    rules: Policy
    settings: ReplaySettings
    folder: Path
    disassembler: str


def _in_worker(work: LintWork, kernel: Linted, _folder: Path, on_progress: Progress) -> list[KernelLint]:
    """Lint in a worker, which may have been started elsewhere."""
    with contextlib.chdir(work.folder):
        return list(_linted(work, kernel, on_progress))


def _same_tools(work: LintWork) -> None:
    """Raise EnvironmentLacking in a worker whose tools would give other counts."""
    here = work.settings.emulation.toolchain.version(NVDISASM)
    if here != work.disassembler:
        raise EnvironmentLacking(f"its nvdisasm is {here}, not {work.disassembler}", INSTALL)


def _linted(work: LintWork, kernel: Linted, on_progress: Progress) -> Iterator[KernelLint]:
    """Yield the lint of one kernel, or of each launch of a launches file."""
    if isinstance(kernel, Skipped):
        yield KernelLint(name=kernel.name, notes=(f"{kernel.name} was not run: {kernel.reason}.",), skipped=True)
    elif isinstance(kernel, Unlaunched):
        yield from _lint_unlaunched(work, kernel, on_progress)
    elif isinstance(kernel, str):
        yield from _lint_launches(work, kernel, on_progress)
    else:
        yield _lint_kernel(work, kernel, on_progress)


def _lint_unlaunched(work: LintWork, file: Unlaunched, on_progress: Progress) -> Iterator[KernelLint]:
    """Yield the lint of each kernel of a file: of what holds in every launch.

    Raises what stands in the way of compiling the file, if it is the only one.
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
    for number, kernel in enumerate(chosen):
        late = _cpu_s() - started > MOST_JUDGED_S
        if late and judged[kernel.function]:
            continue
        if late and _cpu_s() - compiled_s > MOST_JUDGED_S:
            left = f"{len(chosen) - number} more kernels were not judged: --kernel {shlex.quote(kernel.spelled)} is one"
            check = Check(
                outcome=Outcome.inconclusive, kernel=compiled.name, criterion=MAX_DEGREE, message=left, place=place,
                code=codes.NOT_LAUNCHED, hint=work.description.command("lint", str(file.file)),
            )  # fmt: skip
            lints.append(KernelLint(name=compiled.name, checks=(check,)))
            break
        lints.append(_in_every_launch(work, kernel, block, str(file.file)))
        judged[kernel.function] += 1
        on_progress(kernel.name, Done((number + 1) / len(chosen)))
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
    """Return the command that gives a kernel a launch: the program's own, or one that is described; or its blocks."""
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
    """Return at most MOST_INSTANCES of each template, from all over their order; the first of each come first."""
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
    own = [kernel for kernel in compiled.kernels if not kernel.is_library]
    if own and (left := [kernel for kernel in compiled.kernels if kernel.is_library]):
        one = shlex.quote(left[0].spelled)
        yield f"{len(left)} kernels of CUB and Thrust were not judged: --kernel {one} judges one."
    if others := len(own or compiled.kernels) - len(shared) if shared else 0:
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


def _lint_launches(work: LintWork, file: str, on_progress: Progress) -> Iterator[KernelLint]:
    """Yield the lint of each of a file's launches; one that cannot be emulated is inconclusive.

    Raises BadFile or DamagedFile, and UsageError if a new build does not fit.
    """
    work.description.refuse_beside(file)
    with replay.opened(Path(file), work.settings, on_progress) as launches:
        yield KernelLint(name=file, notes=tuple(launches.manifest.notes))
        for launch in launches.chosen:
            try:
                emulated = launches.emulate(launch)
            except UsageError:
                raise
            except NcuSwizzleError as error:
                name = names.function(names.demangle(launch.kernel))
                yield _unjudged(name, Outcome.inconclusive, Place(file), error)
                continue
            yield _judged(work, emulated, MEMORY, {"": shlex.join(["ncu-swizzle", "explain", as_word(file)])})


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
        words = [file for file in work.files if naming.split_name(file)[0].resolve() == kernel.source.resolve()]
        name = words[0] if description.typed and words else f"{source}::{kernel.name}"
        again = description.command("profile", name) + " --before num_warps=4 --after num_warps=8"
        return {"": description.command("explain", name), codes.COMPILER: again}
    return {"": description.command("explain" if kernel.source.suffix in BINARIES else "fix", name)}


def _unjudged(name: str, outcome: Outcome, place: Place, error: NcuSwizzleError) -> KernelLint:
    """Return the lint of what could not be emulated: by a mistake of the user's, or for another reason."""
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
            *marked(judge_lines(profile, lines, rules, why, hints), [profile]),
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
    """Return the files, as places have them, and lines that a kernel has instructions of."""
    lines = {frame for stack in {each.stack for each in profile.instructions} for frame in stack}
    here = {file: moved(Place(file), Path.cwd(), roots).file for file, _ in lines}
    return frozenset((here[file], line) for file, line in lines)


def _data(family: Family, emulated: Emulated) -> str:
    """Return what gives the data that decides unknown counts; without such data, a size of dynamic shared memory.

    A kernel reads that size rounded up: what depends on it is known only for multiples of ALLOCATED bytes.
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
