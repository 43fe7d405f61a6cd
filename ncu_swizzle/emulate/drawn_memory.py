"""Compare two versions of a kernel by what they leave in a memory that holds something at every address.

Nobody says what the arrays hold, nor how large they are: a page is drawn when it is first accessed, the same for both
versions. So a difference between what they leave is real: both have read the same, and act differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.constant_banks import known_constants
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.device_memory import DeviceMemory
from ncu_swizzle.emulate.execution import Execution, execute
from ncu_swizzle.emulate.faults import TooLarge
from ncu_swizzle.emulate.machine import Machine
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.values import Bits
from ncu_swizzle.smem.access import Index
from ncu_swizzle.smem.operations import Ints

PAGE = 1 << 12  # bytes
MOST_PAGES = 1 << 14
BEGINNING = 16  # pages that there is room for at first
NO_PAGE = 1 << 52  # numbers from here on are of no address


@dataclass(eq=False)
class DrawnMemory(DeviceMemory):
    """Memory of any address, (B, 4096) bytes so far; `bases` are the numbers of its pages, ascending."""

    number: int = 0  # of the draw: even ones have floats, odd ones integers
    given: Mapping[int, bytes] = field(default_factory=dict)  # contents that are known, by address
    pages: int = 0
    zeros_in_shared: ClassVar[bool] = True  # in both versions: what is never written then looks alike wherever it lies

    @classmethod
    def of(cls, number: int, given: Mapping[int, bytes] | None = None) -> Self:
        """Return the memory of a draw, with what is known of it."""
        content, known = np.zeros((2, BEGINNING * PAGE), np.uint8)
        by, who = np.zeros((2, BEGINNING * PAGE), np.int64)
        return cls(content, known, (), np.zeros(0, np.int64), by, who, number=number, given=given or {})

    def places_of(self, m: Machine, address: Ints, size: int, whose: Callable[[int], tuple[Index, Index]]) -> Ints:
        """Return where in `content` aligned accesses of `size` bytes go, (n,), wherever that is; raise MemoryFault."""
        wrong = address % size != 0
        if wrong.any():
            raise self._fault(m, int(address[wrong][0]), size, whose(int(wrong.argmax())))
        numbers, which = np.unique(address // PAGE, return_inverse=True)
        for page in np.setdiff1d(numbers, self.bases).tolist():
            self._add(page)
        found: Ints = self.starts[np.searchsorted(self.bases, numbers)][which] + address % PAGE
        return found

    def _add(self, page: int) -> None:
        if self.pages == MOST_PAGES:
            raise TooLarge(f"blocks access more than {MOST_PAGES * PAGE >> 20} MiB of global memory")
        start, at = self.pages * PAGE, int(np.searchsorted(self.bases, page))
        if start == len(self.content):
            self.content, self.known, self.by, self.who = (
                np.concatenate([each, np.zeros_like(each)]) for each in (self.content, self.known, self.by, self.who)
            )
        self.content[start : start + PAGE], self.known[start : start + PAGE] = self.drawn(page), 1
        self.bases, self.starts = np.insert(self.bases, at, page), np.insert(self.starts, at, start)
        self.pages += 1

    def drawn(self, page: int) -> Bits:
        """Return what a page holds at launch."""
        words = np.random.default_rng((self.number, page)).integers(0, 1 << 32, PAGE // 4, np.uint32)
        if self.number % 2:  # below 4096, and many of them much smaller
            words = (words & np.uint32(0xFFF)) >> (words >> np.uint32(16)) % np.uint32(12)
        else:  # between 2^-31 and 2^0 as a float, between 2^-3 and 2^0 as two halves: no sum or product overflows
            words = words & np.uint32(0x8FFF8FFF) | np.uint32(0x30003000)
        content: Bits = words.view(np.uint8)
        for address, given in self.given.items():
            first, end = max(address, page * PAGE), min(address + len(given), (page + 1) * PAGE)
            if first < end:
                piece = np.frombuffer(given, np.uint8)[first - address : end - address]
                content[first - page * PAGE : end - page * PAGE] = piece
        return content

    def written(self) -> tuple[Ints, Ints]:
        """Return the addresses of all bytes that were written, ascending, and where they are in `content`."""
        of_slot = self.bases[np.argsort(self.starts)]
        places = np.flatnonzero(self.by)
        addresses = of_slot[places // PAGE] * PAGE + places % PAGE
        order = np.argsort(addresses)
        return addresses[order], places[order]


def left_behind(code: Code, launch: Launch, blocks: Ints, number: int, clock: Clock) -> Execution:
    """Execute some blocks, (B, 3), on the memory of a draw. Raises one of `faults`."""
    memory = DrawnMemory.of(number, launch.memory)
    banks = dict(launch.constants)
    for bank, known in known_constants(code, launch).items():  # what the host fills is drawn as well
        content = np.frombuffer(launch.constants.get(bank, code.constants.get(bank, b"")), np.uint8)
        banks[bank] = np.where(known, content, np.resize(memory.drawn(NO_PAGE + bank), len(content))).tobytes()
    return execute(code, replace(launch, constants=banks, unknown_constants={}), memory, clock, blocks)


def difference(old: Execution, new: Execution) -> str:
    """Describe how what the new version has left differs; empty if it does not, or is not known."""
    if untold(old) or untold(new):
        return ""
    (at, first), (other, second) = (each.memory.written() for each in (old, new))  # type: ignore[attr-defined]
    if not np.array_equal(at, other):
        return "other bytes are stored"
    known, still = old.memory.known[first], new.memory.known[second]
    differ = (old.memory.content[first] != new.memory.content[second]) & (known != 0)
    return "other values are stored" if (known != still).any() or differ.any() else ""


def untold(execution: Execution) -> str:
    """Return why it is not known what an execution has left; empty if it is."""
    return execution.memory.lost or next((f"{each} is not computed" for each in execution.unknown), "")
