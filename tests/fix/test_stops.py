"""Of the candidates of a tile, the one that came furthest says why nothing is proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.fix.candidates import FixOptions, MappingKind
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Proof
from ncu_swizzle.fix.result import Stop, furthest, unproved
from ncu_swizzle.fix.sources import FixQuery, fix_all
from tests.support.marks import NEEDS_ALL

HELD = Claim(about=About.REBUILT, state=ClaimState.HELD, reason="by nvcc")
UNFIT = Stop(stage=0, reason="p escapes", line=("k.cu", 7), mapping="the best")
WORSE = unproved(
    Proof(claims=(HELD, Claim(about=About.EXCESS, state=ClaimState.FAILED, reason="8 are left"))),
    ("k.cu", 3),
    "another",
)
UNKNOWN = unproved(
    Proof(
        claims=(HELD, Claim(about=About.MEANING, state=ClaimState.UNKNOWN, reason="it depends", line=("body.cuh", 9)))
    ),
    ("k.cu", 3),
    "another",
)


def test_a_proof_that_failed_says_more_than_what_could_not_be_written() -> None:
    assert furthest(UNFIT, WORSE) is WORSE
    assert furthest(WORSE, UNFIT) is WORSE
    assert furthest(WORSE, UNKNOWN) is UNKNOWN
    assert furthest(UNFIT, UNFIT) is UNFIT
    assert (UNFIT.line, WORSE.line, UNKNOWN.line) == (("k.cu", 7), ("k.cu", 3), ("body.cuh", 9))
    assert (WORSE.unknown, UNKNOWN.unknown) == (False, True)


def test_the_mapping_is_named_unless_it_is_the_best() -> None:
    assert UNFIT.against("the best") == "p escapes"
    assert WORSE.against("the best") == "8 are left, with another"


@pytest.mark.long
@NEEDS_ALL
def test_what_does_not_compile_says_what_the_compiler_does(fix_example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(fix_example)
    source = fix_example / "turn.cu"
    text = source.read_text(encoding="utf-8")
    # Nothing is left of a block's 48 KiB, so that no padding compiles.
    assert "__syncthreads();" in text
    rest = "__shared__ volatile char rest[49152 - 4096]; rest[threadIdx.x] = 0;"
    fixed = text.replace("__syncthreads();", f"{rest} __syncthreads();")
    source.write_text(fixed, encoding="utf-8")
    (kernel,) = fix_all("turn.cu", FixQuery(options=FixOptions(MappingKind.PADDING))).kernels
    assert "does not compile" in kernel.tiles[0].reason
    assert "too much shared data" in kernel.tiles[0].reason
