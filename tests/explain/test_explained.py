"""What `explain` answers about layouts, accesses, kernels and Hopper's tiles, and what mistakes lead to."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import ncu_swizzle
from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.explain import explained
from ncu_swizzle.explain.query import ExplainQuery
from ncu_swizzle.smem import code
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import KEYWORDS
from tests.support.pages import Page
from tests.support.places import ROOT

PLACES = {"what": "(8,8):(8,1)", "swizzle": "bytes:3,2,3", "show": "places"}
PHASES = {"what": "(64,64):(64,1)", "element_bytes": 2, "swizzle": "128B", "access": "ldmatrix", "show": "phases"}


def pictures(**asked: Any) -> tuple[Page, ElementTree.Element]:
    """Return what is drawn, as HTML and as SVG."""
    query = ExplainQuery(**asked)
    html, svg = (explained.drawing(query, explained.explanation(query), svg=svg) for svg in (False, True))
    return Page(html), ElementTree.fromstring(svg)


def lines(svg: ElementTree.Element) -> list[str]:
    return ["".join(text.itertext()) for text in svg.iter() if text.tag.endswith("}text")]


def test_places_are_drawn_as_places() -> None:
    page, svg = pictures(**PLACES)
    assert "the cell at each position" in page.text
    row = [text for text in lines(svg) if text.startswith("r3")]
    titled = [
        "".join(f"position {at}: {cell}{cell}" for at, cell in enumerate(cells)) for cells in ("01234567", "32107654")
    ]
    assert row == [f"r3{cells}" for cells in titled]


def test_phases_are_stepped_through_in_html_and_side_by_side_in_a_picture() -> None:
    page, svg = pictures(**PHASES)
    assert page.values("value") == ["1", "2", "3", "4"]
    assert "Request 0, phase 3: lanes 24 to 31 access 4 banks, at most 8 words in each." in page.text
    titles = [text for text in lines(svg) if "phase" in text]
    assert [title.rpartition(" ")[2] for title in titles] == ["0", "1", "2", "3"] * 2
    assert len([path for path in svg.iter() if path.get("class") == "outline"]) == 8, "one phase on each map"
    page, _ = pictures(**PHASES, request=5)
    assert "Request 5, phase 0" in page.text
    assert "Request 0" not in page.text


def test_the_library_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    code = text.split("```python\n")[1].split("```")[0]
    exec(compile(code, "docs/model.md", "exec"), {})
    said = [line.split("# ")[1] for line in code.splitlines() if "# " in line]
    assert capsys.readouterr().out.splitlines() == said


HALF, WIDE = ({**KEYWORDS[f"{name}.cu"], "config": "none"} for name in ("half", "wide"))


@pytest.mark.usefixtures("own_tiles")
@NEEDS_ALL
def test_a_line_of_a_source_is_explained_alone() -> None:
    (counted,) = ncu_swizzle.predict("half.cu:9", **HALF)
    assert [(row.name, row.degree) for row in counted.predictions] == [("LDS half.cu:9", 32)]
    assert ncu_swizzle.banks("half.cu:6", **HALF)[0].access.name == "half.cu:6"
    (suggested,) = ncu_swizzle.suggest("half.cu:9", **HALF)
    assert "Swizzle<5,1,5>" in code.spelled(suggested.chosen.mapping)
    for function in (ncu_swizzle.predict, ncu_swizzle.suggest, ncu_swizzle.banks):
        with pytest.raises(UsageError, match=r"half\.cu:3"):
            function("half.cu:3", **HALF)


@NEEDS_ALL
def test_a_cubin_alone_and_an_emulated_run_are_enough(own_tiles: Path) -> None:
    run = ncu_swizzle.profile("wide.cu", engine="emulated", export="run", **WIDE)
    page = (own_tiles / "run" / "report.html").read_text(encoding="utf-8")
    assert "suggested: (32,16):(16,1) with Swizzle&lt;3,0,4&gt; on elements of 16 bytes" in page
    cubin = own_tiles / "alone" / "k.cubin"
    cubin.parent.mkdir()
    cubin.write_bytes((own_tiles / "run" / run.profile.report).read_bytes())
    for file in own_tiles.glob("*.cu"):
        file.unlink()
    for what, launch in ((cubin, WIDE), ("run", {}), ("run/wide_rows.json", {})):
        (suggested,) = ncu_swizzle.suggest(what, **launch)
        assert str(suggested.chosen.mapping.transform) == "Swizzle<3,0,4>", what
        (counted,) = ncu_swizzle.predict(what, **launch)
        assert [row.degree for row in counted.predictions if row.degree is not None] == [1, 8]
        before, _ = ncu_swizzle.banks(what, **launch)
        assert before.counts.excessive == 448


@pytest.mark.usefixtures("own_tiles")
def test_python_functions_take_layouts_and_refuse_unknown_options() -> None:
    assert len(ncu_swizzle.banks("(8,8):(1,8)", swizzle="3,2,3")) == 2
    assert len(ncu_swizzle.suggest("(32,32):(32,1)", writes="row", reads="column")) == 1
    with pytest.raises(UsageError, match="unknown option 'gird'"):
        ncu_swizzle.suggest("wide.cu", gird=1)
