"""A sweep as one HTML file without scripts: charts and the table behind them."""

from __future__ import annotations

from ncu_swizzle.render.page import environment
from ncu_swizzle.sweep import view
from ncu_swizzle.sweep.outcome import Sweep


def render(sweep: Sweep) -> str:
    """Return the document; the same sweep gives the same bytes."""
    size = {"width": view.WIDTH, "height": view.HEIGHT, "plot": view}
    return environment().get_template("sweep/page.html").render(page=view.build(sweep), **size)
