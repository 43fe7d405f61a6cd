"""The threads of a run that are not waiting, in groups at the same instruction."""

from __future__ import annotations

from dataclasses import dataclass, field

from ncu_swizzle.emulate.flow import EXIT
from ncu_swizzle.emulate.groups import Group
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.program import PreparedCode
from ncu_swizzle.smem.banks import Bools, Ints


@dataclass
class Threads:
    """Threads that run a program on a machine."""

    program: PreparedCode
    machine: Machine
    ready: list[Group] = field(default_factory=list, init=False)

    def add(self, pc: int, warps: Ints, mask: Bools) -> None:
        """Continue the threads of the mask, if any, at an instruction."""
        used = mask.any(axis=1)
        if not used.any():
            return
        if not used.all():
            warps, mask = warps[used], mask[used]
        if pc == EXIT:
            self._end(warps, mask)
            return
        self.ready.append(Group(pc, warps, mask))

    def after(self, pc: int) -> int:
        """Return the next instruction."""
        return self.program.flow.following(pc)

    def enter(self, group: Group) -> None:
        self.machine.see(group.warps, group.mask)

    def _end(self, warps: Ints, mask: Bools) -> None:
        self.machine.live[warps] &= ~mask
