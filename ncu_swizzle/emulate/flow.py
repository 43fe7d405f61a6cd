"""Control flow: basic blocks, loops, successors and post-dominators."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property

from ncu_swizzle.emulate.code import INTEGER, PRED, REG, UPRED, UREG, SassInstruction
from ncu_swizzle.emulate.effects import is_control

EXIT = -1  # the end of the thread
ANYWHERE = -2  # wherever a call through a register can go
ADDED = "$__internal_"  # the prefix of functions that ptxas adds
_CONDITIONS = (PRED, UPRED, UREG)  # condition operands of a branch


class Flow:
    """The control flow of a kernel and the functions it calls, by instruction index."""

    def __init__(self, instructions: Sequence[SassInstruction], functions: Mapping[int, str] | None = None) -> None:
        """`functions`: the names of those that the kernel may call by their offsets, if they are known."""
        self.instructions = instructions
        self.index = {instruction.offset: number for number, instruction in enumerate(instructions)}
        self._offsets = [instruction.offset for instruction in instructions]
        named = {self.at(offset): name for offset, name in (functions or {}).items()}
        self._starts = sorted(named.keys() - {EXIT})
        # No pointer leads to what ptxas adds itself, such as a division or the traps of tcgen05.
        self._addressed = [start for start in self._starts if not named[start].startswith(ADDED)]

    def at(self, offset: int) -> int:
        """Return the index of the instruction at or after an offset; EXIT past the last."""
        number = self.index.get(offset)
        if number is not None:
            return number
        position = bisect.bisect_left(self._offsets, offset)
        return position if position < len(self._offsets) else EXIT

    def following(self, number: int) -> int:
        """Return the next instruction; EXIT after the last."""
        return number + 1 if number + 1 < len(self.instructions) else EXIT

    @cached_property
    def leaders(self) -> list[int]:
        """The first instructions of the basic blocks, ascending."""
        starts = {0, *self._starts}
        for number, instruction in enumerate(self.instructions):
            starts.update(target for target in self.targets(number) if target != EXIT)
            if is_control(instruction) and number + 1 < len(self.instructions):
                starts.add(number + 1)
        return sorted(starts)

    @cached_property
    def anywhere(self) -> tuple[int, ...]:
        """Where a call through a register can go: a function, or any basic block if none is known."""
        return tuple(self._addressed if self._starts else self.leaders)

    @cached_property
    def before(self) -> list[list[int]]:
        """For every instruction, those that can run right before it, with calls taken as one step."""
        predecessors: list[list[int]] = [[] for _ in self.instructions]
        for number in range(len(self.instructions)):
            for successor in self.successors(number, into_calls=False):
                if successor >= 0:
                    predecessors[successor].append(number)
        return predecessors

    @cached_property
    def loops(self) -> dict[int, frozenset[int]]:
        """By first instruction of a loop: the first instructions of its basic blocks.

        Those of functions that it calls are among them. Aho, Lam, Sethi and Ullman, "Compilers", 9.6.6.
        """
        before: dict[int, set[int]] = {leader: set() for leader in self.leaders}
        calling: list[int] = []  # blocks that may go on anywhere
        for leader in self.leaders:
            for successor in self.successors(self.last[leader]):
                if successor == ANYWHERE:
                    calling.append(leader)
                elif successor != EXIT:
                    before[successor].add(leader)
        called = frozenset(self.anywhere)
        bodies: dict[int, frozenset[int]] = {}
        for header in self.leaders:
            # A backward edge in the code's layout closes a loop. A loop laid out otherwise is not found, which
            # costs time but no count: all of its iterations run.
            latches = [leader for leader in before[header] if leader >= header]
            latches += [leader for leader in calling if leader >= header and header in called]
            body, waiting, onward = {header}, list(latches), calling
            while waiting:
                leader = waiting.pop()
                if leader not in body:
                    body.add(leader)
                    waiting += before[leader]
                    if leader in called:
                        waiting += onward
                        onward = []  # once is enough
            if latches:
                bodies[header] = frozenset(body)
        return bodies

    @cached_property
    def last(self) -> list[int]:
        """For every instruction, the last one of its basic block."""
        ends = [*self.leaders[1:], len(self.instructions)]
        return [end - 1 for start, end in zip(self.leaders, ends, strict=True) for _ in range(start, end)]

    def first(self, number: int) -> int:
        """Return the first instruction of an instruction's basic block."""
        return self.leaders[bisect.bisect_right(self.leaders, number) - 1]

    def targets(self, number: int) -> tuple[int, ...]:
        """Return where a jump can go besides falling through; for BSSY, where the threads reconverge."""
        instruction = self.instructions[number]
        if instruction.targets:
            return tuple(self.at(target) for target in instruction.targets)
        if instruction.opcode not in ("BRA", "JMP", "BSSY", "CALL", "WARPSYNC"):
            return ()
        if instruction.opcode == "CALL" and any(operand.kind in (REG, UREG) for operand in instruction.operands):
            return ()  # the address in the register is relative to the one written after it
        addresses = [operand.number for operand in instruction.operands if operand.kind == INTEGER]
        if not addresses or (instruction.opcode == "WARPSYNC" and not instruction.has("COLLECTIVE")):
            return ()
        return (self.at(addresses[-1]),)

    def returns(self, number: int) -> tuple[int, ...]:
        """Return where a RET can go: to the instructions after the calls of its function, if these are known."""
        begins = bisect.bisect_right(self._starts, number) - 1
        return self._after_calls.get(self._starts[begins] if begins >= 0 else None, self._after_calls[None])

    @cached_property
    def _after_calls(self) -> dict[int | None, tuple[int, ...]]:
        """By function: the instructions after what may call it; None: those after any call."""
        targets_by_function: dict[int | None, list[int]] = {None: [], **{start: [] for start in self._starts}}
        for number, instruction in enumerate(self.instructions):
            if instruction.opcode == "CALL":
                for function in (None, *(self.targets(number) or self.anywhere)):
                    targets_by_function.setdefault(function, []).append(self.following(number))
        return {function: tuple(after) for function, after in targets_by_function.items()}

    def conditional(self, number: int) -> bool:
        """Return whether a jump has a guard or a condition."""
        instruction = self.instructions[number]
        return instruction.guard is not None or any(o.kind in _CONDITIONS for o in instruction.operands)

    def successors(self, number: int, into_calls: bool = True) -> tuple[int, ...]:
        """Return what can run next in the same thread, EXIT or ANYWHERE, too; calls are entered or one step."""
        instruction = self.instructions[number]
        opcode = instruction.opcode
        after = self.following(number)
        jumps = {"EXIT": (EXIT,), "KILL": (EXIT,), "RET": self.returns(number) if into_calls else (EXIT,)}.get(opcode)
        if opcode in ("BRA", "JMP"):
            jumps = self.targets(number) or (EXIT,)
        elif opcode in ("BRX", "BRXU", "JMX", "JMXU"):
            jumps = self.targets(number) or tuple(self.leaders)
        elif opcode == "CALL":
            jumps = self._called(number) if into_calls else (after,)
        elif opcode == "WARPSYNC":
            jumps = (*self.targets(number), after)
        if jumps is None:
            return (after,)
        return (*jumps, after) if self.conditional(number) else jumps

    def _called(self, number: int) -> tuple[int, ...]:
        """Return where a call can go; without a function in the code, an indirect call leaves it and comes back."""
        if targets := self.targets(number):
            return targets
        return (*((ANYWHERE,) if self._has_functions else ()), self.following(number))

    @cached_property
    def _has_functions(self) -> bool:
        return any(instruction.opcode == "RET" for instruction in self.instructions)

    @cached_property
    def post_dominators(self) -> list[int]:
        """For every instruction, its immediate post-dominator, with calls taken as one step.

        Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm", on the reversed flow.
        """
        count = len(self.instructions)
        follow = [self.successors(number, into_calls=False) for number in range(count)]
        order = _from_the_end(follow)
        rank = {number: position for position, number in enumerate(order)}
        dominators = {EXIT: EXIT}
        changed = True
        while changed:
            changed = False
            for number in order[1:]:
                new = _common([s for s in follow[number] if s in dominators], dominators, rank)
                if dominators.get(number) != new:
                    dominators[number] = new
                    changed = True
        # Code that never reaches EXIT, such as an endless loop, is not in the order: nothing certain comes after it.
        return [dominators.get(number, EXIT) for number in range(count)]

    @cached_property
    def fatal(self) -> frozenset[int]:
        """The instructions from which every path ends in a trap: no thread of a successful launch gets there."""
        doomed: set[int] = set()
        # One backward pass: a trap after a backward jump is not seen, and the branch to it stays like any other.
        for number in reversed(range(len(self.instructions))):
            instruction = self.instructions[number]
            traps = instruction.opcode == "BPT" and instruction.has("TRAP") and instruction.guard is None
            if traps or doomed.issuperset(self.successors(number, into_calls=False)):
                doomed.add(number)
        return frozenset(doomed)

    def region(self, number: int, stop: int, whole: bool = False) -> frozenset[int]:
        """Return what can run after an instruction before `stop` is reached; see `reached`."""
        return self.reached(self.successors(number, into_calls=whole), {stop}, whole) - {stop}

    @cached_property
    def reconverging(self) -> frozenset[int]:
        """The instructions at which all threads of a warp reconverge, whatever path they took."""
        return frozenset(n for n, each in enumerate(self.instructions) if each.opcode == "WARPSYNC" and each.has("ALL"))

    def leading_to(self, numbers: Iterable[int]) -> frozenset[int]:
        """Return the first instructions of the basic blocks from which a thread may come to one of these."""
        leading = {self.first(number) for number in numbers}
        while True:
            ends = leading | {ANYWHERE} if leading.intersection(self.anywhere) else leading
            others = (leader for leader in self.leaders if leader not in leading)
            found = [leader for leader in others if not ends.isdisjoint(self.successors(self.last[leader]))]
            if not found:
                return frozenset(leading)
            leading.update(found)

    def reached(self, first: Iterable[int], ends: Collection[int], whole: bool) -> frozenset[int]:
        """Return what can run from some instructions on, called functions included, until one of `ends` has.

        `whole` follows a function's return to its callers.
        """

        def onward(number: int) -> tuple[int, ...]:
            if number == ANYWHERE:
                return self.anywhere
            if number == EXIT or number in ends:
                return ()
            called = self._called(number) if self.instructions[number].opcode == "CALL" else ()
            return (*self.successors(number, into_calls=whole), *called)

        return frozenset(reachable(first, onward) - {ANYWHERE, EXIT})


def reachable(
    first: Iterable[int], onward: Callable[[int], Iterable[int]], within: Collection[int] | None = None
) -> set[int]:
    """Return these numbers and all that they lead to, as far as they are `within` some if that is given."""
    visited: set[int] = set()
    waiting = [*first]
    while waiting:
        number = waiting.pop()
        if number not in visited and (within is None or number in within):
            visited.add(number)
            waiting += onward(number)
    return visited


def _from_the_end(follow: list[tuple[int, ...]]) -> list[int]:
    """Return EXIT and the instructions that reach it, in reverse post-order of the reversed flow."""
    before: dict[int, list[int]] = {EXIT: []}
    for number, successors in enumerate(follow):
        for successor in successors:
            before.setdefault(successor, []).append(number)
    order: list[int] = []
    visited = {EXIT}
    # An explicit stack: recursion would exceed Python's limit in kernels of thousands of instructions.
    stack = [(EXIT, iter(before[EXIT]))]
    while stack:
        number, onward = stack[-1]
        for other in onward:
            if other not in visited:
                visited.add(other)
                stack.append((other, iter(before.get(other, ()))))
                break
        else:
            stack.pop()
            order.append(number)
    return order[::-1]


def _common(candidates: list[int], dominators: dict[int, int], rank: dict[int, int]) -> int:
    """Return the nearest common post-dominator of the candidates."""
    result = candidates[0]
    for candidate in candidates[1:]:
        other = candidate
        while result != other:
            if rank[result] > rank[other]:
                result = dominators[result]
            else:
                other = dominators[other]
    return result
