"""One display of all workers: a line each, named after the worker, with what runs there."""

from __future__ import annotations

from ncu_swizzle.engines.settings import Done
from ncu_swizzle.sweep.dispatch import LOST, MOST_LINES, TOGETHER, CrewProgress
from ncu_swizzle.sweep.worker import Whereabouts

GPU = Whereabouts(worker="gpu-0", host="host1", gpu="NVIDIA H200", uuid="GPU-1")
LINE = "gpu-0, NVIDIA H200 on host1"
Said = list[tuple[str, float, str, str]]


def display(said: Said, total: int = 3, link: str = "") -> CrewProgress:
    def progress(line: str, done: Done) -> None:
        said.append((line, round(100 * done.fraction, 6), done.words, done.aside))

    return CrewProgress(progress, total, link)


def event(address: str, task: int, name: str, percent: float) -> tuple[float, dict[str, object]]:
    return 0.0, {"worker": address, "task": task, "name": name, "fraction": percent / 100}


def test_the_dashboard_is_said_once_and_first() -> None:
    said: Said = []
    display(said, link="http://127.0.0.1:8787/status").finished("tls://a", 2, failed=False)
    assert [aside for *_, aside in said] == ["Dask's dashboard: http://127.0.0.1:8787/status", ""]
    said.clear()
    display(said)
    assert said == [(TOGETHER, 0.0, "0 of 3", "")]


def test_a_line_says_which_point_runs_on_which_worker() -> None:
    said: Said = []
    shown = display(said)
    shown.joined("tls://a", GPU)
    shown.hear(event("tls://a", 1, "kernel2 seq=1024", 50))
    shown.hear(event("tls://unknown", 2, "kernel1 seq=1024", 10))
    shown.finished("tls://a", 2, failed=True)
    assert said[1:] == [
        (LINE, 50.0, "kernel2 seq=1024", ""),
        (LINE, 100.0, "", ""),
        (TOGETHER, 33.333333, "1 of 3, 1 failed", ""),
    ]
    assert shown.running == {"tls://a": 1, "tls://unknown": 2}


def test_a_worker_that_was_started_again_has_its_line_again() -> None:
    said: Said = []
    shown = display(said)
    shown.joined("tls://a", GPU)
    shown.lost("tls://a")
    shown.hear(event("tls://a", 1, "late", 50))
    assert said[1:] == [(LINE, 0.0, LOST, "")], "what a lost worker says late is not shown"
    shown.joined("tls://b", GPU)
    shown.hear(event("tls://b", 1, "kernel2 seq=1024", 0))
    assert said[-1] == (LINE, 0.0, "kernel2 seq=1024", "")


def test_very_many_workers_share_the_line_of_all() -> None:
    said: Said = []
    shown = display(said)
    for number in range(MOST_LINES + 5):
        shown.joined(f"tls://{number}", Whereabouts(worker=f"worker-{number}"))
        shown.hear(event(f"tls://{number}", number, "point", 0))
    assert len({line for line, *_ in said}) == MOST_LINES + 1
