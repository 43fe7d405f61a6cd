"""Why an access of a profile has no count that a limit could hold."""

from __future__ import annotations

from ncu_swizzle.profiles import sanity
from ncu_swizzle.profiles.counts import Instruction
from ncu_swizzle.profiles.engine import EMULATED
from ncu_swizzle.profiles.model import IDEAL, WAVEFRONTS, Profile


def why_unknown(profile: Profile, access: str) -> str:
    """Return why the counts of a profile cannot be trusted; empty if they can."""
    if profile.engine == EMULATED:
        return _not_computed(profile, access)
    return _uncounted(profile, access) or sanity.about_counts(profile, access)


def _uncounted(profile: Profile, access: str) -> str:
    lacking = [name for name in (WAVEFRONTS, IDEAL) if name not in profile.metrics]
    if lacking:
        return f"its report lacks {', '.join(lacking)}"
    if not profile.instructions:
        return "its report lists no instructions"
    uncounted = _without_counts(profile, access)
    if uncounted:
        return f"ncu counted no wavefronts of {len(uncounted)} of its instructions, such as {uncounted[0].sass}"
    launch, counted = profile.number(WAVEFRONTS), profile.total.wavefronts or 0
    if launch is None:
        return f"{WAVEFRONTS} is not a number"
    if launch != counted:
        return f"its instructions add up to {counted:,} wavefronts, but the launch had {launch:,.0f}"
    return ""


def _without_counts(profile: Profile, access: str) -> list[Instruction]:
    return [
        instruction
        for instruction in profile.instructions
        if instruction.access
        and access in ("", instruction.access)
        and (instruction.wavefronts is None or instruction.ideal is None)
    ]


def _not_computed(profile: Profile, access: str) -> str:
    unknown = _without_counts(profile, access)
    why = f": {profile.notes[0].rstrip('.')}" if profile.notes else ""
    return f"wavefronts of {len(unknown)} of its instructions could not be computed{why}" if unknown else ""
