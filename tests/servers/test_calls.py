"""Each call's answer, on a kernel whose conflict is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.base.errors import LaunchLacking, Untrusted, UsageError
from ncu_swizzle.kernels import fills
from ncu_swizzle.servers import judging, lines, reports
from ncu_swizzle.servers.__main__ import CALLS, answer
from ncu_swizzle.servers.answer import Call, list_kernels
from ncu_swizzle.servers.folders import Caller, LaunchGiven
from tests.support.marks import NEEDS_ALL
from tests.support.places import RECORDINGS
from tests.support.planted import ENTRY, EXCESSIVE, LAUNCH

GIVEN = LaunchGiven.of_json(LAUNCH)
DATA = """\
__global__ void k(const int* i, int* o) {
    __shared__ int t[4096];
    t[threadIdx.x] = 1;
    __syncthreads();
    o[threadIdx.x] = t[i[threadIdx.x]];
}
"""
REPORT = next(RECORDINGS.glob("transpose/transpose-plain.ncu-rep"))


def test_kernels_of_the_project_come_first(caller: Caller, folder: Path) -> None:
    (folder / "ncu-swizzle.toml").write_text(ENTRY, encoding="utf-8")
    made = list_kernels(caller)
    assert made.rows[0]["name"] == "mine"
    assert made.rows[0]["file"] == "t.cu"
    assert "kernel2" in [row["name"] for row in made.rows]


@pytest.mark.long
@NEEDS_ALL
def test_a_file_has_kernels_with_guessed_launches(caller: Caller) -> None:
    (row,) = list_kernels(caller, "t.cu").rows
    assert row["function"] == "transpose"
    assert row["launch"]["args"][2] == "n=int32:n"
    guessed = LaunchGiven.of_json({**row["launch"], "problem": {"n": 64}, "block": "32,32"})
    assert judging.lint(caller, ["t.cu"], guessed).facts["outcome"] == "fail"  # a guess can be sent as it is


@pytest.mark.long
@NEEDS_ALL
def test_lint_names_the_line_and_the_call_that_follows(caller: Caller) -> None:
    made = judging.lint(caller, ["t.cu"], GIVEN)
    assert made.facts["outcome"] == "fail"
    assert made.rows[0]["place"] == "t.cu:7"
    assert made.rows[0]["actual"] == 32
    assert "Swizzle<5,0,5>" in made.rows[0]["message"]
    assert made.next == Call("fix", {"file": "t.cu", "launch": GIVEN.as_json()})


@NEEDS_ALL
def test_lint_of_a_kernel_that_is_not_described_says_how(caller: Caller) -> None:
    with pytest.raises(LaunchLacking):
        judging.lint(caller, ["t.cu"])


@pytest.mark.long
@NEEDS_ALL
def test_lint_with_a_limit_that_is_kept_passes(caller: Caller) -> None:
    assert judging.lint(caller, ["t.cu"], GIVEN, max_degree=32).facts["outcome"] == "pass"


@pytest.mark.long
@NEEDS_ALL
def test_what_data_decide_is_inconclusive_and_says_what_to_send(caller: Caller, folder: Path) -> None:
    (folder / "d.cu").write_text(DATA, encoding="utf-8")
    launch = LaunchGiven(grid="1", block="32", args=("i=int32[32]:random%4096", "o=int32[32]:out"))
    made = judging.lint(caller, ["d.cu"], launch)
    assert made.facts["outcome"] == "inconclusive"
    assert made.next is not None
    assert made.next.arguments["launch"]["sample"] == 1
    request = {"call": made.next.tool, "arguments": made.next.arguments}
    again = answer({**request, "folders": caller.folders.as_json(), "timeout_s": 60})
    assert again.facts["outcome"] != "inconclusive"


@pytest.mark.long
@NEEDS_ALL
def test_the_call_with_random_data_does_not_hang_on_the_words_of_a_hint(
    caller: Caller, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "d.cu").write_text(DATA, encoding="utf-8")
    monkeypatch.setattr(fills, "or_random", lambda *_: "")
    launch = LaunchGiven(grid="1", block="32", args=("i=int32[32]:random%4096", "o=int32[32]:out"))
    made = judging.lint(caller, ["d.cu"], launch)
    assert made.next == Call(
        "lint", {"files": ["d.cu"], "launch": {**launch.as_json(), "sample": 1}}, "takes random data"
    )


@pytest.mark.long
@NEEDS_ALL
def test_explain_shows_which_lanes_meet_in_which_bank(caller: Caller) -> None:
    made = lines.explain(caller, "t.cu", launch=GIVEN)
    before, meeting, after, apart = made.rows
    assert before["instruction"] == "ld.shared.b32"
    assert meeting["ways"] == 32
    assert meeting["lanes there"] == list(range(8))
    assert meeting["and more lanes"] == 24
    assert after["mapping"].startswith("Swizzle<5,0,5>")
    assert apart["ways"] == 1
    write = lines.explain(caller, "t.cu", access="t.cu:4", launch=GIVEN)
    assert write.rows[1]["ways"] == 1


@pytest.mark.long
@NEEDS_ALL
def test_explain_names_the_accesses_that_there_are(caller: Caller) -> None:
    with pytest.raises(UsageError, match="no access") as error:
        lines.explain(caller, "t.cu", access="t.cu:99", launch=GIVEN)
    assert "t.cu:7" in error.value.hint


@pytest.mark.long
@NEEDS_ALL
def test_suggest_gives_mappings_and_code(caller: Caller) -> None:
    made = lines.suggest(caller, "t.cu", GIVEN)
    assert [row["excessive"] for row in made.rows if "mapping" in row] == [0, 0]
    assert "struct Tile" in made.rows[-1]["CUDA"]
    assert all("CUDA" not in row for row in lines.suggest(caller, "t.cu", GIVEN, language="none").rows)
    with pytest.raises(UsageError, match="unknown language"):
        lines.suggest(caller, "t.cu", GIVEN, language="rust")


@pytest.mark.long
@NEEDS_ALL
def test_profile_says_which_engine_counted(caller: Caller) -> None:
    made = reports.profile(caller, "t.cu", GIVEN)
    assert made.facts["engine"] == "emulated"
    by_access = {row["access"]: row["excessive"] for row in made.rows if "executed" in row}
    assert by_access == {"LDS": EXCESSIVE, "STS": 0}
    assert [row["line"] for row in made.rows if "line" in row] == ["t.cu:7"]
    with pytest.raises(Untrusted):
        reports.profile(caller, "t.cu", GIVEN, engine="ncu")


@pytest.mark.long
def test_profile_of_a_recording(caller: Caller) -> None:
    made = reports.profile(caller, "kernel2", engine="recorded")
    assert made.facts["engine"] == "recorded"
    assert {row["profile"] for row in made.rows if "executed" in row} >= {"kernel1", "kernel2"}


def test_compare_puts_the_baseline_first(caller: Caller, folder: Path) -> None:
    names = ("transpose-plain", "transpose-xor")
    for name in names:
        (folder / f"{name}.ncu-rep").write_bytes(REPORT.with_name(f"{name}.ncu-rep").read_bytes())
    made = reports.compare(caller, [f"{name}.ncu-rep" for name in names])
    assert made.summary.startswith("transpose_xor removes all")
    assert made.next is None


def test_read_report_lists_or_shows_one(caller: Caller, folder: Path) -> None:
    (folder / "r.ncu-rep").write_bytes(REPORT.read_bytes())
    made = reports.read_report(caller, "r.ncu-rep")
    assert {row["access"] for row in made.rows if "executed" in row} == {"LDS", "STS"}
    with pytest.raises(UsageError, match="no profile 3"):
        reports.read_report(caller, "r.ncu-rep", index=3)
    with pytest.raises(Untrusted):
        reports.read_report(caller, str(REPORT))


@pytest.mark.long
@NEEDS_ALL
def test_check_judges_as_ci_does(caller: Caller) -> None:
    made = judging.check(caller, ["t.cu"], GIVEN)
    assert made.facts["outcome"] == "fail"
    assert made.rows[0]["actual"] == EXCESSIVE
    assert judging.check(caller, ["t.cu"], GIVEN, max_degree=32.0).facts["outcome"] == "pass"


@pytest.mark.long
@NEEDS_ALL
def test_answers_are_the_same_each_time(caller: Caller) -> None:
    assert judging.lint(caller, ["t.cu"], GIVEN) == judging.lint(caller, ["t.cu"], GIVEN)
    assert lines.suggest(caller, "t.cu", GIVEN) == lines.suggest(caller, "t.cu", GIVEN)


def test_every_call_is_made_from_a_request(caller: Caller) -> None:
    request = {"call": "list_kernels", "arguments": {}, "folders": caller.folders.as_json(), "timeout_s": 60}
    assert "kernel2" in [row["name"] for row in answer(request).rows]
    assert set(CALLS) >= {"lint", "profile", "explain", "suggest", "check", "compare", "read_report", "list_kernels"}


def test_kernels_of_different_projects_are_not_mixed(caller: Caller, folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "t.cu").write_text((folder / "t.cu").read_text(encoding="utf-8"), encoding="utf-8")
        (folder / name / "ncu-swizzle.toml").write_text(ENTRY, encoding="utf-8")
    with pytest.raises(UsageError, match=r"a/t.cu and b/t.cu belong to different projects"):
        judging.lint(caller, ["a/t.cu", "b/t.cu"])
    with pytest.raises(UsageError, match="different projects"):
        reports.compare(caller, ["a/t.cu", "b/t.cu"])
    assert caller.entries(["a/t.cu", "a/t.cu"], LaunchGiven()).config == str(folder / "a" / "ncu-swizzle.toml")


def test_a_header_is_no_source(caller: Caller, folder: Path) -> None:
    (folder / "body.cuh").write_text("__device__ void body() {}", encoding="utf-8")
    for call in (judging.lint, list_kernels, lines.explain):
        with pytest.raises(UsageError, match="is a header"):
            call(caller, ["body.cuh"] if call is judging.lint else "body.cuh")


@NEEDS_ALL
def test_only_files_of_the_client_are_rewritten(caller: Caller) -> None:
    from ncu_swizzle.servers import judging

    with pytest.raises(Untrusted, match="outside of the folders"):
        judging.fix(caller, "transpose-plain", write=True)
