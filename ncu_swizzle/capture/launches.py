"""What a launches file holds, as plain data; and the filter that chooses launches by name before they are emulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.validate import Count, Within
from ncu_swizzle.cubin.demangled import demangle, function
from ncu_swizzle.cubin.symbols import KernelFilter
from ncu_swizzle.reports.model import MachineInfo

# What a launches file holds: plain data, and the bytes that it names by their SHA-256.


GPU, DRY = "gpu", "dry"

Size = Annotated[int, Within(1, 1 << 31)]  # of a grid or a block, along one axis
Shared = Annotated[int, Within(0, 1 << 20)]
Offset = Annotated[int, Within(0, 1 << 16)]
Sizes = tuple[Size, Size, Size]


@dataclass(frozen=True)
class Contents:
    """Bytes of device memory before the launch: the SHA-256 of what they were; empty if unknown, with the reason."""

    sha256: str = ""
    why: str = ""


@dataclass(frozen=True)
class CapturedBuffer:
    """An allocation that a word of the parameters points into."""

    address: Count
    bytes: Count
    contents: Contents = Contents()


@dataclass(frozen=True)
class CapturedVariable:
    """A variable of the module, in global or constant memory, by the name of its symbol."""

    name: str
    bytes: Count
    contents: Contents = Contents()


@dataclass(frozen=True)
class CapturedParameter:
    """A parameter's offset from the first one, and its bytes in hex."""

    offset: Offset
    value: str

    @property
    def bytes(self) -> bytes:
        return bytes.fromhex(self.value)


@dataclass(frozen=True, kw_only=True)
class CapturedLaunch:
    """One launch: the kernel's mangled name, its cubin's SHA-256, sizes, dynamic shared memory in bytes, parameters."""

    index: Count
    kernel: str
    cubin: str
    grid: Sizes
    block: Sizes
    cluster: tuple[Size, ...]  # empty if the launch names none
    shared: Shared
    parameters: tuple[CapturedParameter, ...]
    buffers: tuple[CapturedBuffer, ...] = ()
    variables: tuple[CapturedVariable, ...] = ()
    graph: bool = False  # of a CUDA graph

    @property
    def layout(self) -> tuple[tuple[int, int], ...]:
        """Offset and size of each parameter, in bytes."""
        return tuple((parameter.offset, len(parameter.value) // 2) for parameter in self.parameters)

    @property
    def parts(self) -> tuple[CapturedBuffer | CapturedVariable, ...]:
        """The buffers and the variables."""
        return (*self.buffers, *self.variables)

    @property
    def contents(self) -> tuple[Contents, ...]:
        return tuple(part.contents for part in self.parts)


@dataclass(frozen=True)
class CapturedProgram:
    """The program: its name, and its arguments unless they were left out."""

    name: str
    arguments: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything in a launches file but the bytes of cubins and memory, whose sizes it has by their SHA-256."""

    origin: str  # GPU, or DRY: no kernel ran, so what one wrote another did not read
    generator: str
    when: str  # ISO 8601, UTC
    machine: MachineInfo
    program: CapturedProgram
    commit: str
    launches: tuple[CapturedLaunch, ...]
    cubins: dict[str, int]
    memory: dict[str, int]
    notes: tuple[str, ...] = ()


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
