"""Judge the degrees that accesses have in every launch with blocks of a shape: no launch is needed, nor guessed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ncu_swizzle.base import codes
from ncu_swizzle.base.degrees import RULE, UNKNOWN, AccessDegree, shape_of
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.engines.kernel_degrees import JudgedKernel
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.verdict import MAX_DEGREE, WORST_FIRST, Check, Outcome, Place
from ncu_swizzle.reports.options import EMULATED, PROVENANCE


def judge_degrees(kernel: JudgedKernel, rules: Policy, file: str, hint: str) -> Iterator[Check]:
    """Yield a check for each line that is not free of conflicts in every launch; if there is none, one that passed.

    A line fails if one of its accesses is over its limit in every launch, for each of the block shapes. `hint` is what
    to type for what depends on the launch.
    """
    name = kernel.name
    groups: dict[tuple[str, Location | None], list[tuple[AccessDegree, ...]]] = {}
    for access in kernel.accesses():
        opcode = access[0].opcode.partition(".")[0]
        groups.setdefault((opcode, kernel.lines.get(access[0].offset)), []).append(access)
    limits = rules.limits((name, kernel.symbol), dict.fromkeys(opcode for opcode, _ in groups))
    blocks = "blocks of " + " or ".join(dict.fromkeys(shape_of(shape.block) for shape in kernel.shapes))
    one_axis = all(shape.block[1:] == (1, 1) for shape in kernel.shapes)  # more threads conflict as these do
    offending: list[Check] = []
    for (opcode, line), accesses in groups.items():
        limit = limits[MAX_DEGREE, opcode]
        check = Check(
            outcome=Outcome.inconclusive, kernel=name, criterion=MAX_DEGREE, message="", access=opcode,
            place=Place(*line) if line else Place(file), origin=limit.origin, limit=limit.limit, hint=hint,
            code=codes.LAUNCH, provenance=PROVENANCE[EMULATED],
        )  # fmt: skip
        offending += _of_line(check, accesses, limit.limit, blocks, sure=kernel.stated or one_axis)
    yield from sorted(offending, key=lambda check: (WORST_FIRST.index(check.outcome), -(check.actual or 0)))
    if all(check.outcome is Outcome.warning for check in offending):
        count = sum(map(len, groups.values()))
        message = f"{count} accesses to shared memory, none over its limit in any launch with {blocks}"
        yield Check(outcome=Outcome.passed, kernel=name, criterion=MAX_DEGREE, message=message)


def _of_line(
    check: Check, accesses: Sequence[tuple[AccessDegree, ...]], limit: float, blocks: str, *, sure: bool
) -> Iterator[Check]:
    """Yield the checks of a line: what fails in every launch, else the worst that some launches do.

    `sure`: launches have such blocks; of a shape that was only tried, nothing fails.
    """
    least = [[each.least for each in access if each.least is not None] for access in accesses]
    always = [float(min(of)) for of, access in zip(least, accesses, strict=True) if len(of) == len(access)]
    if (worst := max(always, default=1.0)) > limit:
        some = sum(degree > limit for degree in always)
        share = "" if some == len(accesses) else f" by {some} of {len(accesses)} accesses"
        message = f"degree {worst:.4g} in every launch with {blocks}{share}, at most {limit:.12g} allowed"
        if sure:
            code = codes.KINDS.get(check.access, codes.CONFLICT)
            yield replace(check, outcome=Outcome.failed, message=message, actual=worst, code=code, hint="")
        else:
            yield replace(check, message=f"{message}; the shape of its blocks is not known: --block gives it")
        return
    every = [each for access in accesses for each in access]
    over = [each for each in every if each.most is not None and each.most > limit]
    if over:
        most = max(over, key=lambda each: each.most or 0)
        partly = all(each.cases and each.depends_on[0] in RULE for each in over)
        partly = partly and all(case.most <= limit for each in over for case in each.cases)
        outcome = Outcome.warning if partly else Outcome.inconclusive
        yield replace(check, outcome=outcome, message=f"{most.in_words}, with {blocks}")
    unknown = [each for each in every if each.verdict == UNKNOWN]
    if unknown:
        reasons = list(dict.fromkeys(each.reason for each in unknown))
        code = codes.DATA if any(" at 0x" in reason for reason in reasons) else codes.LAUNCH
        yield replace(check, message=unknown[0].in_words, code=code)
