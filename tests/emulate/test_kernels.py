"""Kernels whose counts are known another way: a host compiler, NumPy, an H100, or running every block."""

import json
import lzma
import math
import random
import re
import struct
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.oracles import random_sass
from ncu_swizzle.base.errors import TimeLimit
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate import blocks, run
from ncu_swizzle.emulate.blocks import Unclaimed
from ncu_swizzle.emulate.boxes import Boxes
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.reports import container
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem.access import Index
from tests.support.emulation import DATA, IN, compiled_launch, kernel, outputs, pointers, recorded_launch
from tests.support.places import DATA as ALL_DATA
from tests.support.programs import ONE_WARP, code

Ints = NDArray[np.int64]


VALUES = [[int(word) for word in line.split()] for line in (DATA / "values.txt").read_text("utf-8").splitlines()]
NUMBERS: Ints = np.random.default_rng(1).integers(0, 1 << 20, 256)


@pytest.mark.long
def test_arithmetic_is_that_of_a_host_compiler() -> None:
    assert len(VALUES) == 40
    for number, n, *expected in VALUES:
        launch = Launch(grid=(3, 1, 1), block=(64, 1, 1), parameters=pointers(n, arrays=1))
        found, known = outputs(kernel("values", f"k{number}"), launch)
        assert known.all(), (number, n)
        assert found.tolist() == expected, (number, n)


# ---------------------------------------------------------------------------------------------- warps.cu


def warps(name: str, n: int = 9) -> tuple[Ints, NDArray[np.bool_]]:
    memory = {IN: NUMBERS.astype(np.int32).tobytes()}
    return outputs(
        kernel("warps", name), Launch(grid=(1, 1, 1), block=(256, 1, 1), parameters=pointers(n), memory=memory)
    )


@pytest.mark.parametrize("line", (DATA / "warps.txt").read_text("utf-8").splitlines(), ids=lambda line: line[:11])
def test_warps_compute_what_numpy_did(line: str) -> None:
    """A "." is what nobody wrote, which stays unknown; "?" what it depends on the order of writes, or says nothing."""
    name, n, *expected = line.split()
    words = [str(word) if known else "." for word, known in zip(*warps(name, int(n)), strict=True)]
    assert [theirs if theirs == "?" else ours for ours, theirs in zip(words, expected, strict=True)] == expected


# ---------------------------------------------------------------------------------------------- blocks.cu

Dim3 = tuple[int, int, int]
GRIDS: list[tuple[str, Dim3, Dim3, int]] = [
    ("edges", (7, 7, 1), (32, 8, 1), 200),
    ("edges", (4, 4, 1), (32, 8, 1), 128),
    ("edges", (5, 3, 1), (32, 8, 1), 100),
    ("linear", (9, 1, 1), (256, 1, 1), 2100),
    ("linear", (9, 1, 1), (256, 1, 1), 2304),
    ("stride", (7, 1, 1), (256, 1, 1), 9000),
    ("causal", (13, 2, 3), (64, 1, 1), 0),
    ("raster", (7, 5, 1), (128, 1, 1), 64),
    ("shifted", (70, 2, 1), (64, 1, 1), 0),
    ("copies", (33, 2, 1), (80, 1, 1), 64),
]


@pytest.mark.long
def test_representatives_stand_for_all_blocks() -> None:
    for name, grid, block, n in GRIDS:
        source, launch = kernel("blocks", name), Launch(grid=grid, block=block, parameters=pointers(n))
        few, every = emulate(source, launch), emulate(source, launch, exhaustive=True)
        assert (few.rows, few.classes) == (every.rows, every.classes), (name, grid)
        assert (few.unknown, few.notes) == ((), ()), (name, grid)
        assert every.blocks_run == every.blocks == few.blocks, (name, grid)


def test_few_blocks_are_run_where_few_differ() -> None:
    parameters = pointers(8190)
    counts = emulate(kernel("blocks", "edges"), Launch(grid=(256, 256, 1), block=(32, 8, 1), parameters=parameters))
    assert counts.classes == 4
    assert counts.blocks_run < 40
    counts = emulate(kernel("blocks", "causal"), Launch(grid=(13, 64, 64), block=(64, 1, 1), parameters=pointers(0)))
    assert counts.blocks_run == counts.classes == 13  # one per number of tiles


@pytest.mark.parametrize(
    "name", ["scan", pytest.param("bitonic", marks=pytest.mark.long), "votes", "apart", "warps", "chase"]
)
def test_leaving_nothing_out_changes_no_count(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = {IN: NUMBERS.astype(np.int32).tobytes()}
    source = kernel("warps", name)
    launch = Launch(grid=(2, 1, 1), block=(256, 1, 1), parameters=pointers(9), memory=memory)
    sliced = emulate(source, launch)
    monkeypatch.setattr(
        run, "prepare", lambda code, wanted, *steps: prepare(code, replace(wanted, everything=True), *steps)
    )
    whole = emulate(source, launch)
    for row, complete in zip(sliced.rows, whole.rows, strict=True):
        expected = complete.executed, complete.wavefronts, complete.ideal
        assert (row.executed, row.wavefronts, row.ideal) == expected, row
        assert row.traffic.known.items() <= complete.traffic.known.items(), row


def test_a_kernel_without_access_to_shared_memory_takes_a_bounded_number_of_steps() -> None:
    # 0 is never 7
    circles = ("start: MOV R0, RZ", "IMAD R0, R0, R0, R0", "ISETP.NE.AND P0, PT, R0, 0x7, PT", "@P0 BRA {start}")
    counts = emulate(code(*circles, "EXIT"), Launch(grid=(64, 1, 1), block=(256, 1, 1)))
    assert not counts.unknown
    assert [row.executed for row in counts.rows] == [None] * 5
    assert any("cannot access shared memory" in note for note in counts.notes)
    with pytest.raises(TimeLimit):
        emulate(code(*circles, "STS [RZ], RZ", "EXIT"), ONE_WARP, timeout_s=1)


def test_parameters_that_nobody_gave_are_unknown() -> None:
    given = struct.pack("<2Q", 1 << 40, 1 << 41)  # less the int
    rows = emulate(kernel("warps", "gather"), Launch(grid=(1, 1, 1), block=(256, 1, 1), parameters=given)).rows
    load = next(row for row in rows if row.access == "LDS")
    assert load.wavefronts is None
    assert "a constant that was not given" in load.reason


# ---------------------------------------------------------------------------------------------- the recordings

Recorded = Callable[[str], Profile]
RecordedFile = Callable[[str], Path]

# A minute each: wgmma-staged and wgmma-tma-store have the same schedule, and bench/figures/emulated.py runs all of
# them.
ALIKE = re.compile(r"wgmma-(persistent|stmatrix)")
LONG_FAMILIES = ("attention", "tma", "transpose", "cute", "vectors")
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


def emulated(name: str, profile: Profile, recorded_file: RecordedFile) -> Counts:
    """Return what is computed of a recorded launch."""
    (result,) = container.inspect(recorded_file(name)).results
    return emulate(*recorded_launch(Target(*catalog.shipped().named(name), dict(profile.problem)), result))


@pytest.mark.parametrize("names", [*families()])
def test_counts_are_those_of_the_gpu(names: list[str], recorded: Recorded, recorded_file: RecordedFile) -> None:
    for name in names:
        profile = recorded(name)
        counts = emulated(name, profile, recorded_file)
        rows, padding = counts.rows[: len(profile.instructions)], counts.rows[len(profile.instructions) :]
        assert not any(row.executed for row in padding), "ncu leaves out what is behind the end"
        measured = {i.pc: (i.executed, i.wavefronts, i.ideal) for i in profile.instructions if i.access}
        first = profile.instructions[0].pc
        computed = {first + r.offset: (r.executed, r.wavefronts, r.ideal) for r in rows if r.access}
        assert computed == measured, name
        assert not counts.unknown, name
        assert not counts.notes, name
        _other_instructions_agree(profile, counts)


@cache
def newer_nvcc() -> tuple[dict[str, bytes], dict[str, dict[str, list[int]]]]:
    """Return the cubins of nvcc 13.5, and what ncu counted of their accesses on an H100, by offset."""
    folder = ALL_DATA / "nvcc_13.5"
    with tarfile.open(folder / "cubins.tar.xz") as archive:
        cubins = {Path(each.name).stem: archive.extractfile(each) for each in archive}
        code = {name: file.read() for name, file in cubins.items() if file}
    return code, json.loads(lzma.decompress((folder / "counted_h100.json.xz").read_bytes()))["accesses"]


@pytest.mark.parametrize("names", [*families()])
def test_counts_are_those_of_the_gpu_for_code_of_a_newer_nvcc(names: list[str]) -> None:
    cubins, accesses = newer_nvcc()
    for name in names:
        family, kernel = catalog.shipped().named(name)
        cubin = Cubin(cubins[name], name)
        (function,) = cubin.kernels
        counts = emulate(*compiled_launch(Target(family, kernel, family.problem()), cubin, function))
        computed = {
            str(r.offset): [r.executed, r.wavefronts, r.ideal] for r in counts.rows if r.access and r.executed != 0
        }
        assert computed == {at: counted for at, counted in accesses[name].items() if counted[0]}, name
        assert not counts.unknown, name


def _other_instructions_agree(profile: Profile, counts: Counts) -> None:
    """Of every instruction whose number of runs is known it is the measured one; the others' depend on data."""
    for instruction, row in zip(profile.instructions, counts.rows, strict=False):
        if row.executed is None:
            assert row.reason.startswith("how often it runs depends on ")
            assert row.origin is not None
        elif instruction.executed is not None:
            assert row.executed == instruction.executed, row


def test_blocks_that_do_the_same_take_few_runs_and_make_the_requests_of_one(
    recorded: Recorded, recorded_file: RecordedFile
) -> None:
    counts = emulated("transpose-plain", recorded("transpose-plain"), recorded_file)
    assert (counts.blocks, counts.blocks_run, counts.classes, counts.checked) == (16384, 1, 1, 3)
    loads = next(counts.requests[row.offset] for row in counts.rows if row.access == "LDS")
    assert loads.op == "ld.shared.b32"
    assert loads.addresses.shape == (8, 32)  # one per warp
    assert (loads.addresses[:, 1:] - loads.addresses[:, :-1] == 128).all()  # a column of a tile 32 floats wide
    assert loads.active.all()
    assert len(set(loads.times.tolist())) == 1  # blocks to check ran beside it


# ----------------------------------------------------------------------------------------- which blocks stand for which

SIZES = st.tuples(st.integers(1, 12), st.integers(1, 5), st.integers(1, 3))


@st.composite
def box(draw: st.DrawFn, grid: Index) -> Boxes:
    """Return a box around a block of the grid."""
    own = [draw(st.integers(0, size - 1)) for size in grid]
    boxes = Boxes(np.array([own]), grid)
    boxes.low[0] = [draw(st.integers(0, index)) for index in own]
    boxes.high[0] = [draw(st.integers(index, size - 1)) for index, size in zip(own, grid, strict=True)]
    boxes.step[0] = [draw(st.integers(1, 6)) for _ in own]
    return boxes


@pytest.mark.long
@given(st.data())
@settings(max_examples=150)
def test_cells_hold_what_no_box_has_claimed(data: st.DataObject) -> None:
    grid = data.draw(SIZES)
    unclaimed, table = Unclaimed(grid), np.ones(grid, bool)
    for _ in range(data.draw(st.integers(1, 6))):
        boxes = data.draw(box(grid))
        held = np.array([boxes.represents_others(0, index) for index in np.ndindex(grid)]).reshape(grid)
        assert unclaimed.claim(boxes, 0) == (table & held).sum()
        table &= ~held
        assert unclaimed.blocks == table.sum()
        left = unclaimed.pick(7, math.prod(grid) + 1).tolist()  # all dimensions pinned: every block
        assert sorted(left) == np.argwhere(table).tolist()
        assert all(table[tuple(block)] for block in unclaimed.pick(data.draw(st.integers(0, 6)), 9).tolist())


@pytest.mark.long
def test_few_blocks_of_a_random_program_count_what_all_blocks_count() -> None:
    for seed in range(60):
        expected, found = random_sass.few_blocks(random.Random(seed))
        assert found == expected, seed


@pytest.mark.parametrize(
    ("decision", "kinds"),
    [
        (["LOP3.LUT R2, R1, 0x7, RZ, 0xc0, !PT"], 8),  # blockIdx.x & 7
        (["IMAD.HI.U32 R2, R1, 0xaaaaaaab, RZ", "SHF.R.U32.HI R2, RZ, 0x1, R2", "IMAD R2, R2, -0x3, R1"], 3),  # % 3
        (["IMNMX R2, R1, 0x3, PT"], 4),  # min(blockIdx.x, 3)
        # (unsigned char)blockIdx.x & 15
        pytest.param(["PRMT R2, R1, 0x4440, RZ", "LOP3.LUT R2, R2, 0xf, RZ, 0xc0, !PT"], 16, marks=pytest.mark.long),
    ],
)
def test_a_grid_of_any_size_costs_by_its_kinds_of_blocks(decision: list[str], kinds: int) -> None:
    address = ("IADD3 R2, R2, 0x1, RZ", "IMAD R3, R0, R2, RZ", "IMAD.SHL.U32 R3, R3, 0x4, RZ")
    store = ("LOP3.LUT R3, R3, 0x1ffc, RZ, 0xc0, !PT", "STS [R3+0x400], R0", "EXIT")
    lines = ("S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", *decision, *address, *store)
    small, large = (Launch(grid=(x, 3, 1), block=(32, 1, 1)) for x in (3 << 8, 3 << 29))
    every = emulate(code(*lines), small, exhaustive=True)
    few, many = emulate(code(*lines), small), emulate(code(*lines), large)
    assert few.rows[-2].wavefronts == every.rows[-2].wavefronts
    assert many.blocks_run <= 1000
    assert many.classes == few.classes <= kinds
    if "IMNMX" not in decision[0]:  # every kind is equally frequent
        scale = (3 << 29) // (3 << 8)
        assert [row.executed for row in many.rows] == [(row.executed or 0) * scale for row in few.rows]
        assert many.rows[-2].wavefronts == (few.rows[-2].wavefronts or 0) * scale


@pytest.mark.long
def test_a_grid_of_all_blocks_that_cuda_allows() -> None:
    counts = emulate(
        kernel("blocks", "linear"), Launch(grid=(2**31 - 1, 65535, 65535), block=(256, 1, 1), parameters=pointers(0))
    )
    assert counts.blocks == (2**31 - 1) * 65535 * 65535
    assert counts.rows[0].executed == 8 * counts.blocks


def test_a_grid_whose_first_block_takes_long_runs_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    # Block i goes round i + 1 times.
    loop = ("VIADD R3, R3, 0x1", "ISETP.LE.U32.AND P1, PT, R3, R9, PT", "@P1 BRA {again}", "EXIT")
    source = code(
        "S2R R0, SR_TID.X",
        "S2R R9, SR_CTAID.X",
        "MOV R3, RZ",
        "IMAD R4, R9, 0x4, RZ",
        "again: STS [R4+0x400], R0",
        *loop,
    )
    launch = Launch(grid=(40, 1, 1), block=(64, 1, 1))
    one_by_one = emulate(source, launch)
    batches: list[int] = []
    run = blocks.run_batch
    monkeypatch.setattr(blocks, "ALONE_STEPS", 1)
    monkeypatch.setattr(blocks, "run_batch", lambda setting, some: batches.append(len(some)) or run(setting, some))
    together = emulate(source, launch)
    assert batches[1] == 40  # the first one, and those to check beside it, are given up
    assert batches[0] <= 1 + blocks.CHECKED
    assert together.rows == one_by_one.rows == emulate(source, launch, exhaustive=True).rows
