"""What a compiled kernel tells about its launch: parameters, axes of block and grid, limits.

Sizes and the number of parameters are the cubin's. Types are in a C++ function's mangled name, or else in the source,
names in the source alone; PTX, if the cubin keeps it, says which 64-bit parameters are pointers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ncu_swizzle.cubin import shared_arrays
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.cubin.names import declared_parameters, demangle, demangle_all, function, parameter_types, spelled
from ncu_swizzle.kernels.arguments import ALIASES
from ncu_swizzle.kernels.family import BYTES, DTYPES
from ncu_swizzle.kernels.project import TODO
from ncu_swizzle.smem.access import MOST_THREADS

POINTER = 8  # bytes
REGISTERS = 64 * 1024  # of an SM
WARP = 32

# C++ types as NumPy's dtypes; any other (float4, structures) has none.
TYPES = {
    "float": "float32", "double": "float64", "__half": "float16", "__nv_bfloat16": "bfloat16", "bool": "bool",
    "char": "int8", "signed char": "int8", "unsigned char": "uint8", "short": "int16", "unsigned short": "uint16",
    "int": "int32", "unsigned int": "uint32", "long": "int64", "unsigned long": "uint64",
    "long long": "int64", "unsigned long long": "uint64",
}  # fmt: skip
_THREAD = re.compile(r"\b(?:threadIdx|blockDim)\s*\.\s*([xyz])\b")
_BLOCK = re.compile(r"\b(?:blockIdx|gridDim)\s*\.\s*([xyz])\b")
_SASS_THREAD, _SASS_BLOCK = re.compile(r"\bsr_tid\.([xyz])\b"), re.compile(r"\bsr_ctaid\.([xyz])\b")
_VECTOR = re.compile(r"(u?char|u?short|u?int|u?long|u?longlong|float|double)([1-4])")
_PAIRS = {"__half2": "float16", "half2": "float16", "__nv_bfloat162": "bfloat16"}
_NAMED = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\s*+(?:\[[^][]*+\]\s*+)*+(?:=.*)?$", re.DOTALL)


@dataclass(frozen=True)
class SignatureParameter:
    """A parameter: its size in bytes; name, C++ type and PTX kind if known, else empty."""

    size: int
    name: str = ""
    type: str = ""
    kind: str = ""

    @property
    def pointee(self) -> str | None:
        """The type that it points to, "" if unknown; None if it is not a pointer."""
        pointee = pointee_of(self.type)
        if pointee is None and self.size == POINTER and (self.kind == "pointer" or not (self.type or self.kind)):
            return ""
        return pointee

    @property
    def read_only(self) -> bool:
        """Whether what it points to is const."""
        return "const" in (self.pointee or "")


@dataclass(frozen=True, kw_only=True)
class KernelSignature:
    """A kernel: its function, parameters, axes of block and grid in use, and limits of its launch."""

    symbol: str
    function: str  # as --kernel takes it
    parameters: tuple[SignatureParameter, ...]
    block_axes: int = 1
    grid_axes: int = 1
    dynamic_shared: bool = False
    static_shared: int = 0
    max_threads: int = MOST_THREADS
    required_block: tuple[int, ...] = ()


def signature_of(cubin: Cubin, symbol: str, source: str = "", disassembled: Callable[[], str] = str) -> KernelSignature:
    """Return a kernel's signature; `source` is the text that declares it, `disassembled` returns its SASS."""
    attributes = cubin.attributes(symbol)
    name = demangle(symbol)
    entry = shared_arrays.entry_in(shared_arrays.embedded(cubin), symbol)
    if entry is None:
        entry = _from_sass(disassembled(), symbol, attributes.static_shared)
    sizes = [slot.size for slot in attributes.parameters]
    declared = declared_parameters(source, function(name), len(sizes))
    types = _fitting(parameter_types(name) or (), sizes) or [_without_name(text) for text in declared]
    names = [_name(text) for text in declared]
    columns = (_fitting(texts, sizes) or [""] * len(sizes) for texts in (names, types, entry.kinds))
    block_axes, grid_axes = entry.threads, entry.blocks
    if source:  # cooperative groups ask for every axis, the source does not
        block_axes = min(block_axes, shared_arrays.axes_of(_THREAD, source))
        grid_axes = min(grid_axes, shared_arrays.axes_of(_BLOCK, source))
    # A warp gets registers in units of 256, so a thread gets 8, 16, …
    by_registers = REGISTERS // max(-(-attributes.registers // 8) * 8, 1) // WARP * WARP
    return KernelSignature(
        symbol=symbol,
        function=spelled(name, demangle_all(cubin.kernels).values()),
        parameters=tuple(SignatureParameter(*row) for row in zip(sizes, *columns, strict=True)),
        block_axes=block_axes,
        grid_axes=grid_axes,
        dynamic_shared=entry.dynamic_shared,
        static_shared=attributes.static_shared,
        max_threads=min(attributes.max_threads or MOST_THREADS, MOST_THREADS, by_registers),
        required_block=attributes.required_block,
    )


def _from_sass(text: str, symbol: str, static_shared: int) -> shared_arrays.PtxEntry:
    """Return what the disassembly says: without static shared memory, an access to shared memory is to dynamic."""
    start = text.find(f".text.{symbol}:")
    end = text.find(".section", start) if start >= 0 else -1
    code = text[start : end if end > 0 else len(text)].lower() if start >= 0 else ""
    threads, blocks = (shared_arrays.axes_of(pattern, code) for pattern in (_SASS_THREAD, _SASS_BLOCK))
    shared = re.search(r"\b(lds|sts|ldsm|stsm|atoms|ldgsts)\b", code) is not None
    return shared_arrays.PtxEntry(kinds=(), threads=threads, blocks=blocks, dynamic_shared=shared and not static_shared)


def _fitting(texts: Sequence[str], sizes: Sequence[int]) -> Sequence[str]:
    return texts if len(texts) == len(sizes) else ()


def _name(declaration: str) -> str:
    match = _NAMED.search(declaration)
    return match[1] if match else ""


def _without_name(declaration: str) -> str:
    match = _NAMED.search(declaration)
    return declaration[: match.start()].strip() if match else declaration


def pointee_of(type_: str) -> str | None:
    """Return the type that a pointer or reference points to; None for any other type."""
    bare = re.sub(r"\b(__restrict__|__restrict|const|volatile)\s*$", "", type_.strip()).strip()
    return bare[:-1].strip() if bare.endswith(("*", "&")) else None


def dtype_of(type_: str) -> str | None:
    """Return the dtype of a C++ type, as mangled names or sources spell it; None for a type that has none."""
    bare = " ".join(re.sub(r"\b(const|volatile|struct)\b", " ", type_).split()).removeprefix("std::")
    fixed = bare.removesuffix("_t")
    return TYPES.get(bare) or ALIASES.get(bare) or (fixed if fixed in DTYPES else None)


def vector_of(type_: str) -> tuple[str, int] | None:
    """Return dtype and length of one of CUDA's vector types, such as float4; None for any other type."""
    bare = " ".join(re.sub(r"\b(const|volatile|struct)\b", " ", type_).split())
    if bare in _PAIRS:
        return _PAIRS[bare], 2
    if match := _VECTOR.fullmatch(bare):
        unsigned = "unsigned " if match[1].startswith("u") else ""
        base = match[1].removeprefix("u").replace("longlong", "long long")
        return TYPES[f"{unsigned}{base}" if unsigned + base in TYPES else base], int(match[2])
    return None


# What of an argument the signature tells. TODO is in place of the rest: a shape, a value.

KINDS = {"f": {2: "float16", 4: "float32", 8: "float64"}, "": {1: "int8", 2: "int16", 4: "int32", 8: "int64"}}


def arguments(parameters: Sequence[SignatureParameter]) -> list[tuple[str, str]]:
    """Return a --arg text for each parameter, with TODO for what is not known, and what that is."""
    names = [parameter.name or f"a{number}" for number, parameter in enumerate(parameters, 1)]
    distinct = [name if names.count(name) == 1 else f"a{number}" for number, name in enumerate(names, 1)]
    return [_argument(parameter, name) for parameter, name in zip(parameters, distinct, strict=True)]


def _argument(parameter: SignatureParameter, name: str) -> tuple[str, str]:
    pointee = parameter.pointee
    if pointee is None:
        dtype = _scalar_dtype(parameter)
        if dtype is None:
            return f"{name}={BYTES}:{TODO}", f"a file with {parameter.size} bytes"
        return f"{name}={dtype}:{TODO}", "value"
    dtype, length = vector_of(pointee) or (dtype_of(pointee), 1)
    what = "shape"
    if dtype is None:
        dtype, what = ("uint8", f"shape, of bytes of {pointee},") if pointee else (TODO, "type, shape")
    if parameter.read_only and dtype[0] in "fb" and dtype != "bool":  # as good as any others, mostly
        fill = "random"
    else:
        fill = TODO
        what += " and contents" if parameter.read_only else " and contents, or out"
    return f"{name}={dtype}[{TODO if length == 1 else f'{TODO},{length}'}]:{fill}", what


def _scalar_dtype(parameter: SignatureParameter) -> str | None:
    """Return the dtype of a parameter passed by value; None for a struct."""
    if parameter.kind == "struct" and not dtype_of(parameter.type):
        return None
    dtype = dtype_of(parameter.type)
    return dtype or (KINDS["f" if parameter.kind == "f" else ""].get(parameter.size) if not parameter.type else None)
