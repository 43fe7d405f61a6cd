"""The commands as functions for notebooks, scripts and tests: `ncu_swizzle.profile`, `read`, `compare`, ….

An entry is what the commands take (a kernel of the catalogue, a .ncu-rep file, a saved profile or a run's folder), or
what these functions return. Keywords are the commands' options, with ``_`` for ``-``: ``clock_control="base"``.
Every function raises `errors.NcuSwizzleError`, with a `hint`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from ncu_swizzle.base import bounds
from ncu_swizzle.base.errors import BadFile, LaunchLacking, UsageError
from ncu_swizzle.base.files import exists, is_folder, slug, write_atomically
from ncu_swizzle.base.texts import Texts, listed
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.certify.change import ChangeVerdict
from ncu_swizzle.commands import gate as linting
from ncu_swizzle.commands import live, run_kernel
from ncu_swizzle.commands import profile as profiling
from ncu_swizzle.commands import prove as proving
from ncu_swizzle.commands import run_program as program_job
from ncu_swizzle.commands.answers import BankMaps, Comparison, Profiles, ProgramResult, Result, SweepResult
from ncu_swizzle.commands.groups import Emulating, OfPrograms, Only, Pairs, keyword_names, keyworded, with_options
from ncu_swizzle.commands.prove import Described, ProveOptions, Proving
from ncu_swizzle.cubin.names import KernelFilter
from ncu_swizzle.engines.profiles import choose_engine, gather, saved_profiles
from ncu_swizzle.engines.settings import Engine, FleetOptions, Launches, Options, Progress, Request, silent
from ncu_swizzle.explain import explained
from ncu_swizzle.explain.explained import SuggestAnswer
from ncu_swizzle.explain.predict import PredictAnswer
from ncu_swizzle.explain.query import MAP, MAPPING, WAVEFRONTS, ExplainQuery, KernelQuery
from ncu_swizzle.frontends.compiled import refuse_while_imported
from ncu_swizzle.gate import checking, reporting
from ncu_swizzle.gate.baseline import Policy, typed_rules
from ncu_swizzle.gate.linting import lint_every_launch
from ncu_swizzle.gate.verdict import Verdict
from ncu_swizzle.kernels import build as building
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.options import LAUNCHES, CatalogOptions, KernelDescription, NewBuild, PairOptions
from ncu_swizzle.reports import comparison, model, run_folder
from ncu_swizzle.reports.options import Companions, Destination, Judging, LintOptions
from ncu_swizzle.smem.judge import Constraints
from ncu_swizzle.sweep import running

Entry = str | Path | model.Profile | Result | Sequence[model.Profile]

# Profiles that are made.


def profile(
    kernel: str | Path | Callable[..., Any],
    *,
    outputs: Texts = (),
    **options: Any,
) -> Result:
    """Profile a kernel with its baseline and reference, like ``ncu-swizzle profile``.

    The kernel is from the catalogue, ncu-swizzle.toml (`config` names another file, or
    "none"), or a ``.cu`` file described by ``entry``, ``grid``, ``block``, ``args``, …. Nothing is saved unless
    `export` names a folder. `baseline` and `reference` are a kernel, a file, "none" or "auto". `timeout` is in seconds,
    per program run. `trust` lets ncu-swizzle.toml pass nvcc anything; what is passed to this function
    is the caller's own. Other keywords are the command's options: ``problem={"n": 1024}``, ``engine="emulated"``,
    ``no_cache=True``, and ncu's, with ``extra=("--sampling-interval", "0")`` for those that only ncu has.
    ``on_progress`` is called with what is profiled and a percentage.

    The kernel can also be a function of Triton's or Numba's: `args` are its tensors and numbers, by position or name,
    and other keywords its parameters and the compiler's options. Tensors may be live, or texts like "float16[64,64]".
    `outputs` names those that it writes.
    """
    refuse_while_imported()
    called = live.called(kernel, outputs, options, KEYWORDS)
    return _profiled(kernel, called=called, **options)


@keyworded
def _profiled(
    kernel: str | Path,
    *,
    called: live.LiveKernel | None,
    companions: Companions,
    request: Request,
    options: Options,
    destination: Destination,
    own: PairOptions,
    sources: CatalogOptions,
    on_progress: Progress = silent,
) -> Result:
    request = replace(request, options=options)
    with _in_python(), scratch() as temporary:
        description = own.described(request.problem, sources)
        if called:
            description = called.description(description, temporary)
        lineup = run_kernel.lineup_of(called.entry if called else str(kernel), description, companions)
        name = lineup.target.name
        saved = Destination(destination.export or temporary / slug(name), destination.force_overwrite)
        result = run_kernel.profile(lineup, request, saved, progress=on_progress)
    compared = Comparison.of(result.comparison)
    return Result(
        profile=next(profile for profile in compared.profiles if profile.kernel.name == name),
        comparison=compared,
        engine=result.engine,
        reason=result.reason,
        folder=result.folder if destination.export else None,
    )


KEYWORDS = tuple(name for name in keyword_names(_profiled) if name != "called")  # of `profile`
_typed = [
    *(one for one in inspect.signature(profile).parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD),
    *(one for name, one in inspect.signature(_profiled).parameters.items() if name in KEYWORDS),
]
vars(profile)["__signature__"] = inspect.signature(profile).replace(parameters=_typed)


@contextlib.contextmanager
def _in_python() -> Iterator[None]:
    """State in keywords what a kernel's launch lacks."""
    try:
        yield
    except LaunchLacking as error:
        raise UsageError(str(error), building.in_keywords(building.completed(error))) from error


@keyworded
def profile_program(
    program: Texts,
    *,
    request: OfPrograms,
    options: Options,
    filters: Launches,
    pairs: Pairs,
    build: NewBuild,
    destination: Destination,
    folder: str | Path = ".",
    baseline: str | Path = "none",
    on_progress: Progress = silent,
) -> ProgramResult:
    """Profile the kernels of any program, like ``ncu-swizzle profile -- PROGRAM``, or captured launches.

    `program` is a command line, run in `folder`, or a ``.launches`` file, which is emulated, with a new build if
    ``cubin`` gives one; `baseline` is a run, a report or a saved profile; `pairs` are strings ``A=B``.
    Other keywords are ncu's filters, `engines.settings.Launches` (``kernel_name="regex:softmax"``), and options.
    """
    if isinstance(program, str):
        program = bounds.split(program, "the program's command line", 'give a list of words: ["python", "train.py"]')
    words, forced = listed(program), pairs.forced()
    request = with_options(replace(request, build=build), options, launches=filters)
    build.refuse_without_launches(words)
    with scratch() as temporary:
        saved = Destination(destination.export or temporary / "run", destination.force_overwrite)
        if len(words) == 1 and words[0].endswith(LAUNCHES):
            path = Path(folder, words[0])
            result = program_job.profile_launches(path, request, str(baseline), forced, saved, progress=on_progress)
        else:
            command = program_job.UserProgram(words, Path(folder).absolute())
            result = program_job.profile_program(command, request, str(baseline), forced, saved, progress=on_progress)
        profiles = Profiles(run_folder.load(result.folder or temporary).subjects)
    return ProgramResult(
        profiles=profiles,
        comparisons=tuple(map(Comparison.of, result.comparisons)),
        notes=result.notes,
        title=result.title,
        folder=result.folder if destination.export else None,
    )


@keyworded
def profile_sweep(
    *kernels: str | Path,
    problem: Mapping[str, int | Sequence[int]],
    request: OfPrograms,
    options: Options,
    destination: Destination,
    own: PairOptions,
    sources: CatalogOptions,
    fleet: FleetOptions,
    variants: Texts = (),
    resume: bool = False,
    on_progress: Progress = silent,
) -> SweepResult:
    """Profile variants over problem sizes: ``profile_sweep("gemm", problem={"n": [1024, 2048]})``.

    A point that fails is a row with its error. Nothing is saved unless `export` names a folder; `resume` continues what
    is there. Other keywords are those of `profile`, and where the points run: ``jobs=2``, ``workers="gpus"``.
    """
    sizes = {name: [value] if isinstance(value, int) else list(value) for name, value in problem.items()}
    points = profiling.planned(
        list(map(str, kernels)), sizes, listed(variants), own, sources, timeout_s=request.timeout_s
    )
    request = replace(request, options=options)
    with scratch() as temporary:
        saved = Destination(destination.export or temporary / slug(points.family.name), destination.force_overwrite)
        swept = running.run(points, request, saved, resume, on_progress, fleet=fleet)
    return SweepResult(**{**vars(swept), "folder": swept.folder if destination.export else None})


# Profiles that there are, side by side, and judged.


def read(path: str | Path) -> Profiles:
    """Return the profiles in a .ncu-rep, a saved profile or a run's folder; raise BadFile or DamagedFile."""
    if not exists(Path(path)):
        raise BadFile(f"{path} does not exist", "give a .ncu-rep file, a saved profile or a run's folder")
    if is_folder(Path(path)):
        return Profiles(run_folder.load(Path(path)).profiles)
    return Profiles(saved_profiles(Path(path)))


@keyworded
def compare(
    *entries: Entry,
    request: Request,
    options: Options,
    own: PairOptions,
    sources: CatalogOptions,
    on_progress: Progress = silent,
) -> Comparison:
    """Put profiles side by side, the baseline first; raise NotComparable if there are none.

    A ``.cu`` file is described as for `profile` and stands for all of its variants. A run means the kernel that it was
    made for; given alone, everything in it.
    """
    description = own.described(request.problem, sources)
    profiles = _gathered(entries, replace(request, options=options), on_progress, description)
    return Comparison.of(comparison.compare(profiles))


def report(*entries: Entry, out: str | Path | None = None, **how: Any) -> str:
    """Return the HTML report of profiles, and write it to `out` if given; the keywords are those of `compare`."""
    text = compare(*entries, **how).html()
    if out is not None:
        write_atomically(Path(out), text.encode())
    return text


@keyworded
def check(
    *entries: Entry,
    request: Request,
    options: Options,
    own: PairOptions,
    sources: CatalogOptions,
    judging: Annotated[
        Judging,
        Only(
            "max_excessive", "max_degree", "max_sectors", "max_regression", "baseline", "kernel_name", "allow_recorded"
        ),
    ],
    raising: bool = True,
    on_progress: Progress = silent,
) -> Verdict:
    """Check profiles against limits, like ``ncu-swizzle check`` but without reading settings files.

    A ``.cu`` file is described as for `profile`; of ``before`` and ``after`` the latter is checked. A limit is a
    number, or strings ``[KERNEL:][ACCESS=]NUMBER``. Without limits, no wavefront may be excessive. `kernel_name` is a
    kernel's name, or ``regex:`` and an expression to be found in it. Raises GateFailed, or NotComparable if anything is
    inconclusive; with ``raising=False`` look at `Verdict.outcome`.
    """
    rules = Policy(
        rules=typed_rules(judging.limits),
        baseline=Path(judging.baseline) if judging.baseline else None,
        allow_recorded=bool(judging.allow_recorded),
        only=KernelFilter(judging.kernel_name, "kernel_name").checked(),
    )
    description, request = own.described(request.problem, sources), replace(request, options=options)

    def gather(request: Request, engine: Engine) -> list[model.Profile]:
        return _gathered(entries, request, on_progress, description, engine)

    words = [entry for entry in entries if isinstance(entry, str | Path)]
    rest, files = checking.split_by_launch([str(word) for word in words], description)
    kernels = lint_every_launch(files, description, request, rules, on_progress)
    entries = tuple(entry for entry in entries if not isinstance(entry, str | Path) or str(entry) in rest)
    verdict = checking.judge_profiles(gather, rules, request) if entries or not kernels else None
    if kernels or verdict is None:
        verdict = checking.with_degrees(verdict, kernels)
    if raising:
        reporting.conclude(verdict)
    return verdict


def _gathered(
    entries: Sequence[Entry],
    request: Request,
    on_progress: Progress,
    description: KernelDescription,
    gate: Engine | None = None,
) -> list[model.Profile]:
    """Return the profiles of the entries; `gate` is the engine of a check, which takes one kernel of each.

    A run that is the only entry means everything in it, and a result before and after both; of a check, a run means
    its kernel, and before and after the latter.
    """
    words = [str(entry) for entry in entries if isinstance(entry, str | Path)]
    engine = gate or (choose_engine(request) if words else None)
    kernels = [word for word in words if naming.is_kernel_file(word) or not Path(word).exists()]
    targets = dict(zip(kernels, naming.resolve_saved(kernels, description) if kernels else (), strict=True))
    first = -1 if gate and description.pair else 0
    alone = not gate and len(entries) == 1
    profiles: list[model.Profile] = []
    for entry in entries:
        if isinstance(entry, model.Profile):
            profiles.append(entry)
        elif isinstance(entry, Result):
            profiles += entry.profiles if alone else [entry.profile]
        elif not isinstance(entry, str | Path):
            profiles += entry
        elif alone and is_folder(Path(entry)):
            profiles += run_folder.load(Path(entry)).profiles
        elif engine:
            profiles += gather(targets.get(str(entry), [Path(entry)])[first:], request, engine, on_progress)
    return profiles


@keyworded
def lint(
    *files: str | Path,
    request: Emulating,
    own: PairOptions,
    sources: CatalogOptions,
    build: NewBuild,
    fleet: FleetOptions,
    options: LintOptions,
    on_progress: Progress = silent,
) -> Verdict:
    """Return a check per line that conflicts, like ``ncu-swizzle lint``; with `against`, only what got worse fails.

    Keywords are the command's options: those that describe a .cu file, ``cubin`` for captured launches,
    ``jobs=2``. ``fix`` rewrites what is proved, and ``diff`` puts the same into the verdict, without writing.
    Nothing is raised for a line that fails: see `outcome`.
    """
    words, description = list(map(str, files)), own.described(request.problem, sources)
    request = replace(request, build=build)
    return linting.linted(words, description, request, options, fleet=fleet, progress=on_progress)[0]


@keyworded
def prove(
    *versions: str | Path,
    request: Proving,
    own: Described,
    sources: CatalogOptions,
    options: Annotated[ProveOptions, Only("against")],
    queries: bool = False,
    on_progress: Progress = silent,
) -> ChangeVerdict:
    """Return whether two versions compute the same, like ``ncu-swizzle prove``: two files, or two kernels.

    Or one file with `against`, a commit, or with `before` and `after`, nvcc's options. Keywords are the command's
    options: ``entry="transpose"``, ``block=(32, 8)``. With `queries` each kernel of the verdict has its queries, for
    `certify.certificate.written`. Nothing is raised for what is refuted or not proved: see `outcome`.
    """
    words, description = list(map(str, versions)), own.described(request.problem, sources)
    return proving.proved(words, options, description, request, on_progress, queries=queries)


# Shared memory explained: `what` is a layout, a kernel, a .cu, cubin or PTX file, an emulated run.


def _asked(
    what: str | Path, asked: ExplainQuery, request: Request, own: PairOptions, sources: CatalogOptions,
    on_progress: Progress,
) -> ExplainQuery:  # fmt: skip
    return replace(asked, what=str(what), kernel=KernelQuery.of(request, own, sources, on_progress))


@keyworded
def predict(
    what: str | Path,
    *,
    asked: Annotated[
        ExplainQuery,
        Only("op", "active", "threads", "writes", "reads", "element_bytes", "swizzle", "pad", "profile"),
    ],
    request: Emulating,
    own: PairOptions,
    sources: CatalogOptions,
    on_progress: Progress = silent,
) -> tuple[PredictAnswer, ...]:
    """Return the wavefronts of accesses, one answer per kernel; a file is described as for `profile`."""
    query = replace(_asked(what, asked, request, own, sources, on_progress=on_progress), show=WAVEFRONTS)
    return explained.explanation(query).wavefronts


@keyworded
def suggest(
    what: str | Path,
    *,
    asked: Annotated[ExplainQuery, Only("writes", "reads", "element_bytes", "threads")],
    request: Emulating,
    own: PairOptions,
    sources: CatalogOptions,
    constraints: Constraints | None = None,
    on_progress: Progress = silent,
) -> tuple[SuggestAnswer, ...]:
    """Return the cheapest conflict-free mappings, one answer per tile; a file is described as for `profile`."""
    query = replace(_asked(what, asked, request, own, sources, on_progress=on_progress), show=MAPPING)
    limits = dataclasses.asdict(constraints or Constraints())
    return explained.explanation(replace(query, **limits)).mappings


@keyworded
def banks(
    what: str | Path,
    *,
    asked: Annotated[ExplainQuery, Only("element_bytes", "swizzle", "pad", "access")],
    request: Emulating,
    own: PairOptions,
    sources: CatalogOptions,
    on_progress: Progress = silent,
) -> BankMaps:
    """Return the bank maps before and after a mapping; a file is described as for `profile`."""
    query = replace(_asked(what, asked, request, own, sources, on_progress=on_progress), show=MAP)
    subject = explained.explanation(query).subject
    if subject is None:
        raise UsageError(f"{what} has no bank map", f"ncu-swizzle explain {shlex.quote(str(what))} draws it")
    return BankMaps(subject.maps(), subject.name)
