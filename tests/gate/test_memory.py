"""What lint says of global and local memory and of branches, from the source to the code, and what check limits."""

import dataclasses
import json
from pathlib import Path

import pytest

from ncu_swizzle.base.traffic import Pattern, Traffic
from ncu_swizzle.gate.baseline import Policy
from ncu_swizzle.gate.memory import judge_memory
from ncu_swizzle.reports import memory
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.memory import MemoryLine
from ncu_swizzle.reports.model import UnknownCounts
from tests.support import process
from tests.support.gate_profiles import measured, scattered
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA
from tests.support.recordings import Recorded
from tests.support.reports import EMPTY

SOURCE = DATA / "own" / "memory.cu"
LAUNCHES = {
    "turn": "--grid 4,4 --block 32,8 --arg x=float32[16384]:random --arg y=float32[16384]:out --arg n=int32:128",
    "members": "--grid 4 --block 64 --arg p=float32[1024]:random --arg y=float32[1024]:out",
    "own_rows": "--grid 1 --block 64 --arg x=float32[1024]:random --arg y=float32[64]:out --arg k=int32:9",
    "gathered": "--grid 1 --block 64 --arg at=int32[64]:random%64 --arg x=float32[64]:random --arg y=float32[64]:out",
}
FINDINGS = {  # by kernel: code, opcode, line, and a part of the message
    "turn": {("MEM001", "STG", 7, "32 sectors per request, ideally 4: 458,752 excessive bytes; neighbours along "
              "threadIdx.x are 512 bytes apart and threadIdx.y are 4 bytes apart (16,384 bytes per blockIdx.x, 128 "
              "bytes per blockIdx.y); exchange threadIdx.x and threadIdx.y: at most 8 sectors per request, or stage")},
    "members": {
        ("MEM001", "LDG", 16, "12 sectors per request, ideally 4: 4,096 excessive bytes; neighbours along threadIdx.x "
         "are 12 bytes apart (768 bytes per blockIdx.x); keep each member"),
        ("MEM002", "STG", 16, "5 sectors per request, ideally 4: 256 excessive bytes; the bytes of a warp are side by"),
    },
    "own_rows": {
        ("MEM001", "LDG", 22, "as one of float4, aligned as all of its addresses are, a warp takes 32 sectors for 128"),
        ("MEM004", "LDL", 24, "local memory in a loop, 2,048 bytes of sectors: an array"),
        ("MEM005", "BRA", 25, "2 of 2 warps part at this branch"),
    },
    "gathered": set(),
}  # fmt: skip


def linted(kernel: str, *options: str) -> tuple[int, list[dict[str, object]]]:
    words = ["lint", str(SOURCE), "--kernel", kernel, *LAUNCHES[kernel].split(), *options, "--json", "-"]
    done = process.run(*words)
    return done.returncode, json.loads(done.stdout)["checks"]


@NEEDS_ALL
@pytest.mark.parametrize("kernel", LAUNCHES)
def test_lint_warns_of_each_line(kernel: str) -> None:
    status, checks = linted(kernel)
    assert status == 0, "warnings decide nothing"
    warnings = [check for check in checks if check["outcome"] == "warning"]
    found = {(check["code"], check["access"], check["place"]["line"]) for check in warnings}
    assert found == {row[:3] for row in FINDINGS[kernel]}
    for code, _, line, said in FINDINGS[kernel]:
        check = next(c for c in warnings if (c["code"], c["place"]["line"]) == (code, line))
        assert said in str(check["message"])


@NEEDS_ALL
def test_a_limit_fails_lines_above_it_and_leaves_unknown_ones_open() -> None:
    status, checks = linted("turn", "--max-sectors", "STG=8")
    assert status == 0
    status, checks = linted("turn", "--max-sectors", "STG=7.9")
    (failed,) = (check for check in checks if check["outcome"] == "fail")
    assert (status, failed["code"], failed["actual"], failed["limit"]) == (1, "MEM001", 8, 7.9)
    status, checks = linted("gathered", "--max-sectors", "LDG=4")
    (open_,) = (check for check in checks if check["outcome"] == "inconclusive")
    assert (status, open_["code"], open_["access"]) == (5, "UN001", "LDG")
    assert linted("gathered", "--max-sectors", "LDG=4", "--sample", "1")[0] == 0


def test_check_judges_the_total_or_an_opcode(recorded: Recorded, tmp_path: Path) -> None:
    good = scattered(measured(recorded("kernel2")), 3)
    file = tmp_path / "mine.json"
    good.save(file)

    def status(*limits: str) -> int:
        return process.run("check", str(file), "--baseline", "none", *limits).returncode

    assert [status("--max-sectors", limit) for limit in ("3", "2.9", "LDGSTS=2.9", "STG=1")] == [0, 1, 1, 0]
    assert status("--max-sectors", "LDS=1") == 2, "no access to global memory has that name"
    unknown = dataclasses.replace(good, instructions=tuple(
        dataclasses.replace(each, traffic=Traffic()) for each in good.instructions))  # fmt: skip
    unknown.save(file)
    assert status("--max-sectors", "3") == 5, "a report without the columns"


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
