"""Instructions by class: what a swizzle must leave as it was, and what it costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ncu_swizzle.render import mix
from ncu_swizzle.reports import frames, reader
from ncu_swizzle.reports.comparison import compare
from tests.support.places import RECORDINGS
from tests.support.recordings import Recorded


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        ("HMMA.16816.F32.BF16", frames.TENSOR),
        ("HGMMA.64x64x16.F32", frames.TENSOR),
        ("HFMA2.MMA", "Floating point"),
        ("LDSM.16.MT88.4", frames.SHARED),
        ("LDS", frames.SHARED),
        ("LDGSTS.E.BYPASS.128", frames.SHARED),
        ("LDGDEPBAR", frames.CONTROL),
        ("LDG.E.64", "Global and local memory"),
        ("LDC.64", "Constants"),
        ("IMAD.MOV.U32", frames.MOVE),
        ("IMAD.WIDE", frames.INTEGER),
        ("VIADDMNMX", frames.INTEGER),
        ("S2R", frames.MOVE),
        ("F2FP.BF16.F32.PACK_AB", "Conversion"),
        ("UTMALDG.2D", frames.TMA),
        ("FROBNICATE", frames.OTHER),
        ("@!PT LDS", frames.PREDICATED_OFF),
    ],
)
def test_an_opcode_has_one_class(opcode: str, kind: str) -> None:
    assert frames.classify(opcode) == kind


@pytest.mark.long
def test_every_recorded_opcode_is_known_and_every_instruction_counted_once() -> None:
    for family in ("attention", "tma"):
        for file in sorted((RECORDINGS / family).glob("*.ncu-rep")):
            for profile in reader.read(file):
                found = frames.count(profile)
                assert [opcode for opcode in found.opcodes if frames.classify(opcode) == frames.OTHER] == []
                assert found.total() == found.classes.total() == profile.number("inst_executed")


def test_the_swizzle_leaves_the_work_and_changes_the_addresses(recorded: Recorded) -> None:
    before, after = recorded("kernel1"), recorded("kernel2")
    built = mix.section(compare([before, after]))
    assert built is not None
    rows = {row.name: row for row in built.rows}
    for access, total in before.accesses.items():
        assert str(rows[access].counts[0]) == f"{total.executed:,}", "what is guarded by @!PT accesses nothing"
    for name in ("HMMA", "LDSM", "LDGSTS", "STS"):
        executed = sum(i.executed or 0 for i in before.instructions if i.opcode.split(".")[0] == name)
        assert rows[name].change == "same"
        assert str(rows[name].counts[0]) == f"{executed:,}"
    assert rows[frames.INTEGER].change.startswith("−")
    assert "execute the same number of HMMA, LDGSTS, LDS, LDSM and STS" in built.sentence
    assert "integer and logic (address arithmetic) −24,936,448" in built.sentence


def test_equal_profiles_execute_the_same(recorded: Recorded) -> None:
    built = mix.section(compare([recorded("kernel1")] * 2))
    assert built is not None
    assert built.sentence.endswith("and of everything else.")
    assert {row.change for row in built.rows} == {"same"}


def test_what_was_not_counted_is_unknown_and_not_zero(recorded: Recorded) -> None:
    profile = recorded("kernel1")
    silent = replace(profile, instructions=tuple(replace(i, executed=None) for i in profile.instructions))
    assert mix.section(compare([silent])) is None
    built = mix.section(compare([profile, silent]))
    assert built is not None
    assert {str(row.counts[1]) for row in (*built.rows, built.total)} == {"unknown"}
    assert built.sentence == ""
