"""Fixes for what ``ncu-swizzle lint`` found: of every source with a line that conflicts."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ncu_swizzle.catalog import includes
from ncu_swizzle.catalog.family import BINARIES, PYTHON
from ncu_swizzle.catalog.kernel_options import CatalogOptions
from ncu_swizzle.catalog.target import Target
from ncu_swizzle.engines.context import Progress, Request, silent
from ncu_swizzle.errors import EnvironmentLacking, NcuSwizzleError
from ncu_swizzle.fix.sources import ChangedFile, FixQuery, SourceFix, fix_targets
from ncu_swizzle.fix.together import written_together
from ncu_swizzle.gate import lint_inputs
from ncu_swizzle.gate.lint_inputs import LintOptions, Skipped
from ncu_swizzle.gate.places import in_checkout
from ncu_swizzle.gate.verdict import MAX_DEGREE, CorrectedFile, Correction, Outcome, Replacement, Verdict


def fixes(options: LintOptions, request: Request, verdict: Verdict, progress: Progress = silent) -> list[SourceFix]:
    """Return the fix of each source with a kernel that a check found to conflict."""
    named = {
        check.kernel for check in verdict.checks if check.criterion == MAX_DEGREE and check.outcome is Outcome.failed
    }
    by_source: dict[Path, list[Target]] = {}
    for target in _targets(options):
        by_source.setdefault(target.source.resolve(), []).append(target)
    chosen = [targets for targets in by_source.values() if any(target.name in named for target in targets)]
    made: list[SourceFix] = []
    for targets in chosen:
        if {target.name for target in targets} & named <= _mapped(made):
            continue
        fixed = _fixed(targets, options, request, progress)
        if fixed and not any(_meet(fixed, other) for other in made):
            made.append(fixed)
    return made


def _mapped(made: Sequence[SourceFix]) -> set[str]:
    """Return the kernels that fixes of other sources have mapped."""
    return {other.kernel for fixed in made for kernel in fixed.kernels for other in kernel.others if other.mapped}


def _meet(one: SourceFix, other: SourceFix) -> bool:
    """Say whether a fix changes what the other one was proved with: the next run will fix what is left."""
    changed = [{includes.plain(file.path) for file in fixed.files} for fixed in (one, other)]
    return bool(changed[0] & other.read or changed[1] & one.read)


def _targets(options: LintOptions) -> Iterator[Target]:
    for variant in lint_inputs.variants(options):
        if isinstance(variant, Skipped):
            continue
        family, kernel = variant
        names = {parameter.name for parameter in family.parameters}
        sizes = {name: size for name, size in options.description.problem.items() if name in names}
        target = Target(family, kernel, family.problem(sizes))
        if not kernel.library and target.source.suffix not in (*BINARIES, PYTHON):
            yield target


def _fixed(targets: Sequence[Target], options: LintOptions, request: Request, progress: Progress) -> SourceFix | None:
    sources = CatalogOptions(options.config, options.catalogs, options.trust)
    query = FixQuery(targets[0].name, request, options.description, sources, progress=progress)
    try:
        return fix_targets(targets, query)
    except EnvironmentLacking:
        raise
    except NcuSwizzleError:  # lint has said what is wrong with it
        return None


def corrected(verdict: Verdict, made: Sequence[SourceFix]) -> Verdict:
    """Return the verdict with what corrects it."""
    return replace(verdict, corrections=tuple(_correction(fixed) for fixed in made if fixed.changed))


def _correction(fixed: SourceFix) -> Correction:
    proved = [kernel for kernel in fixed.kernels if kernel.proved]
    tiles = [f"{tile.name}: {tile.mapping}" for kernel in proved for tile in kernel.tiles if tile.proved]
    own = [kernel.kernel for kernel in fixed.kernels if kernel.proved or kernel.along]
    return Correction(
        (*own, *sorted(_mapped([fixed]))),
        f"{'; '.join(dict.fromkeys(tiles))}. Rebuilt and proved without a GPU.",
        tuple(
            CorrectedFile(in_checkout(str(file.path), Path.cwd()), tuple(_replacements(file))) for file in fixed.files
        ),
    )


def _replacements(file: ChangedFile) -> Iterator[Replacement]:
    old, new = (text.decode("utf-8", "replace").splitlines(keepends=True) for text in (file.before, file.after))
    for tag, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Replacement(first + 1, last - first, "".join(new[start:end]))


def apply(made: Sequence[SourceFix]) -> list[Path]:
    """Write the files that changed; return them. Raises UsageError for one that is no longer what was read."""
    changed = [file for fixed in made for file in fixed.files]
    written_together(changed, "run the command again")
    return [file.path for file in changed]
