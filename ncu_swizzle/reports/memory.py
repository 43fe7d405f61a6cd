"""Accesses to global memory: sectors per request with their ideal, how threads lie, and what would be better."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ncu_swizzle.base.traffic import Pattern, Traffic
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.reports.attribution import FrameOwners, Here, nowhere
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem import sectors
from ncu_swizzle.smem.operations import WARP

# Opcodes that access global memory at addresses of their lanes.
OPCODES = ("LDG", "STG", "LD", "ST", "LDGSTS", "RED", "REDG", "ATOM", "ATOMG")
LOCAL_OPCODES = ("LDL", "STL")
STRUCTURE = 64  # bytes: neighbours up to so far apart are members of structures, further ones rows
VECTORS = 16, 8  # bytes of vector loads and stores


@dataclass(frozen=True)
class MemoryLine:
    """The accesses of one opcode to global memory on one line, of the innermost own function."""

    access: str
    line: Location | None
    instructions: tuple[Instruction, ...]

    @property
    def unknown(self) -> tuple[Instruction, ...]:
        """Those whose sectors are unknown, though they ran or may have."""
        return tuple(each for each in self.instructions if each.traffic.excessive is None)

    @property
    def total(self) -> Traffic:
        return Traffic.total(each.traffic for each in self.instructions)

    @property
    def requests(self) -> int:
        return sum(each.executed or 0 for each in self.instructions)

    @property
    def ratio(self) -> float:
        """Sectors for each ideal one; 1 without any."""
        total = self.total
        return (total.sectors or 0) / total.ideal if total.ideal else 1.0

    @property
    def name(self) -> str:
        """The line as ``my.cu:23``; empty if it is not known."""
        return f"{self.line[0].rpartition('/')[2]}:{self.line[1]}" if self.line else ""

    @property
    def why(self) -> str:
        """How the threads lie, if that is why there is an excess; empty if that is not known."""
        return "; ".join(dict.fromkeys(map(lies, self.patterns)))

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns of those with excessive sectors."""
        return tuple(each.pattern for each in self.instructions if each.pattern and each.traffic.excessive)


def memory_lines(profile: Profile, here: Here = nowhere) -> list[MemoryLine]:
    """Return the accesses to global memory by line and opcode; none if the profile lacks their counts."""
    groups: dict[tuple[str, Location | None], list[Instruction]] = {}
    unknown = {offset for why in profile.unknown_traffic for offset in why.offsets}
    ownership = FrameOwners(profile, here)
    for each in profile.instructions:
        if each.traffic.sectors is not None or (each.pc in unknown and is_global(each)):
            groups.setdefault((kind(each), line_of(ownership, each)), []).append(each)
    return [MemoryLine(access, line, tuple(group)) for (access, line), group in groups.items()]


def by_opcode(profile: Profile) -> dict[str, MemoryLine]:
    """Return the accesses to global memory of a profile by opcode, each as if they were on one line."""
    groups: dict[str, list[Instruction]] = {}
    for line in memory_lines(profile):
        groups.setdefault(line.access, []).extend(line.instructions)
    return {access: MemoryLine(access, None, tuple(group)) for access, group in groups.items()}


@dataclass(frozen=True, kw_only=True)
class OpcodeRow:
    """One profile's accesses of an opcode; `worst` is the line with the most excessive sectors, if any has."""

    label: str
    group: MemoryLine
    worst: MemoryLine | None


def by_access(named: Iterable[tuple[str, Profile]]) -> dict[str, list[OpcodeRow]]:
    """Return the rows of each opcode that accesses global memory, a row per profile."""
    rows: dict[str, list[OpcodeRow]] = {}
    for label, profile in named:
        lines = memory_lines(profile)
        for access, group in by_opcode(profile).items():
            worst = max((line for line in lines if line.access == access), key=lambda line: line.total.excessive or 0)
            rows.setdefault(access, []).append(
                OpcodeRow(label=label, group=group, worst=worst if worst.total.excessive else None)
            )
    return rows


def advised(named: Iterable[tuple[str, Profile]]) -> tuple[str, ...]:
    """Return a sentence for the worst line of each opcode and profile: its sectors, how threads lie, what is better."""
    return tuple(
        f"{row.label}, {access} at {row.worst.name}: {judged(row.worst)}."
        for access, rows in by_access(named).items()
        for row in rows
        if row.worst
    )


def kind(instruction: Instruction) -> str:
    """Return the opcode without its modifiers: LDG, STG, RED, …"""
    return instruction.opcode.partition(".")[0]


def is_global(instruction: Instruction) -> bool:
    """Return whether an instruction may access global memory at its lanes' addresses."""
    return kind(instruction) in OPCODES and not instruction.never


def line_of(ownership: FrameOwners, instruction: Instruction) -> Location | None:
    return next(iter(ownership.own(instruction.stack)), None)


def judged(line: MemoryLine) -> str:
    """Return a line's sectors, and what would be better if that is known, as one sentence."""
    return "; ".join(filter(None, (in_sectors(line), advice(line))))


def in_sectors(line: MemoryLine) -> str:
    """Return a line's sectors per request with their ideal, the excess in bytes, and why, as one sentence."""
    total = line.total
    each = (f"{(count or 0) / max(1, line.requests):.4g}" for count in (total.sectors, total.ideal))
    said = f"{next(each)} sectors per request, ideally {next(each)}: {total.excessive_bytes or 0:,} excessive bytes"
    return f"{said}; {line.why}" if line.why else said


def lies(pattern: Pattern) -> str:
    """Return how neighbouring threads lie, if that is why there is an excess; empty if it is not known."""
    if pattern.unaligned and not pattern.gaps:
        return "the bytes of a warp are side by side, but begin inside of a sector"
    steps = {axis: step for axis, step in (("x", pattern.x), ("y", pattern.y), ("z", pattern.z)) if step is not None}
    apart = [f"threadIdx.{axis} are {abs(step):,} bytes apart" for axis, step in steps.items()]
    same = [f"threadIdx.{axis} have the same address" for axis, step in steps.items() if not step]
    far = [text for text, step in zip(apart, steps.values(), strict=True) if step]
    return f"neighbours along {' and '.join(far + same)}" if far else "the addresses of neighbours follow no stride"


# ---------------------------------------------------------------------------------------------- what would be better


def advice(line: MemoryLine) -> str:
    """Return what makes a line's accesses coalesced, and what that takes; empty if the addresses are not known."""
    patterns = line.patterns
    if not patterns:
        return ""
    if all(each.unaligned and not each.gaps for each in patterns):
        return "begin them at a multiple of 32 bytes: pad rows (cudaMallocPitch), or shift which thread does what"
    step = _step(line)
    if not step:
        return "let neighbouring threads access neighbouring elements, or stage them through shared memory"
    if vector := _vector(line, step):
        return vector
    if abs(step) <= STRUCTURE:
        return (
            "keep each member of the structures in an array of its own, or copy whole structures through shared memory"
        )
    return "let threadIdx.x run along the rows, or stage a tile through shared memory"


def staging(line: MemoryLine) -> str:
    """Return the command that shows a tile which is free of conflicts, written by rows and read by columns.

    Empty unless the line's threads walk down a column.
    """
    step = _step(line)
    if not step or abs(step) <= STRUCTURE or _vector(line, step):
        return ""
    width = line.patterns[0].width
    return f"ncu-swizzle explain '(32,32):(32,1)' --elem {width} --write row --read column --show mapping"


def _step(line: MemoryLine) -> int | None:
    """Return the bytes between neighbours along threadIdx.x, if they leave some out and are alike in all accesses."""
    steps = {each.x for each in line.patterns}
    step = next(iter(steps), None)
    return step if len(steps) == 1 and step and abs(step) > line.patterns[0].width else None


def _vector(line: MemoryLine, step: int) -> str:
    """Return which vector type replaces accesses of one thread side by side, tried at the threads' distance."""
    offsets: dict[str, list[int]] = {}
    width = line.patterns[0].width
    for each in line.instructions:
        register, _, offset = each.sass.partition("[R")[2].partition("]")[0].partition("+")
        offsets.setdefault(register, []).append(int(offset or "0", 16))
    for bytes_ in VECTORS:
        count = bytes_ // width
        runs = all(
            len(places) % count == 0
            and all(place % bytes_ == 0 and set(range(place, place + bytes_, width)) <= set(places)
                    for place in sorted(places)[::count])
            for places in offsets.values()
        )  # fmt: skip
        if count > 1 and runs and step % bytes_ == 0:
            now, then = (_taken(step, size) for size in (width, bytes_))
            if then < now * count:
                name = (
                    {2: "float2", 4: "float4"}.get(bytes_ // 4, f"{bytes_} bytes") if width == 4 else f"{bytes_} bytes"
                )
                return (
                    f"{count} accesses of a thread are side by side: as one of {name}, which must be aligned to "
                    f"{bytes_} bytes, a warp takes {then} sectors for {now * count}"
                )
    return ""


def _taken(step: int, width: int) -> int:
    """Return the sectors of a full warp whose threads access `width` bytes each, `step` apart."""
    import numpy as np

    lanes = np.arange(WARP, dtype=np.int64)[None] * abs(step)
    return int(sectors.global_sectors(lanes, np.ones_like(lanes, bool), width).actual[0])
