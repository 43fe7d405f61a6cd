"""The emulator against the recordings: every shared-memory instruction's counts are what ncu counted on the H100."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from ncu_swizzle.emulate.counts import Counts
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports.model import Profile
from tests.support.emulation import recorded_launch

Recorded = Callable[[str], Profile]
RecordedFile = Callable[[str], Path]

# A minute each: wgmma-staged and wgmma-tma-store have the same schedule, and bench/emulated.py runs all of them.
ALIKE = re.compile(r"wgmma-(persistent|stmatrix)")
LONG_FAMILIES = ("attention", "tma", "cute", "vectors")
LONG, SLOW = ("gemm-swizzled", "gemm-pipelined", "kernel3"), re.compile("gemm-(wide|padded|half-swizzled|plain)")


def families() -> Iterator[ParameterSet]:
    """Yield the names of each family's kernels that take little time, and the others by themselves."""
    for family in catalog.shipped().families:
        if family.never_run:
            continue
        own = [kernel for kernel in family.kernels if not kernel.library and not ALIKE.search(kernel.name)]
        apart = {
            # each block of those with an architecture of their own loads its tiles by itself
            kernel.name: pytest.mark.slow if kernel.arch or SLOW.fullmatch(kernel.name) else pytest.mark.long
            for kernel in own
            if kernel.arch or kernel.name in LONG or SLOW.fullmatch(kernel.name)
        }
        yield from (pytest.param([name], id=name, marks=mark) for name, mark in apart.items())
        if few := [kernel.name for kernel in own if kernel.name not in apart]:
            yield pytest.param(few, id=family.name, marks=[pytest.mark.long] * (family.name in LONG_FAMILIES))


@pytest.mark.parametrize("names", [*families()])
def test_counts_are_those_of_the_gpu(names: list[str], recorded: Recorded, recorded_file: RecordedFile) -> None:
    for name in names:
        profile = recorded(name)
        counts = emulate(*recorded_launch(name, recorded_file(name), profile))
        rows = counts.rows
        assert len(rows) == len(profile.instructions)
        measured = {i.pc: (i.executed, i.wavefronts, i.ideal) for i in profile.instructions if i.access}
        first = profile.instructions[0].pc
        computed = {first + r.offset: (r.executed, r.wavefronts, r.ideal) for r in rows if r.access}
        assert computed == measured, name
        assert not counts.unknown, name
        assert not counts.notes, name
        _other_instructions_agree(profile, counts)


def _other_instructions_agree(profile: Profile, counts: Counts) -> None:
    """Of every instruction whose number of runs is known it is the measured one; the others' depend on data."""
    for instruction, row in zip(profile.instructions, counts.rows, strict=True):
        if row.executed is None:
            assert row.reason.startswith("how often it runs depends on ")
            assert row.origin is not None
        elif instruction.executed is not None:
            assert row.executed == instruction.executed, row


def test_blocks_that_do_the_same_take_few_runs_and_make_the_requests_of_one(
    recorded: Recorded, recorded_file: RecordedFile
) -> None:
    counts = emulate(*recorded_launch("transpose-plain", recorded_file("transpose-plain"), recorded("transpose-plain")))
    assert (counts.blocks, counts.blocks_run, counts.classes, counts.checked) == (16384, 1, 1, 3)
    loads = next(counts.requests[row.offset] for row in counts.rows if row.access == "LDS")
    assert loads.op == "ld.shared.b32"
    assert loads.addresses.shape == (8, 32)  # one per warp
    assert (loads.addresses[:, 1:] - loads.addresses[:, :-1] == 128).all()  # a column of a tile 32 floats wide
    assert loads.active.all()
    assert loads.times.tolist() == [1] * 8
