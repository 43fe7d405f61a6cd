"""What a launches file holds: plain data, and the bytes that it names by their SHA-256."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ncu_swizzle.profiles.model import MachineInfo
from ncu_swizzle.validate import Count, Within

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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
