"""What the excess of a kernel costs, as the rule ConflictCost estimates it from a measured report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.catalog.target import Target
from ncu_swizzle.errors import UsageError
from ncu_swizzle.fix.result import KernelFix
from ncu_swizzle.ncurep import reader
from ncu_swizzle.pack import bridge

RULE = "ConflictCost"


def with_costs(kernels: Sequence[KernelFix], targets: Sequence[Target], report: Path) -> tuple[KernelFix, ...]:
    """Return the fixes with what a report says of their kernels, of the launch that loses most.

    Raises UsageError if it has none of them, and whatever reading it raises.
    """
    profiles = reader.read(report)
    said: list[str] = []
    for target in targets:
        function = target.kernel.entry.partition("<")[0].rpartition("::")[2]
        found = [
            finding
            for profile in profiles
            if function in (profile.kernel.function, profile.kernel.function.partition("<")[0].rpartition("::")[2])
            for finding in bridge.findings(profile)
            if finding.rule == RULE
        ]
        said.append(max(found, key=lambda each: each.saving or 0.0).message if found else "")
    if not any(said):
        names = ", ".join(dict.fromkeys(profile.kernel.function for profile in profiles))
        wanted = ", ".join(target.kernel.entry for target in targets)
        raise UsageError(f"{report} says nothing of what conflicts cost {wanted}", f"it has launches of {names}")
    return tuple(replace(kernel, cost=cost) for kernel, cost in zip(kernels, said, strict=True))
