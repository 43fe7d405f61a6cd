"""Counts behind an atomic on a counter in global memory: exact if they are the same whoever gets which ticket."""

import itertools
import struct
from random import Random

import pytest
from hypothesis import strategies as st

from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Counts, InstructionCounts, Launch
from ncu_swizzle.emulate.run import emulate
from tests.support.programs import code
from tests.support.properties import chances, examples, holds

COUNTER, OUT, TABLE = 0x7F0000000000, 0x7F0000001000, 0x7F0000002000
MEMORY = {COUNTER: bytes(8), OUT: bytes(512), TABLE: struct.pack("<64I", *(8 * word % 256 for word in range(64)))}
ADD = "ATOMG.E.ADD.STRONG.GPU PT, R5, desc[UR4][R2.64], R4"
INC = ADD.replace("ADD", "INC")
ASK = ("LDC.64 R2, c[0x0][0x210]", "MOV R4, 0x1", ADD)
TAIL = ("SHF.L.U32 R7, R0, 0x3, RZ", "STS [R7+0x80], R0", "EXIT")  # two wavefronts a warp


def one_asks(*after: str, ask: tuple[str, ...] = ASK, before: tuple[str, ...] = ()) -> Code:
    """Return a kernel whose thread 0 asks, and that goes on with the ticket in R6 of all threads."""
    begin = ("S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", *before, "ISETP.NE.AND P0, PT, R0, RZ, PT", "BSSY B0, {end}")
    broadcast = ("end: BSYNC B0", "BAR.SYNC.DEFER_BLOCKING 0x0", "LDS R6, [RZ]")
    return code(*begin, "@P0 BRA {end}", *ask, "STS [RZ], R5", *broadcast, *after)


def launch(
    blocks: int, *, threads: int = 64, memory: dict[int, bytes] | None = None, cluster: int = 1, rows: int = 1
) -> Launch:
    parameters = struct.pack("<3Q", COUNTER, OUT, TABLE)
    given = MEMORY if memory is None else memory
    grid = blocks, rows, rows
    return Launch(grid=grid, block=(threads, 1, 1), parameters=parameters, memory=given, cluster=(cluster, 1, 1))


def access(counts: Counts, sass: str) -> InstructionCounts:
    (row,) = (row for row in counts.rows if row.sass.startswith(sass))
    return row


def tail(source: Code, run: Launch) -> tuple[int | None, int | None, int | None]:
    """Return the counts of the tail's store, which all blocks give alike."""
    row, every = (access(emulate(source, run, exhaustive=exhaustive), "STS [R7") for exhaustive in (False, True))
    assert row == every
    return row.executed, row.wavefronts, row.ideal


LAST = "ISETP.NE.AND P1, PT, R6, {last}, PT"


def last_block(blocks: int, *, reset: tuple[str, ...] = (), ask: tuple[str, ...] = ASK) -> Code:
    """Return a kernel whose last block to ask goes on to the tail."""
    return one_asks(LAST.replace("{last}", hex(blocks - 1)), "@P1 EXIT", *reset, *TAIL, ask=ask)


UNKNOWN = (None, None, None)
RESET = ("LDC.64 R2, c[0x0][0x210]", "STG.E desc[UR4][R2.64], RZ")


BACKWARDS = ("next: STS [R7+0x80], R0", "IADD3 R6, R6, -0x1, RZ", "ISETP.GE.AND P1, PT, R6, RZ, PT", "@P1 BRA {next}")
SEVEN = {COUNTER: struct.pack("<Q", 7)}
KNOWN = {
    "one block is the last of 1": (last_block(1), launch(1), (2, 4, 2)),
    "of 5, and resets the counter": (last_block(5, reset=RESET), launch(5), (2, 4, 2)),
    "of 24": (last_block(24), launch(24), (2, 4, 2)),
    "none is, if the counter did not start at 0": (last_block(5), launch(5, memory=SEVEN), (0, 0, 0)),
    "a counter that starts again": (last_block(5, ask=(ASK[0], "MOV R4, 0x4", INC)), launch(5), (2, 4, 2)),
    "and does so too early": (last_block(5, ask=(ASK[0], "MOV R4, 0x3", INC)), launch(5), UNKNOWN),
    "how often a loop runs adds up": (one_asks(TAIL[0], *BACKWARDS, "EXIT"), launch(6), (2 * 21, 4 * 21, 2 * 21)),
}


@pytest.mark.parametrize("what", KNOWN)
def test_what_is_the_same_whoever_gets_which_ticket_is_known(what: str) -> None:
    source, run, expected = KNOWN[what]
    assert tail(source, run) == expected


def test_blocks_behind_a_ticket_are_of_few_kinds() -> None:
    row = access(emulate(last_block(100_000), launch(100_000)), "STS [R7")
    assert (row.executed, row.wavefronts, row.ideal) == (2, 4, 2)
    skips = ("ISETP.GT.U32.AND P2, PT, R1, 0x2, PT", "@P2 EXIT")  # some blocks ask
    below = (LAST.replace("NE", "GE").replace("{last}", "0x2"), "@P1 EXIT")
    some = one_asks(*below, *TAIL, before=skips)
    assert access(emulate(some, launch(40, threads=32)), "STS [R7").executed == 2
    # Each block of two kinds may be the last; what a block does before it asks adds to what the last one does.
    odd = ("LOP3.LUT R8, R1, 0x1, RZ, 0xc0, !PT", "ISETP.NE.AND P2, PT, R8, RZ, PT", "@P2 STS [RZ], R8")
    counts = emulate(one_asks(LAST.replace("{last}", "0x9"), "@P1 EXIT", *TAIL, before=odd), launch(10, threads=32))
    assert access(counts, "STS [R7").wavefronts == 2
    assert access(counts, "@P2 STS").wavefronts == 5


def test_a_warp_hands_the_ticket_to_its_lanes() -> None:
    """Only one lane's register holds it: what others hold there does not decide."""
    begin = ("S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", "MOV R5, R1", "ISETP.NE.AND P0, PT, R0, RZ, PT")
    shuffle = ("end: BSYNC B0", "SHFL.IDX PT, R6, R5, RZ, 0x1f", LAST.replace("{last}", "0x3b"), "@P1 EXIT")
    source = code(*begin, "BSSY B0, {end}", "@P0 BRA {end}", *ASK, *shuffle, *TAIL)
    counts = emulate(source, launch(60, threads=32))
    row = access(counts, "STS [R7")
    assert (row.executed, row.wavefronts, row.ideal, counts.classes) == (1, 2, 1, 2)


HERE = "LDC.64 R2, c[0x0][0x210]"
LAST_OF_5 = (LAST.replace("{last}", "0x4"), "@P1 EXIT", *TAIL)
STAYS_UNKNOWN = {
    "the ticket is compared with the block": one_asks("ISETP.NE.AND P1, PT, R6, R1, PT", "@P1 EXIT", *TAIL),
    "two atomics add to one counter": one_asks(HERE, "@!P0 RED.E.ADD.STRONG.GPU desc[UR4][R2.64], R4", *LAST_OF_5),
    "a block asks twice": last_block(5, ask=(*ASK, "ISETP.EQ.AND P3, PT, R1, 0x2, PT", f"@P3 {ADD}")),
    "the first block writes the counter": one_asks(LAST.replace("{last}", "RZ"), HERE, f"@!P1 {RESET[1]}", *LAST_OF_5),
    # The last block's store reaches the counter only from one block.
    "another block may write the counter": one_asks(HERE, "IMAD.WIDE.U32 R2, R1, 0x4, R2", RESET[1], *LAST_OF_5),
    "a store whose address is unknown": one_asks(HERE, "IMAD.WIDE.U32 R2, R9, 0x4, R2", RESET[1], *LAST_OF_5),
    "the counter is not given": (last_block(5), launch(5, memory={OUT: bytes(512)})),
    "half of the counter is given": (last_block(5), launch(5, memory={COUNTER + 4: bytes(4)})),
    "what a block adds depends on it": last_block(5, ask=(ASK[0], "IADD3 R4, R1, 0x1, RZ", ADD)),
    "blocks of a cluster": (last_block(6), launch(6, cluster=2)),
    "no axis is free": (last_block(20), launch(5, rows=2)),
}


@pytest.mark.parametrize("why", STAYS_UNKNOWN)
def test_what_may_depend_on_the_order_stays_unknown(why: str) -> None:
    case = STAYS_UNKNOWN[why]
    row = access(emulate(*(case if isinstance(case, tuple) else (case, launch(5)))), "STS [R7")
    assert (row.executed, row.wavefronts) == (None, None)
    assert "what an atomic operation returns" in row.reason


def listed(place: str, *after: str, ask: tuple[str, ...] = ASK) -> Code:
    """Return a kernel whose threads each take a place in a list, and then access what a table says."""
    begin = ("S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", *ask, place, "IMAD.WIDE.U32 R8, R5, 0x4, R8")
    load = ("LDC.64 R10, c[0x0][0x220]", "IMAD.WIDE.U32 R10, R0, 0x4, R10", "LDG.E R7, desc[UR4][R10.64]")
    return code(*begin, "STG.E desc[UR4][R8.64], R0", *after, *load, "STS [R7+0x80], R0", "EXIT")


SHARED_PLACE = ("STS [RZ], RZ", "BAR.SYNC.DEFER_BLOCKING 0x0", "MOV R4, 0x1", "ATOMS.ADD R5, [RZ], R4")


def test_a_place_in_a_list_decides_no_count() -> None:
    assert tail(listed("LDC.64 R8, c[0x0][0x218]"), launch(3)) == (6, 12, 6)
    assert tail(listed("LDC.64 R8, c[0x0][0x218]", ask=SHARED_PLACE), launch(3)) == (6, 12, 6)


def test_a_place_in_shared_memory_does() -> None:
    store = ("SHF.L.U32 R9, R5, 0x2, RZ", "STS [R9+0x400], R0")
    counts = emulate(listed("LDC.64 R8, c[0x0][0x218]", *store, ask=SHARED_PLACE), launch(3))
    row = access(counts, "STS [R9")
    assert row.wavefronts is None
    assert "ATOMS.ADD" in row.reason
    assert "what an atomic operation returns" in row.reason


def test_a_list_that_is_read_or_whose_places_decide_leaves_counts_unknown() -> None:
    full = ("ISETP.GE.AND P1, PT, R5, 0x20, PT", "@P1 EXIT")
    compared = ("MOV R12, R5", ADD, "ISETP.EQ.AND P1, PT, R5, R12, PT", "@P1 EXIT")
    in_the_table, in_a_list = "LDC.64 R8, c[0x0][0x220]", "LDC.64 R8, c[0x0][0x218]"
    for source in (listed(in_the_table), listed(in_a_list, *full), listed(in_a_list, *compared)):
        assert access(emulate(source, launch(3)), "STS [R7").wavefronts is None


OPERATIONS = (
    "IADD3 {}, {}, {}, RZ",
    "IMAD {}, {}, {}, RZ",
    "LOP3.LUT {}, {}, {}, RZ, 0xc0, !PT",
    "LOP3.LUT {}, {}, {}, RZ, 0x3c, !PT",
    "VIMNMX {}, {}, {}, PT",
)


def body(chance: Random) -> tuple[str, ...]:
    """Return accesses and loops that depend on the thread, the block and the ticket."""
    lines = []
    for register in ("R12", "R13", "R14"):
        sources = chance.choices(("R0", "R1", "R6", "R6", "R12", "R13", "0x2", "0x20"), k=2)
        if sources[0].startswith("0x"):
            sources[0] = "R6"
        lines.append(chance.choice(OPERATIONS).format(register, *sources))
    if chance.random() < 0.5:
        lines += [f"ISETP.GE.AND P1, PT, R6, 0x{chance.randrange(4)}, PT", "@P1 EXIT"]
    lines += ["LOP3.LUT R12, R12, 0x1f, RZ, 0xc0, !PT", "LOP3.LUT R13, R13, 0x3, RZ, 0xc0, !PT"]
    lines += ["IMAD R7, R0, R12, RZ", "LOP3.LUT R7, R7, 0x1f, RZ, 0xc0, !PT", "SHF.L.U32 R7, R7, 0x4, RZ"]
    again = ("IADD3 R13, R13, -0x1, RZ", "ISETP.GE.AND P1, PT, R13, RZ, PT", "@P1 BRA {next}")
    return (*lines, "next: STS [R7+0x80], R14", *again, "EXIT")


@pytest.mark.long
@examples
def test_what_is_known_holds_for_all_orders(examples: int) -> None:
    known = []

    def check(chance: Random, blocks: int) -> None:
        after = body(chance)
        drawn = access(emulate(one_asks(*after), launch(blocks, threads=32)), "STS [R7")
        if drawn.executed is None or drawn.wavefronts is None:
            return
        known.append(drawn)
        given = ("LDC.64 R2, c[0x0][0x210]", "IMAD.WIDE.U32 R2, R1, 0x4, R2", "LDG.E R5, desc[UR4][R2.64]")
        for order in itertools.permutations(range(blocks)):
            memory = {COUNTER: struct.pack(f"<{blocks}I", *order)}
            fixed = emulate(one_asks(*after, ask=given), launch(blocks, threads=32, memory=memory), exhaustive=True)
            row = access(fixed, "STS [R7")
            assert (row.executed, row.wavefronts, row.ideal) == (drawn.executed, drawn.wavefronts, drawn.ideal)

    holds(examples // 5, check, chances, st.sampled_from((2, 3)))
    assert known
