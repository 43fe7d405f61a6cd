"""A function in a Python file: compiled in a child process, and then a target like any other.

What was typed for its arguments and options are texts until the child turns them into values, see `contract.literal`.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ncu_swizzle.base import bounds, child, errors, paths
from ncu_swizzle.base.bounds import LONGEST_ANSWER
from ncu_swizzle.base.errors import Hint, NcuSwizzleError, ProgramFailed, TimeLimit, Typed, Untrusted, UsageError
from ncu_swizzle.base.files import parse_json, read_bytes, write_json
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.base.validate import from_plain
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.frontends import python_kernels, triton_layouts
from ncu_swizzle.frontends.contract import CODE, CompiledFunction, CompileRequest, Configuration, Given, KernelParameter
from ncu_swizzle.kernels import fills
from ncu_swizzle.kernels.arguments import UNKNOWN
from ncu_swizzle.kernels.family import Argument, Family, Kernel, LaunchTexts, Target
from ncu_swizzle.kernels.limits import along_axes, evaluate
from ncu_swizzle.kernels.nvcc_options import TRUST
from ncu_swizzle.kernels.toolchain import ARCH
from ncu_swizzle.reports.model import Profile

# Have a function in a Python file compiled by a child process, which imports the file, within the time limit.

REQUEST, ANSWER = "request.json", "answer.json"
CHILD = "NCU_SWIZZLE_COMPILES"  # set in the child: a file that profiles while it is imported would start another


def compile_in_child(request: CompileRequest, timeout_s: float) -> tuple[CompiledFunction, bytes]:
    """Return the compiled function and its cubin.

    Raises UsageError for the file, the function, or its arguments; EnvironmentLacking for a library that is missing;
    and TimeLimit.
    """
    with scratch() as folder:
        content = _answer("compile", request, timeout_s, folder)
        return from_plain(CompiledFunction, content["kernel"]), read_bytes(folder / CODE, largest=LONGEST_ANSWER)


def configurations(request: CompileRequest, timeout_s: float) -> list[Configuration]:
    """Return the configurations that a function is tuned over; none if it is not."""
    with scratch() as folder:
        return [tuple(each) for each in _answer("configurations", request, timeout_s, folder)["configurations"]]


def refuse_while_imported() -> None:
    """Raise UsageError in the child: the file that it imports profiles a kernel at once."""
    if CHILD in os.environ:
        raise UsageError(
            "the file profiles a kernel while it is imported, which compiling that kernel does",
            "put the call under if __name__ == '__main__':",
        )


def _answer(action: str, request: CompileRequest, timeout_s: float, folder: Path) -> dict[str, Any]:
    refuse_while_imported()
    write_json(folder / REQUEST, asdict(request))
    command = [sys.executable, "-m", "ncu_swizzle.frontends", action, str(folder)]
    try:
        ended = child.run(command, timeout_s, environment={**paths.child_environment(), **_own_caches(folder, request)})
    except TimeLimit as error:
        raise TimeLimit(
            f"compiling {request.name}: {error}", Hint("raise the limit with ", Typed("--timeout SECONDS"))
        ) from error
    try:
        content: dict[str, Any] = parse_json(read_bytes(folder / ANSWER, largest=LONGEST_ANSWER), ANSWER)
    except NcuSwizzleError:
        raise ProgramFailed(
            f"compiling {request.name} ended with status {ended.status}; its last lines:\n"
            f"{bounds.last_lines(ended.log)}",
            f"python3 {request.file} shows whether the file can be imported",
        ) from None
    if reported := content.get("error"):
        raise errors.of_json(reported)
    return content


def _own_caches(folder: Path, request: CompileRequest) -> dict[str, str]:
    """Return the variables that keep compilers off the user's caches, and those that are read when a file is imported.

    Triton's cache may hold the kernel of an equal file elsewhere, and with it that file's path.
    """
    own = {"TRITON_CACHE_DIR": "triton", "CUDA_TILE_CACHE_DIR": "cutile", "CUDA_TILE_TEMP_DIR": "tile"}
    places = {name: str(folder / inside) for name, inside in own.items()}
    return {**places, **python_kernels.variables(folder, request.arch)}


# A target whose function is compiled: the same launch as of a cubin, with its parameters in the kernel's order.

POINTER = "uint64"


@dataclass(frozen=True, kw_only=True)
class Built:
    """A target that can be launched, its cubin, and which compiler made it."""

    target: Target
    code: bytes
    compiler: str
    notes: tuple[str, ...] = ()
    intermediate: str = ""  # the compiler's own view of the kernel, see `layouts`
    explicit: bool = False

    def explained(self, profile: Profile) -> Profile:
        """Return a profile of the kernel with its compiler's notes on accesses with conflicts."""
        return triton_layouts.with_layout_notes(profile, self.intermediate, self.explicit)


def built(target: Target, arch: str, timeout_s: float) -> Built:
    """Compile a function in a Python file. Raises what `compile_in_child` raises, and Untrusted."""
    request = request_of(target, arch)
    kernel, code = compile_in_child(request, timeout_s)
    family = target.family
    own = tuple(_argument(parameter, family) for parameter in kernel.parameters)
    launch = LaunchTexts(
        grid=tuple(map(str, along_axes(kernel.launch.grid))),
        block=tuple(map(str, along_axes(kernel.launch.block))),
        shared=str(kernel.launch.shared),
        cluster=_cluster(kernel.launch.cluster, code, kernel.entry),
    )
    launched = replace(family, launch=launch, arguments=own, options=(), arch=request.arch)
    compiled = replace(target.kernel, function=kernel.entry, options=(), launch=LaunchTexts())
    return Built(
        target=Target(launched, compiled, target.problem),
        code=code,
        compiler=kernel.compiler,
        notes=kernel.notes,
        intermediate=kernel.intermediate,
        explicit=kernel.explicit,
    )


def request_of(target: Target, arch: str = "") -> CompileRequest:
    """Return what to compile for a target; raise Untrusted if only a project file names its source."""
    family, kernel, problem = target.family, target.kernel, target.problem
    source = family.source(kernel)
    if family.untrusted:
        raise Untrusted(f"{source.name} needs your trust: compiling {kernel.name} executes it", TRUST)
    usual = family.launch  # the grid may be an expression over the function's own integers, too
    block = () if usual.block == UNKNOWN else tuple(evaluate(size, problem) for size in usual.block)
    options = (*family.options, *kernel.options)
    arguments = overridden(family, options)
    chosen = {name: value for name, _, value in (each.partition("=") for each in options)}
    named = {argument.name for argument in arguments}
    return CompileRequest(
        file=str(source),
        function=kernel.entry,
        arch=family.arch or arch or ARCH,
        arguments=tuple(_given(argument, problem, chosen) for argument in arguments),
        options={name: value for name, value in chosen.items() if name not in named},
        grid=() if usual.grid == UNKNOWN else usual.grid,
        block=block,
        shared=evaluate(kernel.launch.shared or usual.shared, problem),
        sizes=problem,
    )


def tuned(family: Family, timeout_s: float) -> Family:
    """Return a family with a kernel per configuration that its function is tuned over; itself if there is none."""
    kernel = family.kernels[0]
    request = request_of(Target(family, kernel, family.problem()))
    found = configurations(request, timeout_s)
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


def overridden(family: Family, options: Sequence[str]) -> tuple[Argument, ...]:
    """Return the family's arguments, those that a variant's options name with the options' values."""
    values = dict(option.split("=", 1) for option in options)
    return tuple(
        replace(argument, value=values[argument.name]) if argument.name in values and not argument.shape else argument
        for argument in family.arguments
    )


def _given(argument: Argument, problem: Mapping[str, int], options: Mapping[str, str]) -> Given:
    shape = fills.shape(argument, problem) if argument.shape else ()
    record = options.get(argument.name, "") if shape else ""
    return Given(
        name=argument.name,
        dtype=argument.dtype,
        shape=shape,
        value=argument.value,
        box=argument.box,
        swizzle=argument.swizzle,
        record=record,
    )


def _argument(parameter: KernelParameter, family: Family) -> Argument:
    """Return the argument of a parameter: a number, memory for the compiler's own use, or a buffer of the family's."""
    if parameter.dtype:
        return Argument(name=parameter.name, dtype=parameter.dtype, value=parameter.value)
    if parameter.scratch:
        return Argument(name=parameter.name, dtype="uint8", shape=(str(parameter.scratch),), fill="zeros")
    named = next((argument for argument in family.arguments if argument.name == parameter.name), None)
    if named is None:  # the compiler wants none of its memory: a null pointer
        return Argument(name=parameter.name, dtype=POINTER, value="0")
    mapped, box = bool(parameter.box), parameter.box
    return replace(named, tensor_map=mapped, box=box, swizzle=parameter.swizzle, passed=parameter.passed)


def _cluster(sizes: tuple[int, ...], code: bytes, entry: str) -> tuple[int, ...]:
    """Return a launch's cluster, if it is of several blocks and the cubin does not have it."""
    alone = math.prod(sizes) == 1 or any(Cubin(code, entry).attributes(entry).cluster)
    return () if alone else sizes
