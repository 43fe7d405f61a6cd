"""On a real GPU: fixed kernels leave the same bytes, compute-sanitizer finds nothing, and none is slower."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.fix import on_gpu
from ncu_swizzle.fix.claims import About, State
from tests.support import fixes
from tests.support.fix_corpus import specs, with_text
from tests.support.fixes import FIXES

LARGE = {"n": 2048, "blocks": 4096, "w": 4096, "h": 4096}  # so that a launch takes longer than to launch it
SMALLER = {"rows-sum": {"n": 2048, "blocks": 256}, "stages-flat": {"n": 2048, "blocks": 1024}}


def large(target: Target) -> Target:
    sizes = LARGE | SMALLER.get(target.name, {})
    return replace(target, problem={name: sizes.get(name, size) for name, size in target.problem.items()})


@pytest.mark.parametrize("name", FIXES)
def test_a_fixed_kernel_is_the_same_and_no_slower(name: str, tmp_path: Path) -> None:
    before, after = map(large, fixes.apply(name, tmp_path / "after"))
    claims = on_gpu.measure(before, after, tmp_path, Toolchain())
    assert [claim.about for claim in claims] == [About.OUTPUTS, About.SANITIZER, About.TIME]
    assert all(claim.held for claim in claims), claims


def test_a_wrong_fix_is_noticed(tmp_path: Path) -> None:
    target, fix = specs()["rows-transpose"], FIXES["rows-transpose"]
    (old, new), *_ = fix.edits
    wrong = with_text(target, fix.text(target).replace(new, old), tmp_path / "after")
    outputs, *_ = on_gpu.measure(target, wrong, tmp_path, Toolchain())
    assert outputs.about is About.OUTPUTS
    assert outputs.state is State.FAILED
