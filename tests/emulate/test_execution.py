"""What blocks leave in memory is what NumPy computes, and what is not bit-exact or not known is said to be."""

import re
import struct

import numpy as np
import pytest
from numpy.typing import NDArray

from ncu_swizzle.emulate.contents import Buffer
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.device_memory import DeviceMemory
from ncu_swizzle.emulate.execution import Execution, execute
from ncu_swizzle.emulate.faults import MemoryFault
from ncu_swizzle.emulate.products import KINDS
from ncu_swizzle.emulate.requests import Clock
from tests.support.emulation import IN, OUT, kernel, pointers
from tests.support.marks import NEEDS_ALL

pytestmark = NEEDS_ALL


def run(
    name: str, content: bytes, size: int, n: int = 0, *, before: bytes = b"", grid: int = 1, threads: int = 32
) -> tuple[Execution, NDArray[np.uint8]]:
    """Execute kernel(out, in, n) on `content`; return what there is of it, and of out, (size,) bytes."""
    code = kernel("execution", name)
    contents = {IN: content} | ({OUT: before} if before else {})
    buffers = (Buffer("out", OUT, size), Buffer("in", IN, len(content)))
    launch = Launch(grid=(grid, 1, 1), block=(threads, 1, 1), parameters=pointers(n), buffers=buffers, memory=contents)
    memory = DeviceMemory.holding(buffers, contents)
    executed = execute(code, launch, memory, Clock(timeout_s=20))
    return executed, memory.content[memory.span(OUT, size)]


def fragment(matrix: NDArray[np.generic], word: int) -> bytes:
    """Return the registers of a matrix, (16 or 8, k), as `PRODUCT` reads them: PTX ISA, by the element's size."""
    per = word // matrix.itemsize
    lane = np.arange(32)
    registers = []
    for part in range(matrix.shape[1] // (4 * per)):
        for down in range(len(matrix) // 8):
            columns = part * 4 * per + lane[:, None] % 4 * per + np.arange(per)
            registers.append(matrix[lane[:, None] // 4 + 8 * down, columns])
    return b"".join(np.ascontiguousarray(each).tobytes() for each in registers)


def sums(content: NDArray[np.uint8], dtype: str) -> NDArray[np.generic]:
    """Return a sum, (16, 8), from the registers that `PRODUCT` stores."""
    words, lane = content.view(dtype).reshape(4, 32), np.arange(32)
    matrix = np.zeros((16, 8), dtype)
    for r in range(4):
        matrix[lane // 4 + 8 * (r // 2), lane % 4 * 2 + r % 2] = words[r]
    return matrix


@pytest.mark.parametrize(("name", "kind"), [("halves", "F16"), ("brains", "BF16")])
def test_products_of_halves_are_those_of_the_matrices(name: str, kind: str) -> None:
    rng = np.random.default_rng(1)
    bits = [(rng.standard_normal((rows, 16)).astype(np.float32).view(np.uint32) >> 16) for rows in (16, 8)]
    if kind == "F16":
        bits = [rng.standard_normal((rows, 16)).astype(np.float16).view(np.uint16) for rows in (16, 8)]
    a, b = (each.astype(np.uint16) for each in bits)
    executed, out = run(name, fragment(a, 4) + fragment(b, 4), 512)
    exact = KINDS[kind].decode(a.astype(np.uint32)) @ KINDS[kind].decode(b.astype(np.uint32)).T
    assert np.allclose(sums(out, "float32"), exact, rtol=1e-5, atol=1e-6)
    assert executed.memory.known[executed.memory.span(OUT, 512)].all()
    assert executed.reasons(executed.memory.span(OUT, 512)) == ()


def test_products_of_integers_are_exact() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(-128, 128, (16, 32)).astype(np.int8), rng.integers(0, 256, (8, 32)).astype(np.uint8)
    executed, out = run("bytes", fragment(a, 4) + fragment(b, 4), 512)
    assert (sums(out, "int32") == a.astype(np.int64) @ b.astype(np.int64).T).all()
    assert executed.reasons(executed.memory.span(OUT, 512)) == ()


def test_atomics_count_what_threads_bring_and_give_each_a_place() -> None:
    values = np.random.default_rng(3).integers(-1000, 1000, 300).astype(np.int32)
    executed, out = run("counted", values.tobytes(), 4 * 400, 300, before=bytes(1600), grid=3, threads=128)
    words = out.view(np.int32)
    assert (words[:16] == np.bincount(values & 15, minlength=16)).all()
    assert words[16] == max(values.max(), 0)
    assert words[17] == np.bitwise_xor.reduce(values)
    assert words[18] == 300
    assert sorted(words[32:332]) == list(range(300))
    span = executed.memory.span(OUT, 64)
    assert executed.reasons(span) == ()  # sums of integers are the same in any order
    assert any("order of threads" in why for why in executed.reasons(executed.memory.span(OUT + 4 * 32, 1200)))


def test_sums_of_floats_are_marked() -> None:
    values = np.random.default_rng(4).standard_normal(32).astype(np.float32)
    executed, out = run("summed", values.tobytes(), 4, 32, before=bytes(4))
    assert np.isclose(out.view(np.float32)[0], values.sum(), rtol=1e-5)
    assert "order of threads" in "".join(executed.reasons(executed.memory.span(OUT, 4)))


def test_marks_reach_outputs_through_arithmetic_branches_and_memory() -> None:
    values = np.linspace(0.1, 1, 32).astype(np.float32)
    executed, out = run("marked", values.tobytes(), 512, 2)
    reasons = [bool(executed.reasons(executed.memory.span(OUT + 128 * part, 128))) for part in range(4)]
    assert reasons == [True, False, True, True]
    assert (out.view(np.float32)[:32] == (values * 5)[::-1]).all()
    assert (out.view(np.float32)[32:64] == values * 3).all()


def test_marks_outlive_a_launch() -> None:
    values = np.linspace(0.1, 1, 32).astype(np.float32)
    first, _ = run("marked", values.tobytes(), 512, 2)
    first.settle({})
    code = kernel("execution", "passed_on")
    parameters = struct.pack("<QQi", IN, OUT, 1)
    for offset, marked in ((0, True), (128, False)):
        parameters = struct.pack("<QQi", IN, OUT + offset, 1)
        launch = Launch(grid=(1, 1, 1), block=(32, 1, 1), parameters=parameters)
        second = execute(code, launch, first.memory, Clock())
        assert bool(second.reasons(first.memory.span(IN, 128))) is marked
        second.settle({})


def test_what_only_the_hardware_knows_is_unknown() -> None:
    executed, _ = run("timed", bytes(128), 256)
    memory = executed.memory
    assert not memory.known[memory.span(OUT, 128)].any()
    assert memory.known[memory.span(OUT + 128, 128)].all()


def test_shared_memory_that_nothing_wrote_is_unknown() -> None:
    executed, _ = run("unwritten", np.arange(32, dtype=np.int32).tobytes(), 128, 8)
    known = executed.memory.known[executed.memory.span(OUT, 128)].reshape(32, 4).all(axis=1)
    assert known.tolist() == [True] * 24 + [False] * 8


def test_an_access_outside_of_all_buffers_ends_it() -> None:
    with pytest.raises(MemoryFault, match=re.escape("right past the end of out (128 bytes), thread (31, 0, 0)")):
        run("beyond", bytes(128), 128, 1)


def test_who_wrote_is_known() -> None:
    executed, _ = run("beyond", bytes(512), 512, 0, threads=128)
    at = executed.memory.span(OUT + 4 * 77, 4).start
    assert executed.memory.who[at] == 77
    assert "STG" in executed.program.instructions[int(executed.memory.by[at]) - 1].text


@pytest.mark.parametrize("grid", [1, 7])
def test_the_last_block_sees_what_all_have_stored(grid: int) -> None:
    values = np.arange(10, dtype=np.int32)
    _, out = run("last_block", values.tobytes(), 64, before=bytes(64), grid=grid)
    assert out.view(np.int32)[1 + grid] == 2 * values[:grid].sum()


def test_blocks_take_turns() -> None:
    values = np.array([5, 6, 7], np.int32)
    _, out = run("turns", values.tobytes(), 8, before=bytes(8), grid=3)
    assert out.view(np.int32).tolist() == [3, (5 * 3 + 6) * 3 + 7]


def test_atomics_of_64_bits_through_generic_pointers() -> None:
    threads, given = np.arange(32, dtype=np.uint64), np.arange(1000, 1032, dtype=np.uint64) << np.uint64(30)
    there = np.full(96, 7, np.uint64)
    _, out = run("anywhere", given.tobytes(), there.nbytes, n=16, before=there.tobytes())
    found, tile, added = out.view(np.uint64).reshape(3, 32)
    expected = given.copy()
    np.add.at(expected, np.arange(16, 32) % 24, threads[16:] + 1)
    assert (tile == expected).all()
    assert (added == np.where(threads < 16, 7 + threads + 1, 7)).all()
    assert (found == np.where(threads < 16, 7, given[threads % 24])).all()
