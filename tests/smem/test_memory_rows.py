"""The rules of global and local memory, and the emulator, against what an H100 was measured to count."""

import importlib
import lzma
import re
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


# The rule of wavefronts past L1 says 7 of one copy with 8, which reads a chunk twice: docs/wavefronts.md, "Limits".
DIFFERENT = [("cp.async.cg.shared.global.16 placed", 8, 7)]
NO_RULE = {
    "memory_l1_wavefronts_shared": {"ATOM", "LDGSTS", "LDGSTS.BYPASS"},
    "memory_l1_wavefronts_shared_ideal": {"ATOM", "LDGSTS", "LDGSTS.BYPASS"},
    "memory_l2_theoretical_sectors_global": {"LDGSTS.BYPASS"},
    "memory_l2_theoretical_sectors_global_ideal": {"LDGSTS.BYPASS"},
}


def test_every_figure_of_every_instruction_is_the_rules_except_for_what_has_none(bench: Any) -> None:
    m = bench.measurements()
    accesses = ~m.where("mode", "construct")
    for half in ("0", "1"):
        assert (accesses & m.where("held_out", half)).sum() > 10_000
    different, without = [], {}
    for column, ours in bench.predicted(m).items():
        theirs = m.measured(column)
        known = (ours != bench.UNKNOWN) & (theirs != bench.NOT_MEASURED)
        for number in np.flatnonzero(known & (ours != theirs)):
            different.append((m.rows[number]["form"], theirs[number], ours[number]))
        no_rule = accesses & (ours == bench.UNKNOWN) & (theirs != bench.NOT_MEASURED)
        if no_rule.any():
            without[column] = {bench.opcode(m.rows[number]["sass"]) for number in np.flatnonzero(no_rule)}
    assert different == DIFFERENT
    assert without == NO_RULE
    # Of what reads and writes global memory, only copies of zeros past L1 under !P0 have no rule.
    unknown = accesses & (bench.predicted(m)[bench.SECTORS] == bench.UNKNOWN) & (m.measured(bench.SECTORS) >= 0)
    assert {bool(re.match(r"@!P0 LDGSTS.*BYPASS.*, !?P\d$", m.rows[n]["sass"])) for n in np.flatnonzero(unknown)} == {
        True
    }


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
        labels = "ABAC" if m.rows[number]["form"] == "table" else "ABCD"  # as in bench/memory_kernels.py
        targets = len({labels[value] for value in (m.extra[pattern] & 3)[m.live[number]].tolist()})
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


def replayed(bench: Any, kernel: str, live: str) -> int:
    """Compare an emulated kernel of branches with what was measured of one launch; return the number of figures."""
    rows = [row for row in bench.measurements().rows if (row["kernel"], row["live"]) == (kernel, live)]
    code = lzma.decompress((DATA / bench.BRANCHES[kernel]).read_bytes())
    figures = list(bench.compared(bench.emulated(code, kernel, int(live, 16)), rows))
    assert [figure for figure in figures if figure[3] is not None and figure[2] != figure[3]] == []
    return sum(figure[3] is not None for figure in figures)


def test_the_emulator_counts_threads_and_divergence_as_ncu_does(bench: Any) -> None:
    assert replayed(bench, "branches_0", "a5c3f01e") > 13_000
    assert replayed(bench, "more_branches_0", "a5c3f01e") > 600


@pytest.mark.long
@pytest.mark.parametrize("live", ["ffffffff", "0000ffff", "00010000"])
def test_so_it_does_for_other_masks(bench: Any, live: str) -> None:
    assert replayed(bench, "branches_0", live) > 13_000
