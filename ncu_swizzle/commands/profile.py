"""``ncu-swizzle profile``: measure the shared-memory accesses of a kernel, or of every kernel in a program."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from ncu_swizzle.base import bounds
from ncu_swizzle.base.errors import Typed, UsageError
from ncu_swizzle.base.files import is_file
from ncu_swizzle.base.texts import in_json, on_terminal, option
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import Only, Pairs, grouped, with_options
from ncu_swizzle.commands.helping import after_dashes, refuse_typed
from ncu_swizzle.engines.settings import FleetOptions, Launches, Options, Request
from ncu_swizzle.kernels.options import LAUNCHES, CatalogOptions, KernelDescription, NewBuild, PairOptions
from ncu_swizzle.reports.options import AUTO, NONE, Companions, Destination, Formats, kernel_names

if TYPE_CHECKING:
    from ncu_swizzle.reports.comparison import JobResult


# ``ncu-swizzle capture``: keep what a program launches, to check it anywhere.

MEMORY_MIB = 1024
REPEATS = 15  # timed samples per kernel


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which launches are captured, and what of them."""

    kernel_name: str = kernel_names()
    launch_count: int = option(32, "At most N launches.", "N", ("-c", "--launch-count"), minimum=1, common=True)
    memory: bool = option(
        False, "Also what the buffers and variables of each launch hold.", flags=("--memory",), common=True
    )
    memory_limit: int = option(MEMORY_MIB, "With --memory: at most this much in all.", "MIB", minimum=1)
    dry: bool = option(
        False, "Without a GPU: run against a stand-in for CUDA's runtime.", flags=("--dry",), common=True
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
    ncu-swizzle profile app.launches      on any machine, without a GPU
    ncu-swizzle lint app.launches

    Without a GPU, for a program that is linked with the shared runtime:
    ncu-swizzle capture --dry -- ./app
    \f
    The program runs without ncu, nearly at full speed. docs/launches.md describes the file, and what it does not hold.
    """
    keep(after_dashes(context), wanted, request, out)


def keep(command: tuple[str, ...], wanted: Wanted, request: Request, out: Path) -> None:
    """Run a program once, write its launches to a file, and print what that holds."""
    from ncu_swizzle.capture.running import MIB, CaptureLimits
    from ncu_swizzle.commands import output, run_several
    from ncu_swizzle.commands.run_program import UserProgram
    from ncu_swizzle.kernels.toolchain import Toolchain

    memory_bytes = wanted.memory_limit * MIB if wanted.memory or wanted.dry else 0
    limits = CaptureLimits(
        kernel_name=wanted.kernel_name,
        count=wanted.launch_count,
        memory_bytes=memory_bytes,
        timeout_s=request.timeout_s,
    )
    generator = f"ncu-swizzle {output.version()}"
    settings = run_several.CaptureSettings(
        out=out, limits=limits, arguments=not wanted.no_arguments, cached=not request.no_cache, generator=generator
    )
    program = UserProgram(command, Path.cwd())
    if wanted.dry:
        toolchain = Toolchain(request.nvcc, request.timeout_s)
        manifest = run_several.capture_dry(program, settings, wanted.like, toolchain)
    else:
        manifest = run_several.capture(program, settings)
    for text in run_several.lines(manifest, out):
        typer.echo(on_terminal(text))


KernelsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="KERNEL…",
        help="A kernel, your own .cu file, kernels.py::FUNCTION, or captured launches; omit it for a program.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class Profiling:
    """What only `profile` can do: more launches, ncu's own options, a capture beside; or times without ncu."""

    group: ClassVar[str] = "Without ncu, and beside it"

    launch_count: int | None = option(
        None, "Profile at most N launches; a program: 32.", "N", ("-c", "--launch-count"), minimum=1, common=True
    )
    no_ncu: bool = option(False, "Build, check and time the kernels; measure nothing else.", flags=("--no-ncu",),
                          common=True)  # fmt: skip
    repeats: int | None = option(None, "With --no-ncu: timed samples per kernel; default: 15.", "N", minimum=1)
    seed: int | None = option(None, "With --no-ncu: the seed of random inputs; default: a new one each time.", "SEED")
    capture: bool = option(
        False, "Of a program: run it once more and keep its launches, as capture does.", flags=("--capture",)
    )
    ncu_args: tuple[str, ...] = option((), "Other ncu options, quoted as for a shell.", "ARGS")

    def refuse_alone(self) -> None:
        """Raise UsageError for options that only --no-ncu has a use for."""
        given = {"--repeats": self.repeats, "--seed": self.seed}
        if others := [flag for flag, value in given.items() if value is not None and not self.no_ncu]:
            raise UsageError(f"{others[0]}: only with --no-ncu", f"--no-ncu {others[0]}, or leave it out")


TIMING = ("kernels", "reference", "problem", "timeout_s", "no_cache", "no_ncu", "repeats", "seed", "json")


@grouped
def profile(
    context: typer.Context,
    companions: Companions,
    request: Request,
    destination: Destination,
    formats: Formats,
    options: Options,
    filters: Launches,
    pairs: Pairs,
    own: PairOptions,
    sources: CatalogOptions,
    build: NewBuild,
    fleet: FleetOptions,
    profiling: Profiling,
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
    ncu-swizzle profile kernel1 kernel2 --workers gpus      several, each in its own folder

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
    profiling.refuse_alone()
    rest, capture = after_dashes(context), profiling.capture
    if profiling.no_ncu:
        refuse_typed(context, TIMING, "--no-ncu", PairOptions, CatalogOptions)
        _refuse_program(kernels, rest, "--no-ncu times kernels, not programs")
        return _time(kernels, request, companions, own, sources=sources, profiling=profiling, formats=formats)
    if several := len(kernels) > 1 or fleet.given:
        _refuse_several(kernels, capture, formats)
    kernel = kernels[0] if kernels else ""
    if kernel:
        _refuse_program(kernels, rest, f"-- starts a program, and {kernel} is to be profiled")
    if request.engine == AUTO and not kernel.endswith(LAUNCHES):
        from ncu_swizzle.kernels import device

        device.ask_ahead()
    build.refuse_without_launches(kernels or rest)
    if capture:
        _refuse_capture(kernel, filters)
    extra = bounds.split_all(profiling.ncu_args, "--ncu-args", "--ncu-args '--sampling-interval 0'")
    asked = _Asked(
        rest=rest,
        extra=extra,
        request=request,
        companions=companions,
        destination=destination,
        options=options,
        filters=filters,
        pairs=pairs,
        own=own,
        sources=sources,
        launch_count=profiling.launch_count,
    )
    if several:
        asked.several(kernels, fleet)
        return None
    result = asked.result(kernel, build)
    output.show(result, formats)
    if capture:
        asked.capture(result)
    return None


def _refuse_program(kernels: Sequence[str], program: Sequence[str], why: str) -> None:
    """Raise UsageError if a program is given, or ncu's options as earlier releases took them, beside kernels."""
    if program:
        typed = ["ncu-swizzle", *sys.argv[1:][: -1 - len(program)]]
        if program[0].startswith("-"):
            raise UsageError(why, Typed(shlex.join([*typed, "--ncu-args", shlex.join(program)])))
        kept = [word for word in typed if word not in kernels]
        raise UsageError(why, Typed(shlex.join([*kept, "--", *program])))


def _time(
    kernels: Sequence[str],
    request: Request,
    companions: Companions,
    own: PairOptions,
    *,
    sources: CatalogOptions,
    profiling: Profiling,
    formats: Formats,
) -> None:
    """Build, check and time kernels of one family, and print that."""
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.commands.run_kernel import time_kernels
    from ncu_swizzle.kernels import naming
    from ncu_swizzle.render import listing

    if not kernels:
        raise UsageError("nothing to time: name a kernel", "ncu-swizzle profile --no-ncu kernel2")
    if companions.reference not in (AUTO, NONE):
        raise UsageError(f"--reference {companions.reference}: only auto or none with --no-ncu", "name it as a kernel")
    more = ["--repeats", str(profiling.repeats or REPEATS)]
    more += ["--seed", str(profiling.seed)] if profiling.seed is not None else []
    family, chosen = naming.resolve_together(kernels, own.described(request.problem, sources))
    timing = time_kernels(family, chosen or family.kernels, request, companions.reference == AUTO, more)
    if not formats.write({"json": lambda: in_json(timing.facts, allow_nan=True)}):
        listing.show_times(timing, Output())


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """What was typed beside the kernels: a program, ncu's options, and the options for any of the jobs."""

    rest: tuple[str, ...]
    extra: tuple[str, ...]
    request: Request
    companions: Companions
    destination: Destination
    options: Options
    filters: Launches
    pairs: Pairs
    own: PairOptions
    sources: CatalogOptions
    launch_count: int | None

    def result(self, kernel: str, build: NewBuild) -> JobResult:
        """Profile a kernel, captured launches, or a program; raise UsageError if there is none of them."""
        if kernel.endswith(LAUNCHES):
            return self._launches(kernel, build)
        if kernel:
            return self._kernel(kernel)
        if self.rest:
            return self._program()
        raise UsageError(
            "nothing to profile: give a kernel, or a program after --",
            "ncu-swizzle profile kernel2, or ncu-swizzle profile -- ./app; ncu-swizzle list shows the kernels",
        )

    def several(self, kernels: Sequence[str], fleet: FleetOptions) -> None:
        """Profile kernels, and print what became of each."""
        from ncu_swizzle.commands import run_kernel, run_several

        for kernel in kernels:
            _refuse_filters(kernel, self.filters, self.pairs)
        request, description = self._of_kernels(), self._described()
        lineups = [run_kernel.lineup_of(kernel, description, self.companions) for kernel in dict.fromkeys(kernels)]
        with output.progress() as progress:
            outcomes, notes = run_several.profile(lineups, request, self.destination, progress, fleet)
        output.show_several(outcomes, notes)
        run_several.conclude(outcomes)

    def capture(self, result: JobResult) -> None:
        """Capture what was profiled, beside its report: ncu and the capture cannot both follow one run."""
        from ncu_swizzle.commands.run_program import MOST_LAUNCHES

        wanted = Wanted(kernel_name=self.filters.kernel_name, launch_count=self.launch_count or MOST_LAUNCHES)
        keep(self.rest, wanted, self.request, (result.folder or Path()) / f"app{LAUNCHES}")

    def _kernel(self, kernel: str) -> JobResult:
        from ncu_swizzle.commands import run_kernel

        _refuse_filters(kernel, self.filters, self.pairs)
        request = self._of_kernels()
        lineup = run_kernel.lineup_of(kernel, self._described(), self.companions)
        with output.progress() as progress:
            return run_kernel.profile(lineup, request, self.destination, progress)

    def _of_kernels(self) -> Request:
        return with_options(self.request, self.options, launch_count=self.launch_count or 1, extra=self.extra)

    def _described(self) -> KernelDescription:
        return self.own.described(self.request.problem, self.sources)

    def _program(self) -> JobResult:
        from ncu_swizzle.commands import run_program

        _refuse_companions(self.companions, self.request)
        most = self.launch_count or run_program.MOST_LAUNCHES
        request = with_options(self.request, self.options, launch_count=most, extra=self.extra, launches=self.filters)
        program = run_program.UserProgram(self.rest, Path.cwd())
        baseline, forced = self.companions.baseline, self.pairs.forced()
        with output.progress() as progress:
            return run_program.profile_program(program, request, baseline, forced, self.destination, progress=progress)

    def _launches(self, path: str, build: NewBuild) -> JobResult:
        from ncu_swizzle.capture.launches import LaunchFilter
        from ncu_swizzle.commands import run_program
        from ncu_swizzle.engines.emulation import EmulationSettings
        from ncu_swizzle.engines.replay import ReplaySettings

        described = self._described()
        _refuse_beside_launches(path, self.filters, self.extra, self.companions, described)
        request = replace(self.request, build=build)
        only = LaunchFilter(self.filters.kernel_name, self.filters.launch_skip, self.launch_count)
        settings = ReplaySettings(EmulationSettings.of(request), only, build)
        baseline, forced, destination = self.companions.baseline, self.pairs.forced(), self.destination
        with output.progress() as progress:
            return run_program.profile_launches(
                Path(path), request, settings, baseline, forced, destination, progress=progress
            )


def _refuse_capture(kernel: str, filters: Launches) -> None:
    """Raise UsageError unless what is profiled can be captured, too."""
    if kernel:
        raise UsageError(
            f"--capture: only for programs, and {kernel} is none", "ncu-swizzle profile --capture -- ./app"
        )
    others = [given for given in filters.given if given != "--kernel-name"]
    if others:
        raise UsageError(
            f"--capture knows no {', '.join(others)}",
            "-k NAME and -c N select what is profiled and captured: ncu-swizzle profile --capture -k NAME -- ./app",
        )


def _refuse_several(kernels: Sequence[str], capture: bool, formats: Formats) -> None:
    """Raise UsageError for several kernels, or workers, where there can be only one, or none."""
    if not kernels:
        raise UsageError("--workers: for kernels, not for a program", "leave out --workers")
    if launches := [kernel for kernel in kernels if kernel.endswith(LAUNCHES)]:
        raise UsageError(f"{launches[0]} is profiled alone, without workers", f"ncu-swizzle profile {launches[0]}")
    if capture or formats != Formats():
        raise UsageError(
            "--json, --csv, --markdown and --capture are for one kernel or program, without workers",
            "each kernel's folder has its data: ls swizzle-out",
        )


def _refuse_beside_launches(
    path: str, filters: Launches, ncu: Sequence[str], companions: Companions, description: KernelDescription
) -> None:
    """Raise UsageError if options that describe a kernel, or are ncu's own, are given for captured launches."""
    description.refuse_beside(path)
    own = [given for given in filters.given if given not in ("--kernel-name", "--launch-skip")]
    given = [*own, *ncu, *(["--reference"] if companions.reference != AUTO else [])]
    if given:
        raise UsageError(
            f"{', '.join(given)}: not for captured launches, which are emulated",
            f"ncu-swizzle profile -k NAME -s N -c N {path} selects launches",
        )


def _refuse_filters(kernel: str, filters: Launches, pairs: Pairs) -> None:
    """Raise UsageError if filters for a program's launches are given for a kernel, which has one launch.

    Also catches a program without ``--`` before it.
    """
    from ncu_swizzle.kernels import naming

    if kernel.endswith(".ncu-rep"):
        raise UsageError(f"{kernel} is saved already", Typed(shlex.join(["ncu-swizzle", "report", kernel])))
    if is_file(Path(kernel)) and not naming.is_kernel_file(kernel):
        raise UsageError(
            f"{kernel} is a file, not a kernel of the catalogue",
            f"put -- before a program: ncu-swizzle profile -- {kernel}",
        )
    given = (*filters.given, *(["--pair"] if pairs.pair else []))
    if given:
        raise UsageError(
            f"{', '.join(given)}: only for programs, and {kernel} is a single kernel",
            "ncu-swizzle profile OPTIONS -- ./app profiles a program",
        )


def _refuse_companions(companions: Companions, request: Request) -> None:
    """Raise UsageError if options for catalogue kernels are given for a program."""
    given = {"--reference": companions.reference != AUTO, "--problem": bool(request.problem)}
    if misplaced := [option for option, is_given in given.items() if is_given]:
        raise UsageError(
            f"{', '.join(misplaced)}: only for kernels of the catalogue, not for a program",
            "put the program's own arguments after its name: ncu-swizzle profile -- ./app --size 4096",
        )
