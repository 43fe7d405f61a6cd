"""Which values an index may have in any launch, thread by thread.

The described launch shows what an index was there. With another parameter of the kernel, another grid, or other
numbers in memory it may be more: a column beyond its row, which a mapping of rows and columns takes elsewhere. Here
each expression is an interval per thread of the block, whose shape is as described. Whatever the source does not bound
is unbounded, and so is what is not understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

import numpy as np

from ncu_swizzle.fix.cuda import NARROW, NOTHING, PARAMETERS, Node, bare_type
from ncu_swizzle.fix.effects import BY_VALUE, FUNCTIONS, Changes
from ncu_swizzle.fix.objects import only_expression
from ncu_swizzle.fix.scopes import Definition, Scopes
from ncu_swizzle.fix.sums import SIZES, Constants
from ncu_swizzle.smem.operations import Bools, Ints

FAR = 1 << 30  # a bound at least this far from 0 is none: below, sums and products of 64 bits do not overflow
HIGHEST = 30  # a bit that is shifted to
ROUNDS = 4  # of going through a variable's assignments, before what still grows is taken for unbounded
STEPS = 4000  # expressions for one index, before it is given up
LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
ELSEWHERE = {"static", "extern", "volatile", "__shared__", "__device__", "__constant__", "__managed__"}
SIGNED = {"int", "signed", "signed int", "int32_t"}
UNSIGNED = {
    "unsigned", "unsigned int", "uint", "uint32_t", "size_t", "unsigned long", "unsigned long long", "uint64_t",
}  # fmt: skip
LONG = {"long", "long long", "int64_t", "ptrdiff_t", "ssize_t"}
# Coordinates, and from where to where they go; those of a thread in its block are known.
COORDINATES = {"blockIdx": 0, "clusterIdx": 0, "gridDim": 1, "clusterDim": 1}
MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "=="}


@dataclass(frozen=True, eq=False)
class Range:
    """The least and greatest value of an expression, [thread]; low > high in a thread that does not come there.

    `signed`: its type after promotion, None if that is not known, or has more bits than int.
    """

    low: Ints
    high: Ints
    signed: bool | None = None

    @property
    def never(self) -> Bools:
        return self.low > self.high

    @property
    def known(self) -> Bools:
        """Whether both bounds are some, [thread]."""
        return (self.low > -FAR) & (self.high < FAR)

    def clipped(self) -> Range:
        """Return the range with bounds that are none at ±FAR; of an unsigned type, nothing is below 0."""
        low, high = np.maximum(self.low, -FAR), np.minimum(self.high, FAR)
        if self.signed is False:
            low, high = _wrapped(low, high, low < 0)
        return Range(low, high, self.signed)

    def joined(self, other: Range) -> Range:
        """Return what is either."""
        low = np.where(self.never, other.low, np.where(other.never, self.low, np.minimum(self.low, other.low)))
        high = np.where(self.never, other.high, np.where(other.never, self.high, np.maximum(self.high, other.high)))
        return Range(low, high, _common(self, other))

    def converted(self, type_: str) -> Range:
        """Return the values in an integer type, by its name; all of its values where they do not fit."""
        if type_ in NARROW:
            bits, signed = NARROW[type_]
            least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
            outside = ((self.low < least) | (self.high > most)) & ~self.never
            return Range(np.where(outside, least, self.low), np.where(outside, most, self.high), True)
        if type_ in UNSIGNED:
            return replace(self, signed=False).clipped()
        # A large unsigned number is negative as an int, and one of more bits may be anything.
        outside = (self.high >= FAR) & ~self.never & (self.signed is not True)
        return Range(np.where(outside, -FAR, self.low), self.high, True if type_ in SIGNED else None)


def _common(one: Range, other: Range) -> bool | None:
    """Return whether what two operands are converted to is signed."""
    return None if one.signed is None or other.signed is None else one.signed and other.signed


def _wrapped(low: Ints, high: Ints, outside: Bools) -> tuple[Ints, Ints]:
    outside = (outside | (high >= FAR)) & (low <= high)
    return np.where(outside, 0, low), np.where(outside, FAR, high)


@dataclass(eq=False, kw_only=True)
class Ranges:
    """The ranges of a file's expressions, in every launch of blocks of one shape."""

    scopes: Scopes
    constants: Constants  # of the source, whatever the launch
    block: Sequence[int]
    unbounded: list[Node] = field(default_factory=list)  # what bounds nothing, as it was met
    # Variables and functions that are being looked at, as known so far.
    _changing: dict[int, Range | None] = field(default_factory=dict)
    _steps: int = 0

    def __post_init__(self) -> None:
        x, y, z = self.block
        number = np.arange(x * y * z)
        self.threads = {"x": number % x, "y": number // x % y, "z": number // (x * y)}
        self.whole = Range(np.full(len(number), -FAR), np.full(len(number), FAR))
        self.changes = Changes(self.scopes)
        self.nowhere = Range(np.full(len(number), 1), np.full(len(number), 0), True)

    def of(self, node: Node) -> Range:
        """Return the values of an expression where it stands; `unbounded` has what it depends on without a bound."""
        self.unbounded.clear()
        self._steps = 0
        return self._of(node)

    def number(self, value: int) -> Range:
        return Range(np.full_like(self.whole.low, value), np.full_like(self.whole.low, value), True)

    def reached(self, node: Node) -> Bools:
        """Return which threads may come to an expression, [thread]."""
        reached = np.ones(len(self.whole.low), bool)
        for condition, _ in self._conditions(node):
            reached &= self._of(condition).high != 0
        return reached

    def rounds(self, loop: Node) -> Range:
        """Return how often a loop goes round at most, of one that counts up by a constant; else without a bound."""
        for update in loop.part("update").walk() if loop.type == "for_statement" else ():
            counter, operator = update.part("argument", "left"), update.part("operator").text
            declared = self.scopes.meant(counter) if operator in ("++", "+=") else NOTHING
            if not declared or self.changes.of(declared) != [update]:
                continue
            step = self._of(update.part("right")) if operator == "+=" else self.number(1)
            met = self._of(counter)  # where the condition holds
            if ((step.low == step.high) & (step.low > 0) & step.known & (met.known | met.never)).all():
                most = np.where(met.never, 0, (met.high - met.low) // step.low + 1)
                return Range(np.zeros_like(most), most, True)
        return self._open(loop.part("condition") or loop)

    def _open(self, node: Node) -> Range:
        """Note what has no bound."""
        self.unbounded.append(node)
        return self.whole

    # ------------------------------------------------------------------------------------ expressions

    def _of(self, node: Node) -> Range:  # noqa: PLR0911
        node = node.bare
        self._steps += 1
        if self._steps > STEPS:
            return self._open(node)
        match node.type:
            case "number_literal" | "sizeof_expression":
                return self._literal(node)
            case "true" | "false":
                return self.number(int(node.type == "true"))
            case "identifier" | "qualified_identifier":
                return self._named(node)
            case "field_expression":
                return self._coordinate(node)
            case "binary_expression":
                operator = node.part("operator").text
                return self.combined(operator, self._of(node.part("left")), self._of(node.part("right")))
            case "unary_expression":
                return self._unary(node)
            case "conditional_expression":
                return self._of(node.part("consequence")).joined(self._of(node.part("alternative")))
            case "cast_expression":
                return self._converted(self._of(node.part("value")), node.part("type").text, node)
            case "call_expression":
                return self._called(node)
        return self._open(node)

    def _literal(self, node: Node) -> Range:
        """Return a number as it is written, or the size of a type."""
        value, text = self.constants.value(node), node.text.lower()
        if value is None and node.type == "sizeof_expression":
            aliased = self.scopes.file.aliased(node.part("type", "value").text.strip("()"))
            value = SIZES.get(bare_type(aliased or ""))
        if not _near(value):
            return self._open(node)
        if node.type == "sizeof_expression" or re.search(r"[\da-f]l*u", text):
            return replace(self.number(value), signed=False)
        return replace(self.number(value), signed=None if text.endswith("l") else True)

    def combined(self, operator: str, one: Range, other: Range) -> Range:
        """Return what an operator makes of two operands, anything if it is not one of numbers."""
        never = one.never | other.never
        signed = one.signed if operator in ("<<", ">>") else _common(one, other)
        if signed is False and operator not in ("<<", ">>"):
            one, other = (replace(operand, signed=False).clipped() for operand in (one, other))
        negative = ((one.low < 0) | (other.low < 0)) & ~never
        if operator in ("&&", "||", "==", "!=", "<", ">", "<=", ">="):
            made = self._compared(operator, one, other, negative & (signed is None))
            return Range(np.where(never, 1, made.low), np.where(never, 0, made.high), True)
        low, high = self._computed(operator, one, other, negative & (signed is None))
        return Range(np.where(never, 1, low), np.where(never, 0, high), signed).clipped()

    def _computed(self, operator: str, one: Range, other: Range, unsure: Bools) -> tuple[Ints, Ints]:
        """Return the bounds; `unsure` is where a negative operand may be a large one."""
        low, high = self.whole.low, self.whole.high
        known = one.known & other.known
        match operator:
            case "+":
                low = np.where((one.low > -FAR) & (other.low > -FAR), one.low + other.low, low)
                high = np.where((one.high < FAR) & (other.high < FAR), one.high + other.high, high)
            case "-":
                low = np.where((one.low > -FAR) & (other.high < FAR), one.low - other.high, low)
                high = np.where((one.high < FAR) & (other.low > -FAR), one.high - other.low, high)
            case "*" | "<<":
                least, most = (other.low, other.high) if operator == "*" else _powers(other)
                known = known if operator == "*" else known & (other.low >= 0) & (other.high < HIGHEST)
                ends = np.stack([a * b for a in (one.low, one.high) for b in (least, most)])
                low, high = np.where(known, ends.min(0), low), np.where(known, ends.max(0), high)
            case "/" | ">>":
                least, most = (other.low, other.high) if operator == "/" else _powers(other)
                fits = (other.low >= (operator == "/")) & (one.low >= 0)
                low = np.where(fits, one.low // np.maximum(most, 1), low)
                high = np.where(fits & (one.high < FAR), one.high // np.maximum(least, 1), high)
            case "%":
                fits = (other.low > 0) & ~unsure
                most = np.where(other.high < FAR, other.high - 1, FAR)
                high = np.where(fits, np.minimum(most, np.maximum(one.high, 0)), high)
                low = np.where(fits, np.maximum(-most, np.minimum(one.low, 0)), low)
                whole = fits & (other.low == other.high) & (one.low >= 0) & (one.high < FAR)
                period = np.maximum(other.low, 1)
                whole &= one.low // period == one.high // period  # it counts on
                low, high = np.where(whole, one.low % period, low), np.where(whole, one.high % period, high)
            case "&":
                exact = known & (one.low == one.high) & (other.low == other.high)
                most = np.minimum(np.where(one.low >= 0, one.high, FAR), np.where(other.low >= 0, other.high, FAR))
                fits = (one.low >= 0) | (other.low >= 0)
                low = np.where(exact, one.low & other.low, np.where(fits, 0, low))
                high = np.where(exact, one.low & other.low, np.where(fits, most, high))
            case "|" | "^":
                exact = known & (one.low == one.high) & (other.low == other.high)
                value = one.low | other.low if operator == "|" else one.low ^ other.low
                fits = known & (one.low >= 0) & (other.low >= 0)
                bits = np.frexp(np.maximum(np.maximum(one.high, other.high), 0).astype(float))[1]
                low = np.where(exact, value, np.where(fits, 0, low))
                high = np.where(exact, value, np.where(fits, (1 << bits.astype(np.int64)) - 1, high))
        return low, high

    def _compared(self, operator: str, one: Range, other: Range, unsure: Bools) -> Range:
        """Return whether a comparison holds, as 0 and 1; an end that is none, or `unsure`, decides nothing."""
        if operator in ("&&", "||"):
            zero = [(operand.low == 0) & (operand.high == 0) for operand in (one, other)]
            holds = [(operand.low > 0) | (operand.high < 0) for operand in (one, other)]
            if operator == "&&":
                return Range((holds[0] & holds[1]).astype(int), (~(zero[0] | zero[1])).astype(int), True)
            return Range((holds[0] | holds[1]).astype(int), (~(zero[0] & zero[1])).astype(int), True)
        if operator in (">", ">="):
            return self._compared(MIRRORED[operator], other, one, unsure)
        ahead = (one.high < other.low) & (one.high < FAR) & (other.low > -FAR) & ~unsure
        behind = (one.low > other.high) & (one.low > -FAR) & (other.high < FAR) & ~unsure
        met = (one.low == one.high) & (other.low == other.high) & (one.low == other.low) & one.known
        match operator:
            case "<":
                true = ahead
                false = behind | ((one.low == other.high) & one.known & other.known & ~unsure)
            case "<=":
                true = ahead | ((one.high == other.low) & one.known & other.known & ~unsure)
                false = behind
            case "==":
                true, false = met, ahead | behind
            case _:
                true, false = ahead | behind, met
        return Range(true.astype(int), (~false).astype(int), True)

    def _unary(self, node: Node) -> Range:
        operand, operator = self._of(node.part("argument")), node.part("operator").text
        match operator:
            case "+":
                return operand
            case "!":
                return self.combined("==", operand, self.number(0))
            case "-":
                return self.combined("-", self.number(0), operand)
            case "~":
                return self.combined("-", self.number(-1), operand)
        return self._open(node)

    def _coordinate(self, node: Node) -> Range:
        held, axis = node.part("argument").text, node.part("field").text
        if axis in self.threads and held == "threadIdx":
            return Range(self.threads[axis], self.threads[axis], False)
        if axis in self.threads and held == "blockDim":
            return replace(self.number(self.block["xyz".index(axis)]), signed=False)
        if axis in self.threads and held in COORDINATES:
            self.unbounded.append(node)
            return Range(np.full_like(self.whole.low, COORDINATES[held]), self.whole.high, False)
        return self._open(node)

    def _converted(self, value: Range, type_: str, node: Node) -> Range:
        """Return a value in a type as written; unbounded if that is not one of integers."""
        name = bare_type(type_)
        for _ in range(8):  # aliases of aliases
            if name in NARROW or name in SIGNED or name in UNSIGNED or name in LONG:
                return value.converted(name)
            if name == "auto":
                return value
            aliased = self.scopes.file.aliased(name)
            if aliased is None:
                break
            name = bare_type(aliased)
        enums = (made.part("name").text for made in self.scopes.file.nodes("enum_specifier"))
        return replace(value, signed=None) if name in enums else self._open(node)

    # ------------------------------------------------------------------------------------ functions

    def _called(self, call: Node) -> Range:  # noqa: PLR0911
        name, given = call.called, call.arguments
        definitions = self.scopes.callables.get(name, [])
        if definitions and not BY_VALUE.fullmatch(name):
            made = self.nowhere
            for definition in definitions:
                made = made.joined(self._returned(definition, call))
            return made
        if definitions and not all(definition.macro for definition in definitions):
            return self._open(call)  # which of the overloads, this file's or CUDA's, is not known
        if definitions:
            return self._returned(definitions[0], call) if len(definitions) == 1 else self._open(call)
        if cast := call.cast_type:
            return self._converted(self._of(given[0]), cast, call) if len(given) == 1 else self._open(call)
        if call.part("function").type == "primitive_type" and len(given) == 1:
            return self._converted(self._of(given[0]), call.part("function").text, call)
        if name in ("min", "max", "umin", "umax") and len(given) == 2:
            return self._extreme(name.endswith("min"), *(self._of(each) for each in given))
        if name in ("__mul24", "__umul24") and len(given) == 2:
            return self.combined("*", *(self._of(each) for each in given))
        if re.fullmatch(r"__shfl\w*_sync", name) and len(given) > 1:
            value = self._of(given[1])  # another thread's
            some = ~value.never
            if some.any():
                ends = value.low[some].min(), value.high[some].max()
                return Range(np.full_like(value.low, ends[0]), np.full_like(value.low, ends[1]), value.signed)
        return self._open(call)

    def _extreme(self, least: bool, one: Range, other: Range) -> Range:
        signed = _common(one, other)
        if signed is False:
            one, other = (replace(operand, signed=False).clipped() for operand in (one, other))
        if signed is None and ((one.low < 0) | (other.low < 0)).any():
            return self.whole
        pick = np.minimum if least else np.maximum
        never = one.never | other.never
        low, high = pick(one.low, other.low), pick(one.high, other.high)
        return Range(np.where(never, 1, low), np.where(never, 0, high), signed)

    def _returned(self, made: Definition, call: Node) -> Range:
        """Return what a function, lambda or macro of the file gives, whatever it is called with in the file."""
        if made.macro:
            body = only_expression(made)
            return self._of(body) if body else self._open(call)
        if made.node.id in self._changing:  # it calls itself
            return self._open(call)
        self._changing[made.node.id] = None
        value, found = self.nowhere, False
        for node in made.body.walk():
            if node.type == "return_statement" and node.above(*FUNCTIONS) is made.node and node.named_children:
                value, found = value.joined(self._of(node.named_children[0])), True
        del self._changing[made.node.id]
        declarator = made.node.function_declarator.parent
        if not found or declarator.type.endswith(("reference_declarator", "pointer_declarator")):
            return self._open(call)
        if made.node.type == "lambda_expression":
            return value if "->" not in made.node.part("declarator").text else self._open(call)
        return self._converted(value, made.node.part("type").text, call)

    # ------------------------------------------------------------------------------------ variables

    def _named(self, node: Node) -> Range:
        declared = self.scopes.resolve(node) if node.type == "identifier" else NOTHING
        if node.type == "qualified_identifier" and self.constants.name(node) is None:
            every = self.scopes.declarations(node.text.rpartition("::")[2])
            declared = every[0] if len(every) == 1 else NOTHING
        if declared:
            return self._refined(node, declared, self._variable(node, declared))
        if node.text == "warpSize":
            return self.number(32)
        macros = [made for made in self.scopes.callables.get(node.text, []) if made.macro]
        body = only_expression(macros[0]) if len(macros) == 1 and not macros[0].parameters else NOTHING
        if body or len(macros) > 1:
            return self._of(body) if body else self._open(node)
        value = self.constants.name(node)
        return replace(self.number(value), signed=None) if _near(value) else self._open(node)

    def _variable(self, use: Node, declared: Node) -> Range:
        """Return all values that a variable has anywhere."""
        if declared.id in self._changing:
            # Only of the one that is looked at last, what is known so far may be used: it is gone through again.
            so_far = self._changing[declared.id] if declared.id == next(reversed(self._changing)) else None
            return so_far or self._open(use)
        type_ = declared.declared_type
        writes = self.changes.of(declared)
        value = self.constants.name(use) if writes == [] else None
        if _near(value):
            return self._converted(self.number(value), type_ or "auto", use)
        first = self._first(declared)
        if writes is None or first is None:
            return self._converted(self._open(use), type_, use)
        started, self._changing[declared.id] = self.nowhere, None
        for node in first:
            started = started.joined(self._of(node))
        del self._changing[declared.id]
        if not type_ and first == []:
            return self._open(use)
        known = started = self._converted(started, type_ or "auto", use)
        for turn in range(2 * ROUNDS if writes else 0):
            self._changing[declared.id] = known
            new = known
            for write in writes:
                new = new.joined(self._converted(self._written(write), type_ or "auto", use))
            del self._changing[declared.id]
            if (new.low == known.low).all() and (new.high == known.high).all():
                return new
            if turn >= ROUNDS:
                low, high = np.where(new.low < known.low, -FAR, new.low), np.where(new.high > known.high, FAR, new.high)
                new = Range(low, high, new.signed)
            known = new
        return known if not writes else self._converted(self._open(use), type_, use)

    def _written(self, write: Node) -> Range:
        """Return the value that an assignment or ``++`` gives a variable."""
        if write.type == "update_expression":
            sign = "+" if "++" in write.text else "-"
            return self.combined(sign, self._of(write.part("argument")), self.number(1))
        operator, right = write.part("operator").text.removesuffix("="), self._of(write.part("right"))
        if not operator:
            return right
        return self.combined(operator, self._of(write.part("left")), right)

    def _first(self, declared: Node) -> list[Node] | None:  # noqa: PLR0911
        """Return what a variable begins with, of a parameter what all calls give; None if that is not known."""
        taken = list(self.scopes.taking(declared))
        if taken:
            ((made, number), *more) = taken
            return None if more else self._given(made, number)
        statement = declared.above("declaration", "field_declaration", "for_range_loop", *PARAMETERS)
        if statement.parent.type == "template_parameter_list":
            return self._told(statement)
        local = statement.type == "declaration" and statement.above(*FUNCTIONS)
        elsewhere = statement.words & ELSEWHERE
        fixed = statement.words & {"const", "constexpr"} and elsewhere <= {"static", "__device__"}
        if fixed and statement.type == "field_declaration" and "static" in elsewhere:
            return statement.every("default_value") if len(statement.every("declarator")) == 1 else None
        if statement.type != "declaration" or not (fixed or (local and not elsewhere)):
            return None
        holder = declared.parent
        if holder is statement:
            return [] if local else None
        if holder.type != "init_declarator" or holder.part("declarator") is not declared:
            return None
        value = holder.part("value")
        if value.type in ("argument_list", "initializer_list"):
            return value.named_children if len(value.named_children) == 1 else None
        return [value]

    def _told(self, parameter: Node) -> list[Node] | None:
        """Return what a function's template is told for a parameter wherever it is called; None if that is not seen."""
        template, number = parameter.above("template_declaration"), parameter.number
        made = next((made for made in self.scopes.definitions if made.node.parent is template), None)
        if made is None or "__global__" in made.node.text.partition("(")[0]:
            return None  # a kernel's are those of the launch
        told: list[Node] = []
        for mention in self.scopes.mentions.get(made.name, []):
            listed = mention.parent.part("arguments") if mention.is_part("name", "template_function") else NOTHING
            if number < len(listed.named_children):
                told.append(listed.named_children[number])
            elif not self._declares(mention, made) and self._is_function(mention):
                return None
        return told or None

    def _given(self, made: Definition, number: int) -> list[Node] | None:
        """Return what all calls in the file give a parameter, and its default; None if other calls may give more."""
        parameter = made.parameter(number)
        holder = parameter.above(*PARAMETERS)
        if not made.macro and (
            "__global__" in made.node.text.partition("(")[0]
            or parameter.parent.type.endswith("_declarator")
            or "virtual" in made.node.words
            or made.name.startswith("operator")
        ):
            return None
        default = holder.part("default_value")
        given = [default] if default else []
        for mention in self.scopes.mentions.get(made.name, []):
            call = mention.above("call_expression")
            if call and call.called == made.name and mention.inside(call.part("function")):
                given += call.arguments[number : number + 1]
                if any(child.type.endswith("pack_expansion") for child in call.arguments):
                    return None
            elif not self._declares(mention, made) and self._is_function(mention):
                return None  # it is called by another name
        return given

    def _is_function(self, mention: Node) -> bool:
        """Return whether a name may be that of a function: no variable or member of the name is declared there."""
        declared = self.scopes.resolve(mention) if mention.type == "identifier" else NOTHING
        return mention.type != "field_identifier" and declared.parent.type in ("", "function_declarator")

    def _declares(self, mention: Node, made: Definition) -> bool:
        if mention.inside(made.node) and not mention.inside(made.body):
            return True
        declarator = mention.above("function_declarator")
        if declarator and mention.inside(declarator.part("declarator")):
            return True
        return mention.is_part("declarator", "init_declarator") and mention.parent.part("value") is made.node

    # ------------------------------------------------------------------------------------ conditions

    def _conditions(self, node: Node) -> Iterator[tuple[Node, Node]]:
        """Yield what holds where an expression is evaluated, each with the part of the source in which it does."""
        function = node.above(*FUNCTIONS)
        if any(below.type == "goto_statement" for below in function.walk()):
            return
        entered = False  # by a label of a switch further out
        inner, holder = node, node.parent
        while holder and holder.type not in FUNCTIONS:
            match holder.type:
                case "case_statement":
                    entered = True
                case "switch_statement":
                    entered = False
            body = NOTHING
            match holder.type:
                case "if_statement" | "conditional_expression":
                    body = holder.part("consequence")
                case "for_statement" if inner is holder.part("update"):
                    body = inner
                case "for_statement" | "while_statement":
                    body = holder.part("body")
                case "binary_expression" if holder.part("operator").text == "&&":
                    body = holder.part("right")
            condition = holder.part("left") if holder.type == "binary_expression" else holder.part("condition")
            condition = condition.part("value") or condition
            if body is inner and not entered and condition:
                yield from ((part, body) for part in _parts(condition))
            inner, holder = holder, holder.parent

    def _refined(self, use: Node, declared: Node, value: Range) -> Range:
        """Return what a variable may be where it is used, by the conditions that it is used under."""
        writes, met = self.changes.of(declared), len(self.unbounded)
        if writes is None:
            return value
        known = bool((value.known | value.never).all())
        for condition, body in self._conditions(use):
            operator, left, right = (condition.part(part) for part in ("operator", "left", "right"))
            if condition.type != "binary_expression" or operator.text not in MIRRORED:
                continue
            sides = ((left.bare, right, operator.text), (right.bare, left, MIRRORED[operator.text]))
            for side, other, compare in sides:
                if self.scopes.meant(side) is declared and self._stays(writes, body, use):
                    value = self._limited(value, compare, self._of(other))
        value = self._stepped(declared, writes, value)
        if known:  # whatever is not known of the conditions
            del self.unbounded[met:]
        return value

    def _stepped(self, declared: Node, writes: Sequence[Node], value: Range) -> Range:
        """Return the values that a variable comes to which only counts on by a constant, from where it begins."""
        first = self._first(declared)
        if len(writes) != 1 or writes[0].part("operator").text != "+=" or first is None or len(first) != 1:
            return value
        begin, step = self._of(first[0]), self._of(writes[0].part("right"))
        exact = (begin.low == begin.high) & begin.known & (step.low == step.high) & (step.low > 0) & step.known
        exact &= (value.high < FAR) & (value.high >= begin.low)
        by = np.maximum(step.low, 1)
        return replace(value, high=np.where(exact, begin.low + (value.high - begin.low) // by * by, value.high))

    def below(self, use: Node, limit: Callable[[Node], bool]) -> bool:
        """Return whether a name is used where it is less than an expression of which `limit` is true."""
        declared = self.scopes.meant(use)
        writes = self.changes.of(declared) if declared else None
        return writes is not None and any(
            condition.type == "binary_expression"
            and condition.part("operator").text == "<"
            and self.scopes.meant(condition.part("left").bare) is declared
            and limit(condition.part("right").bare)
            and self._stays(writes, body, use)
            for condition, body in self._conditions(use)
        )

    def _stays(self, writes: Sequence[Node], body: Node, use: Node) -> bool:
        """Return whether none of some assignments comes between where a condition held and a use in a statement."""
        before = body.parent.part("body") if body.is_part("update") else NOTHING
        loops, loop = list[Node](), use
        while (loop := loop.above(*LOOPS)) and loop.inside(body):
            loops.append(loop)
        function = use.above(*FUNCTIONS)
        return all(
            write.above(*FUNCTIONS) is function
            and not write.inside(before)
            and not (write.inside(body) and write.start_byte <= use.start_byte and not use.inside(write))
            and not any(write.inside(loop) for loop in loops)
            for write in writes
        )

    def _limited(self, value: Range, operator: str, other: Range) -> Range:
        """Return the values for which a comparison with others may hold."""
        if _common(value, other) is not True and ((value.low < 0) | (other.low < 0)).any():
            return value  # a negative number may be a large one
        low, high = value.low, value.high
        if operator in ("<", "<=", "=="):
            high = np.where(other.high < FAR, np.minimum(high, other.high - (operator == "<")), high)
        if operator in (">", ">=", "=="):
            low = np.where(other.low > -FAR, np.maximum(low, other.low + (operator == ">")), low)
        return Range(low, high, value.signed)


def _parts(condition: Node) -> Iterator[Node]:
    """Yield the conditions that all hold if one does."""
    condition = condition.bare
    if condition.type == "binary_expression" and condition.part("operator").text == "&&":
        yield from _parts(condition.part("left"))
        yield from _parts(condition.part("right"))
    else:
        yield condition


def _powers(bits: Range) -> tuple[Ints, Ints]:
    """Return the least and greatest power of 2 that a number of bits shifts by."""
    return 1 << np.clip(bits.low, 0, HIGHEST), 1 << np.clip(bits.high, 0, HIGHEST)


def _near(value: int | None) -> TypeGuard[int]:
    return value is not None and -FAR < value < FAR
