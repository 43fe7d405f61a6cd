"""What a compiled kernel says of its launch, and the launch that is guessed from it."""

import shlex
import tomllib
from functools import cache
from pathlib import Path

import pytest

from ncu_swizzle.cubin import names
from ncu_swizzle.cubin.elf import Cubin
from ncu_swizzle.kernels import build, check, fills
from ncu_swizzle.kernels.arguments import parse_arguments
from ncu_swizzle.kernels.family import Parameter, Target
from ncu_swizzle.kernels.guess import KernelSignature, ProjectEntry, SignatureParameter, guess, signature_of
from ncu_swizzle.kernels.options import LaunchOptions
from ncu_swizzle.kernels.project import KernelSpec
from ncu_swizzle.kernels.toolchain import Toolchain
from tests.support.marks import NEEDS_ALL
from tests.support.places import DATA

SOURCE = (DATA / "kernels" / "plane_and_ranked.cu").read_text(encoding="utf-8")
KINDS = {"with": ["-lineinfo"], "without": []}  # line tables, and so PTX


@cache
def cubin(kind: str) -> Cubin:
    return Cubin(Toolchain().compile(SOURCE, KINDS[kind], "sm_90", []), f"{kind}.cubin")


def signature(kind: str, name: str, source: str = SOURCE) -> KernelSignature:
    compiled = cubin(kind)
    symbol = names.find(compiled, name)
    return signature_of(compiled, symbol, source, lambda: Toolchain().disassemble(compiled.data, compiled.name))


@NEEDS_ALL
def test_a_kernel_says_what_it_takes() -> None:
    for kind in KINDS:
        plane = signature(kind, "plane")
        assert [(p.name, p.size) for p in plane.parameters] == [
            ("in", 8), ("out", 8), ("c", 16), ("stride", 8), ("scale", 8), ("corner", 12)]  # fmt: skip
        assert (plane.block_axes, plane.grid_axes, plane.dynamic_shared, plane.max_threads) == (2, 2, True, 512)
        ranked = signature(kind, "ranked", SOURCE[SOURCE.index("__global__ void ranked") :])
        assert (ranked.block_axes, ranked.grid_axes, ranked.dynamic_shared) == (1, 1, False)
        assert signature(kind, "ranked", "").block_axes == 3, "groups ask for every axis"


@NEEDS_ALL
def test_without_its_source_the_ptx_tells_pointers_from_numbers() -> None:
    kinds = [(p.pointee, p.kind) for p in signature("with", "plane", "").parameters]
    assert kinds == [("", "pointer"), ("", "pointer"), (None, "struct"), ("", ""), (None, "f"), (None, "struct")]


@NEEDS_ALL
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["plane", "ranked"])
def test_a_guessed_launch_is_one_that_is_accepted(kind: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "source.cu").write_text(SOURCE)
    for source in (SOURCE, ""):
        kernel = signature(kind, name, source)
        guessed = guess(kernel)
        arguments = parse_arguments(guessed.launch.args, Path(), guessed.problem)
        sizes = [
            8 if argument.shape else len(fills.scalar(argument, guessed.problem).tobytes()) for argument in arguments
        ]
        check.refuse_mismatch(cubin(kind), kernel.symbol, arguments, sizes)
        spec = KernelSpec(name=name, source=tmp_path / "source.cu")
        text = ProjectEntry(name=name, source="source.cu", spec=spec, guess=guessed).text()
        entry = tomllib.loads(text)["kernel"][name]
        launch = LaunchOptions(**{key: entry[key] for key in ("entry", "grid", "block")}, args=guessed.launch.args)
        problem = tuple(Parameter(*item) for item in guessed.problem.items())
        family = build.family_of(KernelSpec(name=name, source=spec.source, launch=launch, problem=problem))
        resolved = Target(family, family.kernels[0], guessed.problem).launch
        x, y, z = resolved.block
        assert x * y * z <= kernel.max_threads
        assert min(resolved.grid) >= 1


def test_one_axis_of_blocks_covers_the_rows_and_columns_that_two_sizes_tell_of() -> None:
    parameters = [(8, "keys", "unsigned*"), (4, "length", "unsigned"), (4, "ascending", "unsigned")]
    signature = KernelSignature(
        symbol="sorted", function="sorted", parameters=tuple(SignatureParameter(*each) for each in parameters)
    )
    guessed = guess(signature)
    assert (guessed.problem, guessed.launch.grid) == ({"n": 1024}, "n*n//2048")


def test_hostile_names_stay_in_their_strings() -> None:
    hostile = 'x"]\n[check]\nmax-degree = 9\n#'
    parameters = (SignatureParameter(8, "p", f"{hostile}*"), SignatureParameter(24))
    guessed = guess(KernelSignature(symbol="k", function=f"k<{hostile}>", parameters=parameters))
    content = tomllib.loads(
        ProjectEntry(name=hostile, source=hostile, spec=KernelSpec(name="k", source=Path("k.cu")), guess=guessed).text()
    )
    assert content.keys() == {"kernel"}
    assert content["kernel"][hostile]["source"] == hostile
    assert "\n" not in guessed.options(["--arg"])
    assert shlex.split(guessed.options(["--grid", "--block", "--arg"]))[-1] == "a2=bytes:24"
