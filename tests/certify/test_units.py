"""Which units a change reaches, and that their two versions are compiled from the texts that are meant."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ncu_swizzle.certify.change import ChangeVerdict
from ncu_swizzle.certify.changes import Side, compare_sides, compare_texts
from ncu_swizzle.certify.units import Checking
from ncu_swizzle.certify.verdict import ProofOutcome
from ncu_swizzle.kernels import catalog, naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import LaunchOptions
from ncu_swizzle.kernels.project import KernelSpec
from tests.support.marks import NEEDS_ALL

pytestmark = [pytest.mark.long, NEEDS_ALL]


def compared(folder: Path, changed: Mapping[str, tuple[str, str]]) -> ChangeVerdict:
    """Return the verdict on src/own.cu with texts of files replaced in a copy; the files stay as they are."""
    launch = LaunchOptions(entry="own", grid="1", block="32,32", args=("p=float32[32]:out",))
    family = naming.family_of_spec(KernelSpec(name="own", source=folder / "src/own.cu", launch=launch))
    texts = {}
    for name, (old, new) in changed.items():
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        texts[folder / name] = text.replace(old, new).encode()
    change = compare_texts([Target(family, family.kernels[0], {})], texts, Checking())
    assert all((folder / name).read_text(encoding="utf-8").count(old) for name, (old, _) in changed.items())
    return change


def by_unit(change: ChangeVerdict) -> dict[str, str]:
    """Return what became of each unit: its outcome, or what is in the way besides its kernels."""
    return {unit.source.name: unit.obstacle.partition("\n")[0] or unit.outcome.value for unit in change.units}


def test_a_patch_is_compared_in_a_copy(units: Path) -> None:
    """Of the header, units in another folder include it by another path, and one needs what git ignores."""
    swizzled = {"include/tile.cuh": ("[column]", "[column ^ row]")}
    change = compared(units, swizzled)
    assert by_unit(change) == {"own.cu": "proved"} | {"other.cu": "not proved"}
    (shape,) = {kernel.obstacle.reason for kernel in change.kernels if kernel.obstacle}
    assert "every shape" in shape
    assert change.outcome is ProofOutcome.UNPROVED
    wrong = compared(units, {"include/tile.cuh": ("[column]", "[column & 15]")})
    assert by_unit(wrong)["own.cu"] == "refuted"
    host = compared(units, {"include/tile.cuh": ("return 7", "return 8")})
    assert set(by_unit(host).values()) == {"the host's code differs, first in main"}


def test_the_names_of_local_labels_are_no_difference_and_strings_that_look_alike_are(units: Path) -> None:
    """A function for the device alone moves the numbers of all that the host's compiler makes."""
    own = units / "src/own.cu"
    before = own.read_text() + 'const char *label() { return ".L5"; }\n'
    own.write_text(before)
    helped = "static __device__ int same(int i) { return i; }\n" + before.replace("own(", "own /**/ (")
    assert by_unit(compared(units, {"src/own.cu": (before, helped)})) == {"own.cu": "proved"}
    other = compared(units, {"src/own.cu": ('".L5"', '".L6"')})
    assert by_unit(other)["own.cu"].startswith("the host's code differs")


def test_only_units_that_read_a_changed_file_count(units: Path) -> None:
    change = compared(
        units, {"src/own.cu": ("tile.at(threadIdx.y, threadIdx.x) =", "tile.at(threadIdx.y, threadIdx.x) = ")}
    )
    assert by_unit(change) == {"own.cu": "proved"}
    # What is included need not compile by itself, if nothing says that it does; what does not, is named.
    (units / "src/part.cu").write_text("tile.at(0, 0) = 1;\n")
    (units / "src/whole.cu").write_text('__global__ void whole(float *p) {\n#include "tiles.inl"\n}\n')
    (units / "src/tiles.inl").write_text("p[0] = 1;\n")
    assert by_unit(compared(units, {"src/tiles.inl": ("= 1", "= 1 + 0")})) == {"whole.cu": "proved"}
    (units / "src/alone.cu").write_text('nonsense\n#include "tiles.inl"\n')
    change = compared(units, {"src/tiles.inl": ("= 1", "= 1 + 0")})
    assert by_unit(change) == {"whole.cu": "proved", "alone.cu": "nvcc could not compile alone.cu:"}
    assert change.outcome is ProofOutcome.UNPROVED


def test_a_path_around_the_copy_is_noticed(units: Path) -> None:
    """A header that an absolute path names keeps its text in the copy: nothing may be proved by that."""
    absolute = f'#include "{units}/include/tile.cuh"'
    own = units / "src/own.cu"
    own.write_text(own.read_text().replace('#include "../include/tile.cuh"', absolute))
    change = compared(units, {"include/tile.cuh": ("[column]", "[column & 15]")})
    assert "is also read by the path" in by_unit(change)["own.cu"]


def test_options_of_a_build_are_not_trusted(units: Path) -> None:
    commands = units / "build/compile_commands.json"
    commands.write_text(commands.read_text().replace("-DNDEBUG", "-ccbin ./mine"))
    swizzled = {"include/tile.cuh": ("[column]", "[column ^ row]")}
    change = compared(units, swizzled)
    assert "needs your trust" in by_unit(change)["other.cu"]
    assert change.outcome is ProofOutcome.UNPROVED
    commands.write_text("nonsense")
    assert "is damaged" in by_unit(compared(units, swizzled))["compile_commands.json"]


def test_tensor_maps_are_those_that_each_version_is_described_with() -> None:
    plain, swizzled = (catalog.shipped().target(name, {}) for name in ("tma-none", "tma-128"))
    forgotten = replace(swizzled, kernel=replace(swizzled.kernel, swizzle=0))
    outcomes = [
        compare_sides(Side.of(before), Side.of(after), Checking()).outcome
        for before, after in ((plain, swizzled), (swizzled, swizzled), (plain, forgotten), (swizzled, forgotten))
    ]
    assert outcomes == [ProofOutcome.PROVED] * 2 + [ProofOutcome.UNPROVED] * 2  # the last one's code is the same
