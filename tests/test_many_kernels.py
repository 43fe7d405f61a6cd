"""Reports with many kernels, and reports that lack metrics: listed, shown, compared, and never a crash."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from ncu_swizzle import cli
from ncu_swizzle.ncurep import container
from ncu_swizzle.jobs import profile_kernel
from ncu_swizzle.jobs import compare
from ncu_swizzle.render import json_
from ncu_swizzle.render import markdown
from ncu_swizzle.profiles import pairing
from ncu_swizzle.ncurep import reader
from ncu_swizzle.profiles import many_launches
from ncu_swizzle.render import csv_
from ncu_swizzle.render import terminal
from ncu_swizzle.render import page as report
from ncu_swizzle.profiles.comparison import Comparison, compare
from ncu_swizzle.profiles.result import Result
from ncu_swizzle.profiles.model import DURATION, EXECUTED, IDEAL, NEEDED, STALLED, WAVEFRONTS, Launch, Metric, Profile
from ncu_swizzle.profiles.result import Engine
from ncu_swizzle.render.view import kernels
from tests.reports import join, launched, without
from tests.test_report import EMPTY, HOSTILE, Page

Recorded = Callable[[str], Profile]
ENGINE = Engine("ncu")


def program(recorded: Recorded, times: int = 1) -> list[Profile]:
    """Return a program's launches: two with conflicts, one without, one that uses no shared memory."""
    plain, swizzled = recorded("transpose-plain"), recorded("transpose-xor")
    idle = dataclasses.replace(
        swizzled,
        instructions=tuple(
            dataclasses.replace(i, access="", wavefronts=None, ideal=None) for i in swizzled.instructions
        ),
    )
    made = [(plain, "void a::rows<float>(float *)"), (swizzled, "void a::tile<32>(int)"),
            (plain, "void a::rows<double>(double *)"), (idle, "copy(int *)")] * times  # fmt: skip
    return [launched(one, function, index) for index, (one, function) in enumerate(made)]


def laid_out(*reports: Sequence[Profile]) -> Result:
    columns = [f"run{number}" for number in range(len(reports))]
    comparisons, notes = many_launches.lay_out(pairing.rows(reports), columns)
    return Result(comparisons, ENGINE, notes=notes, title="a program")


def shown(result: Result, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    terminal.show(result, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


# ---------------------------------------------------------------------------------------------- laid out


def test_launches_are_told_apart_and_judged(recorded: Recorded) -> None:
    result = laid_out(program(recorded))
    assert [one.title for one in result.comparisons] == ["rows<float>", "tile", "rows<double>", "copy"]
    assert [many_launches.excessive(one) for one in result.comparisons] == [16_252_928, 0, 16_252_928, 0]
    assert many_launches.verdict(result.comparisons) == (
        "2 of 4 launches have excessive shared-memory wavefronts; the worst is rows<float>: 16,252,928 (degree 16.50)."
    )
    assert many_launches.worst(result.comparisons, 9) == [0, 2, 1, 3]
    assert many_launches.worst(result.comparisons, 1) == [0]


def test_of_the_launches_of_one_kernel_the_worst_is_shown(recorded: Recorded) -> None:
    result = laid_out(program(recorded, times=50))
    assert len(result.comparisons) == 200
    assert result.comparisons[4].title == "rows<float> #2"
    assert len(many_launches.worst(result.comparisons, 9)) == 4


def test_pairs_are_compared_one_by_one(recorded: Recorded) -> None:
    before = program(recorded)
    after = [launched(recorded("transpose-xor"), one.kernel.function, one.launch.index) for one in before]
    result = laid_out(before, after)
    assert [one.labels for one in result.comparisons] == [("run0", "run1")] * 4
    assert result.comparisons[0].verdict.startswith("run1 removes all 16,252,928 excessive wavefronts of run0")
    assert many_launches.verdict(result.comparisons).startswith("4 pairs, excessive wavefronts 32,505,856 → 0, ")
    assert result.notes == ()


def test_reports_are_called_after_their_files() -> None:
    assert many_launches.columns(["old.ncu-rep", "x/new.json"]) == ("old", "new")
    assert many_launches.columns(["a/report.ncu-rep", "b/report.ncu-rep"]) == ("before", "after")
    assert many_launches.columns(["a/x", "b/x", "c/y"]) == ("x #1", "x #2", "y")


def test_nothing_that_is_unknown_is_added_up(recorded: Recorded) -> None:
    before = program(recorded)
    after = [without(one, IDEAL, DURATION) for one in before]
    assert many_launches.verdict(laid_out(before, after).comparisons) == "4 pairs."
    assert many_launches.verdict(laid_out(after).comparisons) == "None of the 4 launches can be judged."
    assert many_launches.verdict(laid_out([*after[:1], *before[1:2]]).comparisons) == (
        "None of 2 launches has excessive shared-memory wavefronts; 1 cannot be judged."
    )


# ---------------------------------------------------------------------------------------------- shown


def test_the_page_lists_all_and_shows_the_worst(recorded: Recorded) -> None:
    result = laid_out(program(recorded, times=30))
    html = report.render_all(result.comparisons, ["A note."], "a program")
    page = Page(html)
    ids = Counter(value for _, name, value in page.attributes if name == "id")
    assert max(ids.values()) == 1, "labels repeat, names in links must not"
    for target in page.values("href"):
        assert target.removeprefix("#") in ids
    assert page.tags["tr"] > 120
    for text in ("All 120 launches", "A note.", "rows<float> #30", "60 of 120 launches have"):
        assert text in page.text
    assert html == report.render_all(result.comparisons, ["A note."], "a program")
    assert page.values("type").count("application/json") == len(many_launches.worst(result.comparisons, 8)) == 4
    assert len(set(page.values("data-label"))) == 4


def test_one_comparison_is_the_page_that_it_always_was(recorded: Recorded) -> None:
    one = compare([recorded("kernel1"), recorded("kernel2")])
    assert report.render_all([one]) == report.render(one)
    assert markdown.render_all([one]) == markdown.render(one)
    assert csv_.to_csv(one).splitlines()[1].startswith("kernel1,")


def test_the_terminal_shows_a_list_then_the_worst(recorded: Recorded) -> None:
    text = shown(laid_out(program(recorded)))
    assert max(map(len, text.splitlines())) <= 80
    assert text.index("4 launches") < text.index("── rows<float>") < text.index("── rows<double>")
    assert "── copy" not in text
    assert "--launch N or --kernel-name NAME" in " ".join(text.split())
    paired = shown(laid_out(program(recorded), program(recorded)[:3]))
    assert max(map(len, paired.splitlines())) <= 80
    assert "Only in run0, not paired: 3 copy." in paired


def test_markdown_json_and_csv_have_every_launch(recorded: Recorded) -> None:
    result = laid_out(program(recorded), program(recorded)[:3])
    text = markdown.render_all(result.comparisons, result.notes, result.title)
    assert "| 0 | rows&lt;float&gt; | 8 | 32x8 | 16,252,928 → 16,252,928 |" in text
    assert "Only in run0, not paired: 3 copy." in text
    data = json.loads(json_.to_json(result))
    assert [one["launch"] for one in data["kernels"]] == [[0, 0], [1, 1], [2, 2], [3]]
    assert [len(one["profiles"]) for one in data["comparisons"]] == [2, 2, 2, 1]
    rows = list(csv.DictReader(io.StringIO(csv_.to_csv(*result.comparisons))))
    assert len(rows) == sum(len(p.instructions) for one in result.comparisons for p in one.profiles)
    assert {row["profile"] for row in rows} >= {"rows<float>: run0", "rows<float>: run1", "copy: run0"}
    many = markdown.render_all(laid_out(program(recorded, times=100)).comparisons)
    assert len(many.encode()) < 65_536


def test_hostile_names_stay_names(recorded: Recorded) -> None:
    evil = [launched(one, f"{HOSTILE}\x1b[31m<{number}>", number) for number, one in enumerate(program(recorded))]
    result = laid_out(evil, evil)
    page = Page(report.render_all(result.comparisons, [HOSTILE], HOSTILE))
    assert not set(page.tags) & {"img"}
    assert "<img" not in markdown.render_all(result.comparisons, [HOSTILE], HOSTILE)
    assert "\x1b" not in shown(result)


# ---------------------------------------------------------------------------------------------- what is missing


@pytest.mark.parametrize("workload", ["kernel", "range", "graph", "command list"])
def test_nothing_at_all_is_shown_with_the_command_that_would_help(workload: str) -> None:
    bare = dataclasses.replace(EMPTY, launch=Launch(workload=workload), command="ncu --set basic -o x ./app -n 3")
    for result in (laid_out([bare]), laid_out([bare, bare]), laid_out([bare, bare], [bare, bare])):
        page = Page(report.render_all(result.comparisons, result.notes))
        assert "--section SwizzleConflicts" in page.text
        assert "./app -n 3" in page.text
        assert "Not in the report" in page.text
        assert "--section SwizzleConflicts" in " ".join(shown(result, 1000).split())
        markdown.render_all(result.comparisons, result.notes)
        json.loads(json_.to_json(result))
        csv_.to_csv(*result.comparisons)
    if workload != "kernel":
        assert f"counts for a {workload}" in laid_out([bare]).comparison.warnings[0]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(gone=st.sets(st.sampled_from([*NEEDED[:4], STALLED, "launch__", "device__", "l1tex__", "sm", "lts", "dram"])),
       keep_instructions=st.booleans(), stacks=st.booleans())  # fmt: skip
def test_whatever_is_missing_nothing_crashes(
    gone: set[str], keep_instructions: bool, stacks: bool, recorded: Recorded
) -> None:
    whole = recorded("transpose-plain")
    poor = without(whole, *sorted(gone)) if gone else whole
    if not keep_instructions:
        poor = dataclasses.replace(poor, instructions=())
    if not stacks:
        bare = tuple(dataclasses.replace(i, stack=()) for i in poor.instructions)
        poor = dataclasses.replace(poor, instructions=bare, sources={})
    missing = set(poor.missing)
    assert missing == {name for name in NEEDED if any(name.startswith(part) for part in gone)}
    for comparison in (compare([poor]), compare([whole, poor]), compare([poor, whole])):
        _show_everywhere(comparison, missing)
    _show_everywhere_together(laid_out([poor, whole], [whole, poor]))


def _show_everywhere(comparison: Comparison, missing: set[str]) -> None:
    result = Result((comparison,), ENGINE)
    page = Page(report.render(comparison))
    assert ("Not in the report" in page.text) == bool(missing)
    for name in missing:
        assert name in page.text
        assert name in " ".join(shown(result, 2000).split())
    for text in (page.text, shown(result), markdown.render(comparison)):
        assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    json.loads(json_.to_json(result))
    csv_.to_csv(comparison)


def _show_everywhere_together(result: Result) -> None:
    Page(report.render_all(result.comparisons, result.notes))
    shown(result)
    markdown.render_all(result.comparisons, result.notes)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0, "n/a"])
def test_an_absurd_duration_is_no_reason_to_crash(recorded: Recorded, value: float) -> None:
    odd = [dataclasses.replace(one, metrics={**one.metrics, DURATION: Metric(value)}) for one in program(recorded)]
    result = laid_out(program(recorded), odd)
    for text in (Page(report.render_all(result.comparisons, result.notes)).text, shown(result)):
        assert not re.search(r"\b(nan|inf)\b", text)


def test_what_a_basic_set_has_is_shown(recorded: Recorded) -> None:
    basic = without(recorded("transpose-plain"), WAVEFRONTS, IDEAL, EXECUTED, STALLED, "l1tex__")
    basic = dataclasses.replace(basic, instructions=())
    row = kernels.rows(laid_out([basic, basic]).comparisons)[0]
    assert (row.duration, row.excessive, row.degree) == ("0.080", "unknown", "-")


# ---------------------------------------------------------------------------------------------- real reports


@pytest.fixture
def files(tmp_path: Path, recorded_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with old.ncu-rep and new.ncu-rep, of several kernels each, and go there."""
    monkeypatch.chdir(tmp_path)
    names = {"old": ("transpose-plain", "transpose-xor"), "new": ("transpose-xor", "transpose-plain", "tma-32")}
    for name, parts in names.items():
        (tmp_path / f"{name}.ncu-rep").write_bytes(join([recorded_file(part) for part in parts]))
    return tmp_path


def command(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout


@pytest.mark.usefixtures("files")
def test_compare_pairs_two_reports() -> None:
    status, text = command("compare", "old.ncu-rep", "new.ncu-rep", "--html", "x.html", "--markdown", "x.md")
    assert status == 0
    assert "Only in new, not paired: 2 tma_32." in text
    assert "2 pairs, excessive wavefronts 16,252,928 → 16,252,928" in " ".join(text.split())
    assert "old → new" in Page(Path("x.html").read_text(encoding="utf-8")).text
    data = json.loads(command("compare", "old.ncu-rep", "new.ncu-rep", "--pair", "0=2", "--json", "-")[1])
    assert [one["launch"] for one in data["kernels"]] == [[0, 2], [1, 0], [1]]
    one = json.loads(command("compare", "old.ncu-rep", "new.ncu-rep", "-k", "regex:plain", "--json", "-")[1])
    assert one["labels"] == ["transpose_plain #1", "transpose_plain #2"]


@pytest.mark.usefixtures("files")
def test_one_kernel_against_a_report_finds_its_own() -> None:
    found = json.loads(command("compare", "old.ncu-rep", "transpose-plain", "--json", "-")[1])
    assert [one["labels"] for one in found["kernels"]] == [["old", "transpose-plain"], ["old"]]


@pytest.mark.usefixtures("files")
def test_a_narrowed_report_is_one_kernel() -> None:
    status, text = command("report", "new.ncu-rep", "--launch", "1", "-o", "x.html", "--json", "-")
    assert status == 0
    assert json.loads(text)["labels"] == ["transpose_plain"]


def test_a_report_knows_the_sizes_of_its_launches(files: Path) -> None:
    found = container.inspect(files / "new.ncu-rep").results
    assert [(one.workload, one.grid, one.block) for one in found] == [
        ("kernel", profile.grid, profile.block) for profile in reader.read(files / "new.ncu-rep")
    ]


def test_a_run_s_rows_are_checked(files: Path) -> None:
    run = files / "run"
    run.mkdir()
    (run / "run.json").write_text('{"kernel": "x", "profiles": [], "columns": ["x"], "rows": [["../evil.json"]]}')
    with pytest.raises(profile_kernel.NcuSwizzleError, match="is not whole"):
        compare.reopen([str(run)])


def test_saved_profiles_of_schema_1_still_load(recorded: Recorded) -> None:
    from ncu_swizzle.profiles.model import _digest

    content = json.loads(recorded("kernel1").to_json())
    del content["digest"], content["launch"], content["kernel"]["mangled"]
    old = {**content, "schema": 1}
    loaded = Profile.from_json(json.dumps({**old, "digest": _digest(old)}))
    assert loaded.launch == Launch()
    assert loaded.grid == (64, 16, 4)
    assert loaded.total == recorded("kernel1").total
