"""Reports with many kernels: on the page, on a terminal, in the other formats."""

import csv
import io
import json
from collections import Counter

import pytest

from ncu_swizzle.render import formats
from ncu_swizzle.render import page as report
from ncu_swizzle.reports import many_launches
from ncu_swizzle.reports.comparison import compare
from tests.support.pages import HOSTILE, Page
from tests.support.recordings import Recorded
from tests.support.reports import laid_out, launched, program, shown


@pytest.mark.long
def test_the_page_lists_all_and_shows_the_worst(recorded: Recorded) -> None:
    result = laid_out(program(recorded, times=8))
    html = report.render_all(result.comparisons, ["A note."], "a program")
    page = Page(html)
    ids = Counter(value for _, name, value in page.attributes if name == "id")
    assert max(ids.values()) == 1, "labels repeat, names in links must not"
    for target in page.values("href"):
        assert target.removeprefix("#") in ids
    assert page.tags["tr"] > 32
    for text in ("All 32 launches", "A note.", "rows<float> #8", "16 of 32 launches have"):
        assert text in page.text
    assert html == report.render_all(result.comparisons, ["A note."], "a program")
    assert page.values("type").count("application/gzip") == len(many_launches.worst(result.comparisons, 8)) == 4
    assert len(set(page.values("data-label"))) == 4


def test_one_comparison_is_the_page_that_it_always_was(recorded: Recorded) -> None:
    one = compare([recorded("kernel1"), recorded("kernel2")])
    assert report.render_all([one]) == report.render(one)
    assert formats.render_all([one]) == formats.render(one)
    assert formats.to_csv(one).splitlines()[1].startswith("kernel1,")


def test_the_terminal_shows_a_list_then_the_worst(recorded: Recorded) -> None:
    text = shown(laid_out(program(recorded)))
    assert max(map(len, text.splitlines())) <= 80
    assert text.index("4 launches") < text.index("── rows<float>") < text.index("── rows<double>")
    assert "── copy" not in text
    assert "--launch N or --kernel-name NAME" in " ".join(text.split())
    paired = shown(laid_out(program(recorded), program(recorded)[:3]))
    assert max(map(len, paired.splitlines())) <= 80
    assert "Only in run0, not paired: 3 copy." in paired


@pytest.mark.long
def test_markdown_json_and_csv_have_every_launch(recorded: Recorded) -> None:
    result = laid_out(program(recorded), program(recorded)[:3])
    text = formats.render_all(result.comparisons, result.notes, result.title)
    assert "| 0 | rows&lt;float&gt; | 8 | 32x8 | 16,252,928 → 16,252,928 |" in text
    assert "Only in run0, not paired: 3 copy." in text
    data = json.loads(formats.to_json(result))
    assert [one["launch"] for one in data["kernels"]] == [[0, 0], [1, 1], [2, 2], [3]]
    assert [len(one["profiles"]) for one in data["comparisons"]] == [2, 2, 2, 1]
    rows = list(csv.DictReader(io.StringIO(formats.to_csv(*result.comparisons))))
    assert len(rows) == sum(len(p.instructions) for one in result.comparisons for p in one.profiles)
    assert {row["profile"] for row in rows} >= {"rows<float>: run0", "rows<float>: run1", "copy: run0"}
    many = formats.render_all(laid_out(program(recorded, times=100)).comparisons)
    assert len(many.encode()) < 65_536


@pytest.mark.long
def test_hostile_names_stay_names(recorded: Recorded) -> None:
    evil = [launched(one, f"{HOSTILE}\x1b[31m<{number}>", number) for number, one in enumerate(program(recorded))]
    result = laid_out(evil, evil)
    page = Page(report.render_all(result.comparisons, [HOSTILE], HOSTILE))
    assert not set(page.tags) & {"img"}
    assert "<img" not in formats.render_all(result.comparisons, [HOSTILE], HOSTILE)
    assert "\x1b" not in shown(result)
