"""A kernel of a cubin or PTX file, emulated with values of a test's own as its parameters."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.engines import emulated_launch, emulation
from ncu_swizzle.engines.emulated_launch import ArgumentValue, Binary
from ncu_swizzle.engines.emulated_profile import profile_of_counts
from ncu_swizzle.engines.emulation import Emulated, EmulationSettings
from ncu_swizzle.engines.settings import unheard
from ncu_swizzle.kernels.check import code_in
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.reports.model import KernelId

Parameter = bytes | np.ndarray


def launched(
    file: Path, kernel: str, shape: LaunchShape, parameters: Sequence[Parameter], *, cached: bool = True
) -> Emulated:
    """Emulate one launch; an array stands for a pointer to it, whose contents are known, bytes for anything else."""
    settings = EmulationSettings(cached=cached)
    cubin = Cubin(code_in(file, settings.toolchain, cached), file.name)
    symbol = names.find(cubin, kernel)
    launch = emulated_launch.launch(cubin, symbol, shape, list(map(value_of, parameters)))
    binary = Binary(cubin=cubin, symbol=symbol)
    counts = emulation.counts_of(binary, launch, settings, unheard)
    named = KernelId(name=kernel or symbol, function=names.demangle(symbol))
    profile = profile_of_counts(named, {}, binary=binary, launch=launch, counts=counts, compiler="")
    return emulation.emulated_of(profile, counts, binary)


def value_of(parameter: Parameter) -> ArgumentValue:
    """Return what a launch has for a parameter."""
    if isinstance(parameter, bytes):
        return ArgumentValue(scalar=parameter)
    return ArgumentValue(size=parameter.nbytes, content=parameter.tobytes())
