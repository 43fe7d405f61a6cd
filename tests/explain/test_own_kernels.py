"""`explain` for kernels of one's own: sources, projects, cubins, saved runs and reports."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import ncu_swizzle
from ncu_swizzle.base.errors import NcuSwizzleError, UsageError
from ncu_swizzle.explain import predict
from ncu_swizzle.smem import code
from tests.support import tiles
from tests.support.explaining import kernel, printed
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA, ROOT
from tests.support.tiles import KEYWORDS

HALF, DOUBLE, WIDE, ODD = ({**KEYWORDS[f"{name}.cu"], "config": "none"} for name in ("half", "double", "wide", "odd"))
PLAIN, PADDED = {"define": ("PITCH=24",)}, {"before": "-DPITCH=24", "after": "-DPITCH=25"}
pytestmark = pytest.mark.usefixtures("own_tiles")


@pytest.fixture
def own_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which holds kernels unlike the catalogue's."""
    tiles.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def degrees(answer: predict.PredictAnswer) -> list[float]:
    return [row.degree for row in answer.predictions if row.degree is not None]


@NEEDS_ALL
def test_every_function_names_the_same_mapping_for_a_source() -> None:
    rows = [
        ("half.cu", HALF, 32, "Swizzle<5,1,5> on elements of 2 bytes (offset ^ ((offset >> 5) & 0x3e))"),
        ("double.cu", DOUBLE, 16, "Swizzle<4,0,5> on elements of 8 bytes (offset ^ ((offset >> 5) & 0xf))"),
        ("wide.cu", WIDE, 8, "Swizzle<3,0,4> on elements of 16 bytes (offset ^ ((offset >> 4) & 0x7))"),
    ]
    for source, launch, degree, mapping in rows:
        (counted,) = ncu_swizzle.predict(source, **launch)
        assert max(degrees(counted)) == degree, source
        (suggested,) = ncu_swizzle.suggest(source, **launch)
        maps = ncu_swizzle.banks(source, **launch)
        linted = ncu_swizzle.lint(source, **launch)
        assert {code.spelled(suggested.chosen.mapping), code.spelled(maps[-1].mapping)} == {mapping}
        assert (maps[0].conflicts, maps[-1].conflicts) == (True, False)
        assert any(mapping in check.message for check in linted.checks), linted.checks
        swizzle, _, size = mapping.partition("<")[2].partition(">")
        (tried,) = ncu_swizzle.predict(source, **launch, swizzle=swizzle, element_bytes=int(size.split()[3]))
        assert max(degrees(tried)) == 1, source


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
def test_a_mapping_that_does_not_fit_the_rows_is_counted() -> None:
    rows = [
        ({"swizzle": "3,4,3", "element_bytes": 1}, 2),
        ({"swizzle": "3,0,3", "element_bytes": 16}, 2),
        ({"pad": 1}, 1),
    ]
    for mapping, degree in rows:
        (tried,) = ncu_swizzle.predict("wide.cu", **WIDE, **mapping)
        assert max(degrees(tried)) == degree, mapping


@NEEDS_ALL
def test_rows_that_no_power_of_two_divides_are_padded() -> None:
    (answer,) = ncu_swizzle.suggest("odd.cu", **ODD, **PLAIN)
    assert answer.suggestion.plain.excessive == 24 * 7
    clean = answer.suggestion.clean
    assert "padding 24+1" in [str(candidate.mapping.transform) for candidate in clean]
    assert all(candidate.actual == candidate.ideal for candidate in clean)
    before, after = ncu_swizzle.banks("odd.cu", **ODD, **PLAIN, pad=1)
    assert str(before.mapping.layout) == "(32,24):(24,1)"
    assert before.counts is not None
    assert after.counts is not None
    assert (before.counts.excessive, after.counts.excessive) == (24 * 7, 0)
    assert code.spelled(after.mapping) == "padding 24+1 on elements of 4 bytes (offset + offset / 24)"


@NEEDS_ALL
def test_before_and_after_are_drawn_and_counted_side_by_side() -> None:
    answers = ncu_swizzle.predict("odd.cu", **ODD, **PADDED)
    assert [sum(row.excessive or 0 for row in answer.predictions) for answer in answers] == [24 * 7, 0]
    maps = ncu_swizzle.banks("odd.cu", **ODD, **PADDED)
    assert [bank_map.counts and bank_map.counts.excessive for bank_map in maps] == [24 * 7, 0]


@NEEDS_ALL
def test_a_projects_kernels_and_their_variants() -> None:
    assert "Use Swizzle<5,1,5> on elements of 2 bytes" in printed(what="half", show="mapping")
    answers = ncu_swizzle.predict("odd.cu")
    assert [(answer.title, max(degrees(answer))) for answer in answers] == [("odd-plain", 8), ("odd-padded", 1)]
    assert "conflict-free" in printed(what="odd-padded", show="map")
    with pytest.raises(NcuSwizzleError, match="did you mean 'odd-plain'"):
        ncu_swizzle.suggest("odd-plane")


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
        assert degrees(counted) == [1, 8]
        before, _ = ncu_swizzle.banks(what, **launch)
        assert before.counts is not None
        assert before.counts.excessive == 448


@pytest.mark.parametrize("show", ["", "mapping"])
def test_a_report_has_no_addresses_and_the_command_that_computes_them_works(show: str) -> None:
    report = ROOT / "recordings" / "h100" / "transpose" / "transpose-plain.ncu-rep"
    with pytest.raises(UsageError, match="no addresses: ncu does not record them") as refused:
        printed(what=str(report), show=show)
    _, command, name, *typed = shlex.split(str(refused.value.hint).partition("computes them: ")[2])
    assert [command, name, *typed] == [
        "explain",
        "transpose-plain",
        "--problem",
        "n=4096",
        *(["--show", show] if show else []),
    ]
    assert printed(what=name, show=show, kernel=kernel(problem={"n": 4096}))
    with pytest.raises(UsageError) as refused:
        printed(what=str(DATA / "programs" / "several.ncu-rep"), show=show)
    assert "--grid 16,16,1 --block 32,8,1" in str(refused.value.hint)


@NEEDS_ALL
def test_accesses_at_unknown_addresses_are_named_wherever_a_mapping_is() -> None:
    launch = KEYWORDS["gather.cu"]
    (suggested,) = ncu_swizzle.suggest("gather.cu", **launch)
    assert suggested.untried == ("LDS at gather.cu:6",)
    assert any("data loaded from global memory" in note for note in suggested.notes)
    (counted,) = ncu_swizzle.predict("gather.cu", **launch)
    rows = [(row.executed, row.wavefronts, row.ideal) for row in counted.predictions if "gather.cu:6" in row.name]
    assert (1, None, None) in rows
    linted = ncu_swizzle.lint("gather.cu", **launch)
    assert any("1 access with unknown addresses could not be tried" in check.message for check in linted.checks)


@NEEDS_ALL
def test_kernels_without_conflicts_or_without_shared_memory_say_so() -> None:
    (clean,) = ncu_swizzle.suggest("clean.cu", **KEYWORDS["clean.cu"])
    assert "Every one of these accesses is already conflict-free." in clean.suggestion.notes
    for function in (ncu_swizzle.suggest, ncu_swizzle.banks):
        with pytest.raises(UsageError, match="unshared does not access shared memory"):
            function("unshared.cu", **KEYWORDS["unshared.cu"])


def test_python_functions_take_layouts_and_refuse_unknown_options() -> None:
    assert len(ncu_swizzle.banks("(8,8):(1,8)", swizzle="3,2,3")) == 2
    assert len(ncu_swizzle.suggest("(32,32):(32,1)", writes="row", reads="column")) == 1
    with pytest.raises(UsageError, match="unknown option 'gird'"):
        ncu_swizzle.suggest("wide.cu", gird=1)
