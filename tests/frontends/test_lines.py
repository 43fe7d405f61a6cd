"""Lines of Python in PTX."""

from types import SimpleNamespace
from typing import Any

from ncu_swizzle.frontends import triton_jit
from ncu_swizzle.reports import python_kernels

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
