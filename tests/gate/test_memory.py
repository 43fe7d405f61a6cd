"""What lint says of global and local memory and of branches, from the source to the code, and what check limits."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from ncu_swizzle.base.traffic import Pattern, Traffic
from ncu_swizzle.reports import memory
from ncu_swizzle.reports.counts import Instruction
from ncu_swizzle.reports.memory import MemoryLine
from tests.support import process
from tests.support.gate_profiles import measured, scattered
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA
from tests.support.recordings import Recorded

SOURCE = DATA / "own" / "memory.cu"
LAUNCHES = {
    "turn": "--grid 4,4 --block 32,8 --arg x=float32[16384]:random --arg y=float32[16384]:out --arg n=int32:128",
    "members": "--grid 4 --block 64 --arg p=float32[1024]:random --arg y=float32[1024]:out",
    "own_rows": "--grid 1 --block 64 --arg x=float32[1024]:random --arg y=float32[64]:out --arg k=int32:9",
    "gathered": "--grid 1 --block 64 --arg at=int32[64]:random%64 --arg x=float32[64]:random --arg y=float32[64]:out",
}
FINDINGS = {  # by kernel: code, opcode, line, and a part of the message
    "turn": {("MEM001", "STG", 7, "32 sectors per request, ideally 4: 458,752 excessive bytes; neighbours along "
              "threadIdx.x are 512 bytes apart; let threadIdx.x run along the rows")},
    "members": {
        ("MEM001", "LDG", 16, "12 sectors per request, ideally 4: 4,096 excessive bytes; neighbours along threadIdx.x "
         "are 12 bytes apart; keep each member"),
        ("MEM002", "STG", 16, "5 sectors per request, ideally 4: 256 excessive bytes; the bytes of a warp are side by"),
    },
    "own_rows": {
        ("MEM001", "LDG", 22, "as one of float4, which must be aligned to 16 bytes, a warp takes 32 sectors for 128"),
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


@pytest.mark.parametrize(
    ("sass", "pattern", "said"),
    [
        (["[R2.64]", "[R2.64+0x4]"], Pattern(width=4, x=16, gaps=True), "float2"),
        (["[R2.64]", "[R2.64+0x8]"], Pattern(width=8, x=32, gaps=True), "one of 16 bytes"),
        (["[R2.64]", "[R2.64+0x4]"], Pattern(width=4, x=12, gaps=True), "keep each member"),
        (["[R2.64+0x4]", "[R2.64+0x8]"], Pattern(width=4, x=16, gaps=True), "keep each member"),
        (["[R2.64]", "[R4.64+0x4]"], Pattern(width=4, x=16, gaps=True), "keep each member"),
        (["[R2.64]"], Pattern(width=4, x=-4096, gaps=True), "let threadIdx.x run along the rows"),
        (["[R2.64]"], Pattern(width=4, x=None, gaps=True), "neighbouring elements"),
        (["[R2.64]"], Pattern(width=4, x=0, y=4096, gaps=True), "neighbouring elements"),
        (["[R2.64]"], Pattern(width=4, x=4, unaligned=True), "a multiple of 32 bytes"),
    ],
)
def test_advice_follows_from_how_threads_lie(sass: list[str], pattern: Pattern, said: str) -> None:
    counts = Traffic(sectors=320, ideal=40)
    accesses = tuple(
        Instruction(16 * n, f"LDG.E R0, desc[UR4]{text}", "LDG.E", executed=10, traffic=counts, pattern=pattern)
        for n, text in enumerate(sass)
    )
    assert said in memory.advice(MemoryLine("LDG", ("my.cu", 1), accesses))
