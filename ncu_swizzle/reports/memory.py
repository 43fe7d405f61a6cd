"""Accesses to global memory: sectors per request with their ideal, how threads lie, and what would be better."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from ncu_swizzle.base.traffic import SECTOR, Pattern, Traffic
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.reports.attribution import FrameOwners, Here, nowhere
from ncu_swizzle.reports.counts import Instruction, known_sum
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem.opcodes import opcodes_with
from ncu_swizzle.smem.operations import WARP

# Opcodes that access global memory, or local memory alone, at addresses of their lanes.
OPCODES = opcodes_with(lambda row: row.global_access)
LOCAL_OPCODES = opcodes_with(lambda row: row.local_access)
STRUCTURE = 64  # bytes: neighbours up to this far apart are members of structures, others are rows


@dataclass(frozen=True, kw_only=True)
class MemoryLine:
    """The accesses of one opcode to global memory on one line, that of the innermost own function.

    `total`, `requests`, `ratio` and `patterns` cover those whose sectors are known; `unknown` are the others.
    """

    access: str
    line: Location | None
    instructions: tuple[Instruction, ...]
    block: tuple[int, ...] = (WARP, 1, 1)
    beside: tuple[MemoryLine, ...] = ()  # other lines whose accesses lie next to these

    @property
    def unknown(self) -> tuple[Instruction, ...]:
        """Those whose sectors are unknown, though they ran or may have."""
        return tuple(access for access in self.instructions if access.traffic.excessive is None)

    @property
    def known(self) -> tuple[Instruction, ...]:
        return tuple(access for access in self.instructions if access.traffic.excessive is not None)

    @property
    def total(self) -> Traffic:
        return Traffic.total(access.traffic for access in self.known)

    @property
    def requests(self) -> int:
        return sum(access.executed or 0 for access in self.known)

    @property
    def executed(self) -> int | None:
        """The requests of all of them; None if any count is unknown."""
        return known_sum(access.executed for access in self.instructions)

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
        """The access pattern, if it causes the excess; empty if not known."""
        return "; ".join(dict.fromkeys(map(access_pattern, self.patterns)))

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """The patterns of those with excessive sectors."""
        return tuple(access.pattern for access in self.instructions if access.pattern and access.traffic.excessive)


def memory_lines(profile: Profile, here: Here = nowhere) -> list[MemoryLine]:
    """Return the accesses to global memory by line and opcode; none if the profile lacks their counts."""
    groups: dict[tuple[str, Location | None], list[Instruction]] = {}
    unknown = {offset for why in profile.unknown_traffic for offset in why.offsets}
    ownership = FrameOwners(profile, here)
    for instruction in profile.instructions:
        if instruction.traffic.sectors is not None or (instruction.pc in unknown and is_global(instruction)):
            groups.setdefault((kind(instruction), line_of(ownership, instruction)), []).append(instruction)
    lines = [
        MemoryLine(access=access, line=line, instructions=tuple(group), block=profile.block)
        for (access, line), group in groups.items()
    ]
    return [replace(line, beside=tuple(_beside(line, lines))) for line in lines]


def _beside(line: MemoryLine, lines: Iterable[MemoryLine]) -> Iterator[MemoryLine]:
    """Yield the other lines whose accesses the compiler could have merged with this line's into vectors."""
    sizes = {pattern.vector for pattern in line.patterns if pattern.vector}
    for other in lines:
        if (
            other.access == line.access
            and other.line != line.line
            and sizes & {pattern.vector for pattern in other.patterns}
        ):
            yield other


def by_opcode(profile: Profile) -> dict[str, MemoryLine]:
    """Return the accesses to global memory of a profile by opcode, each as one line."""
    groups: dict[str, list[Instruction]] = {}
    for line in memory_lines(profile):
        groups.setdefault(line.access, []).extend(line.instructions)
    return {
        access: MemoryLine(access=access, line=None, instructions=tuple(group), block=profile.block)
        for access, group in groups.items()
    }


def everything(profile: Profile) -> MemoryLine:
    """Return all accesses to global memory as one line."""
    all_of_them = tuple(access for line in memory_lines(profile) for access in line.instructions)
    return MemoryLine(access="", line=None, instructions=all_of_them, block=profile.block)


def local_accesses(profile: Profile) -> dict[str, tuple[Instruction, ...]]:
    """Return the loads and stores of spilled registers and of arrays in local memory, by opcode."""
    unknown = {offset for why in profile.unknown_traffic for offset in why.offsets}
    groups: dict[str, tuple[Instruction, ...]] = {}
    for instruction in profile.instructions:
        counted = (
            instruction.traffic.local_sectors
            if instruction.traffic.local_sectors is not None
            else instruction.pc in unknown
        )
        if kind(instruction) in LOCAL_OPCODES and counted and not instruction.never:
            groups[kind(instruction)] = (*groups.get(kind(instruction), ()), instruction)
    return groups


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


def advice_by_opcode(named: Iterable[tuple[str, Profile]]) -> tuple[str, ...]:
    """Return a sentence for the worst line of each opcode and profile: its sectors, access pattern, and remedy."""
    return tuple(
        f"{row.label}, {access} at {row.worst.name}: {sectors_and_remedy(row.worst)}."
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


def sectors_and_remedy(line: MemoryLine) -> str:
    """Return a line's sectors, and the remedy if known, as one sentence."""
    return "; ".join(filter(None, (in_sectors(line), advice(line))))


def in_sectors(line: MemoryLine) -> str:
    """Return a line's sectors per request with their ideal, the excess in bytes, and why, as one sentence."""
    total, known, every = line.total, len(line.known), len(line.instructions)
    per_request = (f"{(count or 0) / max(1, line.requests):.4g}" for count in (total.sectors, total.ideal))
    said = f"{next(per_request)} sectors per request, ideally {next(per_request)}"
    said += f": {total.excessive_bytes or 0:,} excessive bytes"
    said += f", of {known} of {every} accesses: the others' are unknown" if known < every else ""
    return f"{said}; {line.why}" if line.why else said


def access_pattern(pattern: Pattern) -> str:
    """Describe the access pattern of neighbouring threads, if it causes the excess; empty if not known."""
    moves = _moves(pattern)
    if pattern.unaligned and not pattern.gaps:
        return "the bytes of a warp are side by side, but begin inside of a sector" + moves
    steps = {axis: step for axis, step in (("x", pattern.x), ("y", pattern.y), ("z", pattern.z)) if step is not None}
    apart = [f"threadIdx.{axis} are {abs(step):,} bytes apart" for axis, step in steps.items()]
    same = [f"threadIdx.{axis} have the same address" for axis, step in steps.items() if not step]
    far = [text for text, step in zip(apart, steps.values(), strict=True) if step]
    said = f"neighbours along {' and '.join(far + same)}" if far else "the addresses of neighbours follow no stride"
    return said + moves


def _moves(pattern: Pattern) -> str:
    """Describe by how many bytes blockIdx and the loop move the addresses."""
    blocks = {"blockIdx.x": pattern.block_x, "blockIdx.y": pattern.block_y, "blockIdx.z": pattern.block_z}
    steps = {**blocks, "iteration of the loop": pattern.loop}
    moves = [f"{step:,} bytes per {name}" for name, step in steps.items() if step]
    return f" ({', '.join(moves)})" if moves else ""


# ---------------------------------------------------------------------------------------------- what would be better


def advice(line: MemoryLine) -> str:
    """Return what makes a line's accesses coalesced, and what that takes; empty if the addresses are not known."""
    patterns = line.patterns
    if not patterns:
        return ""
    if all(pattern.unaligned and not pattern.gaps for pattern in patterns):
        return "begin them at a multiple of 32 bytes: pad rows (cudaMallocPitch), or shift which thread does what"
    if vector := _vector(line):
        return vector
    step = _step(line)
    if not step:
        return "let neighbouring threads access neighbouring elements, or stage them through shared memory"
    staged = f", {tile[1]}" if (tile := _staging_tile(line)) else ""
    if abs(step) <= STRUCTURE:
        return (
            "keep each member of the structures in an array of its own, or copy whole structures through shared "
            f"memory{staged}"
        )
    exchange = _if_exchanged(line)
    return f"{exchange or 'let threadIdx.x run along the rows'}, or stage a tile through shared memory{staged}"


def staging(line: MemoryLine) -> str:
    """Return the command that shows a conflict-free tile, written by rows and read by columns.

    Empty unless the line's threads walk down a column, or over members of structures.
    """
    tile = _staging_tile(line)
    return tile[0] if tile and not _vector(line) else ""


def _step(line: MemoryLine) -> int | None:
    """Return the stride in bytes along threadIdx.x, if it leaves gaps and is the same in all accesses."""
    steps = {pattern.x for pattern in line.patterns}
    step = next(iter(steps), None)
    return step if len(steps) == 1 and step and abs(step) > line.patterns[0].width else None


def _vector(line: MemoryLine) -> str:
    """Return the vector type that can replace a thread's adjacent accesses, tried on all of their addresses."""
    lines = (line, *line.beside)
    excessive = [access for one in lines for access in one.instructions if access.traffic.excessive and access.pattern]
    sizes = {access.pattern.vector for access in excessive if access.pattern}
    first = [access for access in excessive if access.pattern and access.pattern.vector_sectors is not None]
    if len(sizes) != 1 or not (size := sizes.pop()) or not first:
        return ""
    width = line.patterns[0].width
    count = size // width
    now = sum(access.traffic.sectors or 0 for access in excessive)
    then = sum(access.pattern.vector_sectors or 0 for access in first if access.pattern)
    warps = sum(access.executed or 0 for access in first)
    if count * len(first) != len(excessive) or then >= now or not warps:
        return ""
    name = {2: "float2", 4: "float4"}.get(count if width == 4 else 0, f"{size} bytes")
    together = f", {' and '.join(['this line', *(one.name for one in line.beside)])}," if line.beside else ""
    return (
        f"{count} accesses of a thread{together} are side by side: as one of {name}, aligned as all of its addresses "
        f"are, a warp takes {then / warps:.4g} sectors for {now / warps:.4g}"
    )


def _if_exchanged(line: MemoryLine) -> str:
    """Return the effect of exchanging threadIdx.x and .y, if better; empty if their strides are not known.

    It is the most sectors over all alignments of a warp's first address, given the strides of all requests.
    """
    import numpy as np

    from ncu_swizzle.smem.wavefronts import global_sectors

    first, (_, down, _) = line.patterns[0], line.block
    if (
        any((pattern.x, pattern.y) != (first.x, first.y) for pattern in line.patterns)
        or first.x is None
        or not first.y
        or not down
    ):
        return ""
    lane, width = np.arange(WARP), max(1, first.width)
    begin = np.arange(0, SECTOR, width)[:, None]
    addresses = begin + lane % down * first.y + lane // down * first.x  # (N, 32), as if y ran fastest
    taken = int(global_sectors(addresses - addresses.min(), np.ones_like(addresses, bool), width).actual.max())
    now = (line.total.sectors or 0) / max(1, line.requests)
    return f"exchange threadIdx.x and threadIdx.y: at most {taken} sectors per request" if taken < now else ""


def _staging_tile(line: MemoryLine) -> tuple[str, str] | None:
    """Return the command that shows a tile for the line's threads, and the mapping that suits both of its sides."""
    step = _step(line)
    if not step:
        return None
    width, across = line.patterns[0].width, min(WARP, 1 << (line.block[0] or WARP).bit_length() - 1)
    rows, columns = across, max(across, SECTOR // width)
    if abs(step) <= STRUCTURE:
        rows, columns = WARP, abs(step) // width
    mapping = _mapping(rows, columns, width)
    command = f"ncu-swizzle explain '({rows},{columns}):({columns},1)' --elem {width} --write rows --read columns"
    said = f"{rows} x {columns} elements of {width} bytes {mapping}"
    return (f"{command} --show mapping", said) if mapping else None


@lru_cache
def _mapping(rows: int, columns: int, width: int) -> str:
    """Describe the mapping of a tile that makes writes by rows and reads by columns conflict-free."""
    from ncu_swizzle.smem import access
    from ncu_swizzle.smem.layout import parse_layout
    from ncu_swizzle.smem.mapping import Mapping
    from ncu_swizzle.smem.suggestions import suggest

    layout = parse_layout(f"({rows},{columns}):({columns},1)")
    sides = [access.parse("rows", layout, width, write=True), access.parse("columns", layout, width)]
    suggestion = suggest(Mapping(layout, element_bytes=width), sides)
    if suggestion.best is None:
        return ""
    mapping = "as they are" if suggestion.best is suggestion.plain else f"with {suggestion.best.mapping.transform}"
    return f"{mapping}: conflict-free by rows and by columns"
