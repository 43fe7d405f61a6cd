"""The recordings from the H100."""

from __future__ import annotations

from collections.abc import Callable

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.ncurep import container
from ncu_swizzle.profiles.model import Profile
from tests.support.places import PROGRAMS, RECORDINGS


def embedded(name: str) -> Cubin:
    (report,) = RECORDINGS.glob(f"*/{name}.ncu-rep")
    return Cubin(container.inspect(report).results[0].cubin, name)


REPORTS = [*sorted(PROGRAMS.glob("*.ncu-rep")), *sorted((RECORDINGS / "attention").glob("*.ncu-rep"))]


KERNELS = ("kernel1", "kernel2", "reference-attention")

Recorded = Callable[[str], Profile]
