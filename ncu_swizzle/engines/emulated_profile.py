"""From the emulator's counts to a Profile: instructions with source lines, totals, and notes on the unknown."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ncu_swizzle.base import cache, codes, paths
from ncu_swizzle.base.files import slug
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.lines import LineTable, Location
from ncu_swizzle.emulate.counts import Counts, InstructionCounts, Launch
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.kernels.family import Problem
from ncu_swizzle.reports import model, triton_cache
from ncu_swizzle.reports.attribution import FrameOwners
from ncu_swizzle.reports.counts import NEVER, Instruction, SavedRequests
from ncu_swizzle.reports.model import (
    EXECUTED,
    IDEAL,
    WAVEFRONTS,
    Finding,
    KernelId,
    MachineInfo,
    Metric,
    Profile,
    UnknownCounts,
    Violation,
)
from ncu_swizzle.reports.options import EMULATED

NOTES = 3  # reasons listed in notes; the rest are counted
UNEXPLAINED = "for an unknown reason"


@dataclass(frozen=True, kw_only=True)
class Binary:
    """A kernel's cubin, and its sources: the root folders, and the text of each file by its path below one."""

    cubin: Cubin
    symbol: str
    roots: tuple[str, ...] = ()
    sources: Mapping[str, str] | None = None


def profile_of_counts(
    kernel: KernelId, problem: Problem, binary: Binary, launch: Launch, counts: Counts, compiler: str
) -> Profile:
    cubin = binary.cubin
    launch_metrics = emulated_launch.metrics(launch, cubin.attributes(binary.symbol))
    instructions = tuple(_instructions(binary, counts.rows))
    profile = Profile(
        engine=EMULATED,
        kernel=kernel,
        problem=problem,
        machine=MachineInfo(compute_capability=f"{cubin.sm // 10}.{cubin.sm % 10}", cuda=compiler),
        when=datetime.now(UTC).isoformat(timespec="seconds"),
        command="",
        report=f"{slug(kernel.name)}.cubin",
        report_sha256=cache.sha256(cubin.data),
        errors={},
        metrics={name: Metric(value, unit) for name, (value, unit) in launch_metrics.items()},
        instructions=instructions,
        sources=binary.sources or {},
        notes=tuple(_notes(kernel.name, counts)),
        requests=tuple(SavedRequests.of(offset, made) for offset, made in sorted(counts.requests.items())),
        unknowns=tuple(_unknowns(counts)),
    )
    outside = tuple(_violations(profile, counts))
    notes = (*profile.notes, *([f"{kernel.name}: wavefronts: {profile.rule_from}."] if profile.rule_from else []))
    return replace(profile, metrics={**profile.metrics, **_totals(profile)}, findings=outside, notes=notes)


def _violations(profile: Profile, counts: Counts) -> Iterator[Finding]:
    """Yield a finding for each access outside of the buffers, and for each tile that does not fit its descriptor."""
    ownership = FrameOwners(profile)
    stacks = {instruction.pc: instruction.stack for instruction in profile.instructions}
    checked = counts.global_accesses.blocks
    some = f" ({checked} of the grid's {counts.blocks:,} blocks were checked)" if checked < counts.blocks else ""
    for outside in counts.global_accesses.outside:
        line = next(iter(ownership.own(stacks.get(outside.offset, ()))), None)
        yield model.finding(Violation(f"{outside}{some}", line))
    for misfit in counts.tiles.misfits:
        line = next(iter(ownership.own(stacks.get(misfit.offset, ()))), None)
        yield model.finding(Violation(misfit.message, line, model.TILES_RULE, misfit.code))


def _unknowns(counts: Counts) -> Iterator[UnknownCounts]:
    """Yield each reason for unknown counts, the most frequent first, and what was not checked."""
    reasons: dict[tuple[str, str], list[int]] = {}
    for row in counts.unknown:
        reasons.setdefault((row.code or codes.NOT_RUN, row.reason or UNEXPLAINED), []).append(row.offset)
    for (code, reason), offsets in sorted(reasons.items(), key=lambda item: -len(item[1])):
        yield UnknownCounts.of(code, reason, offsets)
    if counts.global_accesses.lacking:
        yield UnknownCounts.of(codes.UNCHECKED_BOUNDS, counts.global_accesses.lacking)
    if counts.tiles.lacking:
        yield UnknownCounts.of(codes.UNFOLLOWED, counts.tiles.lacking)


def _totals(profile: Profile) -> dict[str, Metric]:
    """Return the launch's totals under ncu's names, without those that contain an unknown."""
    executed = [instruction.executed for instruction in profile.instructions]
    total = profile.total
    accesses = any(instruction.access for instruction in profile.instructions)
    nothing = None if accesses else 0  # no access: no wavefronts
    totals = {
        EXECUTED: (None if None in executed else sum(count for count in executed if count is not None), "inst"),
        WAVEFRONTS: (nothing if total.wavefronts is None else total.wavefronts, "sectors"),
        IDEAL: (nothing if total.ideal is None else total.ideal, "sectors"),
    }
    return {name: Metric(value, unit) for name, (value, unit) in totals.items() if value is not None}


def _instructions(binary: Binary, rows: Sequence[InstructionCounts]) -> Iterator[Instruction]:
    table = triton_cache.lines(binary.cubin.data, binary.symbol)
    for row in rows:
        yield Instruction(
            pc=row.offset,
            sass=row.sass,
            opcode=row.opcode,
            access="" if row.sass.startswith(NEVER) else row.access,
            stack=tuple(source_stack(binary, table, row.offset)),
            executed=row.executed,
            wavefronts=row.wavefronts if row.access else None,
            ideal=row.ideal if row.access else None,
        )


def source_stack(binary: Binary, table: LineTable, offset: int) -> Iterator[Location]:
    for file, line in table.stack(offset):
        below = paths.below(file, binary.roots)
        yield posixpath.normpath(below) if posixpath.isabs(below) else below, line


def unknown_notes(name: str, counts: Counts) -> Iterator[str]:
    """Yield why counts are unknown, the most frequent reason first."""
    unknown = counts.unknown
    reasons = Counter(row.reason or UNEXPLAINED for row in unknown)
    for reason, count in reasons.most_common(NOTES):
        first = next(row for row in unknown if (row.reason or UNEXPLAINED) == reason)
        many = f"{count} accesses, such as" if count > 1 else "the access"
        yield f"{name}: unknown wavefronts for {many} {first.sass} at {first.offset:#x}: {reason}."
    if len(reasons) > NOTES:
        yield f"{name}: {len(reasons) - NOTES} more reasons for unknown wavefronts."


def _notes(name: str, counts: Counts) -> Iterator[str]:
    """Yield what is unknown and why, then the emulator's own notes."""
    yield from unknown_notes(name, counts)
    for note in counts.notes:
        yield f"{name}: {note}"
    if counts.global_accesses.lacking:
        yield f"{name}: the bounds of global accesses were not checked: {counts.global_accesses.lacking}."
    if counts.tiles.lacking:
        yield f"{name}: not every tile was followed from TMA to wgmma: {counts.tiles.lacking}."
