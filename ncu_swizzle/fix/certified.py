"""What the checker says of a patch: the one place where a fix asks `certify`, which decides what is called proved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ncu_swizzle.certify.verdict import KernelVerdict
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fix.claims import About, Claim, ClaimState
from ncu_swizzle.kernels.family import Target


@dataclass(frozen=True, kw_only=True)
class Units:
    """What is compiled from a source and its headers."""

    project: Path


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The verdict on a patch: the claim about its meaning, what a proof covers in words, and the kernels' verdicts."""

    claim: Claim
    covers: tuple[str, ...] = ()
    kernels: tuple[KernelVerdict, ...] = ()


def judged(
    units: Units | None, target: Target, beside: Sequence[Target], text: bytes, settings: EmulationSettings
) -> Judged:
    """Return the verdict on a text of a target's source, relative to the source as it is."""
    return Judged(claim=Claim(about=About.MEANING, state=ClaimState.UNKNOWN, reason="not built yet"))
