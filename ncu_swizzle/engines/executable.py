"""A target emulated once, with what it takes to execute it again: its code and its launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ncu_swizzle.catalog import fills
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.location import Location
from ncu_swizzle.cubin.shared_arrays import SharedArray, shared_arrays
from ncu_swizzle.emulate.code import Code
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.engines.emulated_launch import HEAP
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings, emulate_target
from ncu_swizzle.engines.module_image import GLOBALS


@dataclass(frozen=True)
class Executable:
    """A target, its counts, and its code."""

    target: Target
    emulated: Emulated
    code: Code

    def launch(self, sample: int | None, *, varied: bool = False) -> Launch:
        """Return the launch with random inputs of this seed; without one, nothing that buffers hold is known.

        `varied`: buffers that are described as one number everywhere hold different ones, too.
        """
        binary, target = self.emulated.binary, self.target
        if varied:
            arguments = tuple(fills.varied(argument) for argument in target.family.arguments)
            target = replace(target, family=replace(target.family, arguments=arguments))
        launch = emulated_launch.launch_of(target, binary.cubin, binary.symbol, sample)
        if sample is not None:
            return launch
        module = {at: content for at, content in launch.memory.items() if at >= GLOBALS or at < HEAP}
        return replace(launch, memory=module)

    @cached_property
    def stacks(self) -> Mapping[int, tuple[Location, ...]]:
        """The source lines of each instruction by its offset, innermost first."""
        return {each.pc: tuple(each.stack) for each in self.emulated.profile.instructions}

    @cached_property
    def arrays(self) -> tuple[SharedArray, ...]:
        """Its shared arrays, as far as they are known."""
        binary = self.emulated.binary
        return shared_arrays(binary.cubin, binary.symbol, self.launch(None).shared_dynamic)


def executable(target: Target, settings: EmulationSettings) -> Executable:
    """Compile and emulate a target. Raises what `emulate_target` raises."""
    emulated = emulate_target(target, settings)
    binary = emulated.binary
    text = settings.toolchain.disassemble(binary.cubin.data, binary.cubin.name)
    return Executable(target, emulated, emulated_launch.code(binary.cubin, binary.symbol, text))
