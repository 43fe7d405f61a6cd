"""`profile_sweep`: a sweep as a function, whose result shows itself in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ncu_swizzle.base.files import slug, write_atomically
from ncu_swizzle.base.texts import Texts, listed, names_of, refuse_rest, taken
from ncu_swizzle.base.unfinished import scratch
from ncu_swizzle.engines.settings import KEYWORDS, Options, Progress, Request, silent
from ncu_swizzle.frontends.compiled import tuned
from ncu_swizzle.kernels import user
from ncu_swizzle.kernels.catalog import Catalog
from ncu_swizzle.kernels.family import Family, Target
from ncu_swizzle.kernels.options import PairOptions
from ncu_swizzle.reports.options import Destination
from ncu_swizzle.sweep import plan, running, table, view
from ncu_swizzle.sweep.folder import Sweep
from ncu_swizzle.sweep.options import FleetOptions

# The configurations of ``@triton.autotune`` as variants: a sweep tells which of them conflict.


def with_configurations(catalog: Catalog, names: Sequence[str], timeout_s: float) -> Catalog:
    """Return the catalogue, the family named alone with a kernel per configuration if its function is tuned.

    A family that has variants of its own, or other sources than Python, stays as it is.
    """
    families = [_expanded(family, timeout_s) if [family.name] == list(names) else family for family in catalog.families]
    return Catalog(tuple(families))


def _expanded(family: Family, timeout_s: float) -> Family:
    only = family.kernels[0]
    alone = len(family.kernels) == 1 and not only.library
    return tuned(family, timeout_s) if alone and Target(family, only, {}).python else family


@dataclass(frozen=True, kw_only=True)
class SweepResult(Sweep):
    """All points of a sweep: a profile each, or the error it ended with. `folder` is where they were saved."""

    def to_frame(self) -> pd.DataFrame:
        """Return a row per point; docs/sweep.md has the columns."""
        return table.to_frame(self)

    def html(self) -> str:
        """Return the page with the charts, one HTML document."""
        return view.render(self)

    def to_html(self, path: str | Path) -> None:
        """Write the page."""
        write_atomically(Path(path), self.html().encode())

    def _repr_html_(self) -> str:
        return view.render_card(self)


def profile_sweep(
    *kernels: str | Path,
    problem: Mapping[str, int | Sequence[int]],
    variants: Texts = (),
    engine: str = "auto",
    export: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    ncu: str | Path | None = None,
    timeout: float = 600,
    on_progress: Progress = silent,
    catalog: Sequence[str | Path] = (),
    config: str = "",
    trust: bool = False,
    **options: Any,
) -> SweepResult:
    """Profile variants over problem sizes: ``profile_sweep("gemm", problem={"n": [1024, 2048]})``.

    A point that fails is a row with its error. Nothing is saved unless `export` names a folder; `resume` continues what
    is there. Keywords that describe a .cu file are those of `profile`; others are the command's options (``nvcc``,
    ``exhaustive``, ``no_cache``, ``workers=2``) and ncu's.
    """
    sizes = {name: [value] if isinstance(value, int) else list(value) for name, value in problem.items()}
    own, fleet = PairOptions(**taken(PairOptions, options)), FleetOptions(**taken(FleetOptions, options))
    of_request = taken(Request, options, KEYWORDS)
    of_ncu = taken(Options, options)
    refuse_rest(options, [*KEYWORDS, *names_of(Options, PairOptions, FleetOptions)])
    program = Path(ncu) if ncu is not None else None
    request = Request(
        engine=engine, problem={}, options=Options(**of_ncu), ncu=program, timeout_s=timeout, **of_request
    )
    folders = [Path(folder) for folder in catalog]
    description = own.described({name: values[0] for name, values in sizes.items()})
    found, named = user.swept(list(map(str, kernels)), description, folders, config, trust)
    found = with_configurations(found, named, timeout)
    points = plan.make_plan(found, named, plan.listed(listed(variants)), sizes)
    with scratch() as temporary:
        folder = Path(export) if export is not None else temporary / slug(points.family.name)
        swept = running.run(points, request, Destination(folder, overwrite), resume, on_progress, fleet=fleet)
    kept = swept.folder if export is not None else None
    return SweepResult(**{**vars(swept), "folder": kept})
