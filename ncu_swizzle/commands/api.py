"""The commands as functions for notebooks, scripts and tests: `ncu_swizzle.profile`, `read`, `compare`, ….

An entry is what the commands take (a kernel of the catalogue, a .ncu-rep file, a saved profile or a run's folder), or
what these functions return. Keywords are the commands' options, with ``_`` for ``-``: ``clock_control="base"``.
Every function raises `errors.NcuSwizzleError`, with a `hint`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeGuard

import numpy as np

from ncu_swizzle.base import bounds
from ncu_swizzle.base.errors import BadFile, LaunchLacking, UsageError
from ncu_swizzle.base.files import exists, is_folder, slug, write_atomically
from ncu_swizzle.base.texts import Texts, listed
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.certify.change import ChangeVerdict
from ncu_swizzle.commands import gate as linting
from ncu_swizzle.commands import profile as profiling
from ncu_swizzle.commands import prove as proving
from ncu_swizzle.commands import run_kernel
from ncu_swizzle.commands.answers import BankMaps, Comparison, Profiles, ProgramResult, Result, SweepResult
from ncu_swizzle.commands.groups import Call, Emulating, OfPrograms, Only, Pairs, keyworded, with_options
from ncu_swizzle.commands.prove import Described, ProveOptions, Proving
from ncu_swizzle.commands.run_program import LaunchesJob, ProgramJob, RunOptions, UserProgram
from ncu_swizzle.cubin.names import KernelFilter
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.judgement import Judgement
from ncu_swizzle.engines.profiles import choose_engine, gather, saved_profiles
from ncu_swizzle.engines.settings import Engine, FleetOptions, Launches, Options, Progress, Request, silent
from ncu_swizzle.explain import explained
from ncu_swizzle.explain.explained import SuggestAnswer
from ncu_swizzle.explain.predict import PredictAnswer
from ncu_swizzle.explain.query import MAP, MAPPING, WAVEFRONTS, ExplainQuery, KernelQuery
from ncu_swizzle.frontends.contract import refuse_while_imported
from ncu_swizzle.gate import checking, reporting
from ncu_swizzle.gate.baseline import Policy, typed_rules
from ncu_swizzle.gate.linting import lint_every_launch
from ncu_swizzle.gate.verdict import Verdict
from ncu_swizzle.kernels import check as building
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import ML_DTYPES
from ncu_swizzle.kernels.naming import Named, TargetOrFile
from ncu_swizzle.kernels.options import LAUNCHES, CatalogOptions, KernelDescription, NewBuild, PairOptions
from ncu_swizzle.reports import comparison, model, run_folder
from ncu_swizzle.reports.options import Companions, Destination, Judging, LintOptions
from ncu_swizzle.smem.judge import Constraints
from ncu_swizzle.sweep import running

# A function of the caller's own, with tensors and numbers, as the texts that describe a kernel.
#
# The function is compiled in another process, from its file. Tensors go there as files, with what they hold; a text
# such as ``"float16[2048,2048]"`` describes one that does not exist yet.

_SHAPED = re.compile(r"\s*\w+\s*\[[^\]]*\]")


@dataclass(frozen=True, kw_only=True)
class LiveKernel:
    """A function with its arguments by parameter, and the compiler's options."""

    function: Any
    passed: Mapping[str, Any]
    options: Mapping[str, Any]
    outputs: tuple[str, ...] = ()

    @property
    def entry(self) -> str:
        """The function as it is named on the command line."""
        return entry_of(self.function)

    def description(self, typed: KernelDescription, folder: Path) -> KernelDescription:
        """Return what was typed, with its arguments; contents of tensors go to files in the folder."""
        texts = tuple(f"{name}={self._text(name, value, folder)}" for name, value in self.passed.items())
        tuning = (*typed.tuning, *(f"{name}={value}" for name, value in self.options.items()))
        return replace(typed, launch=replace(typed.launch, args=texts), tuning=tuning)

    def _text(self, name: str, value: Any, folder: Path) -> str:
        """Return an argument as it is typed after its name."""
        out = ":out" if name in self.outputs else ""
        if isinstance(value, str) and _SHAPED.match(value):
            return value if ":" in value or not out else f"{value}{out}"
        if not is_tensor(value):
            return value if isinstance(value, str) else repr(value)
        dtype, shape = _dtype(value), tuple(value.shape) or (1,)
        if out:
            return f"{dtype}[{','.join(map(str, _laid(value, shape)))}]{out}"
        if str(getattr(value, "device", "")) == "meta":
            return f"{dtype}[{','.join(map(str, shape))}]"
        array = _bits(value)
        file = folder / f"{name}.npy"
        np.save(file, array)
        return f"{dtype}[{','.join(map(str, array.shape))}]:{file}"


def is_function(kernel: object) -> TypeGuard[Callable[..., Any]]:
    """Return whether this is a function, and not a kernel's name or file."""
    return not isinstance(kernel, str | Path)


def live_kernel(kernel: object, outputs: Texts, keywords: dict[str, Any], known: Sequence[str]) -> LiveKernel | None:
    """Return a function with its arguments, taken out of the keywords; None for anything else.

    They go by position or name; a keyword that is not `known` is one of them, or an option of its compiler. A grid that
    is a function of them stays in the keywords as what it returns.
    """
    if not is_function(kernel):
        if isinstance(kernel, str) and "\n" in kernel:  # lines are those of the file that holds it
            raise UsageError(
                "the kernel is a text of several lines, and no name",
                "write CUDA C++ to a .cu file, and name that",
            )
        return None
    args = keywords.pop("args", ())
    plain = _plain(kernel)
    names = list(inspect.signature(plain).parameters)
    if isinstance(args, Mapping):
        passed = dict(args)
    else:
        values = [args] if isinstance(args, str) else list(args)
        if len(values) > len(names):
            raise UsageError(
                f"{plain.__name__} takes {len(names)} arguments, {len(values)} were given", ", ".join(names)
            )
        passed = dict(zip(names, values, strict=False))
    own = {name: keywords.pop(name) for name in list(keywords) if name in names or name not in known}
    passed |= {name: value for name, value in own.items() if name in names}
    options = {name: value for name, value in own.items() if name not in names}
    grid = keywords.get("grid", "")
    if not isinstance(grid, str):
        blocks = grid({**passed, **options}) if callable(grid) else grid
        keywords["grid"] = ",".join(map(str, np.atleast_1d(blocks)))
    return LiveKernel(function=kernel, passed=passed, options=options, outputs=listed(outputs))


def entry_of(function: Any) -> str:
    """Return a function as ``FILE::NAME``; raise UsageError for one that no file holds."""
    plain = _plain(function)
    file, name = Path(plain.__code__.co_filename), plain.__qualname__
    if not file.is_file():
        raise UsageError(
            f"{name} is in no file: {file}", "write it to one: in a notebook, %%writefile kernels.py, then import it"
        )
    # The variables that hold it: maybe another function made it.
    bound = [variable for variable, thing in plain.__globals__.items() if thing is function]
    if "." in name and not bound:
        raise UsageError(f"{name} is defined inside of another function or class", "define it at the top of its file")
    return f"{file}::{name if name in bound or not bound else bound[0]}"


def is_tensor(value: object) -> bool:
    """Return whether a value is an array or a tensor."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic)


def _plain(function: Any) -> Any:
    """Return the Python function inside of its decorators."""
    plain = inspect.unwrap(function)
    for _ in range(10):
        if hasattr(plain, "__code__"):
            return plain
        plain = getattr(plain, "py_func", None) or getattr(plain, "fn", None)
    raise UsageError(
        f"{type(function).__name__} is neither a kernel's name nor a function",
        "give the name of a kernel, a file, or a function decorated by triton.jit, cute.jit or numba.cuda.jit",
    )


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _laid(tensor: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a tensor's memory, which is flat if there are gaps between its rows."""
    strides = tensor.stride() if callable(getattr(tensor, "stride", None)) else None
    if strides is None:
        return shape
    # Row-major: the stride of a dimension is the product of the sizes behind it.
    usual = tuple(itertools.accumulate((1, *reversed(shape[1:])), lambda total, size: total * size))[::-1]
    if tuple(strides) == usual or math.prod(shape) <= 1:
        return shape
    # From the first element to the last one, gaps included.
    return (1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)),)


def _bits(tensor: Any) -> np.ndarray:
    """Return a tensor's memory as a NumPy array; types that NumPy lacks become unsigned integers."""
    if isinstance(tensor, np.ndarray):
        return np.ascontiguousarray(tensor)
    if not hasattr(tensor, "detach"):
        return np.asarray(tensor)
    host = tensor.detach()
    laid = _laid(host, tuple(host.shape))
    flat = host if laid == tuple(host.shape) else host.as_strided(laid, (1,))
    if bytes_ := ML_DTYPES.get(_dtype(tensor)):
        import torch

        # NumPy has no such dtype, so the bits go over as integers; int16, which every PyTorch has, unlike uint16.
        integers = flat.cpu().contiguous().view({1: torch.uint8, 2: torch.int16}[bytes_]).numpy()
        return np.atleast_1d(integers.view({1: np.uint8, 2: np.uint16}[bytes_]))
    return np.atleast_1d(flat.cpu().contiguous().numpy())


Entry = str | Path | model.Profile | Result | Sequence[model.Profile]

# Profiles that are made.


def _with_function(call: Call, known: Sequence[str]) -> Call:
    """Return a call of `profile` whose kernel, if it is a function, is one record with its arguments."""
    refuse_while_imported()
    positional, keywords = call
    if not positional and "kernel" not in keywords:
        return call
    kernel, *others = positional or (keywords.pop("kernel"),)
    called = live_kernel(kernel, keywords.get("outputs", ()), keywords, known)
    return (called or kernel, *others), keywords


@functools.partial(keyworded, prepared=_with_function)
def profile(
    kernel: str | Path | Callable[..., Any],
    *,
    outputs: Texts = (),  # noqa: ARG001 - of a function, see `_with_function`
    companions: Companions,
    request: Request,
    options: Options,
    destination: Destination,
    own: PairOptions,
    sources: CatalogOptions,
    on_progress: Progress = silent,
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
    request = replace(request, options=options)
    with scratch() as temporary:
        description, word = own.description(request.problem, sources), str(kernel)
        if isinstance(kernel, LiveKernel):
            description, word = kernel.description(description, temporary), kernel.entry
        try:
            lineup = run_kernel.lineup_of(word, description, companions)
            name = lineup.target.name
            saved = Destination(destination.export or temporary / slug(name), destination.force_overwrite)
            result = run_kernel.profile(lineup, request, saved, progress=on_progress)
        except LaunchLacking as error:
            raise UsageError(str(error), building.in_keywords(building.completed(error))) from error
    compared = Comparison.of(result.comparison)
    return Result(
        profile=next(profile for profile in compared.profiles if profile.kernel.name == name),
        comparison=compared,
        engine=result.engine,
        reason=result.reason,
        folder=result.folder if destination.export else None,
    )


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
        how = RunOptions(request, str(baseline), forced, saved)
        is_launches = len(words) == 1 and words[0].endswith(LAUNCHES)
        program_ = UserProgram(words, Path(folder).absolute())
        job = LaunchesJob(Path(folder, words[0]), how) if is_launches else ProgramJob(program_, how)
        result = job.profile(on_progress)
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
    points = profiling.sweep_plan(
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
    description = own.description(request.problem, sources)
    named = {word: meaning.entries for word, meaning in _named(entries, description).items()}
    profiles = _profiles_of(entries, named, replace(request, options=options), on_progress)
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
    description, request = own.description(request.problem, sources), replace(request, options=options)

    def gather(request: Request, engine: Engine) -> list[model.Profile]:
        return _profiles_of(entries, judged, request, on_progress, engine)

    named = _named(entries, description, unlaunched=not description.pair)
    files = [file for meaning in named.values() for file in meaning.unlaunched]
    kernels = lint_every_launch(files, description, request, rules, on_progress)
    judged = {word: checking.entries_of([meaning], description) for word, meaning in named.items()}
    entries = tuple(entry for entry in entries if not isinstance(entry, str | Path) or judged[str(entry)])
    verdict = checking.judge_profiles(gather, rules, request) if entries or not kernels else None
    if kernels or verdict is None:
        verdict = checking.with_degrees(verdict, kernels)
    if raising:
        reporting.conclude(verdict)
    return verdict


def _named(entries: Sequence[Entry], description: KernelDescription, unlaunched: bool = False) -> dict[str, Named]:
    """Return what the words among the entries name."""
    words = [str(entry) for entry in entries if isinstance(entry, str | Path)]
    return dict(zip(words, naming.resolve(words, description, saved=True, unlaunched=unlaunched), strict=True))


def _profiles_of(
    entries: Sequence[Entry],
    named: Mapping[str, Sequence[TargetOrFile]],
    request: Request,
    on_progress: Progress,
    gate: Engine | None = None,
) -> list[model.Profile]:
    """Return the profiles of the entries, whose words are `named`; `gate` is the engine of a check.

    A run that is the only entry means everything in it, and a result before and after both; of a check, a run means
    its kernel, and before and after the latter.
    """
    engine = gate or (choose_engine(request) if named else None)
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
            profiles += gather(named[str(entry)], request, engine, on_progress)
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
    words, description = list(map(str, files)), own.description(request.problem, sources)
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
    words, description = list(map(str, versions)), own.description(request.problem, sources)
    return proving.proved(words, options, description, request, on_progress, queries=queries)


@keyworded
def judge(*versions: str | Path, request: Proving, own: PairOptions, sources: CatalogOptions) -> Judgement:
    """Return whether the second kernel does the work of the first, like ``ncu-swizzle judge``: see `outcome`."""
    return proving.judged(list(map(str, versions)), own.description(request.problem, sources), request)


@keyworded
def run(
    kernel: str | Path,
    inputs: Mapping[str, Any] | None = None,
    *,
    request: Proving,
    own: PairOptions,
    sources: CatalogOptions,
    seed: int = 0,
) -> dict[str, Any]:
    """Execute a kernel without a GPU and return its outputs by name, as NumPy arrays.

    A file is described as for `profile`; `inputs` are arrays of the described shapes, and the other buffers hold what
    is described, random numbers by `seed`. Raises ProgramFailed for a fault, a hang, and an output that is not known.
    """
    from ncu_swizzle.engines import executed  # which loads the emulator

    target = naming.resolve([str(kernel)], own.description(request.problem, sources))[0].targets[-1]
    return executed.outputs_of(executed.run(target, inputs, EmulationSettings.of(request), seed))


# Shared memory explained: `what` is a layout, a kernel, a .cu, cubin or PTX file, an emulated run.


def _query(
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
    query = replace(_query(what, asked, request, own, sources, on_progress=on_progress), show=WAVEFRONTS)
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
    query = replace(_query(what, asked, request, own, sources, on_progress=on_progress), show=MAPPING)
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
    query = replace(_query(what, asked, request, own, sources, on_progress=on_progress), show=MAP)
    subject = explained.explanation(query).subject
    if subject is None:
        raise UsageError(f"{what} has no bank map", f"ncu-swizzle explain {shlex.quote(str(what))} draws it")
    return BankMaps(subject.maps(), subject.name)
