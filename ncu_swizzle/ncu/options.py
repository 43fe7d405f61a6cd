"""ncu's own options and filters, under ncu's names, and how they are passed to ncu."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ncu_swizzle.texts import listed

SECTION = "SwizzleConflicts"


@dataclass(frozen=True)
class Launches:
    """Which launches of a program are profiled, under ncu's names; empty fields are left to ncu."""

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
    def from_options(cls, **options: Any) -> Launches:
        """Return the filters from options by field name; a field with several texts takes a sequence or one text."""
        several = {field.name for field in fields(cls) if isinstance(field.default, tuple)}
        values: dict[str, Any] = {
            name: listed(value) if name in several else value for name, value in options.items() if value
        }
        return cls(**values)

    def argv(self) -> list[str]:
        """Return the filters as ncu's arguments; NVTX is enabled if a filter needs it."""
        words: list[str] = []
        for option, value in zip(self.given, self.set.values(), strict=True):
            values = value if isinstance(value, tuple) else (value,)
            words += [word for item in values for word in ([option] if item is True else [option, str(item)])]
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


@dataclass(frozen=True)
class Options:
    """ncu's own options, under ncu's names; `extra` is passed to ncu unchanged.

    If `metrics` are named, they are collected instead of our section.
    """

    clock_control: str = "none"
    cache_control: str = "all"
    replay_mode: str = "kernel"
    launch_count: int = 1
    extra: tuple[str, ...] = ()
    metrics: str = ""
    launches: Launches = CATALOGUE
