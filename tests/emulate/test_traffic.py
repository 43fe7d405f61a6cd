"""Threads, sectors and tags, held against what ncu counted of whole kernels, and against runs of every block."""

import struct
from dataclasses import asdict

import pytest

from ncu_swizzle.base.traffic import METRICS, Pattern
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import container
from tests.support.emulation import OUT, pointers
from tests.support.places import DATA
from tests.support.programs import code

REPORT = DATA / "programs" / "source-counters.ncu-rep"
# The launches of several.cu: turn (float and double), rowsum, scale.
LAUNCHES = {0: pointers(512), 3: pointers(256), 4: pointers(512), 5: struct.pack("<Qfi", OUT, 0.5, 512)}


@pytest.mark.parametrize("number", LAUNCHES)
def test_every_column_of_every_instruction_is_ncu_s(number: int) -> None:
    result = container.container_of(REPORT.read_bytes(), REPORT.name).results[number]
    cubin = Cubin(result.cubin, "several.cubin")
    source = emulated_launch.code(cubin, result.function, Toolchain().disassemble(cubin.data, cubin.name))
    x, y, z = result.launch.grid
    i, j, k = result.launch.block
    counts = emulate(source, Launch(grid=(x, y, z), block=(i, j, k), parameters=LAUNCHES[number]))
    start = min(result.counts["inst_executed"])
    compared = 0
    for row in counts.rows:
        ours = asdict(row.traffic)
        for field, metric in METRICS.items():
            theirs = result.counts[metric].get(start + row.offset)
            assert theirs is None or ours[field] == theirs, (hex(row.offset), row.sass, metric)
            compared += theirs is not None
    assert compared > 2 * sum(row.executed != 0 for row in counts.rows)
    assert counts.blocks_run < counts.blocks


def test_addresses_are_followed_through_iterations_and_blocks() -> None:
    # A load moves by 36 bytes an iteration, and by 0x1a8 a block: sectors and tags change from one to the next.
    lines = (
        "S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", "LDC.64 R2, c[0x0][0x210]", "IMAD R4, R1, 0x6a, R0",
        "IMAD.WIDE.U32 R2, R4, 0x4, R2", "MOV R6, RZ", "LDG.E R5, [R2.64]", "@P1 STG.E [R2.64], R5",
        "IADD3 R2, R2, 0x24, RZ", "VIADD R6, R6, 0x1", "ISETP.LT.AND P0, PT, R6, 0x30, PT", "@P0 BRA 0x60", "EXIT",
    )  # fmt: skip
    launch = Launch(grid=(64, 1, 1), block=(32, 1, 1), parameters=pointers(9))
    few, every = emulate(code(*lines), launch), emulate(code(*lines), launch, plain=True, exhaustive=True)
    assert few.rows[6].pattern == Pattern(
        width=4, x=4, block_x=0x1A8, block_y=0, block_z=0, loop=0x24, unaligned=True
    ), "a run of every iteration does not follow the loop"
    assert few.rows == every.rows
    assert few.blocks_run < every.blocks_run == 64
    load, store = few.rows[6].traffic.known, few.rows[7]
    assert load["ideal"] < load["sectors"] < 2 * load["ideal"]
    assert load["threads"] == load["predicated_on"] == 64 * 48 * 32
    assert "sectors" not in store.traffic.known
    assert "whether its predicate holds" in str(store.traffic_unknown), "nothing wrote it"


@pytest.mark.long
def test_an_iteration_stands_for_others_where_lanes_advance_by_steps_of_their_own() -> None:
    # R2 moves in lanes 8 to 23 alone, R8 by 4 or 8 bytes: one lane's steps are not those of all.
    lines = (
        "S2R R0, SR_TID.X", "IMAD R2, R0, 0x40, RZ", "LOP3.LUT R4, R0, 0x1, RZ, 0xc0, !PT", "IMAD R4, R4, 0x4, 0x4",
        "MOV R8, RZ", "MOV R6, RZ", "VIADD R5, R0, 0xfffffff8", "ISETP.LT.U32.AND P1, PT, R5, 0x10, PT",
        "@P1 IADD3 R2, R2, 0x24, RZ", "IADD3 R8, R8, R4, RZ", "LDG.E R9, [R2.U32+UR4]", "LDG.E R9, [R8.U32+UR4]",
        "VIADD R6, R6, 0x1", "ISETP.LT.AND P0, PT, R6, 0x200, PT", "@P0 BRA 0x80", "EXIT",
    )  # fmt: skip
    launch = Launch(grid=(2, 1, 1), block=(32, 1, 1), parameters=pointers(9))
    code_ = code("ULDC.64 UR4, c[0x0][0x210]", *lines[:-2], "@P0 BRA 0x90", "EXIT")
    few, every = emulate(code_, launch), emulate(code_, launch, plain=True, exhaustive=True)
    assert few.rows == every.rows
    assert [row.executed for row in few.rows if row.opcode == "LDG.E"] == [1024, 1024]
    assert few.rows[11].pattern
    assert few.rows[11].pattern.loop is None, "lane by lane"


def test_a_spilled_register_is_told_apart_from_what_else_is_in_the_frame() -> None:
    lines = (
        "LDC R1, c[0x0][0x28]", "IADD3 R1, R1, -0x10, RZ", "S2R R0, SR_TID.X", "LDG.E R5, [R2.64]", "FMUL R5, R5, R5",
        "STL [R1], R0", "STL.64 [R1+0x8], R5", "LDL R4, [R1]", "LDL R6, [R1+0x8]", "STS.U8 [R4], R6", "EXIT",
    )  # fmt: skip
    program = prepare(code(*lines), counts_traffic=True)
    computed = [each.opcode for each, step in zip(program.instructions, program.steps, strict=True) if step]
    assert "FMUL" not in computed
    counts = emulate(code(*lines), Launch(grid=(1, 1, 1), block=(32, 1, 1)))
    local = [row.traffic.local_sectors for row in counts.rows if row.opcode.startswith(("STL", "LDL"))]
    assert local == [4, 8, 4, 4]


SIDE_BY_SIDE = {  # by what is between two loads of words at R2: the bytes of the vector that takes their place
    ("LDG.E R5, [R2.64]", "LDG.E R6, [R2.64+0x4]"): 8,
    ("LDG.E R6, [R2.64+0x4]", "LDG.E R5, [R2.64]"): 8,
    ("LDG.E R5, [R2.64]", "IADD3 R2, R2, 0x20, RZ", "LDG.E R6, [R2.64+0x4]"): 0,
    ("LDG.E R5, [R2.64]", "LDG.E R2, [R2.64+0x4]"): 8,
    ("LDG.E R5, [R2.64]", "BAR.SYNC.DEFER_BLOCKING 0x0", "LDG.E R6, [R2.64+0x4]"): 0,
    ("LDG.E.STRONG.SYS R5, [R2.64]", "LDG.E.STRONG.SYS R6, [R2.64+0x4]"): 0,
    ("@P0 LDG.E R5, [R2.64]", "@!P0 LDG.E R6, [R2.64+0x4]"): 0,
    ("@P0 LDG.E R5, [R2.64]", "@P0 LDG.E R6, [R2.64+0x4]"): 8,
    ("LDG.E R5, [R2.64+0x4]", "LDG.E R6, [R2.64+0x8]"): 0,  # not aligned
    ("LDG.E R5, [R2.64]", "LDG.E.64 R6, [R2.64+0x4]"): 0,
    ("LDG.E R5, [R2.U32+UR4]", "LDG.E R6, [R2.U32+UR4+0x4]"): 8,
}


@pytest.mark.parametrize("lines", SIDE_BY_SIDE)
def test_accesses_of_a_thread_side_by_side_are_tried_as_a_vector(lines: tuple[str, ...]) -> None:
    before = ("S2R R0, SR_TID.X", "LDC.64 R2, c[0x0][0x210]", "ULDC.64 UR4, c[0x0][0x210]")
    before += ("ISETP.LT.AND P0, PT, R0, 0x8, PT",)
    before += ("IMAD R2, R0, 0x20, RZ",) if "UR4" in lines[0] else ("IMAD.WIDE.U32 R2, R0, 0x20, R2",)
    counts = emulate(code(*before, *lines, "EXIT"), Launch(grid=(2, 1, 1), block=(32, 1, 1), parameters=pointers(9)))
    loads = [row for row in counts.rows if row.opcode.startswith("LDG")]
    lowest = min(loads, key=lambda row: int(row.sass.rpartition("+")[2].strip("]"), 16) if "+0x" in row.sass else 0)
    assert all(row.pattern and row.pattern.vector == SIDE_BY_SIDE[lines] for row in loads)
    assert lowest.pattern
    assert lowest.pattern.vector_sectors == (lowest.traffic.sectors if SIDE_BY_SIDE[lines] else None)
    assert sum(row.pattern.vector_sectors is None for row in loads if row.pattern) == 1 + (not SIDE_BY_SIDE[lines])
