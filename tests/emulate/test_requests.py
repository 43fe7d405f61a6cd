"""Requests of blocks, kept once and traced; threads, sectors and tags against what ncu counted of whole kernels."""

import struct
from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest

from ncu_swizzle.base.traffic import METRICS, Pattern
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.accesses import RequestLog
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.liveness import Demand
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import WarpRequests, count_accesses
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import container
from ncu_swizzle.smem import requests
from ncu_swizzle.smem.judge import Constraints
from ncu_swizzle.smem.observed import Advice, advise, observed_tiles
from ncu_swizzle.smem.requests import AccessRequests
from tests.support.emulation import OUT, machine, pointers
from tests.support.places import DATA
from tests.support.programs import code

LANE = np.arange(32)


def test_blocks_that_repeat_requests_count_like_blocks_that_make_their_own() -> None:
    free, conflicted = 4 * LANE, 8 * LANE
    mine = np.stack([free, conflicted]).astype(np.uint32)
    blocks = np.array([0, 0, 1, 1, 2, 2])
    once = WarpRequests(addresses=mine, selected=np.ones((2, 32), bool), source=None, blocks=blocks, count=3)
    each = WarpRequests(
        addresses=np.tile(mine, (3, 1)), selected=np.ones((6, 32), bool), source=None, blocks=blocks, count=3
    )
    short, long = (count_accesses("ld.shared.b32", [seen], 3) for seen in (once, each))
    assert short.wavefronts.tolist() == long.wavefronts.tolist() == [9, 9, 9]
    assert short.ideal.tolist() == long.ideal.tolist() == [6, 6, 6]
    assert sorted(short.requests.times.tolist()) == sorted(long.requests.times.tolist()) == [9, 9]


def test_requests_that_a_loop_took_back_count_nothing() -> None:
    log = RequestLog(machine(), ())
    addresses, selected = np.zeros((1, 32), np.uint32), np.ones((1, 32), bool)
    none = WarpRequests(addresses=addresses, selected=selected, source=None, blocks=np.array([0]), count=0)
    log.seen[0] = {(0,): none}
    assert log.counts() == {}


def some_requests(rng: np.random.Generator, count: int) -> AccessRequests:
    """Return different requests out of few, each with the number of times it is made."""
    addresses = 4 * rng.integers(0, 3, (count, 32)) * (LANE < 2)
    active = np.ones((count, 32), bool)
    active[:, 31] = rng.random(count) < 0.5
    return AccessRequests(
        op="ld.shared.b32", places=addresses.astype(np.int32), active=active, times=np.ones(count, np.int64)
    ).distinct()[0]


def tally(made: AccessRequests) -> Counter[bytes]:
    rows = zip(made.addresses, made.active, made.times.tolist(), strict=True)
    found = [(addresses.tobytes() + active.tobytes(), times) for addresses, active, times in rows]
    assert len(found) == len(dict(found))  # each once
    return Counter(dict(found))


@pytest.mark.parametrize("alike", [False, True])  # hashes
def test_requests_of_two_runs_are_added_each_once(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if alike:
        monkeypatch.setattr(requests, "_FACTORS", np.zeros_like(requests._FACTORS))
    rng = np.random.default_rng(3)
    one, other = some_requests(rng, 20), some_requests(rng, 20)
    if not alike:
        assert tally(one.plus(other)) == tally(one) + tally(other)
    assert sum(tally(one).values()) == sum(tally(other).values()) == 20
    again = one.plus(other).sorted_requests()
    assert again.times.sum() == 40


def test_of_too_many_requests_those_that_are_kept_count_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "DISTINCT_REQUESTS", 4)
    rng = np.random.default_rng(4)
    made = some_requests(rng, 200)
    kept = made.most_frequent()
    more = kept.plus(made.chosen(np.argsort(made.times, kind="stable")[:2])).plus(kept)  # rare ones are left out
    assert len(kept.times) == len(more.times) == 4
    assert not more.complete
    assert tally(more) == tally(kept) + tally(kept)


def requested(op: str, addresses: np.ndarray, source: np.ndarray | None = None) -> AccessRequests:
    rows = np.atleast_2d(addresses)
    return AccessRequests(
        op=op,
        places=rows.astype(np.int32),
        active=np.ones(rows.shape, bool),
        times=np.ones(len(rows), np.int64),
        source=source,
    )


def advised(*made: AccessRequests, constraints: Constraints = Constraints()) -> tuple[Advice, ...]:
    return advise(observed_tiles({16 * number: each for number, each in enumerate(made)}), constraints)


def test_writers_and_readers_of_a_tile_are_advised_together() -> None:
    columns = requested("ld.shared.b32", 1024 + LANE * 128 + 4 * LANE[:, None])
    rows = requested("st.shared.b32", 1024 + LANE * 4 + 128 * LANE[:, None])
    elsewhere = requested("ld.shared.b32", 8192 + LANE * 4)
    (advice,) = advised(columns, rows, elsewhere)
    assert (advice.first, advice.end, set(advice.offsets)) == (1024, 1024 + 4096, {0, 16})
    assert "Swizzle<5,0,5> on elements of 4 bytes (offset ^ ((offset >> 5) & 0x1f)) makes all" in advice.text
    assert "0x400 to 0x13ff" in advice.text


def test_matrices_written_by_cp_async_are_freed_together() -> None:
    row, chunk = LANE // 8, LANE % 8
    written = np.stack([128 * (4 * step + row) + 16 * chunk for step in range(16)])
    read = np.stack([128 * (8 * step + LANE % 8) + 16 * (LANE // 8) for step in range(8)])
    copies = requested("cp.async.cg.16", written, np.broadcast_to(LANE * 16, written.shape))
    (advice,) = advised(copies, requested("ldmatrix.x4", read))
    assert "Swizzle<3,0,3> on elements of 16 bytes (offset ^ ((offset >> 3) & 0x7)) makes all" in advice.text


def test_what_is_advised_for_a_tile() -> None:
    columns, rows = LANE[:, None], 128 * LANE[:, None]
    tma = Constraints(tma=True)
    for what, said, given, constraints in (
        ("a tile may begin anywhere in a bank row",
         "Swizzle<4,0,5> on elements of 8 bytes (offset ^ ((offset >> 5) & 0xf)) makes all",
         [("ld.shared.b64", 1088 + LANE * 256 + 8 * columns), ("st.shared.b64", 1088 + LANE * 8 + 2 * rows)], None),
        ("16-bit elements keep their words",
         "Swizzle<5,1,5> on elements of 2 bytes (offset ^ ((offset >> 5) & 0x3e))",
         [("ld.shared.u16", LANE * 128 + 2 * np.arange(64)[:, None]),
          ("st.shared.u16", np.arange(64)[:, None] * 128 + LANE * 2)], None),
        ("no mode of TMA's helps", "none of TMA's modes makes all of these accesses conflict-free",
         [("ld.shared.b32", LANE * 128 + 4 * columns)], tma),
        ("a mode of TMA's does", "Swizzle<3,0,3> on elements of 16 bytes",
         [("ld.shared.v4.b32", LANE * 128 + 16 * np.arange(8)[:, None])], tma),
        ("lanes that update one word", "32 lanes of a request update one word: no layout of the tile changes that",
         [("atom.shared.add.u32", np.zeros(32, np.int64))], None),
        ("what was searched is said in numbers",
         "none of the 2^21 XORs of address bits and 8 row lengths that keep 16-byte accesses whole makes all",
         [("ld.shared.b32", LANE * 256 + 4 * columns), ("st.shared.v4.b32", LANE * 16 + 512 * LANE[:, None])], None),
    ):  # fmt: skip
        (advice,) = advised(*(requested(*one) for one in given), constraints=constraints or Constraints())
        assert said in advice.text, what
    assert advised(requested("ld.shared.b32", LANE * 4)) == (), "a tile without conflicts needs no advice"


def test_a_row_is_as_long_as_the_lanes_of_a_conflict_are_apart() -> None:
    for row_bytes, shift in ((128, 3), (256, 4), (512, 5)):
        columns = requested("ld.shared.v4.b32", LANE * row_bytes + 16 * np.arange(8)[:, None])
        (tile,) = observed_tiles({0: columns})
        assert tile.plain.shape == (32, row_bytes // 16)
        rows = requested("st.shared.v4.b32", LANE * 16 + 512 * np.arange(row_bytes // 16)[:, None])
        assert f"Swizzle<3,0,{shift}> on elements of 16 bytes" in advised(columns, rows)[0].text


def test_what_is_verified_is_all_requests_not_the_sample() -> None:
    """Of 224 requests, 96 are searched on."""
    columns = np.concatenate([LANE * 128 + 4 * column + 4096 * block for block in range(7) for column in range(32)])
    made = requested("ld.shared.b32", columns.reshape(-1, 32))
    (tile,) = observed_tiles({0: made})
    suggestion = tile.suggestion()
    assert suggestion.best.actual == suggestion.best.ideal == len(made.times)
    assert suggestion.plain.actual == 32 * len(made.times)


def test_rows_of_a_tile_whose_addresses_an_api_computes_are_padded() -> None:
    read = np.stack([2048 + 128 * (8 * step + LANE % 8) + 16 * (LANE // 8) for step in range(8)])
    (advice,) = advise(observed_tiles({0: requested("ldmatrix.x4", read)}, leading={0}))
    assert "padding the rows from 128 to 144 bytes makes all of these accesses conflict-free" in advice.text
    assert "Swizzle<" not in advice.text
    (unsure,) = advise(observed_tiles({0: requested("st.shared.b32", np.arange(32) * 128)}, leading={0}))
    assert "Swizzle<" not in unsure.text
    scattered = requested("ld.shared.b32", np.resize([0, 4, 128, 132], 32) + np.zeros((2, 1), np.int64))
    assert all("multiple of 16 bytes" in advice.text for advice in advise(observed_tiles({0: scattered}, leading={0})))


def test_the_stages_of_a_pipeline_are_advised_together() -> None:
    steps = ((128, 4), (4, 128))  # columns and rows
    stages = [
        requested("ld.shared.b32", 4096 * stage + LANE * lane + row * LANE[:, None])
        for stage in range(4)
        for lane, row in steps
    ]
    elsewhere = requested("ld.shared.b32", (1 << 16) + LANE * 128 + 4 * LANE[:, None])
    together, apart = advised(*stages, elsewhere)
    assert (together.first, together.end, together.offsets) == (0, 4 * 4096, tuple(range(0, 8 * 16, 16)))
    assert "shared memory from 0x0 to 0x3fff, 4 tiles, ld.shared.b32: Swizzle<5,0,5>" in together.text
    assert apart.first == 1 << 16


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


def test_blocks_that_differ_in_threads_and_sectors_alone_are_run_for_these_alone() -> None:
    # P1, and where R6 points, differ from block to block; what follows the barrier does not.
    lines = (
        "S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", "LDC.64 R2, c[0x0][0x210]", "IMAD R4, R1, R1, RZ",
        "LOP3.LUT R4, R4, 0x1f, RZ, 0xc0, !PT", "ISETP.GT.U32.AND P1, PT, R4, R0, PT", "@P1 IADD3 R4, R4, 0x1, RZ",
        "IMAD R6, R4, 0x24, R0", "IMAD.WIDE.U32 R6, R6, 0x4, R2", "@P1 LDG.E R9, [R6.64]",
        "IMAD R8, R0, 0x4, RZ", "@!P1 LDG.E R9, [R6.64+0x40]", "BAR.SYNC 0x0", "MOV R5, RZ",
        "VIADD R5, R5, 0x1", "STS [R8+0x400], R0", "ISETP.LT.AND P0, PT, R5, 0x30, PT", "@P0 BRA 0xe0", "EXIT",
    )  # fmt: skip
    launch = Launch(grid=(64, 1, 1), block=(32, 1, 1), parameters=pointers(9))
    kernel = code(*lines, shared_bytes=0x800)
    few, every = emulate(kernel, launch), emulate(kernel, launch, plain=True, exhaustive=True)
    assert few.rows == every.rows
    assert few.blocks_run == 1
    load = few.rows[9].traffic
    assert load.predicated_on == sum(min(block * block % 32, 32) for block in range(64))
    assert load.sectors


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
    program = prepare(code(*lines), Demand(traffic=True))
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
