"""The report: a `Comparison` as one HTML file. Only this module imports Jinja.

The page is complete without JavaScript; its content security policy allows one script, by hash. The templates read
the comparison and its profiles, format numbers by the filters of `text`, and call the sections' modules by name.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: TID251 - this is the one
from markupsafe import Markup

from ncu_swizzle.base import paths
from ncu_swizzle.base.texts import on_page
from ncu_swizzle.kernels.declared_tiles import Tile
from ncu_swizzle.kernels.declared_tiles import declared as declared_of
from ncu_swizzle.render import banks, document, findings, mix, pipes, source, summary, tables, text
from ncu_swizzle.render.banks import BitPicture, Board
from ncu_swizzle.render.colours import Colours
from ncu_swizzle.reports import many_launches, remarks
from ncu_swizzle.reports.comparison import Comparison, compare
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem.bankmap import BankMap

FILTERS = {
    "brief": source.brief,
    "count": text.count,
    "counted": text.summed,
    "degree": text.degree,
    "dimensions": text.dimensions,
    "duration": text.duration_text,
    "percent": text.percent,
    "raw": text.raw,
    "shade": text.shade,
    "width": text.width,
}
MODULES = (findings, many_launches, mix, pipes, remarks, source, summary, tables, text)


@cache
def environment() -> Environment:
    """Return the Jinja environment: autoescape on, undefined names are errors."""
    templates = Environment(
        loader=FileSystemLoader(paths.reports()),
        autoescape=True,
        finalize=on_page,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.filters.update(FILTERS)
    templates.tests["few"] = text.few
    templates.globals.update({module.__name__.rpartition(".")[2]: module for module in MODULES})
    templates.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return templates


def _render(template: str, **content: object) -> str:
    return environment().get_template(template).render(**content)


def script_parts() -> dict[str, str]:
    """Return what a template needs for the one script: its text, and the hash that the page allows."""
    script = (paths.reports() / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"script": Markup(script), "script_hash": digest}


def prepare(sources: Mapping[str, str]) -> None:
    """Do the slow parts early: colour these sources (path → text) and compile the templates."""
    colours = Colours()
    for path, content in sources.items():
        colours(content, path)
    for name in environment().list_templates(extensions=["html"]):
        environment().get_template(name)


def render(comparison: Comparison) -> str:
    """Return the report as one self-contained HTML document; the same comparison gives the same bytes."""
    report = document.build(comparison, Colours(), declared_tiles)
    data = document.data_section({"": comparison})
    return _render("report.html", report=report, data=data, **script_parts())


def render_all(comparisons: Sequence[Comparison], notes: Sequence[str] = (), title: str = "") -> str:
    """Return several comparisons as one HTML document: a table of all and the worst in full; one as `render` does."""
    if len(comparisons) == 1:
        return render(comparisons[0])
    page = document.build_page(comparisons, notes, title, Colours(), declared_tiles)
    return _render("kernels.html", page=page, data=page.data, **script_parts())


def declared_tiles(profile: Profile) -> Sequence[Tile]:
    """Return the tiles of a launch for its bank maps: declared ones of a shipped kernel, else what the emulator saw."""
    declared = declared_of(profile.kernel.family, profile.kernel.name, profile.problem)
    if declared or not profile.requests:
        return declared
    return banks.tiles(profile)


MOST_ROWS = 50  # a notebook cell lists the first launches only


def render_card(profiles: Sequence[Profile], comparison: Comparison | None = None) -> str:
    """Return a comparison, a profile or a list of profiles as a notebook shows them: HTML with inline styles."""
    if comparison is None and len(profiles) == 1:
        comparison = compare(profiles)
    numbered = [(f"[{number}] {profile.kernel.name}", profile) for number, profile in enumerate(profiles)]
    named = comparison.named if comparison else numbered
    shown, more = named[:MOST_ROWS], max(0, len(named) - MOST_ROWS)
    return _render("card.html", comparison=comparison, named=shown, more=more)


# Bank maps, and addresses in binary.


HEAD, LEAST_WIDTH = 56, 480  # pixels: the height of a picture's title, the width of its text
LETTERS = 7.4  # pixels of a letter of the title


def render_banks(maps: Sequence[BankMap], title: str) -> str:
    """Return bank maps as one HTML document without scripts."""
    return render_board(banks.bank_board(maps), title)


def render_banks_svg(maps: Sequence[BankMap], title: str) -> str:
    """Return bank maps as one SVG, stacked vertically."""
    return render_board_svg(banks.bank_board(maps), title)


def render_banks_card(maps: Sequence[BankMap], title: str) -> str:
    """Return bank maps as a notebook shows them, side by side: pictures, whose styles the notebook's cannot change."""
    board = banks.bank_board(maps)
    alone = [replace(board, pictures=(picture,)) for picture in board.pictures]
    pictures = [(base64.b64encode(render_board_svg(each, title).encode()).decode(), _width(each)) for each in alone]
    return _render("banks/card.html", pictures=pictures, title=title)


def render_board(board: Board, title: str) -> str:
    """Return maps as one HTML document without scripts."""
    return _render("banks/page.html", board=board, title=title)


def render_board_svg(board: Board, title: str) -> str:
    """Return maps as one SVG, stacked vertically."""
    pictures = board.pictures
    tops = [sum(p.height + HEAD for p in pictures[:number]) for number in range(len(pictures) + 1)]
    placed = tuple(zip(pictures, tops, strict=False))
    size = {"width": _width(board), "height": tops[-1], "letters": LETTERS}
    return _render("banks/picture.svg", title=title, placed_pictures=placed, **size)


def _width(board: Board) -> int:
    return max(LEAST_WIDTH, *(picture.width for picture in board.pictures))


def render_bits(bits: BitPicture, title: str) -> str:
    """Return addresses in binary as one HTML document without scripts."""
    return _render("banks/bits.html", bits=bits, title=title)


def render_bits_svg(bits: BitPicture, title: str) -> str:
    """Return addresses in binary as one SVG."""
    size = {"width": max(LEAST_WIDTH, bits.width), "height": bits.height + HEAD}
    return _render("banks/bits_picture.svg", bits=bits, title=title, **size)
