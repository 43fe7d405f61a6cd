"""What a process of its own adds to a call; its answers are in tests/data/sessions/servers."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ncu_swizzle.base import child
from ncu_swizzle.base.bounds import LONGEST_ANSWER
from ncu_swizzle.base.child import Exit
from ncu_swizzle.base.errors import LaunchLacking, ProgramFailed
from ncu_swizzle.servers.__main__ import CALLS
from ncu_swizzle.servers.answer import MARK, Service
from ncu_swizzle.servers.folders import Caller, LaunchGiven
from tests.support.marks import NEEDS_ALL
from tests.support.own_kernel import ENTRY, LAUNCH


def test_every_tool_is_a_call_and_files_of_one_project_go_together(caller: Caller, folder: Path) -> None:
    assert set(CALLS) >= {"lint", "profile", "explain", "suggest", "check", "compare", "read_report", "list_kernels"}
    (folder / "ncu-swizzle.toml").write_text(ENTRY, encoding="utf-8")
    assert caller.entries(["t.cu", "t.cu"], LaunchGiven()).config == str(folder / "ncu-swizzle.toml")


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
