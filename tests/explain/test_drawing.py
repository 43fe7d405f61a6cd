"""What `explain --show` writes as HTML, SVG and JSON is what it shows on the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.pages import Page
from tests.support.process import Command

BITS = ("explain", "(8,8):(8,1)", "--swizzle", "bytes:3,2,3", "--show", "bits")
PLACES = (*BITS[:-1], "places")
PHASES = ("explain", "(64,64):(64,1)", "--elem", "2", "--swizzle", "128B", "--access", "ldmatrix", "--show", "phases")


def written(command: Command, *arguments: str) -> tuple[Page, ElementTree.Element]:
    """Run with --html and --svg and return both."""
    done = command(*arguments, "--html", "a.html", "--svg", "a.svg")
    assert done.returncode == 0, done.stderr
    return Page(Path("a.html").read_text(encoding="utf-8")), ElementTree.parse("a.svg").getroot()


def lines(svg: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in svg.iter() if text.tag.endswith("}text")]


def test_bits_are_drawn_as_bits(command: Command) -> None:
    page, svg = written(command, *BITS)
    for texts in (page.texts, lines(svg)):
        assert "00100000" in texts, "row 1, before"
        assert "00100100" in texts, "and after"
        assert "→ 0x0024" in texts
        assert [text for text in texts if text in ("S", "T")] == [*"SSSTTT"] * 2
    assert "banks" not in " ".join(lines(svg)).lower()


def test_a_row_of_bits_is_the_row_that_was_asked_for(command: Command) -> None:
    _, svg = written(command, *BITS, "--row", "2")
    assert [text for text in lines(svg) if text.startswith("column")] == [f"column {number}" for number in range(8)]


def test_places_are_drawn_as_places(command: Command) -> None:
    page, svg = written(command, *PLACES)
    assert "the cell at each position" in page.text
    row = [text for text in lines(svg) if text.startswith("r3")]
    assert row == [f"r3{numbers}" for numbers in _titled("01234567", "32107654")]


def _titled(*rows: str) -> list[str]:
    """Return each cell's tooltip and label, joined."""
    return ["".join(f"position {at}: {cell}{cell}" for at, cell in enumerate(row)) for row in rows]


def test_phases_are_stepped_through_in_html_and_side_by_side_in_a_picture(command: Command) -> None:
    page, svg = written(command, *PHASES)
    assert page.values("value") == ["1", "2", "3", "4"]
    assert "Request 0, phase 3: lanes 24 to 31 access 4 banks, at most 8 words in each." in page.text
    titles = [text for text in lines(svg) if "phase" in text]
    assert [title.rpartition(" ")[2] for title in titles] == ["0", "1", "2", "3"] * 2
    outlines = [path for path in svg.iter() if path.get("class") == "outline"]
    assert len(outlines) == 8, "one phase on each map"


def test_the_request_that_was_asked_for_is_drawn(command: Command) -> None:
    page, _ = written(command, *PHASES, "--request", "5")
    assert "Request 5, phase 0" in page.text
    assert "Request 0" not in page.text
    done = command(*PHASES, "--request", "99", "--html", "b.html")
    assert done.returncode == 2
    assert "has no request 99" in done.stderr
    assert not Path("b.html").exists()


@pytest.mark.parametrize("option", ["--html", "--svg"])
def test_phases_of_no_access_cannot_be_drawn(command: Command, option: str) -> None:
    done = command("explain", "(8,8):(8,1)", "--access", "none", "--show", "phases", option, "b.html")
    assert done.returncode == 2
    assert "needs an access" in done.stderr


def test_json_is_what_was_asked_for(command: Command) -> None:
    bits = json.loads(command(*BITS, "--json", "-").stdout)["bits"]
    assert (bits["source"], bits["target"], bits["rows"][1]["after"]) == (0b11100000, 0b11100, 0b00100100)
    before, after = json.loads(command(*PLACES, "--json", "-").stdout)["places"]
    assert (before["columns"][3], after["columns"][3]) == ([0, 1, 2, 3, 4, 5, 6, 7], [3, 2, 1, 0, 7, 6, 5, 4])
    plain, swizzled = json.loads(command(*PHASES, "--json", "-").stdout)["phases"]
    assert [load["words"][:4] for load in plain[:1]] == [[8] * 4]
    assert [load["words"] for load in swizzled] == [[1] * 32] * 4
