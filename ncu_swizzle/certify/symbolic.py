"""What instructions do to a version's registers and local memory, and what others can notice of them: effects."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from ncu_swizzle.certify import semantics
from ncu_swizzle.certify.flow import Effect, Escape, Flow, Lookup, Memory, common_base
from ncu_swizzle.certify.graph import EXTERNAL
from ncu_swizzle.certify.ptx import BITS, SPACES, Instruction, Unfollowed, elements, split
from ncu_swizzle.certify.semantics import narrowed
from ncu_swizzle.certify.terms import (
    APPLY,
    ATOM,
    GLOBAL,
    OBJECT,
    SHARED,
    Term,
    apply,
    atom,
    bitwise,
    choose,
    compare,
    const,
    equal,
    extract,
    leaves,
    mul,
    scale,
    sext,
    zext,
)  # fmt: skip
from ncu_swizzle.certify.verdict import Location

GENERIC = "generic"
DESCRIBED = "the layout is in a descriptor"
TABLE_BYTES = 4_096
NUMBER = "shared address from a number"

# Special registers. What a block or the launch decides is the same in both versions; what time or the place of a block
# decides is read anew by each instruction; sizes of shared memory may differ between the versions.
_SPECIAL = re.compile(r"%(tid|ntid|ctaid|nctaid)\.([xyz])")
_SIZES = ("%total_smem_size", "%aggr_smem_size", "%dynamic_smem_size", "%reserved_smem")
_OF_BLOCKS = (
    "%laneid",
    "%lanemask",
    "%cluster",
    "%nclusterid",
    "%is_explicit_cluster",
    "%nwarpid",
    "%nsmid",
    "%gridid",
)
_FIXED = (*_OF_BLOCKS, *_SIZES)


class Run(Flow):
    """A version of a kernel, run."""

    # Operands.

    def _value(self, operand: str, width: int) -> Term:  # noqa: PLR0911 - one kind of operand after the other
        """Return an operand; with a width of 0, as its register has it."""
        state = self._state
        if operand in self.graph.registers:
            known = state.registers.get(operand)
            known = known if known is not None else self._undefined(operand)
            return narrowed(known, width) if width else known
        if operand.startswith("{"):
            parts = elements(operand)
            return semantics.joined([self._value(part, width // len(parts)) for part in parts], width)
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", operand):
            return const(int(operand.rstrip("U"), 0), width or 32)
        if found := re.fullmatch(r"0([fFdD])([0-9A-Fa-f]+)", operand):
            return const(int(found[2], 16), width or (32 if found[1] in "fF" else 64))
        if found := re.fullmatch(r"([^+\s-]++)\s*+([+-])\s*+(\d++)", operand):
            base = self._value(found[1], width)
            return base + const(int(found[2] + found[3]), base.width)
        if operand.startswith("!"):
            return ~self._value(operand[1:].strip(), width)
        if operand.startswith("%") and not operand.startswith("%SP"):
            return self._special(operand, width or 32)
        return self._symbol(operand, width or 64)

    def _special(self, name: str, width: int) -> Term:
        if found := _SPECIAL.fullmatch(name):
            axis = "xyz".index(found[2])
            if self.block is not None and found[1] == "ntid":
                return const(self.block[axis], width)
            if self.block is not None and found[1] == "tid" and self.block[axis] == 1:
                return const(0, width)
            return narrowed(atom(name.removeprefix("%"), 32), width)
        if name == "%laneid":
            return narrowed(self._lane(), width)
        if name.startswith(_FIXED):
            own = f":{self.version}" if self.resized and name.startswith(_SIZES) else ""
            return atom(f"special:{name}{own}", width)
        # Time, or where a block runs: every read is another value, and the same one in both versions.
        self._add(Effect(f"mov {name}", [], [], None, self._line))
        return atom(f"ld:{self._number}.{len(self.effects[self._number]) - 1}", width)

    def _lane(self) -> Term:
        """Return the lane: the low bits of the thread's number in its block."""
        index = [self._special(f"%tid.{axis}", 32) for axis in "xyz"]
        shape = [self._special(f"%ntid.{axis}", 32) for axis in "xy"]
        if shape[0].is_const and shape[0].value % 32 == 0:
            return index[0] & const(31, 32)
        within = mul(mul(index[2], shape[1]) + index[1], shape[0]) + index[0]
        return within & const(31, 32)

    def _symbol(self, name: str, width: int) -> Term:
        symbol = self.module.symbols.get(name)
        if symbol is not None and symbol.space == "shared":
            return narrowed(atom(SHARED + self.names[name], 32), width)
        if name in self.parameters or name in self.graph.objects or (symbol is not None and symbol.space == "local"):
            return atom(OBJECT + self.parameters.get(name, name), width)
        if symbol is not None or name in self.module.functions:
            return atom(GLOBAL + name, width)
        if name == "WARP_SZ":
            return const(32, width)
        raise Unfollowed(f"{name} is not followed", self._line)

    def _address(self, operand: str) -> Term:
        """Return the address in brackets, 64 bits wide."""
        address = self._value(split(operand[1:-1])[0], 0)
        return zext(address, 64)

    def _guard(self, instruction: Instruction) -> Term:
        predicate = self._value(instruction.guard, 1)
        return ~predicate if instruction.negated else predicate

    def _set(self, name: str, value: Term, guard: Term | None, is_signed: bool = False) -> None:
        if name not in self.graph.registers:
            return
        width = self.graph.registers[name]
        value = sext(value, width) if is_signed and value.width < width else narrowed(value, width)
        if guard is not None:
            value = choose(guard, value, self._value(name, width))
        self._state.registers[name] = value

    # Instructions.

    _line: Location | None = None

    def _step(self, instruction: Instruction) -> None:
        self._line = instruction.line or self._line
        parts, head = instruction.parts, instruction.parts[0]
        if head in ("bra", "brx", "ret", "exit", "trap", "pragma") or instruction.opcode.startswith("."):
            return
        if "cc" in parts or head in ("addc", "subc", "madc"):
            raise Unfollowed("a carry is not followed", self._line)
        guard = self._guard(instruction) if instruction.guard else None
        if guard is not None and guard.is_const:
            if not guard.value:
                return
            guard = None
        memory = any(operand.startswith("[") for operand in instruction.operands)
        if head == "cvta":
            self._set(instruction.operands[0], self._converted(instruction), guard)
        elif head == "isspacep":
            self._set(instruction.operands[0], self._is_in_space(instruction), guard)
        elif head in semantics.PURE and not memory:
            self._compute(instruction, guard)
        elif head in ("ld", "ldu", "st"):
            self._load_or_store(instruction, guard)
        elif head == EXTERNAL:
            self._external(instruction)
        else:
            self._effect(instruction, guard)

    def _compute(self, instruction: Instruction, guard: Term | None) -> None:
        operands = instruction.operands

        def value(position: int, width: int) -> Term:
            return self._value(operands[position], width)

        if instruction.parts[0] == "setp" and (found := self._compared(instruction)) is not None:
            results = found
        else:
            results = semantics.computed(instruction, value)
        names = instruction.results()
        for name, result in zip(names, results, strict=False):
            if result.op == APPLY:
                for argument in result.terms():
                    self._leak(argument, f"{instruction.opcode} computes with it")
            is_signed = instruction.type.startswith("s") and instruction.parts[0] != "setp"
            self._set(name, result, guard, is_signed)

    def _compared(self, instruction: Instruction) -> list[Term] | None:
        """Return the results of comparing two addresses of one array: of their offsets. Others let addresses escape."""
        width = BITS.get(instruction.type, 32)
        if width < 32 or instruction.type.startswith("f"):
            return None
        one, other = (zext(self._value(operand, width), 64) for operand in instruction.operands[1:3])
        if not one.symbols and not other.symbols:
            return None
        bases = [common_base([term]) for term in (one, other)]
        comparison = instruction.parts[1]
        if bases[0] is not None and bases[0] is bases[1]:
            one, other = one - bases[0], other - bases[0]
            kind = comparison if comparison in ("eq", "ne") else comparison.replace("lo", "lt").replace("ls", "le")
            kind = kind.replace("hi", "gt").replace("hs", "ge")
            first, second = (other, one) if kind in ("gt", "ge") else (one, other)
            holds = {
                "eq": equal(one, other), "ne": ~equal(one, other),
                "lt": compare("slt", first, second), "gt": compare("slt", first, second),
                "le": compare("sle", first, second), "ge": compare("sle", first, second),
            }[kind]  # fmt: skip
        elif (
            width == 64
            and comparison in ("eq", "ne")
            and any(term.is_const and term.value == 0 for term in (one, other))
        ):
            holds = const(comparison == "ne", 1)  # no address in the window of shared memory is null
        else:
            self._leak(one, "it is compared")
            self._leak(other, "it is compared")
            return None
        found = [holds, ~holds]
        if instruction.parts[2] in ("and", "or", "xor"):
            found = [bitwise(instruction.parts[2], each, self._value(instruction.operands[3], 1)) for each in found]
        return found[: len(instruction.results())]

    def _converted(self, instruction: Instruction) -> Term:
        """Return an address in another space: the same, but for a number that is made a shared address."""
        value = self._value(instruction.operands[1], 64 if "u64" in instruction.parts else 32)
        value = zext(value, 64)
        if "shared" in instruction.parts and "to" not in instruction.parts and not value.symbols:
            return apply(NUMBER, 64, value)
        return value

    def _is_in_space(self, instruction: Instruction) -> Term:
        value, space = self._value(instruction.operands[1], 64), instruction.parts[1].partition("::")[0]
        if common_base([value]) is not None:
            return const(space == "shared", 1) if value.symbols else const(space == "local", 1)
        self._leak(value, "its space is asked for")
        return apply(instruction.opcode, 1, value)

    def _load_or_store(self, instruction: Instruction, guard: Term | None) -> None:
        parts = instruction.parts
        width = BITS.get(instruction.type)
        if width is None:
            raise Unfollowed(f"{instruction.opcode} is not followed", self._line)
        count = next((int(part[1:]) for part in parts if part in ("v2", "v4", "v8")), 1)
        store = parts[0] == "st"
        place, other = instruction.operands[:2] if store else instruction.operands[1::-1]
        address = self._address(place)
        names = elements(other)
        if (slot := self._slot(address, count * width // 8, instruction)) is not None:
            for n, name in enumerate(names):
                part = (slot[0], slot[1] + n * width // 8, width // 8)
                if store:
                    value = narrowed(self._value(name, width), width)
                    value = choose(guard, value, self._loaded(self._state, part)) if guard is not None else value
                    self._store(self._state, part, value)
                else:
                    value = self._loaded(self._state, part)
                    self._set(name, value, guard, instruction.type.startswith("s"))
            return
        if not store and count == 1 and (found := self._looked_up(address, width // 8)) is not None:
            self._set(names[0], found, guard, instruction.type.startswith("s"))
            return
        memory = Memory(address, count * width // 8, _space(parts), store, _alignment(count * width // 8))
        effect = Effect(instruction.opcode, [memory], [], guard, self._line)
        if store:
            effect.values = [narrowed(self._value(name, width), width) for name in names]
            self._add(effect)
            return
        at = self._repeated(effect, instruction.inline)
        for n, name in enumerate(names):
            self._set(name, atom(f"ld:{self._number}.{at}.{n}", width), guard, instruction.type.startswith("s"))

    def _repeated(self, effect: Effect, inline: bool) -> int:
        """Add a load and return its place in its block: that of the same load, if only loads stand between them.

        C++ has no race between the two, unless they are volatile; who writes asm may mean to see one.
        """
        before = self.effects[self._number]
        volatile = inline or {"volatile", "relaxed", "acquire", "mmio"} & set(effect.opcode.split("."))
        for at in range(len(before) - 1, -1, -1) if not volatile and effect.guard is None else ():
            other = before[at]
            if not other.opcode.startswith("ld."):
                break
            same = other.opcode == effect.opcode and other.guard is None
            if same and other.memory[0].address is effect.memory[0].address:
                return at
        self._add(effect)
        return len(before) - 1

    def _looked_up(self, address: Term, size: int) -> Term | None:
        """Return what a load finds in a table of constants: a choice by the bits of the index."""
        based = [leaf for leaf in address.atoms if leaf.op == ATOM and leaf.name.startswith(GLOBAL)]
        name = based[0].name.removeprefix(GLOBAL) if len(based) == 1 else ""
        symbol = self.module.symbols.get(name)
        if symbol is None or symbol.data is None or symbol.size > TABLE_BYTES or symbol.size % size:
            return None
        offset = address - based[0]
        if based[0] in offset.atoms:
            return None
        data = symbol.data
        values = [const(int.from_bytes(data[at : at + size], "little"), 8 * size) for at in range(0, len(data), size)]
        bits = max(1, (len(values) - 1).bit_length())
        values += [const(0, 8 * size)] * ((1 << bits) - len(values))
        low = size.bit_length() - 1
        for bit in range(bits):
            chosen = extract(offset, low + bit, low + bit)
            values = [choose(chosen, high, low_) for low_, high in zip(values[::2], values[1::2], strict=True)]
        self.lookups.append(Lookup(self._number, name, offset, len(data) - size, size))
        return values[0]

    def _check_tables(self) -> None:
        """Refuse tables that the kernel may write."""
        tables = {GLOBAL + lookup.table for lookup in self.lookups}
        for effect in itertools.chain(*self.effects) if tables else ():
            terms = [*effect.values, *(memory.address for memory in effect.memory if memory.write)]
            if any(leaf.op == ATOM and leaf.name in tables for term in terms for leaf in leaves(term)):
                raise Unfollowed("a table of constants may be written", effect.line)

    def _external(self, instruction: Instruction) -> None:
        """Call what the module does not have, such as vprintf: it sees its arguments, and returns something."""
        operands = instruction.operands
        at = operands.index("|")
        effect = Effect(f"call {operands[0]}", [], [], None, self._line)
        for argument in operands[at + 1 :]:
            for part in sorted(self._state.slots.get(argument, ())):
                effect.values.append(self._state.slots[argument][part])
        self._add(effect)
        number = len(self.effects[self._number]) - 1
        for n, result in enumerate(operands[1:at]):
            self._state.slots[result] = {
                (offset, 4): atom(f"ret:{self._number}.{number}.{n}.{offset}", 32) for offset in range(0, 16, 4)
            }

    def _effect(self, instruction: Instruction, guard: Term | None) -> None:
        effect = Effect(instruction.opcode, [], [], guard, self._line)
        results = instruction.results()
        head = instruction.parts[0]
        for position, operand in enumerate(instruction.operands):
            if operand.startswith("["):
                effect.memory += self._accessed(instruction, operand, len(effect.memory))
                effect.values += [self._value(each, 0) for part in split(operand[1:-1])[1:] for each in elements(part)]
            elif position == 0 and results and head != "wgmma":
                continue
            elif effect.memory and effect.memory[0].stride is not None and position == len(instruction.operands) - 1:
                continue  # wmma's stride is in its addresses
            else:
                effect.values += [self._value(each, 0) for each in elements(operand) if each != "_"]
        self._add(effect)
        at = len(self.effects[self._number]) - 1
        names = [name for operand in instruction.operands if operand.startswith("{") for name in elements(operand)]
        for n, name in enumerate(names if head == "wgmma" else results):
            if name in self.graph.registers:
                self._set(name, atom(f"ld:{self._number}.{at}.{n}", self.graph.registers[name]), guard)

    def _accessed(self, instruction: Instruction, operand: str, position: int) -> Iterator[Memory]:
        """Yield what an operand in brackets accesses."""
        parts, head, operands = instruction.parts, instruction.parts[0], instruction.operands
        address = self._address(operand)
        self._lose([address])
        spaces = [name for part in parts if (name := part.partition("::")[0]) in SPACES]
        space = GENERIC if not spaces else spaces[min(position, len(spaces) - 1)] if head == "cp" else spaces[0]
        width: int | None = None
        write = head not in ("ldmatrix", "prefetch", "prefetchu", "applypriority") and parts[:2] != ["wmma", "load"]
        if head in ("atom", "red"):
            count = next((int(part[1:]) for part in parts if part in ("v2", "v4", "v8")), 1)
            width = BITS[instruction.type] * count // 8 if instruction.type and "x2" not in instruction.type else None
            width = 4 if instruction.type in ("f16x2", "bf16x2") else width
        elif head in ("ldmatrix", "stmatrix"):
            width = 16 if "m8n8" in parts and instruction.type == "b16" else None
        elif parts[:2] == ["cp", "async"] and "bulk" not in parts and "mbarrier" not in parts:
            width = int(operands[2]) if operands[2].isdigit() else None
            write = position == 0
        elif head == "mbarrier":
            width = 8
        elif head == "wmma" and (tile := _tile(parts)) is not None:
            lines, length, bits = tile
            pitch = self._value(operands[-1], 32) if not operands[-1].startswith(("[", "{")) else None
            if pitch is not None:
                stride = scale(sext(pitch, 64), bits // 8)
                yield Memory(address, length * bits // 8, space, write, 32, lines, stride)
                return
        elif head == "cp":
            size = self._value(operands[2], 32) if "bulk" in parts and "tensor" not in parts else None
            whole = size is not None and size.is_const and not any(part.startswith("multicast") for part in parts)
            if position < 2 and whole and size is not None:  # the third is its barrier
                yield Memory(address, size.value, space, position == 0, 16)
                return
            write = position != 1
        yield Memory(address, width, space, write, _alignment(width))

    def _add(self, effect: Effect) -> None:
        described = effect.opcode.startswith(("wgmma", "tcgen05"))
        for value in effect.values:
            self._leak(value, DESCRIBED if described else f"it is a value of {effect.opcode}")
        self.effects[self._number].append(effect)

    def _leak(self, value: Term, reason: str) -> None:
        """Note which shared arrays' addresses a value has."""
        for symbol in {symbol for leaf in leaves(value) for symbol in leaf.symbols}:
            self.escapes.setdefault(symbol, []).append(Escape(reason, self._line))
        self._lose([value])


def _alignment(width: int | None) -> int:
    """Return what an access of some bytes has to be aligned to."""
    return min(width, 16) if width and width & (width - 1) == 0 else 1


def _space(parts: Sequence[str]) -> str:
    return next((name for part in parts if (name := part.partition("::")[0]) in SPACES), GENERIC)


# Fragments of wmma: lines of the matrix in memory, and how long each is, by shape, operand and layout.
_SHAPES = {"m16n16k16": (16, 16, 16), "m32n8k16": (32, 8, 16), "m8n32k16": (8, 32, 16), "m16n16k8": (16, 16, 8)}


def _tile(parts: Sequence[str]) -> tuple[int, int, int] | None:
    """Return how many rows (or columns) a fragment has in memory, their elements, and bits of an element."""
    shape = next((_SHAPES[part] for part in parts if part in _SHAPES), None)
    kind = next((part for part in reversed(parts) if part in BITS), "")
    if shape is None or kind not in ("f16", "bf16", "f32", "tf32", "s8", "u8", "s32"):
        return None
    m, n, k = shape
    operand = next((part for part in parts if part in ("a", "b", "c", "d")), "")
    rows, columns = {"a": (m, k), "b": (k, n)}.get(operand, (m, n))
    lines, length = (rows, columns) if "row" in parts else (columns, rows)
    return lines, length, BITS[kind]
