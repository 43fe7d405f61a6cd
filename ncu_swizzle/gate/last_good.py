"""The last good runs of a history, as a baseline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ncu_swizzle.gate.baseline import Baseline, Entry, SavedCounts
from ncu_swizzle.history import dataset, tracks
from ncu_swizzle.history.tracks import Track
from ncu_swizzle.profiles.model import MachineInfo


def load(folder: Path) -> Baseline:
    """Return the last good run of each kernel, engine and machine; raise what `dataset.load` raises."""
    return Baseline(tuple(entries(tracks.tracks(dataset.load(folder)))), folder, history=True)


def entries(found: tuple[Track, ...]) -> Iterator[Entry]:
    """Yield the last good run of each track that has one."""
    for track in found:
        if (run := track.last_good) is None:
            continue
        told = track.conditions
        machine = MachineInfo(
            gpu=told["gpu"], compute_capability=told["compute_capability"], driver=run.driver, cuda=run.cuda,
            ncu=told["ncu"], clock_control=told["clocks"],
        )  # fmt: skip
        yield Entry(
            kernel=track.kernel, function=run.function, engine=told["engine"], when=run.time, machine=machine,
            problem=_sizes(told["problem"]), grid=told["grid"], block=run.block,
            accesses={
                access: SavedCounts(counts.executed, counts.wavefronts, counts.ideal)
                for access, counts in run.accesses.items()
            },
            durations_ns=run.durations_ns if run.duration_ns else (),
        )  # fmt: skip


def _sizes(words: str) -> dict[str, int]:
    """Return a problem that was written in words."""
    return {name: int(size) for name, _, size in (word.partition("=") for word in words.split())}
