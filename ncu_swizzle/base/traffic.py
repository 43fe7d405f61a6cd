"""ncu's other counts of an instruction besides warps and shared memory: threads, sectors, tags, divergence.

Measured, recorded and computed profiles share the record; its fields are ncu's per-instruction columns, by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

from ncu_swizzle.base.validate import Count

SECTOR = 32  # bytes


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """The counts over a launch. None: unknown, not collected, or not a count of such an instruction.

    Loads, stores, copies and atomics in global memory have `sectors`, `ideal` and `tags`; those in local memory
    `local_sectors`; those through generic addresses all four; branches `divergent`.
    """

    threads: Count | None = None  # that executed it
    predicated_on: Count | None = None  # those whose guard held
    sectors: Count | None = None  # of global memory, 32 bytes each
    ideal: Count | None = None  # the fewest that hold the requested bytes
    tags: Count | None = None  # lookups of 128-byte lines in L1
    local_sectors: Count | None = None
    divergent: Count | None = None  # paths beyond the first that threads of a warp took

    @property
    def excessive(self) -> int | None:
        """Sectors of global memory beyond the ideal; None if unknown, or below it, which ncu never counts."""
        if self.sectors is None or self.ideal is None or self.sectors < self.ideal:
            return None
        return self.sectors - self.ideal

    @property
    def excessive_bytes(self) -> int | None:
        """Bytes that the excessive sectors hold."""
        return None if self.excessive is None else SECTOR * self.excessive

    @property
    def known(self) -> dict[str, int]:
        """The counts that are not None, by field."""
        return {name: count for name, count in asdict(self).items() if count is not None}

    @classmethod
    def total(cls, counts: Iterable[Traffic]) -> Traffic:
        """Return the sums of the counts; unknown ones are left out, like missing ones."""
        sums: dict[str, int] = {}
        for traffic in counts:
            for name, count in traffic.known.items():
                sums[name] = sums.get(name, 0) + count
        return cls(**sums)


@dataclass(frozen=True, kw_only=True)
class Pattern:
    """The access pattern of an emulated instruction in global memory, over all of its requests.

    `x`, `y`, `z`: the bytes from a thread to its neighbour along threadIdx.x, .y and .z; `block_x`, `block_y`,
    `block_z`: to the same thread of the next block; `loop`: from one iteration of its innermost loop to the next. None:
    not always the same, or not known.
    """

    width: Count  # bytes that each thread accesses
    x: int | None = None
    y: int | None = None
    z: int | None = None
    block_x: int | None = None
    block_y: int | None = None
    block_z: int | None = None
    loop: int | None = None
    unaligned: bool = False  # requests without gaps take more sectors than are ideal
    gaps: bool = False  # requests with bytes between their threads' do
    vector: Count = 0  # bytes of an always aligned access that could replace this one and its neighbours; 0: none
    vector_sectors: Count | None = None  # that it would take; None except for the first access that it replaces


NO_TRAFFIC = Traffic()
FIELDS = tuple(field.name for field in fields(Traffic))
# ncu's names, by field.
METRICS: Mapping[str, str] = {
    "threads": "thread_inst_executed",
    "predicated_on": "thread_inst_executed_true",
    "sectors": "memory_l2_theoretical_sectors_global",
    "ideal": "memory_l2_theoretical_sectors_global_ideal",
    "tags": "memory_l1_tag_requests_global",
    "local_sectors": "memory_l2_theoretical_sectors_local",
    "divergent": "smsp__branch_targets_threads_divergent",
}
