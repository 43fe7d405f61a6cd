"""Judge the degrees that accesses have in every launch with blocks of a shape: no launch is needed or guessed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ncu_swizzle.base import codes
from ncu_swizzle.base.degrees import RULE, UNKNOWN, AccessDegree, by_shapes, in_words
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.engines.launchless import JudgedKernel
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.verdict import MAX_DEGREE, WORST_FIRST, Check, Outcome, Place
from ncu_swizzle.reports.origins import COMPUTED
from ncu_swizzle.smem.access import Index
from ncu_swizzle.smem.opcodes import row

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
