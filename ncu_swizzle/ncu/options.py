"""ncu's own options and filters, by ncu's names, and how they are passed to it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ncu_swizzle.option import option
from ncu_swizzle.texts import listed

SECTION = "SwizzleConflicts"


@dataclass(frozen=True)
class Launches:
    """Which launches of a program are profiled, by ncu's names; what is empty is left to ncu."""

    kernel_name: str = option(
        "", "Only kernels of such a name; this and the next as ncu's.", "NAME|regex:EXPR", ("--kernel-name", "-k")
    )
    kernel_name_base: str = option("", "What -k is compared with.", choices=("function", "demangled", "mangled"))
    kernel_id: str = option("", "The Nth launch of a kernel.", "CONTEXT:STREAM:NAME:N")
    launch_skip: int = option(0, "Launches that are not profiled.", flags=("--launch-skip", "-s"), minimum=0)
    filter_mode: str = option("", "How -s and -c count.", choices=("global", "per-gpu", "per-launch-config"))
    nvtx: bool = option(False, "The next two switch it on.")
    nvtx_include: tuple[str, ...] = option((), "Only in this range; repeatable.", "RANGE")
    nvtx_exclude: tuple[str, ...] = option((), "Not in this range; repeatable.", "RANGE")
    target_processes: str = option("", "Its children too? Default: all.", choices=("all", "application-only"))
    target_processes_filter: str = option("", "Only processes of such a name.", "NAME|regex:EXPR")
    graph_profiling: str = option("", "A graph's kernels, or it as a whole.", choices=("node", "graph"))
    app_replay_match: str = option("", "For --replay-mode application.", choices=("grid", "name", "all"))
    profile_from_start: str = option("", "Or from cudaProfilerStart on. Default: on.", choices=("on", "off"))
    import_source: str = option("", "Keep sources in the report. Default: yes.", choices=("yes", "no"))

    @classmethod
    def of(cls, **given: Any) -> Launches:
        """Return those that were given, by field; several texts come as any sequence, or one alone."""
        several = {one.name for one in fields(cls) if isinstance(one.default, tuple)}
        values: dict[str, Any] = {name: listed(one) if name in several else one for name, one in given.items() if one}
        return cls(**values)

    def argv(self) -> list[str]:
        """Return them as ncu takes them; NVTX is switched on where a filter needs it."""
        words: list[str] = []
        for flag, value in zip(self.given, self.set.values(), strict=True):
            values = value if isinstance(value, tuple) else (value,)
            words += [word for one in values for word in ([flag] if one is True else [flag, str(one)])]
        needs_nvtx = (self.nvtx_include or self.nvtx_exclude) and not self.nvtx
        return [*words, *(["--nvtx"] if needs_nvtx else [])]

    @property
    def set(self) -> dict[str, Any]:
        """What is set, by field."""
        return {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name)}

    @property
    def given(self) -> tuple[str, ...]:
        """What is set, as ncu calls it."""
        return tuple(f"--{name.replace('_', '-')}" for name in self.set)


# The range between the launching program's profiler start and stop; the compiler and git, which it calls, are let be.
CATALOGUE = Launches(profile_from_start="off", target_processes="application-only")


@dataclass(frozen=True)
class Options:
    """ncu's own options, by ncu's names; `extra` goes to ncu as it is.

    `metrics` are collected in place of our section, where any are named.
    """

    clock_control: str = option(
        "none",
        "As ncu's. Times under different modes do not compare.",
        choices=("none", "base", "boost", "reset"),
    )
    cache_control: str = option("all", "As ncu's: flush the caches before each pass, or not.", choices=("all", "none"))
    replay_mode: str = option(
        "kernel", "As ncu's: repeat the kernel, or the whole program.", choices=("kernel", "application")
    )
    launch_count: int = 1
    extra: tuple[str, ...] = ()
    metrics: str = ""
    launches: Launches = CATALOGUE
