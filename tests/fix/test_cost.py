"""A measured report says what a kernel's conflicts cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.base.errors import UsageError
from ncu_swizzle.fix import shown
from ncu_swizzle.fix.on_gpu import with_costs
from ncu_swizzle.fix.result import KernelFix
from ncu_swizzle.kernels import catalog
from tests.support.places import ROOT

RECORDED = ROOT / "recordings" / "h100" / "transpose" / "transpose-plain.ncu-rep"


def test_the_cost_of_the_conflicts_is_said_first() -> None:
    target = catalog.shipped().target("transpose-plain")
    fix = KernelFix(kernel="transpose-plain", source=Path("k.cu"), before=b"", after=b"")
    (made,) = with_costs([fix], [target], RECORDED)
    assert "Removing the excess would save an estimated 49% of the duration" in next(iter(shown.sentences(made)))


def test_a_report_of_other_kernels_is_refused() -> None:
    target = catalog.shipped().target("gemm-plain")
    fix = KernelFix(kernel="gemm-plain", source=Path("k.cu"), before=b"", after=b"")
    with pytest.raises(UsageError, match="says nothing of what conflicts cost gemm_plain") as refused:
        with_costs([fix], [target], RECORDED)
    assert refused.value.hint == "it has launches of transpose_plain"
