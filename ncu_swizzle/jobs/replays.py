"""The launches of a launches file, emulated one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.build import new_build
from ncu_swizzle.build.build_option import LAUNCHES, NewBuild
from ncu_swizzle.cubin import demangled
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.engines.context import Progress, silent
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.engines.replay import Replay
from ncu_swizzle.launches.container import LaunchesFile, open_launches
from ncu_swizzle.launches.model import CapturedLaunch
from ncu_swizzle.launches.selection import LaunchFilter

EVERY_LAUNCH, NO_BUILD = LaunchFilter(), NewBuild()


@dataclass(frozen=True)
class ReplaySettings:
    """How launches files are replayed: the emulation, which launches, and a new build."""

    emulation: EmulationSettings = EmulationSettings()
    only: LaunchFilter = EVERY_LAUNCH
    build: NewBuild = NO_BUILD


class ChosenLaunches:
    """The chosen launches of an open file."""

    def __init__(self, file: LaunchesFile, settings: ReplaySettings, progress: Progress = silent) -> None:
        self.manifest = file.manifest
        self.chosen = settings.only.chosen(file.manifest.launches)
        self._progress = progress
        self._replay = Replay(file, settings.emulation, self._builds(file, settings))

    def _builds(self, file: LaunchesFile, settings: ReplaySettings) -> Sequence[Cubin]:
        if not settings.build.given:
            return ()
        captured = Cubin(file.cubin(self.chosen[0].cubin), file.name)
        return new_build.cubins(settings.build, settings.emulation.toolchain, f"sm_{captured.sm}")

    def emulate(self, launch: CapturedLaunch) -> Emulated:
        """Emulate one of them; raises what `Replay.emulate` raises."""
        name = title(launch)
        return self._replay.emulate(launch, lambda percent: self._progress(name, percent))

    def emulated(self) -> Iterator[Emulated]:
        yield from map(self.emulate, self.chosen)


def is_launches(path: Path | str) -> bool:
    return str(path).endswith(LAUNCHES)


def title(launch: CapturedLaunch) -> str:
    """Return a launch's number and short name."""
    return f"{launch.index} {demangled.shorten(demangled.demangle(launch.kernel))}"


@contextmanager
def opened(path: Path, settings: ReplaySettings, progress: Progress = silent) -> Iterator[ChosenLaunches]:
    """Yield a file's chosen launches. Raises BadFile, DamagedFile, and UsageError if none is chosen."""
    with open_launches(path) as file:
        yield ChosenLaunches(file, settings, progress)
