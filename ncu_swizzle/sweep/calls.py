"""`profile_sweep`: a sweep as a function, whose result shows itself in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ncu_swizzle.catalog import user_kernels
from ncu_swizzle.catalog.kernel_options import PairOptions
from ncu_swizzle.engines.context import KEYWORDS, Progress, Request, silent
from ncu_swizzle.files import slug, write_atomically
from ncu_swizzle.fleet.options import FleetOptions
from ncu_swizzle.ncu.options import Options
from ncu_swizzle.option import names_of, refuse_rest, taken
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.sweep import page, plan, running, table, tuned
from ncu_swizzle.sweep.outcome import Sweep
from ncu_swizzle.texts import Texts, listed
from ncu_swizzle.unfinished.folders import scratch


@dataclass(frozen=True)
class SweepResult(Sweep):
    """All points of a sweep: a profile each, or the error it ended with. `folder` is where they were saved."""

    def to_frame(self) -> pd.DataFrame:
        """Return a row per point; docs/sweep.md has the columns."""
        return table.to_frame(self)

    def html(self) -> str:
        """Return the page with the charts, one HTML document."""
        return page.render(self)

    def to_html(self, path: str | Path) -> None:
        """Write the page."""
        write_atomically(Path(path), self.html().encode())

    def _repr_html_(self) -> str:
        return page.render_card(self)


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
    request = Request(engine, {}, Options(**of_ncu), program, timeout, **of_request)
    folders = [Path(folder) for folder in catalog]
    description = own.described({name: values[0] for name, values in sizes.items()})
    found, named = user_kernels.swept(list(map(str, kernels)), description, folders, config, trust)
    found = tuned.with_configurations(found, named, timeout)
    points = plan.make_plan(found, named, plan.listed(listed(variants)), sizes)
    with scratch() as temporary:
        folder = Path(export) if export is not None else temporary / slug(points.family.name)
        swept = running.run(points, request, Destination(folder, overwrite), resume, on_progress, fleet=fleet)
    kept = swept.folder if export is not None else None
    return SweepResult(**{**vars(swept), "folder": kept})
