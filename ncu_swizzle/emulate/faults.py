"""Errors that stop an emulation.

    ProgramFailed
    ├── Unsupported     an instruction whose result is needed but that is not emulated
    ├── MemoryFault     an invalid address
    └── Stuck           a deadlock, as far as the emulator can tell
    TimeLimit
    └── Endless         more instructions than the limit

``offset`` is the instruction's offset in bytes from the function's start, from which a caller finds the source line.
"""

from __future__ import annotations

from ncu_swizzle.errors import ProgramFailed, TimeLimit


class Unsupported(ProgramFailed):
    """An instruction that is not emulated."""

    def __init__(self, offset: int, sass: str, why: str = "is not emulated") -> None:
        super().__init__(f"{sass!r} at {offset:#x} {why}", "--engine ncu measures it on a GPU")
        self.offset = offset
        self.sass = sass


class MemoryFault(ProgramFailed):
    """An invalid access by the program, with its thread, block and address."""

    def __init__(self, offset: int, sass: str, what: str, thread: tuple[int, ...], block: tuple[int, ...]) -> None:
        super().__init__(
            f"{sass!r} at {offset:#x}: {what}, thread {thread} of block {block}",
            "compute-sanitizer finds it on a GPU; does the launch have enough dynamic shared memory?",
        )
        self.offset = offset
        self.thread = thread
        self.block = block


class Stuck(ProgramFailed):
    """A deadlock, with the instruction at which threads wait."""

    def __init__(self, offset: int, sass: str, why: str) -> None:
        super().__init__(f"{sass!r} at {offset:#x}: {why}", "--engine ncu measures the kernel on a GPU")
        self.offset = offset


class Endless(TimeLimit):
    """The step limit, with the instruction that was reached."""

    def __init__(self, offset: int, sass: str, limit: int) -> None:
        super().__init__(
            f"still running after {limit} steps, at {sass!r} ({offset:#x}): an endless loop, or a large problem",
            "a smaller problem, or a larger limit",
        )
        self.offset = offset
