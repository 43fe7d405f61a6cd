"""What PTX's instructions on integers compute, as terms. Anything that only computes is a function of its operands."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from ncu_swizzle.certify import terms
from ncu_swizzle.certify.ptx import BITS, Instruction
from ncu_swizzle.certify.terms import (
    Term,
    apply,
    bitwise,
    choose,
    compare,
    concat,
    const,
    divide,
    extract,
    invert,
    mul,
    scale,
    sext,
    shift,
    zext,
)  # fmt: skip

# What computes its results from its operands alone: the same operands give the same results, in any thread. What works
# together with other lanes (mma, shfl, vote) does not.
PURE = frozenset(
    """abs add and bfe bfi bfind bmsk brev clz cnot copysign cos cvt div dp2a dp4a ex2 fma isspacep lg2 lop3 mad mad24
    max min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin slct sqrt sub szext tanh
    testp xor""".split()  # noqa: SIM905
)
Operands = Callable[[int, int], Term]  # the operand at a position, with a width


def is_integer(kind: str) -> bool:
    """Return whether a type is one of integers or of bits; bf16 begins with a b, too."""
    return kind[:1] in ("u", "s", "b") and kind[1:].isdigit()


def narrowed(term: Term, width: int) -> Term:
    """Return a register's low bits, or all of them with zeros in front."""
    return extract(term, width - 1, 0) if term.width > width else zext(term, width)


def computed(instruction: Instruction, value: Operands) -> list[Term]:
    """Return the results of an instruction of `PURE`, in the order of its results."""
    parts, kind = instruction.parts, instruction.type
    integral = is_integer(kind) or kind == "pred"
    known = _RULES.get(parts[0]) if integral and not {"sat", "cc", "relu"} & set(parts) else None
    if known is not None and (results := known(instruction, value)) is not None:
        return results
    width = BITS.get(kind, 32)
    count = len(instruction.results())
    # Types of operands may differ in width, as cvt's do: each is taken as its register has it.
    operands = [value(position, 0) for position in range(1, len(instruction.operands))]
    widths = [1] * count if parts[0] in ("setp", "testp", "isspacep") else [_result_width(instruction, width)] * count
    return [apply(f"{instruction.opcode}#{n}", widths[n], *operands) for n in range(count)]


def _result_width(instruction: Instruction, width: int) -> int:
    parts = instruction.parts
    if parts[0] in ("cvt", "set"):
        return next((BITS[part] for part in parts[1:] if part in BITS), width)
    if "wide" in parts:
        return 2 * width
    return 32 if parts[0] in ("popc", "clz", "bfind", "dp4a", "dp2a") else width


Rule = Callable[[Instruction, Operands], list[Term] | None]


def _width(instruction: Instruction) -> int:
    return BITS[instruction.type]


def _two(rule: Callable[[Term, Term], Term]) -> Rule:
    return lambda instruction, value: [rule(value(1, _width(instruction)), value(2, _width(instruction)))]


def _one(rule: Callable[[Term], Term]) -> Rule:
    return lambda instruction, value: [rule(value(1, _width(instruction)))]


def _is_signed(instruction: Instruction) -> bool:
    return instruction.type.startswith("s")


def _mul(instruction: Instruction, value: Operands) -> list[Term] | None:
    width = _width(instruction)
    one, other = value(1, width), value(2, width)
    if "wide" in instruction.parts:
        extend = sext if _is_signed(instruction) else zext
        return [mul(extend(one, 2 * width), extend(other, 2 * width))]
    return [mul(one, other)] if "lo" in instruction.parts else None


def _mad(instruction: Instruction, value: Operands) -> list[Term] | None:
    product = _mul(instruction, value)
    return [product[0] + value(3, product[0].width)] if product else None


def _shift(instruction: Instruction, value: Operands) -> list[Term] | None:
    width, count = _width(instruction), value(2, 32)
    op = "shl" if instruction.parts[0] == "shl" else "ashr" if _is_signed(instruction) else "lshr"
    if width < 32 and not count.is_const:
        return None
    return [shift(op, value(1, width), zext(count, width) if width >= 32 else const(count.value, width))]


def _divide(instruction: Instruction, value: Operands) -> list[Term]:
    op = ("s" if _is_signed(instruction) else "u") + instruction.parts[0]
    return [divide(op, value(1, _width(instruction)), value(2, _width(instruction)))]


def _cvt(instruction: Instruction, value: Operands) -> list[Term] | None:
    types = [part for part in instruction.parts if part in BITS]
    if len(types) != 2 or not all(map(is_integer, types)):
        return None
    to, width = BITS[types[0]], BITS[types[1]]
    source = value(1, width)
    extend = sext if types[1].startswith("s") else zext
    return [extract(source, to - 1, 0) if to < width else extend(source, to)]


_ORDER = {"lt": "lt", "le": "le", "gt": "lt", "ge": "le", "lo": "lt", "ls": "le", "hi": "lt", "hs": "le"}


def _setp(instruction: Instruction, value: Operands) -> list[Term] | None:
    width, parts = _width(instruction), instruction.parts
    one, other = value(1, width), value(2, width)
    if parts[1] in ("eq", "ne"):
        holds = terms.equal(one, other)
        holds = ~holds if parts[1] == "ne" else holds
    elif parts[1] in _ORDER:
        kind = (
            "s" if _is_signed(instruction) and len(parts[1]) == 2 and parts[1] not in ("lo", "ls", "hi", "hs") else "u"
        )
        one, other = (other, one) if parts[1] in ("gt", "ge", "hi", "hs") else (one, other)
        holds = compare(kind + _ORDER[parts[1]], one, other)
    else:
        return None
    found = [holds, ~holds]
    if parts[2] in ("and", "or", "xor"):
        found = [bitwise(parts[2], each, value(3, 1)) for each in found]
    return found[: len(instruction.results())]


def _selp(instruction: Instruction, value: Operands) -> list[Term]:
    width = _width(instruction)
    return [choose(value(3, 1), value(1, width), value(2, width))]


def _extreme(instruction: Instruction, value: Operands) -> list[Term]:
    width = _width(instruction)
    one, other = value(1, width), value(2, width)
    less = compare(("s" if _is_signed(instruction) else "u") + "le", one, other)
    return [choose(less, one, other) if instruction.parts[0] == "min" else choose(less, other, one)]


def _abs(instruction: Instruction, value: Operands) -> list[Term]:
    term = value(1, _width(instruction))
    return [choose(compare("slt", term, const(0, term.width)), scale(term, -1), term)]


def _bfe(instruction: Instruction, value: Operands) -> list[Term] | None:
    width, start, length = _width(instruction), value(2, 32), value(3, 32)
    if not (start.is_const and length.is_const and length.value and start.value + length.value <= width):
        return None
    field = extract(value(1, width), start.value + length.value - 1, start.value)
    return [(sext if _is_signed(instruction) else zext)(field, width)]


def _bfi(instruction: Instruction, value: Operands) -> list[Term] | None:
    width, start, length = _width(instruction), value(3, 32), value(4, 32)
    if not (start.is_const and length.is_const and length.value and start.value + length.value <= width):
        return None
    mask = (1 << length.value) - 1 << start.value
    moved = shift("shl", value(1, width), const(start.value, width)) & const(mask, width)
    return [moved | (value(2, width) & const(~mask, width))]


def _brev(term: Term) -> Term:
    bits = [extract(term, n, n) for n in range(term.width)]
    result = bits[0]
    for bit in bits[1:]:
        result = concat(result, bit)
    return result


def _popc(term: Term) -> Term:
    total = const(0, 32)
    for n in range(term.width):
        total = total + zext(extract(term, n, n), 32)
    return total


def _lop3(instruction: Instruction, value: Operands) -> list[Term] | None:
    if len(instruction.results()) != 1 or not (table := value(4, 32)).is_const:
        return None
    inputs = [value(n, 32) for n in (1, 2, 3)]
    total = const(0, 32)
    for row in range(8):  # a row of the table: which inputs are set
        if table.value >> row & 1:
            match = const(-1, 32)
            for n, term in enumerate(inputs):
                match = match & (term if row >> (2 - n) & 1 else ~term)
            total = total | match
    return [total]


def _prmt(instruction: Instruction, value: Operands) -> list[Term] | None:
    selector = value(3, 32)
    if len(instruction.parts) > 2 or not selector.is_const or selector.value & 0x8888:
        return None
    both = concat(value(2, 32), value(1, 32))
    picked = [selector.value >> 4 * n & 7 for n in range(4)]
    result = extract(both, 8 * picked[0] + 7, 8 * picked[0])
    for byte in picked[1:]:
        result = concat(extract(both, 8 * byte + 7, 8 * byte), result)
    return [result]


def _shf(instruction: Instruction, value: Operands) -> list[Term] | None:
    count = value(3, 32)
    if not count.is_const:
        return None
    by = count.value & 31 if "wrap" in instruction.parts else min(count.value, 32)
    both = concat(value(2, 32), value(1, 32))
    if "l" in instruction.parts:
        return [extract(both, 63 - by, 32 - by)]
    return [extract(both, 31 + by, by)]


def _mov(instruction: Instruction, value: Operands) -> list[Term] | None:
    width, target = _width(instruction), instruction.operands[0]
    if not target.startswith("{"):
        return [value(1, width)]
    names = target.count(",") + 1
    each = width // names
    source = value(1, width)
    return [extract(source, (n + 1) * each - 1, n * each) for n in range(names)]


_RULES: dict[str, Rule] = {
    "add": _two(operator.add), "sub": _two(operator.sub), "mul": _mul, "mad": _mad, "div": _divide, "rem": _divide,
    "and": _two(operator.and_), "or": _two(operator.or_), "xor": _two(operator.xor), "not": _one(invert),
    "neg": _one(lambda a: scale(a, -1)), "abs": _abs, "min": _extreme, "max": _extreme, "mov": _mov,
    "shl": _shift, "shr": _shift, "shf": _shf, "cvt": _cvt, "setp": _setp, "selp": _selp, "bfe": _bfe, "bfi": _bfi,
    "brev": _one(_brev), "popc": _one(_popc), "lop3": _lop3, "prmt": _prmt,
}  # fmt: skip


def joined(elements: Sequence[Term], width: int) -> Term:
    """Return a vector operand as one value, its first element lowest."""
    result = elements[0]
    for element in elements[1:]:
        result = concat(element, result)
    return narrowed(result, width)
