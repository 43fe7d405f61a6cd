"""The templates' environments, for pages and for Markdown. Only this module imports Jinja."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: TID251 - this is the one

from ncu_swizzle.base import paths
from ncu_swizzle.base.texts import in_code, in_markdown, on_page


def new_environment() -> Environment:
    """Return a Jinja environment: autoescape on, undefined names are errors."""
    return _environment(autoescape=True, finalize=on_page)


class Written(str):
    """Markdown, which is not escaped again."""

    __slots__ = ()


def new_markdown_environment() -> Environment:
    """Return the same for Markdown: every value that is no `Written` is escaped for it."""
    templates = _environment(
        autoescape=False,  # that is HTML's
        finalize=lambda value: value if isinstance(value, Written) else in_markdown(str(value)),
    )
    templates.filters |= {"written": Written, "code": lambda text: Written(in_code(text))}
    return templates


def _environment(**settings: Any) -> Environment:
    return Environment(
        loader=FileSystemLoader(paths.reports()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **settings,
    )
