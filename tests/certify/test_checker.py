"""The checker on PTX written by hand: what is proved, and that no difference between two versions goes unseen."""

import re
from collections.abc import Sequence
from typing import Any

import pytest

from ncu_swizzle.certify.checker import certify
from ncu_swizzle.certify.flow import Maps, TensorMap
from ncu_swizzle.certify.ptx import parse
from ncu_swizzle.certify.terms import atom, const
from ncu_swizzle.certify.verdict import Assumption, KernelVerdict, ProofOutcome

pytest.importorskip("bitwuzla")

# A 32 x 32 tile of words: written by rows, read by columns. {column}: what a row's column becomes, in %r8, from the
# row in %r6 and the column in %r7; {value}: in %f1.
HEADER = """
.version 9.0
.target sm_90a
.address_size 64
{module}
.visible .entry k(.param .u64 k_param_0, .param .u64 k_param_1, .param .u32 k_param_2)
{launch}
{{
	.reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<40>; .reg .f32 %f<9>; .reg .b64 %rd<40>;
	.local .align 16 .b8 __local_depot0[64];
	.reg .b64 %SP; .reg .b64 %SPL;
	.shared .align {align} .b8 tile[{size}];
	mov.u64 %SPL, __local_depot0;
	cvta.local.u64 %SP, %SPL;
	ld.param.u64 %rd1, [k_param_0];
	ld.param.u64 %rd2, [k_param_1];
	ld.param.u32 %r3, [k_param_2];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %tid.y;
	.loc 1 5 0
	ld.f32 %f1, [%rd1];
{body}
	ret;
}}
	.file 1 "k.cu"
"""
PLAIN = "mov.u32 %r8, %r7;"
XOR = "and.b32 %r9, %r6, 31; xor.b32 %r8, %r7, %r9;"
ADD = "add.s32 %r9, %r6, %r7; and.b32 %r8, %r9, 31;"
EXCHANGE = """
	mov.u32 %r6, %r2; mov.u32 %r7, %r1;
	{store}
	.loc 1 7 0
	st.f32 [%rd11], %f1;
	bar.sync 0;
	mov.u32 %r6, %r1; mov.u32 %r7, %r2;
	{load}
	.loc 1 9 0
	ld.f32 %f2, [%rd11];
	st.f32 [%rd2], %f2;
"""
ADDRESS = """{column}
	mul.lo.s32 %r10, %r6, {pitch}; add.s32 %r10, %r10, %r8; shl.b32 %r10, %r10, 2; cvt.s64.s32 %rd10, %r10;
	mov.u64 %rd9, tile; cvta.shared.u64 %rd9, %rd9; add.s64 %rd11, %rd9, %rd10;"""
BLOCK = (32, 32, 1)


def address(column: str = PLAIN, pitch: int = 32) -> str:
    return ADDRESS.format(column=column, pitch=pitch)


def kernel(body: str, module: str = "", size: int = 4096, align: int = 4, launch: str = "") -> str:
    return HEADER.format(body=body, module=module, size=size, align=align, launch=launch)


def exchange(
    store: str = PLAIN, load: str = PLAIN, pitch: int = 32, size: int = 4096, extra: str = "", module: str = ""
) -> str:
    """Return a kernel that writes its tile by rows and reads it by columns."""
    body = EXCHANGE.format(store=address(store, pitch), load=address(load, pitch))
    return kernel(body + extra, module, size=size)


def verdict(before: str, after: str, block: tuple[int, int, int] | None = BLOCK, **other: object) -> KernelVerdict:
    return certify(before, after, block=block, **other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (exchange(), exchange(XOR, XOR)),
        (exchange(), exchange(ADD, ADD)),
        (exchange(XOR, XOR), exchange()),
        (exchange(), exchange(pitch=33, size=33 * 128)),
        (exchange(pitch=33, size=33 * 128), exchange(XOR, XOR)),
    ],
)
def test_one_mapping_of_all_accesses_is_proved(before: str, after: str) -> None:
    found = verdict(before, after)
    assert (found.outcome, found.mapped) == (ProofOutcome.PROVED, ("tile",))
    assert found.assumptions == ()
    assert found.accesses == 2


@pytest.mark.parametrize(
    "after",
    [
        exchange(XOR, PLAIN),
        exchange(PLAIN, XOR),
        exchange(XOR, ADD),
        exchange(pitch=33),
        exchange(pitch=31),
        exchange("and.b32 %r9, %r6, 15; xor.b32 %r8, %r7, %r9;", XOR),
        exchange("or.b32 %r8, %r7, %r6;", "or.b32 %r8, %r7, %r6;"),
        exchange("and.b32 %r8, %r7, 30;", "and.b32 %r8, %r7, 30;"),
    ],
)
def test_a_mapping_that_differs_or_is_not_one_to_one_is_refuted(after: str) -> None:
    found = verdict(exchange(), after)
    assert found.outcome is ProofOutcome.REFUTED
    assert found.counterexample is not None
    assert {access.line[1] for access in found.counterexample.accesses} <= {7, 9}
    for access in found.counterexample.accesses:
        assert all(0 <= index < extent for index, extent in zip(access.thread, BLOCK, strict=True))


def test_a_counterexample_is_what_the_kernels_do() -> None:
    found = verdict(exchange(), exchange(XOR, PLAIN)).counterexample
    assert found is not None
    for access in found.accesses:
        x, y, _ = access.thread
        row, column = (y, x) if access.write else (x, y)
        swizzled = column ^ row if access.write else column
        assert (access.before, access.after) == (4 * (32 * row + column), 4 * (32 * row + swizzled))


def test_the_shape_of_blocks_is_needed_where_threads_would_share_a_column() -> None:
    assert verdict(exchange(), exchange(XOR, XOR), None).outcome is not ProofOutcome.PROVED
    within = "and.b32 %r7, %r7, 31; and.b32 %r6, %r6, 31;"
    assert (
        verdict(exchange(within + PLAIN, within + PLAIN), exchange(within + XOR, within + XOR), None).outcome
        is ProofOutcome.PROVED
    )


def test_a_column_that_a_parameter_decides_is_assumed_to_be_in_bounds() -> None:
    row = "add.s32 %r6, %r6, %r3;"
    found = verdict(exchange(row + PLAIN, row + PLAIN), exchange(row + XOR, row + XOR))
    assert (found.outcome, Assumption.IN_BOUNDS in found.assumptions) == (ProofOutcome.PROVED, True)


LOOKED_UP = """
	shl.b32 %r9, %r7, 2; cvt.u64.u32 %rd30, %r9;
	mov.u64 %rd31, t; add.s64 %rd30, %rd31, %rd30; ld.const.u32 %r8, [%rd30];
"""


@pytest.mark.parametrize(("entries", "outcome"), [(32, ProofOutcome.PROVED), (24, ProofOutcome.REFUTED)])
def test_a_column_from_a_table_is_what_the_table_has_and_anything_outside_of_it(
    entries: int, outcome: ProofOutcome
) -> None:
    table = f".const .align 4 .u32 t[{entries}] = {{{', '.join(str(5 * n % 32) for n in range(entries))}}};"
    found = verdict(exchange(module=table), exchange(LOOKED_UP, LOOKED_UP, module=table))
    assert (found.outcome, Assumption.TABLES in found.assumptions) == (outcome, outcome is ProofOutcome.PROVED)


# Differences that are none of addresses.

LOOP = """
	mov.u32 %r20, 0;
$L_head:
	setp.ge.s32 %p1, %r20, {turns};
	@%p1 bra $L_end;
	add.s32 %r20, %r20, 1;
	bra $L_head;
$L_end:
	cvt.rn.f32.s32 %f4, %r20;
	st.f32 [%rd2+8], %f4;
"""
REASSOCIATED = """
	ld.b16 %rs1, [%rd1+8]; ld.b16 %rs2, [%rd1+10]; ld.b16 %rs3, [%rd1+12];
	add.bf16 %rs4, {0}; add.bf16 %rs5, {1}; st.b16 [%rd2+8], %rs5;
"""
POINTER = """
	mov.f32 %f3, 0f3F800000;
	add.u64 %rd20, %SP, 0; add.u64 %rd21, %SP, 16;
	st.f32 [%SP], %f1; st.f32 [%SP+16], %f1;
	setp.eq.s32 %p1, %r3, 0;
	@%p1 bra $L_second;
	mov.u64 %rd22, %rd20; bra $L_both;
$L_second:
	mov.u64 %rd22, %rd21;
$L_both:
	st.f32 [%rd22], %f3;
	ld.f32 %f4, [%SP{0}];
	st.f32 [%rd2+8], %f4;
"""
LABELS = """
	{{ .reg .pred P; LOOP: setp.eq.s32 P, %r3, 1; @P bra DONE; st.f32 [%rd2+8], %f1; DONE: }}
	{{ .reg .pred P; LOOP: setp.eq.s32 P, %r3, {0}; @P bra DONE; st.f32 [%rd2+8], %f1; DONE: }}
"""
COUNTED = """
	setp.eq.s32 %p1, %r3, 0; barrier.sync 0; bar.red.popc.u32 %r20, 0, %p1; mov.u32 %r21, %r20;
	bar.red.popc.u32 %r20, 0, %p1; st.u32 [%rd2+8], {0};
"""
CLOCK = """
	mov.u32 %r20, %clock; mov.u32 %r21, %clock; sub.s32 %r22, %r21, %r20; setp.gt.s32 %p1, %r22, 100;
	@%p1 bra $L_slow;
	bra $L_end;
$L_slow:
	st.f32 [%rd2+8], {0};
$L_end:
"""


BARRIERS = ".shared .align 8 .b8 bars[16]; mov.u32 %r20, bars;"


@pytest.mark.parametrize(
    ("template", "one", "other"),
    [
        (LOOP, {"turns": 4}, {"turns": 5}),
        (REASSOCIATED, ("%rs1, %rs2", "%rs4, %rs3"), ("%rs2, %rs3", "%rs1, %rs4")),
        (POINTER, ("",), ("+16",)),
        (LABELS, (1,), (2,)),
        (CLOCK, ("%f1",), ("%f2",)),
        (COUNTED, ("%r20",), ("%r21",)),
        ("setp.eq.s32 %p1, %r3, 77; @%p1 {0};", ("exit",), ("trap",)),
        ("max{0}.s32 %r20, %r3, -5; st.u32 [%rd2+8], %r20;", ("",), (".relu",)),
        ("bar.sync {0};", (0,), (1,)),
        ("{0};", ("bar.sync 0",), ("bar.warp.sync 31",)),
        ("st.f32 [%rd2+{0}], %f1;", (8,), (12,)),
        ("@%p2 st.f32 [%rd2+8], %f1;", (), ()),
        ("st.{0}f32 [%rd2+8], %f1;", ("",), ("volatile.",)),
        # Numbers have the bits that the instruction reads of them.
        ("red.global.add.u64 [%rd2+8], {0};", (1,), ((1 << 32) + 1,)),
        ("mul.hi.u64 %rd20, %rd1, {0}; st.u64 [%rd2+8], %rd20;", (-1,), ((1 << 32) - 1,)),
        ("popc.b64 %r20, {0}; st.u32 [%rd2+8], %r20;", (2,), ((1 << 32) + 2,)),
        ("shl.b16 %rs2, %rs1, {0}; st.u16 [%rd2+8], %rs2;", (1,), ((1 << 16) + 1,)),
        (BARRIERS + "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r20], 1, [%r20+{0}];", (0,), (8,)),
    ],
)  # fmt: skip
def test_what_else_differs_is_not_proved(
    template: str, one: Sequence[object] | dict[str, object], other: Sequence[object] | dict[str, object]
) -> None:
    texts = [template.format(**each) if isinstance(each, dict) else template.format(*each) for each in (one, other)]
    first, second = (exchange(XOR, XOR, extra=text) for text in texts)
    assert verdict(exchange(extra=texts[0]), first).outcome is ProofOutcome.PROVED
    if first != second:
        assert verdict(exchange(extra=texts[0]), second).outcome is not ProofOutcome.PROVED


HASHED = """
	mul.lo.s32 %r20, %r3, {0}; {1} cvt.s64.s32 %rd20, %r20; shl.b64 %rd20, %rd20, 2;
	mov.u64 %rd21, tile; add.s64 %rd22, %rd21, %rd20; st.shared.f32 [%rd22], %f1;
"""


def test_a_product_that_wraps_on_purpose_is_not_assumed_to_stay_small() -> None:
    """(int)(x * 0xAAAAAAABu) is x / 3 for multiples of 3: as an index, it is in bounds, and wraps for all but 0."""
    beyond = "setp.gt.u32 %p3, %r3, 1; @%p3 mov.u32 %r20, 0;"
    old, new = (exchange(extra=HASHED.format(-1431655765, each)) for each in ("", beyond))
    assert verdict(old, new).outcome is ProofOutcome.REFUTED


TURNS = """
	mov.u32 %r20, 0; mov.u32 %r21, 0; mov.f32 %f3, %f1; {before}
$L_turn:
	{bound} and.b32 %r21, %r21, 1023; setp.ge.s32 %p3, %r20, %r21; @%p3 bra $L_left;
	add.s32 %r20, %r20, 1; mul.f32 %f3, %f3, 0f3F000000; bra $L_turn;
$L_left:
	st.u32 [%rd2+8], {what};
"""
BOUNDED = "cvt.rzi.s32.f32 %r21, {}; "


@pytest.mark.parametrize(
    ("before", "bound", "outcome"),
    [
        ("", "ld.u32 %r21, [%rd1+16];", ProofOutcome.UNPROVED),
        ("", BOUNDED.format("%f3"), ProofOutcome.UNPROVED),
        ("ld.u32 %r22, [%rd1+16];", "mov.u32 %r21, %r22;", ProofOutcome.PROVED),
        ("", BOUNDED.format("%f1"), ProofOutcome.PROVED),
    ],
)  # fmt: skip
def test_a_bound_that_changes_while_a_loop_runs_says_nothing_of_where_it_ends(
    before: str, bound: str, outcome: ProofOutcome
) -> None:
    """A counter equals its bound after the loop, unless the bound was another one in the turns before."""
    old, new = (TURNS.format(before=before, bound=bound, what=what) for what in ("%r20", "%r21"))
    assert verdict(exchange(extra=old), exchange(XOR, XOR, extra=new)).outcome is outcome


def test_what_the_module_says_of_memory_and_launches_is_compared() -> None:
    reads = EXCHANGE.format(store=address(XOR), load=address(XOR)) + "ld.const.f32 %f3, [c]; st.f32 [%rd2+8], %f3;"
    plain = EXCHANGE.format(store=address(), load=address()) + "ld.const.f32 %f3, [c]; st.f32 [%rd2+8], %f3;"
    for declared in (".const .align 4 .b8 c[8] = {{1, 2, {}}};", ".const .align 4 .u32 c = {};"):
        modules = [declared.format(number) for number in (3, 4)]
        assert verdict(kernel(plain, modules[0]), kernel(reads, modules[0])).outcome is ProofOutcome.PROVED
        assert verdict(kernel(plain, modules[0]), kernel(reads, modules[1])).outcome is ProofOutcome.UNPROVED
    bounds = [f".maxntid {n}, 1, 1" for n in (1024, 512)]
    assert verdict(kernel(plain, modules[0], launch=bounds[0]), kernel(reads, modules[0], launch=bounds[1])).obstacle


# Addresses that go elsewhere, and accesses that do not show where.

NUMBER = """
	setp.eq.s32 %p1, %r3, 0; mov.u64 %rd20, 128;
	@%p1 bra $L_end;
	mov.u64 %rd20, 256;
$L_end:
	cvta.shared.u64 %rd21, %rd20; ld.f32 %f3, [%rd21]; st.f32 [%rd2+8], %f3;
"""
STORED = "mov.u32 %r20, tile; st.u32 [%rd2+8], %r20;"
COMPARED = "mov.u32 %r20, tile; setp.lt.u32 %p1, %r20, 2048; selp.f32 %f3, %f1, %f2, %p1; st.f32 [%rd2+8], %f3;"
PASSED = "mov.u32 %r20, tile; shfl.sync.idx.b32 %r21, %r20, 0, 31, -1; ld.shared.f32 %f3, [%r21]; st.f32 [%rd2+8], %f3;"
LOADED = "ld.u64 %rd20, [%rd1+8]; ld.shared.f32 %f3, [%rd20]; st.f32 [%rd2+8], %f3;"
CHOSEN = """
	setp.eq.s32 %p1, %r3, 0; mov.u64 %rd20, tile; cvta.shared.u64 %rd20, %rd20;
	@%p1 bra $L_end;
	mov.u64 %rd20, %rd1;
$L_end:
	ld.f32 %f3, [%rd20]; st.f32 [%rd2+8], %f3;
"""
SIZED = "mov.u32 %r20, %total_smem_size; st.u32 [%rd2+8], %r20;"
DESCRIBED = """
	mov.u32 %r20, tile; cvt.u64.u32 %rd20, %r20; shr.u64 %rd20, %rd20, 4;
	wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f3, %f4, %f5, %f6}, %rd20, %rd20, 1, 1, 1, 0, 0;
"""


COUNTED_AT = """
	.shared .align 128 .b8 buf[128]; mov.u32 %r20, 64; mov.u32 %r21, buf;
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r21], [%rd1], 16, [%r20];
"""
KEPT = """
	mov.u64 %rd20, 64; cvta.shared.u64 %rd21, %rd20; st.u64 [%rd2+16], %rd21; ld.u64 %rd22, [%rd2+16];
	ld.f32 %f3, [%rd22]; st.f32 [%rd2+8], %f3;
"""
FAR = """
	mov.u64 %rd20, tile; cvta.shared.u64 %rd20, %rd20; ld.u64 %rd21, [%rd1+16]; add.s64 %rd22, %rd20, %rd21;
	setp.lt.u64 %p3, %rd22, %rd20; selp.b32 %r20, 1, 2, %p3; st.u32 [%rd2+8], %r20;
"""


@pytest.mark.parametrize("extra", [NUMBER, STORED, COMPARED, PASSED, LOADED, CHOSEN, DESCRIBED, COUNTED_AT, FAR, KEPT])
def test_an_address_that_does_not_stay_in_accesses_is_not_proved(extra: str) -> None:
    found = verdict(exchange(extra=extra), exchange(XOR, XOR, extra=extra))
    assert found.outcome is ProofOutcome.UNPROVED
    assert found.obstacle is not None
    if extra is DESCRIBED:
        assert "descriptor" in found.obstacle.reason
    assert verdict(exchange(extra=extra), exchange(extra=extra)).mapped == ()


def test_the_size_of_shared_memory_is_the_same_unless_an_array_grows() -> None:
    assert verdict(exchange(extra=SIZED), exchange(XOR, XOR, extra=SIZED)).outcome is ProofOutcome.PROVED
    assert (
        verdict(exchange(extra=SIZED), exchange(pitch=33, size=33 * 128, extra=SIZED)).outcome is ProofOutcome.UNPROVED
    )


def test_an_address_of_32_bits_that_wraps_is_not_one_of_64_bits_that_does_not() -> None:
    """tile + n as a generic address, and n added before the conversion: the same unless the sum of 32 bits wraps."""
    compared = """
	ld.u32 %r21, [%rd1+16]; {0} mov.u32 %r20, tile; add.s32 %r22, %r20, %r21; cvt.u64.u32 %rd20, %r22;
	cvta.shared.u64 %rd20, %rd20; mov.u64 %rd21, tile; cvta.shared.u64 %rd21, %rd21; cvt.s64.s32 %rd22, %r21;
	add.s64 %rd23, %rd21, %rd22; setp.eq.u64 %p3, %rd23, %rd20; selp.b32 %r23, 1, 2, %p3; st.u32 [%rd2+8], %r23;
"""
    versions = exchange(extra=compared.format("")), exchange(XOR, XOR, extra=compared.format("neg.s32 %r21, %r21;"))
    assert verdict(*versions).outcome is ProofOutcome.UNPROVED


def test_an_address_in_shared_memory_has_32_bits() -> None:
    """An index beyond 2^30 comes back to the array: it must not count as one that nothing else accesses."""
    stored = """
	cvt.u64.u32 %rd21, %r3; {0} shl.b64 %rd22, %rd21, 2; mov.u64 %rd20, tile; add.s64 %rd23, %rd20, %rd22; {1}
	st.shared.f32 [{2}], %f1;
"""
    beyond = """
	setp.lt.u64 %p2, %rd21, 1024; and.b64 %rd24, %rd21, 31; add.u64 %rd24, %rd24, 1024;
	selp.b64 %rd21, %rd21, %rd24, %p2;
"""
    for convert, place in (("", "%rd23"), ("cvt.u32.u64 %r20, %rd23;", "%r20")):
        old, new = (exchange(size=8192, extra=stored.format(each, convert, place)) for each in ("", beyond))
        assert verdict(old, new).outcome is not ProofOutcome.PROVED


def test_what_is_compiled_elsewhere_may_access_dynamic_shared_memory() -> None:
    dynamic = ".extern .shared .align 16 .b8 tile[];\n.extern .func {0}(.param .b32 a);\n"
    call = "{{ .param .b32 param0; st.param.b32 [param0+0], 1; call {0}, (param0); }}"
    for name, outcome in (("other", ProofOutcome.UNPROVED), ("free", ProofOutcome.PROVED)):
        versions = (
            exchange(each, each, extra=call.format(name), module=dynamic.format(name)).replace(STATIC, "")
            for each in (PLAIN, XOR)
        )
        assert verdict(*versions, dynamic=(4096, 4096)).outcome is outcome


STATIC = "	.shared .align 4 .b8 tile[4096];\n"


def test_arrays_that_may_be_elsewhere_are_not_seen_to_be() -> None:
    two = ".shared .align 4 .b8 other[128];"
    before, after = (
        exchange(extra=two + STORED.replace("tile", "other")),
        exchange(pitch=33, size=33 * 128, extra=two + STORED.replace("tile", "other")),
    )
    assert verdict(before, after).outcome is ProofOutcome.UNPROVED
    wide = two + "mov.u32 %r20, other; ld.shared.v4.f32 {%f3, %f4, %f5, %f6}, [%r20]; st.f32 [%rd2+8], %f3;"
    odd = verdict(exchange(extra=wide), exchange(pitch=33, size=4100 + 124 + 4, extra=wide))
    assert odd.outcome is ProofOutcome.UNPROVED


def test_lost_alignment_and_other_widths_are_refuted() -> None:
    vector = [
        re.sub(r"ld\.f32 %f2, \[%rd11\]", "ld.v4.f32 {%f2, %f3, %f4, %f5}, [%rd11]", exchange(mask + each, mask + each))
        for mask in ("and.b32 %r7, %r7, 28;",)
        for each in (PLAIN, XOR, "and.b32 %r9, %r6, 7; shl.b32 %r9, %r9, 2; xor.b32 %r8, %r7, %r9;")
    ]
    assert verdict(vector[0], vector[1]).outcome is ProofOutcome.REFUTED
    assert verdict(vector[0], vector[2]).outcome is ProofOutcome.PROVED


def test_a_loop_that_walks_through_both_layouts() -> None:
    body = """
	mov.u32 %r6, %r2; mov.u32 %r7, %r1;
	mov.u32 %r20, 0;
$L_head:
	setp.ge.s32 %p1, %r20, {turns};
	@%p1 bra $L_end;
	add.s32 %r6, %r2, %r20;
	{address}
	st.f32 [%rd11], %f1;
	add.s32 %r20, %r20, 8;
	bra $L_head;
$L_end:
	bar.sync 0;
	mov.u32 %r6, %r1; mov.u32 %r7, %r2;
	{address}
	ld.f32 %f2, [%rd11];
	st.f32 [%rd2], %f2;
"""
    plain, xored = (kernel(body.format(turns=32, address=address(each))) for each in (PLAIN, XOR))
    assert verdict(plain, xored, (32, 8, 1)).outcome is ProofOutcome.PROVED
    shifted = kernel(body.format(turns=32, address=address(XOR)).replace("%r20, 8;", "%r20, 7;", 1))
    assert verdict(plain, shifted, (32, 8, 1)).outcome is not ProofOutcome.PROVED


COPY = """
.func (.param .b64 func_retval0) copy(.param .b64 copy_param_0, .param .b64 copy_param_1, .param .b64 copy_param_2)
{
	.reg .pred %p<4>; .reg .b16 %rs<2>; .reg .b64 %rd<10>;
	ld.param.u64 %rd3, [copy_param_0]; ld.param.u64 %rd4, [copy_param_1]; ld.param.u64 %rd5, [copy_param_2];
	mov.u64 %rd9, 0;
$L_byte:
	mov.u64 %rd1, %rd9;
	add.s64 %rd7, %rd4, %rd1; ld.u8 %rs1, [%rd7];
	add.s64 %rd8, %rd3, %rd1; st.u8 [%rd8], %rs1;
	add.s64 %rd9, %rd1, 1;
	setp.lt.u64 %p3, %rd9, %rd5;
	@%p3 bra $L_byte;
	st.param.b64 [func_retval0+0], %rd3;
	ret;
}
"""
CALLED = """
	{ .param .b64 param0; st.param.b64 [param0+0], %rd2;
	.param .b64 param1; st.param.b64 [param1+0], %rd11;
	.param .b64 param2; st.param.b64 [param2+0], 4; .param .b64 retval0;
	call.uni (retval0), copy, (param0, param1, param2); ld.param.b64 %rd25, [retval0+0]; }
"""


@pytest.mark.parametrize(("load", "outcome"), [(XOR, ProofOutcome.PROVED), (PLAIN, ProofOutcome.REFUTED)])
def test_loops_of_functions_that_are_called(load: str, outcome: ProofOutcome) -> None:
    texts = [
        EXCHANGE.format(store=address(store), load=address(column)).replace("ld.f32 %f2, [%rd11];", CALLED)
        for store, column in ((PLAIN, PLAIN), (XOR, load))
    ]
    assert verdict(*(kernel(text, COPY) for text in texts)).outcome is outcome


def test_a_local_variable_ends_with_its_function() -> None:
    leak = """
.func (.param .b64 func_retval0) leak()
{
	.local .align 4 .b8 __local_depot1[4]; .reg .b64 %rd<3>;
	mov.u64 %rd1, __local_depot1; st.local.u32 [%rd1], 7;
	st.param.b64 [func_retval0+0], %rd1;
	ret;
}
"""
    call = "{ .param .b64 retval0; call.uni (retval0), leak, (); ld.param.b64 %rd25, [retval0+0]; }\n$L_after:\n"
    loaded = f"{call}ld.local.u32 %r30, [%rd25]; st.u32 [%rd2], %r30;"
    found = verdict(*(exchange(each, each, extra=loaded, module=leak) for each in (PLAIN, XOR)))
    assert found.obstacle is not None
    assert found.obstacle.reason == "a local variable is accessed after its function has returned"


@pytest.mark.parametrize(
    "store",
    ["red.shared.add.u32 [%r20], 1", "red.shared.add.u32\t[%r20],\t1", "red.shared.add.u32\n[%r20],1",
     "red.shared.add.u32[%r20],1", "red.shared.add.u32/* */[%r20], 0x1",
     "setp.lt.s32 %p1, %r1, 0; @!%p1\tred.shared.add.u32\t[%r20], 1U"],
)  # fmt: skip
def test_an_instruction_is_read_whatever_stands_between_its_words(store: str) -> None:
    place = "shl.b32 %r20, %r1, 2; {move} mov.u32 %r21, tile; add.s32 %r20, %r20, %r21; {store};"
    before, after = (exchange(extra=place.format(move=move, store=store)) for move in ("", "xor.b32 %r20, %r20, 4;"))
    assert verdict(before, before).outcome is ProofOutcome.PROVED
    assert verdict(before, after).outcome is ProofOutcome.REFUTED


def test_what_is_not_read_is_not_proved() -> None:
    for odd in ("red .shared.add.u32 [%r1], 1;", "{ .reg .b32 red; red.shared.add.u32 [%r1], 1; }"):
        found = verdict(exchange(extra=odd), exchange(extra=odd))
        assert found.obstacle is not None
        assert found.obstacle.reason.endswith("is not read")
    twice = kernel("{ .shared .b32 s; st.shared.u32 [s], %r1; } { .shared .b32 s; ld.shared.u32 %r2, [s]; }")
    with pytest.raises(ValueError, match="twice"):
        verdict(twice, twice)
    wide = "{ .reg .v2 .b32 two; mov.b64 %rd9, two; st.u64 [%rd2], %rd9; }"
    assert verdict(exchange(extra=wide), exchange(XOR, XOR, extra=wide)).outcome is ProofOutcome.UNPROVED


# What only the solver, or nobody, can tell apart: each pair of statements is what both versions have besides the tile.
BELOW = "add.u64 %rd20, %rd2, {}; ld.global.u32 %r20, [%rd20{}]; st.u32 [%rd2+4], %r20;"
WIDEN = "cvt.{}.s32 %rs1, %r3; cvt.u32.u16 %r20, %rs1; st.u32 [%rd2+4], %r20;"
WINDOW = "mov.u64 %rd20, tile; cvta.shared.u64 %rd21, %rd20; sub.u64 %rd22, %rd21, %rd20;"
ZERO = "mov.u64 %rd20, tile; setp.eq.u64 %p2, %rd20, 0; @!%p2 bra $L_on; st.u32 [%rd2+4], {}; $L_on:"
WRAPS = """mov.u32 %r20, tile; ld.u32 %r21, [%rd2+8]; add.u32 %r22, %r20, %r21; cvt.u64.u32 %rd20, %r20;
	cvt.u64.u32 %rd21, %r22; cvt.s64.s32 %rd22, %r21; sub.u64 %rd23, %rd21, %rd20; sub.u64 %rd23, %rd23, %rd22;
	st.u64 [%rd2+16], {};"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BELOW.format(32, "+-4"), BELOW.format(32, "+-8")),
        (BELOW.format(32, "+-4"), BELOW.format(64, "+-4")),
        (WIDEN.format("u8"), WIDEN.format("s8")),
        (f"{WINDOW} st.u64 [%rd2+8], %rd22;", f"{WINDOW} mov.u64 %rd22, 0; st.u64 [%rd2+8], %rd22;"),
        (ZERO.format(1), ZERO.format(2)),
        (WRAPS.format("%rd23"), WRAPS.format("0")),
    ],
)  # fmt: skip
def test_what_differs_besides_the_tile_is_not_proved(before: str, after: str) -> None:
    assert verdict(exchange(extra=before), exchange(XOR, XOR, extra=after)).outcome is not ProofOutcome.PROVED
    assert verdict(exchange(extra=before), exchange(extra=after)).outcome is not ProofOutcome.PROVED


def test_an_address_below_a_pointer_is_followed() -> None:
    below = BELOW.format(32, "+-4")
    assert verdict(exchange(extra=below), exchange(XOR, XOR, extra=below)).outcome is ProofOutcome.PROVED


@pytest.mark.parametrize("base", ["", "st.u64 [%rd2+16], %rd22; ld.u64 %rd22, [%rd2+16];"])
def test_an_address_that_is_made_from_where_shared_memory_begins_is_not_followed(base: str) -> None:
    made = f"""{WINDOW} ld.u64 %rd23, [%rd2+8]; {base} add.u64 %rd23, %rd23, %rd22;
        ld.u32 %r20, [%rd23]; st.u32 [%rd2+4], %r20;"""
    assert verdict(exchange(extra=made), exchange(XOR, XOR, extra=made)).outcome is ProofOutcome.UNPROVED


@pytest.mark.parametrize("operand", ["%r99+7x", "%nonsense", "%ctaid", "010", "0b1", "1.0"])
def test_an_operand_that_is_not_read_is_not_followed(operand: str) -> None:
    odd = f"mov.u32 %r20, {operand}; st.u32 [%rd2+4], %r20;"
    assert verdict(exchange(extra=odd), exchange(XOR, XOR, extra=odd)).outcome is ProofOutcome.UNPROVED


# TMA writes a box of 32 rows of 128 bytes; a warp reads 16 bytes a lane of it: of row %r6 the chunk {chunk} of %r7.
BOX = """
	mov.b64 %rd20, k_param_0; cvta.param.u64 %rd20, %rd20;
	.shared .align 8 .b8 bar[8]; mov.u32 %r23, bar;
	mov.u32 %r20, tile;{moved}
	cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes{kind}
		[%r20], [%rd20, {{%r1, %r2}}], [%r23];
	bar.sync 0;
	and.b32 %r6, %r1, 31; shr.u32 %r7, %r1, 5; and.b32 %r7, %r7, 7; {chunk} shl.b32 %r8, %r8, 4;
	mul.lo.s32 %r10, %r6, 128; add.s32 %r10, %r10, %r8; mov.u32 %r11, tile; add.s32 %r11, %r11, %r10;
	ld.shared.v4.f32 {{%f1, %f2, %f3, %f4}}, [%r11];
	st.f32 [%rd2], %f1;
"""
SPANS = {
    0: PLAIN,
    64: "and.b32 %r9, %r6, 3; xor.b32 %r8, %r7, %r9;",
    128: "and.b32 %r9, %r6, 7; xor.b32 %r8, %r7, %r9;",
}


def boxed(
    before: int, after: int, read: int, align: int = 1024, box: int = 4096, moved: str = "", kind: str = ""
) -> KernelVerdict:
    """Return the verdict on a box with one swizzle before and one after, which is read through a third."""
    old = kernel(BOX.format(chunk=SPANS[before], kind=kind, moved=""), align=align)
    new = kernel(BOX.format(chunk=SPANS[read], kind=kind, moved=moved), align=align)
    maps = tuple(((0, TensorMap(each, 128, span)),) for each, span in ((4096, before), (box, after)))
    return verdict(old, new, (256, 1, 1), maps=maps)


@pytest.mark.parametrize(("before", "after"), [(0, 128), (128, 0)])
def test_a_box_that_tma_swizzles_is_read_through_the_same_swizzle(before: int, after: int) -> None:
    found = boxed(before, after, after)
    assert found.outcome is ProofOutcome.PROVED
    assert found.assumptions == (Assumption.TENSOR_MAPS,)
    assert found.mapped == ("tile",)
    assert boxed(before, after, before).outcome is ProofOutcome.REFUTED  # the reader was left as it is
    assert boxed(before, after, 64).outcome is ProofOutcome.REFUTED
    assert boxed(before, before, after).outcome is ProofOutcome.REFUTED  # the tensor map was left as it is
    assert boxed(before, before, before).mapped == ()


@pytest.mark.parametrize(
    "difference",
    [
        {"align": 512},  # the swizzle XORs bits of addresses
        {"box": 2048},
        {"moved": "add.s32 %r20, %r20, 128;"},
        {"kind": ".multicast::cluster"},
    ],
)
def test_a_box_that_is_not_known_to_be_the_same_is_not_proved(difference: dict[str, Any]) -> None:
    assert boxed(0, 128, 128, **difference).outcome is ProofOutcome.UNPROVED


def test_a_box_that_moves_is_not_proved_wherever_its_readers_are() -> None:
    assert boxed(0, 0, 0).outcome is ProofOutcome.PROVED
    assert boxed(0, 0, 0, moved="add.s32 %r20, %r20, 128;").outcome is ProofOutcome.UNPROVED
    assert boxed(0, 0, 0, box=2048).outcome is ProofOutcome.UNPROVED


@pytest.mark.parametrize("after", [((0, TensorMap(4096, 128, 128)),), ()])
def test_what_is_not_compared_as_a_box_has_the_same_tensor_map(after: Maps) -> None:
    same = kernel(BOX.format(chunk=SPANS[0], kind=".multicast::cluster", moved=""), align=1024)
    before = ((0, TensorMap(4096, 128, 0)),)
    assert verdict(same, same, (256, 1, 1), maps=(before, before)).outcome is ProofOutcome.PROVED
    assert verdict(same, same, (256, 1, 1), maps=(before, after)).outcome is ProofOutcome.UNPROVED


def test_a_swizzle_wider_than_a_boxs_rows_is_not_followed() -> None:
    versions = [kernel(BOX.format(chunk=SPANS[span], kind="", moved=""), align=1024) for span in (0, 128)]
    maps = tuple(((0, TensorMap(4096, 64, span)),) for span in (0, 128))
    assert verdict(*versions, (256, 1, 1), maps=maps).outcome is ProofOutcome.UNPROVED
    assert verdict(*versions, (256, 1, 1)).outcome is ProofOutcome.UNPROVED  # nor one that nothing describes


def test_that_a_descriptor_has_the_layout_is_said_with_what_differs() -> None:
    text = "wgmma.fence.sync.aligned; setp.ge.s32 %p1, %r1, {}; @%p1 bra $L_skip; bar.sync 0; $L_skip:"
    found = verdict(*(exchange(extra=text.format(n)) for n in (5, 6)))
    assert found.obstacle is not None
    assert found.obstacle.reason == (
        "a branch may differ between the versions; the layout is in a descriptor, which wgmma reads"
    )


def test_a_call_through_a_pointer_is_not_followed() -> None:
    extra = "{ .param .b32 param0; st.param.b32 [param0+0], %r1; call %rd1, (param0), prototype_0; }"
    found = verdict(exchange(extra=extra), exchange(XOR, XOR, extra=extra))
    assert found.outcome is ProofOutcome.UNPROVED
    assert found.obstacle is not None
    assert found.obstacle.reason == "a function is called through a pointer"


@pytest.mark.parametrize("column", [XOR, ADD])
def test_a_certificate_has_a_query_for_each_condition(column: str) -> None:
    z3 = pytest.importorskip("z3")
    found = verdict(exchange(), exchange(column, column), certificate=True)
    assert len(found.queries) >= 3  # two accesses stay in the array, and meet alike
    for query in found.queries:
        solver = z3.Solver()
        solver.from_string(query.smt)
        assert solver.check() == z3.unsat


def test_text_that_is_no_ptx_is_refused() -> None:
    with pytest.raises(ValueError, match="not PTX"):
        parse("__global__ void k() {}")
    with pytest.raises(ValueError, match="no kernel"):
        certify(exchange(), exchange(), kernel="other")


def test_terms_fold_as_bit_vectors_do() -> None:
    x, wide = atom("x", 32), atom("y", 64)
    assert (x + x - x) is x
    assert ~~x is x
    assert (x ^ x) is const(0, 32)
    assert x.zext(64).extract(31, 0) is x
    assert const(-1, 32).sext(64) is const(-1, 64)
    assert (wide + const(1 << 40, 64)).extract(31, 0) is wide.extract(31, 0)


def test_registers_of_a_scope_have_its_widths() -> None:
    """Two scopes of asm may number registers of one name, of other widths."""
    scopes = """
	{{ .reg .b16 x<2>; ld.u16 x1, [%rd1+8]; add.u16 x1, x1, 1; cvt.u32.u16 %r20, x1; }}
	{{ .reg .b64 x<2>; ld.u64 x1, [%rd1+16]; {0} st.u64 [%rd2+16], x1; st.u32 [%rd2+8], %r20; }}
"""
    old, new = (exchange(each, each, extra=scopes.format("")) for each in (PLAIN, XOR))
    assert verdict(old, new).outcome is ProofOutcome.PROVED
    low = exchange(XOR, XOR, extra=scopes.format("and.b64 x1, x1, 65535;"))
    assert verdict(old, low).outcome is not ProofOutcome.PROVED
