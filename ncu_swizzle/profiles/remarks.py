"""The verdict on profiles side by side, in one sentence, and the warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ncu_swizzle.profiles import recollect, sanity, violations
from ncu_swizzle.profiles.engine import EMULATED
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.texts import in_words

Named = Sequence[tuple[str, Profile]]
UNCHECKED = "output not checked, as an emulated run follows addresses and not data"


def speedup(profiles: Sequence[Profile]) -> float | None:
    """Return the first duration over the second; None if either is unknown."""
    if len(profiles) < 2 or not profiles[0].duration_ns or not profiles[1].duration_ns:
        return None
    return profiles[0].duration_ns / profiles[1].duration_ns


def verdict(named: Named) -> str:
    """Return what happened to the excessive wavefronts and the time, in one sentence."""
    if len(named) == 1:
        return f"{_waste(*named[0])}."
    (before_label, before), (after_label, after) = named[:2]
    was, now = before.total.excessive, after.total.excessive
    if was is None or now is None:
        return f"{before_label} and {after_label} cannot be judged: {_unknown(before, after)}."
    if was == now == 0:
        pace = _pace(before, after)
        neither = f"Neither {before_label} nor {after_label} has excessive wavefronts"
        return f"{neither}; {after_label} {pace}." if pace else f"{neither}."
    change = f"{after_label} {_change(was, now, before_label)}"
    if before.total.degree and after.total.degree:
        change += f" (degree {before.total.degree:.2f} → {after.total.degree:.2f})"
    parts = [change, _pace(before, after)]
    return " and ".join(part for part in parts if part) + "."


def _change(was: int, now: int, before: str) -> str:
    if not now:
        return f"removes all {was:,} excessive wavefronts of {before}"
    if was > now:
        return f"removes {was - now:,} of the {was:,} excessive wavefronts of {before}"
    if was < now:
        return f"adds {now - was:,} excessive wavefronts to the {was:,} of {before}"
    return f"has the same number of excessive wavefronts as {before}: {now:,}"


def _waste(label: str, profile: Profile) -> str:
    total = profile.total
    if total.excessive is None or total.degree is None:
        return f"{label} cannot be judged: {_unknown(profile)}"
    if not total.excessive:
        return f"{label} has no excessive shared-memory wavefronts"
    return f"{label} has {total.excessive:,} excessive wavefronts: {total.degree:.2f}x as many wavefronts as needed"


def _unknown(*profiles: Profile) -> str:
    if any(profile.engine == EMULATED and profile.accesses for profile in profiles):
        return "not all wavefronts could be computed"
    missing = sorted({name for profile in profiles for name in profile.missing})
    return f"{', '.join(missing)} not in the report" if missing else "no shared-memory access was counted"


def _pace(before: Profile, after: Profile) -> str:
    ratio = speedup((before, after))
    if not ratio or not before.duration_ns or not after.duration_ns:
        return ""
    change = f"{ratio:.2f} times as fast" if ratio >= 1 else f"{1 / ratio:.2f} times slower"
    times = f"{before.duration_ns / 1e6:.3f} → {after.duration_ns / 1e6:.3f} ms"
    source = " and ".join(dict.fromkeys(profile.beside for profile in (before, after) if profile.beside))
    return f"was {change}, {source}: {times}" if source else f"is {change}: {times}"


# What has to agree for the times of two profiles, and mostly their counts, to be comparable.
_CONDITIONS: tuple[tuple[str, Callable[[Profile], str]], ...] = (
    ("GPU", lambda p: p.machine.gpu),
    ("problem", lambda p: in_words(p.problem)),
    ("clock control", lambda p: p.machine.clock_control),
    ("driver", lambda p: p.machine.driver),
    ("CUDA", lambda p: p.machine.cuda),
    ("ncu", lambda p: p.machine.ncu),
    ("engine", lambda p: "" if p.beside else p.engine),  # with `beside`, only its wavefronts are computed
)


def warnings_of(named: Named) -> list[str]:
    """Return what makes the comparison doubtful: differing conditions, missing metrics, implausible values."""
    warnings = []
    for what, get in _CONDITIONS:
        values = {label: get(profile) for label, profile in named if get(profile)}
        if len(set(values.values())) > 1:
            warnings.append(f"Different {what}: " + ", ".join(f"{label} {v}" for label, v in values.items()) + ".")
    warnings += [note for _, profile in named for note in profile.notes]
    warnings += [warning for label, profile in named for warning in violations.warnings_about(label, profile)]
    if unchecked := [label for label, profile in named if profile.engine == EMULATED]:
        warnings.append(f"{', '.join(unchecked)}: {UNCHECKED}.")
    for label, profile in named:
        if profile.missing:
            warnings.append(
                f"{label} lacks {', '.join(profile.missing)}{_because(profile)}. "
                f"Collect it with: {recollect.command(profile)}"
            )
        warnings += [f"{label}: {doubt}." for doubt in sanity.doubts(profile)]
    return warnings


def _because(profile: Profile) -> str:
    workload = profile.launch.workload
    return "" if workload == "kernel" else f" (ncu has no per-instruction counts for a {workload})"
