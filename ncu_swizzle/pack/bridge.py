"""What the rule pack says of a profile: the same decisions, from the same files, that run inside ncu."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING

from ncu_swizzle import paths
from ncu_swizzle.profiles.model import Profile

if TYPE_CHECKING:
    from swizzle_pack.facts import Facts
    from swizzle_pack.finding import Finding


@cache
def pack(module: str) -> ModuleType:
    """Import a module of the pack, such as ``rules``, from the folder that ncu is given."""
    folder = str(paths.rules())
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(f"swizzle_pack.{module}")


def facts(profile: Profile) -> Facts:
    """Return a profile as the pack takes it: the places are those that ncu itself names."""
    known = pack("facts")
    numbers = ((name, profile.number(name)) for name in profile.metrics)
    result: Facts = known.Facts(
        {name: value for name, value in numbers if value is not None},
        tuple(
            known.Instruction(
                executed=one.executed or 0,
                wavefronts=one.wavefronts or 0,
                ideal=one.ideal or 0,
                pc=one.pc,
                sass=one.sass,
                access=one.access,
                file=one.named[0] if one.named else "",
                line=one.named[1] if one.named else 0,
                samples=one.samples,
            )
            for one in profile.instructions
        ),
    )
    return result


def findings(profile: Profile) -> tuple[Finding, ...]:
    """Return what all rules of the pack say of the launch."""
    return tuple(pack("rules").decide_all(facts(profile)))


def is_ours(rule: str) -> bool:
    """Whether a rule that ncu ran is one of the pack's."""
    return (paths.rules() / f"{rule}.py").is_file() if rule.isidentifier() else False
