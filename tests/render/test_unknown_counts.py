"""Pages of sources where some or all counts are unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ncu_swizzle.render import formats, page, source, text
from ncu_swizzle.render.source import Colours, Panel
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import EMULATED
from tests.support.pages import shown
from tests.support.reports import EMPTY

FILE = "k.cu"


def profile_of(*instructions: Instruction) -> Profile:
    lines = "\n".join(f"line {number};" for number in range(1, 10))
    return replace(EMPTY, engine=EMULATED, instructions=instructions, sources={FILE: lines})


def access(line: int, wavefronts: int | None, ideal: int | None = 1, kind: str = "LDS") -> Instruction:
    return Instruction(16 * line, f"{kind} R0", kind, kind, ((FILE, line),), 1, wavefronts, ideal)


def panels(*profiles: Profile) -> Sequence[Panel]:
    return source.panels(compare(list(profiles)), Colours())[0]


MIXED = profile_of(access(3, 1), access(5, 8, 1, "STS"), access(5, None, None))
UNKNOWN = profile_of(access(3, None, None), access(5, None, None))


@pytest.mark.parametrize("profile", [MIXED, UNKNOWN, profile_of(access(2, None, None), access(2, 4))])
def test_a_page_is_made_of_unknown_counts(profile: Profile) -> None:
    comparison = compare([profile, profile])
    assert "unknown" in page.render(comparison)
    formats.render_all([comparison], (), "")


def test_a_line_with_known_excess_among_unknown_counts_is_linked() -> None:
    (panel,) = panels(MIXED)
    assert [(jump.number, jump.why) for jump in panel.worst] == [(5, "7 excessive")]
    (counts,) = panel.columns
    assert text.summed(counts.lines[5], "wavefronts") == "at least 8"
    assert source.brief(counts.lines[5]) == "≥ 7"
    assert text.summed(counts.lines[3], "wavefronts") == "1"


def test_sums_of_what_is_known_are_lower_bounds() -> None:
    built = shown(MIXED, UNKNOWN)
    every = next(kind for kind in built.accesses if kind.name == "All")
    assert [text.summed(row.total, "excessive") for row in every.rows] == ["at least 7", "unknown"]
    assert [text.summed(row.total, "wavefronts") for row in every.rows] == ["at least 9", "unknown"]
    assert [row.excessive for row in built.glance.rows] == ["at least 7", "unknown"]
    assert MIXED.total.excessive is None, "a gate does not judge a lower bound"


def test_the_worst_lines_are_those_of_one_profile() -> None:
    (panel,) = panels(profile_of(access(3, 6), access(5, 8)), profile_of(access(3, 6), access(5, 1)))
    assert [jump.number for jump in panel.worst] == [5, 3]
    assert [jump.why for jump in panel.worst] == ["7 excessive in bare #1", "5 excessive in bare #1"]


def test_lines_of_unknown_counts_are_shown_as_unknown() -> None:
    (panel,) = panels(UNKNOWN)
    (counts,) = panel.columns
    shown = {number: text.summed(total, "wavefronts") for number, total in counts.lines.items()}
    assert shown == {3: "unknown", 5: "unknown"}


def test_two_versions_with_unknown_counts_are_aligned() -> None:
    after = replace(UNKNOWN, sources={FILE: UNKNOWN.sources[FILE].replace("line 4;", "line 4;\nnew line;")})
    (panel,) = panels(UNKNOWN, after)
    assert panel.file.pairs


def test_the_page_opens_on_a_file_that_it_holds() -> None:
    header = ("/usr/local/cuda/include/crt/mma.hpp", 91)
    inlined = Instruction(16, "LDSM R0", "LDSM", "LDSM", (header, (FILE, 5)), 1, 8, 1)
    first, second = panels(profile_of(inlined))
    assert (first.file.path, first.open, bool(first.file.text)) == (FILE, True, True)
    assert [jump.number for jump in first.worst] == [5]
    assert (second.file.path, second.open) == (header[0], False)
