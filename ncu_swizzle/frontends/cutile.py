"""cuTile: functions under ``@ct.kernel``, compiled to tile IR and assembled by tileiras, without a GPU.

An array becomes 1 + 2 * ndim parameters: its address, its shape, and its strides in elements. It is contiguous and
aligned to 16 bytes, and the compiler is told of it what ``ct.launch`` finds out of such an array. Tensor maps are no
parameters: the cubin's own host code makes them of the others, see `launch_recipe`.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from ncu_swizzle.base.errors import EnvironmentLacking, Typed, UsageError
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.frontends import contract
from ncu_swizzle.frontends.contract import CompiledFunction, CompileRequest, Given, KernelParameter, grid, literal
from ncu_swizzle.kernels.family import LITERAL
from ncu_swizzle.kernels.limits import LaunchShape

OPTIONS = ("num_ctas", "occupancy", "opt_level", "num_worker_warps")
DIVISOR = 16  # what ct.launch looks for in sizes, and in bytes of strides and addresses
MOST_SPECIAL = 5  # axes: of an array with more it looks for nothing
PACKAGE = "cuda.tile"
DTYPES = (
    "float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
    "uint64", "bool", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu",
)  # fmt: skip


def handles(thing: object) -> bool:
    """Return whether this is a function of cuTile's for the GPU."""
    return type(thing).__module__.startswith("cuda.tile") and hasattr(thing, "replace_hints")


def compiled(thing: Any, inside: str, request: CompileRequest, module: ModuleType) -> tuple[CompiledFunction, bytes]:
    """Return the compiled function and its cubin. Raises UsageError."""
    contract.refuse_inside(inside, request)
    what = f"the compiler of {request.name} chooses its block and shared memory"
    contract.refuse_geometry(request, what, "--block", "--shared")
    annotated = thing._annotated_function
    parameters = annotated.pysig.parameters
    options = contract.options_of(request, module, parameters, OPTIONS, "cuTile")
    values = _values(parameters, request, module)
    annotations = dict(zip(parameters, annotated.parameter_annotations, strict=True))
    if missing := [name for name in parameters if name not in values]:
        constants = [name for name in missing if getattr(annotations[name], "constant", False)]
        raise contract.lacking(request, missing, constants)
    ordered = [(name, values[name], annotations[name]) for name in parameters]
    with contract.compiling(request):
        from cuda.tile.compilation import export_kernel

        constraints = [_constraint(value, annotation, request) for _, value, annotation in ordered]
        signature = _signature(constraints).with_mangled_symbol(annotated.pyfunc.__name__)
        kernel, out = thing.replace_hints(**options) if options else thing, io.BytesIO()
        try:
            export_kernel(kernel, [signature], out, gpu_code=request.arch.rstrip("af"), output_format="cubin")
        except FileNotFoundError as error:  # the assembler, which comes in separate packages
            raise EnvironmentLacking(f"{request.name}: {error}", contract.INSTALL[PACKAGE]) from error
    code, entry = out.getvalue(), str(signature.symbol)
    attributes = Cubin(code, request.name).attributes(entry)
    first, *others = grid(request, values)
    launched = LaunchShape(
        grid=(first * math.prod(attributes.cluster or (1,)), *others), block=attributes.required_block
    )
    passed = tuple(part for each in ordered for part in _passed(*each))
    return CompiledFunction(entry=entry, launch=launched, parameters=passed, compiler=_compiler()), code


def _signature(constraints: Sequence[Any]) -> Any:
    """Return the signature, of the oldest calling convention that has all that it says: it is part of the name."""
    from cuda.tile.compilation import CallingConvention, KernelSignature

    try:
        return KernelSignature(constraints, CallingConvention.cutile_python_v1())
    except (TypeError, ValueError, NotImplementedError):
        return KernelSignature(constraints, CallingConvention.cutile_python_v2())


def _values(parameters: Mapping[str, Any], request: CompileRequest, module: ModuleType) -> dict[str, Any]:
    """Return the arguments by name: arrays as they were given, numbers as values. Raises UsageError."""
    values = {name: each.default for name, each in parameters.items() if each.default is not each.empty}
    for name, argument in contract.arguments_of(parameters, request).items():
        values[name] = argument if argument.shape else _number(argument, request, module)
    return values


def _number(given: Given, request: CompileRequest, module: ModuleType) -> Any:
    """Return a constant of cuTile, such as a number or a tuple of them. Raises UsageError."""
    value = literal(given.value, request.sizes, module)
    if given.dtype in (LITERAL, "int32", "int64", "float32", "bool"):
        wanted = {"int32": int, "int64": int, "float32": float, "bool": bool}.get(given.dtype)
        return wanted(value) if wanted else value
    raise UsageError(
        f"{request.name}: cuTile passes no scalar as {given.dtype}",
        Typed(f"--arg {given.name}={given.value}"),
    )


def _constraint(value: Any, annotation: Any, request: CompileRequest) -> Any:
    """Return an argument's type and constraints, as ct.launch would derive them. Raises UsageError."""
    from cuda import tile
    from cuda.tile.compilation import ConstantConstraint, ScalarConstraint, TupleConstraint

    if isinstance(value, Given):
        return _array(value, annotation, request)
    if isinstance(value, tuple):
        inner = getattr(annotation, "items", None) or (getattr(annotation, "each", annotation),) * len(value)
        return TupleConstraint([_constraint(each, of, request) for each, of in zip(value, inner, strict=True)])
    if annotation.constant or not isinstance(value, int | float):
        return ConstantConstraint(value)
    if isinstance(value, bool):
        return ScalarConstraint(tile.bool_)
    if isinstance(value, float):
        return ScalarConstraint(tile.float32)
    return ScalarConstraint(annotation.scalar.dtype if annotation.scalar else tile.int32)


def _array(given: Given, annotation: Any, request: CompileRequest) -> Any:
    """Return an array's type and constraints: what its strides and sizes are multiples of."""
    from cuda import tile
    from cuda.tile.compilation import ArrayConstraint

    if given.dtype not in DTYPES:
        raise UsageError(
            f"{request.name}: cuTile cannot take {given.name} as {given.dtype}", f"its dtypes: {', '.join(DTYPES)}"
        )
    shape, strides, own = given.shape, given.strides, annotation.array
    dtype = getattr(tile, "bool_" if given.dtype == "bool" else given.dtype)
    told = len(shape) <= MOST_SPECIAL
    unit = 8 * DIVISOR // dtype.bitwidth
    axes = range(len(shape))
    fixed = {axis % len(shape) for axis in own.static_shape_dims} if own else set()
    fixed_strides = {axis % len(shape) for axis in own.static_stride_dims} if own else set()
    return ArrayConstraint(
        dtype,
        len(shape),
        index_dtype=own.index_dtype if own else tile.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[
            strides[axis] if axis in fixed_strides or (told and not fixed_strides and strides[axis] == 1) else None
            for axis in axes
        ],
        shape_constant=[
            shape[axis] if axis in fixed or (told and not fixed and shape[axis] == 1) else None for axis in axes
        ],
        stride_divisible_by=[unit if told and strides[axis] % unit == 0 else 1 for axis in axes],
        shape_divisible_by=[DIVISOR if told and shape[axis] % DIVISOR == 0 else 1 for axis in axes],
        base_addr_divisible_by=DIVISOR,
    )


def _passed(name: str, value: Any, annotation: Any) -> Iterator[KernelParameter]:
    """Yield the parameters of an argument; of a constant there is none."""
    if isinstance(value, Given):
        wide = "int64" if annotation.array and "64" in annotation.array.index_dtype.name else "int32"
        yield KernelParameter(name=name)
        for what, sizes in (("shape", value.shape), ("stride", value.strides)):
            for axis, size in enumerate(sizes):
                yield KernelParameter(name=f"{name}_{what}{axis}", dtype=wide, value=str(size))
    elif isinstance(value, tuple):
        inner = getattr(annotation, "items", None) or (getattr(annotation, "each", annotation),) * len(value)
        for number, (each, of) in enumerate(zip(value, inner, strict=True)):
            yield from _passed(f"{name}{number}", each, of)
    elif not annotation.constant and isinstance(value, int | float):
        wide = annotation.scalar.dtype.name if annotation.scalar else "int32"
        dtype = "uint8" if isinstance(value, bool) else "float32" if isinstance(value, float) else wide
        yield KernelParameter(name=name, dtype=dtype, value=str(int(value) if dtype == "uint8" else value))


def _compiler() -> str:
    """Return cuTile's version and that of its assembler."""
    from cuda import tile
    from cuda.tile import _compile

    release = re.search(r"release (\d+\.\d+)", _compile._get_compiler_version_string() or "")
    return f"cuTile {tile.__version__}" + (f", tileiras {release[1]}" if release else "")
