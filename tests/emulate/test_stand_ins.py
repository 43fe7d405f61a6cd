"""What blocks leave in memory is what the kernels of tests/data/fix are written to compute."""

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


def left_by(text: str, launch: Launch, arch: str = "sm_90", number: int = 0, first: int | None = None) -> Results:
    code = Toolchain().compile(text, ["-O3", "-std=c++17"], arch, [])
    cubin = Cubin(code, "kernel.cubin")
    (name,) = cubin.kernels
    prepared = emulated_launch.code(cubin, name, Toolchain().disassemble(code, "kernel.cubin"))
    blocks = np.argwhere(np.ones(launch.grid, bool)).astype(np.int64)
    world = World(number=number, decisive=np.arange(4, dtype=np.uint32), shared=shared_contents(1 << 18), first=first)
    return results(prepared, launch, blocks, Clock(), world)


def array(found: Results, dtype: str) -> NDArray[np.generic]:
    """Return the bytes from OUT on, all of which must be written and known."""
    written = found.written
    order = np.argsort(written.address)
    assert written.known.all()
    assert (written.address[order] == OUT + np.arange(len(order))).all()
    return written.value[order].astype(np.uint8).view(dtype)


def corpus(name: str) -> str:
    return (CORPUS / name).read_text(encoding="utf-8")


def source(name: str) -> str:
    return (KERNELS / f"{name}.cu").read_text(encoding="utf-8")


@pytest.mark.long
def test_matrices_are_transposed_by_ldmatrix() -> None:
    halves = np.arange(128 * 128, dtype=np.uint16).reshape(128, 128)
    launch = Launch(grid=(2, 2, 1), block=(128, 1, 1), parameters=swapped(pointers(128)), memory={IN: halves.tobytes()})
    found = array(left_by(corpus("ldmatrix_trans.cu"), launch), "uint16")
    assert (found.reshape(128, 128) == halves.T).all()


def swapped(parameters: bytes) -> bytes:
    """Return the parameters (in, out, n) for (out, in, n)."""
    return parameters[8:16] + parameters[:8] + parameters[16:]


def test_copies_arrive() -> None:
    rows = np.random.default_rng(0).standard_normal((2, 32, 64)).astype(np.float32)
    launch = Launch(
        grid=(2, 1, 1), block=(128, 1, 1), parameters=swapped(pointers(0))[:16], memory={IN: rows.tobytes()}
    )
    found = array(left_by(corpus("async_columns.cu"), launch), "float32").reshape(2, 4, 32)
    expected = (rows.reshape(2, 32, 4, 4, 4) * np.arange(1, 5)).sum(axis=(3, 4)).transpose(0, 2, 1)
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_what_a_copy_leaves_out_is_zero_or_unknown() -> None:
    launch = Launch(
        grid=(1, 1, 1),
        block=(128, 1, 1),
        parameters=pointers(100),
        memory={IN: np.arange(1, 129, dtype=np.int32).tobytes()},
    )
    written = left_by(source("filled"), launch).written
    words, known = written.value.astype(np.uint8).view(np.int32), written.known.reshape(-1, 4).all(axis=1)
    expected = np.where(np.arange(128) < 100, np.arange(1, 129), 0)[::-1]
    assert (words[known] == expected[known]).all()


@pytest.mark.long
def test_products_are_the_same_only_for_the_same_matrices() -> None:
    content = np.random.default_rng(0).standard_normal(512).astype(np.float16).tobytes()

    def product(n: int) -> NDArray[np.generic]:
        launch = Launch(grid=(1, 1, 1), block=(32, 1, 1), parameters=pointers(n), memory={IN: content})
        return array(left_by(source("product"), launch), "uint32")

    first = product(0)
    assert (first == product(0)).all()
    assert (first != product(1)).all()
    assert len(np.unique(first)) == 256


@pytest.mark.long
@pytest.mark.parametrize("known", [True, False])
def test_atomic_operations_are_listed(known: bool) -> None:
    numbers = np.arange(32)
    launch = Launch(
        grid=(1, 1, 1),
        block=(32, 1, 1),
        parameters=pointers(5),
        memory={IN: numbers.astype(np.int32).tobytes()} if known else {},
    )
    found = left_by(source("counting"), launch)
    assert not found.unseen
    if not known:  # their addresses depend on data, which is drawn
        assert found.atomics == left_by(source("counting"), launch).atomics
        assert found.atomics != left_by(source("counting"), launch, number=1).atomics
        return
    assert sorted(each[2] for each in found.atomics) == sorted(OUT + 4 * (numbers & 15))
    assert sorted(each[3] for each in found.atomics) == sorted(5 + numbers)
    assert len(found.written.address) == 4


@pytest.mark.long
@pytest.mark.parametrize("first", [5, 6])
def test_blocks_see_what_they_wrote_and_tickets_in_between(first: int) -> None:
    launch = Launch(grid=(2, 1, 1), block=(32, 1, 1), parameters=pointers(5), memory={})
    found = left_by(source("behind"), launch, first=first)
    assert found.written.known.all()
    assert found.accesses == found.executed
    tickets = first + np.arange(32)  # the compiler lets one lane ask for all of its warp
    expected = [*range(32), *((np.arange(32) ^ 1) + (tickets == 5))] * 2
    order = np.lexsort((found.written.address, found.written.who >> THREAD_BITS + EPOCH_BITS))
    assert found.written.value[order].astype(np.uint8).view("int32").tolist() == expected
