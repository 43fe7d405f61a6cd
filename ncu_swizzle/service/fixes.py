"""`fix` and `rewrite`: a source without its conflicts, proved to mean the same, as a patch or as its whole text."""

from __future__ import annotations

from collections.abc import Iterator

from ncu_swizzle.fix import shown
from ncu_swizzle.fix.result import KernelFix
from ncu_swizzle.fix.sources import FixQuery, SourceFix, fix_all
from ncu_swizzle.gate import lint_inputs
from ncu_swizzle.gate.lint_inputs import LintOptions, Skipped
from ncu_swizzle.service.answer import Answer, Row
from ncu_swizzle.service.caller import Caller
from ncu_swizzle.service.launch import LaunchGiven


def fix(caller: Caller, file: str, launch: LaunchGiven = LaunchGiven()) -> Answer:
    """Answer the patch that frees a source's kernels of conflicts, and what of it is proved; nothing is written.

    Raises what `fix.sources.fix_all` raises, and Untrusted.
    """
    fixed = _fixed(caller, file, launch)
    patch = ({"patch": shown.patch_of(fixed)},) if fixed.changed else ()
    rows = [row for kernel in fixed.kernels for row in _rows(kernel)]
    following = f"apply the patch, then lint with files=[{file!r}]" if fixed.changed else ""
    return Answer(_summary(fixed), (*rows, *patch), following, {"outcome": shown.outcome(fixed.kernels)})


def rewrite(caller: Caller, file: str) -> Answer:
    """Answer the whole text of a source as `fix` would leave it: in the row `text`, which is missing without a fix."""
    fixed = _fixed(caller, file, LaunchGiven())
    text = ({"text": fixed.after.decode("utf-8", "replace")},) if fixed.changed else ()
    return Answer(_summary(fixed), text)


def _fixed(caller: Caller, file: str, launch: LaunchGiven) -> SourceFix:
    sources = caller.sources(file, launch)
    for variant in lint_inputs.variants(LintOptions((file,), (), launch.described(), config=sources.config)):
        if not isinstance(variant, Skipped):
            caller.folders.variant(*variant)
    request = caller.request(launch, "emulated")
    return fix_all(FixQuery(file, request, launch.described(), sources, progress=caller.progress))


def _summary(fixed: SourceFix) -> str:
    return " ".join(f"{kernel.kernel}: {' '.join(shown.sentences(kernel))}" for kernel in fixed.kernels)


def _rows(kernel: KernelFix) -> Iterator[Row]:
    """Yield what is proved of a kernel's patch, claim by claim."""
    for claim in kernel.proof.claims if kernel.proof else ():
        line = f"{claim.line[0]}:{claim.line[1]}" if claim.line else ""
        yield {
            "kernel": kernel.kernel,
            "claim": claim.about,
            "state": claim.state,
            "reason": claim.reason,
            "line": line,
        }
