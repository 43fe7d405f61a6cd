"""A target whose function is compiled: the same launch as of a cubin, with its parameters in the kernel's order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ncu_swizzle.build.toolchain import ARCH
from ncu_swizzle.catalog import fills, python_family
from ncu_swizzle.catalog.checkout import TRUST
from ncu_swizzle.catalog.expressions import evaluate
from ncu_swizzle.catalog.family import Argument, Family, Kernel
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.errors import Untrusted
from ncu_swizzle.frontends import layouts, parent
from ncu_swizzle.frontends.request import CompileRequest, Configuration, Given, KernelParameter
from ncu_swizzle.profiles.model import Profile

POINTER = "uint64"


@dataclass(frozen=True)
class Built:
    """A target that can be launched, its cubin, and which compiler made it."""

    target: Target
    code: bytes
    compiler: str
    notes: tuple[str, ...] = ()
    intermediate: str = ""  # the compiler's own view of the kernel, see `layouts`
    explicit: bool = False

    def explained(self, profile: Profile) -> Profile:
        """Return a profile of the kernel with what its compiler says of accesses with conflicts."""
        return layouts.explained(profile, self.intermediate, self.explicit)


def built(target: Target, arch: str, timeout_s: float) -> Built:
    """Compile a function in a Python file. Raises what `parent.compiled` raises, and Untrusted."""
    request = request_of(target, arch)
    kernel, code = parent.compiled(request, timeout_s)
    family = target.family
    own = tuple(_argument(parameter, family) for parameter in kernel.parameters)
    launched = replace(
        family,
        grid=_three(kernel.grid),
        block=_three(kernel.block),
        shared=str(kernel.shared),
        arguments=own,
        options=(),
        arch=request.arch,
        cluster=_cluster(kernel.cluster, code, kernel.entry),
    )
    compiled = replace(target.kernel, function=kernel.entry, options=(), shared="")
    return Built(
        Target(launched, compiled, target.problem),
        code,
        kernel.compiler,
        kernel.notes,
        kernel.intermediate,
        kernel.explicit,
    )


def request_of(target: Target, arch: str = "") -> CompileRequest:
    """Return what to compile for a target; raise Untrusted if only a project file names its source."""
    family, kernel, problem = target.family, target.kernel, target.problem
    source = family.source(kernel)
    if family.untrusted:
        raise Untrusted(f"{source.name} needs your trust: compiling {kernel.name} executes it", TRUST)
    block = () if family.block == python_family.UNKNOWN else tuple(evaluate(size, problem) for size in family.block)
    options = (*family.options, *kernel.options)
    arguments = python_family.overridden(family, options)
    chosen = {name: value for name, _, value in (each.partition("=") for each in options)}
    named = {argument.name for argument in arguments}
    return CompileRequest(
        file=str(source),
        function=kernel.entry,
        arch=family.arch or arch or ARCH,
        arguments=tuple(_given(argument, problem, chosen) for argument in arguments),
        options={name: value for name, value in chosen.items() if name not in named},
        grid=() if family.grid == python_family.UNKNOWN else family.grid,
        block=block,
        shared=family.shared_memory(kernel, problem),
        sizes=problem,
    )


def tuned(family: Family, timeout_s: float) -> Family:
    """Return a family with a kernel per configuration that its function is tuned over; itself if there is none."""
    kernel = family.kernels[0]
    request = request_of(Target(family, kernel, family.problem()))
    found = parent.configurations(request, timeout_s)
    chosen = {*request.options, *(argument.name for argument in request.arguments)}
    if not found or any(option.partition("=")[0] in chosen for option in found[0]):
        return family
    kernels = tuple(_configured(family, kernel, each) for each in found)
    first = kernels[0].name
    return replace(
        family, kernels=tuple(replace(each, baseline="" if each.name == first else first) for each in kernels)
    )


def _configured(family: Family, kernel: Kernel, options: Configuration) -> Kernel:
    name = "-".join((family.name, *(option.replace("=", "") for option in options)))
    return replace(kernel, name=name, title=f"With {' '.join(options)}", options=(*kernel.options, *options))


def _given(argument: Argument, problem: Mapping[str, int], options: Mapping[str, str]) -> Given:
    shape = fills.shape(argument, problem) if argument.shape else ()
    record = options.get(argument.name, "") if shape else ""
    return Given(argument.name, argument.dtype, shape, argument.value, argument.box, argument.swizzle, record)


def _argument(parameter: KernelParameter, family: Family) -> Argument:
    """Return the argument of a parameter: a number, memory for the compiler's own use, or a buffer of the family's."""
    if parameter.dtype:
        return Argument(parameter.name, parameter.dtype, value=parameter.value)
    if parameter.scratch:
        return Argument(parameter.name, "uint8", (str(parameter.scratch),), fill="zeros")
    given = next((argument for argument in family.arguments if argument.name == parameter.name), None)
    if given is None:  # the compiler wants none of its memory: a null pointer
        return Argument(parameter.name, POINTER, value="0")
    mapped, box = bool(parameter.box), parameter.box
    return replace(given, tensor_map=mapped, box=box, swizzle=parameter.swizzle, passed=parameter.passed)


def _cluster(sizes: tuple[int, ...], code: bytes, entry: str) -> tuple[int, ...]:
    """Return a launch's cluster, if it is of several blocks and the cubin does not have it."""
    alone = math.prod(sizes) == 1 or any(Cubin(code, entry).attributes(entry).cluster)
    return () if alone else sizes


def _three(sizes: tuple[int, ...]) -> tuple[str, str, str]:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return str(x), str(y), str(z)
