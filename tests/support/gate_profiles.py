"""Profiles for the tests of the gate: recordings that pass for measured ones, and ways to spoil them."""

import dataclasses
from typing import Any

from ncu_swizzle.base.traffic import Traffic
from ncu_swizzle.gate.verdict import Check, Outcome, Place, Verdict
from ncu_swizzle.reports.model import DURATION, Metric, Profile
from tests.support.reports import spoiled

HOSTILE = "</script>\n::error file=x::|`<b>&\x00\u202e]]>%0A##[error]"


def measured(profile: Profile, **machine: str) -> Profile:
    """Return the recording as if it had been measured now, on a machine that differs as said."""
    return dataclasses.replace(profile, engine="ncu", machine=dataclasses.replace(profile.machine, **machine))


def lasting(profile: Profile, duration_ns: Any) -> Profile:
    return dataclasses.replace(profile, metrics={**profile.metrics, DURATION: Metric(duration_ns)})


def scattered(profile: Profile, ratio: int = 2) -> Profile:
    """Return a profile in which each LDGSTS takes so many sectors for each ideal one."""
    traffic = Traffic(sectors=100 * ratio, ideal=100, tags=50)
    rows = (
        dataclasses.replace(row, traffic=traffic) if row.access == "LDGSTS" else row for row in profile.instructions
    )
    return dataclasses.replace(profile, instructions=tuple(rows))


def named(profile: Profile, name: str, **fields: Any) -> Profile:
    return dataclasses.replace(profile, kernel=dataclasses.replace(profile.kernel, name=name, function=name), **fields)


def verdict_on(*texts: str) -> Verdict:
    """Return a verdict in which each text stands wherever a text can stand."""
    return Verdict(
        checks=tuple(
            Check(
                outcome=outcome,
                kernel=text,
                criterion="max-degree",
                message=text,
                access=text,
                place=place,
                origin=text,
                hint=text,
                code="SW001",
            )
            for text in texts
            for outcome in Outcome
            for place in (None, Place(text or "x", 3), Place(text or "x"))
        ),
        notes=texts,
    )


def unknown(profile: Profile) -> Profile:
    """Return the profile with an access that ncu counted nothing for."""
    return spoiled(profile, next(each.access for each in profile.instructions if each.wavefronts), ideal=None)
