"""The recordings from the H100."""

from collections.abc import Callable

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.reports import container
from ncu_swizzle.reports.model import Profile
from tests.support.places import PROGRAMS, RECORDINGS


def embedded(name: str) -> Cubin:
    (report,) = RECORDINGS.glob(f"*/{name}.ncu-rep")
    return Cubin(container.inspect(report).results[0].cubin, name)


REPORTS = [*sorted(PROGRAMS.glob("*.ncu-rep")), *sorted((RECORDINGS / "attention").glob("*.ncu-rep"))]


KERNELS = ("kernel1", "kernel2", "reference-attention")

Recorded = Callable[[str], Profile]


def faster(recorded: Recorded, before: str, after: str) -> str:
    """Return how many times as fast one recorded kernel is as another."""
    durations = [recorded(name).duration_ns for name in (before, after)]
    assert durations[0]
    assert durations[1]
    return f"{durations[0] / durations[1]:.2f}"
