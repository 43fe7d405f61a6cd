"""``ncu-swizzle profile``, ``sweep`` and ``capture``: measure kernels, programs, variants over sizes; keep launches."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from ncu_swizzle.base import bounds, pool
from ncu_swizzle.base.errors import Typed, UsageError
from ncu_swizzle.base.files import is_file
from ncu_swizzle.base.texts import in_json, on_terminal, option
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import OfPrograms, Only, Pairs, grouped, with_options
from ncu_swizzle.commands.helping import after_dashes, refuse_typed
from ncu_swizzle.engines.settings import EMULATOR, MOST_LAUNCHES, FleetOptions, Launches, Options, Request
from ncu_swizzle.kernels.options import LAUNCHES, CatalogOptions, KernelDescription, NewBuild, PairOptions
from ncu_swizzle.reports.options import AUTO, NONE, Companions, Destination, Formats, kernel_names

if TYPE_CHECKING:
    from ncu_swizzle.capture.launches import CapturedLaunch, Manifest
    from ncu_swizzle.commands.run_kernel import KernelsJob
    from ncu_swizzle.commands.run_program import LaunchesJob, ProgramJob, UserProgram
    from ncu_swizzle.kernels.family import Family, Kernel
    from ncu_swizzle.sweep.plan import Plan


REPEATS = 15  # timed samples per kernel
REPLAYING = ("ncu_swizzle.commands.run_program", *EMULATOR)  # what other processes load for launches files

KernelsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="KERNEL…",
        help="A kernel, your own .cu file, kernels.py::FUNCTION, or captured launches; omit it for a program.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Profiling:
    """What only `profile` can do: more launches, ncu's own options; or times without ncu."""

    group: ClassVar[str] = "Without ncu, or with more of its options"

    launch_count: int | None = option(
        None, "Profile at most N launches; a program: 32.", "N", ("-c", "--launch-count"), minimum=1, common=True
    )
    no_ncu: bool = option(False, "Build, check and time the kernels; measure nothing else.", flags=("--no-ncu",),
                          common=True)  # fmt: skip
    repeats: int | None = option(None, "With --no-ncu: timed samples per kernel; default: 15.", "N", minimum=1)
    seed: int | None = option(None, "With --no-ncu: the seed of random inputs; default: a new one each time.", "SEED")
    ncu_args: tuple[str, ...] = option((), "Other ncu options, quoted as for a shell.", "ARGS")

    def refuse_alone(self) -> None:
        """Raise UsageError for options that only --no-ncu has a use for."""
        values = {"--repeats": self.repeats, "--seed": self.seed}
        if others := [flag for flag, value in values.items() if value is not None and not self.no_ncu]:
            raise UsageError(f"{others[0]}: only with --no-ncu", f"--no-ncu {others[0]}, or leave it out")


TIMING = ("kernels", "reference", "problem", "timeout_s", "no_cache", "no_ncu", "repeats", "seed", "json")


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """All options of `profile`."""

    companions: Companions = Companions()
    request: Request = Request()
    destination: Destination = Destination()
    formats: Formats = Formats()
    options: Options = Options()
    filters: Launches = Launches()
    pairs: Pairs = Pairs()
    own: PairOptions = PairOptions()
    sources: CatalogOptions = CatalogOptions()
    build: NewBuild = NewBuild()
    profiling: Profiling = Profiling()

    def description(self) -> KernelDescription:
        """Return what describes the kernels. Raises UsageError."""
        return self.own.description(self.request.problem, self.sources)


@grouped
def profile(
    context: typer.Context,
    typed: ProfileOptions,
    kernels: KernelsArgument = [],  # noqa: B006 - typer takes a list as it is
) -> None:
    """Measure a kernel and its baseline, or a program; write a page.

    \b
    ncu-swizzle profile kernel2                   beside the kernel it improves
    ncu-swizzle profile -- ./app --size 4096      a program's kernels
    ncu-swizzle profile -k regex:softmax -c 3 -- python train.py
    ncu-swizzle profile my.cu --engine emulated   your own, without a GPU
    ncu-swizzle profile app.launches              captured, then emulated
    ncu-swizzle profile kernel1 kernel2 --no-ncu  outputs checked, and times
    \f
    \b
    ncu-swizzle profile kernel2 --ncu-args '--sampling-interval 0'
    ncu-swizzle profile --baseline swizzle-out/app -- ./app2
    ncu-swizzle profile kernel1 kernel2           several, each in its own folder

    With --no-ncu, kernels of one family (all variants of a .cu file) are built, checked against a float64 reference and
    timed in turn: medians, measured with CUDA events.

    The options from --kernel-name to --import-source are ncu's, for programs. Kernels of two programs are paired by
    name, grid, block and order.

    \b
    Your own kernel (docs/your-kernels.md), described here or in ncu-swizzle.toml:
    ncu-swizzle profile my.cu --kernel fn --grid n//32,n//32 --block 32,8 \\
      --problem n=4096 --arg x=float32[n,n]:random --arg y=float32[n,n]:out \\
      --arg n=int32:n --before -DSWIZZLE=0 --after -DSWIZZLE=1

    \b
    ARG: x=float32[n,n]:FILL    a buffer; FILL is random, random%K, zeros, ones,
                                arange, iota%K, a number, a .npy file, or out
         h=int32[256]:zeros:out an output that starts as zeros, not NaN
         n=int32:n*n  4096  1.5f  true      a number, or an expression of sizes
         p=bytes:24  p=bytes:FILE           a struct: zero bytes, or a file's
    """
    typed.profiling.refuse_alone()
    program = after_dashes(context)
    if typed.profiling.no_ncu:
        refuse_typed(context, TIMING, "--no-ncu", PairOptions, CatalogOptions)
        _refuse_program(kernels, program, "--no-ncu times kernels, not programs")
        _time(kernels, typed)
        return
    of_launches = kernels and kernels[0].endswith(LAUNCHES)
    with pool.ahead(REPLAYING, pool.jobs_for(typed.request.jobs)) if of_launches else nullcontext():
        job = _job(typed, kernels, program)
        with output.progress() as progress:
            result = job.profile(progress)
    if isinstance(result, list):
        output.show_several(result)
    else:
        output.show(result, typed.formats)


def _job(
    typed: ProfileOptions, kernels: Sequence[str], program: tuple[str, ...]
) -> KernelsJob | ProgramJob | LaunchesJob:
    """Return what is profiled: kernels, a program or captured launches. Raises UsageError for what does not fit."""
    kernel = kernels[0] if kernels else ""
    is_launches = kernel.endswith(LAUNCHES)
    if len(kernels) > 1:
        _refuse_several(kernels, typed.formats)
    if kernel:
        _refuse_program(kernels, program, f"-- starts a program, and {kernel} is to be profiled")
    if typed.request.engine == AUTO and not is_launches:
        from ncu_swizzle.kernels import device

        device.ask_ahead()
    typed.build.refuse_without_launches(kernels or program)
    extra = bounds.split_all(typed.profiling.ncu_args, "--ncu-args", "--ncu-args '--sampling-interval 0'")
    request = replace(typed.request, build=typed.build)
    request = with_options(request, typed.options, launch_count=typed.profiling.launch_count, extra=extra)
    if kernel and not is_launches:
        _refuse_filters(kernels, typed.filters, typed.pairs)
        from ncu_swizzle.commands import run_kernel

        description = typed.description()
        lineups = [run_kernel.lineup_of(word, description, typed.companions) for word in dict.fromkeys(kernels)]
        return run_kernel.KernelsJob(lineups, request, typed.destination, apart=len(kernels) > 1)
    request = with_options(request, request.options, launches=typed.filters)
    if kernel:
        typed.description().refuse_beside(kernel)
        _refuse_beside_launches(kernel, request, typed.companions)
    elif program:
        _refuse_companions(typed.companions, request)
    else:
        raise UsageError(
            "nothing to profile: give a kernel, or a program after --",
            "ncu-swizzle profile kernel2, or ncu-swizzle profile -- ./app; ncu-swizzle list shows the kernels",
        )
    from ncu_swizzle.commands.run_program import LaunchesJob, ProgramJob, RunOptions, UserProgram

    how = RunOptions(request, typed.companions.baseline, typed.pairs.forced(), typed.destination)
    return LaunchesJob(Path(kernel), how) if kernel else ProgramJob(UserProgram(program, Path.cwd()), how)


def _refuse_program(kernels: Sequence[str], program: Sequence[str], why: str) -> None:
    """Raise UsageError if a program, or options for ncu, are given along with kernels."""
    if program:
        typed = ["ncu-swizzle", *sys.argv[1:][: -1 - len(program)]]
        if program[0].startswith("-"):
            raise UsageError(why, Typed(shlex.join([*typed, "--ncu-args", shlex.join(program)])))
        raise UsageError(why, Typed(shlex.join([*(word for word in typed if word not in kernels), "--", *program])))


def _time(kernels: Sequence[str], typed: ProfileOptions) -> None:
    """Build, check and time kernels of one family, and print that."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.engines.measured import time_together
    from ncu_swizzle.render import listing

    reference, profiling = typed.companions.reference, typed.profiling
    if not kernels:
        raise UsageError("nothing to time: name a kernel", "ncu-swizzle profile --no-ncu kernel2")
    if reference not in (AUTO, NONE):
        raise UsageError(f"--reference {reference}: only auto or none with --no-ncu", "name it as a kernel")
    more = ["--repeats", str(profiling.repeats or REPEATS)]
    more += ["--seed", str(profiling.seed)] if profiling.seed is not None else []
    family, chosen = _one_family(kernels, typed.description())
    timing = time_together(family, chosen or family.kernels, typed.request, reference == AUTO, more)
    if not typed.formats.write({"json": lambda: in_json(timing.facts, allow_nan=True)}):
        listing.show_times(timing, Output())


def _refuse_several(kernels: Sequence[str], formats: Formats) -> None:
    """Raise UsageError for several kernels where there can be only one."""
    if launches := [kernel for kernel in kernels if kernel.endswith(LAUNCHES)]:
        raise UsageError(f"{launches[0]} is profiled alone", f"ncu-swizzle profile {launches[0]}")
    if formats != Formats():
        raise UsageError(
            "--json, --csv and --markdown are for one kernel or program",
            "each kernel's folder has its data: ls swizzle-out",
        )


def _refuse_beside_launches(path: str, request: Request, companions: Companions) -> None:
    """Raise UsageError if ncu's own options are given for captured launches."""
    filters = [flag for flag in request.options.launches.given if flag not in ("--kernel-name", "--launch-skip")]
    flags = [*filters, *request.options.extra, *(["--reference"] if companions.reference != AUTO else [])]
    if flags:
        raise UsageError(
            f"{', '.join(flags)}: not for captured launches, which are emulated",
            f"ncu-swizzle profile -k NAME -s N -c N {path} selects launches",
        )


def _refuse_filters(kernels: Sequence[str], filters: Launches, pairs: Pairs) -> None:
    """Raise UsageError if filters for a program's launches are given for a kernel, which has one launch.

    Also catches a program without ``--`` before it.
    """
    from ncu_swizzle.kernels.family import is_kernel_file

    flags = (*filters.given, *(["--pair"] if pairs.pair else []))
    for kernel in kernels:
        if kernel.endswith(".ncu-rep"):
            raise UsageError(f"{kernel} is saved already", Typed(shlex.join(["ncu-swizzle", "report", kernel])))
        if is_file(Path(kernel)) and not is_kernel_file(kernel):
            raise UsageError(
                f"{kernel} is a file, not a kernel of the catalogue",
                f"put -- before a program: ncu-swizzle profile -- {kernel}",
            )
        if flags:
            raise UsageError(
                f"{', '.join(flags)}: only for programs, and {kernel} is a single kernel",
                "ncu-swizzle profile OPTIONS -- ./app profiles a program",
            )


def _refuse_companions(companions: Companions, request: Request) -> None:
    """Raise UsageError if options for catalogue kernels are given for a program."""
    typed = {"--reference": companions.reference != AUTO, "--problem": bool(request.problem)}
    if misplaced := [flag for flag, is_typed in typed.items() if is_typed]:
        raise UsageError(
            f"{', '.join(misplaced)}: only for kernels of the catalogue, not for a program",
            "put the program's own arguments after its name: ncu-swizzle profile -- ./app --size 4096",
        )


# ``ncu-swizzle sweep``: variants over problem sizes.


@grouped
def sweep(
    kernels: Annotated[
        list[str], typer.Argument(metavar="FAMILY|KERNEL…", help="A family, kernels of one, or a .cu file.")
    ],
    request: OfPrograms,
    destination: Destination,
    formats: Formats,
    options: Options,
    own: PairOptions,
    sources: CatalogOptions,
    fleet: FleetOptions,
    problem: Annotated[
        list[str],
        typer.Option("--problem", metavar="NAME=SIZE,…", help="Sizes to sweep; several names: all combinations."),
    ] = [],  # noqa: B006
    variants: Annotated[
        list[str], typer.Option(metavar="all|NAME,…", help="Variants of the family; all: all but the library's.")
    ] = [],  # noqa: B006
    resume: Annotated[
        bool, typer.Option("--resume", help="Reuse the points that an earlier run finished, if nothing changed.")
    ] = False,
) -> None:
    """Profile variants at several sizes: one table.

    \b
    ncu-swizzle sweep gemm --problem n=1024,2048,4096 --variants all
    ncu-swizzle sweep kernel1 kernel2 --problem seq=1024,4096 --problem heads=8,16
    ncu-swizzle sweep my.cu --problem n=512,1024    described by ncu-swizzle.toml
    \f
    Each point is saved as soon as it is done; a failure becomes a row with its error, and the exit code is 4.
    A function under @triton.autotune (kernels.py::FUNCTION) has its configurations as variants.
    The speedup is relative to the baseline variant at the same size.
    """
    from ncu_swizzle.sweep import plan, running

    points = sweep_plan(kernels, plan.sizes(problem), variants, own, sources, timeout_s=request.timeout_s)
    with output.progress() as progress:
        swept = running.run(points, with_options(request, options), destination, resume, progress, fleet=fleet)
    output.show_sweep(swept, formats)
    running.conclude(swept)


def sweep_plan(
    kernels: Sequence[str],
    sizes: Mapping[str, Sequence[int]],
    variants: Sequence[str],
    own: PairOptions,
    sources: CatalogOptions,
    timeout_s: float,
) -> Plan:
    """Return the points of a sweep.

    The configurations of ``@triton.autotune`` are variants of a function that is named alone: the sweep tells which of
    them conflict. A family that has variants of its own, or other sources than Python, stays as it is.
    """
    from ncu_swizzle.frontends.contract import tuned
    from ncu_swizzle.kernels.family import Target
    from ncu_swizzle.sweep import plan

    description = own.description({name: values[0] for name, values in sizes.items()}, sources)
    family, chosen = _one_family(kernels, description, families=True)
    if not chosen and len(family.kernels) == 1 and Target(family, family.kernels[0], {}).python:
        family = tuned(family, timeout_s)
    return plan.make_plan(family, chosen, plan.items_of(variants), sizes)


def _one_family(
    words: Sequence[str], description: KernelDescription, families: bool = False
) -> tuple[Family, list[Kernel]]:
    """Return the family of the words, and the named kernels; none for a file, or a family's name (`families`).

    Raises UsageError for a file and other words, and for several families.
    """
    from ncu_swizzle.kernels import naming
    from ncu_swizzle.kernels.catalog import Catalog
    from ncu_swizzle.kernels.family import is_kernel_file

    if not words:
        raise UsageError("nothing to sweep: name a family", "ncu-swizzle sweep gemm --problem n=1024,2048")
    files = [word for word in words if is_kernel_file(word)]
    if files and len(words) > 1:
        raise UsageError(
            f"{files[0]} cannot be combined with other kernels", "give one .cu file, or the names of kernels"
        )
    if not files:  # the family's sizes are checked later
        description = replace(description, problem={})
    named = naming.resolve(list(dict.fromkeys(words)), description, families=families)
    by_name = {target.family.name: target.family for word in named for target in word.targets}
    catalog = Catalog(tuple(by_name.values()))
    if files:
        return catalog.families[0], []
    return catalog.family_or_kernels(words) if families else catalog.named_together(list(dict.fromkeys(words)))


# ``ncu-swizzle capture``: keep what a program launches, to check it anywhere.

MEMORY_MIB = 1024
OUTPUT = 1 << 20  # bytes of a buffer after a launch that are kept; of a larger one its SHA-256 remains


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which launches are captured, and what of them."""

    kernel_name: str = kernel_names()
    launch_count: int = option(
        MOST_LAUNCHES, "At most N launches.", "N", ("-c", "--launch-count"), minimum=1, common=True
    )
    memory: bool = option(
        False, "Also what the buffers and variables of each launch hold.", flags=("--memory",), common=True
    )
    outputs: bool = option(
        False, "With --memory, also what they hold after the launch.", flags=("--outputs",), common=True
    )
    memory_limit: int = option(MEMORY_MIB, "With --memory: at most this much in all.", "MIB", minimum=1)
    dry: bool = option(
        False, "Without a GPU: run against a stand-in for CUDA's runtime.", flags=("--dry",), common=True
    )
    execute: bool = option(
        False,
        "With --dry: execute the kernels, so that the program gets its results.",
        flags=("--execute",),
        common=True,
    )
    like: str = option("h100", "With --dry: the GPU that device queries are answered for.", choices=("h100", "b200"))
    no_arguments: bool = option(False, "Leave the program's arguments out of the file.", flags=("--no-arguments",))


@grouped
def capture(
    context: typer.Context,
    wanted: Wanted,
    request: Annotated[Request, Only("nvcc", "timeout_s", "no_cache")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The file to write.")] = Path("app.launches"),
) -> None:
    """Keep a program's launches, to check them without GPU or counters.

    \b
    ncu-swizzle capture -o app.launches -- ./app --size 4096
    ncu-swizzle capture -k regex:softmax -c 3 --memory -- python train.py
    ncu-swizzle capture --outputs -- ./app      then profile --check compares them
    ncu-swizzle profile app.launches      on any machine, without a GPU
    ncu-swizzle lint app.launches

    Without a GPU, for a program that is linked with the shared runtime:
    ncu-swizzle capture --dry -- ./app
    \f
    The program runs without ncu, nearly at full speed. docs/launches.md describes the file, and what it does not hold.
    """
    from ncu_swizzle.capture.launches import summary
    from ncu_swizzle.commands.run_program import UserProgram

    manifest = captured(UserProgram(after_dashes(context), Path.cwd()), wanted, request, out)
    number = summary(manifest)
    memory = f", {number['memory_bytes']:,} bytes of memory" if number["memory"] else ""
    held = f"{number['launches']} launches of {number['kernels']} kernels, {number['cubins']} cubins{memory}"
    for line in (f"{out}: {held}", *(f"note: {note}" for note in manifest.notes)):
        typer.echo(on_terminal(line))


def captured(program: UserProgram, wanted: Wanted, request: Request, out: Path) -> Manifest:
    """Run the program once, on this machine's GPU or against a stand-in for CUDA's runtime; write its launches.

    Raises UsageError, of a dry run also for a program that is not linked with the shared runtime, EnvironmentLacking,
    ProgramFailed with the program's last lines, NothingProfiled, NotWritable.
    """
    from ncu_swizzle.capture import dry, running
    from ncu_swizzle.capture.launches import DRY, GPU, CapturedProgram, Manifest, write
    from ncu_swizzle.kernels.git import commit_of
    from ncu_swizzle.kernels.toolchain import Toolchain

    if (wanted.execute and not wanted.dry) or (wanted.outputs and wanted.dry):
        raise UsageError(
            "--execute is for --dry, and --outputs for a GPU", "ncu-swizzle capture --dry --execute -- ./app"
        )
    argv, folder, cached = program.argv, program.folder, not request.no_cache
    running.refuse_unusable(argv, folder)
    limits = running.CaptureLimits(
        kernel_name=wanted.kernel_name,
        count=wanted.launch_count,
        memory_bytes=wanted.memory_limit * running.MIB if wanted.memory or wanted.outputs or wanted.dry else 0,
        outputs=wanted.outputs,
        timeout_s=request.timeout_s,
    )
    with scratch() as temporary:
        if wanted.dry:
            gpu, toolchain = running.GPUS[wanted.like], Toolchain(request.nvcc, request.timeout_s)
            executing: dict[str, Any] = {}
            if wanted.execute:
                from ncu_swizzle.engines.emulation import EmulationSettings
                from ncu_swizzle.engines.replay import left_by

                executing = {"execute": partial(left_by, settings=EmulationSettings.of(request), judged=set())}
            recording = dry.record(
                argv, folder, limits, temporary, gpu=gpu, toolchain=toolchain, cached=cached, **executing
            )
        else:
            recording = running.record(argv, folder, limits, temporary, cached)
        if recording.log:
            typer.echo(on_terminal(recording.log))
        launches = tuple(recording.launches)
        cubins = {launch.cubin for launch in launches}
        memory = {contents.sha256 for launch in launches for contents in launch.contents}
        sizes = {sha256: file.stat().st_size for sha256, file in recording.memory.items()}
        memory |= {each.sha256 for launch in launches for each in launch.outputs if sizes.get(each.sha256, 0) <= OUTPUT}
        manifest = Manifest(
            origin=DRY if wanted.dry else GPU,
            generator=f"ncu-swizzle {output.version()}",
            when=datetime.now(UTC).isoformat(timespec="seconds"),
            machine=recording.machine,
            program=CapturedProgram(program.name, None if wanted.no_arguments else argv[1:]),
            commit=commit_of(folder),
            launches=launches,
            cubins={sha256: file.stat().st_size for sha256, file in recording.cubins.items() if sha256 in cubins},
            memory={sha256: size for sha256, size in sizes.items() if sha256 in memory},
            notes=(*recording.notes, *_unknown(launches)),
        )
        write(out, manifest, recording.cubins, recording.memory)
    return manifest


def _unknown(launches: tuple[CapturedLaunch, ...]) -> list[str]:
    """Name the requested contents that could not be kept."""
    from ncu_swizzle.capture.launches import WITHOUT_MEMORY

    reasons: dict[str, int] = {}
    for launch in launches:
        for why in {contents.why for contents in launch.contents if not contents.sha256}:
            reasons[why] = reasons.get(why, 0) + 1
    reasons.pop(WITHOUT_MEMORY, None)
    return [f"Contents of memory are unknown for {count} launches: {why}." for why, count in sorted(reasons.items())]
