"""``ncu-swizzle bisect``: which commit brought a conflict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ncu_swizzle.catalog.kernel_options import CatalogOptions, KernelOptions
from ncu_swizzle.commands import output
from ncu_swizzle.commands.groups import Only, grouped
from ncu_swizzle.engines.context import Request
from ncu_swizzle.fleet.options import FleetOptions
from ncu_swizzle.texts import on_terminal

if TYPE_CHECKING:
    from ncu_swizzle.history.bisect import Counted


@grouped
def bisect(
    good: Annotated[str, typer.Argument(metavar="GOOD", help="A commit without the conflict.")],
    bad: Annotated[str, typer.Argument(metavar="BAD", help="A later commit that has it.")],
    kernel: Annotated[str, typer.Argument(metavar="KERNEL", help="A kernel of the project, or a file.")],
    request: Annotated[Request, Only("problem", "nvcc", "exhaustive", "timeout_s", "no_cache")],
    own: KernelOptions,
    sources: CatalogOptions,
    fleet: Annotated[FleetOptions, Only("workers")],
) -> None:
    """Find the commit that brought a conflict, without a GPU.

    \b
    ncu-swizzle bisect v1.0 HEAD tile-swizzled      a kernel of ncu-swizzle.toml
    ncu-swizzle bisect v1.0 HEAD my.cu --kernel fn --grid 128 --block 256 --arg …
    ncu-swizzle bisect v1.0 HEAD tile-swizzled --workers 4      four commits at a time

    The kernel of each commit is compiled and emulated; the first commit with more excessive wavefronts than GOOD is it.
    Nothing is checked out: the working tree stays as it is.
    """
    from ncu_swizzle.history.bisect import BisectQuery
    from ncu_swizzle.history.bisect import bisect as search

    description = own.described(request.problem)
    query = BisectQuery(
        good, bad, kernel, Path.cwd(), request, description, sources.catalog, sources.config, sources.trust
    )
    with output.progress() as progress:
        found = search(query, fleet, progress, _say)
    first = found.first
    sys.stdout.write(
        on_terminal(
            f"{first.commit.short} {first.commit.subject}\n"
            f"brought {first.excessive:,} excessive wavefronts; {found.before.commit.short} before it has "
            f"{found.before.excessive:,}. {len(found.looked_at)} of {found.commits + 1} commits were looked at."
        )
        + "\n"
    )


def _say(counted: Counted) -> None:
    has = f"unknown: {counted.why}" if counted.excessive is None else f"{counted.excessive:,} excessive wavefronts"
    sys.stderr.write(on_terminal(f"{counted.commit.short} {has}") + "\n")
