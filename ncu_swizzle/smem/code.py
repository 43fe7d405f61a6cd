"""A mapping as source code to paste, in CUDA C++ and CuTe: one function for writers and readers alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ncu_swizzle.smem.access import Access
from ncu_swizzle.smem.layout import IntTuple, Layout
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.operations import ATOMIC, COPY, LDMATRIX, LOAD, STMATRIX, Operation
from ncu_swizzle.smem.swizzle import Identity, Padding, Swizzle, Table, XorMatrix

VALUES = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint2", 16: "uint4"}


def spelled(mapping: Mapping) -> str:
    """Return a mapping the way that everything prints it: its name, its unit, and its CUDA expression.

    ``Swizzle<5,0,5> on elements of 4 bytes (offset ^ ((offset >> 5) & 0x1f))``; `offset` counts elements.
    """
    if isinstance(mapping.transform, Identity):
        return "the layout as it is"
    return f"{mapping.transform} on {unit(mapping.element_bytes)} ({mapping.transform.cuda('offset')})"


def titled(mapping: Mapping) -> str:
    """Return the layout, with its unit or with the mapping if that moves anything."""
    if isinstance(mapping.transform, Identity):
        return f"{mapping.layout}, {unit(mapping.element_bytes)}"
    return f"{mapping.layout} with {spelled(mapping)}"


def unit(element_bytes: int) -> str:
    """Return what a mapping's offsets count."""
    return f"elements of {element_bytes} byte{'s' if element_bytes > 1 else ''}"


def cuda(mapping: Mapping, accesses: Sequence[Access] = (), name: str = "Tile") -> str:
    """Return a struct with ``at(row, column)``, the byte offset of an element, and a function per kind of access."""
    functions = [_function(operation, name) for operation in _operations(accesses)]
    return "\n\n".join([_struct(mapping, name), *functions]) + "\n"


def policy(mapping: Mapping, per_unit: int, name: str = "Suggested") -> str:
    """Return a layout policy in the style of ``kernels/common/layout.cuh``; it takes units of `per_unit` elements."""
    index = _index(_padded(mapping), "row", _times("unit", per_unit))
    rows, columns = mapping.shape
    row_bytes = mapping.bytes // rows
    return f"""// {titled(mapping)}: {rows} rows of {columns}.
struct {name} {{
    static __device__ constexpr int bytes(int rows) {{ return rows * {row_bytes}; }}
    static __device__ __forceinline__ constexpr int at(int row, int unit) {{
        const int offset = {index};
        return {_times(f"({_moved(mapping)})", mapping.element_bytes)};
    }}
}};
"""


def cute(mapping: Mapping, name: str = "Tile") -> str | None:
    """Return the mapping as a CuTe layout with its writer and reader; None if CuTe cannot express it."""
    layout = _cute_layout(mapping)
    if layout is None:
        return None
    bytes_, plain = mapping.element_bytes, _padded(mapping)
    element = f"cute::uint{8 * bytes_}_t" if bytes_ <= 8 else "cute::uint128_t"
    return f"""#include <cute/tensor.hpp>

// {titled(mapping)}.
// A tensor over it takes logical coordinates, for writes and reads alike.
using Plain = cute::Layout<{_static("Shape", plain.shape)}, {_static("Stride", plain.stride)}>;
using {name} = decltype({layout});

template <class Element> CUTE_HOST_DEVICE void write(Element *smem, int row, int column, Element value) {{
    static_assert(sizeof(Element) == sizeof({element}));
    cute::make_tensor(cute::make_smem_ptr(smem), {name}{{}})(row, column) = value;
}}

template <class Element> CUTE_HOST_DEVICE Element read(Element *smem, int row, int column) {{
    return cute::make_tensor(cute::make_smem_ptr(smem), {name}{{}})(row, column);
}}
"""


def _struct(mapping: Mapping, name: str) -> str:
    index = _index(_padded(mapping), "row", "column")
    table = _table(mapping.transform) if isinstance(mapping.transform, Table) else ""
    return f"""#include <cstdint>

// {titled(mapping)}.
// Every access to the tile, write or read, goes through `at`.
struct {name} {{
    static constexpr int kBytes = {mapping.bytes};
    // The byte offset of an element.
    static __host__ __device__ __forceinline__ constexpr int at(int row, int column) {{
{table}        const int offset = {index};
        return {_times(f"({_moved(mapping)})", mapping.element_bytes)};
    }}
}};"""


def _table(table: Table) -> str:
    rows = ",\n".join(f"            {{{', '.join(map(str, row))}}}" for row in table.square)
    size = len(table.square)
    return f"        constexpr uint8_t kSquare[{size}][{size}] = {{\n{rows}}};\n"


def _moved(mapping: Mapping) -> str:
    return "offset" if isinstance(mapping.transform, Padding) else mapping.transform.cuda("offset")


def _padded(mapping: Mapping) -> Layout:
    """Return the layout with padding folded into its strides."""
    padding = mapping.transform
    if not isinstance(padding, Padding):
        return mapping.layout

    def stretch(stride: IntTuple) -> IntTuple:
        if isinstance(stride, tuple):
            return tuple(map(stretch, stride))
        return stride + stride // padding.every * padding.by

    return Layout(mapping.layout.shape, stretch(mapping.layout.stride))


def _index(layout: Layout, *names: str) -> str:
    """Return the CUDA expression of a layout's offset, without divisions by 1 and factors of 1."""
    terms: list[str] = []
    for mode, name in zip(layout.modes, names, strict=True):
        # c / (sizes of the parts before) % size * stride, summed over the parts. The last part needs no %: c is in
        # range.
        before, leaves = 1, [leaf for leaf in mode.leaves if leaf[0] > 1]
        for number, (size, stride) in enumerate(leaves):
            part = name if before == 1 else f"{_atom(name)} / {before}"
            if number < len(leaves) - 1:
                part = f"{_atom(part) if before > 1 else _atom(name)} % {size}"
            if stride:
                terms.append(part if stride == 1 else f"{_atom(part)} * {stride}")
            before *= size
    return " + ".join(terms) or "0"


def _atom(expression: str) -> str:
    return expression if expression.isidentifier() else f"({expression})"


def _times(expression: str, factor: int) -> str:
    if factor == 1:
        return expression
    bare = expression.removeprefix("(").removesuffix(")")
    return f"{bare if bare.isidentifier() else expression} * {factor}"


def _cute_layout(mapping: Mapping) -> str | None:
    layout, transform = "Plain{}", mapping.transform
    match transform:
        case Identity() | Padding():
            return layout
        case Swizzle(combine="xor"):
            return f"cute::composition(cute::{transform}{{}}, {layout})"
        case XorMatrix():
            for swizzle in _runs(transform):
                layout = f"cute::make_composed_layout(cute::{swizzle}{{}}, cute::Int<0>{{}}, {layout})"
            return layout
    return None


def _static(kind: str, value: IntTuple) -> str:
    if isinstance(value, int):
        return f"cute::Int<{value}>"
    return f"cute::{kind}<{', '.join(_static(kind, part) for part in value)}>"


def _runs(matrix: XorMatrix) -> Iterable[Swizzle]:
    """Yield swizzles whose composition is the matrix: none changes bits that a later one reads."""
    for shift, mask in matrix.terms:
        base = 0
        while mask >> base:
            if not mask >> base & 1:
                base += 1
                continue
            bits = 1
            while bits < shift and mask >> base + bits & 1:
                bits += 1
            yield Swizzle(bits=bits, base=base, shift=shift)
            base += bits


def _operations(accesses: Sequence[Access]) -> list[Operation]:
    return list({access.operation.name: access.operation for access in accesses}.values())


def _function(operation: Operation, name: str) -> str:
    width = operation.width_bytes
    value = VALUES[width]
    head = "__device__ __forceinline__"
    suffix = operation.name.replace(".", "_").replace("_shared", "")
    match operation.kind:
        case kind if kind == LOAD:
            return f"""{head} {value} {suffix}(const char *tile, int row, int column) {{
    return *reinterpret_cast<const {value} *>(tile + {name}::at(row, column));
}}"""
        case kind if kind in (LDMATRIX, STMATRIX):
            return _matrix_function(operation, name, head, suffix)
        case kind if kind == COPY:
            cache = "cg" if ".cg." in operation.name else "ca"
            return f"""{head} void {suffix}(char *tile, int row, int column, const void *source) {{
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(tile + {name}::at(row, column)));
    asm volatile("cp.async.{cache}.shared.global [%0], [%1], {width};" ::"r"(address), "l"(source) : "memory");
}}"""
        case kind if kind == ATOMIC:
            return _atomic_function(operation, name, head, suffix)
    return f"""{head} void {suffix}(char *tile, int row, int column, {value} value) {{
    *reinterpret_cast<{value} *>(tile + {name}::at(row, column)) = value;
}}"""


def _atomic_function(operation: Operation, name: str, head: str, suffix: str) -> str:
    word = "int" if operation.name.endswith(".s32") else "unsigned"
    match = re.search(r"\.(add|min|max|and|or|xor|exch|inc|dec|cas)\b", operation.name)
    verb = match[1] if match and ".popc." not in operation.name else "add"
    function = {"cas": "atomicCAS"}.get(verb, f"atomic{verb.capitalize()}")
    compare = f"{word} compare, " if verb == "cas" else ""
    passed = "compare, value" if verb == "cas" else "1" if ".popc." in operation.name else "value"
    value = "" if ".popc." in operation.name else f", {compare}{word} value"
    return f"""{head} void {suffix}(char *tile, int row, int column{value}) {{
    {function}(reinterpret_cast<{word} *>(tile + {name}::at(row, column)), {passed});
}}"""


def _matrix_function(operation: Operation, name: str, head: str, suffix: str) -> str:
    count = operation.addressed // 8
    trans = ".trans" if operation.name.endswith(".trans") else ""
    load = operation.kind == LDMATRIX
    first = 1 if not load else 0
    registers = ", ".join(f"%{first + i}" for i in range(count))
    address = "[%0]" if not load else f"[%{count}]"
    listed = ", ".join(f'"{"=" if load else ""}r"(r[{i}])' for i in range(count))
    opcode = f"{'ld' if load else 'st'}matrix.sync.aligned.m8n8.x{count}{trans}.shared.b16"
    operands = f"{{{registers}}}, {address}" if load else f"{address}, {{{registers}}}"
    outputs = f': {listed} : "r"(address)' if load else f':: "r"(address), {listed}'
    registers_in, tile = ("", "const char") if load else ("const ", "char")
    return f"""// Each lane addresses one matrix row: lanes 0-7 of the first matrix, 8-15 of the second …
{head} void {suffix}({registers_in}uint32_t (&r)[{count}], {tile} *tile, int row, int column) {{
    const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(tile + {name}::at(row, column)));
    asm volatile("{opcode} {operands};"
                 {outputs} : "memory");
}}"""
