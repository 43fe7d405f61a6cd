"""The loop on a real GPU: plain kernel, suggestion, applied; what was predicted is what ncu counts."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.engines import measured
from ncu_swizzle.engines.settings import Context, Request
from ncu_swizzle.explain import predict
from ncu_swizzle.explain.predict import Prediction
from ncu_swizzle.kernels import catalog
from ncu_swizzle.kernels.family import Family, Kernel, Target
from ncu_swizzle.kernels.tiles import tiles_of
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import NCU, Engine
from ncu_swizzle.smem import code
from ncu_swizzle.smem.judge import Constraints
from ncu_swizzle.smem.suggestions import suggest

# A plain kernel, the policy that it names, and a small problem.
PLAIN = [
    ("transpose-plain", "layout::RowMajor<transpose::kRowBytes, sizeof(float)>", {"n": 256}),
    ("vectors-8-stride", "layout::RowMajor<vectors::kRowBytes, 2 * sizeof(float)>", {"tiles": 64}),
    ("vectors-16-stride", "layout::RowMajor<vectors::kRowBytes, 4 * sizeof(float)>", {"tiles": 64}),
    ("kernel1", "layout::RowMajor<attention::kRowBytes>", {"batch": 1, "heads": 2, "seq": 192}),
]


def measure(family: Family, kernel: Kernel, problem: dict[str, int], folder: Path) -> Profile:
    folder.mkdir()
    return measured.measure(
        Target(family, kernel, problem), Context(request=Request(engine=NCU), engine=Engine(NCU), folder=folder)
    )


def hold(predictions: Sequence[Prediction], profile: Profile) -> None:
    """Hold what ncu counted against the predictions; only copies may have none."""
    for check in predict.checked_against(predictions, profile):
        known = check.predicted.wavefronts is not None
        assert check.equal if known else check.predicted.access == "LDGSTS", (check.predicted, check.verdict)


def with_policy(name: str, policy: str, source: str, folder: Path) -> tuple[Family, Kernel]:
    """Return a catalogue's kernel `suggested`: a copy of the plain one, with another policy in the old one's place."""
    kernels = folder / "kernels"
    shutil.copytree(paths.kernels(), kernels)
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
