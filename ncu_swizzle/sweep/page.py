"""A sweep as one HTML file: charts and the table behind them. No script but for very many points, to search them."""

from __future__ import annotations

from ncu_swizzle.render.page import environment, script_parts
from ncu_swizzle.sweep import view
from ncu_swizzle.sweep.outcome import Sweep

MOST_ROWS = 50  # a notebook cell lists the first points only


def render(sweep: Sweep) -> str:
    """Return the document; the same sweep gives the same bytes."""
    plot = {"LEFT": view.LEFT, "RIGHT": view.RIGHT, "BOTTOM": view.BOTTOM}
    size = {"width": view.WIDTH, "height": view.HEIGHT, "plot": plot}
    page = view.build(sweep)
    script = script_parts() if page.large else {}
    return environment().get_template("sweep/page.html").render(page=page, **size, **script)


def render_card(sweep: Sweep) -> str:
    """Return a sweep as a notebook shows it: an HTML fragment with inline styles, without the charts."""
    return environment().get_template("sweep/card.html").render(page=view.build(sweep), most=MOST_ROWS)
