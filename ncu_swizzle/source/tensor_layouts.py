"""CuTe's layouts where a source declares them, and how one is composed with a swizzle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ncu_swizzle.source import cuda
from ncu_swizzle.source.cuda import CudaFile
from ncu_swizzle.source.edits import Edit
from ncu_swizzle.source.layout_values import LayoutValues
from ncu_swizzle.source.policies import Regions, in_other_kernel
from ncu_swizzle.source.scopes import Scopes, declared_name

if TYPE_CHECKING:
    from tree_sitter import Node

LAYOUTS = ("Layout", "make_layout")
EXPRESSIONS = ("call_expression", "compound_literal_expression")


@dataclass(frozen=True)
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
        LayoutValues(scopes).tensors(self.name)

    def composed(self, swizzle: object) -> tuple[Edit, ...]:
        """Return the edits that compose it with a swizzle."""
        before, after = f"{self.prefix}composition({self.prefix}{swizzle}{{}}, ", ")"
        if self.type_:
            before, after = f"decltype({before}", "{}))"
        return Edit(self.start, self.start, before), Edit(self.end, self.end, after)


def declared_layouts(file: CudaFile, kernel: str) -> Iterator[DeclaredLayout]:
    """Yield the layouts of a kernel's own source."""
    regions = Regions(file.text)
    for node in file.nodes("init_declarator", "alias_declaration"):
        type_ = node.type == "alias_declaration"
        written = cuda.field(node, "type" if type_ else "value")
        if written is None or regions.file(node) or in_other_kernel(file, node, kernel):
            continue
        named = _named(written)
        text = file.of(named) if named is not None else ""
        head = text.partition("<")[0]
        if head.rpartition("::")[2] in LAYOUTS and (type_ or written.type in EXPRESSIONS):
            name = cuda.field(node, "name") if type_ else declared_name(node)
            if name is None:
                continue
            prefix = head[: head.rfind("::") + 2] if "::" in head else ""
            yield DeclaredLayout(written.start_byte, written.end_byte, file.line(written), prefix, type_, name)


def _named(written: Node) -> Node | None:
    """Return what a type or an expression names: the function that is called, the type that is made."""
    if written.type == "call_expression":
        return cuda.field(written, "function")
    if written.type in ("compound_literal_expression", "type_descriptor"):
        return cuda.field(written, "type")
    return None
