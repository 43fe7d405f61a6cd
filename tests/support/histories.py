"""Histories of known runs: recordings that pass for runs of commits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pandas as pd

from ncu_swizzle.gate import history
from ncu_swizzle.gate.history import RUN, RunLabel
from ncu_swizzle.gate.tracks import Track, tracks
from ncu_swizzle.reports.model import Profile
from tests.support.gate_profiles import lasting, measured, named

Given = tuple[RunLabel, Sequence[Profile]]
COMMITS = tuple(f"{number:040x}" for number in range(0xA0, 0xB0))


def run_of(number: int, *profiles: Profile, accepted: bool = False) -> Given:
    """Return a run of commit `number`, of which each was made a day after the one before."""
    return RunLabel(COMMITS[number], f"2026-03-{number + 1:02}T12:00:00+00:00", accepted), profiles


def as_k(profile: Profile, milliseconds: float = 2.0, **machine: str) -> Profile:
    """Return the recording as one of the kernel `k` that was measured, with this duration."""
    return lasting(named(measured(profile, **machine), "k"), milliseconds * 1e6)


def unknown(profile: Profile) -> Profile:
    """Return the profile with an access that ncu counted nothing for."""
    first = next(at for at, each in enumerate(profile.instructions) if each.access and each.wavefronts)
    spoiled = dataclasses.replace(profile.instructions[first], ideal=None)
    return dataclasses.replace(
        profile, instructions=(*profile.instructions[:first], spoiled, *profile.instructions[first + 1 :])
    )


def rows_of(*given: Given) -> pd.DataFrame:
    """Return the rows of a history without writing it."""
    tables = [history.table(profiles, label) for label, profiles in given]
    return pd.concat([table.assign(**{RUN: history.identity(table)}) for table in tables], ignore_index=True)


def track_of(*given: Given) -> Track:
    """Return the only track of a history."""
    (track,) = tracks(rows_of(*given))
    return track
