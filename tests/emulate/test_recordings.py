"""The emulator against the recordings: every shared-memory instruction's counts are what ncu counted on the H100."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ncu_swizzle.emulate.counts import Counts
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports.model import Profile
from tests.support.emulation import recorded_launch

# A minute each: wgmma-staged and wgmma-tma-store have the same schedule, and bench/emulated.py runs all of them.
ALIKE = re.compile(r"wgmma-(persistent|stmatrix)")

OWN = [
    # each block of those with an architecture of their own loads its tiles by itself
    pytest.param(kernel.name, marks=[pytest.mark.slow] * bool(kernel.arch))
    for _, kernel in catalog.shipped()
    if not kernel.library and not ALIKE.search(kernel.name)
]


@pytest.mark.parametrize("name", OWN)
def test_counts_are_those_of_the_gpu(
    name: str, recorded: Callable[[str], Profile], recorded_file: Callable[[str], Path]
) -> None:
    profile = recorded(name)
    counts = emulate(*recorded_launch(name, recorded_file(name), profile))
    rows = counts.rows
    assert len(rows) == len(profile.instructions)
    measured = {i.pc: (i.executed, i.wavefronts, i.ideal) for i in profile.instructions if i.access}
    first = profile.instructions[0].pc
    computed = {first + r.offset: (r.executed, r.wavefronts, r.ideal) for r in rows if r.access}
    assert computed == measured
    assert not counts.unknown
    assert not counts.notes
    _other_instructions_agree(profile, counts)


def _other_instructions_agree(profile: Profile, counts: Counts) -> None:
    """Of every instruction whose number of runs is known it is the measured one; the others' depend on data."""
    for instruction, row in zip(profile.instructions, counts.rows, strict=True):
        if row.executed is None:
            assert row.reason.startswith("how often it runs depends on ")
            assert row.origin is not None
        elif instruction.executed is not None:
            assert row.executed == instruction.executed, row


UNKNOWN = [("kernel2", ("MUFU", "HMMA")), ("tma-128", ("SYNCS",)), ("transpose-xor", ())]


@pytest.mark.parametrize(("name", "sources"), UNKNOWN)
def test_unknown_are_only_the_slow_way_to_a_reciprocal_and_waiting(
    name: str,
    sources: tuple[str, ...],
    recorded: Callable[[str], Profile],
    recorded_file: Callable[[str], Path],
) -> None:
    counts = emulate(*recorded_launch(name, recorded_file(name), recorded(name)))
    unknown = [row for row in counts.rows if row.executed is None]
    assert bool(unknown) == bool(sources)
    for row in unknown:
        origin = next(other for other in counts.rows if other.offset == row.origin)
        assert origin.opcode.split(".")[0] in sources
        assert not row.access


def test_a_grid_of_which_all_blocks_do_the_same_takes_few_runs(
    recorded: Callable[[str], Profile], recorded_file: Callable[[str], Path]
) -> None:
    counts = emulate(*recorded_launch("transpose-plain", recorded_file("transpose-plain"), recorded("transpose-plain")))
    assert (counts.blocks, counts.blocks_run, counts.classes, counts.checked) == (16384, 1, 1, 3)


def test_requests_are_given_with_their_number(
    recorded: Callable[[str], Profile], recorded_file: Callable[[str], Path]
) -> None:
    counts = emulate(*recorded_launch("transpose-plain", recorded_file("transpose-plain"), recorded("transpose-plain")))
    loads = next(counts.requests[row.offset] for row in counts.rows if row.access == "LDS")
    assert loads.op == "ld.shared.b32"
    assert loads.addresses.shape == (8, 32)  # one per warp
    assert (loads.addresses[:, 1:] - loads.addresses[:, :-1] == 128).all()  # a column of a tile 32 floats wide
    assert loads.active.all()
    assert loads.times.tolist() == [1] * 8
