"""The configurations of ``@triton.autotune`` as variants: a sweep tells which of them conflict."""

from __future__ import annotations

from collections.abc import Sequence

from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.catalog.family import Family
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.frontends.built import tuned


def with_configurations(catalog: Catalog, names: Sequence[str], timeout_s: float) -> Catalog:
    """Return the catalogue, the family named alone with a kernel per configuration if its function is tuned.

    A family that has variants of its own, or other sources than Python, stays as it is.
    """
    families = [_expanded(family, timeout_s) if [family.name] == list(names) else family for family in catalog.families]
    return Catalog(tuple(families))


def _expanded(family: Family, timeout_s: float) -> Family:
    only = family.kernels[0]
    alone = len(family.kernels) == 1 and not only.library
    return tuned(family, timeout_s) if alone and Target(family, only, {}).python else family
