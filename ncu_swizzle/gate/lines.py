"""What is linted of one kernel: its accesses to shared memory line by line, and the checks made of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ncu_swizzle.cubin.location import Location
from ncu_swizzle.engines.emulation import Emulated
from ncu_swizzle.gate import places
from ncu_swizzle.gate.verdict import Check, Place
from ncu_swizzle.profiles import attribution
from ncu_swizzle.profiles.counts import Instruction
from ncu_swizzle.profiles.model import Profile


@dataclass(frozen=True)
class LineAccesses:
    """All accesses of one kind on one line."""

    access: str
    place: Place | None
    instructions: tuple[Instruction, ...]

    @property
    def unknown(self) -> bool:
        return any(access.wavefronts is None or access.ideal is None for access in self.instructions)

    @property
    def wavefronts(self) -> int:
        return sum(access.wavefronts or 0 for access in self.instructions)

    @property
    def ideal(self) -> int:
        return sum(access.ideal or 0 for access in self.instructions)

    @property
    def degree(self) -> float:
        if not self.ideal:
            return 1.0 if not self.wavefronts else float("inf")
        return self.wavefronts / self.ideal


def line_accesses(profile: Profile) -> list[LineAccesses]:
    """Return the shared-memory accesses by kind and by the line that they are attributed to."""
    groups: dict[tuple[str, Location | None], list[Instruction]] = {}
    sites = {id(site.access): site for site in attribution.sites(profile, places.files_in(Path.cwd()))}
    for instruction in profile.shared():
        site = sites.get(id(instruction))
        groups.setdefault((instruction.access, site.line if site else None), []).append(instruction)
    return [
        LineAccesses(access, places.of_sites(line, [sites[id(i)] for i in made]) if line else None, tuple(made))
        for (access, line), made in groups.items()
    ]


@dataclass(frozen=True)
class KernelLint:
    """The checks of one kernel or captured launch, and notes on it.

    `lines` are what was counted, with places in the current folder; empty if it was not run. `launch` says how it was
    launched: counts of different launches cannot be compared.
    """

    name: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()
    lines: tuple[LineAccesses, ...] = ()
    launch: str = ""
    function: str = ""
    profile: Profile | None = None
    sampling: bool = False  # random data would decide what is unknown
    lacking: tuple[str, str] | None = None  # what this machine lacks to run it, and what to type for that

    @classmethod
    def of(cls, emulated: Emulated, checks: tuple[Check, ...], sampling: bool = False) -> KernelLint:
        """Return the lint of a launch that was emulated."""
        profile = emulated.profile
        lines = tuple(
            replace(line, place=line.place and in_checkout(line.place, emulated)) for line in line_accesses(profile)
        )
        launch = f"{dict(profile.problem)} {profile.grid} {profile.block}"
        return cls(
            profile.kernel.name, checks, emulated.other_notes, lines, launch, profile.kernel.function, profile, sampling
        )


def in_checkout(place: Place, emulated: Emulated) -> Place:
    """Return a place of an emulated kernel with its path in the current folder."""
    return places.moved(place, Path.cwd(), emulated.binary.roots)
