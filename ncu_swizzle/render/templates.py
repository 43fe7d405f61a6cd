"""The templates' environments, for pages and for Markdown. Only this module imports Jinja."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: TID251 - this is the one

from ncu_swizzle.base import paths
from ncu_swizzle.base.texts import in_code, in_markdown, on_page
from ncu_swizzle.render import text


def new_environment() -> Environment:
    """Return a Jinja environment: autoescape on, undefined names are errors."""
    return _environment(autoescape=True, finalize=on_page)


class Markdown(str):
    """Markdown, which is not escaped again."""

    __slots__ = ()


@cache
def markdown_environment() -> Environment:
    """Return the environment of Markdown: every value that is not `Markdown` already is escaped for it."""
    templates = _environment(
        autoescape=False,  # that is HTML's
        finalize=lambda value: value if isinstance(value, Markdown) else in_markdown(str(value)),
    )
    templates.filters |= {"written": Markdown, "code": lambda name: Markdown(in_code(name))}
    templates.filters |= {"count": text.count, "counted": text.summed, "degree": text.degree, "percent": text.percent}
    return templates


def markdown(template: str, **content: object) -> str:
    """Return a template of the folder ``markdown`` with its content."""
    return markdown_environment().get_template(f"markdown/{template}.md").render(**content)


def _environment(**settings: Any) -> Environment:
    return Environment(
        loader=FileSystemLoader(paths.reports()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        **settings,
    )
