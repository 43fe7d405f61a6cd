"""A mapping as source code to paste, in CUDA C++ and CuTe: one function for writers and readers alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.smem.access import Access, value_of
from ncu_swizzle.smem.layout import IntTuple, Layout
from ncu_swizzle.smem.mapping import Mapping
from ncu_swizzle.smem.operations import Ints
from ncu_swizzle.smem.swizzle import Identity, Padding, RowXor, Swapped, Swizzle, Table, XorMatrix
from ncu_swizzle.smem.wavefronts import wavefronts


def spelled(mapping: Mapping) -> str:
    """Return a mapping as it is printed everywhere: its name, its unit, and its CUDA expression.

    ``Swizzle<5,0,5> on elements of 4 bytes (offset ^ ((offset >> 5) & 0x1f))``; `offset` counts elements.
    """
    if isinstance(mapping.transform, Identity):
        return "the layout as it is"
    if isinstance(mapping.transform, Swapped):
        moved = f"column * {mapping.transform.rows} + row"
        return f"{mapping.transform} on {unit(mapping.element_bytes)} ({moved})"
    return f"{mapping.transform} on {unit(mapping.element_bytes)} ({mapping.transform.cuda('offset')})"


def titled(mapping: Mapping) -> str:
    """Return the layout, with its unit or with the mapping if that moves anything."""
    if isinstance(mapping.transform, Identity):
        return f"{mapping.layout}, {unit(mapping.element_bytes)}"
    return f"{mapping.layout} with {spelled(mapping)}"


def unit(element_bytes: int) -> str:
    """Return what a mapping's offsets count."""
    return f"elements of {element_bytes} byte{'s' if element_bytes > 1 else ''}"


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


def cute(mapping: Mapping, *, flat: bool = False) -> str | None:
    """Return the mapping as a CuTe layout with its writer and reader; None if CuTe cannot express it.

    `flat`: they take an element's index, as its rows are not known.
    """
    layout = _cute_layout(mapping)
    if layout is None:
        return None
    bytes_, plain = mapping.element_bytes, _runs_of(mapping) if flat else _padded(mapping)
    element = f"cute::uint{8 * bytes_}_t" if bytes_ <= 8 else "cute::uint128_t"
    parameters, coordinates = ("int index", "index") if flat else ("int row, int column", "row, column")
    takes = "the index of an element" if flat else "logical coordinates"
    return f"""#include <cute/tensor.hpp>

// {titled(mapping)}.
// A tensor over it takes {takes}, for writes and reads alike.
using Plain = cute::Layout<{_static("Shape", plain.shape)}, {_static("Stride", plain.stride)}>;
using Tile = decltype({layout});

template <class Element> CUTE_HOST_DEVICE void write(Element *smem, {parameters}, Element value) {{
    static_assert(sizeof(Element) == sizeof({element}));
    cute::make_tensor(cute::make_smem_ptr(smem), Tile{{}})({coordinates}) = value;
}}

template <class Element> CUTE_HOST_DEVICE Element read(Element *smem, {parameters}) {{
    return cute::make_tensor(cute::make_smem_ptr(smem), Tile{{}})({coordinates});
}}
"""


def _runs_of(mapping: Mapping) -> Layout:
    """Return the layout of all elements by their index, with padding after every run of them."""
    padding, size = mapping.transform, mapping.layout.size
    if not isinstance(padding, Padding):
        return Layout(size, 1)
    return Layout((padding.every, -(-size // padding.every)), (1, padding.every + padding.by))


def cuda(mapping: Mapping, *, flat: bool = False, now: int = 0) -> str:
    """Return a struct with ``at(row, column)``, the byte offset of an element.

    `flat`: with ``at(index)`` instead, as its rows are not known. `now`: the elements of a row in the source.
    """
    table = _table(mapping.transform) if isinstance(mapping.transform, Table) else ""
    parameters, offset, moved = _expressions(mapping, flat)
    what = f"element row * {now} + column of the array as it is now" if now else "an element"
    what = "an element, by its index in the array as it is now" if flat else what
    return f"""#include <cstdint>

// {titled(mapping)}.
// Every access to the tile, write or read, goes through `at`.
struct Tile {{
    static constexpr int kBytes = {mapping.bytes};
    // The byte offset of {what}.
    static __host__ __device__ __forceinline__ constexpr int at({parameters}) {{
{table}        const int offset = {offset};
        return {_times(f"({moved})", mapping.element_bytes)};
    }}
}};
"""


def _expressions(mapping: Mapping, flat: bool) -> tuple[str, str, str]:
    """Return the parameters of ``at``, its offset, and where that lies, in elements."""
    if flat:
        return "int index", "index", mapping.transform.cuda("offset")
    index = _index(_padded(mapping), "row", "column")
    if isinstance(mapping.transform, RowXor) and not mapping.transform.swizzle:
        xor = mapping.transform
        row = f"row >> {xor.drop} & {xor.mask}" if xor.drop else f"row & {xor.mask}"
        bits = f"(({row}) << {xor.base})" if xor.base else f"({row})"
        return "int row, int column", index.replace("column", f"(column ^ {bits})"), "offset"
    return "int row, int column", index, _moved(mapping)


_LINES = re.compile(
    r"at\((?P<parameters>[^()]*+)\) \{\n\s*const int offset = (?P<offset>.*);\n\s*return (?P<moved>.*);"
)
_SIZE = re.compile(r"kBytes = (\d+);")


def contradiction(text: str, mapping: Mapping, accesses: Sequence[Access]) -> str:
    """Return what is wrong with the text from `cuda`, for these accesses to the plain layout; empty if nothing.

    The C++ is evaluated as written, independently of the mapping. It must put different cells at different
    bytes inside of the tile, and each access must take the claimed wavefronts there.
    """
    size, element = _SIZE.search(text), mapping.element_bytes
    by_rows = all(stride == 1 for _, stride in mapping.layout.modes[1].leaves)
    lengths = [access.granule(element) if by_rows else 1 for access in accesses]
    touched = [np.stack(access.cells(length)) for access, length in zip(accesses, lengths, strict=True)]
    cells = np.unique(np.concatenate(touched, axis=1), axis=1)
    placed = _placed(text, mapping, *cells)
    if placed is None or size is None:
        return "it is not the code of a mapping"
    if len(np.unique(placed)) != cells.shape[1]:
        return "two of the accessed elements share a place"
    if placed.min() < 0 or placed.max() + element > int(size[1]):
        return "an accessed element lies outside of the tile"
    if (placed != mapping.elements(*cells) * element).any():
        return "an accessed element lies elsewhere than was counted"
    each = zip(accesses, lengths, touched, strict=True)
    return next(filter(None, (_broken(text, mapping, *access) for access in each)), "")


def _broken(text: str, mapping: Mapping, access: Access, length: int, cells: Ints) -> str:
    """Return what the text from `cuda` breaks in an access whose lanes touch runs of `length` cells; empty if none."""
    lanes = [np.where(access.mask, part, 0) for part in (access.rows, access.columns)]
    at, runs = _placed(text, mapping, *lanes), _placed(text, mapping, *cells)
    assert at is not None
    assert runs is not None
    if (np.diff(runs.reshape(-1, length), axis=1) != mapping.element_bytes).any():
        return f"the elements of {access.name} are not side by side"
    try:
        counted = wavefronts(access.op, at + mapping.origin, access.active, access.source)
    except UsageError as error:
        return str(error)
    if not np.array_equal(counted.actual, access.wavefronts(mapping).actual):
        return f"{access.name} takes other wavefronts than are claimed"
    return ""


def _placed(text: str, mapping: Mapping, rows: Ints, columns: Ints) -> Ints | None:
    """Return where the text from `cuda` puts cells of the plain layout, in bytes; None if it is other text."""
    lines = _LINES.search(text)
    if lines is None:
        return None
    flat = {"index": rows * mapping.shape[1] + columns}
    values = {"row": rows, "column": columns} if "row" in lines["parameters"] else flat
    offset = value_of(lines["offset"], values)
    return np.asarray(value_of(lines["moved"], {**values, "offset": offset}))


def _table(table: Table) -> str:
    rows = ",\n".join(f"            {{{', '.join(map(str, row))}}}" for row in table.square)
    size = len(table.square)
    return f"        constexpr uint8_t kSquare[{size}][{size}] = {{\n{rows}}};\n"


def _moved(mapping: Mapping) -> str:
    return "offset" if isinstance(mapping.transform, Padding | Swapped) else mapping.transform.cuda("offset")


def _padded(mapping: Mapping) -> Layout:
    """Return the layout with padding folded into its strides, or with swapped ones."""
    padding = mapping.transform
    if isinstance(padding, Swapped):
        return Layout(mapping.shape, (1, mapping.shape[0]))
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
        case Identity() | Padding() | Swapped():
            return layout
        case RowXor() if transform.swizzle:
            return f"cute::composition(cute::{transform.swizzle}{{}}, {layout})"
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
    """Yield swizzles whose composition is the matrix; none changes bits that a later one reads."""
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
