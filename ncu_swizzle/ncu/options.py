"""ncu's own options and filters, by ncu's names, and how they are passed to it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ncu_swizzle.texts import listed

SECTION = "SwizzleConflicts"


@dataclass(frozen=True)
class Launches:
    """Which launches of a program are profiled, by ncu's names; what is empty is left to ncu."""

    kernel_name: str = ""
    kernel_name_base: str = ""
    kernel_id: str = ""
    launch_skip: int = 0
    filter_mode: str = ""
    nvtx: bool = False
    nvtx_include: tuple[str, ...] = ()
    nvtx_exclude: tuple[str, ...] = ()
    target_processes: str = ""
    target_processes_filter: str = ""
    graph_profiling: str = ""
    app_replay_match: str = ""
    profile_from_start: str = ""
    import_source: str = ""

    @classmethod
    def of(cls, **given: Any) -> Launches:
        """Return those that were given, by field; several texts come as any sequence, or one alone."""
        several = {one.name for one in fields(cls) if isinstance(one.default, tuple)}
        values: dict[str, Any] = {name: listed(one) if name in several else one for name, one in given.items() if one}
        return cls(**values)

    def argv(self) -> list[str]:
        """Return them as ncu takes them; NVTX is switched on where a filter needs it."""
        words: list[str] = []
        for option, value in zip(self.given, self.set.values(), strict=True):
            values = value if isinstance(value, tuple) else (value,)
            words += [word for one in values for word in ([option] if one is True else [option, str(one)])]
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

    clock_control: str = "none"
    cache_control: str = "all"
    replay_mode: str = "kernel"
    launch_count: int = 1
    extra: tuple[str, ...] = ()
    metrics: str = ""
    launches: Launches = CATALOGUE
