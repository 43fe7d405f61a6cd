"""What a launching program needs: PyCUDA's compiler, times by CUDA events, and the expected outputs of a family.

A reference is named in one of these ways; a file is relative to the family's folder, or has an absolute path.

    package.module              expected(inputs, problem, rng) of the module
    reference.py                the same function of a file
    reference.py:transpose      a function of the file; its arguments are matched by name: buffers and scalars of the
    package.module:transpose    kernel, sizes of the problem, or inputs, problem, rng

It returns ``{output: values}`` or ``{output: (index, values)}``, where the index selects the elements to check, or just
the array if there is only one output. Values are compared in float64. Beside it, ``library(problem)`` or
``transpose_library(problem)`` returns the call of a library's kernel for the same problem, if the family has one.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import math
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ncu_swizzle.base import child
from ncu_swizzle.base.errors import EnvironmentLacking, NcuSwizzleError, UsageError
from ncu_swizzle.base.files import is_file
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.kernels import fills
from ncu_swizzle.kernels.device import cuda, nvcc
from ncu_swizzle.kernels.family import Family, Problem
from ncu_swizzle.kernels.toolchain import Refused, nvcc_release

# Compile kernels with the nvcc on PATH, through PyCUDA.

TIMEOUT_S = 60.0
PATH_HINT = "put the CUDA toolkit's bin folder on PATH"


@cache
def nvcc_version() -> str:
    try:
        ended = child.run(["nvcc", "--version"], TIMEOUT_S, with_stderr=False)
    except NcuSwizzleError as error:
        raise EnvironmentLacking(f"nvcc does not work: {error}", PATH_HINT) from error
    if ended.status:
        raise EnvironmentLacking(f"nvcc --version exited with code {ended.status}", PATH_HINT)
    return nvcc_release(ended.log) or ended.log.strip()


class PyCudaCompiler:
    """The nvcc on PATH, run by PyCUDA."""

    def version(self) -> str:
        """Return nvcc's release and build, such as 13.0 (V13.0.88)."""
        return nvcc_version()

    def compile(self, unit: str, options: Sequence[str], arch: str, include: Sequence[Path]) -> bytes:
        """Return the cubin of a translation unit; raise Refused."""
        try:
            # PyCUDA warns about anything that nvcc prints on stderr, and leaves its folder behind where nvcc fails.
            with warnings.catch_warnings(), _temporary_files_that_go():
                warnings.simplefilter("ignore", UserWarning)
                code: bytes = nvcc.compile(
                    unit,
                    options=list(options),
                    arch=arch,
                    no_extern_c=True,
                    cache_dir=False,
                    include_dirs=[str(folder) for folder in include],
                )
        except cuda.CompileError as error:
            raise Refused(_compiler_log(error)) from error
        return code


@contextlib.contextmanager
def _temporary_files_that_go() -> Iterator[None]:
    """Let this process make temporary files in a folder that is removed at the end."""
    with scratch() as folder:
        before, tempfile.tempdir = tempfile.tempdir, str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = before


def _compiler_log(error: Any) -> str:
    """Return nvcc's output without PyCUDA's message around it."""
    streams = [getattr(error, stream, None) or "" for stream in ("stdout", "stderr")]
    return "".join(streams).strip() or str(error)


# Time launches with CUDA events.

WARM_UP = 5
SETTLE_MS = 200.0  # untimed run before each sample, until the clock settles for this kernel
SAMPLE_MS = 20.0  # the shortest sample: long enough to hide launch overhead


def time_launches(launches: Mapping[str, Callable[[], Any]], repeats: int) -> dict[str, list[float]]:
    """Return `repeats` samples of each kernel's time per launch in milliseconds; the kernels take turns.

    At its power limit a GPU lowers its clock within tens of milliseconds, and by how much depends on the kernel. So
    each kernel runs for a while before it is timed; otherwise it would run at the previous kernel's clock.
    """
    rough = {name: _roughly(launch) for name, launch in launches.items()}
    times: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(repeats):
        for name, launch in launches.items():
            _time(launch, math.ceil(SETTLE_MS / rough[name]))
            times[name].append(_time(launch, math.ceil(SAMPLE_MS / rough[name])))
    return times


def _roughly(launch: Callable[[], Any]) -> float:
    _time(launch, WARM_UP)
    return _time(launch, WARM_UP)


def _time(launch: Callable[[], Any], count: int) -> float:
    start, end = cuda.Event(), cuda.Event()
    start.record()
    for _ in range(count):
        launch()
    end.record()
    end.synchronize()
    return float(start.time_till(end)) / count


def copier(bytes_: int) -> Callable[[], Any]:
    """Return a device copy that moves this many bytes, half read and half written: the memory roofline."""
    source, target = (cuda.mem_alloc(bytes_ // 2) for _ in range(2))
    return lambda: cuda.memcpy_dtod_async(target, source, bytes_ // 2, None)


Expected = dict[str, tuple[Any, np.ndarray]]
USUAL = "expected"


def reference_module(family: Family) -> ModuleType:
    """Return the family's reference module; raise UsageError if it cannot be imported."""
    name, _ = _parts(family.reference)
    try:
        return _from_file(family.folder / name) if name.endswith(".py") else importlib.import_module(name)
    except Exception as error:
        if family.shipped or isinstance(error, NcuSwizzleError):
            raise
        raise UsageError(f"the reference {name} cannot be imported: {_said(error)}", f"python3 {name}") from error


def library_call(family: Family, problem: Problem) -> Callable[[], Any]:
    """Return what launches the library's kernel of a family once."""
    _, name = _parts(family.reference)
    call: Callable[[], Any] = getattr(reference_module(family), f"{name}_library" if name else "library")(problem)
    return call


def expected_outputs(
    family: Family, problem: Problem, inputs: Mapping[str, np.ndarray], rng: np.random.Generator
) -> Expected:
    """Return the expected values of each output, and the elements that they are for; raise UsageError."""
    _, name = _parts(family.reference)
    function = getattr(reference_module(family), name or USUAL, None)
    if not callable(function):
        raise UsageError(f"the reference {family.reference} has no function {name or USUAL}", "define it")
    arguments = _arguments(function, family, problem, inputs, rng) if name else (inputs, problem, rng)
    try:
        answer = function(*arguments)
    except Exception as error:
        if family.shipped:
            raise
        raise UsageError(f"the reference {family.reference} failed: {_said(error)}", "fix it") from error
    return _checked(answer, family, problem)


def _parts(reference: str) -> tuple[str, str]:
    """Return the module or file, and the function if one is named."""
    module_or_file, _, function = reference.rpartition(":")
    return (module_or_file, function) if module_or_file and function.isidentifier() else (reference, "")


def _from_file(file: Path) -> ModuleType:
    if not is_file(file):
        raise UsageError(f"the reference {file} does not exist", "name a Python file next to the kernels")
    name = f"ncu_swizzle_reference_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    sys.modules[name] = reference  # dataclasses and pickles look their module up
    sys.path.insert(0, str(file.parent))  # for imports of its neighbours
    try:
        spec.loader.exec_module(reference)
    finally:
        sys.path.remove(str(file.parent))
    return reference


def _arguments(
    function: Callable[..., Any],
    family: Family,
    problem: Problem,
    inputs: Mapping[str, np.ndarray],
    rng: np.random.Generator,
) -> list[Any]:
    scalars = {argument.name: fills.scalar(argument, problem) for argument in family.arguments if not argument.shape}
    available = {"inputs": inputs, "problem": problem, "rng": rng, **problem, **scalars, **inputs}
    parameter_names = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    for name in parameter_names:
        if name not in available:
            raise UsageError(
                f"the reference {family.reference} takes {name!r}, which is not an input or a size of the kernel",
                f"its parameters can be {', '.join(available)}",
            )
    return [available[name] for name in parameter_names]


def _checked(answer: Any, family: Family, problem: Problem) -> Expected:
    outputs = {argument.name: argument for argument in family.arguments if argument.output}
    if not isinstance(answer, Mapping):
        if len(outputs) != 1:
            raise UsageError(
                f"the reference {family.reference} returns one array for {len(outputs)} outputs",
                f"return a dictionary of {', '.join(outputs) or 'outputs; y=float32[n]:out is one'}",
            )
        answer = {next(iter(outputs)): answer}
    if answer.keys() != outputs.keys():
        raise UsageError(
            f"the reference {family.reference} returns {', '.join(map(str, answer)) or 'nothing'}, but the outputs are "
            f"{', '.join(outputs) or 'none'}",
            "return a dictionary with every output; y=float32[n]:out is one",
        )
    expected = {}
    for name, received in answer.items():
        index, values = received if isinstance(received, tuple) else (..., received)
        # One element seen as all of them: tries the index on the output's shape without taking its memory.
        whole = np.broadcast_to(np.empty((), bool), fills.shape(outputs[name], problem))
        array = np.asarray(values).astype(np.float64)
        if whole[index].shape != array.shape:
            raise UsageError(
                f"the reference {family.reference} returns {name} with shape {list(array.shape)}, but the kernel's is "
                f"{list(whole[index].shape)}",
                "return exactly the elements that the kernel writes",
            )
        expected[name] = (index, array)
    return expected


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def row_error(out: np.ndarray, reference: np.ndarray) -> float:
    """Return the largest of `row_errors`."""
    return float(np.max(row_errors(out, reference)))


def row_errors(out: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return |out - reference| / |reference| (2-norms) of each row along the last axis of (…, columns).

    A row of zeros in the reference has error 0 if it matches, else infinity.
    """
    difference, size = (np.linalg.norm(np.atleast_1d(values), axis=-1) for values in (out - reference, reference))
    unlike = np.where(difference == 0, 0.0, np.inf)  # for a row of zeros in the reference
    return np.where(size > 0, difference / np.where(size > 0, size, 1.0), unlike)
