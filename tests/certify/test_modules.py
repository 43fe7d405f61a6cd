"""What differs between two PTX modules besides the code of kernels; nothing is compiled."""

import pytest

from ncu_swizzle.certify.modules import kernels_apart, outside_of_kernels, refusal, renamed
from ncu_swizzle.certify.ptx import parse

PTX = """
.version 9.0
.target sm_90a
.address_size 64

.extern .func vprintf (.param .b32 a)
;
.global .texref image;
.func declared(.param .b32 p);
.visible .func declared(.param .b32 p)
{
	membar.gl;
}
.global .align 4 .b8 table[8] = {1, 2};
.visible .func (.param .b32 r) shared_by_units(
	.param .b64 p
)
{
	ret;
}
.func helper()
{
	{ // callseq 0, 0
	} // callseq 0
	ld.global.u32 %r1, [table];
	ret;
}
.visible .entry one(
	.param .u64 one_param_0,
	.param .align 8 .b8 one_param_1[16]
)
.maxntid 256, 1, 1
{
	.loc 1 2 3
	call helper;
	ret;

}
.entry two()
.reqntid 32, 8
{
	ret;
}
	.file	1 "/a.cu"
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90
	}
"""
CASES = {
    ".loc 1 2 3": (".loc 1 9 9", "", ""),
    "= {1, 2}": ("= {1, 3}", "the variable table differs", ""),
    "table[8] = {1, 2};": ("table[8] = {1, 2};\n.global .align 4 .u32 fresh;", "", ""),
    "%r1, [table]": ("%r2, [table]", "", ""),
    "p\n)\n{\n\tret;": ("p\n)\n{\n\ttrap;", "the function shared_by_units differs", ""),
    "256, 1, 1": ("9", "", "the kernel's launch bounds differ: .maxntid 256, 1, 1 before, .maxntid 9 after"),
    "one_param_1[16]": ("one_param_1[24]", "", "the kernel's parameters differ"),
    ".texref image": (".texref other", "the new version lacks the statement image", ""),
    "membar.gl": ("membar.sys", "the function declared differs", ""),
    "call helper;": ("bar.sync 0;", "", ""),
}  # fmt: skip


@pytest.mark.parametrize("old", CASES)
def test_what_may_differ_and_what_may_not(old: str) -> None:
    new, outside, refused = CASES[old]
    assert PTX.count(old) == 1
    before, after = parse(PTX), parse(PTX.replace(old, new))
    assert outside_of_kernels(before, after, before.kernels) == outside
    assert refusal(before, after, "one") == refused
    others = (".loc 1 2 3", "table[8] = {1, 2};", "p\n)\n{\n\tret;", ".texref image", "membar.gl")
    assert (before.code("one") == after.code("one")) == (old in others)
    assert before.code("two") == after.code("two")


def test_kernels_are_found_with_all_that_they_reach() -> None:
    module = parse(PTX)
    assert module.kernels == ["one", "two"]
    assert set(module.code("one")) == {"one", "helper", "table"}
    other = parse(renamed(PTX, "one", "three"))
    assert other.kernels == ["three", "two"]
    assert "three_param_0" in other.ptx
    assert kernels_apart(module, other) == "only the old version has the kernel one"
    assert (
        kernels_apart(parse(PTX.replace(".entry two", ".func two")), module)
        == "only the new version has the kernel two"
    )


@pytest.mark.parametrize(
    "holder", ["\tmov.u64 %rd1, helper;\n\tret;\n}\n.entry", "\tret;\n}\n.global .u64 f = helper;\n.entry"]
)
def test_a_function_whose_address_is_taken_keeps_its_code(holder: str) -> None:
    """Whoever has the address may call it: a kernel that does not change."""
    text = PTX.replace("\tret;\n\n}\n.entry", holder)
    before, after = parse(text), parse(text.replace("%r1, [table]", "%r2, [table]"))
    assert outside_of_kernels(before, after, ["one"]) == "the address of the function helper is taken, and it differs"
