"""What an engine is, and what it gets along with its target: ncu's options and filters, the request, the workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import option
from ncu_swizzle.kernels.options import NewBuild
from ncu_swizzle.reports.options import EMULATED, NCU, RECORDED, kernel_names

if TYPE_CHECKING:
    from ncu_swizzle.kernels.family import Target
    from ncu_swizzle.reports.model import Profile

# ncu's own options and filters, under ncu's names, and how they are passed to ncu.

SECTION = "SwizzleConflicts"


@dataclass(frozen=True, kw_only=True)
class Launches:
    """Which launches of a program are profiled, under ncu's names; empty fields are left to ncu."""

    group: ClassVar[str] = "Launches of a program, under ncu's names"

    kernel_name: str = kernel_names()
    kernel_name_base: str = option(
        "", "The form of the name that -k matches.", choices=("function", "demangled", "mangled")
    )
    kernel_id: str = option("", "The Nth launch of a kernel.", "CONTEXT:STREAM:NAME:N")
    launch_skip: int = option(0, "Skip this many launches.", "N", flags=("-s", "--launch-skip"), minimum=0)
    filter_mode: str = option("", "What -s and -c count.", choices=("global", "per-gpu", "per-launch-config"))
    nvtx: bool = option(False, "Enable NVTX; implied by the next two.")
    nvtx_include: tuple[str, ...] = option((), "Only in this range; repeatable.", "RANGE")
    nvtx_exclude: tuple[str, ...] = option((), "Not in this range; repeatable.", "RANGE")
    target_processes: str = option("", "Also child processes; default: all.", choices=("all", "application-only"))
    target_processes_filter: str = option("", "Only processes whose name matches.", "NAME|regex:EXPR")
    graph_profiling: str = option("", "Each kernel of a graph, or the whole graph.", choices=("node", "graph"))
    app_replay_match: str = option("", "How application replay matches launches.", choices=("grid", "name", "all"))
    profile_from_start: str = option("", "Off waits for cudaProfilerStart; default: on.", choices=("on", "off"))
    import_source: str = option("", "Store the sources in the report; default: yes.", choices=("yes", "no"))

    def argv(self) -> list[str]:
        """Return the filters as ncu's arguments; NVTX is enabled if a filter needs it."""
        words: list[str] = []
        for flag, value in zip(self.given, self.set.values(), strict=True):
            values = value if isinstance(value, tuple) else (value,)
            words += [word for item in values for word in ([flag] if item is True else [flag, str(item)])]
        needs_nvtx = (self.nvtx_include or self.nvtx_exclude) and not self.nvtx
        return [*words, *(["--nvtx"] if needs_nvtx else [])]

    @property
    def set(self) -> dict[str, Any]:
        """The fields that are set, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if getattr(self, field.name)}

    @property
    def given(self) -> tuple[str, ...]:
        """The options that are set, as ncu spells them."""
        return tuple(f"--{name.replace('_', '-')}" for name in self.set)


# Only the range between the launcher's profiler start and stop; the compiler and git, which it calls, are left alone.
CATALOGUE = Launches(profile_from_start="off", target_processes="application-only")


BUDGET_S = 30.0  # of CPU, for each launch of a captured program
MOST_LAUNCHES = 32  # of a program, by default: a training loop has thousands


@dataclass(frozen=True, kw_only=True)
class Options:
    """ncu's own options, under ncu's names; `extra` is passed to ncu unchanged.

    If `metrics` are named, they are collected instead of our section.
    """

    group: ClassVar[str] = "ncu"

    clock_control: str = option(
        "none",
        "As ncu's; times under different modes are not comparable.",
        choices=("none", "base", "boost", "reset"),
    )
    cache_control: str = option(
        "all", "As ncu's: flush the caches before each pass, or do not.", choices=("all", "none")
    )
    replay_mode: str = option(
        "kernel", "As ncu's: replay the kernel, or the whole application.", choices=("kernel", "application")
    )
    launch_count: int | None = None  # by default one of a kernel, MOST_LAUNCHES of a program, all of a launches file
    extra: tuple[str, ...] = ()
    metrics: str = ""
    launches: Launches = CATALOGUE


@dataclass(frozen=True)
class Done:
    """Progress: the fraction that is done, and a description of it."""

    fraction: float  # of ncu's passes, of the emulated blocks or of the tasks; 0 to 1
    words: str = ""
    aside: str = ""  # to be said once, above all bars

    @classmethod
    def of_blocks(cls, covered: int, blocks: int, instructions: int) -> Done:
        """Return how far an emulation is: the blocks accounted for, and the instructions that warps have issued."""
        words = f"{covered:,} of {blocks:,} blocks, {instructions:,} instructions"
        return cls(covered / max(blocks, 1), words)


OnDone = Callable[[Done], None]
Progress = Callable[[str, Done], None]  # with what is being profiled


def silent(name: str, done: Done) -> None:
    """Ignore progress."""


def unheard(done: Done) -> None:
    """Ignore progress."""


# Whether launches are simulated. COMPARED: as by AUTO, and those without conflicts, too: others are shown next to them.
AUTO, ALWAYS, NEVER, COMPARED = "auto", "always", "never", "compared"


@dataclass(frozen=True, kw_only=True)
class Request:
    """How to make profiles, as given on the command line."""

    group: ClassVar[str] = "Engines"

    engine: str = option(
        "auto",
        "Measured by ncu, emulated, or recorded; auto: the best that is available.",
        choices=("auto", NCU, EMULATED, RECORDED),
        common=True,
    )
    problem: Mapping[str, int] = option({}, "Problem size; repeatable, or with commas.", "NAME=SIZE", common=True)
    options: Options = field(default_factory=Options)
    ncu: Path | None = option(None, "The ncu to use.", "PATH")
    timeout_s: float = option(600, "Time limit for each program run.", "SECONDS", ("--timeout",), minimum=1)
    nvcc: Path | None = option(None, "The compiler to use for --engine emulated.", "PATH")
    exhaustive: bool = option(False, "Emulate every block, not just one of each distinct class.")
    cycles: str = option(
        AUTO,
        "Simulate what emulated launches would take on an H100; auto: if that is short and there are conflicts.",
        choices=(AUTO, ALWAYS, NEVER),
    )
    check: bool | None = option(
        None,
        "Execute it on the emulator, at a small size: outputs against the reference, or what was captured; default: "
        "small launches of shipped kernels.",
        flags=("--check/--no-check",),
    )
    no_cache: bool = option(False, "Compile and emulate again, and keep nothing for the next time.")
    jobs: int | None = option(
        None, "Processes, one per kernel or launch at most; default: as cores and memory allow.", "N", ("-j", "--jobs"),
        minimum=1, common=True,
    )  # fmt: skip
    budget_s: float | None = option(
        None,
        "CPU time to emulate each launch, then unknown; default: 30 for captured launches, else --timeout.",
        "SECONDS",
        ("--budget",),
        minimum=1,
    )
    build: NewBuild = NewBuild()  # of captured launches
    races: bool = False  # whether emulated launches are also searched for races and deadlocks

    @property
    def comparing(self) -> Request:
        """The request for launches that are compared with each other."""
        return replace(self, cycles=COMPARED) if self.cycles == AUTO else self


@dataclass(frozen=True, kw_only=True)
class Context:
    """A request, the folder for reports and facts, and the progress callback."""

    request: Request
    folder: Path
    progress: Progress = silent

    def on_done(self, name: str) -> OnDone:
        """Return the progress callback of one kernel or program."""
        return lambda done: self.progress(name, done)


@dataclass(frozen=True)
class Engine(ABC):
    """Makes profiles of kernels; `reason` says why `auto` did not choose ncu.

    Its name is for people and files: whatever differs between engines is an attribute or a method.
    """

    name: ClassVar[str]
    measures: ClassVar[bool] = False  # on this machine's GPU, one kernel at a time: this process is idle meanwhile
    compiles: ClassVar[bool] = True  # kernels are compiled here
    checks: ClassVar[bool] = True  # outputs are compared with a reference's, if there is one
    loads: ClassVar[tuple[str, ...]] = ()  # modules that it imports late, which workers share

    reason: str = ""

    @classmethod
    @abstractmethod
    def lacking(cls, request: Request) -> str:
        """Return why it cannot work here; empty if it can."""

    @abstractmethod
    def profile(self, target: Target, context: Context) -> Profile:
        """Return the kernel's profile, and leave its report and facts, or its cubin, in the context's folder."""

    @abstractmethod
    def has_library(self, target: Target) -> bool:
        """Return whether it can profile a library's kernel."""

    def with_recordings(self) -> Engine:
        """Return the engine that takes what it cannot compute from recordings."""
        return self

    def refuse_compiled(self, target: Target) -> None:
        """Raise UsageError for a cubin or PTX file."""
        if target.compiled:
            raise UsageError(f"{target.kernel.file} is already compiled: it can only be emulated", "--engine emulated")


EMULATOR = ("ncu_swizzle.emulate.run",)  # imported where it is first needed: cached counts do without


GPUS = "gpus"
MOST_WORKERS = 256


@dataclass(frozen=True, kw_only=True)
class FleetOptions:
    """The workers to use; none given: only this process."""

    group: ClassVar[str] = "Workers"

    workers: str = option("", "In parallel: in N processes, or one per GPU.", "N|gpus", common=True)
    scheduler: str = option("", "Run points on the Dask cluster at this address.", "ADDRESS")
    scheduler_file: Path | None = option(None, "The same; dask scheduler wrote the address there.", "FILE")
    gpu: str = option("", "Use only the GPUs whose name contains this, such as H200.", "NAME")

    @property
    def given(self) -> bool:
        """Whether there are to be workers at all."""
        return bool(self.workers or self.scheduler or self.scheduler_file)

    @property
    def own(self) -> bool:
        """Whether the workers are this command's own, on this machine."""
        return bool(self.workers)

    @property
    def count(self) -> int:
        """The number of processes; 0 for one per GPU, and for those of a cluster."""
        return int(self.workers) if self.workers.isdecimal() else 0

    def refuse_nonsense(self) -> None:
        """Raise UsageError for options that contradict each other, and for an impossible number of workers."""
        named = [self.workers, self.scheduler, str(self.scheduler_file or "")]
        if sum(map(bool, named)) > 1:
            raise UsageError("--workers, --scheduler and --scheduler-file exclude each other", "--workers gpus")
        if self.gpu and not self.given:
            raise UsageError("--gpu selects workers, and there are none", "--workers gpus")
        right = self.workers.isdecimal() and len(self.workers) < 5 and 1 <= int(self.workers) <= MOST_WORKERS
        if self.workers and self.workers != GPUS and not right:
            raise UsageError(f"--workers {self.workers}: neither gpus nor 1 to {MOST_WORKERS} processes", "--workers 2")


ALONE = FleetOptions()
