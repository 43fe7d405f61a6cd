"""The page of what was linted: each kernel's profile, next to the one it had in another commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.files import write_atomically
from ncu_swizzle.gate import against
from ncu_swizzle.gate.base import Base
from ncu_swizzle.gate.lines import KernelLint
from ncu_swizzle.gate.verdict import Verdict
from ncu_swizzle.profiles import comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render import page


def write(path: Path, kernels: Sequence[KernelLint], base: Base | None, verdict: Verdict) -> Verdict:
    """Write the page, and return the verdict; if no kernel was emulated, write none and note that."""
    pairs = against.paired(kernels, base) if base else ((kernel, None) for kernel in kernels)
    comparisons = [
        comparison.compare([*_earlier(before, base), now.profile]) for now, before in pairs if now.profile is not None
    ]
    if not comparisons:
        return replace(verdict, notes=(*verdict.notes, f"{path} was not written: no kernel was emulated."))
    title = f"{len(comparisons)} kernels, {verdict.summary}"
    write_atomically(path, page.render_all(comparisons, verdict.notes, title).encode())
    return verdict


def _earlier(kernel: KernelLint | None, base: Base | None) -> list[Profile]:
    """Return the profile of a kernel of another commit, named after that."""
    if kernel is None or base is None or kernel.profile is None:
        return []
    named = replace(kernel.profile.kernel, name=f"{kernel.name} ({base.name})")
    return [replace(kernel.profile, kernel=named)]
