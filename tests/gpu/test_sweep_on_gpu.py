"""A sweep on a real GPU: three variants at two sizes, one of them wrong on purpose, gone on with when it is mended."""

import shutil
from pathlib import Path

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import WrongOutput
from ncu_swizzle.engines.settings import Request
from ncu_swizzle.kernels import catalog
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.options import Destination
from ncu_swizzle.sweep import plan, running, table

SIZES = (256, 512)
VARIANTS = ("plain", "padded", "xor")


def test_a_sweep_measures_and_goes_on_where_it_failed(tmp_path: Path) -> None:
    kernels, place = tmp_path / "kernels", tmp_path / "sweep"
    shutil.copytree(paths.kernels(), kernels)
    source = kernels / "transpose" / "3_xor.cu"
    right = source.read_text(encoding="utf-8")
    # The first 32 elements end as 0.5: the thread that writes one of them rightly writes this after it.
    wrong = right.replace("(in, out, n);", "(in, out, n);\n    out[threadIdx.x] = 0.5f;")
    assert wrong != right
    source.write_text(wrong, encoding="utf-8")

    known = catalog.load(kernels)
    planned = plan.make_plan(*known.family_or_kernels(["transpose"]), VARIANTS, {"n": SIZES})
    first = running.run(planned, Request(engine="ncu"), Destination(place))
    states = {(one.point.kernel, one.point.sizes["n"]): one.state for one in first.outcomes}
    assert states == {
        **{(f"transpose-{name}", n): "done" for name in ("plain", "padded") for n in SIZES},
        **{("transpose-xor", n): "failed" for n in SIZES},
    }
    assert all(isinstance(one.error, WrongOutput) for one in first.failed)
    rows = {(row.kernel, row.outcome.point.sizes["n"]): row for row in table.rows_table(first)}
    for n in SIZES:
        plain, padded = rows["transpose-plain", n], rows["transpose-padded", n]
        assert plain.count("degree") == 16.5, "stores are conflict-free, loads are 32-way"
        assert plain.count("excessive") == 31 * n * n // 32
        assert (padded.count("degree"), padded.count("excessive")) == (1, 0)
        assert plain.ms
        assert padded.ms
        assert padded.speedup == plain.ms / padded.ms
        saved = run_folder.load_profile(place / "points" / "transpose-plain" / f"n{n}" / "profile.json")
        assert saved.problem == {"n": n}
    assert (place / "report.html").is_file()

    source.write_text(right, encoding="utf-8")
    known = catalog.load(kernels)
    planned = plan.make_plan(*known.family_or_kernels(["transpose"]), VARIANTS, {"n": SIZES})
    again = running.run(planned, Request(engine="ncu"), Destination(place), resume=True)
    assert not again.failed
    assert not any(one.kept for one in again.outcomes), "the family's sources are others now"
    last = running.run(again.plan, Request(engine="ncu"), Destination(place), resume=True)
    assert all(one.kept for one in last.outcomes)
    assert [one.values for one in last.outcomes] == [one.values for one in again.outcomes]
