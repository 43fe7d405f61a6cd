"""What stops an emulation.

    ProgramFailed
    ├── Unsupported     an instruction whose result is needed and that the emulator does not know
    ├── MemoryFault     an address that the program must not access
    └── Stuck           threads wait for each other for ever, as far as the emulator can tell
    TimeLimit
    └── Endless         more instructions than the limit

``offset`` is that of the instruction, in bytes from the function's start, for the caller to find its source line.
"""

from __future__ import annotations

from ncu_swizzle.errors import ProgramFailed, TimeLimit


class Unsupported(ProgramFailed):
    """Names the instruction."""

    def __init__(self, offset: int, sass: str, why: str = "is not emulated") -> None:
        super().__init__(f"{sass!r} at {offset:#x} {why}", "--engine ncu measures it on a GPU")
        self.offset = offset
        self.sass = sass


class MemoryFault(ProgramFailed):
    """Names the thread, the block and the address: the program's own fault."""

    def __init__(self, offset: int, sass: str, what: str, thread: tuple[int, ...], block: tuple[int, ...]) -> None:
        super().__init__(
            f"{sass!r} at {offset:#x}: {what}, thread {thread} of block {block}",
            "compute-sanitizer finds it on a GPU; is the launch given enough dynamic shared memory?",
        )
        self.offset = offset
        self.thread = thread
        self.block = block


class Stuck(ProgramFailed):
    """Names the instruction that threads wait at."""

    def __init__(self, offset: int, sass: str, why: str) -> None:
        super().__init__(f"{sass!r} at {offset:#x}: {why}", "--engine ncu measures the kernel on a GPU")
        self.offset = offset


class Endless(TimeLimit):
    """Names the instruction that was reached at the limit."""

    def __init__(self, offset: int, sass: str, limit: int) -> None:
        super().__init__(
            f"still running after {limit} steps, at {sass!r} ({offset:#x}): an endless loop, or a large problem",
            "a smaller problem, or a larger limit",
        )
        self.offset = offset
