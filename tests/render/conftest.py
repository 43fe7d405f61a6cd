"""Fixtures of the tests of pages: each page is rendered once per test run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.render import banks
from ncu_swizzle.render import page as report
from ncu_swizzle.reports import many_launches, sanity
from ncu_swizzle.reports.comparison import compare
from ncu_swizzle.reports.model import Finding, KernelId, Metric, Profile
from ncu_swizzle.smem import access, bankmap, mapping
from tests.support.pages import HOSTILE, Page
from tests.support.recordings import KERNELS, Recorded
from tests.support.reports import launched


@pytest.fixture(scope="session")
def html(recorded: Recorded) -> str:
    return report.render(compare([recorded(name) for name in KERNELS]))


@pytest.fixture(scope="session")
def page(html: str) -> Page:
    return Page(html)


@pytest.fixture(scope="session")
def profiles(recorded: Callable[[str], Profile]) -> list[Profile]:
    return [recorded(name) for name in KERNELS]


@pytest.fixture(scope="session")
def page_file(profiles: list[Profile], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(report.render(compare(profiles)), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def four_file(profiles: list[Profile], recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page whose sources have the columns of four profiles."""
    before, after, _ = profiles
    file = tmp_path_factory.mktemp("report") / "four.html"
    file.write_text(report.render(compare([before, after, recorded("kernel3"), before])), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def foreign_file(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a library's kernel whose report also has values that no figure needs."""
    profile = recorded("reference-gemm")
    note = Finding(
        rule=sanity.NOTE, kind="warning", title=sanity.TITLE, message=f"{sanity.NOT_MEASURED}pcie__read_bytes.sum."
    )
    below_zero = {"dram__bytes.sum.pct_of_peak_sustained_elapsed": Metric(-0.01, "%")}
    foreign = replace(
        profile,
        engine="ncu",
        kernel=KernelId(name=profile.kernel.function, function=profile.kernel.function),
        metrics={**profile.metrics, **below_zero},
        findings=(*profile.findings, note),
    )
    file = tmp_path_factory.mktemp("report") / "foreign.html"
    file.write_text(report.render(compare([foreign])), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def hostile_file(profiles: list[Profile], tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = HOSTILE + "long" * 50
    before, after, _ = profiles
    source = {path: f"{HOSTILE}\n{text}" for path, text in before.sources.items()}
    hostile = replace(before, kernel=replace(before.kernel, name=name, title=name, function=name), sources=source)
    file = tmp_path_factory.mktemp("report") / "hostile.html"
    file.write_text(report.render(compare([hostile, after])), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def many_file(profiles: list[Profile], tmp_path_factory: pytest.TempPathFactory) -> Path:
    before, after, _ = profiles
    rows = [(launched(before, f"f<{number}>()", number), launched(after, f"f<{number}>()", number))
            for number in range(3)]  # fmt: skip
    comparisons, notes = many_launches.lay_out(rows, ("old", "new"))
    file = tmp_path_factory.mktemp("report") / "many.html"
    file.write_text(report.render_all(comparisons, notes, "old → new"), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def transpose_file(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with maps of 32 x 32 cells."""
    file = tmp_path_factory.mktemp("maps") / "transpose.html"
    pair = [recorded("transpose-plain"), recorded("transpose-xor")]
    file.write_text(report.render(compare(pair)), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def map_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `explain --show phases --html` writes."""
    file = tmp_path_factory.mktemp("maps") / "map.html"
    tile = mapping.parse("(64,64):(64,1)", 2, "128B")
    built = bankmap.before_and_after(tile.plain, tile, access.parse("ldmatrix", tile.layout, 2))
    file.write_text(report.render_board(banks.phases(built)[0], "a map"), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def bits_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `explain --show bits --html` writes."""
    file = tmp_path_factory.mktemp("maps") / "bits.html"
    bits = mapping.bits(mapping.parse("(64,64):(64,1)", 2, "128B"))
    file.write_text(report.render_bits(banks.bit_picture(bits), "bits"), encoding="utf-8")
    return file


@pytest.fixture(params=["page_file", "four_file", "foreign_file", "many_file"])
def any_file(request: pytest.FixtureRequest) -> Path:
    """Each kind of page in turn."""
    file: Path = request.getfixturevalue(request.param)
    return file
