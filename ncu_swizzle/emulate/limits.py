"""What an emulation may take: time, and memory by what grows with the program. Together they stay below 1 GiB."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ncu_swizzle.emulate.faults import Spent
from ncu_swizzle.errors import TimeLimit

Progress = Callable[[int, int, int], None]  # blocks accounted for, all blocks, instructions that warps have issued
TOLD_EVERY_S = 0.25
TIMEOUT_S = 600.0
WARPS_AT_ONCE = 2048  # over all blocks that run together: at most 32 KiB of registers each
SHARED_BYTES = 64 << 20  # of shared-memory contents, over all blocks that run together
ISSUED_BYTES = 64 << 20  # of the table of issue counts, one per instruction and block
LOCAL_BYTES = 256 << 20  # of local memory, over all threads that run together
ARRAY_BYTES = 128 << 20  # of known contents of arrays in global memory
SEEN_BYTES = 16 << 20  # of requests that are not counted yet
SHIFTED_BYTES = 8 << 20  # of requests of iterations that are added at once
DISTINCT_REQUESTS = 1 << 14  # kept per instruction, for advice; all of them are counted
CACHED_ROWS, CACHED_REQUESTS = 64, 1 << 10  # whose wavefronts are kept: of so many requests together, so many times
KINDS = 1 << 20  # of blocks that are told apart
# Basic blocks that groups of warps run: in a kernel that accesses no shared memory; in the first block of a grid that
# is not large, before the rest of the grid runs beside it.
ASIDE_STEPS, ALONE_STEPS = 10_000, 1_000
# Effort is counted in instructions of warps. NumPy takes as long to begin an instruction as to execute it for so many.
BEGINNING = 50
LONG_EFFORT = 12_000_000  # after which counts are tried that follow no data, about as many microseconds
WITHOUT_DATA_EFFORT = 16_000_000  # what these may take
FUTILE_EFFORT = 2_000_000  # after which they are given up if every branch was followed as with data


@dataclass
class Clock:
    """When an emulation has to end, and how far it is: blocks accounted for, instructions issued by warps."""

    timeout_s: float = TIMEOUT_S
    start: float = field(default_factory=time.monotonic)
    issued: int = 0
    covered: int = 0
    blocks: int = 1
    on_progress: Progress | None = None
    steps: int = 0  # basic blocks that groups of warps ran
    most_steps: float | None = None
    effort: int = 0
    most_effort: float = math.inf
    lost: int = 0  # branches on unknown conditions
    aside: Callable[[], None] | None = None  # what to do, once, after so much effort
    aside_effort: int = 0
    _told: float = 0.0

    @property
    def left_s(self) -> float:
        return self.start + self.timeout_s - time.monotonic()

    @property
    def expired(self) -> bool:
        return self._spent or self.left_s < 0

    @property
    def _spent(self) -> bool:
        return self.effort > self.most_effort or (self.most_steps is not None and self.steps > self.most_steps)

    def ran(self, warps: int, instructions: int) -> None:
        """Record that warps ran instructions of a basic block, and tell of it."""
        self.issued += warps * instructions
        self.steps += 1
        self.effort += (warps + BEGINNING) * instructions
        self.tell()
        if self.aside is not None and self.effort > self.aside_effort:
            aside, self.aside = self.aside, None
            aside()

    @contextmanager
    def limited(self, steps: int) -> Iterator[None]:
        """Let what runs inside take so many steps, whose number does not depend on the machine. Raises Spent."""
        before = self.most_steps
        self.most_steps = min(self.steps + steps, math.inf if before is None else before)
        try:
            yield
        except TimeLimit as error:
            if not self._spent:
                raise
            raise Spent(f"more than {steps:,} steps") from error
        finally:
            self.most_steps = before

    def tell(self, always: bool = False) -> None:
        """Report how far it is, unless that was done just now."""
        if self.on_progress and (always or time.monotonic() - self._told > TOLD_EVERY_S):
            self._told = time.monotonic()
            self.on_progress(self.covered, self.blocks, self.issued)


def blocks_at_once(threads: int, shared_bytes: int, local_bytes: int, instructions: int) -> int:
    """Return how many blocks can run side by side, given what one takes; 0 bytes if contents are not tracked."""
    by_warps = WARPS_AT_ONCE // math.ceil(threads / 32)
    by_shared = SHARED_BYTES // (2 * shared_bytes) if shared_bytes else by_warps
    by_local = LOCAL_BYTES // (2 * local_bytes) if local_bytes else by_warps
    return max(1, min(by_warps, by_shared, by_local, ISSUED_BYTES // (8 * (instructions + 1))))
