"""What changes a variable after it was declared: one that nothing changes is taken for the value it begins with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ncu_swizzle.fix.cuda import NOTHING, Node
from ncu_swizzle.fix.scopes import Scopes


@dataclass(eq=False)
class Changes:
    """The variables of a file that are assigned to, or whose address is taken, wherever that is."""

    scopes: Scopes
    _found: dict[int, bool] = field(default_factory=dict)  # by the declared name

    def of(self, declared: Node) -> bool:
        """Return whether a variable may have another value than it was declared with."""
        if declared.id not in self._found:
            self._found[declared.id] = any(map(_changes, self.scopes.uses(declared)))
        return self._found[declared.id]

    def changes_members(self, struct: Node, names: Iterable[str]) -> bool:
        """Return whether members of these names are assigned to out of the constructors of their class."""
        for node in (node for name in names for node in self.scopes.mentions.get(name, [])):
            function = self.scopes.holder(node)
            made = function is not None and function.name == struct.part("name").text
            if not made and _changes(node.out_of("field_expression")):
                return True
        return False


def _changes(use: Node) -> bool:
    node = use.out_of("parenthesized_expression")
    address = node.parent if node.parent.type == "pointer_expression" and node.parent.text.startswith("&") else NOTHING
    return bool(address) or (
        node.is_part("left", "assignment_expression")
        or node.is_part("argument", "update_expression")
        or node.parent.type == "gnu_asm_output_operand"
    )
