"""The tiles of a shipped kernel, by its family."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping

from ncu_swizzle.catalog import collection
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.errors import NcuSwizzleError, UsageError
from ncu_swizzle.tiles.declaration import KernelSource, Tile


def declared(family: str, kernel: str, problem: Mapping[str, int]) -> tuple[Tile, ...]:
    """Return the tiles of a shipped kernel by name; none for a library kernel or one from another catalogue."""
    try:
        target = collection.shipped().target(kernel, problem)
        return tiles_of(target) if target.family.name == family else ()
    except NcuSwizzleError:
        return ()


def has_tiles(target: Target) -> bool:
    """Return whether the accesses of a kernel are declared."""
    family = target.family
    known = importlib.util.find_spec(f"ncu_swizzle.tiles.{family.name}") if family.name.isidentifier() else None
    return known is not None and family.shipped and not target.kernel.library


def tiles_of(target: Target) -> tuple[Tile, ...]:
    """Return the tiles of a kernel and all accesses to them; raise UsageError if they are not declared."""
    family, kernel = target.family, target.kernel
    if kernel.library:
        raise UsageError(f"{kernel.name} is a library kernel: its layouts are not declared", "name another kernel")
    if family.standalone:
        raise UsageError(f"the accesses of {kernel.name} are not declared", "ncu-swizzle profile measures them")
    try:
        module = importlib.import_module(f"ncu_swizzle.tiles.{family.name}")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the accesses of the family {family.name} are not declared",
            f"declare them in ncu_swizzle/tiles/{family.name}.py; docs/model.md says how",
        ) from error
    source = KernelSource(target.source.read_text(encoding="utf-8"))
    tiles: tuple[Tile, ...] = module.tiles(source, target.problem)
    return tiles
