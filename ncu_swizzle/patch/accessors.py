"""Small device functions that a patch puts before the first function that uses them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ncu_swizzle.patch.row_xor import RowXor
from ncu_swizzle.patch.spelling import moved_index, swizzled_column
from ncu_swizzle.smem.swizzle import Padding
from ncu_swizzle.source import cuda
from ncu_swizzle.source.cuda import CudaFile
from ncu_swizzle.source.edits import Edit, line_end

if TYPE_CHECKING:
    from tree_sitter import Node

HEAD = "static __device__ __forceinline__ constexpr"
OUTER = (
    "function_definition", "template_declaration", "preproc_function_def", "preproc_def", "struct_specifier",
    "class_specifier",
)  # fmt: skip
WHY = {
    True: "// Every row is XORed with its number, so that the elements of a column lie in different banks.",
    False: "// Every row is followed by unused elements, so that those of a column lie in different banks.",
}


@dataclass(eq=False)
class Accessors:
    """The functions that the edits of one tile call, each once."""

    file: CudaFile
    _made: dict[str, tuple[str, Node]] = field(default_factory=dict, init=False)  # by body: the name, the first use
    swizzle: bool = True

    def flat(self, transform: RowXor | Padding, use: Node) -> str:
        """Return the name of the function from an element's index to its place."""
        self.swizzle = isinstance(transform, RowXor)
        stem = "swizzled" if self.swizzle else "padded"
        return self._named(stem, f"(int i) {{ return {moved_index(transform, 'i')}; }}", use)

    def address(self, transform: RowXor, use: Node) -> str:
        """Return the name of the function from an address in shared memory to the one that its bytes moved to."""
        body = moved_index(transform, "address")
        return self._named("swizzled_address", f"(unsigned address) {{ return {body}; }}", use, "unsigned")

    def column(self, xor: RowXor, use: Node) -> str:
        """Return the name of the function from row and column to the column's place."""
        return self._named("swizzled", f"(int y, int x) {{ return {swizzled_column(xor, 'y', 'x')}; }}", use)

    def _named(self, stem: str, rest: str, use: Node, type_: str = "int") -> str:
        body = f"{HEAD} {type_} NAME{rest}"
        if existing := self._existing(body, use):
            return existing
        if body not in self._made:
            self._made[body] = (self._free(stem), use)
        name, first = self._made[body]
        if use.start_byte < first.start_byte:
            self._made[body] = (name, use)
        return name

    def _existing(self, body: str, use: Node) -> str:
        """Return the name of the same function, which another tile's patch has written; empty if there is none."""
        wanted = re.escape(body).replace("NAME", r"(\w+)", 1).encode()
        match = re.search(wanted, self.file.text[: use.start_byte])
        return match[1].decode() if match else ""

    def _free(self, stem: str) -> str:
        taken = {name for name, _ in self._made.values()}
        number, name = 1, stem
        while name in taken or name.encode() in self.file.text:
            number += 1
            name = f"{stem}{number}"
        return name

    def edits(self) -> list[Edit]:
        """Return the edit that writes the functions; none if there are none."""
        if not self._made:
            return []
        at = min(self._before(use) for _, use in self._made.values())
        lines = [WHY[self.swizzle], *(body.replace("NAME", name, 1) for body, (name, _) in self._made.items())]
        end = line_end(self.file.text, at)
        before = self.file.text[:at].splitlines()[-1:]
        apart = end if before and before[0].strip() else ""
        return [Edit(at, at, apart + "".join(f"{line}{end}" for line in lines) + end)]

    def _before(self, use: Node) -> int:
        """Return where the function, class, template or macro that holds a use begins, at the start of its line."""
        outer, node = use, use.parent
        while node is not None:
            if node.type in OUTER:
                outer = node
            node = node.parent
        if outer is use:  # in a macro's body, a tree of its own
            outer = next(
                (n for n in self.file.nodes("preproc_function_def", "preproc_def") if cuda.inside(use, n)), use
            )
        while outer.prev_sibling is not None and _belongs(outer.prev_sibling, outer):
            outer = outer.prev_sibling
        return self.file.text.rfind(b"\n", 0, outer.start_byte) + 1


def _belongs(comment: Node, below: Node) -> bool:
    return comment.type == "comment" and comment.end_point[0] + 1 == below.start_point[0]
