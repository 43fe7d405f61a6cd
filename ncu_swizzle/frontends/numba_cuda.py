"""Numba: functions under ``@cuda.jit``, compiled to PTX without a GPU and assembled by ptxas.

An array becomes 5 + 2 * ndim parameters: who owns its memory (twice, null), elements, bytes of one, the data, the
shape, and the strides in bytes.
"""

from __future__ import annotations

import copy
import inspect
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from ncu_swizzle.base.errors import Hint, Typed, UsageError
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.frontends import contract
from ncu_swizzle.frontends.contract import CompiledFunction, CompileRequest, Given, KernelParameter, grid, literal
from ncu_swizzle.kernels.family import LITERAL
from ncu_swizzle.kernels.fills import numpy_dtype
from ncu_swizzle.kernels.limits import LaunchShape
from ncu_swizzle.kernels.toolchain import Toolchain

# Arrays of structured dtypes: given as bytes, and the name of the dtype in the file (``--option p=particle``).


def elements(argument: Given, request: CompileRequest, module: ModuleType) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return an array's dtype and shape; the last axis of bytes is an element of a structured dtype's."""
    if not argument.record:
        return numpy_dtype(argument.dtype), argument.shape
    dtype = _named(argument, request, module)
    if argument.dtype != "uint8" or argument.shape[-1] != dtype.itemsize:
        outer = argument.shape[:-1] if argument.dtype == "uint8" and argument.shape[1:] else argument.shape
        shape = ",".join(map(str, (*outer, dtype.itemsize)))
        raise UsageError(
            f"{request.name}: {argument.name} is {argument.dtype}{list(argument.shape)}, and {argument.record} has "
            f"{dtype.itemsize} bytes",
            Hint("its elements as bytes: ", Typed(f"--arg {argument.name}=uint8[{shape}]")),
        )
    return dtype, argument.shape[:-1]


def _named(argument: Given, request: CompileRequest, module: ModuleType) -> np.dtype[Any]:
    """Return a dtype of the file: NumPy's, or Numba's record type. Raises UsageError."""
    from numba import types
    from numba.np import numpy_support

    named = getattr(module, argument.record, None)
    if isinstance(named, types.Record):
        made: np.dtype[Any] = numpy_support.as_dtype(named)
        return made
    if isinstance(named, np.dtype):
        return named
    known = [name for name, thing in vars(module).items() if isinstance(thing, np.dtype | types.Record)]
    raise UsageError(
        f"{request.name}: {argument.record} is no dtype of the file"
        + (f"; its dtypes: {', '.join(known)}" * bool(known)),
        Typed(f"--option {argument.name}={known[0]}")
        if known
        else Hint("leave out ", Typed(f"--option {argument.name}=…")),
    )


# The lines of functions that Numba itself inlines: those under ``inline="always"``, and functions within a kernel.
#
# Numba keeps the lines of their statements but says that they are the kernel's file's, and not who calls them. Here
# each statement keeps its callers, and is located in its own function, inlined into them.

FRAMES = "ncu_swizzle_frames"  # of a statement's location: itself and its callers, innermost first


@dataclass(frozen=True)
class InlinedFunction:
    """A function that was inlined: its name, its file, and the line that it begins at."""

    name: str
    file: str
    line: int


Frame = tuple[int, InlinedFunction | None]  # a line, and the function that it is in; None for the one compiled


def keep_callers() -> None:
    """Have Numba's inlining keep callers, and its code be located with them; does nothing for an unknown version."""
    try:
        from numba.cuda import debuginfo, lowering
        from numba.cuda.core import inline_closurecall

        worker, closure = inline_closurecall.InlineWorker.inline_ir, inline_closurecall.inline_closure_call
        located = lowering.Lower.lower_inst
        usual = debuginfo.DIBuilder._di_location
    except (ImportError, AttributeError):
        return

    def inline_ir(self: Any, caller_ir: Any, block: Any, i: int, callee_ir: Any, *more: Any, **named: Any) -> Any:
        called = block.body[i].loc
        made = worker(self, caller_ir, block, i, callee_ir, *more, **named)
        function = callee_ir.func_id
        _note(
            made[1].values(), called, InlinedFunction(function.func_qualname, function.filename, function.firstlineno)
        )
        return made

    def inline_closure_call(func_ir: Any, glbls: Any, block: Any, i: int, callee: Any, *more: Any, **named: Any) -> Any:
        called = block.body[i].loc
        code = callee.code if hasattr(callee, "code") else callee.__code__
        made = closure(func_ir, glbls, block, i, callee, *more, **named)
        _note(made[0].values(), called, InlinedFunction(code.co_name, code.co_filename, code.co_firstlineno))
        return made

    def lower_inst(self: Any, inst: Any) -> None:
        setattr(self.debuginfo, FRAMES, getattr(self.loc, FRAMES, ()))
        located(self, inst)

    def _di_location(self: Any, line: int) -> Any:
        frames: tuple[Frame, ...] = getattr(self, FRAMES, ())
        return _location(self, frames) if frames else usual(self, line)

    inline_closurecall.InlineWorker.inline_ir = inline_ir
    inline_closurecall.inline_closure_call = inline_closure_call
    lowering.Lower.lower_inst = lower_inst
    debuginfo.DIBuilder._di_location = _di_location


def _note(blocks: Iterable[Any], called: Any, function: InlinedFunction) -> None:
    """Note the callers of statements that were inlined; those that were inlined into them before have some already."""
    callers: tuple[Frame, ...] = getattr(called, FRAMES, ((called.line, None),))
    for block in blocks:
        for statement in block.body:
            inner: tuple[Frame, ...] = getattr(statement.loc, FRAMES, ((statement.loc.line, None),))
            own = (*inner[:-1], (inner[-1][0], function))
            statement.loc = copy.copy(statement.loc)
            setattr(statement.loc, FRAMES, (*own, *callers))


def _location(builder: Any, frames: Iterable[Frame]) -> Any:
    """Return the debug location of inlined code, made from the outermost frame inwards."""
    location: Any = None
    for line, function in reversed(tuple(frames)):
        scope = _subprogram(builder, function) if function else builder.subprograms[-1]
        operands = {"line": line, "column": 1, "scope": scope, **({"inlinedAt": location} if location else {})}
        location = builder.module.add_debug_info("DILocation", operands, is_distinct=True)
    return location


def _subprogram(builder: Any, function: InlinedFunction) -> Any:
    """Return the debug information of an inlined function, made once per module."""
    functions = vars(builder).setdefault("ncu_swizzle_functions", {})
    if function not in functions:
        functions[function] = _described_numba_lines(builder, function)
    return functions[function]


def _described_numba_lines(builder: Any, function: InlinedFunction) -> Any:
    at = Path(function.file).absolute()
    add = builder.module.add_debug_info
    file = add("DIFile", {"directory": str(at.parent), "filename": at.name})
    signature = add("DISubroutineType", {"types": builder.module.add_metadata([])})
    described = {"name": function.name, "linkageName": function.name, "scope": file, "file": file,
                 "line": function.line, "type": signature, "isLocal": True, "isDefinition": True,
                 "scopeLine": function.line, "isOptimized": True, "unit": builder.dicompileunit}  # fmt: skip
    return add("DISubprogram", described, is_distinct=True)


OPTIONS = ("fastmath", "opt", "launch_bounds", "debug")
POINTER, WHOLE = "uint64", "int64"


def handles(thing: object) -> bool:
    """Return whether this is a function of Numba's for CUDA."""
    return type(thing).__module__.startswith("numba.cuda") and hasattr(thing, "py_func")


def prepare() -> None:
    """Have ``@cuda.jit`` ignore a signature, for which it would compile at once and so need a GPU, and keep lines."""
    from numba import cuda

    usual = cuda.jit

    def jit(func_or_sig: Any = None, *positional: Any, **keywords: Any) -> Any:
        lines = {} if keywords.get("debug") else {"lineinfo": True}
        return usual(func_or_sig if callable(func_or_sig) else None, *positional, **{**lines, **keywords})

    cuda.jit = jit
    keep_callers()


def compiled(thing: Any, inside: str, request: CompileRequest, module: ModuleType) -> tuple[CompiledFunction, bytes]:
    """Return the compiled function and its cubin. Raises UsageError."""
    from numba import cuda, types
    from numba.cuda import dispatcher

    contract.refuse_inside(inside, request)
    options = contract.options_of(request, module, (), OPTIONS, "Numba")
    own = {name: thing.targetoptions[name] for name in OPTIONS if thing.targetoptions.get(name) is not None}
    ordered = contract.in_order(request, inspect.signature(thing.py_func).parameters)
    contract.refuse_without_block(request)
    kinds = [_type(argument, request, module) for argument in ordered]
    major, minor = divmod(int(request.arch.strip("sm_af")), 10)
    # Functions that a kernel calls are compiled for the current device; nothing else asks for it.
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=(major, minor))
    settings = {"lineinfo": True, **own, **options}
    with contract.compiling(request):
        text, _ = cuda.compile(
            thing.py_func, types.void(*kinds), device=False, cc=(major, minor), output="ptx", abi="numba", **settings
        )
        ptx = text if isinstance(text, bytes) else text.encode()
        code = Toolchain().assemble(ptx, request.name, request.arch)
    return _described(Cubin(code, request.name), ordered, request, module), code


def _value(argument: Given, request: CompileRequest, module: ModuleType) -> Any:
    return literal(argument.value, request.sizes, module)


def _type(argument: Given, request: CompileRequest, module: ModuleType) -> Any:
    """Return Numba's type of an argument; a number without a dtype is what Python's is to Numba."""
    from numba import types
    from numba.np import numpy_support

    if argument.shape:
        dtype, shape = elements(argument, request, module)
        return types.Array(numpy_support.from_dtype(dtype), len(shape), "C")
    if argument.dtype != LITERAL:
        return numpy_support.from_dtype(numpy_dtype(argument.dtype))
    return numpy_support.from_dtype(numpy_dtype(_dtype(argument, request, module)))


def _dtype(argument: Given, request: CompileRequest, module: ModuleType) -> str:
    value = _value(argument, request, module)
    for kind, dtype in ((bool, "bool"), (int, "int64"), (float, "float64")):
        if isinstance(value, kind):
            return dtype
    raise UsageError(
        f"{request.name}: {argument.name} is {argument.value!r}, which Numba cannot take",
        Hint(
            Typed(f"--arg {argument.name}=64"),
            ", or a shape for an array: ",
            Typed(f"--arg {argument.name}=float32[1024]"),
        ),
    )


def _described(cubin: Cubin, ordered: list[Given], request: CompileRequest, module: ModuleType) -> CompiledFunction:
    import numba_cuda

    passed = [part for argument in ordered for part in _passed(argument, request, module)]
    names: Mapping[str, Any] = {
        argument.name: _value(argument, request, module) for argument in ordered if not argument.shape
    }
    return CompiledFunction(
        entry=cubin.kernels[0],
        launch=LaunchShape(grid=grid(request, names), block=request.block, shared=request.shared),
        parameters=tuple(passed),
        compiler=f"Numba-CUDA {re.sub(r'[^0-9.].*', '', numba_cuda.__version__)}",
    )


def _passed(argument: Given, request: CompileRequest, module: ModuleType) -> list[KernelParameter]:
    """Return the parameters of an argument."""
    name = argument.name
    if not argument.shape:
        dtype = _dtype(argument, request, module) if argument.dtype == LITERAL else argument.dtype
        value = _value(argument, request, module)
        return [
            KernelParameter(
                name=name,
                dtype="uint8" if dtype == "bool" else dtype,
                value=str(int(value) if dtype == "bool" else value),
            )
        ]
    element, shape = elements(argument, request, module)
    strides = [element.itemsize * stride for stride in contract.strides(shape)]
    return [
        KernelParameter(name=f"{name}_meminfo", dtype=POINTER, value="0"),
        KernelParameter(name=f"{name}_parent", dtype=POINTER, value="0"),
        KernelParameter(name=f"{name}_size", dtype=WHOLE, value=str(math.prod(shape))),
        KernelParameter(name=f"{name}_itemsize", dtype=WHOLE, value=str(element.itemsize)),
        KernelParameter(name=name),
        *(KernelParameter(name=f"{name}_shape{axis}", dtype=WHOLE, value=str(size)) for axis, size in enumerate(shape)),
        *(
            KernelParameter(name=f"{name}_stride{axis}", dtype=WHOLE, value=str(size))
            for axis, size in enumerate(strides)
        ),
    ]
