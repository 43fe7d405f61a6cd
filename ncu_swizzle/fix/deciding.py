"""What of an expression another launch, or other data, may decide.

The described launch shows what an index was there. With another parameter of the kernel, another grid, or other
numbers in memory it may be more: a column beyond its row, which a mapping of rows and columns takes elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ncu_swizzle.fix.cuda import Node
from ncu_swizzle.fix.scopes import Definition, Scopes

OF_BLOCK = ("threadIdx", "blockDim", "warpSize")  # as described: another shape of block is another launch to be fixed
OF_GRID = ("blockIdx", "gridDim", "clusterIdx", "clusterDim")
LOOPS = ("for_statement", "while_statement", "do_statement", "for_range_loop")
FROM_HOST = {"__device__", "__constant__", "__managed__"}  # variables of the file that others may write
LEAST = ("min", "umin", "fminf")


@dataclass(eq=False, kw_only=True)
class Deciding:
    """The ways from expressions to parameters of the kernel, the grid and memory.

    `constant` says whether the source makes an expression constant, `indexing` whether a call is the index of a view:
    it is what its arguments are.
    """

    scopes: Scopes
    constant: Callable[[Node], bool]
    indexing: Callable[[Node], bool] = lambda node: False
    _seen: set[int] = field(default_factory=set)  # names, by their declaration, and bodies of functions

    def of(self, node: Node) -> Iterator[Node]:
        """Yield the parameters, coordinates of the grid and loads that an expression's value comes from."""
        node = node.bare
        if self.constant(node) or self._bounded(node):
            return
        match node.type:
            case "identifier":
                yield from self._named(node)
            case "pointer_expression":
                yield node
            case "subscript_expression" if not self.indexing(node):
                yield node
            case "field_expression":
                held = node.part("argument")
                if held.text in OF_GRID:
                    yield node
                elif held.text not in OF_BLOCK:
                    yield from self.of(held)
            case "call_expression":
                yield from self._called(node)
            case _:
                for child in node.named_children:
                    yield from self.of(child)

    def _bounded(self, node: Node) -> bool:
        """Return whether a constant bounds an expression, whatever the rest of it is."""
        if node.type == "call_expression":
            return node.called in LEAST and any(self.constant(given) for given in node.arguments)
        if node.type != "binary_expression":
            return False
        left, right = (self.constant(node.part(side)) for side in ("left", "right"))
        operator = node.part("operator").text
        return (operator == "%" and right) or (operator == "&" and (left or right))

    def _called(self, call: Node) -> Iterator[Node]:
        """Follow what a function is given, and what those of this file return."""
        for given in call.part("arguments").named_children:
            yield from self.of(given)
        for made in self.scopes.callables.get(call.called, []):
            if not made.macro and self._is_new(made.body):
                for node in made.body.walk():
                    if node.type == "return_statement":
                        for returned in node.named_children:
                            yield from self.of(returned)

    def _is_new(self, node: Node) -> bool:
        new = node.id not in self._seen
        self._seen.add(node.id)
        return new

    def _named(self, node: Node) -> Iterator[Node]:
        declared = self.scopes.resolve(node)
        if not declared or not self._is_new(declared):
            return
        statement = declared.above("declaration")
        if statement.words & FROM_HOST and self.scopes.holder(statement) is None:
            yield node
        for value in self._values(declared):
            yield from self.of(value)
        for made, number in self.scopes.taking(declared):
            # A kernel's parameter comes from the launch; that of another function from its calls in this file, which
            # are followed.
            if "__global__" in made.node.text.partition("(")[0]:
                yield node
            for given in self._given(made, number):
                yield from self.of(given)

    def _given(self, made: Definition, number: int) -> Iterator[Node]:
        for mention in self.scopes.mentions.get(made.name, []):
            call = mention.above("call_expression")
            if call.called == made.name:
                yield from call.arguments[number : number + 1]

    def _values(self, declared: Node) -> Iterator[Node]:
        """Yield what a variable, or a member of it, is given, and what bounds it where it is counted."""
        if declared.is_part("declarator", "init_declarator"):
            yield declared.parent.part("value")
        for use in self.scopes.uses(declared):
            node = use.out_of("field_expression")
            if node.is_part("left", "assignment_expression"):
                yield node.parent.part("right")
                if node.parent.part("operator").text != "=":
                    yield from self._counting(node, declared)
            elif node.is_part("argument", "update_expression"):
                yield from self._counting(node, declared)

    def _counting(self, node: Node, declared: Node) -> Iterator[Node]:
        """Yield the conditions of the loops in which a variable that was declared outside is counted."""
        while loop := node.above(*LOOPS):
            if declared.inside(loop.part("body")):
                return
            yield loop.part("condition")
            if declared.inside(loop):  # for (int i = 0; …)
                return
            node = loop
