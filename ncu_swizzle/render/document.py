"""What a page shows: one comparison in full, or a list of kernels with the worst in full.

The templates read the comparison and its profiles; here is only what is computed for a section.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ncu_swizzle.base.files import slug
from ncu_swizzle.render import banks, findings, fragments, kernels, mix, pipes, source, tables
from ncu_swizzle.render.banks import TilesOf
from ncu_swizzle.render.source import Highlight
from ncu_swizzle.reports import many_launches, model
from ncu_swizzle.reports.comparison import Comparison
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import RECORDED

if TYPE_CHECKING:
    from swizzle_pack.finding import Finding


@dataclass(frozen=True, kw_only=True)
class Report:
    """A comparison and its sections; `prefix` starts their link targets on a page of several kernels."""

    comparison: Comparison
    prefix: str
    glance: kernels.Glance
    accesses: tuple[tables.AccessKind, ...]
    banks: banks.BankSection | None
    units: list[pipes.UnitRow]
    stalls: tables.Stalls
    stall_bars: tables.StallBars | None
    mix: mix.MixSection | None
    panels: tuple[source.Panel, ...]
    minor_files: tuple[str, ...]
    findings: list[tuple[str, Sequence[Finding]]]
    foreign: list[tuple[str, model.Finding]]
    instructions: tuple[tables.InstructionTable, ...]
    fragments: tuple[fragments.FragmentShape, ...]

    @property
    def compares(self) -> bool:
        """Whether there is a second profile to compare with the first."""
        return len(self.comparison.profiles) > 1

    @property
    def judged(self) -> tuple[str, ...]:
        """The labels of the profiles that the verdict is about."""
        return tuple(self.comparison.labels[number] for number in self.comparison.judged)

    @property
    def lacking(self) -> list[tuple[str, Profile]]:
        """The profiles that lack a required metric, by label."""
        return [(label, profile) for label, profile in self.comparison.named if profile.missing]

    @property
    def worst(self) -> str:
        """The link target of the worst source line overall; empty if no line has counts."""
        return next((panel.target(jump) for panel in self.panels for jump in panel.worst), "")


def build(comparison: Comparison, highlight: Highlight, tiles_of: TilesOf, prefix: str = "") -> Report:
    """Return the sections of a comparison; `highlight` splits a source into lines of tokens."""
    panels, minor_files = source.panels(comparison, highlight, prefix)
    return Report(
        comparison=comparison,
        prefix=prefix,
        glance=kernels.glance(comparison),
        accesses=tables.accesses(comparison),
        banks=banks.section(comparison, tiles_of),
        units=pipes.units(comparison),
        stalls=tables.stalls(comparison),
        stall_bars=tables.stall_bars(comparison),
        mix=mix.section(comparison),
        panels=panels,
        minor_files=minor_files,
        findings=findings.groups(comparison),
        foreign=findings.foreign(comparison),
        instructions=tables.instructions(comparison),
        fragments=fragments.fragment_section(comparison),
    )


# The profiles embedded in a page: compressed, as they are most of it otherwise.


MOST_BYTES = 1_200_000  # all profiles together, packed: a page should stay small enough to e-mail


class Stored(NamedTuple):
    """One profile as saved; `key` is its label, behind its section's prefix on a page of several kernels.

    `packed` is Base64 of gzip of the saved JSON, which the page's script unpacks.
    """

    key: str
    file: str
    packed: str


class DataSection(NamedTuple):
    """The profiles that the page embeds, and the names of those left out because of their size."""

    stored: tuple[Stored, ...]
    left_out: tuple[str, ...]


def data_section(comparisons: Mapping[str, Comparison]) -> DataSection:
    """Return the profiles of the comparisons (keyed by section prefix), in order, as long as they fit."""
    named = [
        (prefix + label, label if each.title in ("", label) else f"{each.title} {label}", profile)
        for prefix, each in comparisons.items()
        for label, profile in each.named
    ]
    stored: list[Stored] = []
    room = MOST_BYTES
    for key, name, profile in named:
        # Without a time stamp: the same profile gives the same bytes.
        packed = base64.b64encode(gzip.compress(profile.to_json().encode(), mtime=0)).decode()
        room -= len(packed)
        if room < 0:
            break
        stored.append(Stored(key, f"{slug(name)}.json", packed))
    return DataSection(tuple(stored), tuple(name for _, name, _ in named[len(stored) :]))


# Many kernels: one row each, and the worst in full.


MOST_PARTS = 8  # kernels shown in full on one page


@dataclass(frozen=True, kw_only=True)
class KernelsPage:
    """The rows of all kernels, and those in full by their row's number, worst first; bars are relative to the most."""

    title: str
    verdict: str
    notes: tuple[str, ...]
    recorded: bool
    compares: bool
    rows: tuple[kernels.KernelRow, ...]
    most_excess: int
    longest: float  # ns
    reports: dict[int, Report]
    data: DataSection


def build_page(
    comparisons: Sequence[Comparison], notes: Sequence[str], title: str, highlight: Highlight, tiles_of: TilesOf
) -> KernelsPage:
    """Return the page of several comparisons."""
    worst = {index: comparisons[index] for index in many_launches.worst(comparisons, MOST_PARTS)}
    profiles = [profile for each in comparisons for profile in each.profiles]
    return KernelsPage(
        title=title or f"{len(comparisons)} kernels",
        verdict=many_launches.verdict(comparisons),
        notes=tuple(notes),
        recorded=any(profile.engine == RECORDED for profile in profiles),
        compares=len(profiles) > len(comparisons),
        rows=kernels.rows(comparisons),
        most_excess=max((many_launches.excessive(comparison) or 0 for comparison in comparisons), default=0),
        longest=max((profile.duration_ns or 0.0 for profile in profiles), default=0.0),
        reports={index: build(each, highlight, tiles_of, f"k{index}-") for index, each in worst.items()},
        data=data_section({f"k{index}-": each for index, each in worst.items()}),
    )
