"""An iteration that stands for others gives the counts that running all of them gives."""

from random import Random

import pytest
from hypothesis import strategies as st

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.faults import Endless, MemoryFault
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.emulate.state import State
from ncu_swizzle.smem.operations import Ints
from tests.support.programs import code
from tests.support.properties import chances, examples, holds
from tests.support.random_loops import program

LIMIT_S = 20.0
LAUNCHES = (
    Launch(grid=(1, 1, 1), block=(32, 1, 1)),
    Launch(grid=(3, 1, 1), block=(64, 1, 1)),
    Launch(grid=(12, 1, 1), block=(80, 1, 1)),
    Launch(grid=(5, 1, 1), block=(40, 1, 1)),
)

pytestmark = pytest.mark.usefixtures("alone")


def outcome(source: Code, launch: Launch, *, plain: bool) -> tuple[object, ...]:
    """Return all that an emulation says, in a form that can be compared; if it fails, how."""
    try:
        counts = emulate(source, launch, plain=plain, timeout_s=LIMIT_S)
    except NcuSwizzleError as error:
        return type(error), str(error) if isinstance(error, MemoryFault) else ""
    return counts.rows, counts.blocks_run, counts.classes, counts.notes, requests(counts)


def check_alike(source: Code, launch: Launch) -> None:
    """Run a program with and without shortcuts; one that takes too long to run all iterations shows nothing."""
    whole = outcome(source, launch, plain=True)
    if whole[0] is not Endless:
        assert outcome(source, launch, plain=False) == whole


def requests(counts: Counts) -> object:
    return {
        offset: (made.op, made.addresses.tolist(), made.active.tolist(), made.times.tolist(), sources(made.source))
        for offset, made in counts.requests.items()
    }


def sources(source: Ints | None) -> object:
    return None if source is None else source.tolist()


@pytest.mark.long
@examples
def test_loops_of_any_kind(examples: int) -> None:
    def check(chance: Random, launch: Launch) -> None:
        check_alike(program(chance), launch)

    holds(examples // 3, check, chances, st.sampled_from(LAUNCHES))


def same(lines: tuple[str, ...], launch: Launch = LAUNCHES[0]) -> Counts:
    counts = emulate(code(*lines), launch)
    assert counts.rows == emulate(code(*lines), launch, plain=True).rows
    return counts


LOOP = ("MOV R1, RZ", "IADD3 R1, R1, 0x1, RZ", "ISETP.LT.AND P0, PT, R1, 0x64, PT", "@P0 BRA 0x{at:x}", "EXIT")


def loop(*body: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return a loop of 100 iterations."""
    start, step, test, jump, end = LOOP
    at = 16 * (len(before) + 1)
    return (*before, start, *body, step, test, jump.format(at=at), end)


def test_a_loop_of_four_billion_iterations(skipped: list[int]) -> None:
    lines = ("MOV R1, RZ", "STS [RZ], R1", "VIADD R1, R1, 0x1", "ISETP.NE.AND P0, PT, R1, RZ, PT", "@P0 BRA 0x10")
    row = emulate(code(*lines, "EXIT"), LAUNCHES[0]).rows[1]
    assert row.executed == row.wavefronts == 1 << 32
    assert max(skipped) > 1 << 30


def test_addresses_that_follow_the_iteration_or_change_between_two_buffers(skipped: list[int]) -> None:
    first = ("S2R R0, SR_TID.X", "IMAD.SHL.U32 R2, R0, 0x8, RZ")
    followed = same(loop("STS [R2], R1", "IADD3 R2, R2, 0x44, RZ", before=first))
    assert followed.requests[0x30].times.tolist() == [1] * 100
    assert sum(skipped) > 90
    skipped.clear()
    changed = same(loop("LDS R3, [R2]", "LOP3.LUT R2, R2, 0x404, RZ, 0x3c, !PT", before=first))
    assert changed.requests[0x30].times.tolist() == [50, 50]
    assert sum(skipped) > 20


def test_what_shared_memory_holds_decides(skipped: list[int]) -> None:
    counter = ("STS [RZ], RZ", "MOV R4, RZ")
    same(loop("LDS R3, [RZ]", "IADD3 R3, R3, 0x4, RZ", "STS [RZ], R3", "STS [R3], R4", before=counter))
    assert not skipped
    same(loop("LDS R3, [RZ]", "STS [R3], R4", before=counter))
    assert sum(skipped) > 90


def test_a_loop_around_others(skipped: list[int]) -> None:
    inner = ("MOV R5, RZ", "STS [RZ], R1", "VIADD R5, R5, 0x1", "ISETP.LT.AND P1, PT, R5, 0x32, PT", "@P1 BRA 0x20")
    counts = same(loop(*inner))
    assert counts.rows[2].executed == 5000
    assert max(skipped) > 90


def test_a_bound_that_depends_on_the_block_or_the_thread() -> None:
    body = ("MOV R1, RZ", "again: STS [RZ], R1", "VIADD R1, R1, 0x1", "ISETP.LE.AND P0, PT, R1, R6, PT")
    blocks = same(("S2R R6, SR_CTAID.X", *body, "@P0 BRA {again}", "EXIT"), Launch(grid=(60, 1, 1), block=(32, 1, 1)))
    assert blocks.rows[2].executed == sum(range(1, 61))
    assert blocks.classes == 60, "it tells blocks apart"
    threads = same(("S2R R6, SR_TID.X", *body, "@P0 BRA {again}", "EXIT"), Launch(grid=(2, 1, 1), block=(96, 1, 1)))
    assert threads.rows[2].executed == 2 * (32 + 64 + 96), "they leave one after the other"


def test_an_address_that_leaves_shared_memory_is_the_same_fault() -> None:
    lines = loop("STS [R2], R1", "IADD3 R2, R2, 0x100, RZ", before=("MOV R2, RZ",))
    check_alike(code(*lines), LAUNCHES[0])
    with pytest.raises(MemoryFault, match="0x4000"):
        emulate(code(*lines), LAUNCHES[0])


@pytest.mark.long
@examples
def test_going_back_at_random_restores_everything(examples: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(State, "__eq__", lambda self, other: False)

        def check(chance: Random, launch: Launch) -> None:
            check_alike(program(chance), launch)

        holds(examples // 3, check, chances, st.sampled_from(LAUNCHES))
