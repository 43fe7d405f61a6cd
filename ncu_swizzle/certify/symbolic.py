"""One version of a kernel, run on symbols: the terms of its conditions, effects and addresses, block by block.

Each block is run once. Where paths join, a value on which they differ is a *phi*: an atom, with what comes in along
each edge. A loop's header has phis for what its body changes; which those are is found by running until nothing changes
(optimistic value numbering: at the fixed point, what is no phi has the same value along every edge).

Local memory at constant offsets is variables, too: parameters of calls, and what a compiler spills that does not
optimise. Offsets that loops with constant bounds step through are enumerated; what else is accessed in an object is
memory.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from ncu_swizzle.certify import semantics
from ncu_swizzle.certify.graph import EXTERNAL, Graph
from ncu_swizzle.certify.ptx import BITS, SPACES, Instruction, Module, Unfollowed, elements, split
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
    concat,
    const,
    equal,
    extract,
    leaves,
    mul,
    scale,
    sext,
    signed,
    substituted,
    zext,
)  # fmt: skip
from ncu_swizzle.certify.verdict import Location

Slot = tuple[str, int, int]  # an object, and the offset and size of a part of it in bytes
Key = str | Slot
Shape = tuple[int, int, int]

PASSES = 60
MOST_ITERATIONS = 1_024  # of a loop that is stepped through
MOST_OFFSETS = 5_000  # of one access to local memory
GENERIC = "generic"
DESCRIBED = "the layout is in a descriptor"
TABLE_BYTES = 4_096

# Special registers. What a block or the launch decides is the same in both versions; what time or the place of a block
# decides is read anew by each instruction; sizes of shared memory may differ between the versions.
_SPECIAL = re.compile(r"%(tid|ntid|ctaid|nctaid)\.([xyz])")
_SIZES = ("%total_smem_size", "%aggr_smem_size", "%dynamic_smem_size", "%reserved_smem")
_FIXED = (
    *_SIZES,
    "%laneid",
    "%lanemask",
    "%cluster",
    "%nclusterid",
    "%is_explicit_cluster",
    "%nwarpid",
    "%nsmid",
    "%gridid",
)


@dataclass(eq=False, slots=True)
class Memory:
    """What an effect accesses from an address on; `width` is in bytes, None if it is not known here."""

    address: Term
    width: int | None
    space: str
    write: bool
    align: int = 1  # bytes that its address has to be a multiple of
    reaches: int = 1  # accesses of that width, `stride` bytes apart
    stride: Term | None = None


@dataclass(eq=False, slots=True)
class Effect:
    """What others can notice: an access to memory, a barrier, a call. Both versions have the same ones in one order."""

    opcode: str
    memory: list[Memory]
    values: list[Term]
    guard: Term | None
    line: Location | None


@dataclass(eq=False, slots=True)
class Phi:
    """A value that depends on the edge along which its block was entered; with a base, it is the offset from that."""

    block: int
    key: Key
    label: str
    value: Term
    base: Term | None
    incoming: list[tuple[int, Term]] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class State:
    """Registers and local memory at one point."""

    registers: dict[str, Term] = field(default_factory=dict)
    slots: dict[str, dict[tuple[int, int], Term]] = field(default_factory=dict)

    def copy(self) -> State:
        """Return a copy. What an object holds is shared: a store replaces it."""
        return State(dict(self.registers), dict(self.slots))

    def kept(self, live: Set[str]) -> State:
        """Return a copy with the registers that are live alone."""
        return State({name: self.registers[name] for name in live if name in self.registers}, dict(self.slots))

    def parts(self) -> set[Slot]:
        return {(name, *part) for name, slots in self.slots.items() for part in slots}


@dataclass(eq=False, slots=True)
class Lookup:
    """A load from a table of constants: where, at which offset, and the last offset that the table has."""

    block: int
    table: str
    offset: Term
    last: int
    size: int


@dataclass(eq=False, slots=True)
class Escape:
    """A shared address that becomes more than an address of an access."""

    reason: str
    line: Location | None


class Run:
    """A version of a kernel, run. `split` names the phis, by block and label, that are this version's own.

    `resized`: the versions have other amounts of shared memory.

    `names` are those of shared arrays in the old version, by the name here.
    """

    def __init__(
        self, graph: Graph, module: Module, kernel: str, block: Shape | None, version: str, names: Mapping[str, str]
    ) -> None:
        self.graph, self.module, self.block, self.version = graph, module, block, version
        self.parameters = {name: f"parameter {n}" for n, name in enumerate(module.functions[kernel].parameters)}
        self.split: set[tuple[int, str]] = set()
        self.resized = False
        self.check: Callable[[], None] = lambda: None  # called again and again: raises if it has taken too long
        shared = [symbol.name for symbol in module.shared()]
        extern = [symbol.name for symbol in module.shared() if symbol.size == 0]
        # All arrays without a size are one: they begin at the same address.
        self.names = {name: names[extern[0] if name in extern else name] for name in shared}
        self._live = graph.live()
        self.loops = {number: body for number in range(len(graph.blocks)) if (body := graph.loop(number))}
        self._carried: set[tuple[int, Key]] = {
            (header, name)
            for header, body in self.loops.items()
            for name in self._live[header] & graph.written_in(body)
        }
        self._writers: dict[str, list[int]] = {}
        for number, each in enumerate(graph.blocks):
            for name in {name for instruction in each.instructions for name in instruction.results()}:
                self._writers.setdefault(name, []).append(number)
        self._definitions = Counter(
            name for block in graph.blocks for instruction in block.instructions for name in instruction.results()
        )
        self._baseless: set[tuple[int, Key]] = set()
        self._around: dict[tuple[int, Key], Term] = {}  # bases of what is only set within a loop
        self._dynamic: dict[str, list[tuple[int, int]]] = {}  # parts of local objects that are memory
        self._memory: set[str] = set()  # local objects that are memory as a whole
        self._changed = False

    def run(self) -> None:
        """Run until nothing changes. Raises Unfollowed."""
        for _ in range(PASSES):
            self._changed = False
            self._pass()
            self._close_loops()
            # What points where, and how far, is only known once the loops are.
            for last in (self._resolve_offsets, self._give_up):
                if not self._changed:
                    last()
            if not self._changed:
                self._check_tables()
                return
        raise Unfollowed("its loops carry too many values")

    # One pass over all blocks.

    def _pass(self) -> None:
        count = len(self.graph.blocks)
        self.reached = [False] * count
        self.reached[0] = True
        self.dead: set[tuple[int, int]] = set()  # edges that are never taken
        self.conditions: list[Term | None] = [None] * count
        self.effects: list[list[Effect]] = [[] for _ in range(count)]
        self.phis: dict[Term, Phi] = {}
        self.escapes: dict[Term, list[Escape]] = {}
        self.lookups: list[Lookup] = []
        self._entry: list[State] = [State() for _ in range(count)]
        self._exit: list[State | None] = [None] * count
        self._keys: dict[tuple[int, Key], Phi] = {}
        self._offsets: list[tuple[str, Term, int, int]] = []
        self._lost: set[str] = set()  # objects to which something may point that does not show it
        self._count: dict[tuple[int, str, str], int] = {}  # phis of registers, by block, path and kind
        for number in range(count):
            if self.reached[number]:
                self.check()
                self._run_block(number)

    def _run_block(self, number: int) -> None:
        block = self.graph.blocks[number]
        sources = [n for n in block.predecessors if n < number and self._exit[n] and (n, number) not in self.dead]
        self._number = number
        self._state = self._joined(number, sources)
        self._entry[number] = self._state.copy()
        for instruction in block.instructions:
            self._step(instruction)
        self._exit[number] = self._state
        self._branch(number)

    def _branch(self, number: int) -> None:
        """Note the condition of a block's branch, and which edges it never takes."""
        block = self.graph.blocks[number]
        last = block.instructions[-1] if block.instructions else None
        taken = block.successors
        condition: Term | None = None
        if last is not None and last.opcode == "brx":
            condition = self._value(last.operands[0], 32)
            if condition.is_const and condition.value < len(taken):
                taken = [taken[condition.value]]
        elif last is not None and last.guard and last.opcode in ("bra", "ret", "exit", "trap"):
            condition = self._guard(last)
            if condition.is_const and last.opcode == "bra":
                taken = [taken[0] if condition.value else taken[-1]]
            elif condition.is_const:  # it leaves, or goes on
                taken = [] if condition.value else taken
        if condition is not None and not condition.is_const:
            self.conditions[number] = condition
        for successor in block.successors:
            if successor in taken:
                self.reached[successor] = True
            else:
                self.dead.add((number, successor))

    def _joined(self, number: int, sources: Sequence[int]) -> State:
        """Return the state at a block's start: what its predecessors agree on, and phis."""
        states = [state for n in sources if (state := self._exit[n]) is not None]
        header = number in self.loops
        if not states:
            return State()
        if len(states) == 1 and not header:
            return states[0].kept(self._live[number])
        state = State()
        for name in sorted(self._live[number], key=_register_order):
            values = [each.registers.get(name) for each in states]
            if all(value is None for value in values) and (number, name) not in self._carried:
                continue
            state.registers[name] = self._merged(number, name, sources, values)
        slots = set().union(*(each.parts() for each in states))
        slots |= {key for at, key in self._carried if at == number and not isinstance(key, str)}
        for key in sorted(slots, key=lambda slot: (slot[0], -slot[2], slot[1])):
            held = [self._loaded(each, key) for each in states]
            self._store(state, key, self._merged(number, key, sources, held))
        return state

    def _merged(self, number: int, key: Key, sources: Sequence[int], values: Sequence[Term | None]) -> Term:
        """Return the value on which some paths agree, or a phi. None is one that a path does not set."""
        if (number, key) not in self._carried and values[0] is not None and all(value is values[0] for value in values):
            return values[0]
        label = self._label(number, key)
        # What is not set has any value: the same one in both versions, and an address within what the others point to.
        known = [value if value is not None else self._unset(number, label, key) for value in values]
        base = None
        if (number, key) not in self._baseless:
            set_ = [each for each in known if not self._is_unset(each)]
            base = _common_base(set_) if set_ else self._around.get((number, key))
        if base is None:
            self._lose(known)
        mark = f":{self.version}" if (number, label) in self.split else ""
        phi = Phi(number, key, label, atom(f"phi:{number}:{label}{mark}", known[0].width), base)
        offsets = [value - base if base is not None and not self._is_unset(value) else value for value in known]
        phi.incoming = list(zip(sources, offsets, strict=True))
        self.phis[phi.value] = self._keys[number, key] = phi
        return base + phi.value if base is not None else phi.value

    def _label(self, number: int, key: Key) -> str:
        """Return a name for a block's phi that is the same in both versions.

        Registers have other numbers where code was added: what counts is which of the block's phis of its kind it is.
        """
        if not isinstance(key, str):
            return f"{key[0]}+{key[1]}.{key[2]}"
        path, kind, _ = _register_order(key)
        kind += "" if self._definitions[key] > 1 else "once"
        self._count[number, path, kind] = which = self._count.get((number, path, kind), 0) + 1
        return f"{path}{kind}{which}"

    def _unset(self, number: int, label: str, key: Key) -> Term:
        width = self.graph.registers[key] if isinstance(key, str) else 8 * key[2]
        return atom(f"undef:{number}:{label}", width)

    def _close_loops(self) -> None:
        """Enter what comes around the loops; a value that changes and was no phi is one in the next pass."""
        for header in self.loops:
            for source in self.graph.blocks[header].predecessors:
                state = self._exit[source]
                if source < header or state is None or (source, header) in self.dead or not self.reached[source]:
                    continue
                for slot in state.parts():
                    old, new = self._loaded(self._entry[header], slot), self._loaded(state, slot)
                    if (header, slot) not in self._keys and old is not new:
                        self._carried.add((header, slot))
                        self._changed = True
                for (at, key), phi in self._keys.items():
                    if at == header:
                        self._enter(phi, key, source, state)

    def _enter(self, phi: Phi, key: Key, source: int, state: State) -> None:
        if isinstance(key, str):
            value = state.registers.get(key)
            value = value if value is not None else self._unset(phi.block, phi.label, key)
        else:
            value = self._loaded(state, key)
        if phi.base is None:
            base = _common_base([value])
            if self._is_unset(phi.value) and not self._is_unset(value):
                if base is not None:
                    self._around[phi.block, key] = base
                else:
                    self._baseless.add((phi.block, key))
                self._changed = True
            else:
                self._lose([value])
        elif not self._is_unset(value):
            if _common_base([value]) is not phi.base:
                self._baseless.add((phi.block, key))
                self._changed = True
                return
            value = value - phi.base
        phi.incoming.append((source, value))

    def _is_unset(self, value: Term) -> bool:
        """Return whether a value was never set, or will only be known once its loop is: it may be based on anything."""
        seen, waiting = {value}, [value]
        while waiting:
            each = waiting.pop()
            phi = self.phis.get(each)
            if phi is not None and phi.base is None and (phi.block, phi.key) not in self._baseless:
                fresh = [incoming for _, incoming in phi.incoming if incoming not in seen]
                seen.update(fresh)
                waiting += fresh
            elif each.op != ATOM or not each.name.startswith("undef:"):
                return False
        return True

    def _lose(self, values: Sequence[Term]) -> None:
        """Treat as memory what a phi without a base may point to: accesses through it do not show that."""
        for value in values:
            for leaf in leaves(value):
                if leaf.op == ATOM and leaf.name.startswith(OBJECT):
                    self._lost.add(leaf.name.removeprefix(OBJECT))

    def _give_up(self) -> None:
        for name in self._lost:
            self._make_memory(name)

    def _undefined(self, name: str) -> Term:
        """Return the value of a register that nothing on the way here has set: any, and the same in both versions."""
        if any(self.graph.dominates(at, self._number) and at != self._number for at in self._writers.get(name, ())):
            raise AssertionError(f"{name} was set, and is lost")
        return atom(f"undef:{name}", self.graph.registers[name])

    # Local objects.

    def _loaded(self, state: State, slot: Slot) -> Term:
        """Return what a part of an object holds, assembled from what was stored there."""
        name, offset, size = slot
        slots = state.slots.get(name, {})
        if (known := slots.get((offset, size))) is not None:
            return known
        if not any(start < offset + size and offset < start + length for start, length in slots):
            return self._initial(name, offset, 8 * size)
        parts: list[Term] = []
        for byte in range(offset, offset + size):
            within = next((part for part in slots if part[0] <= byte < sum(part)), None)
            if within is None:
                parts.append(self._initial(name, byte, 8))
            else:
                at = 8 * (byte - within[0])
                parts.append(extract(slots[within], at + 7, at))
        result = parts[0]
        for part in parts[1:]:
            result = concat(part, result)
        return result

    def _initial(self, name: str, offset: int, width: int) -> Term:
        kind = "param" if name in self.parameters.values() else "undef"
        return atom(f"{kind}:{name}+{offset}.{width // 8}", width)

    @staticmethod
    def _store(state: State, slot: Slot, value: Term) -> None:
        name, offset, size = slot
        slots = state.slots[name] = dict(state.slots.get(name, {}))
        for start, length in list(slots):
            if start < offset + size and offset < start + length and (start, length) != (offset, size):
                old = slots.pop((start, length))
                for byte in range(length):  # what remains of it
                    if not offset <= start + byte < offset + size:
                        slots[start + byte, 1] = extract(old, 8 * byte + 7, 8 * byte)
        slots[offset, size] = value

    def _slot(self, address: Term, size: int) -> Slot | None:
        """Return the part of a local object that an address means, if that is a variable."""
        objects = [leaf for leaf in address.atoms if leaf.op == ATOM and leaf.name.startswith(OBJECT)]
        if not objects:
            return None
        name = objects[0].name.removeprefix(OBJECT)
        rest = address - objects[0] if len(objects) == 1 else address
        if len(objects) > 1 or objects[0] in rest.atoms:
            for each in objects:
                self._make_memory(each.name.removeprefix(OBJECT))
        elif not rest.is_const:
            self._offsets.append((name, rest, size, self._number))
        else:
            offset = signed(rest.value, rest.width)
            return None if self._is_memory(name, offset, size) else (name, offset, size)
        return None

    def _is_memory(self, name: str, offset: int, size: int) -> bool:
        if name in self._memory:
            return True
        for n, (low, high) in enumerate(self._dynamic.get(name, ())):
            if offset < high and low < offset + size:
                if not low <= offset <= offset + size <= high:
                    self._dynamic[name][n] = (min(low, offset), max(high, offset + size))
                    self._changed = True
                return True
        return False

    def _make_memory(self, name: str) -> None:
        if name not in self._memory:
            self._memory.add(name)
            self._changed = True

    def _resolve_offsets(self) -> None:
        """Find which parts of local objects are accessed at offsets that are no constants."""
        states: dict[int, dict[Term, list[Term]]] = {}
        for name, offset, size, number in self._offsets:
            if name in self._memory:
                continue
            values = [self._stepped(leaf, number, states) for leaf in offset.atoms]
            count = 1
            for found in values:
                count *= len(found)
            if count == 0 or count > MOST_OFFSETS:
                self._make_memory(name)
                continue
            offsets = []
            for combination in itertools.product(*values):
                meant = dict(zip(offset.atoms, combination, strict=True))
                offsets += substituted(meant, [offset])
            if not all(each.is_const for each in offsets):
                self._make_memory(name)
                continue
            numbers = [signed(each.value, each.width) for each in offsets]
            self._reserve(name, min(numbers), max(numbers) + size)

    def _reserve(self, name: str, low: int, high: int) -> None:
        parts = self._dynamic.setdefault(name, [])
        for n, (start, end) in enumerate(parts):
            if low <= end and start <= high:
                wide = (min(low, start), max(high, end))
                if wide != parts[n]:
                    parts[n] = wide
                    self._changed = True
                return
        parts.append((low, high))
        self._changed = True

    def _stepped(self, leaf: Term, number: int, states: dict[int, dict[Term, list[Term]]]) -> list[Term]:
        """Return the values that a loop's variable takes where a block reads it; none if they are not known."""
        phi = self.phis.get(leaf)
        if phi is None or phi.block not in self.loops:
            return []
        header = phi.block
        if header not in states:
            states[header] = self.iterations(header)
        values = states[header].get(leaf, [])
        body = self.loops[header]
        # Its value at the exit is not one of the body's, if the loop is left where it begins.
        inside = number in body and number != header and self._leaves_at_header(header)
        return values[:-1] if inside else values

    def _leaves_at_header(self, header: int) -> bool:
        body = self.loops[header]
        return all(
            number == header or set(self.graph.blocks[number].successors) <= body
            for number in body
            if self.reached[number]
        )

    def iterations(self, header: int) -> dict[Term, list[Term]]:
        """Return the values of a loop's variables at its header, turn by turn; none unless constants decide its end."""
        body = self.loops.get(header, set())
        back = [n for n in self.graph.blocks[header].predecessors if n in body and self.reached[n]]
        if len(back) != 1:
            return {}
        phis = [phi for phi in self.phis.values() if phi.block == header]
        value: dict[Term, Term] = {}
        following: dict[Term, Term] = {}
        for phi in phis:
            first = {term for source, term in phi.incoming if source not in body}
            again = [term for source, term in phi.incoming if source in body]
            if len(first) == 1 and again and (start := next(iter(first))).is_const:
                value[phi.value], following[phi.value] = start, again[0]
        while lost := [leaf for leaf in value if not following[leaf].atoms <= value.keys()]:
            for leaf in lost:
                del value[leaf], following[leaf]
        exits = [
            (number, condition)
            for number in body
            if (condition := self.conditions[number]) is not None
            and condition.atoms
            and condition.atoms <= value.keys()
            and not set(self.graph.blocks[number].successors) <= body
            and self.graph.dominates(number, back[0])
            and self.graph.blocks[number].instructions[-1].opcode == "bra"
        ]
        seen = {leaf: [start] for leaf, start in value.items()}
        for _ in range(MOST_ITERATIONS if exits else 0):
            for number, condition in exits:
                [holds] = substituted(value, [condition])
                if holds.is_const and self.graph.blocks[number].successors[0 if holds.value else -1] not in body:
                    return seen
            value = dict(zip(value, substituted(value, [following[leaf] for leaf in value]), strict=True))
            for leaf, term in value.items():
                seen[leaf].append(term)
        return {}

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
        bases = [_common_base([term]) for term in (one, other)]
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
        if _common_base([value]) is not None:
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
        if (slot := self._slot(address, count * width // 8)) is not None:
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


def _register_order(name: str) -> tuple[str, str, int]:
    """Return a register's path, kind and number."""
    path, mark, own = name.rpartition("~")
    digits = re.search(r"(?<!\d)(\d++)(#\d++)?$", own)
    return path + mark, own[: digits.start()] if digits else own, int(digits[1]) if digits else 0


NUMBER = "shared address from a number"


def _alignment(width: int | None) -> int:
    """Return what an access of some bytes has to be aligned to."""
    return min(width, 16) if width and width & (width - 1) == 0 else 1


def _space(parts: Sequence[str]) -> str:
    return next((name for part in parts if (name := part.partition("::")[0]) in SPACES), GENERIC)


def _common_base(values: Sequence[Term]) -> Term | None:
    """Return the one address of an array, or of a local object, that all values are a sum of; None if there is none."""
    bases: set[Term | None] = set()
    for value in values:
        found = [
            part
            for part, factor in value.coefficients()
            if factor == 1 and (part.symbols or (part.op == ATOM and part.name.startswith(OBJECT)))
        ]
        plain = len(found) == 1 and (found[0].op == ATOM or (found[0].op == "zext" and len(found[0].symbols) == 1))
        bases.add(found[0] if plain and not (value - found[0]).symbols else None)
    return bases.pop() if len(bases) == 1 else None


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
