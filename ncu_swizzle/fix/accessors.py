"""Expressions as one writes them by hand, and small functions that patches add."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from ncu_swizzle.fix.cuda import CudaFile, Node
from ncu_swizzle.fix.edits import Edit, line_end
from ncu_swizzle.smem.operations import Ints
from ncu_swizzle.smem.swizzle import Padding, RowXor, XorMatrix


class Shorter(Padding):
    """Rows that are -`by` elements shorter: padding that a source has is taken out."""

    def __post_init__(self) -> None:
        """Allow a negative length."""

    def cuda(self, offset: str) -> str:
        return f"{offset} - {offset} / {self.every} * {-self.by}"


@dataclass(frozen=True)
class Both:
    """Rows of another length, and an XOR of their numbers into the columns."""

    rows: Padding
    xor: RowXor

    @property
    def granule(self) -> int:
        return min(self.rows.granule, self.xor.granule)

    @property
    def operations(self) -> int:
        return self.xor.operations

    def __call__(self, offsets: Ints) -> Ints:
        return self.xor(self.rows(offsets))

    def cuda(self, offset: str) -> str:
        return self.xor.cuda(f"({self.rows.cuda(offset)})")


# Expressions as a person would write them.

_ATOM = re.compile(r"(\(\w+\))?[\w.:]+|\w+\([\w., ]*\)|\w+(\[[\w ]*\])+")
EFFECTS = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)")


def atom(text: str) -> str:
    """Return an expression, in parentheses unless it is a single operand."""
    text = text.strip()
    return text if _ATOM.fullmatch(text) or _closed(text) else f"({text})"


def _closed(text: str) -> bool:
    """Return whether one pair of parentheses holds all of a text."""
    if not text.startswith("("):
        return False
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return position == len(text) - 1
    return False


def bits_of_row(xor: RowXor, row: str) -> str:
    """Return what a row's columns are XORed with: ``(y & 31)``, ``((y & 7) << 3)``."""
    text = atom(row)
    # ((y >> d) & m) << d is y & (m << d).
    if xor.drop and xor.drop == xor.base:
        return f"({text} & {xor.mask << xor.base})"
    if xor.drop:
        text = f"({text} >> {xor.drop})"
    # With so few rows, their numbers have no more bits than the mask lets through.
    if not 0 < xor.rows <= 1 << (xor.drop + xor.bits):
        text = f"({text} & {xor.mask})"
    return f"({text} << {xor.base})" if xor.base else text


def sum_of(parts: Sequence[tuple[bool, str]]) -> str:
    """Return a sum of parts, each subtracted or added."""
    text = ""
    for negative, part in parts:
        text += f" {'-' if negative else '+'} {part}" if text else f"-{part}" if negative else part
    return text or "0"


HEAD = "static __device__ __forceinline__ constexpr"
OUTER = (
    "function_definition", "template_declaration", "preproc_function_def", "preproc_def", "struct_specifier",
    "class_specifier",
)  # fmt: skip
WHY = {
    True: "// Bits of an element's number are XORed with higher ones: a column's elements lie in different banks.",
    False: "// Every row is followed by unused elements, so that those of a column lie in different banks.",
}


@dataclass(eq=False)
class Accessors:
    """The functions that the edits of one tile call, each once."""

    file: CudaFile
    _made: dict[str, tuple[str, Node]] = field(default_factory=dict, init=False)  # by body: the name, the first use
    swizzle: bool = True

    def flat(self, transform: RowXor | XorMatrix | Padding, use: Node) -> str:
        """Return the name of the function from an element's index to its place."""
        self.swizzle = not isinstance(transform, Padding)
        stem = "swizzled" if self.swizzle else "padded"
        return self._named(stem, f"(int i) {{ return {transform.cuda('i')}; }}", use)

    def address(self, transform: RowXor | XorMatrix, use: Node) -> str:
        """Return the name of the function from an address in shared memory to the one that its bytes moved to."""
        body = f"(unsigned address) {{ return {transform.cuda('address')}; }}"
        return self._named("swizzled_address", body, use, "unsigned")

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

    def definition(self, text: str, use: Node) -> Edit:
        """Return the edit that writes a definition before what holds its use."""
        at = self._before(use)
        return Edit(at, at, f"{text}{line_end(self.file.text, at)}")

    def _before(self, use: Node) -> int:
        """Return where the function, class, template or macro that holds a use begins, at the start of its line."""
        outer, node = use, use.parent
        while node:
            if node.type in OUTER:
                outer = node
            node = node.parent
        if outer is use:  # in a macro's body, which is a separate tree
            macros = self.file.nodes("preproc_function_def", "preproc_def")
            outer = next((node for node in macros if use.inside(node)), use)
        # Comments right above it stay there.
        while (comment := outer.before).type == "comment" and outer.line - comment.line == comment.text.count("\n") + 1:
            outer = comment
        return self.file.text.rfind(b"\n", 0, outer.start_byte) + 1
