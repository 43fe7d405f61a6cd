"""Instructions, their counts and totals: counts are stored, ratios are properties."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ncu_swizzle.base.errors import DamagedFile
from ncu_swizzle.base.traffic import NO_TRAFFIC, Pattern, Traffic
from ncu_swizzle.base.validate import Count
from ncu_swizzle.cubin.lines import Location, is_wmma
from ncu_swizzle.smem.opcodes import opcodes_with, row

if TYPE_CHECKING:
    from ncu_swizzle.smem.requests import AccessRequests


# The shared-memory requests in a saved emulated profile: packed, as a kernel makes thousands.

KEPT = 1 << 10  # distinct requests per instruction
SHARED_BYTES = 1 << 20  # beyond any address in shared memory
LANES = 32
NO_SOURCE = -1  # of a lane of a copy that writes zeros


@dataclass(frozen=True, kw_only=True)
class SavedRequests:
    """The distinct requests of the instruction at `pc`: `count` of them, over the blocks that ran.

    `packed` is Base64 of zlib of little-endian 64-bit integers, for each request: how often it is made, the mask of
    active lanes, 32 byte addresses in shared memory and, if it is a `copy`, 32 relative global addresses that it reads,
    -1 for zeros.
    `complete` is whether these are all.
    """

    pc: Count
    op: str
    count: Count
    copy: bool
    complete: bool
    packed: str

    @classmethod
    def of(cls, pc: int, requests: AccessRequests) -> SavedRequests:
        """Return an instruction's requests, the most frequent ones if there are many."""
        import numpy as np

        if len(requests.times) > KEPT:
            frequent = np.sort(np.argsort(-requests.times, kind="stable")[:KEPT])
            requests = replace(requests.chosen(frequent), complete=False)
        # Bit n of a request's mask: lane n is active.
        lanes = (requests.active.astype(np.int64) << np.arange(LANES)).sum(axis=1)
        sources = [] if requests.source is None else [requests.source]
        parts = [requests.times[:, None], lanes[:, None], requests.addresses, *sources]
        table = np.concatenate(parts, axis=1).astype("<i8")
        return cls(
            pc=pc,
            op=requests.op,
            count=len(requests.times),
            copy=requests.source is not None,
            complete=requests.complete,
            packed=base64.b64encode(zlib.compress(table.tobytes())).decode(),
        )

    def unpacked(self) -> AccessRequests:
        """Return the requests; raise DamagedFile if they are not what `of` wrote."""
        import numpy as np

        from ncu_swizzle.base.errors import UsageError
        from ncu_swizzle.smem import operations
        from ncu_swizzle.smem.requests import AccessRequests

        columns = 2 + LANES * (2 if self.copy else 1)
        size = 8 * columns * self.count
        try:
            operations.find(self.op)
            if self.count > KEPT:
                raise ValueError("more requests than are kept")
            unzip = zlib.decompressobj()
            # One byte more than `count` requests have, so that a longer text is noticed without unpacking all of it.
            content = unzip.decompress(base64.b64decode(self.packed, validate=True), size + 1)
            if len(content) != size:
                raise ValueError("a different number of requests")
            table = np.frombuffer(content, "<i8").reshape(self.count, columns).astype(np.int64)
            times, lanes, addresses, source = np.split(table, (1, 2, 2 + LANES), axis=1)
            negative = (table[:, : 2 + LANES] < 0).any() or (source < NO_SOURCE).any()
            if negative or (addresses >= SHARED_BYTES).any() or (lanes >> LANES).any() or (times < 1).any():
                raise ValueError("impossible values")
        except (ValueError, binascii.Error, zlib.error, UsageError) as error:
            raise DamagedFile(
                f"the requests of the instruction at {self.pc:#x} are damaged: {error}", "profile the kernel again"
            ) from error
        active = (lanes >> np.arange(LANES) & 1).astype(bool)
        return AccessRequests(
            op=self.op,
            places=addresses.astype(np.int32),
            active=active,
            times=times[:, 0],
            source=source if self.copy else None,
            complete=self.complete,
        )


Key = TypeVar("Key", bound=Hashable)
Amount = TypeVar("Amount", int, float)
UNKNOWN = "unknown"  # the kind of an access whose SASS the report lacks
NEVER = "@!PT"  # the guard of instructions that are never executed, such as the loads around cp.async
# The transfer that each kind of shared-memory access makes.
TRANSFERS = {name: row(name).transfer for name in opcodes_with(lambda each: bool(each.transfer))}


class Ratios:
    """The ratios of anything with wavefronts, ideal wavefronts and executions."""

    executed: int | None
    wavefronts: int | None
    ideal: int | None

    @property
    def implausible(self) -> bool:
        """Whether the wavefronts are fewer than the ideal, which ncu never reports: the file is damaged or changed."""
        return self.wavefronts is not None and self.ideal is not None and self.wavefronts < self.ideal

    @property
    def excessive(self) -> int | None:
        """Wavefronts beyond the ideal; None if unknown or implausible."""
        if self.wavefronts is None or self.ideal is None or self.implausible:
            return None
        return self.wavefronts - self.ideal

    @property
    def degree(self) -> float | None:
        """Actual over ideal wavefronts, 1 without conflicts; None if there are none, unknown or implausible."""
        return (
            self.wavefronts / self.ideal
            if self.wavefronts is not None and self.ideal and not self.implausible
            else None
        )


@dataclass(frozen=True)
class Instruction(Ratios):
    """One SASS instruction. `executed` counts warps, `samples` warp samples per stall reason.

    `stack` is its source location: the innermost inlined function's file and line first, then its callers'. `at` is
    the index in the stack of the location that ncu shows.
    """

    pc: Count
    sass: str
    opcode: str
    access: str = ""
    stack: tuple[Location, ...] = ()
    executed: Count | None = None
    wavefronts: Count | None = None
    ideal: Count | None = None
    samples: Mapping[str, Count] = field(default_factory=dict)
    at: Count = 0
    traffic: Traffic = NO_TRAFFIC  # threads, sectors, tags, divergence
    pattern: Pattern | None = None  # of an emulated access to global memory

    @property
    def named(self) -> Location | None:
        """The location that ncu shows for it; None if there is none."""
        return self.stack[min(self.at, len(self.stack) - 1)] if self.stack else None

    @property
    def all_samples(self) -> int:
        """The warp samples of all stall reasons."""
        return sum(self.samples.values())

    @property
    def never(self) -> bool:
        """Whether it is never executed because its guard is always false."""
        return self.sass.startswith(NEVER)

    @property
    def by_wmma(self) -> bool:
        """Whether nvcuda::wmma computes its addresses, from a leading dimension."""
        return any(is_wmma(file) for file, _ in self.stack)

    @property
    def file(self) -> str:
        return self.stack[0][0] if self.stack else ""

    @property
    def line(self) -> int:
        return self.stack[0][1] if self.stack else 0


@dataclass(frozen=True, kw_only=True)
class Total(Ratios):
    """The sums over several instructions, such as all of one access kind or one source line.

    If the wavefronts of some accesses are unknown, `counted` has the sums over the others: the least that it can be.
    """

    executed: int | None
    wavefronts: int | None
    ideal: int | None
    samples: int = 0
    counted: Total | None = None

    @property
    def known(self) -> Total:
        """The sums over the accesses that could be counted."""
        return self.counted or self


def added(parts: Iterable[Instruction]) -> Total:
    instructions = list(parts)
    known = [i for i in instructions if not i.access or i.wavefronts is not None]
    partly = len(known) < len(instructions) and any(i.access for i in known) and not any(i.implausible for i in known)
    return Total(
        counted=added(known) if partly else None,
        executed=_sum_of_some(i.executed for i in instructions),
        wavefronts=_sum_of_some(i.wavefronts for i in instructions if i.access or i.wavefronts is not None),
        ideal=_sum_of_some(None if i.implausible else i.ideal for i in instructions if i.access or i.ideal is not None),
        samples=sum(sum(i.samples.values()) for i in instructions),
    )


def _sum_of_some(counts: Iterable[int | None]) -> int | None:
    """Return the sum; None if there is nothing to add, or anything is unknown."""
    values = list(counts)
    return known_sum(values) if values else None


def known_sum(counts: Iterable[Amount | None]) -> Amount | None:
    """Return the sum; None if any count is unknown."""
    total: Any = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return cast(Amount, total)


def grouped(instructions: Iterable[Instruction], keys: Callable[[Instruction], Iterable[Key]]) -> dict[Key, Total]:
    groups: dict[Key, list[Instruction]] = {}
    for instruction in instructions:
        for key in keys(instruction):
            groups.setdefault(key, []).append(instruction)
    return {name: added(group) for name, group in groups.items()}
