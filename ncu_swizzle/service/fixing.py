"""`fix`: the patch that frees a source's kernels of conflicts, and its proof."""

from __future__ import annotations

from collections.abc import Iterator

from ncu_swizzle.errors import UsageError
from ncu_swizzle.fix import shown
from ncu_swizzle.fix.candidates import Only
from ncu_swizzle.fix.fixing import FixOptions
from ncu_swizzle.fix.result import KernelFix, TileFix
from ncu_swizzle.fix.sources import FixQuery, SourceFix, fix_all
from ncu_swizzle.fix.written_files import apply
from ncu_swizzle.service.answer import Answer, Row
from ncu_swizzle.service.caller import Caller, without_empty
from ncu_swizzle.service.launch import LaunchGiven


def fix(
    caller: Caller,
    file: str,
    launch: LaunchGiven = LaunchGiven(),
    only: str = "",
    max_shared: int | None = None,
    write: bool = False,
) -> Answer:
    """Answer the patch for a source, and each claim of its proof; with `write`, change the source if all is proved."""
    if only not in ("", *Only):
        raise UsageError(f"unknown kind {only!r}", f"one of {', '.join(Only)}")
    options = FixOptions(Only(only) if only else None, max_shared)
    sources = caller.sources(file, launch)
    request = caller.request(launch, "emulated")
    fixed = fix_all(FixQuery(file, request, launch.described(), sources, options, caller.progress))
    caller.folders.path(fixed.source)
    outcome = shown.outcome(fixed.kernels)
    written = write and fixed.changed
    if written:
        apply(fixed)
    rows = [*(row for kernel in fixed.kernels for row in _kernel(kernel)), *_patch(fixed)]
    return Answer(
        _summary(fixed, outcome), tuple(rows), _next(file, fixed, written), {"outcome": outcome, "written": written}
    )


def _summary(fixed: SourceFix, outcome: str) -> str:
    proved = sum(tile.proved for kernel in fixed.kernels for tile in kernel.tiles)
    tiles = sum(len(kernel.tiles) for kernel in fixed.kernels)
    if outcome == "clean":
        return f"{fixed.source.name}: no shared array conflicts."
    return f"{fixed.source.name}: {proved} of {tiles} shared arrays that conflict are fixed, with proof."


def _kernel(kernel: KernelFix) -> Iterator[Row]:
    yield from (_tile(kernel, tile) for tile in kernel.tiles)
    for claim in kernel.proof.claims if kernel.proof else ():
        yield {"kernel": kernel.kernel, "claim": str(claim.about), "state": str(claim.state), "reason": claim.reason}
    yield from ({"kernel": kernel.kernel, "note": note} for note in kernel.notes)


def _tile(kernel: KernelFix, tile: TileFix) -> Row:
    return without_empty(
        {
            "kernel": kernel.kernel,
            "array": tile.name,
            "line": tile.line,
            "proved": tile.proved,
            "mapping": tile.mapping,
            "excessive": tile.excess_before,
            "excessive after": tile.excess_after,
            "extra_bytes": tile.extra_bytes,
            "in the way": f"{tile.reason} (line {tile.reason_line})" if tile.reason else "",
        }
    )


def _patch(fixed: SourceFix) -> Iterator[Row]:
    if fixed.changed:
        yield {"patch": shown.patch_of(fixed)}


def _next(file: str, fixed: SourceFix, written: bool) -> str:
    if written:
        return f"lint with files=[{file!r}]"
    if fixed.changed:
        return "the same call with write=true changes the file"
    refused = any(not kernel.clean for kernel in fixed.kernels)
    return f"suggest with kernel={file!r} gives code to apply by hand" if refused else ""
