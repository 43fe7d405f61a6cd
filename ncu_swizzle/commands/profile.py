"""``ncu-swizzle profile``: measure the shared-memory accesses of a kernel, or of every kernel in a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncu_swizzle.bounds import words
from ncu_swizzle.build.build_option import LAUNCHES, NewBuild
from ncu_swizzle.catalog.kernel_options import CatalogOptions, KernelDescription, PairOptions
from ncu_swizzle.commands import output
from ncu_swizzle.commands.after_dashes import after_dashes
from ncu_swizzle.commands.formats import Formats
from ncu_swizzle.commands.groups import grouped
from ncu_swizzle.commands.options import with_options
from ncu_swizzle.commands.selection import Pairs
from ncu_swizzle.engines.context import Request
from ncu_swizzle.errors import UsageError
from ncu_swizzle.files import is_file
from ncu_swizzle.fleet.options import FleetOptions
from ncu_swizzle.jobs.companions import AUTO, Companions
from ncu_swizzle.ncu.options import Launches, Options
from ncu_swizzle.profiles.destination import Destination

if TYPE_CHECKING:
    from ncu_swizzle.catalog.collection import Catalog
    from ncu_swizzle.catalog.target import Target
    from ncu_swizzle.profiles.result import JobResult

KernelsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="KERNEL…",
        help="A kernel, your own .cu file, kernels.py::FUNCTION, or captured launches; omit it for a program.",
    ),
]
CountOption = Annotated[
    int | None,
    typer.Option("--launch-count", "-c", metavar="N", min=1, help="Profile at most N launches; a program: 32."),
]
CaptureOption = Annotated[
    bool,
    typer.Option("--capture", help="Of a program: run it once more and keep its launches, as capture does."),
]
NcuArgsOption = Annotated[
    list[str], typer.Option("--ncu-args", metavar="ARGS", help="Other ncu options, quoted as for a shell.")
]


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
    kernels: KernelsArgument = [],  # noqa: B006 - typer takes a list as it is
    launch_count: CountOption = None,
    capture: CaptureOption = False,
    ncu_args: NcuArgsOption = [],  # noqa: B006 - typer takes a list as it is
) -> None:
    """Profile KERNEL and its baseline, or a program; write data and an HTML page.

    \b
    ncu-swizzle profile kernel2
    ncu-swizzle profile kernel2 -- --sampling-interval 0    after --: ncu options
    ncu-swizzle profile -- ./app --size 4096                a program's kernels
    ncu-swizzle profile -k regex:softmax -c 3 -- python train.py
    ncu-swizzle profile --baseline swizzle-out/app -- ./app2
    ncu-swizzle profile app.launches                        captured, then emulated
    ncu-swizzle profile kernel1 kernel2 --workers gpus      several, each in its own folder

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
    if several := len(kernels) > 1 or fleet.given:
        _refuse_several(kernels, capture, formats)
    kernel = kernels[0] if kernels else ""
    if request.engine == AUTO and not kernel.endswith(LAUNCHES):
        from ncu_swizzle.ncu import gpu

        gpu.ask_ahead()
    rest = after_dashes(context)
    build.refuse_without_launches(kernels or rest)
    if capture:
        _refuse_capture(kernel, filters)
    extra = words.split_all(ncu_args, "--ncu-args", "--ncu-args '--sampling-interval 0'")
    asked = _Asked(rest, extra, request, companions, destination, options, filters, pairs, own, sources, launch_count)
    if several:
        asked.several(kernels, fleet)
        return
    result = asked.result(kernel, build)
    output.show(result, formats)
    if capture:
        asked.capture(result)


@dataclass(frozen=True)
class _Asked:
    """What was typed beside the kernels: a program, or ncu's options after --, and the options for any of the jobs."""

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
        from ncu_swizzle.jobs import profile_several

        for kernel in kernels:
            _refuse_filters(kernel, self.filters, self.pairs)
        request, companions = self._of_kernels(), self.companions
        wanted = [self._chosen(kernel) for kernel in dict.fromkeys(kernels)]
        with output.progress() as progress:
            outcomes, notes = profile_several.profile(wanted, request, companions, self.destination, progress, fleet)
        output.show_several(outcomes, notes)
        profile_several.conclude(outcomes)

    def capture(self, result: JobResult) -> None:
        """Capture what was profiled, beside its report: ncu and the capture cannot both follow one run."""
        from ncu_swizzle.commands.capture import Wanted, keep
        from ncu_swizzle.jobs.profile_program import MOST_LAUNCHES

        wanted = Wanted(kernel_name=self.filters.kernel_name, launch_count=self.launch_count or MOST_LAUNCHES)
        keep(self.rest, wanted, self.request, (result.folder or Path()) / f"app{LAUNCHES}")

    def _kernel(self, kernel: str) -> JobResult:
        from ncu_swizzle.jobs import profile_kernel

        _refuse_filters(kernel, self.filters, self.pairs)
        request = self._of_kernels()
        catalog, target = self._chosen(kernel)
        with output.progress() as progress:
            return profile_kernel.profile(catalog, target, request, self.companions, self.destination, progress)

    def _of_kernels(self) -> Request:
        """Return the request for kernels, which takes what follows -- for options of ncu's."""
        extra = (*self.extra, *self.rest)
        return with_options(self.request, self.options, launch_count=self.launch_count or 1, extra=extra)

    def _chosen(self, kernel: str) -> tuple[Catalog, Target]:
        from ncu_swizzle.catalog import user_kernels

        problem, sources = self.request.problem, self.sources
        description = self.own.described(problem)
        catalog, names = user_kernels.chosen(kernel, description, sources.catalog, sources.config, sources.trust)
        return catalog, catalog.target(names[-1], problem)

    def _program(self) -> JobResult:
        from ncu_swizzle.jobs import profile_program

        _refuse_companions(self.companions, self.request)
        most = self.launch_count or profile_program.MOST_LAUNCHES
        request = with_options(self.request, self.options, launch_count=most, extra=self.extra, launches=self.filters)
        program = profile_program.UserProgram(self.rest, Path.cwd())
        baseline, forced = self.companions.baseline, self.pairs.forced()
        with output.progress() as progress:
            return profile_program.profile(program, request, baseline, forced, self.destination, progress)

    def _launches(self, path: str, build: NewBuild) -> JobResult:
        from ncu_swizzle.engines.emulation import EmulationSettings
        from ncu_swizzle.jobs import profile_launches
        from ncu_swizzle.jobs.replays import ReplaySettings
        from ncu_swizzle.launches.selection import LaunchFilter

        described = self.own.described(self.request.problem)
        _refuse_beside_launches(path, self.filters, (*self.extra, *self.rest), self.companions, described)
        request = replace(self.request, build=build)
        only = LaunchFilter(self.filters.kernel_name, self.filters.launch_skip, self.launch_count)
        settings = ReplaySettings(EmulationSettings.of(request), only, build)
        baseline, forced, destination = self.companions.baseline, self.pairs.forced(), self.destination
        with output.progress() as progress:
            return profile_launches.profile(Path(path), request, settings, baseline, forced, destination, progress)


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
    from ncu_swizzle.catalog import user_kernels

    user_kernels.refuse_description(description, path)
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
    from ncu_swizzle.catalog import kernel_files

    if is_file(Path(kernel)) and not kernel_files.is_kernel_file(kernel):
        raise UsageError(
            f"{kernel} is a file, not a kernel of the catalogue",
            f"put -- before a program: ncu-swizzle profile -- {kernel}",
        )
    given = (*filters.given, *(["--pair"] if pairs.pair else []))
    if given:
        raise UsageError(
            f"{', '.join(given)}: only for programs, and {kernel} is a single kernel",
            "ncu-swizzle profile OPTIONS -- ./app profiles a program; after a kernel, -- passes options on to ncu",
        )


def _refuse_companions(companions: Companions, request: Request) -> None:
    """Raise UsageError if options for catalogue kernels are given for a program."""
    given = {"--reference": companions.reference != AUTO, "--problem": bool(request.problem)}
    if misplaced := [option for option, is_given in given.items() if is_given]:
        raise UsageError(
            f"{', '.join(misplaced)}: only for kernels of the catalogue, not for a program",
            "put the program's own arguments after its name: ncu-swizzle profile -- ./app --size 4096",
        )
