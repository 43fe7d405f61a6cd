"""The expected outputs of a family: find its reference, call it, and check the shapes it returns.

A reference is named in one of these ways; a file is relative to the family's folder, or has an absolute path.

    ncu_swizzle.launch.references.gemm   expected(inputs, problem, rng) of the module
    reference.py                         the same function of a file
    reference.py:transpose               a function of the file; its arguments are matched by name: buffers and scalars
    package.module:transpose             of the kernel, sizes of the problem, or inputs, problem, rng

It returns ``{output: values}`` or ``{output: (index, values)}``, where the index selects the elements to check, or just
the array if there is only one output. Values are compared in float64.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ncu_swizzle.catalog import fills
from ncu_swizzle.catalog.family import Family, Problem
from ncu_swizzle.errors import NcuSwizzleError, UsageError
from ncu_swizzle.files import is_file

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
    for name, given in answer.items():
        index, values = given if isinstance(given, tuple) else (..., given)
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
