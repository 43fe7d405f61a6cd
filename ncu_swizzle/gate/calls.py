"""`lint` as a function: `ncu_swizzle.lint("my.cu", against="origin/main")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ncu_swizzle.build.build_option import NewBuild
from ncu_swizzle.catalog.kernel_options import PairOptions
from ncu_swizzle.engines.context import KEYWORDS, Progress, Request, silent
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.fleet.options import FleetOptions
from ncu_swizzle.gate import against as comparing
from ncu_swizzle.gate import base, lint_page, linting
from ncu_swizzle.gate.lint_inputs import LintOptions
from ncu_swizzle.gate.verdict import Verdict
from ncu_swizzle.option import names_of, refuse_rest, taken
from ncu_swizzle.texts import Texts, listed


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
    query = LintOptions(paths, limits, own.described(request.problem), tuple(map(Path, catalog)), config, trust, build)
    settings = EmulationSettings.of(request)
    kernels = list(linting.lint_kernels(query, settings, on_progress, fleet))
    verdict, then = linting.verdict_of(kernels), None
    if against:
        then = base.lint_base(against, query, settings, on_progress)
        verdict = comparing.verdict(kernels, then)
    return lint_page.write(Path(html), kernels, then, verdict) if html is not None else verdict
