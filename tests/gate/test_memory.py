"""What lint says of global and local memory and of branches, from the source to the code."""

import dataclasses

import pytest

from ncu_swizzle.base.traffic import Pattern, Traffic
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.memory import judge_memory
from ncu_swizzle.reports import memory
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.memory import MemoryLine
from ncu_swizzle.reports.model import UnknownCounts
from tests.support.places import table
from tests.support.reports import EMPTY


def line(*patterns: Pattern, **fields: object) -> MemoryLine:
    """Return accesses with so many sectors, of 10 warps each."""
    counts = Traffic(sectors=320, ideal=40)
    accesses = tuple(
        Instruction(16 * n, "LDG.E R0, [R2.64]", "LDG.E", executed=10, traffic=counts, pattern=pattern)
        for n, pattern in enumerate(patterns)
    )
    return MemoryLine(**{"access": "LDG", "line": ("my.cu", 1), "instructions": accesses, **fields})


def test_advice_follows_from_how_threads_lie() -> None:
    for fact in table("facts/memory.toml")["advised"]:
        patterns = [Pattern(**each) for each in fact["patterns"]]
        block = {"block": tuple(fact["block"])} if "block" in fact else {}
        assert fact["said"] in memory.advice(line(*patterns, **block)), fact
    for width, side in ((8, 8), (32, 32), (0, 32)):
        far = line(Pattern(width=4, x=-4096, gaps=True), block=(width, 1, 1))
        assert f"'({side},{side}):({side},1)'" in memory.staging(far)


def test_what_is_said_of_requests_is_of_the_known_ones() -> None:
    known = line(Pattern(width=4, x=512, block_y=128, loop=-64, gaps=True))
    lost = Instruction(64, "LDG.E R0, [R2.64]", "LDG.E", executed=1000)
    both = dataclasses.replace(known, instructions=(*known.instructions, lost))
    said = "32 sectors per request, ideally 4: 8,960 excessive bytes"
    apart = "; neighbours along threadIdx.x are 512 bytes apart (128 bytes per blockIdx.y, -64 bytes per iteration"
    apart += " of the loop)"
    assert memory.in_sectors(known) == said + apart
    assert memory.in_sectors(both) == f"{said}, of 1 of 2 accesses: the others' are unknown{apart}"
    assert (both.ratio, both.executed) == (8, 1010)
    assert dataclasses.replace(both, instructions=(dataclasses.replace(lost, executed=None),)).executed is None


@pytest.mark.parametrize(
    ("sectors", "said"), [((4, 8), "384 bytes"), ((4, None), "at least 128 bytes"), ((None, None), "unknown bytes")]
)
def test_local_memory_of_which_a_part_is_unknown_is_not_said_to_be_all(
    sectors: tuple[int | None, ...], said: str
) -> None:
    accesses = tuple(
        Instruction(16 * n, "LDL R0, [R2]", "LDL", executed=64, traffic=Traffic(local_sectors=count))
        for n, count in enumerate(sectors)
    )
    lost = tuple(each.pc for each in accesses if each.traffic.local_sectors is None)
    why = (UnknownCounts(code="UN001", reason="its address", remedy="", offsets=lost),)
    (check,) = judge_memory(dataclasses.replace(EMPTY, instructions=accesses, unknown_traffic=why), Policy())
    assert (check.code, said in check.message) == ("MEM004", True)
