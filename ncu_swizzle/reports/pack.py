"""The rule pack, evaluated on a profile."""

from __future__ import annotations

import importlib
import importlib.util
import posixpath
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ncu_swizzle.base import paths
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.cycles.simulated import Simulated, Span
from ncu_swizzle.reports import attribution, memory
from ncu_swizzle.reports.attribution import FrameOwners
from ncu_swizzle.reports.model import Profile

if TYPE_CHECKING:
    from swizzle_pack.facts import Facts
    from swizzle_pack.finding import Finding

    from ncu_swizzle.reports.comparison import Comparison


# Evaluate the rule pack on a profile: the same files with the same decisions that run inside ncu.


@cache
def pack(module: str) -> ModuleType:
    """Import a module of the pack, such as ``rules``, from the folder passed to ncu."""
    folder = str(paths.rules())
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(f"swizzle_pack.{module}")


def facts(profile: Profile) -> Facts:
    """Return a profile in the pack's types.

    Source lines are those that ncu reports or, for a header of CUDA, the line of the user that it is inlined into.
    """
    types = pack("facts")
    ownership = FrameOwners(profile)
    complete = not any(group.unknown for group in memory.by_opcode(profile).values())  # a part must not pass for all
    instructions = [(instruction, ownership.named(instruction)) for instruction in profile.instructions]
    result: Facts = types.Facts(
        {name: value for name in profile.metrics if (value := profile.number(name)) is not None},
        tuple(
            types.Instruction(
                executed=instruction.executed or 0,
                wavefronts=instruction.wavefronts or 0,
                ideal=instruction.ideal or 0,
                pc=instruction.pc,
                sass=instruction.sass,
                access=instruction.access,
                file=line[0] if line else "",
                line=line[1] if line else 0,
                samples=instruction.samples,
                sectors=(complete and instruction.traffic.sectors) or 0,
                ideal_sectors=(complete and instruction.traffic.ideal) or 0,
                header=instruction.named[0] if instruction.named and line != instruction.named else "",
            )
            for instruction, line in instructions
        ),
        # Only emulated profiles have requests, whose tiles a mapping is tried on.
        tuple(advice.text for advice in attribution.advice(profile)) if profile.requests else (),
        tuple(note.text for note in profile.layouts),
        None if profile.simulated is None else types.Simulation(**_simulation(profile, profile.simulated, ownership)),
    )
    return result


def _simulation(profile: Profile, simulated: Simulated, ownership: FrameOwners) -> dict[str, Any]:
    """Return a simulation's fields in the pack's types, with warps' time by source line."""
    named = {instruction.pc: ownership.named(instruction) for instruction in profile.instructions}
    lines: dict[str, dict[str, float]] = {}
    for waits in simulated.waits:
        if line := named.get(waits.offset):
            stalls = lines.setdefault(f"{posixpath.basename(line[0])}:{line[1]}", {})
            for reason, cycles in waits.cycles.items():
                stalls[reason] = stalls.get(reason, 0.0) + cycles
    total = sum(sum(waits.cycles.values()) for waits in simulated.waits) or 1.0
    shares = [(line, sum(stalls.values()) / total, max(stalls, key=lambda reason: stalls[reason]))
              for line, stalls in lines.items()]  # fmt: skip
    return {
        "cycles": _ends(simulated.cycles),
        "saved": _ends(simulated.saved),
        "coverage": simulated.coverage,
        "unit": simulated.unit,
        "used": simulated.used,
        "lines": tuple(sorted(shares, key=lambda each: (-each[1], each[0]))[:LINES]),
        "lacking": f"{simulated.lacking}; {simulated.remedy}" if simulated.remedy else simulated.lacking,
    }


def _ends(span: Span | None) -> tuple[float, float, float] | None:
    return None if span is None else (span.point, span.low, span.high)


def findings(profile: Profile) -> tuple[Finding, ...]:
    """Return the findings of all rules for a launch; none for computed counts of which some are unknown: ncu did not
    leave them out, and the profile's notes say why.
    """
    pack_facts = facts(profile)
    if profile.origin.computed and pack("facts").missing(pack_facts):
        return ()
    return tuple(pack("rules").decide_all(pack_facts))


def is_ours(rule: str) -> bool:
    """Return whether a rule that ncu ran belongs to the pack."""
    return (paths.rules() / f"{rule}.py").is_file() if rule.isidentifier() else False


# The rule pack's findings, as data.

LINES = 8  # of a simulation, where warps spend most of their time
SCHEMA = 1
LaunchFindings = tuple[str, "tuple[Finding, ...]"]  # a launch's label, and its findings


def launch_findings(comparison: Comparison) -> tuple[LaunchFindings, ...]:
    """Return the findings for every profile of a comparison."""
    return tuple((label, findings(profile)) for label, profile in comparison.named)


def rows(launches: Sequence[LaunchFindings]) -> list[dict[str, Any]]:
    """Return the findings as plain data, one entry per finding."""
    return [{"label": label, **asdict(finding)} for label, told in launches for finding in told]


def to_json(launches: Sequence[LaunchFindings]) -> str:
    """Return the findings as one JSON object."""
    return in_json({"schema": SCHEMA, "findings": rows(launches)})
