"""What instructions do to a version's registers and local memory, and what others can notice of them: effects."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from ncu_swizzle.certify import semantics
from ncu_swizzle.certify.flow import CHUNK, Effect, MemoryFootprint, SymbolicFlow, TensorMap, common_base
from ncu_swizzle.certify.graph import ENDS, EXTERNAL
from ncu_swizzle.certify.ptx import BITS, SPACES, UNREAD, PtxInstruction, Unfollowed, elements, split
from ncu_swizzle.certify.terms import (
    APPLY,
    GLOBAL,
    OBJECT,
    SHARED,
    WINDOW,
    Term,
    apply,
    atom,
    binary,
    choose,
    const,
    joined,
    rebased,
    window,
)  # fmt: skip
from ncu_swizzle.certify.verdict import Location

GENERIC = "generic"
DESCRIBED = "the layout is in a descriptor"
TABLE_BYTES = 4_096
NUMBER = "shared address from a number"
FROM_NUMBER = "an address of shared memory is made from a number"
# What CUDA's runtime on the device defines. Other functions that are not here may be a project's, and dynamic shared
# memory is the same for all of them.
RUNTIME = ("vprintf", "__assertfail", "malloc", "free")

# Special registers. What a block or the launch decides is the same in both versions; what time or the place of a block
# decides is read anew by each instruction; sizes of shared memory may differ between the versions.
_SPECIAL = re.compile(r"%(tid|ntid|ctaid|nctaid)\.([xyz])")
_FIXED = re.compile(
    r"%(laneid|lanemask_(eq|le|lt|ge|gt)|(n?clusterid|cluster_n?ctaid)\.[xyz]|cluster_n?ctarank"
    r"|is_explicit_cluster|nwarpid|nsmid|gridid)"
)
_SIZES = re.compile(r"%(total_smem_size|aggr_smem_size|dynamic_smem_size|reserved_smem_\w+)")
_TIMED = re.compile(r"%(clock(_hi|64)?|globaltimer(_lo|_hi)?|smid|warpid|envreg\d+)")

_SUM = re.compile(r"([^+\s-]++)\s*+([+-]\s*+-?)\s*+(\w++)")  # compilers write %rd1+-4
_INTEGER = re.compile(r"-?(0[xX][0-9a-fA-F]+|[1-9]\d*|0)U?")  # octal and binary ones are not read


class SymbolicRun(SymbolicFlow):
    """A version of a kernel, run."""

    def run(self) -> None:
        self.tables: set[Term] = set()  # of constants, which are read
        self.messages: dict[tuple[int, int], list[Term]] = {}  # of assertions, by block and place
        super().run()
        self._check_tables()

    # Operands.

    def _value(self, operand: str, width: int) -> Term:  # noqa: PLR0911 - one kind of operand after the other
        """Return an operand; with a width of 0, as its register has it."""
        if operand in self.graph.registers:
            known = self._state.registers.get(operand)  # what nothing on the way here has set is the same in both
            known = known if known is not None else atom(f"undef:{operand}", self.graph.registers[operand])
            return known.narrowed(width) if width else known
        if operand.startswith("{"):
            parts = elements(operand)
            value = joined(self._value(part, width // len(parts)) for part in parts)
            return value.narrowed(width) if width else value
        if _INTEGER.fullmatch(operand):
            return const(int(operand.rstrip("U"), 0), width or 64)  # no instruction takes more of it
        if found := re.fullmatch(r"0([fFdD])([0-9A-Fa-f]+)", operand):
            return const(int(found[2], 16), width or (32 if found[1] in "fF" else 64))
        if (found := _SUM.fullmatch(operand)) and _INTEGER.fullmatch(found[3]):
            base, number = self._value(found[1], width), int(found[3].rstrip("U"), 0)
            return base + const(-number if found[2].count("-") == 1 else number, base.width)
        if operand.startswith("!"):
            return ~self._value(operand[1:].strip(), width)
        if operand.startswith("%"):
            return self._special(operand, width or 32)
        return self._symbol(operand, width or 64)

    def _special(self, name: str, width: int) -> Term:
        if match := _SPECIAL.fullmatch(name):
            axis = "xyz".index(match[2])
            if self.block is not None and match[1] == "ntid":
                return const(self.block[axis], width)
            if self.block is not None and match[1] == "tid" and self.block[axis] == 1:
                return const(0, width)
            return atom(name.removeprefix("%"), 32).narrowed(width)
        if _FIXED.fullmatch(name) or _SIZES.fullmatch(name):
            own = f":{self.version}" if self.resized and _SIZES.fullmatch(name) else ""
            return atom(f"special:{name}{own}", width)
        if not _TIMED.fullmatch(name):
            raise Unfollowed(f"{name} is not followed", self._line)
        # Time, or where a block runs: every read is another value, and the same one in both versions.
        return self._results(Effect(f"mov {name}", [], [], None, self._line), [width])[0]

    def _symbol(self, name: str, width: int) -> Term:
        symbol = self.module.symbols.get(name)
        if symbol is not None and symbol.space == "shared":
            return atom(SHARED + self.names[name], 32).narrowed(width)
        if name in self.parameters or name in self.graph.objects or (symbol is not None and symbol.space == "local"):
            return atom(OBJECT + self.parameters.get(name, name), width)
        if symbol is not None or name in self.module.functions:
            return atom(GLOBAL + name, width)
        raise Unfollowed(f"{name} is not followed", self._line)

    def _address(self, operand: str, space: str, matrix: bool = False) -> Term:
        """Return the address in brackets within its space, 64 bits wide; that in global memory if no window shows."""
        value = self._value(split(operand[1:-1])[0], 0)
        # An address in shared memory has 32 bits, whatever register it is in.
        address = rebased((value.narrowed(32) if space == "shared" else value).zext(64))
        if space == GENERIC:
            own = next(iter(address.windows()), None)
            address = address - own if own is not None else address
            # What reads matrices is in shared memory, and the assembler takes an address in it for a generic one.
            if bool(address.symbols) != (own is window("shared")) and not (matrix and own is None):
                raise Unfollowed("a generic address is not that of one array, nor of none", self._line)
        if any(leaf.is_atom(WINDOW) for leaf in address.leaves()):
            raise Unfollowed("an address is made from one of another space", self._line)
        return address

    def _guard(self, instruction: PtxInstruction) -> Term:
        predicate = self._value(instruction.guard, 1)
        return ~predicate if instruction.negated else predicate

    def _set(self, names: Sequence[str], values: Sequence[Term], guard: Term | None, is_signed: bool = False) -> None:
        for name, value in zip(names, values, strict=False):
            if (width := self.graph.registers.get(name)) is None:
                continue  # "_", which is dropped
            wide = value.sext(width) if is_signed and value.width < width else value.narrowed(width)
            kept = choose(guard, wide, self._value(name, width)) if guard is not None else wide
            self._state.registers[name] = kept

    # Instructions.

    _line: Location | None = None

    def _step(self, instruction: PtxInstruction) -> None:
        self._line = instruction.line or self._line
        parts, head = instruction.parts, instruction.parts[0]
        if head in (*ENDS, "pragma") or instruction.opcode.startswith("."):
            return
        if head == UNREAD:
            raise Unfollowed(f"{', '.join(instruction.operands)} is not read", self._line)
        if "cc" in parts or head in ("addc", "subc", "madc"):
            raise Unfollowed("a carry is not followed", self._line)
        guard = self._guard(instruction) if instruction.guard else None
        memory = any(operand.startswith("[") for operand in instruction.operands)
        if head == "cvta":
            self._set(instruction.operands, [self._converted(instruction)], guard)
        elif head in semantics.PURE and not memory:
            results = self._compared(instruction) or semantics.computed(
                instruction, lambda position, width: self._value(instruction.operands[position], width)
            )
            for argument in (argument for result in results if result.op == APPLY for argument in result.terms()):
                self._leak(argument, f"{instruction.opcode} computes with it")
            # cvt's first type is its result's; a narrower one is extended to the register.
            kind = next((part for part in parts if part in BITS), "") if head == "cvt" else instruction.type
            self._set(instruction.results(), results, guard, kind.startswith("s") and head != "setp")
        elif head in ("ld", "ldu", "st") and "async" not in parts:
            self._load_or_store(instruction, guard)
        elif head == EXTERNAL:
            self._external(instruction)
        else:
            self._effect(instruction, guard)

    def _compared(self, instruction: PtxInstruction) -> list[Term] | None:
        """Return the results of comparing two addresses of one array: of their offsets. Others let addresses escape."""
        if instruction.parts[0] != "setp" or not semantics.is_plain(instruction):
            return None
        width, kind = BITS[instruction.type], instruction.parts[1]
        one, other = (self._value(operand, width) for operand in instruction.operands[1:3])
        if not one.symbols and not other.symbols:
            return None
        null = kind in ("eq", "ne") and other is const(0, 64)
        base = common_base([one] if null else [one, other]) if width == 64 else None
        if base is None or (null and window("shared") not in base.atoms):
            self._leak(one, "it is compared")
            self._leak(other, "it is compared")
            return None
        offsets = [one - base, other if null else other - base]
        if null or kind not in ("eq", "ne"):  # sums that wrap are equal if what is added is equal
            self.compared += [(each, self._number, self._line) for each in offsets]
        # No address in the window of shared memory is null.
        return semantics.compared(kind, const(1, 64) if null else offsets[0], offsets[1], signed=True)

    def _converted(self, instruction: PtxInstruction) -> Term:
        """Return an address in another space. One of shared memory that is made from a number is marked."""
        value = self._value(instruction.operands[1], 64 if "u64" in instruction.parts else 32).zext(64)
        space = _space(instruction.parts)
        if space == "global":
            return value
        if "to" in instruction.parts:
            return value - window(space)
        return value + window(space) if value.symbols or space != "shared" else apply(NUMBER, 64, value)

    def _load_or_store(self, instruction: PtxInstruction, guard: Term | None) -> None:
        parts = instruction.parts
        if (width := BITS.get(instruction.type)) is None:
            raise Unfollowed(f"{instruction.opcode} is not followed", self._line)
        store, signed = parts[0] == "st", instruction.type.startswith("s")
        place, other = instruction.operands[:2] if store else instruction.operands[1::-1]
        address, names = self._address(place, _space(parts)), elements(other)
        total = len(names) * width // 8
        values = [self._value(name, width).narrowed(width) for name in names] if store else []
        if (slot := self._slot(address, total, instruction)) is not None:
            for n, name in enumerate(names):
                part = (slot[0], slot[1] + n * width // 8, width // 8)
                held = self._loaded(self._state, part) if guard is not None or not store else None
                if store:
                    chosen = values[n] if guard is None or held is None else choose(guard, values[n], held)
                    self._store(self._state, part, chosen)
                elif held is not None:
                    self._set([name], [held], guard, signed)
            return
        if not store and len(names) == 1 and (found := self._looked_up(address, total)) is not None:
            self._set(names, [found], guard, signed)
            return
        effect = Effect(instruction.opcode, [], values, guard, self._line)
        effect.memory = [MemoryFootprint(address, total, _space(parts), store, _alignment(total))]
        at = None if store or instruction.inline else self._repeated(effect)
        results = self._results(effect, [] if store else [width] * len(names), at)
        self._set(names, results, guard, signed)

    def _repeated(self, effect: Effect) -> int | None:
        """Return the position of the same load in this block, if only loads are between them.

        C++ has no race between the two, unless they are volatile; who writes asm may mean to see one.
        """
        before = self.effects[self._number]
        volatile = {"volatile", "relaxed", "acquire", "mmio"} & set(effect.opcode.split("."))
        for at in range(len(before) - 1, -1, -1) if not volatile and effect.guard is None else ():
            other = before[at]
            if not other.opcode.startswith("ld."):
                break
            same = other.opcode == effect.opcode and other.guard is None
            if same and other.memory[0].address is effect.memory[0].address:
                return at
        return None

    def _looked_up(self, address: Term, size: int) -> Term | None:
        """Return what a load finds in a table of constants: a choice by bits of the index; outside, anything."""
        tables = [leaf for leaf in address.atoms if leaf.is_atom(GLOBAL)]
        symbol = self.module.symbols.get(tables[0].name.removeprefix(GLOBAL)) if len(tables) == 1 else None
        if symbol is None or symbol.data is None or symbol.size > TABLE_BYTES or symbol.size % size:
            return None
        data, offset = symbol.data, address - tables[0]
        if tables[0] in offset.atoms:
            return None
        values = [const(int.from_bytes(data[at : at + size], "little"), 8 * size) for at in range(0, len(data), size)]
        outside = apply(f"table {symbol.name}", 8 * size, offset)
        bit = size.bit_length() - 1
        while len(values) > 1:
            pairs = itertools.zip_longest(values[::2], values[1::2], fillvalue=outside)
            values = [choose(offset.extract(bit, bit), high, low) for low, high in pairs]
            bit += 1
        self.tables.add(tables[0])
        inside = binary("ule", offset, const(len(data) - size, 64)) & (offset & const(size - 1, 64)).equals(
            const(0, 64)
        )
        return choose(inside, values[0], outside)

    def _check_tables(self) -> None:
        """Refuse tables that the kernel may write."""
        for effect in itertools.chain(*self.effects) if self.tables else ():
            terms = [*effect.values, *(memory.address for memory in effect.memory if memory.write)]
            if any(leaf in self.tables for term in terms for leaf in term.leaves()):
                raise Unfollowed("a table of constants may be written", effect.line)

    def _external(self, instruction: PtxInstruction) -> None:
        """Call what the module does not have, such as vprintf: it sees its arguments, and returns something."""
        operands, slots = instruction.operands, self._state.slots
        if operands[0] not in RUNTIME:
            for symbol in (symbol for symbol in self.module.shared() if symbol.size == 0):
                reason = f"{operands[0]} is compiled elsewhere, and may access it"
                self._escape(atom(SHARED + self.names[symbol.name], 32), reason)
        at = operands.index("|")
        passed = [slots[name][part] for name in operands[at + 1 :] for part in sorted(slots.get(name, ()))]
        if operands[0] == "__assertfail":  # only what it prints depends on them
            self.messages[self._number, len(self.effects[self._number])] = passed
            for value in passed:
                self._leak(value, "an assertion prints it")
            passed = []
        returned = operands[1:at]
        words = self._results(Effect(f"call {operands[0]}", [], passed, None, self._line), [32] * 4 * len(returned))
        for n, name in enumerate(returned):
            slots[name] = {(4 * k, 4): words[4 * n + k] for k in range(4)}

    def _effect(self, instruction: PtxInstruction, guard: Term | None) -> None:
        effect = Effect(instruction.opcode, [], [], guard, self._line)
        results = instruction.results()
        head, operands = instruction.parts[0], instruction.operands
        for position, operand in enumerate(operands):
            if operand.startswith("["):
                effect.memory.append(self._accessed(instruction, operand, len(effect.memory)))
                effect.values += [
                    self._value(element, 0) for part in split(operand[1:-1])[1:] for element in elements(part)
                ]
            elif position == 0 and results and head != "wgmma":
                continue
            elif effect.memory and effect.memory[0].stride is not None and position == len(operands) - 1:
                continue  # wmma's stride is in its addresses
            else:
                effect.values += [self._value(element, 0) for element in elements(operand) if element != "_"]
        names = results
        if head == "wgmma":
            names = [name for operand in operands if operand.startswith("{") for name in elements(operand)]
        self._set(names, self._results(effect, [self.graph.registers.get(name, 32) for name in names]), guard)

    def _accessed(self, instruction: PtxInstruction, operand: str, position: int) -> MemoryFootprint:
        """Return what an operand in brackets accesses; `position` counts such operands."""
        parts, head, operands = instruction.parts, instruction.parts[0], instruction.operands
        spaces = [name for part in parts if (name := part.partition("::")[0]) in SPACES] or [GENERIC]
        space = spaces[min(position, len(spaces) - 1)] if head == "cp" else spaces[0]
        # A barrier that counts what an asynchronous copy has moved is the last operand in brackets.
        last = next(each for each in reversed(operands) if each.startswith("["))
        counts = operand is last and any(part.startswith("mbarrier::") for part in parts)
        space = "shared" if counts and "shared" in spaces else space
        # What has coordinates is a tensor map, at a generic address.
        described = len(split(operand[1:-1])) > 1
        address = self._address(operand, GENERIC if described else space, head in ("ldmatrix", "stmatrix"))
        self._lose([address])
        write = head not in ("ldmatrix", "prefetch", "prefetchu", "applypriority") and parts[:2] != ["wmma", "load"]
        width: int | None = None
        if counts or "mbarrier" in parts:
            width = 8
        elif head in ("atom", "red", "st") and instruction.type:
            count = next((int(part[1:]) for part in parts if part in ("v2", "v4", "v8")), 1)
            width = BITS[instruction.type] * count // 8
        elif head in ("ldmatrix", "stmatrix"):
            width = 16 if "m8n8" in parts and instruction.type == "b16" else None
        elif head == "wmma" and (tile := _tile(parts)) is not None and not operands[-1].startswith(("[", "{")):
            lines, length, bits = tile
            stride = self._value(operands[-1], 32).sext(64).scaled(bits // 8)
            return MemoryFootprint(address, length * bits // 8, space, write, 32, lines, stride)
        elif (box := self._box(instruction)) and space == "shared":
            return MemoryFootprint(address, CHUNK, space, position == 0, CHUNK, tile=box)
        elif head == "cp":
            write = position != 1
            size = self._value(operands[2], 32) if "tensor" not in parts and len(operands) > 2 else None
            if size is not None and size.is_const and not any(part.startswith("multicast") for part in parts):
                width = size.value
        return MemoryFootprint(address, width, space, write, 16 if "bulk" in parts else _alignment(width))

    def _box(self, instruction: PtxInstruction) -> TensorMap | None:
        """Return the tensor map of a copy of one box; None if it is not known, or the copy is of another kind."""
        parts = instruction.parts
        others = ("multicast", "im2col", "tile::", "cta_group")
        if parts[:4] != ["cp", "async", "bulk", "tensor"] or any(part.startswith(others) for part in parts):
            return None
        places = [split(operand[1:-1]) for operand in instruction.operands if operand.startswith("[")]
        named = next((place[0] for place in places if len(place) > 1), "")  # with coordinates
        tile = self.maps.get(self._address(f"[{named}]", GENERIC)) if named else None
        return tile if tile and tile.is_whole else None

    def _results(self, effect: Effect, widths: Sequence[int], at: int | None = None) -> list[Term]:
        """Add an effect, and return its results: unknowns named after its place, the same in both versions.

        With a place, return the results of the effect that stands there already.
        """
        effects = self.effects[self._number]
        if at is None:
            reason = f"it is a value of {effect.opcode}"
            for value in effect.values:
                self._leak(value, DESCRIBED if effect.opcode.startswith(("wgmma", "tcgen05")) else reason)
            effects.append(effect)
            at = len(effects) - 1
        return [atom(f"ld:{self._number}.{at}.{n}", width) for n, width in enumerate(widths)]

    def _leak(self, value: Term, reason: str) -> None:
        """Note which shared arrays' addresses a value has."""
        seen = value.leaves()
        symbols = {symbol for leaf in seen for symbol in leaf.symbols}
        if window("shared") in seen and not symbols:  # which could come back in an address
            raise Unfollowed("where shared memory begins is a value", self._line)
        if any(leaf.op == APPLY and leaf.name == NUMBER for leaf in seen):
            raise Unfollowed(FROM_NUMBER, self._line)
        for symbol in symbols:
            self._escape(symbol, reason)
        self._lose([value])

    def _escape(self, symbol: Term, reason: str) -> None:
        self.escapes.setdefault(symbol, (reason, self._line))


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
