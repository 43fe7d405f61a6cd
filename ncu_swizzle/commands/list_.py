"""``ncu-swizzle list``: what can be profiled."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ncu_swizzle.catalog.kernel_options import CatalogOptions
from ncu_swizzle.commands.groups import grouped
from ncu_swizzle.texts import in_json


@grouped
def list_(
    sources: CatalogOptions,
    json: Annotated[bool, typer.Option("--json", help="Print the catalogue as JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print it as in docs/catalog.md.")] = False,
) -> None:
    """Show what can be profiled, and what was recorded."""
    from ncu_swizzle.catalog import user_kernels
    from ncu_swizzle.commands.console import Output
    from ncu_swizzle.render import listing

    kernels = user_kernels.everything(sources.catalog, sources.config, trust=sources.trust)
    if json:
        sys.stdout.write(in_json(listing.data(kernels), indent=1))
    elif markdown:
        sys.stdout.write(listing.markdown(kernels))
    else:
        console = Output()
        for family in kernels.families:
            console.print(listing.table(family))
