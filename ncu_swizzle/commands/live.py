"""A function of the caller's own, with tensors and numbers, as the texts that describe a kernel.

The function is compiled in another process, from its file. Tensors go there as files, with what they hold; a text such
as ``"float16[2048,2048]"`` stands for one that nobody has made yet.
"""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.files import brief
from ncu_swizzle.base.texts import Texts, listed
from ncu_swizzle.kernels.family import ML_DTYPES
from ncu_swizzle.kernels.options import KernelDescription

# Arrays of structured dtypes: passed on as bytes, with the name of their dtype in the function's file.


def is_record(value: object) -> bool:
    """Return whether a value is an array whose elements have fields."""
    fields = getattr(getattr(value, "dtype", None), "names", None)
    return fields is not None and hasattr(value, "shape") and not isinstance(value, np.generic)


def as_bytes(array: Any) -> np.ndarray:
    """Return an array's bytes, those of an element along the last axis."""
    held = np.ascontiguousarray(array)
    return held.view(np.uint8).reshape(*held.shape, held.dtype.itemsize)


def names(passed: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, str]:
    """Return what the file calls the dtypes of such arrays, by argument. Raises UsageError for one without a name."""
    dtypes = {name: thing for name, thing in known.items() if isinstance(thing, np.dtype)}
    found = {}
    for name, value in passed.items():
        if not is_record(value):
            continue
        fitting = [own for own, dtype in dtypes.items() if dtype == value.dtype]
        if not fitting:
            raise UsageError(
                f"{name} has a structured dtype without a name in the function's file",
                "assign it there: particle = np.dtype([…])",
            )
        found[name] = fitting[0]
    return found


# A function of the caller's own that computes what a kernel should: called with tensors, or refused.


def reference_answer(reference: Callable[..., Any], passed: Mapping[str, Any]) -> Any:
    """Return what the reference returns for the arguments that it takes by name. Raises UsageError."""
    wanted = _wanted(reference, passed)
    for name in wanted:
        if isinstance(passed[name], str) and "[" in passed[name]:
            raise UsageError(
                f"the reference takes {name}, and {name} is {passed[name]!r}, which holds nothing",
                f"pass a tensor as {name}",
            )
    try:
        return reference(**{name: passed[name] for name in wanted})
    except Exception as error:
        raise UsageError(
            f"the reference failed: {type(error).__name__}: {brief(error)}", f"it was called with {', '.join(wanted)}"
        ) from error


def _wanted(reference: Callable[..., Any], passed: Mapping[str, Any]) -> list[str]:
    """Return the arguments that a reference takes; raise UsageError for one that the kernel does not have."""
    parameters = inspect.signature(reference).parameters.values()
    if any(each.kind is Parameter.VAR_KEYWORD for each in parameters):
        return list(passed)
    named = [each for each in parameters if each.kind not in (Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_ONLY)]
    unknown = [each.name for each in named if each.name not in passed and each.default is Parameter.empty]
    if unknown or len(named) < len(parameters):
        what = ", ".join(unknown) or "arguments by position"
        raise UsageError(
            f"the reference takes {what}, and the kernel's arguments are passed by name",
            f"it may take {', '.join(passed)}",
        )
    return [each.name for each in named if each.name in passed]


def refuse_unlike(answers: Mapping[str, Any], passed: Mapping[str, Any], outputs: Sequence[str]) -> None:
    """Raise UsageError for an answer that is no output of the kernel, or has another shape."""
    for name, values in answers.items():
        if name not in outputs:
            raise UsageError(
                f"the reference returns {name}, which is not among the outputs: {', '.join(outputs) or 'none named'}",
                f'outputs="{name}"',
            )
        given, made = getattr(passed.get(name), "shape", None), getattr(values, "shape", None)
        if given is not None and tuple(made or ()) != tuple(given):
            raise UsageError(
                f"the reference returns {name} as {_by(made)}, and the kernel writes {_by(given)}",
                "return an array of the output's shape",
            )


def _by(shape: Any) -> str:
    return "x".join(map(str, shape)) if shape else "a number"


EXPECTED = "expected.py"
READER = '''"""Written by ncu_swizzle.profile: what the caller's reference returned."""

from pathlib import Path

import numpy as np


def expected(inputs, problem, rng):
    return {{name: np.load(Path(__file__).with_name(f"{{name}}.expected.npy")) for name in {names!r}}}
'''
_SHAPED = re.compile(r"\s*\w+\s*\[[^\]]*\]")


@dataclass(frozen=True, kw_only=True)
class LiveKernel:
    """A function with what it is called with: by parameter, and the compiler's options."""

    function: Any
    passed: Mapping[str, Any]
    options: Mapping[str, Any]
    outputs: tuple[str, ...] = ()
    grid: Any = ""

    @property
    def entry(self) -> str:
        """The function as it is named on the command line."""
        return entry_of(self.function)

    def description(self, given: KernelDescription, folder: Path) -> KernelDescription:
        """Return its description; contents of tensors go to files in the folder. Raises UsageError."""
        grid = self.grid({**self.passed, **self.options}) if callable(self.grid) else self.grid
        blocks = grid if isinstance(grid, str) else ",".join(map(str, np.atleast_1d(grid)))
        texts = tuple(f"{name}={self._text(name, value, folder)}" for name, value in self.passed.items())
        dtypes = names(self.passed, _plain(self.function).__globals__)
        tuning = (*given.tuning, *(f"{name}={value}" for name, value in {**self.options, **dtypes}.items()))
        return replace(given, launch=replace(given.launch, grid=blocks, args=texts), tuning=tuning)

    def expected(self, reference: Callable[..., Any], folder: Path) -> Path:
        """Write what the reference returns, and the module that gives it to the check of outputs; return that."""
        answer = reference_answer(reference, self.passed)
        if not isinstance(answer, Mapping):
            if len(self.outputs) != 1:
                raise UsageError(
                    f"the reference returns one array for {len(self.outputs)} outputs",
                    'outputs="c" names the argument that it is for; or return a dictionary',
                )
            answer = {self.outputs[0]: answer}
        refuse_unlike(answer, self.passed, self.outputs)
        for name, values in answer.items():
            np.save(folder / f"{name}.expected.npy", _array(values).astype(np.float64))
        (folder / EXPECTED).write_text(READER.format(names=tuple(answer)), encoding="utf-8")
        return folder / EXPECTED

    def _text(self, name: str, value: Any, folder: Path) -> str:
        """Return an argument as it is typed after its name."""
        out = ":out" if name in self.outputs else ""
        if isinstance(value, str) and _SHAPED.match(value):
            return value if ":" in value or not out else f"{value}{out}"
        if not is_tensor(value):
            return value if isinstance(value, str) else repr(value)
        if is_record(value):
            value = as_bytes(value)
        dtype, shape = _dtype(value), tuple(value.shape) or (1,)
        if out:
            return f"{dtype}[{','.join(map(str, _laid(value, shape)))}]{out}"
        if str(getattr(value, "device", "")) == "meta":
            return f"{dtype}[{','.join(map(str, shape))}]"
        array = _bits(value)
        file = folder / f"{name}.npy"
        np.save(file, array)
        return f"{dtype}[{','.join(map(str, array.shape))}]:{file}"


def is_function(kernel: object) -> TypeGuard[Callable[..., Any]]:
    """Return whether this is a function, and not a kernel's name or file."""
    return not isinstance(kernel, str | Path)


def called(kernel: object, outputs: Texts, keywords: dict[str, Any], known: Sequence[str]) -> LiveKernel | None:
    """Return a function with its launch, taken out of the keywords; None for what is not a function.

    Its arguments go by position or name; a keyword that is not `known` is one of them, or an option of its compiler.
    """
    if not is_function(kernel):
        if isinstance(kernel, str) and "\n" in kernel:  # lines are those of the file that holds it
            raise UsageError(
                "the kernel is a text of several lines, and no name",
                "name CUDA C++ by the file and the variable that hold it: 'kernels.py::VARIABLE::kernel'",
            )
        return None
    args, grid = keywords.pop("args", ()), keywords.pop("grid", "")
    plain = _plain(kernel)
    names = list(inspect.signature(plain).parameters)
    if isinstance(args, Mapping):
        passed = dict(args)
    else:
        values = [args] if isinstance(args, str) else list(args)
        if len(values) > len(names):
            raise UsageError(
                f"{plain.__name__} takes {len(names)} arguments, {len(values)} were given", ", ".join(names)
            )
        passed = dict(zip(names, values, strict=False))
    given = {name: keywords.pop(name) for name in list(keywords) if name in names or name not in known}
    passed |= {name: value for name, value in given.items() if name in names}
    options = {name: value for name, value in given.items() if name not in names}
    return LiveKernel(function=kernel, passed=passed, options=options, outputs=listed(outputs), grid=grid)


def entry_of(function: Any) -> str:
    """Return a function as ``FILE::NAME``; raise UsageError for one that no file holds."""
    plain = _plain(function)
    file, name = Path(plain.__code__.co_filename), plain.__qualname__
    if not file.is_file():
        raise UsageError(
            f"{name} is in no file: {file}", "write it to one: in a notebook, %%writefile kernels.py, then import it"
        )
    # The variables that hold it: maybe another function made it.
    bound = [variable for variable, thing in plain.__globals__.items() if thing is function]
    if "." in name and not bound:
        raise UsageError(f"{name} is defined inside of another function or class", "define it at the top of its file")
    return f"{file}::{name if name in bound or not bound else bound[0]}"


def is_tensor(value: object) -> bool:
    """Return whether a value is an array or a tensor."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, np.generic)


def _plain(function: Any) -> Any:
    """Return the Python function inside of its decorators."""
    plain = inspect.unwrap(function)
    for _ in range(10):
        if hasattr(plain, "__code__"):
            return plain
        plain = getattr(plain, "py_func", None) or getattr(plain, "fn", None)
    raise UsageError(
        f"{type(function).__name__} is neither a kernel's name nor a function",
        "give the name of a kernel, a file, or a function decorated by triton.jit, cute.jit or numba.cuda.jit; "
        "CUDA C++ is named by its file and variable: 'kernels.py::VARIABLE::kernel'",
    )


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _laid(tensor: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a tensor's memory, which is flat if there are gaps between its rows."""
    strides = tensor.stride() if callable(getattr(tensor, "stride", None)) else None
    if strides is None:
        return shape
    # Row-major: the stride of a dimension is the product of the sizes behind it.
    usual = tuple(itertools.accumulate((1, *reversed(shape[1:])), lambda total, size: total * size))[::-1]
    if tuple(strides) == usual or math.prod(shape) <= 1:
        return shape
    # From the first element to the last one, gaps included.
    return (1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)),)


def _bits(tensor: Any) -> np.ndarray:
    """Return a tensor's memory as NumPy has it, what it has no dtype for as unsigned integers."""
    if isinstance(tensor, np.ndarray):
        return np.ascontiguousarray(tensor)
    if not hasattr(tensor, "detach"):
        return np.asarray(tensor)
    host = tensor.detach()
    laid = _laid(host, tuple(host.shape))
    flat = host if laid == tuple(host.shape) else host.as_strided(laid, (1,))
    if bytes_ := ML_DTYPES.get(_dtype(tensor)):
        import torch

        # NumPy has no such dtype, so the bits go over as integers; int16, which every PyTorch has, unlike uint16.
        whole = flat.cpu().contiguous().view({1: torch.uint8, 2: torch.int16}[bytes_]).numpy()
        return np.atleast_1d(whole.view({1: np.uint8, 2: np.uint16}[bytes_]))
    return np.atleast_1d(flat.cpu().contiguous().numpy())


def _array(values: Any) -> np.ndarray:
    """Return what a reference returned as an array of numbers."""
    if hasattr(values, "detach"):
        return np.asarray(values.detach().double().cpu().numpy())
    return np.asarray(values)
