"""What blocks leave in a memory of any address, by which two versions of a kernel are told apart."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.device_memory import PAGE, DrawnMemory
from ncu_swizzle.emulate.execution import Execution, difference, left_behind, untold
from ncu_swizzle.emulate.requests import Clock
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
    file: Path, grid: tuple[int, int], threads: int, parameters: bytes, content: bytes = b"", number: int = 0
) -> Execution:
    """Return what all blocks leave in memory."""
    code = Toolchain().compile(file.read_text(encoding="utf-8"), ["-O3", "-std=c++17"], "sm_90", [])
    cubin = Cubin(code, "kernel.cubin")
    (name,) = cubin.kernels
    prepared = emulated_launch.code(cubin, name, Toolchain().disassemble(code, "kernel.cubin"))
    memory = {IN: content} if content else {}
    launch = Launch(grid=(*grid, 1), block=(threads, 1, 1), parameters=parameters, memory=memory)
    blocks = np.argwhere(np.ones(launch.grid, bool)).astype(np.int64)
    found = left_behind(prepared, launch, blocks, number, Clock())
    assert not untold(found)
    return found


def array(found: Execution, dtype: str) -> NDArray[np.generic]:
    """Return the bytes from OUT on, all of which must be written and known."""
    assert isinstance(found.memory, DrawnMemory)
    addresses, places = found.memory.written()
    assert (addresses == OUT + np.arange(len(addresses))).all()
    assert found.memory.known[places].all()
    return found.memory.content[places].view(dtype)


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


def test_what_a_copy_leaves_out_is_zero() -> None:
    content = np.arange(1, 129, dtype=np.int32).tobytes()
    words = array(left_by(KERNELS / "filled.cu", (1, 1), 128, pointers(100), content), "int32")
    assert (words == np.where(np.arange(128) < 100, np.arange(1, 129), 0)[::-1]).all()


@pytest.mark.long
def test_products_of_drawn_matrices_are_the_same_only_for_the_same_matrices() -> None:
    first, again, moved = (left_by(KERNELS / "product.cu", (1, 1), 32, pointers(n)) for n in (0, 0, 1))
    assert difference(first, again) == ""
    assert difference(first, moved) == "other values are stored"
    assert len(np.unique(array(first, "uint32"))) > 128


@pytest.mark.long
def test_versions_see_the_same_memory_and_each_draw_is_another() -> None:
    def left(n: int, number: int) -> Execution:
        return left_by(KERNELS / "counting.cu", (1, 1), 32, pointers(n), number=number)

    assert difference(left(5, 0), left(5, 0)) == ""
    assert difference(left(5, 0), left(6, 0)) == "other values are stored"
    assert difference(left(5, 0), left(5, 1)) == "other bytes are stored"  # where decides what is drawn


def test_pages_are_drawn_once_and_hold_what_is_given() -> None:
    content = np.arange(2 * PAGE, dtype=np.uint16).tobytes()
    memory, far = DrawnMemory.of(1, {3 * PAGE - 8: content}), 1 << 46
    places = memory.places_of(None, np.array([far, 3 * PAGE - 12, 4 * PAGE, far + 4]), 4, None)  # type: ignore[arg-type]
    assert memory.pages == 3
    assert places[3] == places[0] + 4
    words = memory.content.view(np.uint32)[places // 4].tolist()
    assert words[2] == int.from_bytes(content[PAGE + 8 : PAGE + 12], "little")
    assert max(words[0], words[1], words[3]) < PAGE  # integers are small
    for page in range(40, 80):  # room is made
        memory.places_of(None, np.array([page * PAGE]), 4, None)  # type: ignore[arg-type]
    assert memory.content.view(np.uint32)[places // 4].tolist() == words
