"""The rules of global and local memory, and the emulator, against what an H100 was measured to count."""

from __future__ import annotations

import importlib
import lzma
from typing import Any

import numpy as np
import pytest

from tests.support.places import DATA, ROOT, text


@pytest.fixture(scope="module")
def bench() -> Any:
    """Return bench/sectors.py, which is a program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        return importlib.import_module("sectors")


def test_every_figure_of_every_instruction_is_the_rules_except_for_what_has_none(bench: Any) -> None:
    m = bench.measurements()
    rules = bench.predicted(m)
    held_out = m.where("held_out", "1")
    for half in (held_out, ~held_out):
        assert (half & ~m.where("mode", "construct")).sum() > 10_000
    without: dict[str, set[str]] = {}
    for column, ours in rules.items():
        theirs = m.measured(column)
        known = (ours != bench.UNKNOWN) & (theirs != bench.NOT_MEASURED)
        np.testing.assert_array_equal(ours[known], theirs[known], column)
        no_rule = (ours == bench.UNKNOWN) & (theirs != bench.NOT_MEASURED) & ~m.where("mode", "construct")
        without |= (
            {column: {bench.opcode(m.rows[number]["sass"]) for number in np.flatnonzero(no_rule)}}
            if any(no_rule)
            else {}
        )
    # docs/wavefronts.md, "Limits": a chunk that is read by two lanes.
    assert without == {bench.SHARED: {"LDGSTS.BYPASS"}, bench.SHARED_IDEAL: {"LDGSTS.BYPASS"}}


def test_a_branch_counts_the_places_that_its_threads_go_to(bench: Any) -> None:
    m = bench.measurements()
    uniform, divergent = (m.measured(column) for column in bench.TARGETS)
    executed, threads, taken = (m.measured(c) for c in (bench.EXECUTED, bench.THREADS, bench.PREDICATED_ON))
    branches = np.isin(m.opcodes, ["BRA", "CALL"])
    assert (branches | (m.opcodes == "BRX") == (uniform != bench.NOT_MEASURED)).all()
    assert (uniform + divergent == executed)[branches].all()
    once = branches & (executed == 1)
    assert (divergent == ((taken > 0) & (taken < threads)))[once].all()
    for number in np.flatnonzero(m.opcodes == "BRX"):
        pattern = m.pattern_of[np.flatnonzero(m.row_of == number)[0]]
        targets = len(set((m.extra[pattern] & 3)[m.live[number]].tolist()))
        assert (uniform[number], divergent[number]) == (targets == 1, targets - 1)


def test_the_hardware_s_counter_differs_for_atomics_and_for_copies_past_l1(bench: Any) -> None:
    kernels = list(bench.counters(bench.measurements()))
    assert len(kernels) > 50
    for kernel in kernels:
        other = kernel.form.startswith(("atom", "red", "cp.async.cg"))
        assert kernel.hardware == (kernel.instead if other else kernel.counted), kernel


def test_the_page_has_the_tables_of_the_data(bench: Any) -> None:
    page = text("../../docs/sectors.md")
    for name, table in (("accuracy", bench.accuracy()), ("hardware", bench.hardware())):
        assert page.split(f"<!-- {name} -->\n")[1].split(f"\n<!-- /{name} -->")[0] == table, (
            "paste what python3 bench/sectors.py prints"
        )


def replayed(bench: Any, live: str) -> int:
    """Compare the emulated kernel of branches with what was measured of one launch; return the number of figures."""
    (kernel, file), *_ = bench.BRANCHES.items()
    rows = [row for row in bench.measurements().rows if (row["kernel"], row["live"]) == (kernel, live)]
    counts = bench.emulated(lzma.decompress((DATA / file).read_bytes()), kernel, int(live, 16))
    figures = [figure for figure in bench.compared(counts, rows) if figure[3] is not None]
    assert [figure for figure in figures if figure[2] != figure[3]] == []
    return len(figures)


def test_the_emulator_counts_threads_and_divergence_as_ncu_does(bench: Any) -> None:
    assert replayed(bench, "a5c3f01e") > 13_000


@pytest.mark.long
@pytest.mark.parametrize("live", ["ffffffff", "0000ffff", "00010000"])
def test_so_it_does_for_other_masks(bench: Any, live: str) -> None:
    assert replayed(bench, live) > 13_000
