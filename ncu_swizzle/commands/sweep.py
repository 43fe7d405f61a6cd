"""``ncu-swizzle sweep``: profile variants over problem sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import Only, grouped, with_options
from ncu_swizzle.engines.settings import FleetOptions, Options, Request
from ncu_swizzle.kernels.options import CatalogOptions, PairOptions
from ncu_swizzle.reports.options import Destination, Formats

if TYPE_CHECKING:
    from ncu_swizzle.sweep.plan import Plan


@grouped
def sweep(
    kernels: Annotated[
        list[str], typer.Argument(metavar="FAMILY|KERNEL…", help="A family, kernels of one, or a .cu file.")
    ],
    request: Annotated[Request, Only("engine", "ncu", "timeout_s", "nvcc", "exhaustive", "no_cache")],
    destination: Destination,
    formats: Formats,
    options: Options,
    own: PairOptions,
    sources: CatalogOptions,
    fleet: FleetOptions,
    problem: Annotated[
        list[str],
        typer.Option("--problem", metavar="NAME=SIZE,…", help="Sizes to sweep; several names: all combinations."),
    ] = [],  # noqa: B006
    variants: Annotated[
        list[str], typer.Option(metavar="all|NAME,…", help="Variants of the family; all: all but the library's.")
    ] = [],  # noqa: B006
    resume: Annotated[
        bool, typer.Option("--resume", help="Reuse the points that an earlier run finished, if nothing changed.")
    ] = False,
) -> None:
    """Profile variants at several sizes: a table and charts.

    \b
    ncu-swizzle sweep gemm --problem n=1024,2048,4096 --variants all
    ncu-swizzle sweep kernel1 kernel2 --problem seq=1024,4096 --problem heads=8,16
    ncu-swizzle sweep my.cu --problem n=512,1024    described by ncu-swizzle.toml
    \f
    Each point is saved as soon as it is done; a failure becomes a row with its error, and the exit code is 4.
    A function under @triton.autotune (kernels.py::FUNCTION) has its configurations as variants.
    The speedup is relative to the baseline variant at the same size.
    """
    from ncu_swizzle.sweep import plan, running

    points = planned(kernels, plan.sizes(problem), variants, own, sources, timeout_s=request.timeout_s)
    with output.progress() as progress:
        swept = running.run(points, with_options(request, options), destination, resume, progress, fleet)
    output.show_sweep(swept, formats)
    running.conclude(swept)


def planned(
    kernels: Sequence[str],
    sizes: Mapping[str, Sequence[int]],
    variants: Sequence[str],
    own: PairOptions,
    sources: CatalogOptions,
    timeout_s: float,
) -> Plan:
    """Return the points of a sweep.

    The configurations of ``@triton.autotune`` are variants of a function that is named alone: the sweep tells which of
    them conflict. A family that has variants of its own, or other sources than Python, stays as it is.
    """
    from ncu_swizzle.frontends.compiled import tuned
    from ncu_swizzle.kernels import naming
    from ncu_swizzle.kernels.family import Target
    from ncu_swizzle.sweep import plan

    description = own.described({name: values[0] for name, values in sizes.items()}, sources)
    family, chosen = naming.resolve_together(kernels, description, families=True)
    if not chosen and len(family.kernels) == 1 and Target(family, family.kernels[0], {}).python:
        family = tuned(family, timeout_s)
    return plan.make_plan(family, chosen, plan.listed(variants), sizes)
