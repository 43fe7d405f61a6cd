"""The tiles of a source: an array, a part of a carved buffer, or an array in structs, with all accesses to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ncu_swizzle.fix.cuda import Node
from ncu_swizzle.fix.frames import SourceAccess
from ncu_swizzle.fix.names import SharedDeclaration, sizes_of


@dataclass(frozen=True, eq=False, kw_only=True)
class Root:
    """Where a tile begins: an array, or a declared name at a constant distance from one's start, in bytes."""

    declared: Node
    array: SharedDeclaration
    rank: int
    member: bool = False  # an array within a struct
    offset: int = 0
    size: int = 0  # bytes; 0: up to the next root, or the array's end
    copy: str = ""  # which of several structs it is in

    @property
    def label(self) -> str:
        """Its name among the tiles of a file; that of an array in a struct has the variable's."""
        return f"{self.array.name}{self.copy}.{self.declared.text}" if self.member else self.declared.text


@dataclass(frozen=True, kw_only=True)
class Members:
    """Where a struct's array lies: the distance from what holds it, its size, and the structs' strides and counts."""

    offset: int
    size: int
    copies: tuple[tuple[int, int], ...]  # stride and count, of the outermost structs first


@dataclass(frozen=True, eq=False, kw_only=True)
class SourceTile:
    """Roots that share accesses, and so a mapping; all accesses to them."""

    roots: tuple[Root, ...]
    accesses: tuple[SourceAccess, ...]

    @property
    def named(self) -> tuple[Node, ...]:
        """The pointers and parameters through which it is accessed."""
        return tuple(dict.fromkeys(node for access in self.accesses for node, _ in access.pointer.named))


def tiles_of(
    accesses: Sequence[SourceAccess], offsets: Mapping[int, int], members: Mapping[tuple[Node, ...], Members]
) -> tuple[SourceTile, ...]:
    """Return the tiles; `offsets` are the declared pointers at a constant distance from their array, in bytes."""
    roots: dict[tuple[object, ...], Root] = {}
    rooted: list[tuple[Root, SourceAccess]] = []
    for access in accesses:
        root, rest = _rooted(access, offsets)
        root = roots.setdefault((root.array.declared, root.declared), root)
        rooted.append((root, rest))
    # Accesses that are written in the same place share a mapping, and so do all roots of one pointer.
    group = {root: {root} for root in roots.values()}
    by_node: dict[object, Root] = {}
    for root, access in rooted:
        keys = [access.node, *(step.node for step in access.steps if step.node)]
        if root.member:
            keys.append(root.declared)
        for key in keys:
            other = by_node.setdefault(key, root)
            if group[other] is not group[root]:
                group[other] |= group[root]
                for each in group[root]:
                    group[each] = group[other]
    tiles: list[SourceTile] = []
    for joined in {id(some): some for some in group.values()}.values():
        ordered = sorted(joined, key=_order)
        tiles.append(
            SourceTile(
                roots=tuple(copy for root in ordered for copy in _copies(root, members, offsets, rooted)),
                accesses=tuple(access for root, access in rooted if root in joined),
            )
        )
    return tuple(sorted((tile for tile in tiles if tile.roots), key=lambda tile: _order(tile.roots[0])))


def _order(root: Root) -> tuple[int, int, int]:
    return root.array.declared.start_byte, root.offset, root.declared.start_byte


def _rooted(access: SourceAccess, offsets: Mapping[int, int]) -> tuple[Root, SourceAccess]:
    """Return where an access begins, and the access from there on."""
    pointer = access.pointer
    if pointer.members:
        declared = pointer.members[-1]
        return Root(declared=declared, array=pointer.array, rank=len(sizes_of(declared)), member=True), access
    for declared, count in reversed(pointer.named):
        if (offset := offsets.get(declared.id, 0)) > 0 and all(s.rank == 1 for s in pointer.steps[:count]):
            rest = replace(pointer, steps=pointer.steps[count:])
            root = Root(declared=declared, array=pointer.array, rank=1, offset=offset)
            return root, replace(access, pointer=rest)
    return Root(declared=pointer.array.declared, array=pointer.array, rank=max(1, pointer.array.rank)), access


def _copies(
    root: Root, members: Mapping[tuple[Node, ...], Members], offsets: Mapping[int, int],
    found: Sequence[tuple[Root, SourceAccess]],
) -> list[Root]:  # fmt: skip
    """Return a root for each struct that holds the array."""
    if not root.member:
        return [root]
    pointer = next(access.pointer for other, access in found if other is root)
    known = members.get(pointer.members)
    if known is None:
        return []
    starts = [offsets.get(pointer.object_declared.id, 0) + known.offset]
    for stride, count in known.copies:
        starts = [start + number * stride for start in starts for number in range(count)]
    several = len(starts) > 1
    return [
        replace(root, offset=start, size=known.size, copy=f"[{number}]" if several else "")
        for number, start in enumerate(starts)
    ]
