"""Each call's answer, on a kernel whose conflict is known; and what a process of its own adds to it."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ncu_swizzle.base import child
from ncu_swizzle.base.bounds import LONGEST_ANSWER
from ncu_swizzle.base.child import Exit
from ncu_swizzle.base.errors import LaunchLacking, ProgramFailed, Untrusted, UsageError
from ncu_swizzle.kernels import fills
from ncu_swizzle.servers import calls, lines
from ncu_swizzle.servers.__main__ import CALLS, answer
from ncu_swizzle.servers.answer import MARK, Call, Service, list_kernels
from ncu_swizzle.servers.folders import Caller, LaunchGiven
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import ENTRY, EXCESSIVE, LAUNCH
from tests.support.places import DATA, RECORDINGS

GIVEN = LaunchGiven.of_json(LAUNCH)
INDEXED = """\
__global__ void k(const int* i, int* o) {
    __shared__ int t[4096];
    t[threadIdx.x] = 1;
    __syncthreads();
    o[threadIdx.x] = t[i[threadIdx.x]];
}
"""
PAIR = [f"{name}.ncu-rep" for name in ("transpose-plain", "transpose-xor")]


# ------------------------------------------------------------------------------------------------ kernels


def test_kernels_of_the_project_come_first_and_projects_are_not_mixed(caller: Caller, folder: Path) -> None:
    text = (folder / "t.cu").read_text(encoding="utf-8")
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "t.cu").write_text(text, encoding="utf-8")
        (folder / name / "ncu-swizzle.toml").write_text(ENTRY, encoding="utf-8")
    with pytest.raises(UsageError, match=r"a/t.cu and b/t.cu belong to different projects"):
        calls.lint(caller, ["a/t.cu", "b/t.cu"])
    with pytest.raises(UsageError, match="different projects"):
        calls.compare(caller, ["a/t.cu", "b/t.cu"])
    assert caller.entries(["a/t.cu", "a/t.cu"], LaunchGiven()).config == str(folder / "a" / "ncu-swizzle.toml")
    (folder / "ncu-swizzle.toml").write_text(ENTRY, encoding="utf-8")
    rows = list_kernels(caller).rows
    assert (rows[0]["name"], rows[0]["file"]) == ("mine", "t.cu")
    request = {"call": "list_kernels", "arguments": {}, "folders": caller.folders.as_json(), "timeout_s": 60}
    assert "kernel2" in [row["name"] for row in answer(request).rows]
    assert set(CALLS) >= {"lint", "profile", "explain", "suggest", "check", "compare", "read_report", "list_kernels"}


def test_a_header_is_not_a_source_and_only_files_of_the_client_are_rewritten(caller: Caller, folder: Path) -> None:
    (folder / "body.cuh").write_text("__device__ void body() {}", encoding="utf-8")
    for call, argument in ((calls.lint, ["body.cuh"]), (list_kernels, "body.cuh"), (lines.explain, "body.cuh")):
        with pytest.raises(UsageError, match="is a header"):
            call(caller, argument)  # type: ignore[operator]
    with pytest.raises(Untrusted, match="outside of the folders"):
        calls.fix(caller, "transpose-plain", write=True)


@NEEDS_ALL
def test_a_guessed_launch_can_be_sent_as_it_is(caller: Caller) -> None:
    (row,) = list_kernels(caller, "t.cu").rows
    assert (row["function"], row["launch"]["args"][2]) == ("transpose", "n=int32:n")
    guessed = LaunchGiven.of_json({**row["launch"], "problem": {"n": 128}, "block": "32,32"})
    assert calls.lint(caller, ["t.cu"], guessed).facts["outcome"] == "fail"


# ------------------------------------------------------------------------------------------------ judging, explaining


@NEEDS_ALL
def test_lint_and_check_name_the_line_the_limit_and_the_call_that_follows(caller: Caller) -> None:
    with pytest.raises(LaunchLacking):
        calls.lint(caller, ["t.cu"])
    found = calls.lint(caller, ["t.cu"], GIVEN)
    assert found.facts["outcome"] == "fail"
    assert (found.rows[0]["place"], found.rows[0]["actual"]) == ("t.cu:7", 32)
    assert "Swizzle<5,0,5>" in found.rows[0]["message"]
    assert found.next == Call("fix", {"file": "t.cu", "launch": GIVEN.as_json()})
    assert calls.lint(caller, ["t.cu"], GIVEN) == found, "an answer is the same each time"
    assert calls.lint(caller, ["t.cu"], GIVEN, max_degree=32).facts["outcome"] == "pass"
    checked = calls.check(caller, ["t.cu"], GIVEN)
    assert (checked.facts["outcome"], checked.rows[0]["actual"]) == ("fail", EXCESSIVE)
    assert calls.check(caller, ["t.cu"], GIVEN, max_degree=32.0).facts["outcome"] == "pass"


@NEEDS_ALL
def test_sectors_of_global_memory_are_judged_and_shown_by_line(caller: Caller, folder: Path) -> None:
    text = (DATA / "own" / "memory.cu").read_text(encoding="utf-8")
    (folder / "memory.cu").write_text(text.partition("// An array")[0], encoding="utf-8")
    launch = LaunchGiven(
        grid="4,4", block="32,8", args=("x=float32[16384]:random", "y=float32[16384]:out", "n=int32:128")
    )
    entry = "memory.cu"
    found = calls.lint(caller, [entry], launch)
    (warning,) = (row for row in found.rows if row["outcome"] == "warning")
    assert (found.facts["outcome"], warning["code"], warning["place"]) == ("pass", "MEM001", "memory.cu:7")
    assert "exchange threadIdx.x and threadIdx.y: at most 8 sectors per request" in warning["message"]
    limited = calls.lint(caller, [entry], launch, max_sectors=2.0)
    (failed,) = (row for row in limited.rows if row["outcome"] == "fail")
    assert (limited.facts["outcome"], failed["code"], failed["actual"]) == ("fail", "MEM001", 8)
    rows = {row["access"]: row for row in calls.profile(caller, entry, launch).rows if "sectors" in row}
    load, store = rows["LDG"], rows["STG"]
    assert (store["sectors"], store["ideal_sectors"], store["excessive_bytes"]) == (16384, 2048, 458752)
    assert (store["line"], load["sectors"], load["ideal_sectors"], "line" in load) == ("memory.cu:7", 2048, 2048, False)
    assert "threadIdx.x are 512 bytes apart" in store["message"]


@NEEDS_ALL
def test_what_data_decide_is_inconclusive_and_says_what_to_send(
    caller: Caller, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "d.cu").write_text(INDEXED, encoding="utf-8")
    launch = LaunchGiven(grid="1", block="32", args=("i=int32[32]:random%4096", "o=int32[32]:out"))
    found = calls.lint(caller, ["d.cu"], launch)
    assert found.facts["outcome"] == "inconclusive"
    assert found.next is not None
    assert found.next.arguments["launch"]["sample"] == 1
    request = {"call": found.next.tool, "arguments": found.next.arguments}
    again = answer({**request, "folders": caller.folders.as_json(), "timeout_s": 60})
    assert again.facts["outcome"] != "inconclusive"
    monkeypatch.setattr(fills, "or_random", lambda *_: "")
    assert calls.lint(caller, ["d.cu"], launch).next == found.next, "it does not hang on the words of a hint"


@NEEDS_ALL
def test_explain_shows_which_lanes_meet_in_which_bank(caller: Caller) -> None:
    before, meeting, after, apart = lines.explain(caller, "t.cu", launch=GIVEN).rows
    assert before["instruction"] == "ld.shared.b32"
    assert (meeting["ways"], meeting["lanes there"], meeting["and more lanes"]) == (32, list(range(8)), 24)
    assert after["mapping"].startswith("Swizzle<5,0,5>")
    assert apart["ways"] == 1
    assert lines.explain(caller, "t.cu", access="t.cu:4", launch=GIVEN).rows[1]["ways"] == 1
    with pytest.raises(UsageError, match="no access") as error:
        lines.explain(caller, "t.cu", access="t.cu:99", launch=GIVEN)
    assert "t.cu:7" in error.value.hint


@NEEDS_ALL
def test_suggest_gives_mappings_and_code(caller: Caller) -> None:
    suggested = lines.suggest(caller, "t.cu", GIVEN)
    assert [row["excessive"] for row in suggested.rows if "mapping" in row] == [0, 0]
    assert "struct Tile" in suggested.rows[-1]["CUDA"]
    assert all("CUDA" not in row for row in lines.suggest(caller, "t.cu", GIVEN, language="none").rows)
    with pytest.raises(UsageError, match="unknown language"):
        lines.suggest(caller, "t.cu", GIVEN, language="rust")


# ------------------------------------------------------------------------------------------------ profiles and reports


@NEEDS_ALL
def test_profile_says_which_engine_counted(caller: Caller) -> None:
    computed = calls.profile(caller, "t.cu", GIVEN)
    assert computed.facts["engine"] == "emulated"
    by_access = {row["access"]: row["excessive"] for row in computed.rows if "degree" in row}
    assert by_access == {"LDS": EXCESSIVE, "STS": 0}
    assert [row["line"] for row in computed.rows if "line" in row] == ["t.cu:7"]
    with pytest.raises(Untrusted):
        calls.profile(caller, "t.cu", GIVEN, engine="ncu")
    recorded = calls.profile(caller, "transpose-xor", engine="recorded")
    assert recorded.facts["engine"] == "recorded"
    assert {row["profile"] for row in recorded.rows if "executed" in row} >= {"transpose-plain", "transpose-xor"}


def test_reports_are_compared_listed_and_shown_one_by_one(caller: Caller, folder: Path) -> None:
    for name in PAIR:
        (folder / name).write_bytes((RECORDINGS / "transpose" / name).read_bytes())
    compared = calls.compare(caller, PAIR)
    assert (compared.summary[:27], compared.next) == ("transpose_xor removes all 1", None)
    listed = calls.read_report(caller, PAIR[0])
    assert {row["access"] for row in listed.rows if "executed" in row} == {"LDS", "STS"}
    with pytest.raises(UsageError, match="no profile 3"):
        calls.read_report(caller, PAIR[0], index=3)
    with pytest.raises(Untrusted):
        calls.read_report(caller, str(RECORDINGS / "transpose" / PAIR[0]))


# ------------------------------------------------------------------------------------------------ in a process


@pytest.mark.long
@NEEDS_ALL
def test_a_call_in_a_process_tells_how_far_it_is_and_its_errors_say_what_to_send(service: Service) -> None:
    told: list[tuple[float, str]] = []

    def progress(percent: float, words: str) -> None:
        told.append((percent, words))

    linted = service.call("lint", {"files": ["t.cu"], "launch": LAUNCH}, progress)
    assert linted.facts["outcome"] == "fail"
    assert (told[-1][0], told[-1][1][:9]) == (100, "transpose")
    with pytest.raises(LaunchLacking, match="no grid and no block") as error:
        service.call("lint", {"files": ["t.cu"]})
    assert error.value.hint.startswith('launch={"problem": {"n": 1024}, "grid":')


def test_a_call_that_answers_too_much_is_an_error_and_odd_lines_are_not_progress(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs(argv: Sequence[str], *_: object, on_output: Callable[[str], None], **__: object) -> Exit:
        for text in ("x" * 100_000, "\n", f"{MARK}[7]\n{MARK}[\n{MARK}7\n{MARK}[50.0, ", '"half"]\n', f"{MARK}{{}}\n"):
            on_output(text)
        with (Path(argv[-1]) / "answer.json").open("wb") as file:
            file.truncate(LONGEST_ANSWER + 1)
        return Exit(0, "the last line")

    monkeypatch.setattr(child, "run", runs)
    told: list[tuple[float, str]] = []
    with pytest.raises(ProgramFailed, match="the last line"):
        service.call("lint", {}, lambda percent, words: told.append((percent, words)))
    assert told == [(50.0, "half")]
