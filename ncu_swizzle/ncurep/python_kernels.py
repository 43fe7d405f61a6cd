"""What a report lacks of kernels that Triton compiled: callers of inlined functions, and the compiler's layouts.

They are in Triton's cache on the machine that the program ran on, see `frontends.triton_cache`, and are kept in the
facts file beside a report of ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ncu_swizzle import digest
from ncu_swizzle.frontends import triton_cache
from ncu_swizzle.frontends.triton_cache import CachedKernel
from ncu_swizzle.ncurep.launch_facts import Facts
from ncu_swizzle.ncurep.results import ReportResult
from ncu_swizzle.profiles import sanity

Kernels = Mapping[str, CachedKernel]  # by the digests of their cubins


def known(results: Iterable[ReportResult], facts: Facts = Facts(), folder: Path | None = None) -> Kernels:
    """Return what the facts or else the caches have of the results' cubins; the program ran in `folder`."""
    kernels = _kept(facts)
    for cubin, function in {(result.cubin, result.function) for result in results}:
        if triton_cache.is_python(cubin) and (name := digest.sha256(cubin)) not in kernels:
            cached = triton_cache.found(cubin, function, folder)
            kernels |= {name: cached} if cached else {}
    return kernels


def of(result: ReportResult, kernels: Kernels) -> CachedKernel | None:
    return kernels.get(digest.sha256(result.cubin)) if kernels else None


def lacking(result: ReportResult, kernel: CachedKernel | None) -> list[str]:
    """Return a note if callers are unknown."""
    if kernel is not None or not triton_cache.lacks_callers(result.cubin, result.function):
        return []
    return [
        f"{sanity.INNERMOST}Triton's cubin does not name their callers, and Triton's cache has no PTX of this kernel "
        "here; report it where the program ran, with the same TRITON_CACHE_DIR."
    ]


def as_facts(kernels: Kernels) -> dict[str, Any]:
    """Return the entries of a facts file; none without such kernels."""
    if not kernels:
        return {}
    return {
        "callers": {name: kernel.stacks for name, kernel in kernels.items()},
        "ttgir": {name: kernel.ttgir for name, kernel in kernels.items()},
        "explicit": [name for name, kernel in kernels.items() if kernel.explicit],
    }


def _kept(facts: Facts) -> dict[str, CachedKernel]:
    content = facts.content
    texts, explicit = content.get("ttgir", {}), content.get("explicit", ())
    return {
        name: CachedKernel(
            tuple((offset, tuple((file, line) for file, line in stack)) for offset, stack in stacks),
            texts.get(name, ""),
            name in explicit,
        )
        for name, stacks in content.get("callers", {}).items()
    }
