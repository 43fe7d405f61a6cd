"""Which line an access is blamed on: the nearest one that the user wrote, and the headers that it goes through."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.gate import verdict
from ncu_swizzle.gate.verdict import Place
from ncu_swizzle.reports import attribution
from ncu_swizzle.reports.attribution import FrameOwners
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.model import Profile
from tests.support.reports import EMPTY

CUDA = "/usr/local/cuda/include"
MMA: Location = (f"{CUDA}/crt/mma.hpp", 91)
FUNCTOR: Location = ("/home/ci/work/src/functor.cuh", 20)
CUB: Location = ("/home/ci/venv/lib/python3.12/site-packages/nvidia/cu13/include/cub/agent.cuh", 120)


def access(*stack: Location, samples: int = 0) -> Instruction:
    return Instruction(16, "LDSM.16.M88.4 R0, [R1]", "LDSM.16.M88.4", "LDSM", stack, 1, 8, 1, {"stalled": samples})


def profile(*instructions: Instruction, **sources: str) -> Profile:
    return replace(EMPTY, instructions=instructions, sources=sources)


def blamed(*stack: Location) -> tuple[Location, tuple[Location, ...]]:
    (site,) = attribution.sites(profile(access(*stack)))
    return site.line, site.through


@pytest.mark.parametrize("own", ["/home/ci/work/src/k.cu", "k.cu", "C:\\work\\k.cu"])
def test_a_header_of_cuda_is_not_to_blame(own: str) -> None:
    assert blamed(MMA, (own, 14)) == ((own, 14), (MMA,))


def test_several_headers_lead_to_the_nearest_own_line() -> None:
    inner: Location = (f"{CUDA}/sm_20_atomic_functions.hpp", 84)
    outer: Location = (f"{CUDA}/device_atomic_functions.hpp", 112)
    line, through = blamed(inner, outer, ("k.cu", 9))
    assert (line, through) == (("k.cu", 9), (inner, outer))


def test_code_called_by_a_library_is_blamed_itself() -> None:
    assert blamed(FUNCTOR, CUB) == (FUNCTOR, ())
    assert blamed(MMA, FUNCTOR, CUB) == (FUNCTOR, (MMA,))


def test_a_library_of_its_own_is_blamed_as_ever() -> None:
    line, through = blamed(CUB, (CUB[0], 300))
    assert line[0] == CUB[0]
    assert through == ()


def test_a_file_of_the_checkout_beats_one_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "k.cu").touch()
    vendored: Location = ("/home/ci/vendor/tile.cuh", 5)
    launched = profile(access(vendored, ("/home/ci/work/src/k.cu", 14)))
    (site,) = attribution.sites(launched, verdict.files_in(tmp_path))
    assert (site.line, site.through) == (("/home/ci/work/src/k.cu", 14), (vendored,))
    place = verdict.worst(launched, here=verdict.files_in(tmp_path))
    assert verdict.moved(place, tmp_path) == Place("src/k.cu", 14, (Place(*vendored),))


def test_a_library_s_header_is_not_sought_in_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "mma.hpp").touch()
    assert verdict.in_checkout(MMA[0], tmp_path) == MMA[0]


def test_the_slowest_line_is_an_own_one_too() -> None:
    slow = replace(access(MMA, ("k.cu", 14), samples=9), access="", wavefronts=None, ideal=None)
    assert verdict.worst(profile(slow)) == Place("k.cu", 14)


def test_the_line_of_a_finding() -> None:
    shown = access(MMA, ("k.cu", 14))
    assert FrameOwners(profile(shown)).named(shown) == ("k.cu", 14)
    below: Location = ("include/cute/arch/copy.hpp", 7)  # of the profile's source folders: as ncu shows it
    assert FrameOwners(profile()).named(access(below, ("k.cu", 14))) == below
