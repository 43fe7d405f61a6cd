"""`banks`, `predict` and `suggest` as functions: `ncu_swizzle.predict("my.cu", grid=128, …)`.

`what` is what the commands take: a layout, a kernel of the catalogue or of ncu-swizzle.toml, a .cu, cubin or PTX file,
an emulated run. Keywords that describe a file are those of `profile`: ``entry``, ``grid``, ``block``, ``args``, ….
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.base.texts import Texts, listed
from ncu_swizzle.engines.settings import Progress, Request, silent
from ncu_swizzle.explain import banks as drawing
from ncu_swizzle.explain import predict as predicting
from ncu_swizzle.explain import suggest as suggesting
from ncu_swizzle.explain.own_kernels import BanksQuery, KernelQuery
from ncu_swizzle.explain.predict import PredictAnswer, PredictQuery
from ncu_swizzle.explain.suggest import SuggestAnswer, SuggestQuery
from ncu_swizzle.kernels.options import CatalogOptions, PairOptions
from ncu_swizzle.render import page
from ncu_swizzle.smem import code
from ncu_swizzle.smem.bankmap import BankMap
from ncu_swizzle.smem.judge import Constraints

OWN = tuple(field.name for field in fields(PairOptions))


class BankMaps(tuple[BankMap, ...]):
    """Bank maps before and after a mapping, drawn in a notebook."""

    title: str

    def __new__(cls, maps: Iterable[BankMap], title: str) -> BankMaps:
        """Return the maps; `title` says what they are of."""
        made = super().__new__(cls, maps)
        made.title = title
        return made

    def svg(self) -> str:
        """Return the picture, one SVG."""
        return page.render_banks_svg(self, self.title)

    def _repr_html_(self) -> str:
        return page.render_banks_card(self, self.title)


def predict(
    what: str | Path,
    *,
    op: str | None = None,
    active: str | None = None,
    threads: int = 32,
    writes: Texts = (),
    reads: Texts = (),
    element_bytes: int | None = None,
    swizzle: str | None = None,
    pad: int = 0,
    profile: str | Path | None = None,
    **kernel: Any,
) -> tuple[PredictAnswer, ...]:
    """Return the wavefronts of accesses, one answer per kernel; `kernel` are the keywords of `kernel_query`."""
    compared = str(profile) if profile is not None else None
    accesses = listed(writes), listed(reads)
    query = PredictQuery(
        str(what), op, active, threads, *accesses, element_bytes, swizzle, pad, compared, kernel_query(**kernel)
    )
    return predicting.answers(query)


def suggest(
    what: str | Path,
    *,
    writes: Texts = (),
    reads: Texts = (),
    element_bytes: int | None = None,
    threads: int = 32,
    constraints: Constraints | None = None,
    **kernel: Any,
) -> tuple[SuggestAnswer, ...]:
    """Return the cheapest conflict-free mappings, one answer per tile; `kernel` are the keywords of `kernel_query`."""
    query = SuggestQuery(
        *(str(what), listed(writes), listed(reads), element_bytes, threads),
        constraints or Constraints(),
        kernel_query(**kernel),
    )
    return tuple(suggesting.answers(query))


def banks(
    what: str | Path,
    *,
    element_bytes: int | None = None,
    swizzle: str | None = None,
    pad: int = 0,
    access: str | None = None,
    **kernel: Any,
) -> BankMaps:
    """Return the bank maps before and after a mapping; `kernel` are the keywords of `kernel_query`."""
    query = BanksQuery(
        what=str(what),
        element_bytes=element_bytes,
        swizzle=swizzle,
        pad=pad,
        access=access,
        kernel=kernel_query(**kernel),
    )
    subject = drawing.subject_of(query)
    return BankMaps(subject.maps(), subject.title or code.titled(subject.after))


def kernel_query(
    *,
    problem: Mapping[str, int] | None = None,
    nvcc: str | Path | None = None,
    exhaustive: bool = False,
    timeout: float = 600,
    on_progress: Progress = silent,
    catalog: Sequence[str | Path] = (),
    config: str = "",
    trust: bool = False,
    **own: Any,
) -> KernelQuery:
    """Return how a kernel is found, described and emulated; raise UsageError for an unknown keyword."""
    for name in own:
        if name not in OWN:
            raise UsageError(f"unknown option {name!r}", f"options here: {', '.join(OWN)}")
    compiler = Path(nvcc) if nvcc is not None else None
    request = Request(problem=dict(problem or {}), nvcc=compiler, exhaustive=exhaustive, timeout_s=timeout)
    folders = tuple(map(Path, catalog))
    description = PairOptions(**own).described(request.problem)
    return KernelQuery(
        request=request, description=description, sources=CatalogOptions(config, folders, trust), progress=on_progress
    )
