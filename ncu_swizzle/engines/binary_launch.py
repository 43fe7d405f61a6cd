"""One launch of a kernel in a cubin or PTX file, as a caller from Python describes it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ncu_swizzle.catalog import argument_syntax, launch_limits
from ncu_swizzle.catalog.expressions import evaluate
from ncu_swizzle.catalog.family import Argument
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.engines import emulated_launch
from ncu_swizzle.engines.emulated_launch import ArgumentValue
from ncu_swizzle.errors import UsageError

Parameter = bytes | np.ndarray | np.generic | float  # a float is also an int or a bool
FLOATS = {2: "<e", 4: "<f", 8: "<d"}  # struct's formats, by size in bytes
USUAL_BYTES = 4


@dataclass(frozen=True)
class BinaryLaunch:
    """Grid and block, bytes of dynamic shared memory, and the arguments: described as texts, or values themselves."""

    grid: Sequence[int]
    block: Sequence[int]
    shared: int = 0
    arguments: tuple[Argument, ...] = ()
    parameters: Sequence[Parameter] = ()
    problem: Mapping[str, int] = field(default_factory=dict)
    sample: int | None = None  # the seed of random inputs that stand for the data

    def values(self, cubin: Cubin, symbol: str, sample: int | None = None) -> list[ArgumentValue]:
        """Return the values of the kernel's parameters; `sample` is the seed of random inputs. Raises UsageError."""
        if self.arguments:
            problem = dict(self.problem)
            return emulated_launch.described_values(self.arguments, problem, cubin, symbol, sample=sample)
        return values_of(self.parameters, [slot.size for slot in cubin.attributes(symbol).parameters])


def described(
    grid: str,
    block: str,
    shared: str,
    args: Sequence[str],
    parameters: Sequence[Parameter],
    problem: Mapping[str, int],
    sample: int | None = None,
) -> BinaryLaunch:
    """Return the launch, its sizes evaluated for the problem. Raises UsageError."""
    if args and parameters:
        raise UsageError("args and parameters both describe the arguments", "give one of them")
    arguments = argument_syntax.parse_arguments(args, Path(), problem)
    blocks, threads = (_evaluated(sizes, what, problem) for what, sizes in (("grid", grid), ("block", block)))
    return BinaryLaunch(blocks, threads, evaluate(shared, problem), arguments, parameters, problem, sample)


def _evaluated(sizes: str, what: str, problem: Mapping[str, int]) -> list[int]:
    three = launch_limits.three(sizes, what)
    launch_limits.refuse_bad_sizes(three, what, problem)
    return [evaluate(size, problem) for size in three]


def values_of(parameters: Sequence[Parameter], sizes: Sequence[int]) -> list[ArgumentValue]:
    """Return a caller's values for parameters of these sizes in bytes; the launch refuses too many or too few."""
    padded = [*sizes, *[USUAL_BYTES] * (len(parameters) - len(sizes))]
    return [_value(parameter, size) for parameter, size in zip(parameters, padded, strict=False)]


def _value(parameter: Parameter, size: int) -> ArgumentValue:
    """Return a caller's value for a parameter of that many bytes."""
    if isinstance(parameter, np.ndarray):
        return ArgumentValue(size=parameter.nbytes, content=parameter.tobytes())
    if isinstance(parameter, np.generic):
        return ArgumentValue(scalar=parameter.tobytes())
    if isinstance(parameter, bytes):
        return ArgumentValue(scalar=parameter)
    try:
        if isinstance(parameter, int):
            return ArgumentValue(scalar=int(parameter).to_bytes(size, "little", signed=parameter < 0))
        return ArgumentValue(scalar=struct.pack(FLOATS[size], parameter))
    except (OverflowError, KeyError) as error:
        raise UsageError(
            f"{parameter!r} does not fit in a parameter of {size} bytes", f"give its bytes: struct.pack, {size} in all"
        ) from error
