"""What blocks leave in memory is what the kernels of tests/data/fix are written to compute."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.results import EPOCH_BITS, THREAD_BITS, Results, results
from ncu_swizzle.emulate.worlds import World, shared_contents
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.emulation import IN, OUT, pointers
from tests.support.fixes import CORPUS
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA

pytestmark = NEEDS_ALL
KERNELS = DATA / "kernels"
SWAPPED = pointers(128)[8:16] + pointers(128)[:8] + pointers(128)[16:]  # (in, out, n) instead of (out, in, n)


def left_by(
    file: Path, grid: tuple[int, int], threads: int, parameters: bytes, content: bytes = b"", **seen: Any
) -> Results:
    """Return what all blocks leave in memory; `seen` says which random inputs and tickets they see."""
    code = Toolchain().compile(file.read_text(encoding="utf-8"), ["-O3", "-std=c++17"], "sm_90", [])
    cubin = Cubin(code, "kernel.cubin")
    (name,) = cubin.kernels
    prepared = emulated_launch.code(cubin, name, Toolchain().disassemble(code, "kernel.cubin"))
    memory = {IN: content} if content else {}
    launch = Launch(grid=(*grid, 1), block=(threads, 1, 1), parameters=parameters, memory=memory)
    blocks = np.argwhere(np.ones(launch.grid, bool)).astype(np.int64)
    shown = {"number": 0, "first": None, **seen}
    world = World(decisive=np.arange(4, dtype=np.uint32), shared=shared_contents(1 << 18), **shown)
    return results(prepared, launch, blocks, Clock(), world)


def array(found: Results, dtype: str) -> NDArray[np.generic]:
    """Return the bytes from OUT on, all of which must be written and known."""
    written = found.written
    order = np.argsort(written.address)
    assert written.known.all()
    assert (written.address[order] == OUT + np.arange(len(order))).all()
    return written.value[order].astype(np.uint8).view(dtype)


@pytest.mark.long
def test_matrices_are_transposed_by_ldmatrix() -> None:
    halves = np.arange(128 * 128, dtype=np.uint16).reshape(128, 128)
    found = left_by(CORPUS / "ldmatrix_trans.cu", (2, 2), 128, SWAPPED, halves.tobytes())
    assert (array(found, "uint16").reshape(128, 128) == halves.T).all()


def test_copies_arrive() -> None:
    rows = np.random.default_rng(0).standard_normal((2, 32, 64)).astype(np.float32)
    found = left_by(CORPUS / "async_columns.cu", (2, 1), 128, SWAPPED[:16], rows.tobytes())
    expected = (rows.reshape(2, 32, 4, 4, 4) * np.arange(1, 5)).sum(axis=(3, 4)).transpose(0, 2, 1)
    assert np.allclose(array(found, "float32").reshape(2, 4, 32), expected, rtol=1e-5, atol=1e-5)


def test_what_a_copy_leaves_out_is_zero_or_unknown() -> None:
    content = np.arange(1, 129, dtype=np.int32).tobytes()
    written = left_by(KERNELS / "filled.cu", (1, 1), 128, pointers(100), content).written
    words, known = written.value.astype(np.uint8).view(np.int32), written.known.reshape(-1, 4).all(axis=1)
    expected = np.where(np.arange(128) < 100, np.arange(1, 129), 0)[::-1]
    assert (words[known] == expected[known]).all()


@pytest.mark.long
def test_products_are_the_same_only_for_the_same_matrices() -> None:
    content = np.random.default_rng(0).standard_normal(512).astype(np.float16).tobytes()

    def product(n: int) -> NDArray[np.generic]:
        return array(left_by(KERNELS / "product.cu", (1, 1), 32, pointers(n), content), "uint32")

    first = product(0)
    assert (first == product(0)).all()
    # The kernel stores sines: those of floats drawn from all there are, many of them 0 or as small.
    assert (first != product(1)).sum() > 128
    assert len(np.unique(first)) > 128


@pytest.mark.long
def test_atomic_operations_are_listed() -> None:
    def listed(content: bytes = b"", number: int = 0) -> Results:
        found = left_by(KERNELS / "counting.cu", (1, 1), 32, pointers(5), content, number=number)
        assert not found.unseen
        return found

    # Where the addresses depend on data that are drawn.
    assert listed().atomics == listed().atomics
    assert listed().atomics != listed(number=1).atomics
    numbers = np.arange(32)
    found = listed(numbers.astype(np.int32).tobytes())
    assert sorted(each[2] for each in found.atomics) == sorted(OUT + 4 * (numbers & 15))
    assert sorted(each[3] for each in found.atomics) == sorted(5 + numbers)
    assert len(found.written.address) == 4


@pytest.mark.long
@pytest.mark.parametrize("first", [5, 6])
def test_blocks_see_what_they_wrote_and_tickets_in_between(first: int) -> None:
    found = left_by(KERNELS / "behind.cu", (2, 1), 32, pointers(5), first=first)
    assert found.written.known.all()
    assert found.accesses == found.executed
    tickets = first + np.arange(32)  # the compiler lets one lane ask for all of its warp
    expected = [*range(32), *((np.arange(32) ^ 1) + (tickets == 5))] * 2
    order = np.lexsort((found.written.address, found.written.who >> THREAD_BITS + EPOCH_BITS))
    assert found.written.value[order].astype(np.uint8).view("int32").tolist() == expected
