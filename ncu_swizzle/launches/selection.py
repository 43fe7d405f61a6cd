"""Choose among captured launches by name, before they are emulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ncu_swizzle.bounds.patterns import NamePattern
from ncu_swizzle.cubin import demangled
from ncu_swizzle.errors import UsageError
from ncu_swizzle.launches.model import CapturedLaunch

REGEX = "regex:"
MOST_NAMED = 8


@dataclass(frozen=True)
class LaunchFilter:
    """A kernel's name, short, full or mangled, or regex:EXPRESSION; how many matches to skip, and how many to take."""

    kernel_name: str = ""
    skip: int = 0
    count: int | None = None

    def chosen(self, launches: Sequence[CapturedLaunch]) -> list[CapturedLaunch]:
        """Return the chosen launches; raise UsageError if there are none."""
        named = [launch for launch in launches if self._matches(launch)]
        chosen = named[self.skip :][: self.count]
        if not chosen:
            shown = list(dict.fromkeys(demangled.function(demangled.demangle(launch.kernel)) for launch in launches))
            more = f" and {len(shown) - MOST_NAMED} more" if len(shown) > MOST_NAMED else ""
            wanted = f"no kernel matches {self.kernel_name}" if not named else f"there are only {len(named)} launches"
            raise UsageError(wanted, f"the file has launches of {', '.join(shown[:MOST_NAMED])}{more}")
        return chosen

    def _matches(self, launch: CapturedLaunch) -> bool:
        wanted = self.kernel_name
        if not wanted:
            return True
        full = demangled.demangle(launch.kernel)
        if wanted.startswith(REGEX):
            return NamePattern(wanted.removeprefix(REGEX), "--kernel-name").found_in((full,))
        return wanted in (full, launch.kernel, demangled.function(full), demangled.shorten(full))
