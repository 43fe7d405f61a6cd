"""What PTX's instructions on integers compute, as terms. Anything that only computes is a function of its operands."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

from ncu_swizzle.certify.ptx import BITS, PtxInstruction
from ncu_swizzle.certify.terms import Term, apply, binary, choose, const

# What computes its results from its operands alone: the same operands give the same results, in any thread. What works
# together with other lanes (mma, shfl, vote) does not.
PURE = frozenset(
    """abs add and bfe bfi bfind bmsk brev clz cnot copysign cos cvt div dp2a dp4a ex2 fma isspacep lg2 lop3 mad mad24
    max min mov mul mul24 neg not or popc prmt rcp rem rsqrt sad selp set setp shf shl shr sin slct sqrt sub szext tanh
    testp xor""".split()  # noqa: SIM905
)
Operands = Callable[[int, int], Term]  # the operand at a position, with a width; 0: as its register has it


def is_integer(kind: str) -> bool:
    """Return whether a type is one of integers or of bits; bf16 begins with a b, too."""
    return kind[:1] in ("u", "s", "b") and kind[1:].isdigit()


def is_plain(instruction: PtxInstruction) -> bool:
    """Return whether it computes with whole numbers, without a modifier that would change what its name says."""
    modifiers = [part for part in instruction.parts[1:] if part not in BITS]
    compares = instruction.parts[0] == "setp" and len(modifiers) == 1
    return (compares or modifiers in ([], ["lo"])) and (is_integer(instruction.type) or instruction.type == "pred")


def computed(instruction: PtxInstruction, value: Operands) -> list[Term]:
    """Return the results of an instruction of `PURE`, in the order of its results."""
    parts, kind = instruction.parts, instruction.type
    width, results = BITS.get(kind, 32), instruction.results()
    rule = _RULES.get(parts[0])
    if rule is not None and is_plain(instruction):
        found = rule(instruction, lambda position, asked=width: value(position, asked))
        if found is not None:
            return found[: len(results)] if isinstance(found, list) else [found]
    # Types of operands may differ in width, as cvt's do: each is taken as its register has it.
    operands = [value(position, 0) for position in range(1, len(instruction.operands))]
    if parts[0] in ("setp", "testp", "isspacep"):
        width = 1
    elif parts[0] in ("cvt", "set"):
        width = next((BITS[part] for part in parts[1:] if part in BITS), width)
    elif parts[0] in ("popc", "clz", "bfind", "dp4a", "dp2a") or "wide" in parts:
        width = 2 * width if "wide" in parts else 32
    return [apply(f"{instruction.opcode}#{n}", width, *operands) for n in range(len(results))]


# Rules are given the operand at a position, with the width of the instruction's type if it is not said. None: the
# instruction is a function that is not followed.
Rule = Callable[[PtxInstruction, Callable[..., Term]], Term | list[Term] | None]


def _is_signed(instruction: PtxInstruction) -> bool:
    return instruction.type.startswith("s")


def _of_two(of: Callable[[Term, Term], Term]) -> Rule:
    return lambda _, value: of(value(1), value(2))


def _shift(instruction: PtxInstruction, value: Callable[..., Term]) -> Term | None:
    term, count = value(1), value(2, 32)
    op = "shl" if instruction.parts[0] == "shl" else "ashr" if _is_signed(instruction) else "lshr"
    if term.width < 32 and not count.is_const:
        return None
    by = const(min(count.value, term.width), term.width) if count.is_const else count.zext(term.width)
    return binary(op, term, by)


def _divide(instruction: PtxInstruction, value: Callable[..., Term]) -> Term:
    return binary(("s" if _is_signed(instruction) else "u") + instruction.parts[0], value(1), value(2))


def _cvt(instruction: PtxInstruction, value: Callable[..., Term]) -> Term | None:
    types = [part for part in instruction.parts if part in BITS]
    if len(types) != 2 or not all(map(is_integer, types)):
        return None
    to, width = BITS[types[0]], BITS[types[1]]
    source = value(1, width)
    return (
        source.extract(to - 1, 0) if to < width else (Term.sext if types[1].startswith("s") else Term.zext)(source, to)
    )


_ORDER = {"lt": "lt", "le": "le", "gt": "lt", "ge": "le", "lo": "lt", "ls": "le", "hi": "lt", "hs": "le"}


def compared(kind: str, one: Term, other: Term, signed: bool) -> list[Term] | None:
    """Return the results of a plain setp of these operands; None if it does not compare integers."""
    if kind in ("eq", "ne"):
        holds = one.equals(other) if kind == "eq" else ~one.equals(other)
    elif kind in _ORDER:
        sides = (other, one) if kind in ("gt", "ge", "hi", "hs") else (one, other)
        holds = binary(("s" if signed else "u") + _ORDER[kind], *sides)
    else:
        return None
    return [holds, ~holds]


def _setp(instruction: PtxInstruction, value: Callable[..., Term]) -> list[Term] | None:
    kind = instruction.parts[1]
    return compared(kind, value(1), value(2), _is_signed(instruction) and kind not in ("lo", "ls", "hi", "hs"))


def _extreme(instruction: PtxInstruction, value: Callable[..., Term]) -> Term:
    one, other = value(1), value(2)
    less = binary(("s" if _is_signed(instruction) else "u") + "le", one, other)
    return choose(less, one, other) if instruction.parts[0] == "min" else choose(less, other, one)


def _mov(instruction: PtxInstruction, value: Callable[..., Term]) -> Term | list[Term]:
    """Return a value, or the parts of one that a vector is made from."""
    target, source = instruction.operands[0], value(1)
    names = target.count(",") + 1 if target.startswith("{") else 1
    each = source.width // names
    return [source.extract((n + 1) * each - 1, n * each) for n in range(names)]


_RULES: dict[str, Rule] = {
    "add": _of_two(operator.add), "sub": _of_two(operator.sub), "mul": _of_two(partial(binary, "mul")),
    "mad": lambda _, value: binary("mul", value(1), value(2)) + value(3),
    "and": _of_two(operator.and_), "or": _of_two(operator.or_), "xor": _of_two(operator.xor),
    "not": lambda _, value: ~value(1), "neg": lambda _, value: value(1).scaled(-1), "min": _extreme, "max": _extreme,
    "div": _divide, "rem": _divide, "shl": _shift, "shr": _shift, "cvt": _cvt, "setp": _setp,
    "selp": lambda _, value: choose(value(3, 1), value(1), value(2)), "mov": _mov,
}  # fmt: skip
