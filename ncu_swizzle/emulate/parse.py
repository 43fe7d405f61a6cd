"""Parse SASS text into opcode, modifiers, guard and operands."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property

from ncu_swizzle.emulate.code import Sass

# Kinds of operands
REG, UREG, PRED, UPRED, BARRIER = "R", "UR", "P", "UP", "B"
INTEGER, FLOAT, CONSTANT, MEMORY, SPECIAL = "int", "float", "c", "[]", "SR"

ZERO = 255  # RZ, the register that is always 0
UZERO = 63  # URZ
TRUE = 7  # PT and UPT

# Their addresses have 64 bits if they have .E.
_EXTENDED = frozenset(("ATOM", "ATOMG", "LD", "LDG", "RED", "REDG", "ST", "STG"))

_REGISTER = re.compile(r"(UR|UP|R|P|B)(\d{1,3}|Z|T)")
_CONSTANT = re.compile(r"(cx?)\[([^\]]+)\]\[([^\]]*)\]")
_ADDRESS = re.compile(r"(?:g?desc\[[^\]]*\])?\[([^\]]*)\]|gdesc\[([^\]]*)\]")
_HEX = re.compile(r"-?0x[0-9a-f]+")


@dataclass(frozen=True)
class Operand:
    """One operand; registers by number, memory as the sum of its terms and an offset."""

    kind: str
    number: int = 0  # of a register; an integer's value; a constant's bank
    real: float = 0.0
    text: str = ""
    negated: bool = False  # - of a number, ! of a predicate
    inverted: bool = False  # ~
    absolute: bool = False  # |…|
    terms: tuple[Operand, ...] = ()  # of an address: registers
    offset: int = 0  # of an address, in bytes
    suffixes: tuple[str, ...] = ()  # "64", "H0_H0", "X4", …


@dataclass(frozen=True)
class SassInstruction:
    """One parsed instruction."""

    offset: int
    text: str
    opcode: str  # the first word of the mnemonic, such as IMAD
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Operand | None = None
    targets: tuple[int, ...] = field(default=())

    @property
    def mnemonic(self) -> str:
        """The opcode with its modifiers."""
        return ".".join((self.opcode, *self.modifiers))

    @cached_property
    def never(self) -> bool:
        """Whether it is always predicated off: its guard is !PT."""
        guard = self.guard
        return guard is not None and guard.number == TRUE and guard.negated

    def has(self, *modifiers: str) -> bool:
        """Say whether it has one of the modifiers."""
        return any(modifier in self.modifiers for modifier in modifiers)


def parse_instruction(sass: Sass) -> SassInstruction:
    """Parse an instruction; unrecognized operands become SPECIAL."""
    text = sass.text.strip().rstrip(";").strip()
    guard, rest = None, text
    if rest.startswith("@"):
        word, _, rest = rest[1:].partition(" ")
        guard = _operand(word)
    mnemonic, _, arguments = rest.strip().partition(" ")
    opcode, *modifiers = mnemonic.split(".")
    if guard is not None and guard.number == TRUE and not guard.negated:
        guard = None
    operands = [_operand(word) for word in _split(arguments)]
    wide = "E" in modifiers and opcode != "LDGSTS"  # which also has an address in shared memory
    return SassInstruction(
        offset=sass.offset,
        text=" ".join(text.split()),
        opcode=opcode,
        modifiers=tuple(modifiers),
        operands=tuple(map(_widened, operands) if wide else operands),
        guard=guard,
        targets=sass.targets,
    )


def _widened(operand: Operand) -> Operand:
    """Return an operand of a 64-bit access: sm_75 writes [R2] for the register pair that later ones write [R2.64]."""
    if operand.kind != MEMORY:
        return operand
    wide = (replace(t, suffixes=("64",)) if t.kind == REG and not t.suffixes else t for t in operand.terms)
    return replace(operand, terms=tuple(wide))


def _split(arguments: str) -> list[str]:
    """Split at commas and spaces outside brackets: ``RET.REL.NODEC R2 0x0`` has two operands."""
    words, depth, current = [], 0, ""
    for character in arguments:
        depth += (character in "[(") - (character in "])")
        if character in ", " and depth == 0:
            words.append(current)
            current = ""
        else:
            current += character
    return [word for word in [*words, current] if word]


def _operand(word: str) -> Operand:
    negated = word.startswith(("-", "!")) and not _HEX.fullmatch(word)
    body = word[1:] if negated else word
    inverted = body.startswith("~")
    body = body[1:] if inverted else body
    absolute = body.startswith("|")
    body = body.replace("|", "") if absolute else body
    return _plain(body, negated, inverted, absolute)


def _plain(body: str, negated: bool, inverted: bool, absolute: bool) -> Operand:
    if match := _CONSTANT.match(body):
        terms, offset = _sum(match[3])
        bank = int(match[2], 16) if match[1] == "c" and _HEX.fullmatch(match[2]) else -1
        after = tuple(body[match.end() :].strip(".").split(".")) if match.end() < len(body) else ()
        return Operand(CONSTANT, bank, 0.0, body, negated, inverted, absolute, terms, offset, after)
    if match := _ADDRESS.match(body):
        terms, offset = _sum(match[1] if match[1] is not None else match[2])
        return Operand(MEMORY, text=body, terms=terms, offset=offset)
    name, *suffixes = body.split(".")
    if match := _REGISTER.fullmatch(name):
        kept = tuple(suffix for suffix in suffixes if suffix != "reuse")
        number = _number(match[1], match[2])
        return Operand(match[1], number, 0.0, body, negated, inverted, absolute, suffixes=kept)
    if _HEX.fullmatch(body):
        return Operand(INTEGER, int(body, 16), text=body, negated=negated, inverted=inverted)
    try:
        return Operand(FLOAT, real=_real(body), text=body, negated=negated, absolute=absolute)
    except ValueError:
        return Operand(SPECIAL, text=body, negated=negated)


def _number(kind: str, digits: str) -> int:
    if digits == "T":
        return TRUE
    if digits == "Z":
        return UZERO if kind == UREG else ZERO
    return int(digits)


def _real(body: str) -> float:
    text = body.lstrip("+").lower()
    return float("nan") if text in ("qnan", "snan") else float(text)


def _sum(inside: str) -> tuple[tuple[Operand, ...], int]:
    """Return the registers and the offset of an address such as ``R12.X4+UR4+-0x10``."""
    terms, offset = [], 0
    for word in inside.replace(" ", "").replace("+-", "+~").split("+"):
        text = word.replace("~", "-")
        if not text:
            continue
        if _HEX.fullmatch(text):
            offset += int(text, 16)
        else:
            terms.append(_operand(text))
    return tuple(terms), offset
