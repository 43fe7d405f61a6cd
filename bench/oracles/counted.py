"""What ncu counted of recorded launches next to what is computed of them: each access, and figures of instructions."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from ncu_swizzle.base.traffic import Traffic
from ncu_swizzle.engines import emulation
from tests.support.python_kernels import launched, recorded


def figures(ours: Iterable[tuple[int, Traffic]], theirs: Mapping[int, Mapping[str, int]]) -> Counter[str]:
    """Return how many of ncu's figures of threads, memory and branches are equal, different and unknown, by offset."""
    computed = {offset: traffic.known for offset, traffic in ours}
    tally: Counter[str] = Counter()
    for offset, counts in theirs.items():
        here = computed.get(offset, {})
        for name, count in counts.items():
            tally["unknown" if name not in here else "equal" if here[name] == count else "different"] += 1
    return tally


@dataclass(frozen=True)
class Counted:
    """One access: its offset, SASS opcode and line, and its counts on the GPU and here; None if unknown."""

    offset: int
    opcode: str
    line: str
    measured: tuple[int | None, ...]  # executed, wavefronts, ideal
    computed: tuple[int | None, ...]

    @property
    def unknown(self) -> bool:
        return None in self.computed

    @property
    def equal(self) -> bool:
        return self.measured == self.computed


@dataclass(frozen=True)
class CountedKernel:
    """A recorded kernel: its compiler, its accesses, and why some are unknown."""

    name: str
    compiler: str
    accesses: tuple[Counted, ...]
    notes: tuple[str, ...] = ()
    figures: Counter[str] = field(default_factory=Counter)  # of threads, memory and branches: equal, different, unknown

    @property
    def equal(self) -> int:
        return sum(access.equal for access in self.accesses)

    @property
    def unknown(self) -> int:
        return sum(access.unknown for access in self.accesses)

    @property
    def different(self) -> int:
        return len(self.accesses) - self.equal - self.unknown


def counted(name: str) -> CountedKernel:
    """Emulate a recorded launch and hold every instruction against ncu's counts."""
    content, cubins = recorded()
    facts = content["kernels"][name]
    profile = emulation.emulate_cubin(launched(name), cubins[name], facts["compiler"]).profile
    here = {access.pc: access for access in profile.instructions if access.access}
    accesses = []
    for offset, opcode, _, executed, wavefronts, ideal, *line in facts["counts"]["accesses"]:
        access = here.get(offset)
        computed = (access.executed, access.wavefronts, access.ideal) if access else (None, None, None)
        place = f"{Path(line[0][0]).name}:{line[0][1]}" if line else ""
        accesses.append(Counted(offset, opcode, place, (executed, wavefronts, ideal), computed))
    ours = ((each.pc, each.traffic) for each in profile.instructions)
    theirs = {int(offset): counts for offset, counts in facts["counts"].get("columns", {}).items()}
    return CountedKernel(name, facts["compiler"], tuple(accesses), profile.notes, figures(ours, theirs))
