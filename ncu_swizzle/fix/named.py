"""Patches that name another mapping: a layout policy in place of another one, CuTe's Swizzle around a layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ncu_swizzle.cubin.shared_arrays import SharedArray
from ncu_swizzle.emulate.requests import AccessRequests
from ncu_swizzle.engines.emulation import Executable
from ncu_swizzle.fix.cuda import CudaFile, field_of
from ncu_swizzle.fix.edits import Edit, composition, edited
from ncu_swizzle.fix.excess import NOWHERE, Moved
from ncu_swizzle.fix.layout_values import Escapes, LayoutValues
from ncu_swizzle.fix.policies import Regions, in_other_kernel, renamings
from ncu_swizzle.fix.scopes import Scopes, SharedDeclaration, declared_name
from ncu_swizzle.smem import operations, wavefronts
from ncu_swizzle.smem.code import unit
from ncu_swizzle.smem.operations import LDMATRIX, STMATRIX
from ncu_swizzle.smem.swizzle import Padding, Swizzle, Transform

if TYPE_CHECKING:
    from tree_sitter import Node


# CuTe's layouts where a source declares them, and how one is composed with a swizzle.

TENSOR_LAYOUTS = ("Layout", "make_layout")
EXPRESSIONS = ("call_expression", "compound_literal_expression")


@dataclass(frozen=True, kw_only=True)
class DeclaredLayout:
    """A layout, as an expression or a type, that a source gives a name; `prefix` is how it qualifies CuTe's names."""

    start: int
    end: int
    line: int
    prefix: str
    type_: bool
    name: Node

    def shared_only(self, scopes: Scopes) -> None:
        """Raise Escapes if it lays out anything but tensors in shared memory."""
        LayoutValues(scopes=scopes).tensors(self.name)

    def composed(self, swizzle: object) -> tuple[Edit, ...]:
        """Return the edits that compose it with a swizzle."""
        before, after = composition(self.start, self.end, self.prefix, swizzle)
        if self.type_:
            before, after = replace(before, text=f"decltype({before.text}"), replace(after, text="{}))")
        return before, after


def declared_layouts(file: CudaFile, kernel: str) -> Iterator[DeclaredLayout]:
    """Yield the layouts of a kernel's own source."""
    regions = Regions(file.text)
    for node in file.nodes("init_declarator", "alias_declaration"):
        type_ = node.type == "alias_declaration"
        written = field_of(node, "type" if type_ else "value")
        name = field_of(node, "name") if type_ else declared_name(node)
        if written is None or name is None or regions.file(node) or in_other_kernel(file, node, kernel):
            continue
        if written.type not in (("type_descriptor",) if type_ else EXPRESSIONS):
            continue
        named = file.of(field_of(written, "function" if written.type == "call_expression" else "type"))
        scope, _, called = named.partition("<")[0].rpartition("::")
        if called in TENSOR_LAYOUTS:
            yield DeclaredLayout(
                start=written.start_byte,
                end=written.end_byte,
                line=file.line(written),
                prefix=f"{scope}::" if "::" in named.partition("<")[0] else "",
                type_=type_,
                name=name,
            )


MOST_BITS = 5
HIGHEST = 14  # bit of an offset that a swizzle takes
TRIED = 96  # requests per access to search on
BANK_ROW_BITS = 7
SWIZZLES = 3  # to build, per layout
LAYOUTS = 4
BYTES = {"char": 1, "int8_t": 1, "uint8_t": 1, "half": 2, "half_t": 2, "__half": 2, "short": 2, "uint16_t": 2,
         "bfloat16_t": 2, "__nv_bfloat16": 2, "float": 4, "int": 4, "tfloat32_t": 4, "uint32_t": 4,
         "double": 8}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NamedEdit:
    """A source that names another mapping, in which line, and how many bytes of it differ."""

    mapping: str
    text: bytes
    line: int
    size: int


def named_edits(
    scopes: Scopes, kernel: str, version: Executable, declared: Sequence[SharedDeclaration]
) -> tuple[list[NamedEdit], tuple[str, Escapes] | None]:
    """Return the patches of a kernel's own source that name a mapping; of those that may not, the first, and why."""
    file, made = scopes.file, list[NamedEdit]()
    escapes: tuple[str, Escapes] | None = None
    for each in renamings(file, kernel):
        try:
            each.placed_only(scopes)
        except Escapes as reason:
            escapes = escapes or (each.name, reason)
            continue
        size = sum(len(edit.text) for edit in each.edits)
        made.append(NamedEdit(mapping=each.name, text=edited(file.text, each.edits), line=each.line, size=size))
    layouts = list[DeclaredLayout]()
    for layout in list(declared_layouts(file, kernel))[:LAYOUTS]:
        try:
            layout.shared_only(scopes)
            layouts.append(layout)
        except Escapes as reason:
            escapes = escapes or (f"{layout.prefix}Swizzle", reason)
    swizzles = _swizzles(version, declared) if layouts else []
    for layout in layouts:
        for swizzle in swizzles:
            edits = layout.composed(swizzle)
            size = sum(len(edit.text) for edit in edits)
            made.append(
                NamedEdit(
                    mapping=f"{layout.prefix}{swizzle}", text=edited(file.text, edits), line=layout.line, size=size
                )
            )
    return made, escapes


def _swizzles(version: Executable, declared: Sequence[SharedDeclaration]) -> list[Swizzle]:
    """Return the swizzles that leave an array the least excess, those that take the lowest bits first."""
    best: list[Swizzle] = []
    for array in version.arrays:
        requests = list(_requests(version, array))
        before = _excess(requests, array, None)
        if not before:
            continue
        bytes_ = _element_bytes(array, declared, requests)
        tried = ((_excess(requests, array, s.on_bytes(bytes_)), s) for s in _every(requests, bytes_))
        better = sorted(((left, _reach(s), s) for left, s in tried if left < before), key=lambda each: each[:2])
        best += [swizzle for _, _, swizzle in better[:SWIZZLES]]
    return list(dict.fromkeys(best))


def _reach(swizzle: Swizzle) -> tuple[int, int, int]:
    """Return what a short tile allows first: a low highest bit, then few bits, then those that move furthest."""
    return swizzle.bits + swizzle.base + swizzle.shift, swizzle.bits, -swizzle.base


def _every(requests: Sequence[AccessRequests], element_bytes: int) -> Iterator[Swizzle]:
    element = element_bytes.bit_length() - 1
    widest = max(operations.find(made.op).width_bytes for made in requests).bit_length() - 1
    for base in range(max(0, widest - element), BANK_ROW_BITS - element):
        for bits in range(1, min(MOST_BITS, BANK_ROW_BITS - element - base) + 1):
            # CuTe asserts shift >= bits.
            for shift in range(bits, HIGHEST - base - bits + 1):
                yield Swizzle(bits=bits, base=base, shift=shift)


def _requests(version: Executable, array: SharedArray) -> Iterator[AccessRequests]:
    for made in version.emulated.counts.requests.values():
        within = ((made.addresses >= array.start) & (made.addresses < array.start + array.size)) | ~made.used
        rows = np.flatnonzero(within.all(axis=1) & made.used.any(axis=1))
        if len(rows):
            yield made.chosen(rows[:: -(-len(rows) // TRIED)])


def _excess(requests: Sequence[AccessRequests], array: SharedArray, swizzle: Swizzle | None) -> int:
    total = 0
    for made in requests:
        matrix = operations.find(made.op).kind in (LDMATRIX, STMATRIX)
        offsets = np.where(made.active, made.addresses - array.start, 0)
        moved = array.start + (swizzle(offsets) if swizzle else offsets)
        counted = wavefronts(made.op, moved, None if matrix else made.active, made.source)
        total += int(((counted.actual - counted.ideal) * made.times).sum())
    return total


def _element_bytes(
    array: SharedArray, declared: Sequence[SharedDeclaration], requests: Sequence[AccessRequests]
) -> int:
    """Return the size of an array's elements: by the name of their type, otherwise of the narrowest access."""
    for declaration in declared:
        if declaration.name == array.name and (size := BYTES.get(declaration.element.rpartition("::")[2])):
            return size
    return min(operations.find(made.op).width_bytes for made in requests)


def in_words(mapping: str, moved: Sequence[Moved]) -> str:
    """Return the name of a mapping with what it does, as far as one swizzle or padding does it to all arrays."""
    done = {_transform(each) for each in moved}
    if len(done) != 1 or None in done or "Swizzle<" in mapping:
        return mapping
    size, transform = next(each for each in done if each is not None)
    if isinstance(transform, Padding):
        longer = transform.every + transform.by
        return f"{mapping}, rows of {longer} instead of {transform.every} {unit(size)}"
    return f"{mapping}, {transform} on {unit(size)}"


def _transform(moved: Moved) -> tuple[int, Transform] | None:
    """Return the swizzle or padding of an array's elements; None if it is another mapping."""
    size, index = moved.element_bytes, np.flatnonzero(moved.places != NOWHERE)
    places = moved.places[index] // size
    aligned = bool((moved.places[index] % size == 0).all())
    away = np.flatnonzero(places != index)
    if not aligned or not len(away):
        return None
    every = int(index[away[0]])
    tried: list[Transform] = [Padding(every, int(places[away[0]]) - every)] if places[away[0]] > every > 0 else []
    tried += [
        Swizzle(bits=bits, base=base, shift=shift)
        for bits in range(1, MOST_BITS + 1)
        for base in range(BANK_ROW_BITS)
        for shift in range(bits, HIGHEST - base)
    ]
    return next(((size, each) for each in tried if (each(index) == places).all()), None)
