"""`profile_sweep`: a sweep as a function, whose result shows itself in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pandas as pd

from ncu_swizzle.catalog import user_kernels
from ncu_swizzle.catalog.kernel_options import PairOptions
from ncu_swizzle.engines.context import Progress, Request, silent
from ncu_swizzle.errors import UsageError
from ncu_swizzle.files import slug, write_atomically
from ncu_swizzle.ncu.options import Options
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.sweep import page, plan, running, table, tuned
from ncu_swizzle.sweep.outcome import Sweep
from ncu_swizzle.texts import Texts, listed
from ncu_swizzle.unfinished.folders import scratch

OWN = tuple(field.name for field in fields(PairOptions))


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
    ncu: str | Path | None = None,
    timeout: float = 600,
    on_progress: Progress = silent,
    catalog: Sequence[str | Path] = (),
    config: str = "",
    trust: bool = False,
    **options: Any,
) -> SweepResult:
    """Profile variants over problem sizes: ``profile_sweep("gemm", problem={"n": [1024, 2048]})``.

    A point that fails is a row with its error. Nothing is saved unless `export` names a folder. Keywords that describe
    a .cu file are those of `profile`; others are ncu's options.
    """
    sizes = {name: [value] if isinstance(value, int) else list(value) for name, value in problem.items()}
    own = PairOptions(**{name: options.pop(name) for name in OWN if name in options})
    names = [field.name for field in fields(Options)]
    for name in options:
        if name not in names:
            raise UsageError(f"unknown option {name!r}", f"options here: {', '.join((*names, *OWN))}")
    request = Request(engine, {}, Options(**options), Path(ncu) if ncu is not None else None, timeout)
    folders = [Path(folder) for folder in catalog]
    description = own.described({name: values[0] for name, values in sizes.items()})
    found, named = user_kernels.swept(list(map(str, kernels)), description, folders, config, trust)
    found = tuned.with_configurations(found, named, timeout)
    points = plan.make_plan(found, named, plan.listed(listed(variants)), sizes)
    with scratch() as temporary:
        folder = Path(export) if export is not None else temporary / slug(points.family.name)
        swept = running.run(points, request, Destination(folder, overwrite), progress=on_progress)
    kept = swept.folder if export is not None else None
    return SweepResult(**{**vars(swept), "folder": kept})
