"""Lines of Python in CUDA C++ and PTX."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from ncu_swizzle.frontends import nvrtc, triton_jit
from ncu_swizzle.reports import python_kernels

PLAIN = 'S = r"""\nfirst\nsecond\n"""\n'
SUM = 'HEAD = "#define W 32\\n#define V 1\\n"\nS = HEAD + r"""\nfirst\nsecond\n""" + HEAD\n'
TWO = 'A = r"""\nfirst\n"""\n\nB = """\nsecond\n"""\nS = A + B\n'


def lines(text: str, variable: str = "S") -> dict[str, str]:
    """Execute a file; return the place that a compiler gives to each line of the source, by the line."""
    names: dict[str, str] = {}
    exec(text, names)
    numbered = nvrtc.numbered(names[variable], variable, "k.py", text)
    found, line, file = {}, 0, ""
    for each in numbered.split("\n"):
        if directive := re.fullmatch(r'#line (\d+) "(.*)"', each):
            line, file = int(directive[1]), directive[2]
            continue
        found[each] = f"{file}:{line}"
        line += 1
    return found


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        (PLAIN, "k.py:2", "k.py:3"),
        (PLAIN.replace("S =", "S: str ="), "k.py:2", "k.py:3"),
        (PLAIN.replace("S = r", 'S = "" + r'), "k.py:2", "k.py:3"),
        ('S = r"""\nfirst\nsecond\n%d\n""" % 4\n', "k.py:2", "k.py:3"),
        ('n = 4\nS = f"""\nfirst\nsecond\n{n}\n"""\n', "k.py:3", "k.py:4"),
        ('def made():\n    return """\nfirst\nsecond\n"""\nS = made()\n', "k.py:3", "k.py:4"),
        (TWO, "k.py:2", "k.py:6"),
        (SUM, "k.py:3", "k.py:4"),
        ('S = "first\\nsecond\\n"\n', "k.py::S:1", "k.py::S:2"),
        ('S = "first\\n" "second\\n"\n', "k.py::S:1", "k.py::S:2"),
        ('S = "\\n".join(["first", "second"])\n', "k.py::S:1", "k.py::S:2"),
    ],
)
def test_lines_are_those_of_the_literals(text: str, first: str, second: str) -> None:
    found = lines(text)
    assert (found["first"], found["second"]) == (first, second)


def test_what_surrounds_a_literal_has_the_variable_s_lines() -> None:
    found = lines(SUM)
    assert found["#define W 32"] == "k.py::S:6"  # the last of two
    assert found["#define V 1"] == "k.py::S:7"


def test_a_line_that_is_continued_is_not_interrupted() -> None:
    names: dict[str, str] = {}
    exec('A = "#define first \\\\\\n"\nB = r"""second\nthird\n"""\nS = A + B\n', names)
    text = nvrtc.numbered(names["S"], "S", "k.py", 'A = 1\nB = r"""second\nthird\n"""\n')
    assert "\\\nsecond" in text


def test_a_file_that_cannot_be_parsed_has_no_lines() -> None:
    assert nvrtc.numbered("first\n", "S", "k.py", "S = (") == '#line 1 "k.py::S"\nfirst\n'


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
