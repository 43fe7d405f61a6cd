"""A sweep as one HTML file without scripts: charts, and the table that they were drawn from."""

from __future__ import annotations

from ncu_swizzle.render.page import environment
from ncu_swizzle.sweep import view
from ncu_swizzle.sweep.outcome import Sweep


def render(sweep: Sweep) -> str:
    """Return the document; the same bytes for the same sweep."""
    size = {"width": view.WIDTH, "height": view.HEIGHT, "plot": view}
    return environment().get_template("sweep/page.html").render(page=view.build(sweep), **size)
