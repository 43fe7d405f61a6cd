"""The control flow of a kernel with its calls inlined: blocks in an order in which only loops lead back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from ncu_swizzle.certify.ptx import Module, PtxFunction, PtxInstruction, Unfollowed, split
from ncu_swizzle.certify.verdict import Location

Key = TypeVar("Key")
DEEPEST = 30  # calls within calls
MOST_BLOCKS = 4_000
ENDS = ("bra", "ret", "exit", "trap")
EXTERNAL = "external"  # a call of what the module does not have: its results, "|", its arguments
_NAME = re.compile(r"%?[A-Za-z_$][\w$]*(?:#\d+)?(?:\.[xyz](?!\w))?")
_INLINED = re.compile(rf"(?<![\w~])(?:\d++~)*+{_NAME.pattern}")  # with the calls that lead to it


@dataclass(eq=False, kw_only=True)
class Block:
    """Instructions, of which only the last may branch; the first successor is the branch's target."""

    instructions: list[PtxInstruction]
    successors: list[int]
    predecessors: list[int] = field(default_factory=list)

    @property
    def traps(self) -> bool:
        """Whether it ends the whole grid, which no edge shows."""
        return bool(self.instructions) and self.instructions[-1].opcode == "trap"

    @property
    def line(self) -> Location | None:
        return next((instruction.line for instruction in self.instructions if instruction.line), None)


@dataclass(eq=False, kw_only=True)
class Graph:
    """A kernel: blocks in reverse postorder, the entry first. A loop's header dominates what leads back to it."""

    blocks: list[Block]
    registers: dict[str, int]  # bits
    objects: set[str]  # parameters of calls, and local memory
    dominators: list[int] = field(init=False)  # immediate

    def __post_init__(self) -> None:
        for block in self.blocks:
            block.predecessors = []
        for number, block in enumerate(self.blocks):
            for successor in dict.fromkeys(block.successors):
                self.blocks[successor].predecessors.append(number)
        self.dominators = self._dominators()
        for number, block in enumerate(self.blocks):
            for source in block.predecessors:
                if source >= number and not self.dominates(number, source):
                    raise Unfollowed("a loop has two entries", block.line)

    def _dominators(self) -> list[int]:
        """Return each block's immediate dominator: where the paths to its predecessors diverge.

        Edges that lead back change nothing, as they lead to what dominates where they start: which is checked.
        """
        dominators = [0]
        for number in range(1, len(self.blocks)):
            ways = {source for source in self.blocks[number].predecessors if source < number}
            while len(ways) > 1:
                ways.add(dominators[latest := max(ways)])
                ways.remove(latest)
            dominators += ways
        return dominators

    def dominates(self, one: int, other: int) -> bool:
        while other > one:
            other = self.dominators[other]
        return one == other

    def loop(self, header: int) -> set[int]:
        """Return the blocks of the loop that begins at a block; none if none does."""
        waiting = [source for source in self.blocks[header].predecessors if source >= header]
        if not waiting:
            return set()
        body = {header}
        while waiting:
            number = waiting.pop()
            if number not in body:
                body.add(number)
                waiting += self.blocks[number].predecessors
        return body

    def unrolled(self, header: int, times: int) -> Graph:
        """Return the graph with a loop's body repeated before the loop itself."""
        body = self.loop(header)
        copies: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for number, block in enumerate(self.blocks):
            for turn in range(times + 1 if number in body else 1):
                following = turn if turn == times else turn + 1
                copies[number, turn] = [
                    (to, following if to == header else turn) if number in body and to in body else (to, 0)
                    for to in block.successors
                ]
        order = _reverse_postorder((0, 0), copies)
        if len(order) > MOST_BLOCKS:
            raise Unfollowed("its loops are too long to be unrolled")
        at = {key: number for number, key in enumerate(order)}
        blocks = [replace(self.blocks[key[0]], successors=[at[to] for to in copies[key]]) for key in order]
        return Graph(blocks=blocks, registers=self.registers, objects=self.objects)

    def live(self) -> list[set[str]]:
        """Return the registers that are live at each block's start."""
        used: list[set[str]] = []
        written: list[set[str]] = []
        for block in self.blocks:
            reads, writes = set[str](), set[str]()
            for instruction in block.instructions:
                results = instruction.results()
                reads |= {name for name in _read(instruction, results) if name in self.registers} - writes
                if instruction.guard:  # it keeps what was there
                    reads |= set(results) - writes
                writes |= set(results)
            used.append(reads)
            written.append(writes)
        live = [set(reads) for reads in used]
        waiting = list(range(len(self.blocks)))
        while waiting:
            number = waiting.pop()
            for source in self.blocks[number].predecessors:
                fresh = live[number] - written[source] - live[source]
                if fresh:
                    live[source] |= fresh
                    waiting.append(source)
        return live

    def written_in(self, numbers: set[int]) -> set[str]:
        """Return the registers that some blocks write."""
        return {
            name
            for number in numbers
            for instruction in self.blocks[number].instructions
            for name in instruction.results()
        }


def _read(instruction: PtxInstruction, results: Sequence[str]) -> Iterator[str]:
    operands = instruction.operands[1:] if results else instruction.operands
    if instruction.opcode.startswith("wgmma"):
        operands = instruction.operands  # it adds to what its results hold
    for operand in operands:
        yield from _INLINED.findall(operand)
    if instruction.guard:
        yield instruction.guard


def _reverse_postorder(start: Key, successors: dict[Key, list[Key]]) -> list[Key]:
    order: list[Key] = []
    seen, stack = {start}, [(start, iter(successors[start]))]
    while stack:
        key, rest = stack[-1]
        for following in rest:
            if following not in seen:
                seen.add(following)
                stack.append((following, iter(successors[following])))
                break
        else:
            order.append(key)
            stack.pop()
    return order[::-1]


def graph_of(module: Module, kernel: str) -> Graph:
    """Return a kernel's graph, calls inlined. Raises Unfollowed for recursion, and for loops with two entries."""
    inliner = _Inliner(module)
    inliner.inline(module.functions[kernel], "", {}, "")
    return inliner.graph()


class _Inliner:
    """Writes out a kernel's instructions, those of the functions that it calls among them.

    Registers of a call are prefixed by its number: the same calls in the same order have the same names in both
    versions.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._items: list[PtxInstruction | str] = []
        self._registers: dict[str, int] = {}
        self._objects: set[str] = set()
        self._calls = 0

    def inline(self, function: PtxFunction, path: str, bound: dict[str, str], end: str) -> None:
        """Write out a function: `bound` has its parameters' and results' names at the call; it returns to `end`."""
        if path.count("~") > DEEPEST:
            raise Unfollowed(f"{function.name} is called recursively, or through more than {DEEPEST} calls")

        def renamed(name: str) -> str:
            if name in function.registers:
                self._registers[path + name] = function.registers[name]
                return path + name
            if name in bound:
                return bound[name]
            if name in function.objects:
                self._objects.add(path + name)
                return path + name
            return name

        for item in function.body:
            if isinstance(item, str):
                self._items.append(path + item)
                continue
            operands = item.operands
            head = item.opcode.partition(".")[0]
            if head == "call":
                self._call(item, path, renamed)
                continue
            if head == "brx":  # which no compiler writes without optimisation
                raise Unfollowed("an indexed branch is not followed", item.line)
            opcode = head if head in ENDS else item.opcode
            if head == "ret" and end:
                opcode, operands = "bra", (end,)
            elif head == "bra":
                operands = (path + operands[0],)
            else:
                operands = tuple(_NAME.sub(lambda found: renamed(found[0]), operand) for operand in operands)
            guard = renamed(item.guard) if item.guard else ""
            instruction = PtxInstruction(opcode, operands, guard, item.negated, item.line, item.inline, path)
            self._items.append(instruction)

    def _call(self, item: PtxInstruction, path: str, renamed: Callable[[str], str]) -> None:
        parts = list(item.operands)
        returned = split(parts.pop(0)[1:-1]) if parts[0].startswith("(") else []
        name, passed = parts[0], split(parts[1][1:-1]) if len(parts) > 1 and parts[1].startswith("(") else []
        returned, passed = [renamed(each) for each in returned], [renamed(each) for each in passed]
        if item.guard:
            raise Unfollowed("a call depends on a predicate", item.line)
        called = self._module.functions.get(name)
        if called is None:
            if name.startswith("%"):
                raise Unfollowed("a function is called through a pointer", item.line)
            operands = (name, *returned, "|", *passed)
            self._items.append(PtxInstruction(f"{EXTERNAL}.{name}", operands, line=item.line, path=path))
            return
        self._calls += 1
        inner = f"{path}{self._calls}~"
        bound = dict(zip((*called.parameters, *called.returns), (*passed, *returned), strict=True))
        self.inline(called, inner, bound, f"{inner}end")
        self._items.append(f"{inner}end")

    def graph(self) -> Graph:
        """Return the graph of the inlined code, without unreachable blocks."""
        lists: list[list[PtxInstruction]] = [[], []]  # the first has no predecessors, whatever leads back to the start
        labels: dict[str, int] = {}
        for item in self._items:
            if isinstance(item, str):
                if lists[-1]:
                    lists.append([])
                labels[item] = len(lists) - 1
                continue
            lists[-1].append(item)
            if item.opcode in ENDS:
                lists.append([])
        successors = {number: self._successors(number, each, labels, len(lists)) for number, each in enumerate(lists)}
        order = _reverse_postorder(0, successors)
        at = {number: position for position, number in enumerate(order)}
        blocks = [Block(instructions=lists[n], successors=[at[to] for to in successors[n]]) for n in order]
        if len(blocks) > MOST_BLOCKS:
            raise Unfollowed(f"it has {len(blocks):,} blocks, more than {MOST_BLOCKS:,}")
        return Graph(blocks=blocks, registers=self._registers, objects=self._objects)

    @staticmethod
    def _successors(number: int, block: list[PtxInstruction], labels: dict[str, int], count: int) -> list[int]:
        following = [number + 1] if number + 1 < count else []
        if not block or block[-1].opcode not in ENDS:
            return following  # the kernel's last block ends it
        last = block[-1]
        if last.opcode == "bra":
            return [labels[last.operands[0]], *(following if last.guard else ())]
        return following if last.guard else []
