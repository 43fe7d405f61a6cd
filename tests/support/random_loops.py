"""Random programs of nested loops, which access shared memory at addresses that may follow the iterations."""

from collections.abc import Callable
from random import Random

from ncu_swizzle.emulate.code import Code, Sass

SHARED = 0x4000
THREAD, BLOCK = "R0", "R1"
DATA = ("R3", "R4", "R5", "R6", "R7")
PREDICATES = ("P0", "P1", "P2")
STEPS = (1, 2, 4, 8, 0x10, 0x40, 0x80, -1, -4, 0x200, 3)

Lines = list[str]


def program(chance: Random) -> Code:
    """Return a program; its registers hold the thread, the block, addresses and data."""
    lines: Lines = [
        *("S2R R0, SR_TID.X", "S2R R1, SR_CTAID.X", "IMAD.SHL.U32 R2, R0, 0x4, RZ", "IADD3 R2, R2, 0x400, RZ"),
        *("MOV R12, R2", "MOV R13, RZ"),
        *(f"MOV {register}, {chance.choice(('RZ', '0x7', 'R0', 'R1'))}" for register in DATA),
        *(f"ISETP.LT.AND {p}, PT, R0, {chance.randrange(70):#x}, PT" for p in PREDICATES),
    ]
    for _ in range(chance.randint(1, 2)):
        _loop(chance, lines, depth=0)
    lines += ["STS [R2], R3", "EXIT"]
    return Code(
        name="loops", instructions=tuple(Sass(16 * at, line) for at, line in enumerate(lines)), shared_bytes=SHARED
    )


def _loop(chance: Random, lines: Lines, depth: int) -> None:
    """Add a loop: up or down, with a bound that may be the thread's or the block's."""
    counter, predicate = f"R{20 + depth}", f"P{5 - depth}"
    step = chance.choice((1, 1, 2, 4, -1, -3))
    most = (16, 7, 3)[depth]
    start = 0 if step > 0 else chance.randint(3, most)
    lines.append(f"MOV {counter}, {start:#x}")
    header = 16 * len(lines)
    _body(chance, lines, depth)
    lines.append(f"IADD3 {counter}, {counter}, {_hex(step)}, RZ")
    bound = chance.choice((f"{chance.randint(1, most):#x}", f"{most:#x}", *((THREAD, BLOCK) if depth == 0 else ())))
    if step > 0:
        lines.append(f"ISETP.LT.AND {predicate}, PT, {counter}, {bound}, PT")
    else:
        lines.append(f"ISETP.{chance.choice(('GE', 'GT'))}.AND {predicate}, PT, {counter}, RZ, PT")
    lines.append(f"@{predicate} BRA {header:#x}")


def _body(chance: Random, lines: Lines, depth: int) -> None:
    for _ in range(chance.randint(1, 6)):
        if depth < 2 and chance.random() < 0.1:
            _loop(chance, lines, depth + 1)
        elif chance.random() < 0.15:
            _branch(chance, lines, depth)
        else:
            lines.append(_statement(chance, depth))


def _branch(chance: Random, lines: Lines, depth: int) -> None:
    """Add statements that some threads skip."""
    lines.append("")
    at = len(lines)
    lines.append("")
    lines += [_statement(chance, depth) for _ in range(chance.randint(1, 3))]
    end = 16 * len(lines)
    lines[at - 1], lines[at] = f"BSSY B{depth}, {end:#x}", f"@{chance.choice(PREDICATES)} BRA {end:#x}"
    lines.append(f"BSYNC B{depth}")


def _statement(chance: Random, depth: int) -> str:
    counter = f"R{20 + chance.randint(0, depth)}"
    a, b, c = (chance.choice((*DATA, THREAD, BLOCK, counter)) for _ in range(3))
    target, predicate = chance.choice(DATA), chance.choice(PREDICATES)
    step = _hex(chance.choice(STEPS))
    near = f"{4 * chance.randrange(16):#x}"
    kinds: tuple[Callable[[], str], ...] = (
        lambda: f"IADD3 {target}, {target}, {step}, RZ",
        lambda: f"@{chance.choice(('', '!'))}{predicate} IADD3 {target}, {a}, {step}, RZ",
        lambda: (
            f"LOP3.LUT {target}, {a}, {_hex(chance.choice((1, 3, 0x10, 0x80, 0xFC)))}, RZ, "
            f"{chance.choice(('0xc0', '0x3c', '0xfc'))}, !PT"
        ),
        lambda: f"IMAD {target}, {a}, {_hex(chance.choice((2, 4, 5, 0x20)))}, {b}",
        lambda: f"SHF.R.U32.HI {target}, RZ, {chance.choice((1, 2, 5)):#x}, {a}",
        lambda: f"SEL {target}, {a}, {b}, {predicate}",
        lambda: f"ISETP.{chance.choice(('LT', 'GE', 'NE'))}.AND {predicate}, PT, {a}, {chance.choice((c, '0x11'))}, PT",
        lambda: f"SHFL.IDX PT, {target}, {a}, 0x3, 0x1f",
        lambda: f"IADD3 R2, R2, {chance.choice(('0x4', '0x10', '0x80', '-0x4', '0x0'))}, RZ",
        lambda: f"IADD3 R12, R12, {chance.choice(('0x4', '0x20', '0x80', '-0x4'))}, RZ",
        lambda: f"LOP3.LUT R8, {a}, 0xffc, RZ, 0xc0, !PT",
        lambda: f"LOP3.LUT R2, R2, {chance.choice(('0x80', '0x4', '0x1000')):s}, RZ, 0x3c, !PT",
        lambda: f"STS [R2+{near}], {a}",
        lambda: f"@{predicate} STS [R2+{near}], {a}",
        lambda: f"LDS {target}, [R2+{near}]",
        lambda: f"LDS {target}, [R8]",
        lambda: "STS [R8], R3",
        lambda: f"LDGSTS.E [R2+{near}], [R12.64]",
        lambda: f"LDG.E {target}, [R12.64]",
        lambda: f"@{predicate} STG.E.64 [R12.64+{near}], {a}",
        lambda: f"STL [R8], {a}",
        lambda: f"LDL {target}, [R8]",
        lambda: "BAR.SYNC 0x0",
        lambda: "ATOMS.ADD RZ, [R2], R3",
    )
    return chance.choice(kinds)()


def _hex(number: int) -> str:
    return f"{'-' if number < 0 else ''}{abs(number):#x}"
