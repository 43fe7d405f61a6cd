"""Fixes measured on the GPU that is here; one that the GPU refutes is not offered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ncu_swizzle.build.toolchain import Toolchain
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.errors import NcuSwizzleError
from ncu_swizzle.fix.result import KernelFix
from ncu_swizzle.ncu import gpu
from ncu_swizzle.patch.rebuilt import rebuilt
from ncu_swizzle.proof import on_gpu
from ncu_swizzle.proof.claims import About, Claim, State
from ncu_swizzle.unfinished.folders import scratch

NO_GPU = "no GPU"
NOT_ASKED = "--no-gpu"


def measured(
    kernels: Sequence[KernelFix], targets: Sequence[Target], text: bytes, toolchain: Toolchain
) -> tuple[KernelFix, ...]:
    """Return the fixes with what launching their kernels says of `text`, the source with all of them.

    If it refutes one, none is offered: they share a patch.
    """
    if gpu.absent():
        return unmeasured(kernels, NO_GPU)
    chosen = [number for number, kernel in enumerate(kernels) if kernel.proved or kernel.along]
    try:
        claims = dict(zip(chosen, _launched([targets[number] for number in chosen], text, toolchain), strict=True))
    except NcuSwizzleError as error:
        return unmeasured(kernels, str(error))
    made = tuple(replace(kernel, measured=claims.get(number, ())) for number, kernel in enumerate(kernels))
    refuted = next(_refuted(made), None)
    return made if refuted is None else tuple(_withdrawn(kernel, *refuted) for kernel in made)


def unmeasured(kernels: Sequence[KernelFix], reason: str) -> tuple[KernelFix, ...]:
    """Return the fixes with the reason why they were not measured."""
    return tuple(
        replace(kernel, not_measured=reason) if kernel.proved or kernel.along else kernel for kernel in kernels
    )


def _launched(targets: Sequence[Target], text: bytes, toolchain: Toolchain) -> list[tuple[Claim, ...]]:
    with scratch() as folder:
        pairs = []
        for number, target in enumerate(targets):
            with rebuilt(target, text) as after:
                pairs.append(on_gpu.compiled_pair(target, after, folder / str(number), toolchain))
        return on_gpu.measure(pairs, folder, toolchain)


def _refuted(kernels: Sequence[KernelFix]) -> Iterator[tuple[str, Claim]]:
    for kernel in kernels:
        yield from ((kernel.kernel, claim) for claim in kernel.measured if claim.state is State.FAILED)


def _withdrawn(kernel: KernelFix, launched: str, claim: Claim) -> KernelFix:
    """Return a fix whose patch is not offered, because launching one of the kernels refutes it."""
    where = "on the GPU" if launched == kernel.kernel else f"for {launched}, on the GPU"
    otherwise = "; --no-gpu offers it without timing it" if claim.about is About.TIME else ""
    reason = f"it is proved, but {where}: {claim.reason}{otherwise}"
    tiles = tuple(
        replace(tile, proved=False, reason=reason, reason_line=tile.line, reason_file=tile.file)
        if tile.proved
        else tile
        for tile in kernel.tiles
    )
    return replace(kernel, after=kernel.before, tiles=tiles)
