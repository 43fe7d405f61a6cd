"""The report: a `Comparison` as one HTML file. Only this module imports Jinja.

The page is complete without JavaScript; its content security policy allows one script, by hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: TID251 - this is the one
from markupsafe import Markup

from ncu_swizzle import paths
from ncu_swizzle.profiles.comparison import Comparison
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.render.colours import Colours
from ncu_swizzle.render.view import banks, card, document, observed, text
from ncu_swizzle.render.view.banks import Board
from ncu_swizzle.render.view.bit_picture import BitPicture
from ncu_swizzle.smem.bankmap import BankMap
from ncu_swizzle.texts import on_page
from ncu_swizzle.tiles import lookup
from ncu_swizzle.tiles.declaration import Tile

HEAD, LEAST_WIDTH = 56, 480  # pixels: the height of a picture's title, the width of its text
LETTERS = 7.4  # pixels of a letter of the title


def render(comparison: Comparison) -> str:
    """Return the report as one self-contained HTML document; the same comparison gives the same bytes."""
    return _page("report.html", report=document.build(comparison, Colours(), declared_tiles))


def render_all(comparisons: Sequence[Comparison], notes: Sequence[str] = (), title: str = "") -> str:
    """Return several comparisons as one HTML document: a table of all and the worst in full; one as `render` does."""
    if len(comparisons) == 1:
        return render(comparisons[0])
    title = title or f"{len(comparisons)} kernels"
    return _page("kernels.html", page=document.build_page(comparisons, notes, title, Colours(), declared_tiles))


def _page(template: str, **content: object) -> str:
    return environment().get_template(template).render(**content, **script_parts())


def script_parts() -> dict[str, str]:
    """Return what a template needs for the one script: its text, and the hash that the page allows."""
    script = (paths.reports() / "report.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"script": Markup(script), "script_hash": digest}


def render_card(profiles: Sequence[Profile], comparison: Comparison | None = None) -> str:
    """Return profiles as a notebook shows them: an HTML fragment with inline styles."""
    return environment().get_template("card.html").render(card=card.card(profiles, comparison))


def render_banks(maps: Sequence[BankMap], title: str) -> str:
    """Return bank maps as one HTML document without scripts."""
    return render_board(banks.board(maps), title)


def render_banks_svg(maps: Sequence[BankMap], title: str) -> str:
    """Return bank maps as one SVG, stacked vertically."""
    return render_board_svg(banks.board(maps), title)


def render_banks_card(maps: Sequence[BankMap], title: str) -> str:
    """Return bank maps as a notebook shows them, side by side: pictures, whose styles the notebook's cannot change."""
    board = banks.board(maps)
    alone = [replace(board, pictures=(picture,)) for picture in board.pictures]
    pictures = [(base64.b64encode(render_board_svg(each, title).encode()).decode(), _width(each)) for each in alone]
    return environment().get_template("banks/card.html").render(pictures=pictures, title=title)


def render_board(board: Board, title: str) -> str:
    """Return maps as one HTML document without scripts."""
    return environment().get_template("banks/page.html").render(board=board, title=title)


def render_board_svg(board: Board, title: str) -> str:
    """Return maps as one SVG, stacked vertically."""
    pictures = board.pictures
    tops = [sum(p.height + HEAD for p in pictures[:number]) for number in range(len(pictures) + 1)]
    return (
        environment()
        .get_template("banks/picture.svg")
        .render(
            title=title,
            letters=LETTERS,
            placed_pictures=tuple(zip(pictures, tops, strict=False)),
            width=_width(board),
            height=tops[-1],
        )
    )


def _width(board: Board) -> int:
    return max(LEAST_WIDTH, *(picture.width for picture in board.pictures))


def render_bits(bits: BitPicture, title: str) -> str:
    """Return addresses in binary as one HTML document without scripts."""
    return environment().get_template("banks/bits.html").render(bits=bits, title=title)


def render_bits_svg(bits: BitPicture, title: str) -> str:
    """Return addresses in binary as one SVG."""
    size = {"width": max(LEAST_WIDTH, bits.width), "height": bits.height + HEAD}
    return environment().get_template("banks/bits_picture.svg").render(bits=bits, title=title, **size)


def declared_tiles(profile: Profile) -> Sequence[Tile]:
    """Return the tiles of a launch for its bank maps: declared ones of a shipped kernel, else what the emulator saw."""
    declared = lookup.declared(profile.kernel.family, profile.kernel.name, profile.problem)
    if declared or not profile.requests:
        return declared
    return observed.tiles(profile)


def prepare(sources: Mapping[str, str]) -> None:
    """Do the slow parts early: colour these sources (path → text) and compile the templates."""
    colours = Colours()
    for path, source in sources.items():
        colours(source, path)
    for name in environment().list_templates(extensions=["html"]):
        environment().get_template(name)


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
    templates.filters["grouped"] = text.count
    templates.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return templates
