"""What `lint` and `check` report besides a launch's wavefronts: degrees in every launch, memory and branches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ncu_swizzle.base import codes
from ncu_swizzle.base.degrees import RULE, UNKNOWN, AccessDegree, by_shapes, in_words
from ncu_swizzle.base.traffic import SECTOR, Traffic
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.engines.launchless import JudgedKernel
from ncu_swizzle.gate.baseline import Policy, Rule
from ncu_swizzle.gate.verdict import MAX_DEGREE, MAX_SECTORS, MEMORY, WORST_FIRST, Check, Outcome, Place
from ncu_swizzle.reports.attribution import FrameOwners, Here, nowhere
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.memory import (
    MemoryLine,
    kind,
    line_of,
    local_accesses,
    memory_lines,
    sectors_and_remedy,
    staging,
)
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import COMPUTED
from ncu_swizzle.smem.access import Index
from ncu_swizzle.smem.opcodes import row
from ncu_swizzle.smem.operations import WARP

# What `lint` and `check` report about global and local memory and branches: excess sectors, spilled registers,
# arrays in local memory, divergent warps.
#
# Unlike bank conflicts these are warnings: an uncoalesced access may be the right one. `--max-sectors` makes it a
# limit.

NOTICED = 1.05  # sectors for each ideal one, up to which a warning is not worth a line: borders of arrays take a few
PARTING = 0.5  # of the warps at a branch; a loop's or an array's last warps diverge less often
FRAME = "R1"  # points at a thread's stack frame, where ptxas keeps spilled registers at fixed offsets


# ---------------------------------------------------------------------------------------------- lines, for `lint`


def judge_memory(profile: Profile, rules: Policy, here: Here = nowhere) -> Iterator[Check]:
    """Yield a failed check per line over `--max-sectors`, an inconclusive one if unknown, and warnings."""
    lines = memory_lines(profile, here)
    limits = sector_limits(rules, (profile.kernel.name, profile.kernel.function), [line.access for line in lines])
    check = partial(_check, profile)
    for line in sorted(lines, key=lambda line: -(line.total.excessive or 0)):
        rule = limits.get(line.access) or limits.get("")
        if rule and line.unknown:
            reasons = _codes(profile, line.unknown)
            message = f"sectors of {len(line.unknown)} of {len(line.instructions)} accesses are unknown"
            yield replace(
                check(MAX_SECTORS, Outcome.inconclusive, message, line.line),
                access=line.access, code=reasons[0], more_codes=reasons[1:], origin=rule.origin, limit=rule.limit,
            )  # fmt: skip
        if line.ratio <= (rule.limit if rule else NOTICED):
            continue
        failed = rule is not None and not line.unknown
        unaligned = all(pattern.unaligned and not pattern.gaps for pattern in line.patterns) and bool(line.patterns)
        yield replace(
            check(MAX_SECTORS if failed else MEMORY, Outcome.failed if failed else Outcome.warning,
                  sectors_and_remedy(line), line.line),
            access=line.access, code=codes.UNALIGNED if unaligned else codes.UNCOALESCED, hint=staging(line),
            actual=line.ratio, limit=rule.limit if rule else None, origin=rule.origin if rule else "",
        )  # fmt: skip
    yield from _local_memory(profile, here)
    yield from _branches(profile, here)


def sector_limits(rules: Policy, names: Sequence[str], accesses: Iterable[str]) -> dict[str, Rule]:
    """Return the limit in effect for each opcode; "" is for all together in `check`, for any line in `lint`."""
    limits = rules.limits(names, dict.fromkeys(accesses))
    return {access: rule for (criterion, access), rule in limits.items()
            if criterion == MAX_SECTORS}  # fmt: skip


def _check(profile: Profile, criterion: str, outcome: Outcome, message: str, line: Location | None) -> Check:
    place = Place(*line) if line else Place(next(iter(profile.sources), profile.report))
    return Check(
        outcome=outcome, kernel=profile.kernel.name, criterion=criterion, message=message + profile.sample_clause,
        place=place, provenance=profile.origin.provenance,
    )  # fmt: skip


def _codes(profile: Profile, instructions: Iterable[Instruction]) -> tuple[str, ...]:
    offsets = {instruction.pc for instruction in instructions}
    reasons = (why.code for why in profile.unknown_traffic if offsets.intersection(why.offsets))
    return tuple(dict.fromkeys(reasons)) or (codes.NOT_COLLECTED,)


def _local_memory(profile: Profile, here: Here) -> Iterator[Check]:
    """Yield a warning per line whose accesses to local memory repeat, of spilled registers or of an array."""
    ownership = FrameOwners(profile, here)
    warps = math.prod(profile.grid) * -(-math.prod(profile.block) // WARP)
    accesses = [instruction for group in local_accesses(profile).values() for instruction in group]
    indexed = any(not _at_fixed_place(instruction) for instruction in accesses)
    groups: dict[tuple[Location | None, bool], list[Instruction]] = {}
    for instruction in accesses:
        groups.setdefault((line_of(ownership, instruction), _at_fixed_place(instruction)), []).append(instruction)
    for (line, fixed), group in groups.items():
        repeated = [instruction for instruction in group if (instruction.executed or 0) > warps]
        if not repeated:
            continue
        counts = [instruction.traffic.local_sectors for instruction in repeated]
        least = SECTOR * sum(filter(None, counts))
        moved = f"at least {least:,}" if None in counts and least else "unknown" if None in counts else f"{least:,}"
        what = "an array that is indexed while the kernel runs"
        better = "make its indices constants by unrolling the loop, or keep it in shared memory"
        if fixed:
            what = "spilled registers" + (", or elements of the kernel's array" if indexed else "")
            better = "use fewer registers: less unrolling, smaller tiles, or __launch_bounds__ for fewer threads"
        message = f"local memory in a loop, {moved} bytes of sectors: {what}; {better}"
        yield replace(
            _check(profile, MEMORY, Outcome.warning, message, line),
            access="/".join(dict.fromkeys(map(kind, repeated))),
            code=codes.SPILLED if fixed and not indexed else codes.LOCAL_ARRAY,
        )  # fmt: skip


def _at_fixed_place(access: Instruction) -> bool:
    """Return whether an access to local memory is at a constant offset in the stack frame."""
    inside = access.sass.partition("[")[2].partition("]")[0]
    return inside.partition("+")[0] in (FRAME, "") or inside.startswith("0x")


def _branches(profile: Profile, here: Here) -> Iterator[Check]:
    """Yield a warning per line whose branches at least half of their warps, and of those launched, diverge at."""
    ownership = FrameOwners(profile, here)
    launched = next((instruction.executed or 0 for instruction in profile.instructions), 0)
    groups: dict[Location | None, list[Instruction]] = {}
    for instruction in profile.instructions:
        if instruction.traffic.divergent and instruction.executed:
            groups.setdefault(line_of(ownership, instruction), []).append(instruction)
    for line, group in groups.items():
        worst = max(group, key=lambda instruction: (instruction.traffic.divergent or 0) / (instruction.executed or 1))
        parting, warps = worst.traffic.divergent or 0, worst.executed or 0
        if parting < PARTING * max(warps, launched):  # one warp per block does not set the kernel's pace
            continue
        message = f"{parting:,} of {warps:,} warps part at this branch"
        yield replace(
            _check(profile, MEMORY, Outcome.warning, message, line),
            access=kind(worst), code=codes.PARTING, actual=parting / warps,
        )  # fmt: skip


# ---------------------------------------------------------------------------------------------- kernels, for `check`


def kinds(profiles: Iterable[Profile]) -> tuple[str, ...]:
    """Return the opcodes that access global memory in any launch."""
    return tuple(dict.fromkeys(line.access for profile in profiles for line in memory_lines(profile)))


def worst_ratio(
    profiles: Sequence[Profile], access: str, here: Here = nowhere
) -> tuple[float, MemoryLine | None, tuple[str, ...]]:
    """Return the most sectors for each ideal one of any launch, its worst line, and codes if something is unknown.

    `access` is an opcode; all together if it is empty.
    """
    ratio, worst, unknown = 1.0, None, list[str]()
    for profile in profiles:
        lines = [line for line in memory_lines(profile, here) if access in ("", line.access)]
        missing = [each for line in lines for each in line.unknown]
        if missing or not any(instruction.traffic.known for instruction in profile.instructions):
            unknown += _codes(profile, missing)
        total = Traffic.total(instruction.traffic for line in lines for instruction in line.instructions)
        taken = (total.sectors or 0) / total.ideal if total.ideal else 1.0
        if taken >= ratio and lines:
            ratio, worst = taken, max(lines, key=lambda line: line.total.excessive or 0)
    return ratio, worst, tuple(dict.fromkeys(unknown))


# Judge the degrees that accesses have in every launch with blocks of a shape: no launch is needed or guessed.

ByShape = Mapping[Index, AccessDegree]  # an access with blocks of each shape


def judge_degrees(kernel: JudgedKernel, rules: Policy, file: str, hint: str) -> Iterator[Check]:
    """Yield a check for each line that is not conflict-free in every launch; if there is none, one that passed.

    A line fails if one of its accesses is over its limit in every launch, for each of the block shapes, if these are
    known: with shapes that the code merely admits, it is inconclusive. `hint` is what to type for results that depend
    on the launch.
    """
    name = kernel.name
    groups: dict[tuple[str, Location | None], list[ByShape]] = {}
    for access in kernel.accesses():
        one = next(iter(access.values()))
        groups.setdefault((one.opcode.partition(".")[0], kernel.lines.get(one.offset)), []).append(access)
    limits = rules.limits((name, kernel.symbol), dict.fromkeys(opcode for opcode, _ in groups))
    blocks = [shape.block for shape in kernel.shapes]
    offending: list[Check] = []
    for (opcode, line), accesses in groups.items():
        limit = limits[MAX_DEGREE, opcode]
        check = Check(
            outcome=Outcome.inconclusive, kernel=name, criterion=MAX_DEGREE, message="", access=opcode,
            place=Place(*line) if line else Place(file), origin=limit.origin, limit=limit.limit, hint=hint,
            code=codes.LAUNCH, provenance=COMPUTED,
        )  # fmt: skip
        offending += _of_line(check, accesses, limit.limit, blocks, stated=kernel.stated)
    yield from sorted(offending, key=lambda check: (WORST_FIRST.index(check.outcome), -(check.actual or 0)))
    if all(check.outcome is Outcome.warning for check in offending):
        count = sum(map(len, groups.values()))
        message = f"{count} accesses to shared memory, none over its limit in any launch with {in_words(blocks)}"
        yield Check(outcome=Outcome.passed, kernel=name, criterion=MAX_DEGREE, message=message)


def _of_line(
    check: Check, accesses: Sequence[ByShape], limit: float, blocks: Sequence[Index], *, stated: bool
) -> Iterator[Check]:
    """Yield the checks of a line: what fails in every launch, else the worst case of some launches."""
    least = {block: [float(access[block].least or 1) for access in accesses if block in access] for block in blocks}
    worst = {block: max(degrees, default=1.0) for block, degrees in least.items()}
    if all(degree > limit for degree in worst.values()):
        some = min(sum(degree > limit for degree in degrees) for degrees in least.values())
        share = "" if some == len(accesses) else f" by {some} of {len(accesses)} accesses"
        actual, allowed = min(worst.values()), f"{share}, at most {limit:.12g} allowed"
        if stated:
            message = f"degree {actual:.4g} in every launch with {in_words(blocks)}{allowed}"
            code = row(check.access).conflict_code
            yield replace(check, outcome=Outcome.failed, message=message, actual=actual, code=code, hint="")
        else:
            said = by_shapes({block: f"degree {degree:.4g}" for block, degree in worst.items()})
            yield replace(check, message=f"{said}, if it is launched so{allowed}", actual=actual)
        return
    every = [degree for access in accesses for degree in access.items()]
    over = [(block, degree) for block, degree in every if degree.most is not None and degree.most > limit]
    if over:
        most = max((degree for _, degree in over), key=lambda degree: degree.most or 0)
        partly = all(degree.cases and degree.depends_on[0] in RULE for _, degree in over)
        partly = partly and all(case.most <= limit for _, degree in over for case in degree.cases)
        outcome = Outcome.warning if partly else Outcome.inconclusive
        alike = in_words(block for block, degree in over if degree.in_words == most.in_words)
        yield replace(check, outcome=outcome, message=f"{most.in_words}, with {alike}")
    unknown = [degree for _, degree in every if degree.verdict == UNKNOWN]
    if unknown:
        code = codes.DATA if any(degree.on_data for degree in unknown) else codes.LAUNCH
        yield replace(check, message=unknown[0].in_words, code=code)
