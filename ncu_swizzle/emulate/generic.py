"""Execute accesses through generic addresses: LD, ST and ATOM, in shared, local or global memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ncu_swizzle.emulate import operands
from ncu_swizzle.emulate.clusters import RANK_BIT
from ncu_swizzle.emulate.contents import (
    forget_local,
    forget_shared,
    load_global,
    load_local,
    load_shared,
    lose_arrays,
    lose_blocks,
    store_global,
    store_local,
    store_shared,
)
from ncu_swizzle.emulate.dependence import Tag
from ncu_swizzle.emulate.effects import BASES
from ncu_swizzle.emulate.machine import LOCAL_WINDOW, SHARED_WINDOW, Machine
from ncu_swizzle.emulate.memory import MemoryInstruction, decide_address, extended
from ncu_swizzle.emulate.opcodes import GENERIC
from ncu_swizzle.emulate.operations.registry import Step
from ncu_swizzle.emulate.parse import PRED, SassInstruction
from ncu_swizzle.emulate.values import Bits, Value, known_in, unknown
from ncu_swizzle.smem.banks import Bools


def compiled(instruction: SassInstruction, index: int, needed: bool) -> Step | None:
    """Return the step of an access through a generic address; None for other instructions."""
    return _Generic(instruction, index, needed).step if instruction.opcode in GENERIC else None


class _Generic(MemoryInstruction):
    """An access whose memory each lane selects by the upper half of its address."""

    def __init__(self, instruction: SassInstruction, index: int, needed: bool) -> None:
        super().__init__(instruction)
        self.index, self.needed = index, needed
        self.address = operands.wide_address(self.memory)
        self.opcode = instruction.opcode

    def step(self, m: Machine) -> None:
        selected, doubtful, condition = self.lanes(m)
        address = self.address(m)
        if doubtful.any() or not known_in(address, selected):
            self._nowhere(m, address, condition)
            return
        high = (address.bits >> np.uint64(32)).astype(np.uint32)
        low = Value((address.bits & np.uint64(0xFFFFFFFF)).astype(np.uint32), True, None, address.tag)
        in_shared, in_local = selected & (high == SHARED_WINDOW), selected & (high == LOCAL_WINDOW)
        if in_shared.any():
            decide_address(m, address)
        own = in_shared & self._own(m, low.bits)
        self._record(m, low.bits, in_shared, own, address.tag)
        if self.opcode == "LD":
            if self.needed:
                self._load(m, own, in_shared & ~own, in_local, selected, condition, low, address)
            return
        self._store(m, own, in_local, selected & ~in_shared & ~in_local, low, address)
        if (in_shared & ~own).any():  # in the shared memory of another block of the cluster
            lose_blocks(m, m.clusters.around(m.view_blocks()))
        if self.opcode == "ATOM" and self.needed:
            self._unknown(m, condition)

    def _own(self, m: Machine, low: Bits) -> Bools:
        """Return whose address is in their own block's shared memory: it names the block's rank."""
        mine: Bools = low >> np.uint32(RANK_BIT) == m.clusters.ranks[m.view_blocks()][:, None]
        return mine

    def _record(self, m: Machine, low: Bits, in_shared: Bools, own: Bools, tag: Tag | None) -> None:
        """Count the request; ncu counts no wavefronts for lanes that access another block of the cluster."""
        here, there = own.any(axis=1), (in_shared & ~own).any(axis=1)
        if (here & there).any():
            m.log.miss(self.index, "what ncu counts for lanes that access different blocks of a cluster", None)
        elif in_shared.any():
            m.log.record(m, self.index, low, own, tag=tag)

    def _nowhere(self, m: Machine, address: Value, condition: Value | None) -> None:
        """Execute an access to an unknown address, or by unknown lanes."""
        origin = address.origin if address.known is not True else condition.origin if condition else None
        m.log.miss(self.index, "which memory its address is in", origin)
        if self.opcode != "LD":
            forget_local(m, m.now)
            lose_blocks(m, m.clusters.around(m.view_blocks()))
            lose_arrays(m)
        if self.opcode != "ST" and self.needed:
            self._unknown(m, condition)

    def _unknown(self, m: Machine, condition: Value | None) -> None:
        for register in self.results:
            m.put(register, unknown(m.now, bool if register >= BASES[PRED] else np.uint32), condition)

    def _load(
        self,
        m: Machine,
        own: Bools,
        remote: Bools,
        in_local: Bools,
        selected: Bools,
        condition: Value | None,
        low: Value,
        address: Value,
    ) -> None:
        if bool((own | ~selected).all()) and m.shared.shape[1]:
            values: Sequence[Value] = load_shared(m, low, selected, self.width)
        elif bool((in_local | ~selected).all()):
            values = load_local(m, low, selected, self.width)
        elif not (own | remote | in_local).any():
            values = load_global(m, address, selected, self.width)
        else:
            self.nothing(m, condition)
            return
        self.finish(m, extended(self.instruction, values), condition)

    def _store(self, m: Machine, own: Bools, in_local: Bools, in_global: Bools, low: Value, address: Value) -> None:
        if m.memory and in_global.any():
            store_global(m, address, in_global, self.width)
        if own.any() and self.opcode == "ATOM":
            forget_shared(m, low, own, self.width)
        elif own.any() and m.shared.shape[1]:
            store_shared(m, low, own, self.stored(m), self.width)
        if in_local.any():
            store_local(m, low, in_local, np.zeros_like(in_local), self.stored(m), self.width)
