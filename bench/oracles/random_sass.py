"""Random SASS with and without what saves time.

``python3 bench/oracles/random_sass.py [KIND …] [--seed N] [--count N]``.

A KIND is `loops`: nested loops that access shared memory at addresses which may follow the iterations, where one
iteration stands for others, or all are run; `guards`: the same with most instructions under a predicate, where what
decides no count is left out, or all is computed; `blocks`: addresses and predicates made from the block's index, where
a few blocks stand for all, or all are run. The counts have to be the same. Prints each program that counts differently,
and how many were tried; ends with 1 if one did. ``--count 1000`` takes minutes; tests/emulate tries a few.

"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from unittest import mock

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from ncu_swizzle.base.errors import NcuSwizzleError
from ncu_swizzle.emulate import blocks
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Counts, Launch
from ncu_swizzle.emulate.faults import Endless, MemoryFault
from ncu_swizzle.emulate.liveness import Demand
from ncu_swizzle.emulate.program import prepare
from ncu_swizzle.emulate.requests import Clock
from ncu_swizzle.emulate.run import emulate, setting_of
from ncu_swizzle.smem.opcodes import row
from tests.support.places import text
from tests.support.programs import code

LIMIT_S = 20.0
Lines = list[str]
Pair = tuple[object, object]  # what is said of all that is run, and of what is run to save time

# ---------------------------------------------------------------------------------------------- loops

DATA, INDICES = ("R3", "R4", "R5", "R6", "R7"), ("R0", "R1")  # the thread's and the block's
PREDICATES = ("P0", "P1", "P2")
STEPS = (1, 2, 4, 8, 0x10, 0x40, 0x80, -1, -4, 0x200, 3)
OF_LOOPS, OF_BLOCKS = (text(f"emulate/{name}_operations.txt").splitlines() for name in ("loop", "block"))
LAUNCHES = (
    Launch(grid=(1, 1, 1), block=(32, 1, 1)),
    Launch(grid=(3, 1, 1), block=(64, 1, 1)),
    Launch(grid=(12, 1, 1), block=(80, 1, 1)),
    Launch(grid=(5, 1, 1), block=(40, 1, 1)),
)


def looping(chance: Random) -> Code:
    """Return a program of loops; its registers hold the thread, the block, addresses and data."""
    lines: Lines = [
        *("S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", "IMAD.SHL.U32 R2, R0, 0x4, RZ", "IADD3 R2, R2, 0x400, RZ"),
        *("MOV R12, R2", "MOV R13, RZ"),
        *(f"MOV {register}, {chance.choice(('RZ', '0x7', 'R0', 'R1'))}" for register in DATA),
        *(f"ISETP.LT.AND {p}, PT, R0, {chance.randrange(70):#x}, PT" for p in PREDICATES),
    ]
    for _ in range(chance.randint(1, 2)):
        _loop(chance, lines, depth=0)
    return code(*lines, "STS [R2], R3", "EXIT")


def _loop(chance: Random, lines: Lines, depth: int) -> None:
    """Add a loop: up or down, with a bound that may be the thread's or the block's."""
    counter, predicate = f"R{20 + depth}", f"P{5 - depth}"
    step = chance.choice((1, 1, 2, 4, -1, -3))
    most = (16, 7, 3)[depth]
    start = 0 if step > 0 else chance.randint(3, most)
    lines.append(f"MOV {counter}, {start:#x}")
    header = 16 * len(lines)
    _body(chance, lines, depth)
    lines.append(f"IADD3 {counter}, {counter}, {step:#x}, RZ")
    bound = chance.choice((f"{chance.randint(1, most):#x}", f"{most:#x}", *(INDICES if depth == 0 else ())))
    if step > 0:
        lines.append(f"ISETP.LT.AND {predicate}, PT, {counter}, {bound}, PT")
    else:
        lines.append(f"ISETP.{chance.choice(('GE', 'GT'))}.AND {predicate}, PT, {counter}, RZ, PT")
    lines.append(f"@{predicate} BRA {header:#x}")


def _body(chance: Random, lines: Lines, depth: int) -> None:
    for _ in range(chance.randint(1, 6)):
        if depth < 2 and chance.random() < 0.1:
            _loop(chance, lines, depth + 1)
        elif chance.random() < 0.15:  # statements that some threads skip
            skipped = [_statement(chance, depth) for _ in range(chance.randint(1, 3))]
            end = 16 * (len(lines) + 2 + len(skipped))
            lines += [f"BSSY B{depth}, {end:#x}", f"@{chance.choice(PREDICATES)} BRA {end:#x}", *skipped]
            lines.append(f"BSYNC B{depth}")
        else:
            lines.append(_statement(chance, depth))


def _statement(chance: Random, depth: int) -> str:
    a, b, c = (chance.choice((*DATA, *INDICES, f"R{20 + chance.randint(0, depth)}")) for _ in range(3))
    return chance.choice(OF_LOOPS).format(
        a=a,
        b=b,
        d=chance.choice(DATA),
        p=chance.choice(PREDICATES),
        no=chance.choice(("", "!")),
        step=f"{chance.choice(STEPS):#x}",
        mask=f"{chance.choice((1, 3, 0x10, 0x80, 0xFC)):#x}",
        table=chance.choice(("0xc0", "0x3c", "0xfc")),
        factor=f"{chance.choice((2, 4, 5, 0x20)):#x}",
        shift=f"{chance.choice((1, 2, 5)):#x}",
        relation=chance.choice(("LT", "GE", "NE")),
        limit=chance.choice((c, "0x11")),
        on=chance.choice(("0x4", "0x10", "0x80", "-0x4", "0x0")),
        further=chance.choice(("0x4", "0x20", "0x80", "-0x4")),
        other=chance.choice(("0x80", "0x4", "0x1000")),
        near=f"{4 * chance.randrange(16):#x}",
    )


def in_full_and_with_shortcuts(source: Code, launch: Launch) -> Pair:
    """Emulate all iterations, and those that stand for all; a program that takes too long in full shows nothing."""
    whole = _outcome(source, launch, plain=True)
    return whole, whole if whole[0] is Endless else _outcome(source, launch, plain=False)


def _outcome(source: Code, launch: Launch, *, plain: bool) -> tuple[object, ...]:
    """Return all that an emulation says, in a form that can be compared; if it fails, how."""
    # The first block runs alone however long it takes, which it takes without shortcuts: the same blocks run then.
    with mock.patch.object(blocks, "ALONE_STEPS", math.inf):
        try:
            counts = emulate(source, launch, plain=plain, timeout_s=LIMIT_S)
        except NcuSwizzleError as error:
            return type(error), str(error) if isinstance(error, MemoryFault) else ""
    return counts.rows, counts.blocks_run, counts.classes, counts.notes, _requests(counts)


def _requests(counts: Counts) -> object:
    return {
        offset: (made.op, *(None if each is None else each.tolist() for each in arrays))
        for offset, made in counts.requests.items()
        for arrays in [(made.addresses, made.active, made.times, made.source)]
    }


def loops(chance: Random) -> Pair:
    return in_full_and_with_shortcuts(looping(chance), chance.choice(LAUNCHES))


# ---------------------------------------------------------------------------------------------- guards


def guards(chance: Random) -> Pair:
    source = under_guards(looping(chance), chance)
    whole = _counted(source, everything=True, shortcuts=False)
    if whole is Endless:
        return whole, whole
    return (whole, whole), tuple(_counted(source, everything=False, shortcuts=each) for each in (False, True))


def under_guards(source: Code, chance: Random) -> Code:
    """Put most instructions under a predicate."""
    guards = [f"@{chance.choice(('', '!'))}{predicate}" for predicate in PREDICATES]
    lines = [
        f"{chance.choice(guards)} {sass.text}"
        if sass.text[0] != "@" and not row(sass.text.split()[0].split(".")[0]).control and chance.random() < 0.6
        else sass.text
        for sass in source.instructions
    ]
    return code(*lines, shared_bytes=source.shared_bytes)


def _counted(source: Code, *, everything: bool, shortcuts: bool) -> object:
    program = prepare(source, Demand(everything=everything))
    setting = setting_of(source, LAUNCHES[1], program, Clock(timeout_s=3.0), shortcuts=shortcuts)
    try:
        batch = blocks.run_batch(setting, np.zeros((1, 3), np.int64))
    except NcuSwizzleError as error:
        return type(error)
    return batch.signature(0), set(batch.machine.unknown), set(batch.machine.missed)


# ---------------------------------------------------------------------------------------------- blocks

GRIDS = ((67, 1, 1), (33, 3, 1), (130, 2, 1), (16, 16, 1))
MAGIC = ("0xaaaaaaab", "0x55555556", "0x66666667", "0xcccccccd", "0x24924925", "0x10000000", "0x4ec4ec4f")


def of_blocks(chance: Random) -> Code:
    """Return a kernel that accesses memory at addresses and under predicates made from the block."""
    lines = ["S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", "S2R R2, SR_CTAID.Y", "ISETP.GE.AND P0, PT, R1, 0x5, PT"]
    lines += [f"MOV R{d}, R{d % 3}" for d in range(3, 8)]
    for _ in range(chance.randrange(2, 9)):
        values = {
            "a": chance.randrange(8),
            "b": chance.randrange(8),
            "d": chance.randrange(3, 8),
            "c": hex(chance.choice((1, 2, 3, 4, 8, 12, 20, 33, 128, 256, 0xFFFFFFFF))),
            "k": hex(chance.choice((1, 2, 3, 4, 5, 8, 12, 31))),
            "mask": hex(chance.choice((1, 3, 7, 0x18, 0xF, 0x1F, 0x3F, 0xFFFFFFF8, 0xFFFFFFE0, 0x55))),
            "table": hex(chance.choice((0x3C, 0x96, 0xC0, 0xFC, 0x78, 0xF8, 0xE2))),
            "selector": hex(chance.choice((0x4440, 0x5410, 0x7710, 0x8880, 0x3210))),
            "magic": chance.choice(MAGIC),
        }
        lines.append(chance.choice(OF_BLOCKS).format(**values))
    scale = chance.choice((1, 4, 8, 0x21))
    lines += [
        f"IMAD R8, R{chance.randrange(8)}, {scale:#x}, R0",
        "LOP3.LUT R8, R8, 0x3ffc, RZ, 0xc0, !PT",
        "STS [R8+0x400], R0",
        f"IMAD.WIDE.U32 R10, R{chance.randrange(8)}, {chance.choice((4, 36, 128)):#x}, RZ",
        "LDG.E R12, [R10.64]",
        "@!P0 STG.E [R10.64+0x40], R0",
        "@P0 STS [R0.X4+0x400], R0",
        "@P0 BRA {end}",
        "STS [RZ+0x400], R0",
        "end: EXIT",
    ]
    return code(*lines, shared_bytes=0x4400)


def few_blocks(chance: Random) -> Pair:
    source, launch = of_blocks(chance), Launch(grid=chance.choice(GRIDS), block=(chance.choice((32, 64)), 1, 1))
    few, every = emulate(source, launch), emulate(source, launch, exhaustive=True)
    counted, expected = ([replace(row, origin=None) for row in counts.rows] for counts in (few, every))
    return (expected, every.classes, ()), (counted, few.classes, few.notes)


KINDS: dict[str, Callable[[Random], Pair]] = {"loops": loops, "guards": guards, "blocks": few_blocks}
PROGRAMS = {"loops": looping, "guards": lambda chance: under_guards(looping(chance), chance), "blocks": of_blocks}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", choices=[*KINDS, []], help=", ".join(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    arguments = parser.parse_args()
    different: Counter[str] = Counter()
    for kind in arguments.kinds or KINDS:
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            expected, found = KINDS[kind](Random(seed))
            if found != expected:
                different[kind] += 1
                print(f"{kind} {seed} DIFFERENT", *PROGRAMS[kind](Random(seed)).instructions, sep="\n", flush=True)
        print(f"{kind}: {arguments.count} programs, {different[kind]} counted differently", flush=True)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
