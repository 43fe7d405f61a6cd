"""A call in a process of its own: progress, errors, and its end."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from ncu_swizzle.errors import Interrupted, LaunchLacking, Untrusted
from ncu_swizzle.service.process import Service
from tests.support.marks import NEEDS_ALL
from tests.support.planted import LAUNCH
from tests.support.processes import processes_in


@NEEDS_ALL
def test_a_call_tells_how_far_it_is(service: Service) -> None:
    told: list[tuple[float, str]] = []
    made = service.call(
        "lint", {"files": ["t.cu"], "launch": LAUNCH}, lambda percent, words: told.append((percent, words))
    )
    assert made.facts["outcome"] == "fail"
    assert told[-1][0] == 100
    assert told[-1][1].startswith("transpose")


@NEEDS_ALL
def test_errors_come_back_with_what_to_send(service: Service) -> None:
    with pytest.raises(LaunchLacking, match="no grid and no block") as error:
        service.call("lint", {"files": ["t.cu"]})
    assert error.value.hint.startswith('launch={"problem": {"n": 1024}, "grid":')
    with pytest.raises(Untrusted):
        service.call("lint", {"files": ["/etc/passwd.cu"]})


@NEEDS_ALL
def test_a_call_ends_when_it_is_stopped(service: Service, folder: Path) -> None:
    stop = threading.Event()
    timer = threading.Timer(2.5, stop.set)
    timer.start()
    start = time.monotonic()
    with pytest.raises(Interrupted):
        service.call("profile", {"kernel": "kernel2", "launch": {"problem": {"seq": 65536}}}, stop=stop)
    assert time.monotonic() - start < 30
    assert list(processes_in(folder)) == [line for line in processes_in(folder) if "ncu_swizzle.service" not in line]
