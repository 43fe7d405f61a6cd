"""The templates' environment. Only this module imports Jinja."""

from __future__ import annotations

from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: TID251 - this is the one

from ncu_swizzle.base import paths
from ncu_swizzle.base.texts import on_page


def new_environment() -> Environment:
    """Return a Jinja environment: autoescape on, undefined names are errors."""
    return Environment(
        loader=FileSystemLoader(paths.reports()),
        autoescape=True,
        finalize=on_page,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
