"""Races, deadlocks and misuse of barriers: what each small kernel has, and that counts stay as they are."""

import re
from types import ModuleType

import pytest

from ncu_swizzle.emulate import blocks, events, race_check, run
from ncu_swizzle.emulate.counts import Buffer, Launch
from ncu_swizzle.emulate.run import emulate
from ncu_swizzle.engines.emulation import EmulationSettings, emulate_cubin
from tests.support import python_kernels
from tests.support.emulation import IN, OUT, kernel, pointers
from tests.support.places import text

# By file and kernel: the codes of its hazards, without "RACE0".
EXPECTED = {
    (file, name): hazards
    for file in ("races", "tensor_races")
    for name, hazards in re.findall(r'^KERNEL\((\w+), "([\d ]*)"\)', text(f"emulate/{file}.cu"), re.MULTILINE)
}


def hazards(name: str, *, file: str = "races", count: int = 1, known: bool = True) -> events.Hazards:
    """Return what is found in a launch; unless `known`, the contents of the two arrays may be drawn."""
    cluster = (2, 1, 1) if name.startswith(("clustered", "pair")) else (1, 1, 1)
    buffers = () if known else (Buffer("out", OUT, 256), Buffer("in", IN, 256))
    launch = Launch(
        grid=(max(count, cluster[0]), 1, 1),
        block=(128 if file == "tensor_races" or name.startswith("wide") else 64, 1, 1),
        cluster=cluster,
        parameters=pointers(0)[:16],
        buffers=buffers,
    )
    return emulate(kernel(file, name), launch, races=True, counts_traffic=False).hazards


def codes(found: events.Hazards) -> str:
    return " ".join(sorted({hazard.code.removeprefix("RACE0") for hazard in found.found}))


# Those of tensor memory take half a second each: one of them stands for all, below, unless everything runs.
CASES = [pytest.param(*case, marks=[pytest.mark.long] * (case[0] == "tensor_races")) for case in EXPECTED]


@pytest.mark.parametrize(("file", "name"), CASES)
def test_a_kernel_has_the_hazards_of_its_mistake_and_no_others(file: str, name: str) -> None:
    assert codes(hazards(name, file=file, known=not name.startswith("words"))) == EXPECTED[file, name]


@pytest.mark.parametrize(
    "name", [pytest.param("loop", marks=pytest.mark.long), "lanes", "left_fenced", "phases", "counted", "clustered"]
)
def test_counts_are_the_same_with_and_without(name: str) -> None:
    launch = Launch(grid=(4, 1, 1), block=(64, 1, 1), parameters=pointers(0)[:16])
    with_races, without = (emulate(kernel("races", name), launch, races=races).rows for races in (True, False))
    assert with_races == without


@pytest.mark.long
@pytest.mark.parametrize(("name", "expected"), [("taken", ""), ("taken_in_one_phase", "11")])
def test_a_block_that_takes_over_the_work_of_others_is_looked_at(name: str, expected: str) -> None:
    assert codes(hazards(name, file="tensor_races", count=4)) == expected


def test_both_sides_are_named_with_thread_byte_and_block() -> None:
    (hazard,) = hazards("unordered").found
    later, earlier = hazard.parties
    assert (later.does, earlier.does) == ("reads", "writes")
    assert later.thread[0] == 63 - earlier.thread[0]
    assert "which thread" in hazard.described(["a.cu:2", "a.cu:1"])
    assert "at a.cu:1" in hazard.described(["a.cu:2", "a.cu:1"])


def test_a_race_is_found_in_a_loop_whose_iterations_are_skipped(skipped: list[int]) -> None:
    assert hazards("loop_open").found
    assert max(skipped) > 15  # the compiler has unrolled it


def test_a_deadlock_names_all_who_wait() -> None:
    (hazard,) = hazards("stuck").found
    assert {party.does for party in hazard.parties} == {f"waits at barrier {k} for 64 threads" for k in (1, 2)}
    told = hazard.described(["a.cu:1", "a.cu:2"])
    assert "waits for 64 threads, of which 32 arrive; 32 wait elsewhere; meanwhile, thread" in told
    assert "for 64 threads at a.cu:2 (block (0, 0, 0))" in told


def test_a_phase_that_never_completes_says_what_it_lacks() -> None:
    (hazard,) = hazards("phase_never").found
    told = hazard.described(["a.cu:1"] * len(hazard.parties), lambda at: f"bar + {at - 0x4F0:#x}")
    waits = "waits for the mbarrier at 0x500 (bar + 0x10)"
    assert f"{waits}, whose phase of parity 0 cannot complete: 1 of 65 arrivals is missing" in told
    assert "was the last to arrive" in {party.does for party in hazard.parties}


@pytest.mark.parametrize(("name", "expected"), [("summed", "06"), ("other_values", "01")])
def test_stores_of_unknown_values_are_compared_in_a_sample(name: str, expected: str) -> None:
    found = hazards(name, known=False)
    assert codes(found) == expected
    same = found.found[0].what.startswith("in a sample of random inputs, both store the same value")
    assert same == (expected == "06")


@pytest.mark.long
def test_what_cp_async_wrote_is_fenced_before_wgmma_reads_it() -> None:
    name = "matmul-f16-64x64x64"
    settings, cubin = EmulationSettings(cached=False, races=True), python_kernels.recorded()[1][name]
    found = emulate_cubin(python_kernels.launched(name), cubin, "", settings).counts.hazards
    assert ({hazard.code for hazard in found.found}, found.blocks) == ({"RACE003"}, 1)


def test_a_column_of_tensor_memory_and_who_frees_it_are_named() -> None:
    (hazard,) = hazards("freed_early", file="tensor_races").found
    told = hazard.described(["a.cu:2", "a.cu:1"])
    assert told.startswith("a warp frees lane 32, column 0 of tensor memory, which a warp reads at a.cu:1: ")


def steps(name: str) -> dict[str, list[str]]:
    """Return what each row of a kernel's timeline does: columns, and to which stage."""
    timeline = hazards(name).timeline
    assert timeline
    told = [f"{each.start}-{each.end} {each.does}{'' if each.stage is None else each.stage}" for each in timeline.steps]
    rows = [each.row for each in timeline.steps]
    return {row: [t for t, n in zip(told, rows, strict=True) if n == k] for k, row in enumerate(timeline.rows)}


def test_a_timeline_shows_who_writes_who_waits_and_who_reads() -> None:
    assert steps("named") == {
        "warp 0": ["0-1 writes0", "1-2 arrives"],
        "warp 1": ["0-2 waits at the barrier", "2-3 reads0"],
    }
    ring = steps("ring")
    assert ring["warp 0"][:4] == ["0-1 waits at the barrier", "1-4 waits for the mbarrier", "4-5 reads0", "5-6 arrives"]
    assert ring["warp 1"][-4:] == ["6-7 arrives", "7-8 waits for the mbarrier", "8-9 writes0", "9-10 arrives"]
    reads, writes = ([text for text in steps if text[-1].isdigit()] for steps in ring.values())
    assert (reads, writes) == (
        ["4-5 reads0", "7-8 reads1", "10-11 reads0"],
        ["2-3 writes0", "5-6 writes1", "8-9 writes0"],
    )
    assert hazards("clustered").timeline is not None
    assert hazards("lanes").timeline is None  # nobody waits


def test_what_is_not_followed_is_said() -> None:
    assert "STS" in "".join(hazards("nowhere").unfollowed())
    assert not hazards("ordered").lacking


def test_too_many_events_are_said_to_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_EVENTS", 2)
    assert "more accesses and barriers than are kept" in hazards("unordered").lacking


@pytest.mark.parametrize(
    ("module", "limit", "most", "grid"),
    [(blocks, "QUICK_EFFORT", 0, 128), (blocks, "QUICK_EFFORT", 0, 101), (events, "MOST_EVENT_BYTES", 1200, 128)],
)
def test_a_new_kind_among_blocks_whose_events_are_not_kept_runs_once_more(
    module: ModuleType, limit: str, most: int, grid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, most)
    assert {hazard.block for hazard in hazards("in_block_100", count=grid).found} == {(100, 0, 0)}


@pytest.mark.parametrize("name", ["unmet_in_100", "unfenced_in_100", "apart_in_100"])
@pytest.mark.parametrize("effort", [0, blocks.QUICK_EFFORT])
def test_a_block_that_differs_in_a_barrier_alone_is_looked_at(
    name: str, effort: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "QUICK_EFFORT", effort)
    assert {hazard.block for hazard in hazards(name, count=128).found} == {(100, 0, 0)}


def test_stores_of_the_same_value_are_told_apart_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "COMPARED_EFFORT", 1)
    found = hazards("same_value")
    assert codes(found) == "01"
    assert "whether stores that race store the same value" in "".join(found.unfollowed())


def test_blocks_of_a_kind_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hazards("unordered", count=500).blocks == 1
    monkeypatch.setattr(race_check, "MOST_DOMAINS", 0)
    assert not hazards("unordered").found


@pytest.mark.parametrize(("name", "expected"), [("40th", "20"), ("rows", "20"), ("ends", "20"), ("each", "")])
def test_blocks_far_apart_that_share_words_of_global_memory_are_found(name: str, expected: str) -> None:
    found = hazards(f"words_of_{name}", count=96, known=False)
    assert (codes(found), found.unfollowed()) == (expected, ())


def test_which_blocks_share_words_is_said_to_be_unknown_of_a_large_grid() -> None:
    assert "far from each other" in "".join(hazards("words_of_40th", count=1000, known=False).unfollowed())
