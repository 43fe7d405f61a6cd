"""Choose among captured launches by name, before they are emulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.cubin.demangled import demangle, function
from ncu_swizzle.cubin.kernel_filter import KernelFilter
from ncu_swizzle.errors import UsageError
from ncu_swizzle.launches.model import CapturedLaunch

MOST_NAMED = 8


@dataclass(frozen=True)
class LaunchFilter:
    """Which kernels, as in `KernelFilter`; how many of their launches to skip, and how many to take."""

    kernel_name: str = ""
    skip: int = 0
    count: int | None = None

    def chosen(self, launches: Sequence[CapturedLaunch]) -> list[CapturedLaunch]:
        """Return the chosen launches; raise UsageError if there are none."""
        kernels = KernelFilter(self.kernel_name)
        known = {name for name in {launch.kernel for launch in launches} if kernels.passes((name, demangle(name)))}
        named = [launch for launch in launches if launch.kernel in known]
        chosen = named[self.skip :][: self.count]
        if not chosen:
            shown = list(dict.fromkeys(function(demangle(launch.kernel)) for launch in launches))
            more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
            wanted = f"no kernel matches {self.kernel_name}" if not named else f"there are only {len(named)} launches"
            raise UsageError(wanted, f"the file has launches of {', '.join(shown[:MOST_NAMED])}{more}")
        return chosen
