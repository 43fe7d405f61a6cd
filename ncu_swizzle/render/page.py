"""The report: a `Comparison` as one HTML file.

The page is complete without JavaScript; its content security policy allows one script, by hash. The templates read
the comparison and its profiles, format numbers by the filters of `text`, and call the sections' modules by name.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from ncu_swizzle.base import paths
from ncu_swizzle.base.files import slug
from ncu_swizzle.kernels.catalog import Tile
from ncu_swizzle.kernels.tiles import declared as declared_of
from ncu_swizzle.render import banks, mix, source, summary, tables, text
from ncu_swizzle.render.banks import Board
from ncu_swizzle.render.colours import Colours
from ncu_swizzle.render.mix import UnitRow, units
from ncu_swizzle.render.templates import new_environment
from ncu_swizzle.reports import attribution, memory, model, pairing, remarks
from ncu_swizzle.reports.comparison import Comparison, compare
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.smem.bankmap import BankMap

if TYPE_CHECKING:
    from jinja2 import Environment  # noqa: TID251 - a type
    from swizzle_pack.finding import Finding


FILTERS = {
    "brief": source.brief,
    "count": text.count,
    "counted": text.summed,
    "degree": text.degree,
    "dimensions": text.dimensions,
    "duration": text.duration_text,
    "percent": text.percent,
    "raw": text.all_digits,
    "shade": text.shade,
    "width": text.width,
}
MODULES = (pairing, memory, mix, remarks, source, summary, tables, text)


@cache
def environment() -> Environment:
    """Return the environment with what the report's templates call."""
    templates = new_environment()
    templates.filters.update(FILTERS)
    templates.tests["few"] = text.too_few_samples
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


# The computed sections of a comparison's page. The templates read all else themselves.


@dataclass(frozen=True, kw_only=True)
class Report:
    """A comparison and its sections; `prefix` starts their link targets on a page of several kernels."""

    comparison: Comparison
    prefix: str
    glance: summary.Glance
    accesses: tuple[tables.AccessKind, ...]
    banks: banks.BankSection | None
    units: list[UnitRow]
    stalls: tables.Stalls
    mix: mix.MixSection | None
    panels: tuple[source.Panel, ...]
    minor_files: tuple[str, ...]
    findings: list[tuple[str, Sequence[Finding]]]
    foreign: list[tuple[str, model.Finding]]
    instructions: tuple[tables.InstructionTable, ...]

    @property
    def compares(self) -> bool:
        """Whether there is a second profile to compare with the first."""
        return len(self.comparison.profiles) > 1

    @property
    def judged(self) -> tuple[str, ...]:
        """The labels of the profiles in the verdict."""
        return tuple(self.comparison.labels[number] for number in self.comparison.judged)

    @property
    def lacking(self) -> list[tuple[str, Profile]]:
        """The profiles that lack a required metric, by label."""
        return [(label, profile) for label, profile in self.comparison.named if profile.missing]

    @property
    def worst(self) -> str:
        """The link target of the worst source line overall; empty if no line has counts."""
        return next((panel.target(jump) for panel in self.panels for jump in panel.worst), "")


def build(comparison: Comparison, colours: Colours, prefix: str = "") -> Report:
    """Return the sections of a comparison; `colours` has the time left for all sources of the page."""
    panels, minor_files = source.panels(comparison, colours, prefix)
    return Report(
        comparison=comparison,
        prefix=prefix,
        glance=summary.glance(comparison),
        accesses=tables.accesses(comparison),
        banks=banks.section(comparison, declared_tiles),
        units=units(comparison),
        stalls=tables.stalls(comparison),
        mix=mix.section(comparison),
        panels=panels,
        minor_files=minor_files,
        findings=summary.groups(comparison),
        foreign=summary.foreign(comparison),
        instructions=tables.instructions(comparison),
    )


# The profiles embedded in a page: compressed, as they are most of it otherwise.

MOST_BYTES = 1_200_000  # all profiles together, packed: a page should stay small enough to e-mail


class Stored(NamedTuple):
    """One profile as saved; `key` is its label, after its section's prefix on a page of several kernels.

    `packed` is Base64 of gzip of the saved JSON, which the page's script unpacks.
    """

    key: str
    file: str
    packed: str


class DataSection(NamedTuple):
    """The profiles that the page embeds, and the names of those left out because of their size."""

    stored: tuple[Stored, ...]
    left_out: tuple[str, ...]


def data_section(comparisons: Mapping[str, Comparison]) -> DataSection:
    """Return the profiles of the comparisons (keyed by section prefix), in order, as long as they fit."""
    named = [
        (prefix + label, label if comparison.title in ("", label) else f"{comparison.title} {label}", profile)
        for prefix, comparison in comparisons.items()
        for label, profile in comparison.named
    ]
    stored: list[Stored] = []
    room = MOST_BYTES
    for key, name, profile in named:
        # Without a time stamp: the same profile gives the same bytes.
        packed = base64.b64encode(gzip.compress(profile.to_json().encode(), mtime=0)).decode()
        room -= len(packed)
        if room < 0:
            break
        stored.append(Stored(key, f"{slug(name)}.json", packed))
    return DataSection(tuple(stored), tuple(name for _, name, _ in named[len(stored) :]))


# Many kernels: one row each, and the worst in full.

MOST_PARTS = 8  # kernels shown in full on one page


@dataclass(frozen=True, kw_only=True)
class KernelsPage:
    """The rows of all kernels, and those in full by their row's number, worst first; bars are relative to the most."""

    title: str
    verdict: str
    notes: tuple[str, ...]
    recorded: bool
    compares: bool
    rows: tuple[summary.KernelRow, ...]
    most_excess: int
    longest: float  # ns
    reports: dict[int, Report]
    data: DataSection


def build_page(comparisons: Sequence[Comparison], notes: Sequence[str], title: str) -> KernelsPage:
    """Return the page of several comparisons."""
    colours = Colours()
    worst = {index: comparisons[index] for index in pairing.worst(comparisons, MOST_PARTS)}
    profiles = [profile for comparison in comparisons for profile in comparison.profiles]
    return KernelsPage(
        title=title or f"{len(comparisons)} kernels",
        verdict=pairing.verdict(comparisons),
        notes=tuple(notes),
        recorded=any(profile.origin.recorded for profile in profiles),
        compares=len(profiles) > len(comparisons),
        rows=summary.rows(comparisons),
        most_excess=max((pairing.excessive(comparison) or 0 for comparison in comparisons), default=0),
        longest=max((profile.duration_ns or 0.0 for profile in profiles), default=0.0),
        reports={index: build(each, colours, f"k{index}-") for index, each in worst.items()},
        data=data_section({f"k{index}-": each for index, each in worst.items()}),
    )


# The documents.


def render(comparison: Comparison) -> str:
    """Return the report as one self-contained HTML document; the same comparison gives the same bytes."""
    report = build(comparison, Colours())
    data = data_section({"": comparison})
    return _render("report.html", report=report, data=data, **script_parts())


def render_all(comparisons: Sequence[Comparison], notes: Sequence[str] = (), title: str = "", jobs: int = 1) -> str:
    """Return several comparisons as one HTML document: a table of all and the worst in full; one as `render` does.

    Mappings, which take longest, are searched for by so many `jobs` at a time.
    """
    shown = [comparisons[index] for index in pairing.worst(comparisons, MOST_PARTS)]
    attribution.search_mappings((profile for comparison in shown for profile in comparison.profiles), jobs)
    if len(comparisons) == 1:
        return render(comparisons[0])
    page = build_page(comparisons, notes, title)
    return _render("kernels.html", page=page, data=page.data, **script_parts())


def search_ahead(profiles: Sequence[Profile]) -> bool:
    """Search for one of the mappings that `render_all` will show if these are all; return whether there was one."""
    worst = pairing.worst([compare([profile]) for profile in profiles], MOST_PARTS)
    return attribution.search_mapping(profiles[index] for index in worst)


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


# Bank maps.

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
    pictures = [
        (base64.b64encode(render_board_svg(single, title).encode()).decode(), _width(single)) for single in alone
    ]
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
