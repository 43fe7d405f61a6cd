"""What a GPU says of a proved fix is added to it, and a fix that it refutes is not offered. The launches are faked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking, ProgramFailed
from ncu_swizzle.fix import on_gpu, shown
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Proof
from ncu_swizzle.fix.result import KernelFix, TileFix
from ncu_swizzle.fix.sources import SourceFix
from ncu_swizzle.kernels import gpu
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support import fixes
from tests.support.fixes_on_gpu import Launches
from tests.support.marks import NEEDS_ALL

NAME = "rows-transpose"


def measured(folder: Path) -> KernelFix:
    """Return a fix that holds, measured."""
    before, after = fixes.apply(NAME, folder)
    text = after.source.read_bytes()
    proof = Proof(claims=(Claim(about=About.MEANING, state=ClaimState.HELD, reason="the same elements"),))
    tiles = (TileFix(name="tile", line=5, excess_before=992, mapping="Swizzle<5,0,5>", excess_after=0, proved=True),)
    fix = KernelFix(
        kernel=NAME, source=before.source, before=before.source.read_bytes(), after=text, tiles=tiles, proof=proof
    )
    (made,) = on_gpu.measured([fix], [before], text, Toolchain())
    return made


@NEEDS_ALL
def test_what_the_gpu_says_is_kept_with_the_proof(launches: Launches, tmp_path: Path) -> None:
    launches(took=0.5)
    made = measured(tmp_path)
    assert made.proved
    assert [claim.about for claim in made.measured] == [About.OUTPUTS, About.SANITIZER, About.TIME]
    assert made.measured[2].reason == "500.0 us for 1,000.0 us, in turns: 2.00 times as fast"
    kept = shown.kernel_json(made)
    assert [claim["state"] for claim in json.loads(json.dumps(kept["measured"]))] == ["held"] * 3


@pytest.mark.long
@NEEDS_ALL
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"after": "b"}, "on the GPU: y differs"),
        ({"took": 1.1}, "--no-gpu offers it without timing it"),
        ({"new": 2}, "racecheck: 2 errors; before the fix: memcheck: 0 errors, racecheck: 0 errors"),
        ({"error": ProgramFailed("the kernel failed: an illegal address")}, "an illegal address"),
    ],
)
def test_what_the_gpu_refutes_is_not_offered(
    said: dict[str, Any], reason: str, launches: Launches, tmp_path: Path
) -> None:
    launches(**said)
    made = measured(tmp_path)
    assert not made.proved
    assert made.after == made.before
    assert reason in made.tiles[0].reason
    assert SourceFix(source=made.source, before=made.before, after=made.after, kernels=(made,)).outcome == "refused"


@NEEDS_ALL
def test_hazards_that_were_there_before_are_not_the_fixs(launches: Launches, tmp_path: Path) -> None:
    launches(old=2, new=2)
    assert measured(tmp_path).proved


@NEEDS_ALL
def test_what_cannot_be_launched_is_unknown_and_still_proved(launches: Launches, tmp_path: Path) -> None:
    launches(error=EnvironmentLacking("PyCUDA cannot be imported"))
    made = measured(tmp_path)
    assert made.proved
    assert [claim.state for claim in made.measured] == [ClaimState.UNKNOWN, ClaimState.HELD, ClaimState.UNKNOWN]


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "absent", lambda: "no driver")
    proof = Proof(claims=(Claim(about=About.MEANING, state=ClaimState.HELD, reason="the same elements"),))
    fix = KernelFix(kernel="k", source=Path("k.cu"), before=b"before", after=b"after", proof=proof)
    (made,) = on_gpu.measured([fix], [], b"after", Toolchain())
    assert made.proved
    assert made.not_measured == "no GPU"
    refused = replace(fix, after=fix.before)
    assert on_gpu.unmeasured([refused], "no GPU") == (refused,)
