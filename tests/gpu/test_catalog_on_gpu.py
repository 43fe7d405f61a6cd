"""The catalogue on a real GPU: right, conflict-free, profiled; suggestions, a sweep, fixes and functions in Python."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import ncu_swizzle
from bench.figures import fixes_on_gpu
from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import EnvironmentLacking, WrongOutput
from ncu_swizzle.engines import measured
from ncu_swizzle.engines.settings import Context, Request
from ncu_swizzle.explain import predict
from ncu_swizzle.explain.predict import Prediction
from ncu_swizzle.fix import on_gpu
from ncu_swizzle.fix.claims import About, ClaimState
from ncu_swizzle.kernels import catalog, device, toolchain
from ncu_swizzle.kernels.family import Family, Kernel, Target
from ncu_swizzle.kernels.tiles import tiles_of
from ncu_swizzle.kernels.toolchain import Toolchain
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import NCU, Destination
from ncu_swizzle.smem import code
from ncu_swizzle.smem.judge import Constraints
from ncu_swizzle.smem.suggestions import suggest
from ncu_swizzle.sweep import plan, running, table
from tests.support import fixes, worked_example
from tests.support.emulation import DATA
from tests.support.fixes import FIXES, specs, with_text
from tests.support.process import succeeded
from tests.support.python_kernels import EXAMPLES

# For the sanitizer, which is slow: a problem of each family that has all of its loops.
SMALLEST = {
    "attention": "batch=1,heads=2,seq=192",
    "cute": "n=128",
    "gemm": "n=512",
    "tma": "n=128",
    "transpose": "n=100",
    "vectors": "tiles=8",
    "wgmma": "n=512",
}
ATTENTION = ((1, 1, 64), (1, 1, 128), (2, 3, 256), (3, 5, 192), (1, 40, 64), (2, 1, 4096), (1, 2, 8192))
SMALL = ("--problem", "batch=1", "--problem", "heads=2", "--problem", "seq=192")


def launch(folder: Path, *arguments: str) -> tuple[subprocess.CompletedProcess[str], Any]:
    """Run the launching program; return how it ended and its facts."""
    facts = folder / "facts.json"
    program = [sys.executable, "-m", "ncu_swizzle.kernels", "--facts", str(facts), *arguments]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    return done, json.loads(facts.read_text(encoding="utf-8"))


def changed(folder: Path, *changes: tuple[str, str, str]) -> Path:
    """Return a copy of the catalogue in whose files texts are replaced: a file, what, and by what."""
    kernels = folder / "kernels"
    shutil.copytree(paths.kernels(), kernels)
    for name, old, new in changes:
        text = (kernels / name).read_text(encoding="utf-8")
        assert old in text, name
        (kernels / name).write_text(text.replace(old, new), encoding="utf-8")
    return kernels


def error(folder: Path, kernels: Path, *words: str) -> Any:
    """Launch a kernel of another catalogue, whose output is wrong; return what is said of it."""
    done, facts = launch(folder, "--catalog", str(kernels), *words)
    assert done.returncode == 4, done.stderr
    assert facts["error"]["type"] == "WrongOutput"
    return facts["error"]["message"]


def own_kernels(family: str) -> list[str]:
    """Return a family's kernels; skip the test where headers that they include are not installed."""
    try:
        [toolchain.locate(name) for found, _ in catalog.shipped() if found.name == family for name in found.headers]
    except EnvironmentLacking as lacking:
        pytest.skip(f"{lacking}: {lacking.hint}")
    return [kernel.name for found, kernel in catalog.shipped() if found.name == family and not kernel.library]


@pytest.mark.parametrize(
    ("family", "problem"),
    [
        *(("attention", f"batch={b},heads={h},seq={s}") for b, h, s in ATTENTION),
        *(("cute", f"n={n}") for n in (128, 384, 1024)),
        *(("gemm", f"n={n}") for n in (256, 768, 2560)),
        *(("tma", f"n={n}") for n in (64, 192, 1024)),
        *(("transpose", f"n={n}") for n in (1, 31, 32, 33, 100, 257, 1024)),
        *(("vectors", f"tiles={tiles}") for tiles in (4, 64, 1024)),
        *(("wgmma", f"n={n}") for n in (256, 768, 2816)),
    ],
)
def test_outputs_match_the_reference(family: str, problem: str, tmp_path: Path) -> None:
    kernels = own_kernels(family)
    sizes = [f"--problem={size}" for size in problem.split(",")]
    done, facts = launch(tmp_path, *sizes, *kernels)
    assert done.returncode == 0, done.stderr
    assert facts["errors"].keys() == set(kernels)
    first = facts["errors"][kernels[0]]
    for name in kernels:
        assert facts["errors"][name] == pytest.approx(first, rel=0.5), "the layout must not change the arithmetic"


def test_a_tile_read_through_another_layout_is_an_error(tmp_path: Path) -> None:
    policy = "layout::XorSwizzle<attention::kRowBytes>"
    reads = f"{policy}, attention::Loads::kAtStart, {policy.replace('XorSwizzle', 'RowMajor')}"
    said = error(tmp_path, changed(tmp_path, ("attention/2_swizzled.cu", policy, reads)), *SMALL, "kernel2")
    off_by = re.search(r"differs from the reference: relative error ([\d.e+-]+) ", said)
    assert off_by
    assert float(off_by[1]) > 0.1


@pytest.mark.parametrize("swizzle", [0, 32, 64])
def test_a_reader_that_does_not_swizzle_as_the_hardware_did_is_an_error(swizzle: int, tmp_path: Path) -> None:
    box = swizzle // 2 or 64
    kernels = changed(
        tmp_path,
        ("tma/family.toml", "box = [64, 64]\nswizzle = 128", f"box = [64, {box}]\nswizzle = {swizzle}"),
        # It loads boxes as wide as the map's, and reads 128-byte rows.
        ("tma/4_swizzle_128b.cu", "kTile>, 128>", f"kTile>, {2 * box}>"),
    )
    error(tmp_path, kernels, "--problem", "n=256", "tma-128")


def test_an_output_that_is_not_written_is_an_error(tmp_path: Path) -> None:
    step = "r += {} / kChunksPerRow"
    kernels = changed(tmp_path, ("attention/attention.cuh", step.format(32), step.format(64)))
    assert "are NaN or infinite" in error(tmp_path, kernels, *SMALL, "kernel2")


def test_the_smallest_problems_leave_no_family_out() -> None:
    assert SMALLEST.keys() == {family.name for family, _ in catalog.shipped().run()}


@pytest.mark.parametrize("family", SMALLEST)
@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_the_sanitizer_finds_nothing(tool: str, family: str, tmp_path: Path) -> None:
    if not shutil.which("compute-sanitizer"):
        pytest.skip("compute-sanitizer is not on PATH")
    sizes = [f"--problem={size}" for size in SMALLEST[family].split(",")]
    program = [sys.executable, "-m", "ncu_swizzle.kernels", "--facts", str(tmp_path / "f.json"), *sizes]
    sanitizer = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1"]
    done = subprocess.run([*sanitizer, *program, *own_kernels(family)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_profile_measures_before_and_after(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    found = json.loads(succeeded("profile", "kernel2", "--reference", "none", "-o", str(folder), "--json", "-"))
    assert found["engine"] == "ncu"
    assert found["labels"] == ["kernel1", "kernel2"]
    degrees = {(row["label"], row["access"]): row["degree"] for row in found["accesses"]}
    assert degrees == {
        **{("kernel1", access): degree for access, degree in {"LDGSTS": 1, "LDSM": 8, "STS": 8, "LDS": 1}.items()},
        **{("kernel2", access): 1 for access in ("LDGSTS", "LDSM", "STS", "LDS")},
    }
    assert found["speedup"] > 1
    for profile in found["profiles"]:
        assert profile["metrics"]["profiler__replayer_passes"]["value"] <= 6
        assert profile["machine"]["clock_control"] == "none"
    assert {file.name for file in folder.iterdir()} >= {"report.html", "run.json", "kernel2.json", "kernel2.ncu-rep"}


def test_the_worked_example_has_the_degrees_that_it_states(tmp_path: Path) -> None:
    family, kernel = worked_example.follow(tmp_path)
    target = Target(family, kernel, family.problem({"batch": 1, "heads": 2, "seq": 192}))
    profile = measured.measure(target, Context(request=Request(engine=NCU), folder=tmp_path))
    assert {access: total.degree for access, total in profile.accesses.items()} == dict(kernel.degree)


# A plain kernel, the policy that it names, and a small problem.
PLAIN = [
    ("transpose-plain", "layout::RowMajor<transpose::kRowBytes, sizeof(float)>", {"n": 256}),
    ("vectors-8-stride", "layout::RowMajor<vectors::kRowBytes, 2 * sizeof(float)>", {"tiles": 64}),
    ("vectors-16-stride", "layout::RowMajor<vectors::kRowBytes, 4 * sizeof(float)>", {"tiles": 64}),
    ("kernel1", "layout::RowMajor<attention::kRowBytes>", {"batch": 1, "heads": 2, "seq": 192}),
]


def measure(family: Family, kernel: Kernel, problem: dict[str, int], folder: Path) -> Profile:
    folder.mkdir()
    return measured.measure(Target(family, kernel, problem), Context(request=Request(engine=NCU), folder=folder))


def hold(predictions: Sequence[Prediction], profile: Profile) -> None:
    """Hold what ncu counted against the predictions; only copies may have none."""
    for check in predict.checked_against(predictions, profile):
        known = check.predicted.wavefronts is not None
        assert check.equal if known else check.predicted.access == "LDGSTS", (check.predicted, check.verdict)


def with_policy(name: str, policy: str, source: str, folder: Path) -> tuple[Family, Kernel]:
    """Return a catalogue's kernel `suggested`: a copy of the plain one, with another policy in the old one's place."""
    kernels = changed(folder)
    family, plain = catalog.load(kernels).named(name)
    text = family.source(plain).read_text(encoding="utf-8")
    include, rest = text.split("\n", 1)
    used = rest.replace(policy, "Suggested").replace(plain.entry, "suggested")
    assert used.count("Suggested") == 1
    (family.folder / "suggested.cu").write_text(f"{include}\n\n{source}{used}", encoding="utf-8")
    with (family.folder / "family.toml").open("a", encoding="utf-8") as toml:
        toml.write('\n[[variant]]\nname = "suggested"\ntitle = "As suggested"\nlesson = "The loop is closed."\n')
    return catalog.load(kernels).named("suggested")


@pytest.mark.parametrize(("name", "policy", "sizes"), PLAIN, ids=[case[0] for case in PLAIN])
def test_the_loop(name: str, policy: str, sizes: dict[str, int], tmp_path: Path) -> None:
    family, plain = catalog.shipped().named(name)
    problem = family.problem(sizes)
    before = measure(family, plain, problem, tmp_path / "before")
    hold(predict.target_predictions(Target(family, plain, problem)), before)
    assert before.total.excessive

    (tile,) = tiles_of(Target(family, plain, problem))
    best = suggest(tile.mapping.plain, tile.accesses, Constraints(copies=tile.copies)).best
    assert best.extra_bytes == 0

    applied = with_policy(name, policy, code.policy(best.mapping, tile.unit), tmp_path)
    after = measure(*applied, problem, tmp_path / "after")
    predictions = [predict.prediction_of(access, best.mapping) for access in tile.accesses]
    hold(predictions, after)
    assert after.total.excessive == 0


SIZES = (256, 512)
VARIANTS = ("plain", "padded", "xor")


def test_a_sweep_measures_and_goes_on_where_it_failed(tmp_path: Path) -> None:
    # The first 32 elements end as 0.5: the thread that writes one of them rightly writes this after it.
    call = "(in, out, n);"
    kernels = changed(tmp_path, ("transpose/3_xor.cu", call, f"{call}\n    out[threadIdx.x] = 0.5f;"))
    place = tmp_path / "sweep"
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

    shutil.copy(paths.kernels() / "transpose" / "3_xor.cu", kernels / "transpose")
    known = catalog.load(kernels)
    planned = plan.make_plan(*known.family_or_kernels(["transpose"]), VARIANTS, {"n": SIZES})
    again = running.run(planned, Request(engine="ncu"), Destination(place), resume=True)
    assert not again.failed
    assert not any(one.kept for one in again.outcomes), "the family's sources are others now"
    last = running.run(again.plan, Request(engine="ncu"), Destination(place), resume=True)
    assert all(one.kept for one in last.outcomes)
    assert [one.values for one in last.outcomes] == [one.values for one in again.outcomes]


def test_a_function_with_live_tensors_is_measured(
    ncu_profile: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    sys.modules.pop("tiles", None)
    x = torch.randn(256, 256, device="cuda")
    arguments = [x, torch.empty_like(x), 256, 256]
    transpose = pytest.importorskip("tiles").transpose
    profile = ncu_profile(transpose, grid=(8, 8), args=arguments, BM=32, BN=32, outputs="y")
    assert profile.engine == "ncu"
    assert profile.machine.gpu
    ncu_swizzle.assert_no_excess(profile)


def test_fixed_kernels_are_the_same_and_no_slower(tmp_path: Path) -> None:
    pairs = {name: fixes.apply(name, tmp_path / "after" / name) for name in FIXES}
    claims = fixes_on_gpu.measured(pairs, tmp_path)
    print(fixes_on_gpu.table(claims))
    for name, each in claims.items():
        assert [claim.about for claim in each] == [About.OUTPUTS, About.TIME], name
        assert each[0].held, (name, each)
        assert each[1].state is not ClaimState.FAILED, (name, each)


def test_a_wrong_fix_is_noticed(tmp_path: Path) -> None:
    target, fix = specs()["rows-transpose"], FIXES["rows-transpose"]
    (old, new), *_ = fix.edits
    wrong = with_text(target, fix.text(target).replace(new, old), tmp_path / "after")
    pair = on_gpu.compiled_pair(target, wrong, tmp_path / "pair", Toolchain())
    ((outputs, *_),) = on_gpu.measure([pair], tmp_path, Toolchain())
    assert outputs.about is About.OUTPUTS
    assert outputs.state is ClaimState.FAILED


def test_the_oracle_foretells_what_a_gpu_computes(tmp_path: Path) -> None:
    if all(capability != (9, 0) for _, capability in device.devices()):
        pytest.skip("wgmma needs compute capability 9.0")
    cubin = tmp_path / "shapes.cubin"
    command = ["nvcc", "-gencode=arch=compute_90a,code=sm_90a", "-cubin", str(DATA / "shapes.cu"), "-o", str(cubin)]
    subprocess.run(command, check=True)
    program = [sys.executable, "-m", "bench.oracles.shapes_on_gpu", str(cubin), "1"]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.splitlines()[-1].endswith(" agree, 0 differ"), done.stdout
