"""Kernels in Python: TTGIR's layouts, lines in PTX, launches of CuTe DSL's, and examples/python as readers run it."""

import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ncu_swizzle.frontends import python_kernels, triton_jit
from ncu_swizzle.frontends.contract import Built, built
from ncu_swizzle.kernels import naming
from ncu_swizzle.kernels.family import Target
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.reports import pack
from ncu_swizzle.reports.model import Profile
from tests.support.places import DATA
from tests.support.python_kernels import EXAMPLES, NEEDS_CUTE_DSL, NEEDS_TRITON, recorded

TEXTS = DATA / "python" / "ttgir"
TF32, SUMS = "matmul-tf32-triton3.6", "column-sums-triton3.6"


def text(name: str) -> str:
    return (TEXTS / f"{name}.ttgir").read_text(encoding="utf-8")


@pytest.mark.parametrize("version", ["3.6", "3.9"])
def test_operations_on_shared_memory_are_read_with_their_lines_and_layouts(version: str) -> None:
    view = python_kernels.read(text(f"matmul-tf32-triton{version}"))
    assert view.warps == 4
    copies = [each for each in view.operations if each.reaches("LDGSTS")]
    assert {(each.operand, each.shape, each.element, each.contiguous) for each in copies} == {
        ("a_tile", (128, 32), "f32", 4),
        ("b_tile", (32, 128), "f32", 4),
    }
    assert {each.places for each in copies} == {(("matmul.py", 25),)}
    turned = next(each for each in copies if each.operand == "b_tile")
    assert turned.layouts[1] == "#ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 32}>"
    (dot,) = (each for each in view.operations if each.reaches("HGMMA"))
    assert dot.name == "ttng.warp_group_dot"
    (conversion,) = (each for each in view.operations if each.reaches("LDS"))
    assert (conversion.name, conversion.places) == ("ttg.convert_layout", (("matmul.py", 30),))


def test_an_operation_with_a_region_has_the_callers_of_its_line() -> None:
    (reduction,) = (each for each in python_kernels.read(text(SUMS)).operations if each.name == "tt.reduce")
    assert (reduction.axis, reduction.shape, reduction.operand) == (0, (32, 64), "total")
    assert reduction.places == (("triton/language/standard.py", 293), ("tiles.py", 29))


def test_what_is_not_ttgir_says_nothing() -> None:
    for other in (
        "",
        "module {",
        "%x = ttg.convert_layout",
        "%x = ttg.convert_layout %y : loc(#loc1)\n#loc1 = loc(#loc1)",
    ):
        assert all(not each.places for each in python_kernels.read(other).operations)


def test_a_product_in_tf32_is_told_to_store_b_the_other_way(profiles: dict[str, Profile]) -> None:
    explained = python_kernels.with_layout_notes(profiles[TF32], text(TF32), explicit=False)
    (note,) = explained.layouts
    assert note.text.startswith("matmul.py:25 is ttg.async_copy_global_to_local of b_tile, 32x128xf32, #ttg.blocked<{")
    assert "transposed = true, elementBitWidth = 32}>, LDGSTS of 4 bytes, degree 16.00: wgmma reads 32-bit" in note.text
    assert note.text.endswith(
        "store b_tile with K contiguous (strides 1 along K), or make both operands of tl.dot float16 or bfloat16"
    )
    offsets = {access.pc for access in explained.shared() if (access.wavefronts or 0) > (access.ideal or 0)}
    assert set(note.offsets) == offsets
    assert Profile.from_json(explained.to_json()) == explained
    (finding,) = (each for each in pack.findings(explained) if each.rule == "SwizzleAdvice")
    assert finding.title == "Layout Advice"
    assert finding.message == f"{note.text}."


def test_a_reduction_over_several_warps_is_told_to_try_one(profiles: dict[str, Profile]) -> None:
    notes = python_kernels.with_layout_notes(profiles[SUMS], text(SUMS), explicit=False).layouts
    (note,) = notes
    assert note.text.startswith("tiles.py:29 is tt.reduce of total along axis 0, 32x64xf32, #ttg.blocked<{")
    assert ", STS of 4 bytes, degree 8.00 and LDS of 4 bytes, degree 8.00: axis 0 is spread over 4 warps" in note.text
    assert note.text.endswith("--before num_warps=4 --after num_warps=1 compares with one warp")


def test_without_conflicts_or_without_a_text_nothing_is_said(profiles: dict[str, Profile]) -> None:
    profile = profiles[TF32]
    assert python_kernels.with_layout_notes(profile, "", explicit=False).layouts == ()
    ideal = tuple(replace(each, wavefronts=each.ideal) for each in profile.instructions)
    assert (
        python_kernels.with_layout_notes(replace(profile, instructions=ideal), text(TF32), explicit=False).layouts == ()
    )
    assert python_kernels.with_layout_notes(profile, text(SUMS), explicit=False).layouts == ()


def described(name: str) -> Built:
    """Return a kernel of the examples' project file, compiled."""
    catalog = naming.catalogue(CatalogOptions(str(EXAMPLES / "ncu-swizzle.toml"), trust=True))
    family, kernel = next((family, kernel) for family, kernel in catalog if kernel.name == name)
    return built(Target(family, kernel, family.problem()), "sm_90", 120)


@pytest.mark.long
@NEEDS_CUTE_DSL
def test_a_tensor_map_points_to_a_matrix_that_is_no_parameter_and_a_dynamic_layout_passes_sizes_and_strides() -> None:
    hopper = described("cute-hopper")
    arguments = {argument.name: argument for argument in hopper.target.family.arguments}
    assert arguments["parameter0"].value.startswith("pointer:a+0,int64:")
    assert arguments["parameter1"].value.startswith("pointer:b+0,int64:")
    assert [name for name, argument in arguments.items() if not argument.passed] == ["a", "b"]
    assert arguments["c"].passed
    assert described("cute-hopper").target.family.arguments == hopper.target.family.arguments
    dynamic = described("cute-row-sums-dynamic").target.family
    assert dynamic.arguments[0].value == f"pointer:x+0,int64:{2000 << 32 | 512},int64:2000"
    assert dynamic.launch.grid == ("512", "1", "1")


PROJECT = str(EXAMPLES / "ncu-swizzle.toml")


@pytest.mark.long
@NEEDS_TRITON
def test_the_examples_tests_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "-c", "/dev/null", str(EXAMPLES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout or "skipped" in done.stdout


def test_every_kernel_that_is_described_was_recorded() -> None:
    described = {
        kernel.name for family, kernel in naming.catalogue(CatalogOptions(PROJECT, trust=True)) if not family.shipped
    }
    by_nvrtc = {"cuda-turn", "cuda-turn-padded", "cuda-reduce"}  # CUDA C++, which has no front end
    assert described | by_nvrtc == recorded()[0]["kernels"].keys()


def test_a_project_file_alone_executes_nothing() -> None:
    own = [family for family in naming.catalogue(CatalogOptions(PROJECT)).families if not family.shipped]
    assert own
    assert all(family.untrusted for family in own)


PTX = """.version 8.7
	.loc	1 8 4                           // k.py:8:4
	add.s32 %r1, %r2, %r3;
	.loc	2 260 15                        // standard.py:260:15 @[ standard.py:290:36 @[ k.py:9:24 ] ]
	add.s32 %r4, %r5, %r6;
	.file	1 "/kernels/k.py"
	.file	2 "/site-packages/triton/language/standard.py"
"""


class Backend:
    """Stands for Triton's, which would assemble the PTX."""

    def __init__(self, cubin: bytes) -> None:
        self.cubin = cubin

    def parse_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options."""
        return options

    def make_cubin(self, text: str, metadata: Any, options: Any, capability: int) -> bytes:  # noqa: ARG002
        """Return what was given."""
        return self.cubin


def kernel(ptx: str) -> Any:
    metadata = SimpleNamespace(_asdict=lambda: {"name": "k"})
    return SimpleNamespace(asm={"cubin": b"the original", "ptx": ptx}, metadata=metadata)


def test_each_caller_comes_before_what_it_calls() -> None:
    text = triton_jit._named(PTX)
    own = ", function_name $L__ncu_swizzle_inlined, inlined_at"
    assert [line.strip() for line in text.splitlines() if ".loc" in line] == [
        ".loc\t1 8 4                           // k.py:8:4",
        ".loc\t1 9 24",
        f".loc\t2 290 36{own} 1 9 24",
        f".loc\t2 260 15{own} 2 290 36",
    ]
    assert text.count("$L__ncu_swizzle_inlined:") == 1


def test_ptx_without_inlined_code_stays_as_it_is() -> None:
    assert triton_jit._named(PTX.partition("\t.loc\t2")[0]) is None


def test_inline_assembly_belongs_to_one_line() -> None:
    """A masked load as LLVM writes it, which counts the lines of its text; another load has a line of its own."""
    load = """\t.loc\t1 13 36
\t// begin inline asm
\t.loc\t1 13 36
\tmov.u32 %r1, 0x0;
\t.loc\t1 14 36
\tld.global.b32 { %r1 }, [ %rd1 + 0 ];

\t// end inline asm
"""
    kept = load.replace("\t.loc\t1 14 36\n", "")
    assert triton_jit._named(load + load.replace("1 13", "1 20")) == kept + kept.replace("1 13", "1 20")


CALL = """.b8 2                                   // DW_AT_call_file
.b8 34                                  // DW_AT_call_line
.b8 1
.b8 36                                  // DW_AT_call_column
"""


def test_of_two_files_of_one_name_the_listed_calls_tell_which_is_meant() -> None:
    text = PTX.replace("/kernels/k.py", "/kernels/standard.py").replace("k.py:9:24", "standard.py:9:24")
    assert triton_jit._named(text) is None
    both = CALL + CALL.replace("34 ", "9 ").replace(".b8 1\n", "").replace(" 36 ", " 24 ").replace(
        ".b8 2 ", ".b8 1 ", 1
    )
    assert max(python_kernels.stacks(text + both).values(), key=len) == (
        ("/site-packages/triton/language/standard.py", 260),
        ("/site-packages/triton/language/standard.py", 290),
        ("/kernels/standard.py", 9),
    )


def test_files_may_have_their_folder_apart_and_spaces_in_their_names() -> None:
    text = (
        PTX.replace('"/kernels/k.py"', '"/my kernels" "a k.py"')
        .replace("// k.py", "// a k.py")
        .replace("[ k.py", "[ a k.py")
    )
    assert {stack[-1] for stack in python_kernels.stacks(text).values()} == {
        ("/my kernels/a k.py", 8),
        ("/my kernels/a k.py", 9),
    }


def test_another_machine_code_is_not_used() -> None:
    assert triton_jit.with_callers(kernel(PTX), Backend(b"no cubin"), 90) == b"the original"
    assert triton_jit.with_callers(kernel(""), Backend(b"no cubin"), 90) == b"the original"
