"""Profiles side by side: which line an access is blamed on, and sums of memory. Sentences are in tests/data/shown."""

from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import NotComparable
from ncu_swizzle.base.traffic import Traffic
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.cycles.simulated import Simulated, Span, saved_by
from ncu_swizzle.gate import verdict
from ncu_swizzle.gate.verdict import Place
from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.attribution import FrameOwners
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import DURATION, Profile, UnknownCounts
from tests.support.recordings import Recorded
from tests.support.reports import EMPTY


def test_none_are_not_compared() -> None:
    with pytest.raises(NotComparable):
        compare([])


CUDA = "/usr/local/cuda/include"
MMA: Location = (f"{CUDA}/crt/mma.hpp", 91)
FUNCTOR: Location = ("/home/ci/work/src/functor.cuh", 20)
CUB: Location = ("/home/ci/venv/lib/python3.12/site-packages/nvidia/cu13/include/cub/agent.cuh", 120)
OWN: Location = ("k.cu", 14)


def access(*stack: Location, samples: int = 0) -> Instruction:
    return Instruction(16, "LDSM.16.M88.4 R0, [R1]", "LDSM.16.M88.4", "LDSM", stack, 1, 8, 1, {"stalled": samples})


def profile(*instructions: Instruction) -> Profile:
    return replace(EMPTY, instructions=instructions)


def blamed(*stack: Location) -> tuple[Location, tuple[Location, ...]]:
    (site,) = attribution.sites(profile(access(*stack)))
    return site.line, site.through


def test_headers_lead_to_the_nearest_line_that_the_user_wrote() -> None:
    for own in ("/home/ci/work/src/k.cu", "k.cu", "C:\\work\\k.cu"):
        assert blamed(MMA, (own, 14)) == ((own, 14), (MMA,))
    inner: Location = (f"{CUDA}/sm_20_atomic_functions.hpp", 84)
    outer: Location = (f"{CUDA}/device_atomic_functions.hpp", 112)
    assert blamed(inner, outer, OWN) == (OWN, (inner, outer))
    assert blamed(FUNCTOR, CUB) == (FUNCTOR, ()), "code that a library calls is the user's"
    assert blamed(MMA, FUNCTOR, CUB) == (FUNCTOR, (MMA,))
    line, through = blamed(CUB, (CUB[0], 300))
    assert (line[0], through) == (CUB[0], ()), "a library alone is blamed itself"


def test_a_file_of_the_checkout_beats_one_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "k.cu").touch()
    vendored: Location = ("/home/ci/vendor/tile.cuh", 5)
    launched = profile(access(vendored, ("/home/ci/work/src/k.cu", 14)))
    (site,) = attribution.sites(launched, verdict.files_in(tmp_path))
    assert (site.line, site.through) == (("/home/ci/work/src/k.cu", 14), (vendored,))
    place = verdict.worst(launched, here=verdict.files_in(tmp_path))
    assert verdict.moved(place, tmp_path) == Place("src/k.cu", 14, (Place(*vendored),))
    (tmp_path / "mma.hpp").touch()
    assert verdict.in_checkout(MMA[0], tmp_path) == MMA[0], "a library's header is not sought in the checkout"


def test_the_slowest_line_and_that_of_a_finding_are_the_user_s_too() -> None:
    slow = replace(access(MMA, OWN, samples=9), access="", wavefronts=None, ideal=None)
    assert verdict.worst(profile(slow)) == Place(*OWN)
    shown = access(MMA, OWN)
    assert FrameOwners(profile(shown)).named(shown) == OWN
    below: Location = ("include/cute/arch/copy.hpp", 7)  # of the profile's source folders: as ncu shows it
    assert FrameOwners(profile()).named(access(below, OWN)) == below


def test_sums_of_memory_with_an_unknown_part_are_unknown() -> None:
    rows = [
        Instruction(0, "LDL R0, [R1]", "LDL", executed=8, traffic=Traffic(local_sectors=32)),
        Instruction(16, "LDL R0, [R1+R2]", "LDL", executed=8),
        Instruction(32, "STL [R1], R0", "STL", executed=8, traffic=Traffic(local_sectors=32)),
        Instruction(48, "STL [R1+0x4], R0", "STL", executed=0, traffic=Traffic(local_sectors=0)),
        Instruction(64, "@!PT LDL R0, [R1+0x8]", "LDL", executed=8),
        Instruction(80, "LDG.E R0, [R2.64]", "LDG.E", executed=8, traffic=Traffic(sectors=32, ideal=8, tags=8)),
        Instruction(96, "LDG.E R0, [R4.64]", "LDG.E"),
    ]
    why = UnknownCounts(code="UN001", reason="its address", remedy="", offsets=(16, 64, 96))
    profile = replace(EMPTY, instructions=tuple(rows), unknown_traffic=(why,))
    table = compare([profile]).memory.set_index("access")
    assert {*table.index} == {"LDL", "STL", "LDG"}
    assert table["executed"].dropna().to_dict() == {"LDL": 16, "STL": 8}
    assert table["local_sectors"].dropna().to_dict() == {"STL": 32}
    assert table["sectors"].isna().all()
    sure = replace(profile, instructions=(*rows[:1], *rows[2:-1]), unknown_traffic=())
    assert compare([sure]).memory.set_index("access")["local_sectors"].dropna().to_dict() == {"LDL": 32, "STL": 32}
    assert compare([sure]).memory.set_index("access").loc["LDG", ["sectors", "excessive_bytes"]].tolist() == [32, 768]


def test_without_times_what_two_simulations_say_of_cycles_is_in_the_verdict(recorded: Recorded) -> None:
    def taking(cycles: float, profile: Profile) -> Profile:
        told = Span(point=cycles, low=cycles, high=cycles)
        return replace(profile, simulated=Simulated(cycles=told, saved=told))

    timed = [taking(1000, recorded("kernel1")), taking(250, recorded("kernel2"))]
    untimed = [
        replace(profile, metrics={name: value for name, value in profile.metrics.items() if name != DURATION})
        for profile in timed
    ]
    both = compare(untimed)
    assert " and would take an estimated 75% fewer cycles on an H100 (" in both.verdict
    assert both.verdict.endswith("both simulated.")
    assert both.saves == saved_by(*(profile.simulated for profile in untimed))
    assert compare(untimed[:1]).saves is None
    assert "simulated" not in compare(timed).verdict, "what was measured says it better"
