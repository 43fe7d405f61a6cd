"""The commands as functions for notebooks, scripts and tests: `ncu_swizzle.profile`, `read`, `compare`, ….

An entry is what the commands take (a kernel of the catalogue, a .ncu-rep file, a saved profile or a run's folder), or
what these functions return. Other keywords are the commands' options, as the dataclasses that declare them have them:
`engines.settings.Request`, `engines.settings.Options` (``clock_control="base"``).
Every function raises `errors.NcuSwizzleError`, with a `hint`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ncu_swizzle.base import bounds
from ncu_swizzle.base.errors import BadFile, LaunchLacking, UsageError, did_you_mean
from ncu_swizzle.base.files import exists, is_folder, slug, write_atomically
from ncu_swizzle.base.texts import Sizes, Texts, in_commas, listed, names_of, refuse_rest, taken
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.commands import live, run_kernel
from ncu_swizzle.commands import run_program as program_job
from ncu_swizzle.commands.answers import Comparison, Profile, Profiles, ProgramResult, Result
from ncu_swizzle.cubin.symbols import KernelFilter
from ncu_swizzle.engines import emulated_launch, emulation, settings
from ncu_swizzle.engines.emulated_launch import Parameter
from ncu_swizzle.engines.profiles import choose_engine, gather, saved_profiles
from ncu_swizzle.engines.settings import Launches, Options, Progress, Request, silent
from ncu_swizzle.frontends.compiled import refuse_while_imported
from ncu_swizzle.gate import baseline as baselines
from ncu_swizzle.gate import reporting
from ncu_swizzle.gate.baseline import LIMITS, Policy, check_baseline, parse_rule
from ncu_swizzle.gate.judge import judge
from ncu_swizzle.gate.verdict import Verdict
from ncu_swizzle.kernels import build, user
from ncu_swizzle.kernels.catalog import Catalog, shipped
from ncu_swizzle.kernels.options import KernelDescription, PairOptions
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import comparison, model, pairing, run_folder
from ncu_swizzle.reports.options import AUTO, EMULATED, NCU, RECORDED, Companions, Destination

# From keywords and entries to what the rooms below take: a request, a catalogue, profiles.


ENGINES = (AUTO, NCU, RECORDED, EMULATED)

Entry = str | Path | model.Profile | Result | Sequence[model.Profile]
KEYWORDS = (*names_of(PairOptions, Options), *settings.KEYWORDS)  # ours
OWN = tuple(names_of(PairOptions))  # the keywords that describe a .cu file, besides its problem


def own_kernel(options: dict[str, Any]) -> PairOptions:
    """Return the keywords that describe a .cu file, taken out of the options."""
    return PairOptions(**taken(PairOptions, options))


Resolve = Callable[[Sequence[str]], tuple[Catalog, list[list[str]]]]


def resolving(
    described: KernelDescription, folders: Sequence[str | Path], config: str, trust: bool, last_only: bool = False
) -> Resolve:
    """Return the function from entries to a catalogue that has them, and each one's kernels or only the last."""

    def resolve(names: Sequence[str]) -> tuple[Catalog, list[list[str]]]:
        catalog, named = user.with_files(names, described, list(map(Path, folders)), config, trust)
        return catalog, [kernels[-1:] if last_only else kernels for kernels in named]

    return resolve


def gathered(
    entries: Sequence[Entry], request: Request, on_progress: Progress, resolve: Resolve, alone: bool = True
) -> tuple[list[model.Profile], str]:
    """Return the profiles of the entries, and why ncu does not measure here.

    `alone` is whether a single run means everything in it, and before and after both.
    """
    texts = [str(entry) for entry in entries if isinstance(entry, str | Path)]
    engine = choose_engine(request) if texts else None
    kernels = [text for text in texts if user.is_kernel_file(text) or not Path(text).exists()]
    catalog, named = resolve(kernels) if kernels else (shipped(), [])
    names = dict(zip(kernels, named, strict=True))
    alone = alone and len(entries) == 1
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
            profiles += gather(catalog, names.get(str(entry), [str(entry)]), request, engine, on_progress)
    return profiles, engine.reason if engine else ""


def requested(
    engine: str,
    problem: Mapping[str, int] | None,
    program: str | Path | None,
    timeout: float,
    options: dict[str, Any],
    more: Iterable[str] = (),
) -> Request:
    """Return the request; raise UsageError for an unknown engine or option.

    `more` are other valid options, for the hint.
    """
    if engine not in ENGINES:
        meant = did_you_mean(engine, ENGINES)
        raise UsageError(f"unknown engine {engine!r}{meant}", f"one of {', '.join(ENGINES)}")
    of_request = taken(Request, options, settings.KEYWORDS)
    given = taken(Options, options)
    refuse_rest(options, [*names_of(Options), *settings.KEYWORDS, *more])
    ncu_path = Path(program) if program is not None else None
    return Request(
        engine=engine,
        problem=dict(problem or {}),
        options=Options(**given),
        ncu=ncu_path,
        timeout_s=timeout,
        **of_request,
    )


def profile(
    kernel: str | Path | Callable[..., Any],
    *,
    problem: Mapping[str, int] | None = None,
    engine: str = AUTO,
    baseline: str = AUTO,
    reference: str | Callable[..., Any] = AUTO,
    outputs: Texts = (),
    export: str | Path | None = None,
    overwrite: bool = False,
    ncu: str | Path | None = None,
    timeout: float = 600,
    on_progress: Progress = silent,
    catalog: Sequence[str | Path] = (),
    config: str = "",
    trust: bool = False,
    **options: Any,
) -> Result:
    """Profile a kernel with its baseline and reference, like ``ncu-swizzle profile``.

    The kernel is from the catalogue, the folders in `catalog`, ncu-swizzle.toml (`config` names another file, or
    "none"), or a ``.cu`` file described by the keywords in OWN. Nothing is saved unless `export` names a folder.
    `baseline` and `reference` are a kernel, a file, "none" or "auto". `timeout` is in seconds, per program run. `trust`
    lets ncu-swizzle.toml and family.toml pass nvcc anything; what is passed to this function is the caller's own. Other
    keywords are the command's options: ``no_cache=True`` compiles and emulates again, and keeps nothing; ``nvcc``,
    ``exhaustive``, and ncu's.

    The kernel can also be a function of Triton's or Numba's: `args` are its tensors and numbers, by position or name,
    and other keywords its parameters and the compiler's options. Tensors may be live, or texts like "float16[64,64]".
    `outputs` names those that it writes; with a function as `reference`, which gets arguments by name, they are checked
    against what that returns if the kernel is launched.
    """
    refuse_while_imported()
    called = live.called(kernel, outputs, options, KEYWORDS)
    own = own_kernel(options)
    request = requested(engine, problem, program=ncu, timeout=timeout, options=options, more=OWN)
    folders = [Path(folder) for folder in catalog]
    with _in_python(), scratch() as temporary:
        given = own.described(request.problem)
        described, named = (called.description(given, temporary), called.entry) if called else (given, str(kernel))
        kernels, names = user.chosen(named, described, folders, config, trust)
        if callable(reference):
            kernels, reference = live.expecting(called, reference, kernels, temporary), AUTO
        target = kernels.target(names[-1], request.problem)
        run_path = Path(export) if export is not None else temporary / slug(target.name)
        destination = Destination(run_path, overwrite)
        result = run_kernel.profile(kernels, target, request, Companions(baseline, reference), destination, on_progress)
    compared = Comparison.of(result.comparison)
    subject = next(profile for profile in compared.profiles if profile.kernel.name == target.name)
    kept = result.folder if export is not None else None
    return Result(
        profile=subject, comparison=compared, engine=result.engine.name, reason=result.engine.reason, folder=kept
    )


@contextlib.contextmanager
def _in_python() -> Iterator[None]:
    """Say in keywords what a kernel's launch lacks."""
    try:
        yield
    except LaunchLacking as error:
        options, _ = build.completed(error)
        options = f"--entry {error.kernel} {options}" if error.kernel else options
        raise UsageError(str(error), build.in_keywords(options)) from error


def profile_program(
    program: Texts,
    *,
    folder: str | Path = ".",
    engine: str = AUTO,
    baseline: str | Path = "none",
    pairs: Texts = (),
    export: str | Path | None = None,
    overwrite: bool = False,
    ncu: str | Path | None = None,
    timeout: float = 600,
    on_progress: Progress = silent,
    **options: Any,
) -> ProgramResult:
    """Profile the kernels of any program, like ``ncu-swizzle profile -- PROGRAM``.

    `program` is a command line, run in `folder`; `baseline` is a run, a report or a saved profile; `pairs` are strings
    ``A=B``. Other keywords are ncu's filters, `engines.settings.Launches`
    (``kernel_name="regex:softmax"``), and options.
    """
    filters = {field.name: options.pop(field.name) for field in fields(Launches) if field.name in options}
    options = {"launch_count": program_job.MOST_LAUNCHES, **options}
    request = requested(
        engine, None, program=ncu, timeout=timeout, options=options, more=[field.name for field in fields(Launches)]
    )
    request = replace(request, options=replace(request.options, launches=Launches.from_options(**filters)))
    if isinstance(program, str):
        program = bounds.split(program, "the program's command line", 'give a list of words: ["python", "train.py"]')
    forced = [pairing.forced_pair(text) for text in listed(pairs)]
    command = program_job.UserProgram(listed(program), Path(folder).absolute())
    with scratch() as temporary:
        run_path = Path(export) if export is not None else temporary / "run"
        result = program_job.profile_program(
            command,
            request,
            baseline=str(baseline),
            pairs=forced,
            destination=Destination(run_path, overwrite),
            progress=on_progress,
        )
        profiles = Profiles(run_folder.load(run_path).subjects)
    kept = result.folder if export is not None else None
    return ProgramResult(
        profiles=profiles,
        comparisons=tuple(map(Comparison.of, result.comparisons)),
        notes=result.notes,
        title=result.title,
        folder=kept,
    )


def profile_binary(
    path: str | Path,
    kernel: str = "",
    *,
    entry: str = "",
    grid: Sizes,
    block: Sizes,
    shared: int | str = 0,
    args: Texts = (),
    parameters: Sequence[Parameter] = (),
    problem: Mapping[str, int] | None = None,
    sample: int | None = None,
    exhaustive: bool = False,
    nvcc: str | Path | None = None,
    timeout: float = 600,
    no_cache: bool = False,
    on_progress: Progress = silent,
) -> Profile:
    """Emulate one launch of a kernel in a cubin or PTX file, without a GPU.

    `entry` (or `kernel`), `grid`, `block`, `shared` (bytes), `args`, `problem` and `sample` are those of `profile`. In
    place of `args`, `parameters` are the values themselves, in order: an array for a pointer, whose contents are then
    known; a number or bytes for anything else. `timeout` is in seconds, for each tool and for the emulation. Raises
    BadFile or DamagedFile for the file, UnknownKernel, UsageError if the arguments do not fit, TimeLimit, and
    ProgramFailed if the code is invalid.
    """
    toolchain = Toolchain(Path(nvcc) if nvcc is not None else None, timeout)
    settings = emulation.EmulationSettings(toolchain, exhaustive, not no_cache)
    sizes = dict(problem or {})
    launch = emulated_launch.described(
        in_commas(grid),
        in_commas(block),
        shared=str(shared),
        args=listed(args),
        parameters=parameters,
        problem=sizes,
        sample=sample,
    )
    function = entry or kernel
    name = function or Path(path).name
    emulated = emulation.profile_launch(
        Path(path), function, launch, settings, lambda percent: on_progress(name, percent)
    )
    return Profile.of(emulated.profile)


def read(path: str | Path) -> Profiles:
    """Return the profiles in a .ncu-rep, a saved profile or a run's folder; raise BadFile or DamagedFile."""
    if not exists(Path(path)):
        raise BadFile(f"{path} does not exist", "give a .ncu-rep file, a saved profile or a run's folder")
    if is_folder(Path(path)):
        return Profiles(run_folder.load(Path(path)).profiles)
    return Profiles(saved_profiles(Path(path)))


def compare(
    *entries: Entry,
    problem: Mapping[str, int] | None = None,
    engine: str = AUTO,
    ncu: str | Path | None = None,
    timeout: float = 600,
    on_progress: Progress = silent,
    catalog: Sequence[str | Path] = (),
    config: str = "",
    trust: bool = False,
    **options: Any,
) -> Comparison:
    """Put profiles side by side, the baseline first; raise NotComparable if there are none.

    A ``.cu`` file is described by the keywords in OWN and stands for all of its variants; `catalog`, `config` and
    `trust` are those of `profile`.
    A run means the kernel that it was made for; given alone, everything in it.
    """
    own = own_kernel(options)
    request = requested(engine, problem, program=ncu, timeout=timeout, options=options, more=OWN)
    resolved = resolving(own.described(request.problem), catalog, config, trust)
    profiles, _ = gathered(entries, request, on_progress, resolved)
    return Comparison.of(comparison.compare(profiles))


def report(*entries: Entry, out: str | Path | None = None, **how: Any) -> str:
    """Return the HTML report of profiles, and write it to `out` if given; the keywords are those of `compare`."""
    text = compare(*entries, **how).html()
    if out is not None:
        write_atomically(Path(out), text.encode())
    return text


Limit = float | str | Sequence[str]


def check(
    *entries: Entry,
    max_excessive: Limit = (),
    max_degree: Limit = (),
    max_regression: Limit = (),
    baseline: str | Path | None = None,
    allow_recorded: bool = False,
    kernel_name: str = "",
    raising: bool = True,
    problem: Mapping[str, int] | None = None,
    engine: str = AUTO,
    ncu: str | Path | None = None,
    timeout: float = 600,
    on_progress: Progress = silent,
    catalog: Sequence[str | Path] = (),
    config: str = "",
    trust: bool = False,
    **options: Any,
) -> Verdict:
    """Check profiles against limits, like ``ncu-swizzle check`` but without reading settings files.

    A ``.cu`` file is described by the keywords in OWN; of ``before`` and ``after`` the latter is checked. `catalog`,
    `config` (where kernels are described) and `trust` are those of `profile`. A limit is a number, or strings
    ``[KERNEL:][ACCESS=]NUMBER``. Without limits, no wavefront may be excessive. `kernel_name` is a kernel's name, or
    ``regex:`` and an expression to be found in it. Raises GateFailed, or NotComparable if anything is inconclusive;
    with ``raising=False`` look at `Verdict.outcome`.
    """
    given = zip(LIMITS, (max_excessive, max_degree, max_regression), strict=True)
    typed = tuple(parse_rule(name, text) for name, limit in given for text in _texts(limit))
    only = KernelFilter(kernel_name, "kernel_name").checked()
    own = own_kernel(options)
    rules = Policy(
        rules=typed, baseline=Path(baseline) if baseline is not None else None, allow_recorded=allow_recorded, only=only
    )
    check_baseline(rules)
    saved_baseline = baselines.load(rules.baseline) if rules.baseline else None  # fail early
    request = requested(engine, problem, program=ncu, timeout=timeout, options=options, more=OWN)
    described = own.described(request.problem)
    last_only = bool(own.before or own.after)
    resolved = resolving(described, catalog, config, trust, last_only)
    profiles, reason = gathered(entries, request, on_progress, resolved, alone=False)
    verdict = judge(profiles, rules, saved_baseline, reason)
    if raising:
        reporting.conclude(verdict)
    return verdict


def _texts(limit: Limit) -> tuple[str, ...]:
    return listed(str(limit) if isinstance(limit, int | float) else limit)
