"""On a real GPU: fixed kernels leave the same bytes, compute-sanitizer finds nothing, and none is slower."""

from __future__ import annotations

from pathlib import Path

from ncu_swizzle.fix import on_gpu
from ncu_swizzle.fix.claims import About, ClaimState
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support import fixes, fixes_on_gpu
from tests.support.fix_corpus import specs, with_text
from tests.support.fixes import FIXES


def test_fixed_kernels_are_the_same_and_no_slower(tmp_path: Path) -> None:
    pairs = {name: fixes.apply(name, tmp_path / "after" / name) for name in FIXES}
    claims = fixes_on_gpu.measured(pairs, tmp_path)
    print(fixes_on_gpu.table(claims))
    for name, each in claims.items():
        assert [claim.about for claim in each] == [About.OUTPUTS, About.SANITIZER, About.TIME], name
        assert all(claim.held for claim in each[:2]), (name, each)
        assert each[2].state is not ClaimState.FAILED, (name, each)


def test_a_wrong_fix_is_noticed(tmp_path: Path) -> None:
    target, fix = specs()["rows-transpose"], FIXES["rows-transpose"]
    (old, new), *_ = fix.edits
    wrong = with_text(target, fix.text(target).replace(new, old), tmp_path / "after")
    pair = on_gpu.compiled_pair(target, wrong, tmp_path / "pair", Toolchain())
    ((outputs, *_),) = on_gpu.measure([pair], tmp_path, Toolchain())
    assert outputs.about is About.OUTPUTS
    assert outputs.state is ClaimState.FAILED
