"""What `explain` answers: asked with the command's options by their names, and printed, drawn or as data."""

import io
import json
from typing import Any

from rich.console import Console

from ncu_swizzle.engines.settings import Request
from ncu_swizzle.explain import banks, explained
from ncu_swizzle.explain.query import ExplainQuery, KernelQuery
from ncu_swizzle.kernels.options import CatalogOptions, KernelDescription


def kernel(config: str = "", problem: dict[str, int] | None = None, **described: Any) -> KernelQuery:
    """Return how a kernel is found and launched."""
    description = KernelDescription(sources=CatalogOptions(config=config), problem=problem or {}, **described)
    return KernelQuery(request=Request(problem=problem or {}), description=description)


def printed(**asked: Any) -> str:
    """Return what is printed on 80 columns."""
    console = Console(file=io.StringIO(), width=80)
    if picture := banks.PICTURES.get(asked["what"]):
        picture(console)
    else:
        query = ExplainQuery(**asked)
        explained.show(query, explained.explanation(query), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def drawn(svg: bool, **asked: Any) -> str:
    """Return what is drawn as an HTML document, or an SVG."""
    query = ExplainQuery(**asked)
    return explained.drawing(query, explained.explanation(query), svg=svg)


def data(**asked: Any) -> dict[str, Any]:
    """Return the JSON."""
    query = ExplainQuery(**asked)
    content = json.loads(explained.to_json(query, explained.explanation(query)))
    assert isinstance(content, dict)
    return content
