"""`lint` as a function: `ncu_swizzle.lint("my.cu", against="origin/main")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ncu_swizzle.catalog.kernel_options import PairOptions
from ncu_swizzle.engines.context import Progress, Request, silent
from ncu_swizzle.engines.emulation import EmulationSettings
from ncu_swizzle.errors import UsageError
from ncu_swizzle.gate import against as comparing
from ncu_swizzle.gate import base, linting
from ncu_swizzle.gate.lint_inputs import LintOptions
from ncu_swizzle.gate.verdict import Verdict
from ncu_swizzle.texts import Texts, listed

OWN = tuple(field.name for field in fields(PairOptions))


def lint(
    *files: str | Path,
    against: str = "",
    max_degree: float | Texts = (),
    problem: Mapping[str, int] | None = None,
    timeout: float = 600,
    on_progress: Progress = silent,
    catalog: Sequence[str | Path] = (),
    config: str = "",
    trust: bool = False,
    **own: Any,
) -> Verdict:
    """Return a check per line that conflicts, like ``ncu-swizzle lint``; with `against`, only what got worse fails.

    Keywords that describe a .cu file are those of `profile`. Nothing is raised for a line that fails: see `outcome`.
    """
    for name in own:
        if name not in OWN:
            raise UsageError(f"unknown option {name!r}", f"options here: {', '.join(OWN)}")
    request = Request(problem=dict(problem or {}), timeout_s=timeout)
    limits = listed(f"{max_degree:g}" if isinstance(max_degree, int | float) else max_degree)
    described = PairOptions(**own).described(request.problem)
    folders = tuple(map(Path, catalog))
    options = LintOptions(tuple(map(str, files)), limits, described, folders, config, trust)
    settings = EmulationSettings.of(request)
    kernels = list(linting.lint_kernels(options, settings, on_progress))
    if not against:
        return linting.verdict_of(kernels)
    return comparing.verdict(kernels, base.lint_base(against, options, settings, on_progress))
