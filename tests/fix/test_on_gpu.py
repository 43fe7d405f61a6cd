"""What launches on a GPU say of a proved fix is added to it, and a fix that they refute is not offered.

The launches are faked; tests/gpu/test_catalog_on_gpu.py makes them.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, ProgramFailed
from ncu_swizzle.engines.measured import LaunchJob
from ncu_swizzle.fix import on_gpu, shown
from ncu_swizzle.fix.claims import About, Claim, ClaimState, Proof
from ncu_swizzle.fix.result import KernelFix, TileFix
from ncu_swizzle.fix.sources import FixQuery, SourceFix, measured
from ncu_swizzle.kernels import device
from ncu_swizzle.kernels.family import Target, write
from ncu_swizzle.kernels.family import read as read_family_json
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support import fixes
from tests.support.marks import NEEDS_ALL

HELD, FAILED, UNKNOWN = ClaimState.HELD, ClaimState.FAILED, ClaimState.UNKNOWN
PROVED = Proof(claims=(Claim(about=About.MEANING, state=HELD, reason="the same elements"),))
Launched = Callable[..., KernelFix]


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Launched:
    """Return a function that measures a proved fix on a GPU whose launches come to what it is given."""
    before, after = fixes.apply("rows-transpose", tmp_path)
    text = after.source.read_bytes()
    tile = TileFix(name="tile", line=5, excess_before=992, mapping="Swizzle<5,0,5>", excess_after=0, proved=True)
    fix = KernelFix(
        kernel=before.name,
        source=before.source,
        before=before.source.read_bytes(),
        after=text,
        tiles=(tile,),
        proof=PROVED,
    )
    monkeypatch.setattr(device, "absent", lambda: "")
    monkeypatch.setattr(device, "devices", lambda: [("a GPU", (9, 0))])

    def come_to(after: str = "a", took: float = 1.0, error: NcuSwizzleError | None = None) -> KernelFix:
        facts = {
            "outputs": [{"before": {"y": ["a"] * 3}, "after": {"y": [after] * 3}}],
            "times_ms": {"before": [1.0] * 5, "after": [took] * 5},
        }

        def run_batch(jobs: Sequence[LaunchJob], *_: Any, **__: Any) -> list[Any]:
            assert all(Path(kernel.cubin).is_file() for job in jobs for kernel in job.kernels)
            return [error or facts for _ in jobs]

        monkeypatch.setattr(on_gpu, "run_batch", run_batch)
        (measured,) = on_gpu.measured([fix], [before], text, Toolchain())
        return measured

    return come_to


@NEEDS_ALL
def test_what_the_gpu_says_is_kept_with_the_proof(launched: Launched) -> None:
    measured = launched(took=0.5)
    assert measured.proved
    assert [claim.about for claim in measured.measured] == [About.OUTPUTS, About.TIME]
    assert measured.measured[1].reason == "500.0 us for 1,000.0 us, in turns: 2.00 times as fast"
    kept = json.loads(json.dumps(shown.kernel_json(measured)["measured"]))
    assert [claim["state"] for claim in kept] == ["held"] * 2
    unlaunched = launched(error=EnvironmentLacking("PyCUDA cannot be imported"))
    assert unlaunched.proved
    assert [claim.state for claim in unlaunched.measured] == [UNKNOWN] * 2


@NEEDS_ALL
def test_what_the_gpu_refutes_is_not_offered(launched: Launched) -> None:
    refuted: list[tuple[dict[str, Any], str]] = [
        ({"after": "b"}, "on the GPU: y differs"),
        ({"took": 1.1}, "--no-gpu offers it without timing it"),
        ({"error": ProgramFailed("the kernel failed: an illegal address")}, "an illegal address"),
    ]
    for launches, reason in refuted:
        fix = launched(**launches)
        assert reason in fix.tiles[0].reason
        assert (fix.proved, fix.after) == (False, fix.before), reason
        assert SourceFix(source=fix.source, before=fix.before, after=fix.after, kernels=(fix,)).outcome == "refused"


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "absent", lambda: "no driver")
    fix = KernelFix(kernel="k", source=Path("k.cu"), before=b"before", after=b"after", proof=PROVED)
    for wanted, why in ((True, "no GPU"), (False, "--no-gpu")):
        (kept,) = measured([fix], [], b"after", FixQuery(on_gpu=wanted))
        assert (kept.proved, kept.not_measured) == (True, why)
    refused = replace(fix, after=fix.before)
    assert measured([refused], [], b"after", FixQuery(on_gpu=True)) == (refused,)


@NEEDS_ALL
def test_both_versions_are_kernels_of_one_family(tmp_path: Path) -> None:
    before, after = fixes.apply("carved-matmul", tmp_path / "after")
    family, (old, new) = on_gpu.together(before, after, tmp_path, Toolchain())
    write(family, tmp_path / "family.json")
    read = read_family_json(tmp_path / "family.json")
    assert [kernel.name for kernel in read.kernels] == ["before", "after"]
    assert list(read.source_texts()) == ["carved_matmul.cu"]
    assert Path(old.cubin).read_bytes() != Path(new.cubin).read_bytes()
    assert [Target(family, kernel, before.problem).launch.shared for kernel in (old, new)] == [8192, 8192 + 128]


def test_outputs_must_be_bit_identical_unless_they_vary_by_themselves() -> None:
    rows = [
        ({"y": ["a", "a"]}, {"y": ["a", "a"]}, HELD, "y: bit-identical for 1 draws of random inputs"),
        ({"y": ["a", "a"]}, {"y": ["b", "b"]}, FAILED, "y differs"),
        ({"y": ["a", "a"]}, {"y": ["a", "b"]}, FAILED, "y differs"),
        ({"y": ["a", "b"]}, {"y": ["a", "b"]}, UNKNOWN, "y differs from launch to launch, before the fix too"),
        ({"x": ["a", "b"], "y": ["c", "c"]}, {"x": ["b", "a"], "y": ["d", "d"]}, FAILED, "y differs"),
        ({}, {}, UNKNOWN, "no argument is described as an output"),
    ]
    claims = [on_gpu._outputs([{"before": before, "after": after}]) for before, after, _, _ in rows]
    assert [(claim.state, claim.reason) for claim in claims] == [(state, reason) for _, _, state, reason in rows]


def test_a_fix_may_not_be_slower_but_by_chance() -> None:
    rows = [
        ([0.9] * 5, HELD),
        ([1.015] * 5, HELD),
        ([1.03] * 5, FAILED),
        ([1.03, 1.03, 1.03, 1.03, 0.9], UNKNOWN),
        ([1.03] * 12 + [0.9] * 3, FAILED),
        ([1.3] * 11 + [0.9] * 4, UNKNOWN),
    ]
    states = [on_gpu._time({"before": [1.0] * len(after), "after": after}).state for after, _ in rows]
    assert states == [state for _, state in rows]
    # One slow sample before the fix makes it no faster.
    assert on_gpu._time({"before": [1.0, 1.0, 1.0, 1.0, 9.0], "after": [1.03] * 4 + [9.3]}).state is FAILED
