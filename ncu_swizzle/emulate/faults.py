"""The instructions whose results matter: those that feed shared-memory addresses, predicates and control flow.

Found by live-variable analysis, backwards over the control flow. What is left out affects no count.
"""

from __future__ import annotations

import functools
import operator
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from ncu_swizzle.base.errors import Hint, NcuSwizzleError, ProgramFailed, TimeLimit, Typed
from ncu_swizzle.emulate.code import SassInstruction
from ncu_swizzle.emulate.effects import (
    GLOBAL,
    GLOBAL_ACCESS,
    LOCAL,
    MATRIX,
    REGISTERS,
    SHARED,
    TILES,
    Effects,
    address_reads,
    effects,
    reading_guard,
)
from ncu_swizzle.emulate.flow import EXIT, Flow

# Errors that stop an emulation.
#
#     ProgramFailed
#     ├── Unsupported     an instruction whose result is needed but that is not emulated
#     ├── MemoryFault     an invalid address
#     ├── Stuck           a deadlock, as far as the emulator can tell
#     ├── Broken          a bug in the emulator, with the line to report
#     ├── Enough          a run that was only to look at something has seen enough
#     └── TooLarge        more local memory, or more kinds of blocks, than the limit
#     TimeLimit
#     ├── Endless         the threads run longer than the limit
#     ├── Circling        the threads would run for ever
#     ├── Spent           a run that was given some steps needs more
#     └── ManyKinds       so many blocks differ that the grid is not covered within the limit
#
# ``offset`` is the instruction's offset in bytes from the function's start, from which a caller finds the source line.


GPU = "measure it on a GPU: ncu-swizzle profile with --engine ncu"
HINT = Hint("raise the limit with ", Typed("--timeout SECONDS"), ", or choose a smaller --problem or --grid")


class Restart(Exception):
    """The emulation has to start over, or to go without what it tried: not a mistake of the emulator's."""


class Unsupported(ProgramFailed):
    """An instruction that is not emulated."""

    def __init__(self, offset: int, sass: str, why: str = "is not emulated") -> None:
        super().__init__(f"{sass!r} at {offset:#x} {why}", GPU)
        self.offset = offset
        self.sass = sass


class MemoryFault(ProgramFailed):
    """An invalid access by the program, with its thread, block and address.

    `beyond` is whether the address is aligned, but outside of the block's shared memory.
    """

    beyond = False

    def __init__(self, offset: int, sass: str, what: str, thread: tuple[int, ...], block: tuple[int, ...]) -> None:
        super().__init__(
            f"{sass!r} at {offset:#x}: {what}, thread {thread} of block {block}", "fix the address that it computes"
        )
        self.offset = offset
        self.thread = thread
        self.block = block


class Stuck(ProgramFailed):
    """A deadlock, with the instruction at which threads wait."""

    def __init__(self, offset: int, sass: str, why: str) -> None:
        super().__init__(f"{sass!r} at {offset:#x}: {why}", GPU)
        self.offset = offset


class Broken(ProgramFailed):
    """A bug in the emulator, with the instruction that it fails on."""

    def __init__(self, offset: int, sass: str, error: Exception) -> None:
        super().__init__(
            f"the emulator fails on {sass!r} at {offset:#x}, which is its fault",
            f"report this line: {sass} | {mistake(error)}; meanwhile, {GPU}",
        )
        self.offset = offset
        self.sass = sass


def mistake(error: Exception) -> str:
    """Return an error of the emulator's own in words, with the function that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].name}" if frames else ""
    return f"{type(error).__name__}{where}: {error}"


class Enough(ProgramFailed):
    """The end of a run that has seen what it was for."""


class Blamed(Protocol):
    """An instruction, parsed or not."""

    @property
    def offset(self) -> int: ...

    @property
    def text(self) -> str: ...


@contextmanager
def blaming(instruction: Blamed) -> Iterator[None]:
    """Turn what is raised inside into `Broken` with this instruction, unless it is ours or the machine's."""
    try:
        yield
    except (NcuSwizzleError, MemoryError):
        raise
    except Exception as error:
        raise Broken(instruction.offset, instruction.text, error) from error


class TooLarge(ProgramFailed):
    """A limit on what the emulator keeps in memory, with the instruction that exceeded it, if one did."""

    def __init__(self, what: str, offset: int = -1) -> None:
        super().__init__(what, f"a smaller --problem or --grid takes less; or {GPU}")
        self.offset = offset


class Endless(TimeLimit):
    """The time limit, with the instruction that was reached."""

    def __init__(self, offset: int, sass: str, timeout_s: float, issued: int) -> None:
        super().__init__(
            f"still running after {timeout_s:g} s and {issued:,} instructions of warps, at {sass!r} ({offset:#x}): "
            f"an endless loop, or a large problem",
            HINT,
        )
        self.offset = offset


class Circling(TimeLimit):
    """A loop that never ends, with the instruction at its end."""

    def __init__(self, offset: int, sass: str) -> None:
        super().__init__(
            f"an endless loop at {sass!r} ({offset:#x}): nothing changes from one iteration to the next",
            f"let it end without other blocks, kernels or the host; or {GPU}",
        )
        self.offset = offset


class Spent(TimeLimit):
    """The end of the steps that a run was given."""


class ManyKinds(TimeLimit):
    """The time limit, with how much of the grid was covered."""

    offset = -1

    def __init__(self, covered: int, blocks: int, timeout_s: float) -> None:
        super().__init__(
            f"after {timeout_s:g} s, {covered:,} of the grid's {blocks:,} blocks are covered: their accesses or "
            f"branches differ from block to block",
            HINT,
        )


# Only their addresses matter: their results are unknown whatever they read.
OPAQUE = MATRIX | {"LDSM", "TEX", "TLD", "TXQ", "SULD"}
# What they write is unknown to whoever loads it, as blocks run in any order: only where they write matters.
WRITE_ONLY = frozenset(("STG", "RED", "REDG"))


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Which results are needed, by instruction, and whether contents of shared and local memory are needed at all."""

    needed: tuple[bool, ...]
    effects: tuple[Effects, ...]
    shared: bool
    local: bool
    live: dict[int, int]  # by first instruction of a basic block: what is live before it


def needed(flow: Flow, everything: bool = False, arrays: bool = False, addresses: bool = False) -> Slice:
    """Return the slice; `everything` keeps all instructions, which must not change a count.

    `arrays`: contents of global memory are known, so stores to it matter; `addresses`: those
    of global memory do, and what tensor copies and wgmmas say of tiles.
    """
    all_effects = tuple(_opaque_aware(flow, number, arrays, everything) for number in range(len(flow.instructions)))
    if addresses:
        all_effects = tuple(map(_with_addresses, all_effects, flow.instructions))
    if everything:
        everywhere = dict.fromkeys(flow.leaders, (1 << REGISTERS) - 1)
        return Slice(needed=(True,) * len(all_effects), effects=all_effects, shared=True, local=True, live=everywhere)
    before, alive_after = _liveness(flow, all_effects)
    # What one thread stores another may load, wherever in the code it is.
    if common := _ever(alive_after) & (1 << SHARED | 1 << GLOBAL):
        before, alive_after = _liveness(flow, all_effects, common)
    useful = tuple(bool(effect.writes & alive) for effect, alive in zip(all_effects, alive_after, strict=True))
    anywhere = _ever(alive_after)
    return Slice(
        needed=useful,
        effects=all_effects,
        shared=bool(anywhere >> SHARED & 1),
        local=bool(anywhere >> LOCAL & 1),
        live=before,
    )


def _ever(alive_after: list[int]) -> int:
    return functools.reduce(operator.or_, alive_after, 0)


def _with_addresses(effect: Effects, instruction: SassInstruction) -> Effects:
    roots = address_reads(instruction) if instruction.opcode in GLOBAL_ACCESS | TILES else 0
    return replace(effect, reads=effect.reads | roots, roots=effect.roots | roots)


def _opaque_aware(flow: Flow, number: int, arrays: bool, everything: bool) -> Effects:
    with blaming(flow.instructions[number]):
        effect = effects(flow.instructions[number])
    if not arrays:
        effect = replace(effect, reads=effect.reads & ~(1 << GLOBAL))
    if flow.instructions[number].opcode in WRITE_ONLY and not everything:
        effect = replace(effect, reads=effect.roots | address_reads(flow.instructions[number]))
    if flow.instructions[number].opcode in OPAQUE:
        return Effects(
            reads=effect.roots, roots=effect.roots, writes=effect.writes & ((1 << REGISTERS) - 1), kills=effect.kills
        )
    return effect


def _liveness(flow: Flow, all_effects: tuple[Effects, ...], always: int = 0) -> tuple[dict[int, int], list[int]]:
    """Return what is live before every basic block and after every instruction, as bit sets.

    `always` is live everywhere. What is read under a guard, and was written under the same one in the same basic
    block, is not live before: the lanes that read it have written it.
    """
    registers = (1 << REGISTERS) - 1
    guards = tuple(map(reading_guard, flow.instructions))
    leaders = flow.leaders
    before = dict.fromkeys(leaders, 0)
    after = [0] * len(all_effects)
    onward = {leader: flow.successors(flow.last[leader]) for leader in leaders}
    changed = True
    while changed:
        changed = False
        for leader in reversed(leaders):
            alive = always
            for successor in onward[leader]:
                alive |= before[successor] if successor != EXIT else 0
            guarded: dict[tuple[int, bool], int] = {}  # what is live in the lanes that a guard selects
            for number in range(flow.last[leader], leader - 1, -1):
                after[number] = functools.reduce(operator.or_, guarded.values(), alive)
                effect, guard = all_effects[number], guards[number]
                used = effect.reads if effect.writes & after[number] else effect.roots
                for other in [other for other in guarded if effect.writes >> other[0] & 1]:
                    alive |= guarded.pop(other)
                if guard is not None:
                    mine = used & registers & ~(1 << guard[0])
                    guarded[guard] = guarded.get(guard, 0) & ~effect.writes | mine
                    used &= ~mine
                guarded = {other: live & ~effect.kills for other, live in guarded.items()}
                alive = alive & ~effect.kills | used | always
            alive = functools.reduce(operator.or_, guarded.values(), alive)
            if alive != before[leader]:
                before[leader] = alive
                changed = True
    return before, after
