"""A target executed without a GPU on concrete inputs: what every output holds afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.emulate.counts import Launch
from ncu_swizzle.emulate.execution import Execution
from ncu_swizzle.emulate.tensor_map import TENSOR_MAP_BYTES
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.engines.emulated_launch import ArgumentValue
from ncu_swizzle.kernels import check, fills
from ncu_swizzle.kernels.family import Argument, Target


@dataclass(frozen=True, eq=False, kw_only=True)
class ExecutedTarget:
    """A launch of a kernel that has been executed."""

    target: Target
    cubin: Cubin
    launch: Launch
    execution: Execution

    def where(self, argument: Argument) -> slice:
        """Return where a buffer lies in the memory's bytes."""
        buffer = next(each for each in self.launch.buffers if each.name == argument.name)
        return self.execution.memory.span(buffer.address, buffer.size)

    def array(self, argument: Argument) -> np.ndarray:
        """Return what a buffer holds, in its dtype and shape."""
        content = self.execution.memory.content[self.where(argument)]
        shape = fills.shape(argument, self.target.problem)
        return content.view(fills.numpy_dtype(argument.dtype)).reshape(shape)

    def known(self, argument: Argument) -> np.ndarray:
        """Return which elements of a buffer are known, in its shape."""
        known = self.execution.memory.known[self.where(argument)]
        shape = fills.shape(argument, self.target.problem)
        return np.asarray(known.reshape(*shape, -1).all(axis=-1))

    @cached_property
    def outputs(self) -> tuple[Argument, ...]:
        """The kernel's outputs."""
        return tuple(argument for argument in self.target.family.arguments if argument.output)


def concrete_launch(target: Target, cubin: Cubin, symbol: str, inputs: Mapping[str, np.ndarray]) -> Launch:
    """Return the launch of a target with these contents of its buffers; outputs without any hold nothing.

    Matrices behind tensor maps are buffers like others here. Raises what `emulated_launch.launch` raises.
    """
    family, kernel, problem = target.family, target.kernel, target.problem
    arguments = [kernel.boxed(argument) for argument in family.arguments]

    def held(argument: Argument, *, passed: bool) -> ArgumentValue:
        content = np.ascontiguousarray(inputs[argument.name]).tobytes() if argument.name in inputs else None
        return ArgumentValue(size=fills.size(argument, problem), content=content, name=argument.name, passed=passed)

    values: list[ArgumentValue] = []
    for argument in arguments:
        if argument.shape and not argument.tensor_map:
            values.append(held(argument, passed=argument.passed))
        elif argument.tensor_map:
            values.append(ArgumentValue(scalar=bytes(TENSOR_MAP_BYTES)))
        else:
            values.append(ArgumentValue(scalar=fills.scalar(argument, problem).tobytes()))
    mapped = [argument for argument in arguments if argument.tensor_map]
    values += [held(argument, passed=False) for argument in mapped]
    places = list(emulated_launch.addresses(values))
    at = {value.name: place for value, place in zip(values, places, strict=True) if value.buffer}
    for number, argument in enumerate(arguments):
        if argument.tensor_map:
            shape = fills.shape(argument, problem)
            tile = check.tiled(at[argument.name], argument.dtype, shape, argument.box, argument.swizzle)
            values[number] = ArgumentValue(scalar=tile.encoded())
        elif not argument.shape:
            values[number] = replace(values[number], scalar=fills.pointing(argument, values[number].scalar, at))
    if not family.shipped:
        passed = [argument for argument in family.arguments if argument.passed]
        sizes = [emulated_launch.POINTER if value.buffer else len(value.scalar) for value in values if value.passed]
        check.refuse_mismatch(cubin, symbol, passed, sizes, partial(check.declaring_text, family, kernel))
    return emulated_launch.launch(cubin, symbol, target.launch, values)
