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
from tests.support.reports import EMPTY


def line(*patterns: Pattern, **fields: object) -> MemoryLine:
    """Return accesses with so many sectors, of 10 warps each."""
    counts = Traffic(sectors=320, ideal=40)
    accesses = tuple(
        Instruction(16 * n, "LDG.E R0, [R2.64]", "LDG.E", executed=10, traffic=counts, pattern=pattern)
        for n, pattern in enumerate(patterns)
    )
    return MemoryLine(**{"access": "LDG", "line": ("my.cu", 1), "instructions": accesses, **fields})


FAR = {"x": -4096, "gaps": True}
ADVISED = [
    ([Pattern(width=4, **FAR)], "let threadIdx.x run along the rows, or stage a tile through shared memory, 32 x 32 "
     "elements of 4 bytes with Swizzle<5,0,5>: conflict-free"),
    ([Pattern(width=8, **FAR)], "32 x 32 elements of 8 bytes with Swizzle<4,0,5>"),
    ([Pattern(width=4, x=12, gaps=True)], "keep each member of the structures in an array of its own, or copy whole "
     "structures through shared memory, 32 x 3 elements of 4 bytes as they are: conflict-free"),
    ([Pattern(width=4, x=16, gaps=True)], "32 x 4 elements of 4 bytes with Swizzle<3,0,5>"),
    ([Pattern(width=4, x=None, gaps=True)], "neighbouring elements"),
    ([Pattern(width=4, x=0, y=4096, gaps=True)], "neighbouring elements"),
    ([Pattern(width=4, x=4, unaligned=True)], "a multiple of 32 bytes"),
    ([Pattern(width=4, **FAR, vector=8, vector_sectors=320), Pattern(width=4, **FAR, vector=8)],
     "2 accesses of a thread are side by side: as one of float2, aligned as all of its addresses are, a warp takes 32 "
     "sectors for 64"),
    ([Pattern(width=8, **FAR, vector=16, vector_sectors=320), Pattern(width=8, **FAR, vector=16)], "one of 16 bytes"),
    ([Pattern(width=4, **FAR, vector=8, vector_sectors=640), Pattern(width=4, **FAR, vector=8)], "a tile"),
    ([Pattern(width=4, **FAR, vector=8), Pattern(width=4, **FAR, vector=8)], "a tile"),
    ([Pattern(width=4, **FAR, vector=8, vector_sectors=320), Pattern(width=4, **FAR)], "a tile"),
]  # fmt: skip


@pytest.mark.parametrize(("patterns", "said"), ADVISED)
def test_advice_follows_from_how_threads_lie(patterns: list[Pattern], said: str) -> None:
    assert said in memory.advice(line(*patterns))


@pytest.mark.parametrize(
    ("block", "y", "exchange"),
    [
        ((8, 32, 1), 4, "exchange threadIdx.x and threadIdx.y: at most 5 sectors"),
        ((32, 8, 1), 4, "exchange threadIdx.x and threadIdx.y: at most 8 sectors"),
        ((32, 1, 1), 4, "let threadIdx.x"),
        ((8, 32, 1), 64, "let threadIdx.x"),
        ((8, 32, 1), None, "let threadIdx.x"),
        ((0, 0, 0), 4, "let threadIdx.x"),  # a saved profile that does not know its block
    ],
)
def test_an_exchange_of_indices_is_tried_before_it_is_said(block: tuple[int, ...], y: int, exchange: str) -> None:
    text = memory.advice(line(Pattern(width=4, x=4096, y=y, gaps=True), block=block))
    assert text.startswith(exchange)
    side = min(32, block[0] or 32)
    assert f"'({side},{side}):({side},1)'" in memory.staging(line(Pattern(width=4, **FAR), block=block))


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
