"""Build, check and time kernels without ncu."""

from __future__ import annotations

from collections.abc import Sequence

from ncu_swizzle.catalog.collection import Catalog
from ncu_swizzle.engines.context import Request
from ncu_swizzle.engines.measured import time_together, without_cache
from ncu_swizzle.jobs.profile_kernel import has_torch
from ncu_swizzle.profiles.result import Timing
from ncu_swizzle.unfinished.folders import scratch


def time_kernels(
    catalog: Catalog, names: Sequence[str], request: Request, reference: bool, more: Sequence[str] = ()
) -> Timing:
    """Time kernels of one family in turn, and the library's if PyTorch is installed.

    `more` are options of the launching program. Raises UsageError if the kernels are not of one family.
    """
    family, kernels = catalog.find_together(names)
    library = family.library()
    if reference and library and library not in kernels and has_torch():
        kernels.append(library)
    problem = family.problem(request.problem)
    with scratch() as folder:
        facts = time_together(family, kernels, problem, folder, request.timeout_s, [*more, *without_cache(request)])
    return Timing(family, tuple(kernels), facts)
