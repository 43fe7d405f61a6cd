"""Pages of the report, parsed; and names that try to break out of them."""

from __future__ import annotations

import base64
import gzip
from collections import Counter
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import Profile

if TYPE_CHECKING:
    from ncu_swizzle.render.page import Report

HOSTILE = "</script><img src=x onerror=alert(1)>"
PACKED = base64.b64encode(b"\x1f\x8b\x08").decode()  # how gzip in Base64 starts
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """What a page consists of; fails where an element is not closed in its turn."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


def shown(*profiles: Profile) -> Report:
    from ncu_swizzle.render import page as report
    from ncu_swizzle.render.colours import Colours

    return report.build(compare(profiles), Colours())


def rendered(*profiles: Profile) -> Page:
    from ncu_swizzle.render import page as report

    return Page(report.render(compare(profiles)))


def unpacked(embedded: str) -> str:
    """Return the JSON of a profile that a page embeds."""
    return gzip.decompress(base64.b64decode(embedded, validate=True)).decode()
