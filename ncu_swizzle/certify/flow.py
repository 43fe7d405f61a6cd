"""The control flow of one version of a kernel, run on symbols: blocks, where paths join, loops, and local memory.

Each block is run once. Where paths join, a value on which they differ is a *phi*: an atom, with what comes in along
each edge. A loop's header has phis for what its body changes; which those are is found by running until nothing changes
(optimistic value numbering: at the fixed point, what is no phi has the same value along every edge).

Local memory at constant offsets is variables, too: parameters of calls, and what a compiler spills that does not
optimise. Offsets that loops with constant bounds step through are enumerated; what else is accessed in an object is
memory. An object keeps its contents when its function returns, as it may: nothing accesses them before they are set.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from ncu_swizzle.certify.graph import ENDS, Graph
from ncu_swizzle.certify.ptx import Module, PtxInstruction, Unfollowed
from ncu_swizzle.certify.terms import OBJECT, SHARED, Term, atom, binary, const, joined, signed, substituted
from ncu_swizzle.certify.verdict import Location

Slot = tuple[str, int, int]  # an object, and the offset and size of a part of it in bytes
Key = str | Slot
Shape = tuple[int, int, int]

PASSES = 60
CHUNK = 16  # bytes that TMA moves together, whatever the swizzle
MOST_ITERATIONS = 1_024  # of a loop that is stepped through
MOST_OFFSETS = 5_000  # of one access to local memory


@dataclass(frozen=True, slots=True)
class TensorMap:
    """What a tensor map says of shared memory: bytes of a box and of its rows, and the swizzle's span, 0 for none."""

    box: int
    row: int
    swizzle: int

    @property
    def period(self) -> int:
        """Bytes after which the swizzle repeats: it XORs bits of an address from 4 on with those from 7 on."""
        return 8 * self.swizzle or CHUNK

    @property
    def is_whole(self) -> bool:
        """Return whether the chunks of boxes are contiguous, apart from the swizzle."""
        return self.row % CHUNK == 0 and self.swizzle in (0, self.row)

    def placed(self, offset: Term) -> Term:
        """Return where a byte of a box is, by its offset in shared memory without a swizzle."""
        field = binary("lshr", offset, const(3, offset.width)) & const(max(self.swizzle, CHUNK) - CHUNK, offset.width)
        return offset ^ field


Maps = tuple[tuple[int, TensorMap], ...]  # by parameter's number


@dataclass(eq=False, slots=True)
class MemoryFootprint:
    """What an effect accesses from an address on; `width` is in bytes, None if it is not known here.

    With a `tile`, those are the chunks of a box that TMA moves.
    """

    address: Term
    width: int | None
    space: str
    write: bool
    align: int = 1  # bytes that its address has to be a multiple of
    reaches: int = 1  # accesses of that width, `stride` bytes apart
    stride: Term | None = None
    tile: TensorMap | None = None


@dataclass(eq=False, slots=True)
class Effect:
    """What others can notice: an access to memory, a barrier, a call. Both versions have the same ones in one order."""

    opcode: str
    memory: list[MemoryFootprint]
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
class FlowState:
    """Registers and local memory at one point."""

    registers: dict[str, Term] = field(default_factory=dict)
    slots: dict[str, dict[tuple[int, int], Term]] = field(default_factory=dict)

    def kept(self, live: Set[str]) -> FlowState:
        """Return a copy with the registers that are live. What an object holds is shared: a store replaces it."""
        return FlowState({name: self.registers[name] for name in live if name in self.registers}, dict(self.slots))

    def parts(self) -> set[Slot]:
        return {(name, *part) for name, slots in self.slots.items() for part in slots}


class SymbolicFlow:
    """A version of a kernel, run. `split` names the phis, by block and label, that are this version's own.

    `names` are those of shared arrays in the old version, by the name here. `maps` are the tensor maps among the
    kernel's parameters.
    """

    # What instructions do, and their predicates: `symbolic`.
    _step: Callable[[PtxInstruction], None]
    _guard: Callable[[PtxInstruction], Term]

    def __init__(
        self,
        graph: Graph,
        module: Module,
        kernel: str,
        block: Shape | None,
        version: str,
        names: Mapping[str, str],
        maps: Maps = (),
    ) -> None:
        self.graph, self.module, self.block, self.version = graph, module, block, version
        self.parameters = {name: f"parameter {n}" for n, name in enumerate(module.functions[kernel].parameters)}
        self.maps = {atom(f"{OBJECT}parameter {n}", 64): tile for n, tile in maps}
        self.split: set[tuple[int, str]] = set()
        self.resized = False  # whether the versions have other amounts of shared memory
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
        self._definitions = Counter(
            name for block in graph.blocks for instruction in block.instructions for name in instruction.results()
        )
        self._bases: dict[tuple[int, Key], Term | None] = {}  # of phis, if what enters first does not tell
        self._opaque: dict[str, set[int]] = {}  # bytes of local objects that are memory
        self._memory: set[str] = set()  # local objects that are memory as a whole
        self._changed = False

    def run(self) -> None:
        """Run until nothing changes. Raises Unfollowed."""
        for _ in range(PASSES):
            self._changed = False
            self._pass()
            self._close_loops()
            # What points where, and how far, is only known once the loops are.
            if not self._changed:
                self._resolve_offsets()
            if not self._changed:
                self._make_memory(self._lost)
            if not self._changed:
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
        # Shared addresses that become more than addresses of accesses: why, and where.
        self.escapes: dict[Term, tuple[str, Location | None]] = {}
        # Offsets of addresses that are compared, which must not wrap around: in which block, and where.
        self.compared: list[tuple[Term, int, Location | None]] = []
        self._entry: list[FlowState] = [FlowState() for _ in range(count)]
        self._exit: list[FlowState | None] = [None] * count
        self._keys: dict[tuple[int, Key], Phi] = {}
        self._offsets: list[tuple[str, Term, int, int]] = []
        self._lost: set[str] = set()  # objects to which something may point that does not show it
        self._count: Counter[tuple[int, str, str]] = Counter()  # phis of registers, by block, path and kind
        self._turns: dict[int, dict[Term, list[Term]]] = {}  # values of loops' variables, by header
        for number in range(count):
            if self.reached[number]:
                self.check()
                self._run_block(number)

    def _run_block(self, number: int) -> None:
        block = self.graph.blocks[number]
        sources = [n for n in block.predecessors if n < number and self._exit[n] and (n, number) not in self.dead]
        self._number = number
        self._state = self._joined(number, sources)
        self._entry[number] = self._state.kept(self._live[number])
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
        if last is not None and last.guard and last.opcode in ENDS:
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

    # Where paths join.

    def _joined(self, number: int, sources: Sequence[int]) -> FlowState:
        """Return the state at a block's start: what its predecessors agree on, and phis."""
        live = self._live[number]
        states = [state.kept(live) for n in sources if (state := self._exit[n]) is not None]
        if not states or (len(states) == 1 and number not in self.loops):
            return states[0] if states else FlowState()
        carried = {key for at, key in self._carried if at == number}
        state = FlowState()
        for name in sorted(live, key=lambda name: (_register_order(name), name)):
            values = [each.registers.get(name) for each in states]
            if name in carried or any(value is not None for value in values):
                state.registers[name] = self._merged(number, name, sources, values, name in carried)
        slots = set().union(*(each.parts() for each in states), (key for key in carried if not isinstance(key, str)))
        for key in sorted(slots, key=lambda slot: (slot[0], -slot[2], slot[1])):
            held = [self._loaded(each, key) for each in states]
            self._store(state, key, self._merged(number, key, sources, held, key in carried))
        return state

    def _merged(
        self, number: int, key: Key, sources: Sequence[int], values: Sequence[Term | None], carried: bool
    ) -> Term:
        """Return the value on which some paths agree, or a phi. None is one that a path does not set."""
        if not carried and values[0] is not None and all(value is values[0] for value in values):
            return values[0]
        label = self._label(number, key)
        # What is not set has any value: the same one in both versions, and an address within what the others point to.
        incoming = [value if value is not None else self._unset(number, label, key) for value in values]
        set_ = [each for each in incoming if not self._is_unset(each)]
        base = common_base(set_) if set_ else self._bases.get((number, key))
        base = None if self._bases.get((number, key), base) is None else base
        if base is None:
            self._lose(incoming)
        mark = f":{self.version}" if (number, label) in self.split else ""
        phi = Phi(number, key, label, atom(f"phi:{number}:{label}{mark}", incoming[0].width), base)
        offsets = [value - base if base is not None and not self._is_unset(value) else value for value in incoming]
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
        self._count[number, path, kind] += 1
        return f"{path}{kind}{self._count[number, path, kind]}"

    def _unset(self, number: int, label: str, key: Key) -> Term:
        width = self.graph.registers[key] if isinstance(key, str) else 8 * key[2]
        return atom(f"undef:{number}:{label}", width)

    def _close_loops(self) -> None:
        """Enter the values from back edges; a value that changes and was not a phi is one in the next pass."""
        for header in self.loops:
            for source in self.graph.blocks[header].predecessors:
                state = self._exit[source]
                if source < header or state is None or (source, header) in self.dead or not self.reached[source]:
                    continue
                for slot in sorted(state.parts()):
                    old, new = self._loaded(self._entry[header], slot), self._loaded(state, slot)
                    if (header, slot) not in self._keys and old is not new:
                        self._carried.add((header, slot))
                        self._changed = True
                for (at, _), phi in self._keys.items():
                    if at == header:
                        self._enter(phi, source, state)

    def _enter(self, phi: Phi, source: int, state: FlowState) -> None:
        at = phi.block, phi.key
        value = state.registers.get(phi.key) if isinstance(phi.key, str) else self._loaded(state, phi.key)
        value = value if value is not None else self._unset(phi.block, phi.label, phi.key)
        if not self._is_unset(value):
            base = common_base([value])
            if phi.base is None and self._is_unset(phi.value):
                self._bases[at], self._changed = base, True
            elif phi.base is None:
                self._lose([value])
            elif base is phi.base:
                value = value - base
            else:
                self._bases[at], self._changed = None, True
        phi.incoming.append((source, value))

    def _is_unset(self, value: Term) -> bool:
        """Return whether a value was never set, or will only be known once its loop is: it may be based on anything."""
        seen, waiting = {value}, [value]
        while waiting:
            each = waiting.pop()
            phi = self.phis.get(each)
            if phi is not None and phi.base is None and self._bases.get((phi.block, phi.key), phi) is not None:
                fresh = [incoming for _, incoming in phi.incoming if incoming not in seen]
                seen.update(fresh)
                waiting += fresh
            elif not each.is_atom("undef:"):
                return False
        return True

    def _lose(self, values: Sequence[Term]) -> None:
        """Treat as memory what a phi without a base may point to: accesses through it do not show that."""
        every = (leaf for value in values for leaf in value.leaves())
        self._lost |= {leaf.name.removeprefix(OBJECT) for leaf in every if leaf.is_atom(OBJECT)}

    # Local objects.

    def _loaded(self, state: FlowState, slot: Slot) -> Term:
        """Return what a part of an object holds, assembled from what was stored there."""
        name, offset, size = slot
        slots = state.slots.get(name, {})
        if (offset, size) in slots:
            return slots[offset, size]
        if not any(start < offset + size and offset < start + length for start, length in slots):
            return self._initial(name, offset, size)
        return joined(self._byte(state, name, byte) for byte in range(offset, offset + size))

    def _byte(self, state: FlowState, name: str, byte: int) -> Term:
        slots = state.slots.get(name, {})
        within = next((part for part in slots if part[0] <= byte < sum(part)), None)
        if within is None:
            return self._initial(name, byte, 1)
        at = 8 * (byte - within[0])
        return slots[within].extract(at + 7, at)

    def _initial(self, name: str, offset: int, size: int) -> Term:
        kind = "param" if name in self.parameters.values() else "undef"
        return atom(f"{kind}:{name}+{offset}.{size}", 8 * size)

    def _store(self, state: FlowState, slot: Slot, value: Term) -> None:
        name, offset, size = slot
        slots = dict(state.slots.get(name, {}))
        for start, length in list(slots):
            if start < offset + size and offset < start + length:
                rest = {*range(start, start + length)} - {*range(offset, offset + size)}
                slots |= {(byte, 1): self._byte(state, name, byte) for byte in rest}
                del slots[start, length]
        state.slots[name] = {**slots, (offset, size): value}

    def _slot(self, address: Term, size: int, instruction: PtxInstruction) -> Slot | None:
        """Return the part of a local object that an instruction's address means, if that is a variable."""
        objects = [leaf for leaf in address.atoms if leaf.is_atom(OBJECT)]
        if not objects:
            return None
        name = objects[0].name.removeprefix(OBJECT)
        if not instruction.path.startswith(name[: name.rfind("~") + 1]):
            raise Unfollowed("a local variable is accessed after its function has returned", instruction.line)
        rest = address - objects[0]
        if len(objects) > 1 or objects[0] in rest.atoms:
            self._make_memory(each.name.removeprefix(OBJECT) for each in objects)
        elif not rest.is_const:
            self._offsets.append((name, rest, size, self._number))
        elif name not in self._memory:
            offset = signed(rest.value, rest.width)
            part = range(offset, offset + size)
            if self._opaque.get(name, set()).isdisjoint(part):
                return name, offset, size
            self._reserve(name, part)
        return None

    def _make_memory(self, names: Iterable[str]) -> None:
        for name in names:
            self._changed |= name not in self._memory
            self._memory.add(name)

    def _reserve(self, name: str, part: Iterable[int]) -> None:
        """Treat bytes of an object as memory."""
        opaque = self._opaque.setdefault(name, set())
        count = len(opaque)
        opaque.update(part)
        self._changed |= len(opaque) > count

    def _resolve_offsets(self) -> None:
        """Find the parts of local objects that are accessed at offsets that are not constant."""
        for name, offset, size, number in self._offsets:
            if name in self._memory:
                continue
            leaves_ = list(offset.atoms)
            values = [self._stepped(leaf, number) for leaf in leaves_]
            offsets: list[Term] = []
            if math.prod(map(len, values)) <= MOST_OFFSETS:
                for meant in itertools.product(*values):
                    offsets += substituted(dict(zip(leaves_, meant, strict=True)), [offset])
            if not offsets or not all(each.is_const for each in offsets):
                self._make_memory([name])
            starts = {signed(each.value, each.width) for each in offsets if each.is_const}
            self._reserve(name, {start + byte for start in starts for byte in range(size)})

    def _stepped(self, leaf: Term, number: int) -> list[Term]:
        """Return the values that a loop's variable takes where a block reads it; none if they are not known."""
        phi = self.phis.get(leaf)
        if phi is None or phi.block not in self.loops:
            return []
        header, body = phi.block, self.loops[phi.block]
        values = self.iterations(header).get(leaf, [])
        # Its value at the exit is not one of the body's, if the loop is left where it begins.
        blocks = self.graph.blocks
        at_start = all(n == header or {*blocks[n].successors} <= body for n in body if self.reached[n])
        return values[:-1] if number in body and number != header and at_start else values

    def iterations(self, header: int) -> dict[Term, list[Term]]:
        """Return the values of a loop's variables at its header, turn by turn; none unless constants decide its end."""
        if header not in self._turns:
            self._turns[header] = self._iterated(header)
        return self._turns[header]

    def _iterated(self, header: int) -> dict[Term, list[Term]]:
        body, blocks = self.loops[header], self.graph.blocks
        back = [n for n in blocks[header].predecessors if n in body and self.reached[n]]
        if len(back) != 1:
            return {}
        value: dict[Term, Term] = {}
        following: dict[Term, Term] = {}
        for phi in self.phis.values():
            first = {term for source, term in phi.incoming if source not in body}
            again = [term for source, term in phi.incoming if source in body]
            if phi.block == header and len(first) == 1 and again and (start := first.pop()).is_const:
                value[phi.value], following[phi.value] = start, again[0]
        while lost := [leaf for leaf in value if not following[leaf].atoms <= value.keys()]:
            for leaf in lost:
                del value[leaf], following[leaf]
        exits = [
            (blocks[number].successors, condition)
            for number in body
            if (condition := self.conditions[number]) is not None
            and condition.atoms <= value.keys()
            and not {*blocks[number].successors} <= body
            and self.graph.dominates(number, back[0])
            and blocks[number].instructions[-1].opcode == "bra"
        ]
        seen = {leaf: [start] for leaf, start in value.items()}
        for _ in range(MOST_ITERATIONS if exits else 0):
            for successors, condition in exits:
                [holds] = substituted(value, [condition])
                if holds.is_const and successors[0 if holds.value else -1] not in body:
                    return seen
            value = dict(zip(value, substituted(value, [following[leaf] for leaf in value]), strict=True))
            for leaf, term in value.items():
                seen[leaf].append(term)
        return {}


def _register_order(name: str) -> tuple[str, str, int]:
    """Return a register's path, kind and number."""
    path, mark, own = name.rpartition("~")
    digits = re.search(r"(?<!\d)(\d++)(#\d++)?$", own)
    return path + mark, own[: digits.start()] if digits else own, int(digits[1]) if digits else 0


def common_base(values: Sequence[Term]) -> Term | None:
    """Return the one address of an array, or of a local object, that all values are a sum of; None if there is none.

    That of a generic address has the window of its space.
    """
    bases: set[Term | None] = set()
    for value in values:
        once = [part for part, factor in value.coefficients() if factor == 1]
        found = [part for part in once if part.symbols or part.is_atom(OBJECT)]
        plain = len(found) == 1 and (found[0].op == "atom" or is_widened(found[0]))
        base = sum(value.windows(), found[0]) if plain else None
        bases.add(base if base is not None and not (value - base).symbols else None)
    return bases.pop() if len(bases) == 1 else None


def is_widened(term: Term) -> bool:
    """Return whether a term is the address of a shared array, 64 bits wide."""
    return term.op == "zext" and term.first.is_atom(SHARED)
