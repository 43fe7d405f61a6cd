"""A call in a process of its own: progress, errors, and its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ncu_swizzle.base import child
from ncu_swizzle.base.bounds import LONGEST_ANSWER
from ncu_swizzle.base.child import Exit
from ncu_swizzle.base.errors import Interrupted, LaunchLacking, ProgramFailed, Untrusted
from ncu_swizzle.servers.answer import MARK, Service
from tests.support.marks import NEEDS_ALL
from tests.support.planted import LAUNCH
from tests.support.processes import processes_in


@pytest.mark.long
@NEEDS_ALL
def test_a_call_tells_how_far_it_is(service: Service) -> None:
    told: list[tuple[float, str]] = []
    made = service.call(
        "lint", {"files": ["t.cu"], "launch": LAUNCH}, lambda percent, words: told.append((percent, words))
    )
    assert made.facts["outcome"] == "fail"
    assert told[-1][0] == 100
    assert told[-1][1].startswith("transpose")


@pytest.mark.long
@NEEDS_ALL
def test_errors_come_back_with_what_to_send(service: Service) -> None:
    with pytest.raises(LaunchLacking, match="no grid and no block") as error:
        service.call("lint", {"files": ["t.cu"]})
    assert error.value.hint.startswith('launch={"problem": {"n": 1024}, "grid":')
    with pytest.raises(Untrusted):
        service.call("lint", {"files": ["/etc/passwd.cu"]})


@pytest.mark.long
@NEEDS_ALL
def test_a_call_ends_when_it_is_stopped(service: Service, folder: Path) -> None:
    stop = threading.Event()
    timer = threading.Timer(2.5, stop.set)
    timer.start()
    start = time.monotonic()
    with pytest.raises(Interrupted):
        service.call("profile", {"kernel": "kernel2", "launch": {"problem": {"seq": 65536}}}, stop=stop)
    assert time.monotonic() - start < 30
    assert list(processes_in(folder)) == [line for line in processes_in(folder) if "ncu_swizzle.servers" not in line]


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
