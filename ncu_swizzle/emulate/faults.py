"""Errors that stop an emulation."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from ncu_swizzle.base.errors import Hint, NcuSwizzleError, ProgramFailed, TimeLimit, Typed
from ncu_swizzle.emulate.code import Sass, SassInstruction

#     ProgramFailed
#     ├── Unsupported     an instruction whose result is needed but that is not emulated
#     ├── MemoryFault     an invalid address
#     ├── Stuck           what looks like a deadlock to the emulator
#     ├── Broken          a bug in the emulator, with the line to report
#     ├── Enough          a run that only looks for something has seen enough
#     └── TooLarge        more local memory, or more kinds of blocks, than the limit
#     TimeLimit
#     ├── Endless         the threads run longer than the limit
#     ├── Circling        the threads would run forever
#     ├── Spent           a run needs more steps than it was given
#     └── ManyKinds       so many blocks differ that the grid is not covered within the limit
#
# ``offset`` is the instruction's offset in bytes from the function's start, from which a caller finds the source line.


GPU = "measure it on a GPU: ncu-swizzle profile with --engine ncu"
HINT = Hint("raise the limit with ", Typed("--budget SECONDS"), ", or choose a smaller --problem or --grid")


class Restart(Exception):
    """The emulation has to start over, or do without what it tried: not a bug in the emulator."""


class Unsupported(ProgramFailed):
    """An instruction that is not emulated."""

    def __init__(self, offset: int, sass: str, why: str = "is not emulated") -> None:
        super().__init__(f"{sass!r} at {offset:#x} {why}", GPU)
        self.offset = offset


class MemoryFault(ProgramFailed):
    """An invalid access by the program.

    `beyond` is whether the address is aligned, but outside of the block's shared memory.
    """

    beyond = False

    def __init__(self, offset: int, sass: str, what: str, thread: tuple[int, ...], block: tuple[int, ...]) -> None:
        super().__init__(
            f"{sass!r} at {offset:#x}: {what}, thread {thread} of block {block}", "fix the address that it computes"
        )
        self.offset = offset


class Stuck(ProgramFailed):
    """A deadlock, with the instruction at which threads wait."""

    def __init__(self, offset: int, sass: str, why: str) -> None:
        super().__init__(f"{sass!r} at {offset:#x}: {why}", GPU)
        self.offset = offset


class Broken(ProgramFailed):
    """A bug in the emulator, with the instruction that it fails on."""

    def __init__(self, offset: int, sass: str, error: Exception) -> None:
        super().__init__(
            f"the emulator fails on {sass!r} at {offset:#x}, a bug in the emulator",
            f"report this line: {sass} | {mistake(error)}; meanwhile, {GPU}",
        )
        self.offset = offset


def mistake(error: Exception) -> str:
    """Describe an internal error, with the function that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].name}" if frames else ""
    return f"{type(error).__name__}{where}: {error}"


class Enough(ProgramFailed):
    """A run has seen what it was looking for."""


@contextmanager
def blaming(instruction: Sass | SassInstruction) -> Iterator[None]:
    """Turn what is raised inside into `Broken` with this instruction, unless it is our own error or the machine's."""
    try:
        yield
    except (NcuSwizzleError, MemoryError):
        raise
    except Exception as error:
        raise Broken(instruction.offset, instruction.text, error) from error


class TooLarge(ProgramFailed):
    """A limit on what the emulator keeps in memory."""

    def __init__(self, what: str) -> None:
        super().__init__(what, f"a smaller --problem or --grid takes less; or {GPU}")


class Endless(TimeLimit):
    """The time limit, with the instruction that was reached."""

    def __init__(self, offset: int, sass: str, timeout_s: float, issued: int) -> None:
        super().__init__(
            f"still running after {timeout_s:g} s on the CPU and {issued:,} instructions of warps, at {sass!r} "
            f"({offset:#x}): an endless loop, or a large problem",
            HINT,
        )
        self.offset = offset


class Circling(TimeLimit):
    """A loop that never ends, with the instruction at its end."""

    def __init__(self, offset: int, sass: str) -> None:
        super().__init__(
            f"an endless loop at {sass!r} ({offset:#x}): nothing changes from one iteration to the next",
            f"let it end without other blocks, kernels or the host; or {GPU}",
        )
        self.offset = offset


class Spent(TimeLimit):
    """A run has used up its steps."""


class ManyKinds(TimeLimit):
    """The time limit, with how much of the grid was covered."""

    def __init__(self, covered: int, blocks: int, timeout_s: float) -> None:
        super().__init__(
            f"after {timeout_s:g} s on the CPU, {covered:,} of the grid's {blocks:,} blocks are covered: their "
            f"accesses or branches differ from block to block",
            HINT,
        )
