"""Evaluate the rule pack on a profile: the same files with the same decisions that run inside ncu."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from ncu_swizzle import paths
from ncu_swizzle.profiles.engine import EMULATED
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.profiles.ownership import Ownership

if TYPE_CHECKING:
    from swizzle_pack.facts import Facts
    from swizzle_pack.finding import Finding


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
    ownership = Ownership(profile)
    numbers = ((name, profile.number(name)) for name in profile.metrics)
    result: Facts = types.Facts(
        {name: value for name, value in numbers if value is not None},
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
                header=instruction.named[0] if instruction.named and line != instruction.named else "",
            )
            for instruction in profile.instructions
            for line in [ownership.named(instruction)]
        ),
        _tried(profile),
        tuple(note.text for note in profile.layouts),
    )
    return result


def _tried(profile: Profile) -> tuple[str, ...]:
    if not profile.requests:
        return ()
    from ncu_swizzle.profiles import tiles_seen  # the emulator's model, which measured profiles do not need

    return tuple(advice.text for advice in tiles_seen.advice(profile))


def findings(profile: Profile) -> tuple[Finding, ...]:
    """Return the findings of all rules for a launch; none for computed counts of which some are unknown: ncu did not
    leave them out, and the profile's notes say why.
    """
    known = facts(profile)
    if profile.engine == EMULATED and pack("facts").missing(known):
        return ()
    return tuple(pack("rules").decide_all(known))


def is_ours(rule: str) -> bool:
    """Return whether a rule that ncu ran belongs to the pack."""
    return (paths.rules() / f"{rule}.py").is_file() if rule.isidentifier() else False
