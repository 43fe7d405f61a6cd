"""bench/memory_rows.py: what it is to measure is there, fits its tables, and is found again in the SASS."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.marks import NEEDS_ALL


@pytest.mark.long
def test_enough_rows_are_prepared_and_every_address_is_aligned(bench: Callable[[str], ModuleType]) -> None:
    forms, module = bench("memory_forms"), bench("memory_kernels")
    kernels = module.kernels()
    assert sum(len(kernel.masks) for kernel in kernels for row in kernel.rows if row.form) > 30_000
    assert {row.mode for kernel in kernels for row in kernel.rows} == {"straight", "loop", "branch", "construct"}
    assert max(sum(len(row.patterns) for row in kernel.rows) for kernel in kernels) <= module.TABLE
    for row in (row for kernel in kernels for row in kernel.rows if row.form):
        for pattern in row.patterns:
            assert all(offset % row.form.width == 0 and offset < forms.BUFFER for offset in pattern.offsets), row
            assert len(pattern.words) == 32
            assert max(pattern.words) < 1 << 32


@pytest.mark.long
@NEEDS_ALL
def test_each_line_is_one_measured_instruction(bench: Callable[[str], ModuleType], tmp_path: Path) -> None:
    module = bench("memory_kernels")
    chosen = [form for form in module.forms() if form.name in ("ld.v4.u32", "red.global.v4.f32.add", "st.local.u16")]
    rows = [row for form in chosen for row in module.rows_of(form)[:9]] + module.branches()[::29]
    kernel = module.Kernel(name="few", rows=tuple(rows), masks=(module.ALL,))
    _, _, sites = module.compiled(kernel, tmp_path)
    assert module.checked(kernel, sites) == []
    accesses = [site.sass.split()[site.sass.startswith("@")].split(".")[0] for site in sites if site.row.form]
    assert sorted(accesses) == ["LD"] * 9 + ["REDG"] * 9 + ["STL"] * 9
    # An instruction's source line is its row's: the order of the compiler's code does not matter.
    expected = {"ld.v4.u32": "LD", "red.global.v4.f32.add": "REDG", "st.local.u16": "STL"}
    assert [expected[site.row.name] for site in sites if site.row.form] == accesses
