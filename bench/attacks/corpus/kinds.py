"""Every kind of damaged and hostile file: how a case of it is made, and how many of them there are."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from bench.attacks.corpus import arguments, caches, executables, launches_files, projects, reports, saved
from bench.attacks.corpus.case import Case, Kind


def cases(count: int, seed: int, only: str = "") -> Iterator[Case]:
    """Yield so many cases, the same ones for the same seed; `only` one kind, if it is named."""
    return (case(number, seed, only) for number in range(count))


def case(number: int, seed: int, only: str = "") -> Case:
    """Return the case of that number; kinds come as often as their shares say."""
    chance = Random(f"{seed}/{only}/{number}")
    kinds = [kind for kind in KINDS if only in ("", kind.name)]
    kind = chance.choices(kinds, [kind.share for kind in kinds])[0]
    return Case(number, kind.name, kind.draft(chance))


KINDS = (
    Kind("report of ours", 600, reports.report_of_ours),
    Kind("hostile report", 1000, reports.hostile_report),
    Kind("facts", 400, reports.hostile_facts),
    Kind("saved profile", 1400, saved.saved_profile),
    Kind("baseline", 400, saved.saved_baseline),
    Kind("run.json", 200, saved.run_manifest),
    Kind("cubin", 1400, executables.cubin),
    Kind("PTX", 600, executables.ptx),
    Kind("launches file", 500, launches_files.launches_file),
    Kind("ncu-swizzle.toml", 450, projects.own_settings),
    Kind("pyproject.toml", 150, projects.pyproject),
    Kind("cache", 500, caches.damaged_cache),
    Kind("arguments", 500, arguments.hostile_arguments),
    Kind("full disk", 100, saved.full_disk),
)
EVERY = sum(kind.share for kind in KINDS)
