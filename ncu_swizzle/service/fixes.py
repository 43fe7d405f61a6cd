"""`fix` and `rewrite`: a source without its conflicts, proved to mean the same, as a patch or as whole texts."""

from __future__ import annotations

from collections.abc import Iterator

from ncu_swizzle.errors import UsageError
from ncu_swizzle.fix import shown
from ncu_swizzle.fix.fixing import FixOptions
from ncu_swizzle.fix.result import KernelFix, TileFix
from ncu_swizzle.fix.sources import FixQuery, SourceFix, fix_all
from ncu_swizzle.fix.written_files import apply
from ncu_swizzle.gate import lint_inputs
from ncu_swizzle.gate.lint_inputs import LintOptions, Skipped
from ncu_swizzle.patch.candidates import MappingKind
from ncu_swizzle.service.answer import Answer, Call, Row
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
    if only not in ("", *MappingKind):
        raise UsageError(f"unknown kind {only!r}", f"one of {', '.join(MappingKind)}")
    fixed = _fixed(caller, file, launch, FixOptions(MappingKind(only) if only else None, max_shared), write)
    outcome = shown.outcome(fixed.kernels)
    written = write and fixed.changed
    if written:
        for changed in fixed.files:
            caller.folders.path(changed.path)
        apply(fixed)
    rows = [*(row for kernel in fixed.kernels for row in _kernel(kernel)), *_patch(fixed)]
    again = {"file": file, **caller.again(file, launch)}
    limits = {name: value for name, value in (("only", only), ("max_shared", max_shared)) if value not in ("", None)}
    following = (
        Call("fix", {**again, **limits, "write": True}) if fixed.changed else _by_hand(caller, fixed, file, launch)
    )
    if written:
        following = Call("lint", {"files": [file], **caller.again(file, launch)})
    return Answer(_summary(fixed, outcome), tuple(rows), following, {"outcome": outcome, "written": written})


def rewrite(caller: Caller, file: str) -> Answer:
    """Answer the whole texts of the files that `fix` would change, a row each: none without a fix."""
    fixed = _fixed(caller, file, LaunchGiven(), FixOptions())
    rows = ({"file": str(made.path), "text": made.after.decode("utf-8", "replace")} for made in fixed.files)
    return Answer(_summary(fixed, shown.outcome(fixed.kernels)), tuple(rows))


def _fixed(caller: Caller, file: str, launch: LaunchGiven, options: FixOptions, write: bool = False) -> SourceFix:
    sources = caller.sources(file, launch)
    for variant in lint_inputs.variants(LintOptions((file,), (), launch.described(), config=sources.config)):
        if not isinstance(variant, Skipped):
            caller.folders.variant(*variant)
            if write:  # the package's own kernels may be read from anywhere
                caller.folders.path(variant[0].source(variant[1]))
    request = caller.request(launch, "emulated")
    described = launch.described()
    return fix_all(FixQuery(file, request, described, sources, options, caller.progress, within=caller.folders.holds))


def _summary(fixed: SourceFix, outcome: str) -> str:
    proved = sum(tile.proved for kernel in fixed.kernels for tile in kernel.tiles)
    tiles = sum(len(kernel.tiles) for kernel in fixed.kernels)
    if outcome == "clean":
        return f"{fixed.source.name}: no shared array conflicts."
    return f"{fixed.source.name}: {proved} of {tiles} shared arrays that conflict are fixed, with proof."


def _kernel(kernel: KernelFix) -> Iterator[Row]:
    yield from (_tile(kernel, tile) for tile in kernel.tiles)
    for claim in kernel.proof.claims if kernel.proof else ():
        place = f"{claim.line[0]}:{claim.line[1]}" if claim.line else ""
        row = {"claim": str(claim.about), "state": str(claim.state), "reason": claim.reason, "line": place}
        yield without_empty({"kernel": kernel.kernel, **row})
    yield from ({"kernel": kernel.kernel, "note": note} for note in (*kernel.unread, *kernel.notes))
    yield from ({"kernel": kernel.kernel, "also proved for": other.kernel} for other in kernel.others)


def _tile(kernel: KernelFix, tile: TileFix) -> Row:
    there = f" ({tile.reason_file or kernel.source.name}:{tile.reason_line})"
    return without_empty(
        {
            "kernel": kernel.kernel,
            "array": tile.name,
            "file": tile.file,
            "line": tile.line,
            "proved": tile.proved,
            "mapping": tile.mapping,
            "excessive": tile.excess_before,
            "excessive after": tile.excess_after,
            "extra_bytes": tile.extra_bytes,
            "in the way": f"{tile.reason}{there}" if tile.reason else "",
        }
    )


def _patch(fixed: SourceFix) -> Iterator[Row]:
    if fixed.changed:
        yield {"patch": shown.patch_of(fixed)}


def _by_hand(caller: Caller, fixed: SourceFix, file: str, launch: LaunchGiven) -> Call | None:
    """Return the call that gives code to apply by hand, for the first kernel that was refused."""
    refused = next((kernel.kernel for kernel in fixed.kernels if not kernel.clean), "")
    several = refused if len(fixed.kernels) > 1 else ""
    return Call("suggest", {"kernel": file, **caller.again(file, launch, several)}) if refused else None
