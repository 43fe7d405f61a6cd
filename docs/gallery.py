"""The gallery's reports: made from the recordings when the site is built."""

from __future__ import annotations

from collections.abc import Iterator

from ncu_swizzle.commands import run_kernel
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels import catalog
from ncu_swizzle.render import page

REPORTS = {  # name of the page: kernels, "before" first
    "attention": ("kernel1", "kernel2", "kernel3", "reference-attention"),
    "gemm": ("gemm-plain", "gemm-half-swizzled", "gemm-swizzled", "gemm-wide", "reference-gemm"),
    "transpose": ("transpose-plain", "transpose-padded", "transpose-xor"),
    "cute": ("cute-8x8-plain", "cute-8x8-swizzled"),
    "tma": ("tma-none", "tma-128"),
    "vectors": ("vectors-4-stride", "vectors-4-swizzle"),
}


def reports() -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each report."""
    for name, kernels in REPORTS.items():
        result = run_kernel.compare_all(
            [catalog.shipped().target(kernel) for kernel in kernels], Request(engine="recorded")
        )
        yield f"gallery/{name}.html", page.render(result.comparison).encode()
