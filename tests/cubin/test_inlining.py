"""Call sites of inlined code, against what ncu says of the same instructions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ncu_report
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ncu_swizzle.cubin import lines
from ncu_swizzle.reports import container
from ncu_swizzle.reports.model import Profile
from tests.support.places import RECORDINGS

HELPER, BODY = "kernels/common/ptx.cuh", "kernels/attention/attention.cuh"


def test_ncu_s_location_is_always_in_the_stack(report_file: Path) -> None:
    result = container.inspect(report_file).results[0]
    table = lines.line_table(result.cubin, result.function)
    action = ncu_report.load_report(str(report_file)).range_by_idx(0).action_by_idx(0)
    addresses = action["inst_executed"].correlation_ids()
    pcs = sorted(addresses.as_uint64(k) for k in range(action["inst_executed"].num_instances()))
    located = 0
    for pc in pcs:
        source = action.source_info(pc)
        if source:
            assert (source.file_name(), source.line()) in table.stack(pc - pcs[0])
            located += 1
    assert located > 1000


def test_an_ldmatrix_leads_back_to_its_kernel(recorded: Callable[[str], Profile]) -> None:
    profile = recorded("kernel2")
    source = profile.sources[BODY].splitlines()
    stacks = [i.stack for i in profile.instructions if i.opcode == "LDSM.16.MT88.4"]
    assert len(stacks) == 32
    for stack in stacks:
        assert stack[-1][0] == "kernels/attention/2_swizzled.cu"
        (line,) = (line for file, line in stack if file == BODY and "ldmatrix_x4_trans" in source[line - 1])
        assert line


@pytest.mark.parametrize("cubin", [b"", b"\x7fELF", b"no ELF at all"])
def test_no_cubin_no_stack(cubin: bytes) -> None:
    assert lines.line_table(cubin, "kernel2").stack(0) == ()


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(place=st.floats(0, 1), size=st.integers(1, 64), data=st.data())
def test_a_damaged_cubin_never_hangs_or_crashes(place: float, size: int, data: st.DataObject) -> None:
    cubin = bytearray(_cubin())
    start = int(place * (len(cubin) - size))
    cubin[start : start + size] = data.draw(st.binary(min_size=size, max_size=size))
    table = lines.line_table(bytes(cubin), "kernel2")
    assert isinstance(table.stack(0x1110), tuple)


def _cubin() -> bytes:
    folder = RECORDINGS / "attention"
    return container.inspect(folder / "kernel2.ncu-rep").results[0].cubin[:16_000]
