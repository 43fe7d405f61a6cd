"""Call sites of inlined code, against what ncu says of the same instructions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ncu_report

from ncu_swizzle.cubin import lines
from ncu_swizzle.reports import container
from ncu_swizzle.reports.model import Profile

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
