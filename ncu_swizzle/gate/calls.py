"""Where a verdict goes besides the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ncu_swizzle.base.files import write_atomically
from ncu_swizzle.base.texts import Texts, listed, names_of, refuse_rest, taken
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.engines.settings import KEYWORDS, Progress, Request, silent
from ncu_swizzle.gate import against, linting
from ncu_swizzle.gate import against as comparing
from ncu_swizzle.gate.against import Base, lint_base
from ncu_swizzle.gate.lint_inputs import LintOptions
from ncu_swizzle.gate.linting import KernelLint
from ncu_swizzle.gate.verdict import Verdict
from ncu_swizzle.kernels.options import NewBuild, PairOptions
from ncu_swizzle.render import page
from ncu_swizzle.reports import comparison
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.sweep.options import FleetOptions

# The page of what was linted: each kernel's profile, next to the one it had in another commit.


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


# `lint` as a function: `ncu_swizzle.lint("my.cu", against="origin/main")`.


def lint(
    *files: str | Path,
    against: str = "",
    max_degree: float | Texts = (),
    html: str | Path | None = None,
    problem: Mapping[str, int] | None = None,
    timeout: float = 600,
    on_progress: Progress = silent,
    catalog: Sequence[str | Path] = (),
    config: str = "",
    trust: bool = False,
    **options: Any,
) -> Verdict:
    """Return a check per line that conflicts, like ``ncu-swizzle lint``; with `against`, only what got worse fails.

    Keywords that describe a .cu file are those of `profile`. Others are the command's options, with ``_`` for ``-``:
    ``nvcc``, ``exhaustive``, ``no_cache``; ``rebuild`` and ``cubin`` for captured launches; ``workers=2``. Nothing is
    raised for a line that fails: see `outcome`.
    """
    request = Request(problem=dict(problem or {}), timeout_s=timeout, **taken(Request, options, KEYWORDS))
    build, fleet = NewBuild(**taken(NewBuild, options)), FleetOptions(**taken(FleetOptions, options))
    own = PairOptions(**taken(PairOptions, options))
    refuse_rest(options, [*KEYWORDS, *names_of(NewBuild, FleetOptions, PairOptions)])
    paths = tuple(map(str, files))
    build.refuse_without_launches(paths)
    limits = listed(f"{max_degree:g}" if isinstance(max_degree, int | float) else max_degree)
    query = LintOptions(
        files=paths,
        max_degree=limits,
        description=own.described(request.problem),
        catalogs=tuple(map(Path, catalog)),
        config=config,
        trust=trust,
        build=build,
    )
    settings = EmulationSettings.of(request)
    kernels = list(linting.lint_kernels(query, settings, on_progress, fleet))
    verdict, then = linting.verdict_of(kernels), None
    if against:
        then = lint_base(against, query, settings, on_progress)
        verdict = comparing.verdict(kernels, then)
    return write(Path(html), kernels, then, verdict) if html is not None else verdict
