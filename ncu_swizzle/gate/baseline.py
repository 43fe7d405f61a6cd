"""A saved baseline: what each kernel was seen to do, in one small JSON file that belongs beside the sources.

Every kernel's entry carries a digest of its own, so that git can merge the file and nobody can edit a count.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from ncu_swizzle import paths
from ncu_swizzle.errors import BadFile, DamagedFile
from ncu_swizzle.files import read_bytes, write_json
from ncu_swizzle.profiles.counts import Ratios
from ncu_swizzle.profiles.engine import EMULATED
from ncu_swizzle.profiles.model import MachineInfo, Profile
from ncu_swizzle.texts import in_words

SCHEMA = 1
AGAIN = "ncu-swizzle baseline save PROFILE… writes it again"
SINGLE_SPREAD = 2.0  # percent; what one duration may be off by, where no second one tells


@dataclass(frozen=True)
class Counts(Ratios):
    """Counts of one access kind; None where ncu did not say."""

    executed: int | None
    wavefronts: int | None
    ideal: int | None


@dataclass(frozen=True)
class Entry:
    """One kernel under one set of conditions: the counts of its worst launch, the durations of all."""

    kernel: str
    function: str
    engine: str
    when: str
    machine: MachineInfo
    problem: Mapping[str, int]
    grid: str  # 64x16x4
    block: str
    accesses: Mapping[str, Counts]
    durations_ns: tuple[float, ...]  # the known ones

    @property
    def names(self) -> tuple[str, str]:
        return self.kernel, self.function

    @property
    def excessive(self) -> int | None:
        """All excessive wavefronts; None where any are unknown."""
        return self._excessive(self.accesses)

    def excessive_of(self, access: str) -> int | None:
        return self._excessive({access} & self.accesses.keys())

    def _excessive(self, accesses: Iterable[str]) -> int | None:
        each = [self.accesses[access].excessive for access in accesses]
        return None if None in each else sum(one for one in each if one is not None)

    @property
    def conditions(self) -> dict[str, str]:
        """What has to agree before two entries say something of each other; empty where unknown."""
        computed = f"none: computed for compute capability {self.machine.compute_capability}"
        found = {
            "GPU": computed if self.engine == EMULATED else self.machine.gpu,
            "clock control": self.machine.clock_control,
            "ncu": "none: computed" if self.engine == EMULATED else self.machine.ncu,
            "problem": in_words(self.problem),
        }
        # Of a kernel from elsewhere no problem is known; its grid is what tells one size from another.
        return found if self.problem else {**found, "grid": self.grid}

    @property
    def duration_ns(self) -> float | None:
        """The median of its launches' durations."""
        return median(self.durations_ns) if self.durations_ns else None

    @property
    def spread(self) -> float:
        """Half of the range of its durations, in percent of the median; SINGLE_SPREAD of a single one."""
        if len(self.durations_ns) < 2:
            return SINGLE_SPREAD
        return 50 * (max(self.durations_ns) - min(self.durations_ns)) / median(self.durations_ns)


def entry(profiles: Sequence[Profile]) -> Entry:
    """Return the entry of launches of one kernel under the same conditions."""
    worst = max(profiles, key=lambda profile: profile.total.excessive or 0)
    durations = [profile.duration_ns for profile in profiles]
    return Entry(
        kernel=worst.kernel.name,
        function=worst.kernel.function,
        engine=worst.engine,
        when=worst.when,
        machine=worst.machine,
        problem=dict(worst.problem),
        grid=_by(worst.grid),
        block=_by(worst.block),
        accesses={
            access: Counts(total.executed, total.wavefronts, total.ideal) for access, total in worst.accesses.items()
        },
        durations_ns=tuple(one for one in durations if one and one > 0 and math.isfinite(one)),
    )


def _by(sizes: Iterable[int]) -> str:
    return "x".join(str(size) for size in sizes)


def group(profiles: Iterable[Profile]) -> list[tuple[Profile, ...]]:
    """Gather the launches of each kernel under the same conditions, in the order in which they were given.

    One launch counts once, even if both its report and its saved profile were given.
    """
    groups: dict[tuple[str, ...], list[Profile]] = {}
    for profile in profiles:
        one = entry([profile])
        key = (one.kernel, one.function, one.engine, one.grid, one.block, *one.conditions.values())
        same = groups.setdefault(key, [])
        if all(_unlike(profile, other) for other in same):
            same.append(profile)
    return [tuple(group) for group in groups.values()]


def _unlike(one: Profile, other: Profile) -> bool:
    return dataclasses.replace(one, report="") != dataclasses.replace(other, report="")


@dataclass(frozen=True)
class Baseline:
    """The entries of a file."""

    entries: tuple[Entry, ...]
    file: Path = paths.BASELINE

    def nearest(self, now: Entry) -> Entry | None:
        """Return the entry of the same kernel whose conditions are nearest; None where there is none."""
        same = [one for one in self.entries if one.kernel == now.kernel]
        return min(same, key=lambda one: len(differences(one, now)), default=None)

    def with_(self, entries: Iterable[Entry]) -> Baseline:
        """Return the baseline with these entries in place of those of the same kernels and conditions."""
        merged = {(one.kernel, *one.conditions.values()): one for one in (*self.entries, *entries)}
        return dataclasses.replace(self, entries=tuple(merged[key] for key in sorted(merged)))

    def save(self) -> None:
        """Write the file, whole or not at all; raise NotWritable."""
        write_json(self.file, self._content())

    def to_json(self) -> str:
        """Return what the file holds, without its layout."""
        return json.dumps(self._content())

    def _content(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "kernels": [_to_data(one) for one in self.entries]}


def differences(then: Entry, now: Entry) -> list[str]:
    """Say what is not the same, or not known, of the conditions of two entries."""
    found = []
    before, after = then.conditions, now.conditions
    for what in dict.fromkeys((*before, *after)):
        was, is_ = before.get(what, ""), after.get(what, "")
        if was != is_:
            found.append(f"{what} {is_ or 'unknown'}, in the baseline {was or 'unknown'}")
        elif not is_ and what not in ("problem", "clock control"):
            found.append(f"{what} unknown")
    return found


def load(file: Path) -> Baseline:
    """Read a baseline back; raise BadFile or DamagedFile."""
    if file.is_dir():
        raise BadFile(f"{file} is a folder, not a baseline", AGAIN)
    if not file.exists():
        raise BadFile(f"{file} does not exist", AGAIN)
    try:
        content = json.loads(read_bytes(file).decode())
    except (ValueError, RecursionError, MemoryError) as error:
        raise DamagedFile(f"{file} is not whole: {error}", f"{AGAIN}, or take it from your history") from error
    if not isinstance(content, dict) or "kernels" not in content or "schema" not in content:
        raise BadFile(f"{file} is not a baseline", AGAIN)
    if content["schema"] != SCHEMA:
        raise BadFile(f"{file} has schema {content['schema']}, this ncu-swizzle reads {SCHEMA}", AGAIN)
    try:
        return Baseline(tuple(_from_data(one, file) for one in content["kernels"]), file)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(f"{file} is damaged: {error!r}", f"{AGAIN}, or take it from your history") from error


def _to_data(one: Entry) -> dict[str, Any]:
    content = dataclasses.asdict(one)
    content["durations_ns"] = list(one.durations_ns)
    return {**content, "digest": _digest(content)}


def _from_data(data: dict[str, Any], file: Path) -> Entry:
    content = dict(data)
    if content.pop("digest") != _digest(content):
        raise DamagedFile(
            f"the entry of {content.get('kernel')} in {file} was altered after it was written",
            f"{AGAIN}, or take it from your history",
        )
    accesses = {access: Counts(**counts) for access, counts in content["accesses"].items()}
    machine, durations = MachineInfo(**content["machine"]), tuple(content["durations_ns"])
    return Entry(**{**content, "machine": machine, "accesses": accesses, "durations_ns": durations})


def _digest(content: Mapping[str, Any]) -> str:
    return "sha256:" + hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
