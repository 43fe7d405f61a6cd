"""The expected outputs of a family: its reference, found and called; and those of the shipped kernels, in float64.

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

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from ncu_swizzle.base.errors import NcuSwizzleError, UsageError
from ncu_swizzle.base.files import is_file
from ncu_swizzle.kernels import fills
from ncu_swizzle.kernels.family import Family, Problem

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


# What the shipped kernels must compute: a function per problem, and what a library calls for the same on random inputs.

Inputs = Mapping[str, np.ndarray]


def copied(inputs: Inputs) -> Expected:
    """Return all of in."""
    return {"out": (..., inputs["in"].astype(np.float64))}


def transposed(inputs: Inputs) -> Expected:
    """Return all of in^T, (n, n)."""
    return {"out": (..., inputs["in"].T.astype(np.float64))}


def row_sums(inputs: Inputs) -> Expected:
    """Return the sum over the last axis, added up in float64."""
    return {"out": (..., inputs["in"].sum(axis=-1, dtype=np.float64))}


GEMM_ROWS_CHECKED = 256  # of all n; each costs 2 n^2 operations


def gemm(inputs: Inputs, problem: Mapping[str, int], rng: np.random.Generator) -> Expected:
    """Return rows of A B^T, (rows, n), with their index into c.

    All rows of a small problem. Of a large one a random row of every so many, over all columns: some of every block
    of C, so that a fault in any block shows.
    """
    n = problem["n"]
    if n <= GEMM_ROWS_CHECKED:
        rows = np.arange(n)
    else:
        step = n // GEMM_ROWS_CHECKED
        rows = np.arange(0, n, step) + rng.integers(step, size=len(range(0, n, step)))
    b = inputs["b"].astype(np.float64)
    return {"c": (rows, inputs["a"][rows].astype(np.float64) @ b.T)}


def mxf8(inputs: Inputs, problem: Mapping[str, int], rng: np.random.Generator) -> Expected:
    """Return rows of A B^T, each 32 values of a row times 2^(x - 127), (rows, n), with their index into c."""

    def scaled(name: str) -> np.ndarray:
        exponents = inputs[f"scales_{name}"].astype(np.int32) - 127
        return np.ldexp(inputs[name].astype(np.float64), exponents.repeat(32, axis=1))

    return gemm({"a": scaled("a"), "b": scaled("b")}, problem, rng)


def gemm_library(problem: Mapping[str, int]) -> Callable[[], object]:
    """Return a call of torch.matmul, which is cuBLAS."""
    import torch

    a, b = (torch.randn((problem["n"],) * 2, dtype=torch.float16, device="cuda") for _ in range(2))
    return lambda: torch.matmul(a, b.T)


ATTENTION_ROWS_CHECKED = 2048  # of all batch * heads * seq rows; each costs 4 * seq * d_head operations
ATTENTION_TILE = 64  # rows that one block computes


def attention(inputs: Inputs, problem: Mapping[str, int], rng: np.random.Generator) -> Expected:
    """Return rows of softmax(QK^T / sqrt(d)) V, (heads, rows, d_head), with their index (batch, head, row) into o.

    All rows of a small problem. Of a large one, a random row of every block of randomly chosen heads, so that
    a fault in any block of those heads shows.
    """
    heads = problem["batch"] * problem["heads"]
    if heads * problem["seq"] <= ATTENTION_ROWS_CHECKED:
        chosen = np.arange(heads)
        rows = np.tile(np.arange(problem["seq"]), (heads, 1))
    else:
        blocks = np.arange(0, problem["seq"], ATTENTION_TILE)
        chosen = rng.permutation(heads)[: max(1, ATTENTION_ROWS_CHECKED // len(blocks))]
        rows = blocks + rng.integers(ATTENTION_TILE, size=(len(chosen), len(blocks)))
    batch, head = np.divmod(chosen, problem["heads"])
    values: list[np.ndarray] = []
    for index in zip(batch, head, strict=True):
        q, k, v = (inputs[name][index].astype(np.float64) for name in ("q", "k", "v"))
        values.append(attend(q, k, v, rows[len(values)]))
    return {"o": ((batch[:, None], head[:, None], rows), np.stack(values))}


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return those rows of one head's output; q, k, v are (seq, d_head)."""
    scores = q[rows] @ k.T / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights @ v / weights.sum(axis=-1, keepdims=True))


def attention_library(problem: Mapping[str, int]) -> Callable[[], object]:
    """Return a call of PyTorch's scaled_dot_product_attention, FLASH_ATTENTION backend."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    shape = (problem["batch"], problem["heads"], problem["seq"], 128)
    q, k, v = (torch.randn(shape, dtype=torch.bfloat16, device="cuda") for _ in range(3))

    def call() -> object:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    return call
