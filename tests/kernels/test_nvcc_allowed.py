"""Which options project files may pass to nvcc, and that nvcc knows each of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import Untrusted
from ncu_swizzle.kernels import nvcc_options
from ncu_swizzle.kernels.nvcc_options import TRUST, Checkout
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain
from tests.support.marks import NEEDS_NVCC
from tests.support.refusals import refused, unlike

ALLOWED = """
-DX | -D X | -DX=1 | -D X=1 | -D=X | --define-macro X=1 | --define-macro=X=1 | '-DF(x)=(x)+1' | '-DS="a b"'
-DT=float4 | -DP=../x | -I 'a (2), b;c'
-UX | -U X,Y | --undefine-macro=X | -Iinc | -I inc | -I=inc | --include-path inc | --include-path=inc
-I/usr/share | -isystem inc | -isystem=inc | --system-include inc | -include own.h | -include=own.h
--pre-include cuda_fp16.h | -O3 | -O 2 | -O=0 | --optimize 2 | --optimize=2 | -std=c++20 | -std c++17 | --std=c++14
-Ofc max | --Ofast-compile=min | -dopt on | -maxrregcount 64 | -maxrregcount=64 | --maxrregcount 32
-ftz=true | -ftz true | --ftz=false | -prec-div=false | --prec-div true | -prec-sqrt false | -fmad=false | --fmad true
-rdc=true | --relocatable-device-code false | -device-stack-protector true | -brief-diag true
-static-global-template-stub=false | -ftemplate-depth 900 | --ftemplate-backtrace-limit=10 | -jtd 50
-default-stream per-thread | -opt-info inline | -diag-suppress 177 | -diag-suppress=177,20012 | -diag-error=177
-diag-warn 177 | -Werror all-warnings | -Werror=reorder,deprecated-declarations | -Xptxas -v | -Xptxas=-O2
-Xptxas -v,-warn-spills | -Xptxas "-v -O3" | --ptxas-options=-v | --ptxas-options -dlcm=cg | -Xptxas=-dscm=wb
-Xptxas --def-load-cache=ca | -Xptxas -maxrregcount=40 | -Xptxas=--allow-expensive-optimizations=true
-Xptxas -regUsageLevel=5 | -Xptxas -Werror | -Xcompiler -Wall | -Xcompiler=-Wall,-Wextra | -Xcompiler -fPIC,-O2
--compiler-options -fopenmp | -Xcompiler -Wno-unused-parameter
"""
FORMS = [form.strip() for line in ALLOWED.strip().splitlines() for form in line.split(" | ")]

REFUSED = """
-ccbin /x/evil | -ccbin=/x/evil | --compiler-bindir /x/evil | --compiler-bindir=/x/evil | --compiler-bind /x/evil
-Xlinker -plugin=x | --linker-options=-x | -Xarchive x | -Xnvlink -v | --nvlink-options=-v | -arbin /x | -noprof
-Xcompiler -B. | -Xcompiler=-B. | -Xcompiler -fplugin=x.so | -Xcompiler -Wall,-fplugin=x.so | --compiler-options=-B.
-Xcompiler -wrapper,evil | -Xcompiler -Wl,-plugin | -Xcompiler -Wp,-MD,x | -Xcompiler -Wa,x | -Xcompiler @x
-Xcompiler -specs=x | -Xcompiler -include,/etc/passwd | -Xcompiler -o,x | -Xcompiler -dumpdir,x | -Xcompiler "-w -B."
-Xcompiler -ox | -Xcompiler | -Xptxas | -Xptxas -o,x | -Xptxas=--options-file=x | -Xptxas -v,-optf,x | -Xptxas @x
-Xptxas=--output-file=x | -Xptxas "-v -o x" | -Xptxas -vv | -Xptxas --sanitize=memcheck | -Xptxas x.ptx
-optf x | -optf=x | --options-file x | --options-file=x | @x | evil.cu | evil.o | - | --
-run | --run | -run-args x | --run-args=x | -dlink | --device-link | -lib | -link | -shared | -dlto | -cuda | -ptx | -E
-dryrun | --dryrun | -v | --verbose | -keep | --keep | -keep-dir x | --keep-dir=x | -save-temps | -clean | -time x
--fdevice-time-trace x | -M | -MD | -MM | -MF x | -MF=x | --dependency-output=x | -MT x | -odir x | -odir=x
--output-directory x | -objtemp | -ldir x | --libdevice-directory=x | -target-dir x | -L. | -L x | -lfoo | -l foo
-include /etc/passwd | -include=/etc/passwd | --pre-include=/etc/passwd | -include ../outside.h
-include=own.h,/etc/passwd
-include x/../../outside.h | -x c++ | -x=c | --x cu | --cudafe-options=x | -forward-unknown-opts | -idp x | -t 64
-forward-unknown-to-host-compiler | --forward-unknown-to-host-linker | -frandom-seed=x | -qpp-config x | -e x
--entries=x | -jobserver | --threads=64 | -split-compile 0 | -sanitize memcheck | -h | --version | --list-gpu-arch
-use-local-env | -hls=gen-lcs | -G=1 | -w=x | --use_fast_math=1 | --use_fast | --restric | -Restrict | -lineinf
-std=c++17,x | -std=gnu++17x | -std | -O=x | -O9 | -O3x | -maxrregcount=x | -maxrregcount -ccbin | -ftz | -ftz=maybe
-Werror=x | -Werror reorder,x | -diag-suppress=x | -diag-suppress 1,-ccbin | -default-stream=x | -U1 | -D1 | -D
-D=-ccbin | -U X,-ccbin | --define-macro | -I | --Iinc | --DX | --O3 | -Ofc x | -dopt=off | -opt-info=x
"""
BAD_FORMS = [form.strip() for line in REFUSED.strip().splitlines() for form in line.split(" | ")]

SHELL = [
    ("-DX=$(touch marker)",), ("-DX=`touch marker`",), ("-DX=${HOME}",), ('-DX=\\\\"; touch marker; echo \\\\"',),
    ("-DX=a\nb",), ("-UX`touch marker`",), ("-I/`touch marker`",), ("-I/a\\$(touch marker)",),
    ("-isystem=`touch marker`",), ("-include=`touch marker`.h",), ("-Xptxas", "-v;touch marker"),
    ("-Xptxas=-v&touch marker",), ("-Xcompiler", "-Wall|touch marker"), ("-Xptxas", "-v>marker"),
    ("-e", "a;touch marker;"), ("-frandom-seed=`touch marker`",),
]  # fmt: skip


def given(form: str, bounded: Checkout) -> tuple[str, ...]:
    """Return an option as the list ``nvcc`` of a project file would give it."""
    return nvcc_options.split([form], bounded.folder)


def test_what_changes_the_code_or_the_warnings_is_allowed(bounded: Checkout) -> None:
    for form in FORMS:
        passed = bounded.options(given(form, bounded), "here")
        assert len(passed) == 1, form
        assert passed == bounded.options(passed, "here"), f"{form}: once in one word, it is the same option"


@pytest.mark.long  # a process each
@NEEDS_NVCC
def test_nvcc_knows_each_of_them(bounded: Checkout, tmp_path: Path) -> None:
    """A spelling that nvcc reads in another way than this list would be a hole."""
    (tmp_path / "k.cu").write_text("__global__ void k() {}\n", encoding="utf-8")
    program = str(Toolchain().find(NVCC))
    for form in FORMS:
        options = [*bounded.options(given(form, bounded), "here"), "-arch=sm_90", "--cubin", "k.cu", "-o", "k.cubin"]
        command = [program, "--dryrun", *options]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (form, done.stderr)
        steps = [line.split()[1] for line in done.stderr.splitlines() if not line.startswith("#$ _") and " -" in line]
        programs = {step.strip('"').rpartition("/")[2] for step in steps if "=" not in step}
        assert programs <= {"gcc", "cicc", "ptxas", "g++"}, form


@pytest.mark.long
@NEEDS_NVCC
@pytest.mark.usefixtures("real_tools")
def test_together_they_compile(bounded: Checkout) -> None:
    some = [
        "-DX=1",
        "'-DS=\"a b\"'",
        "-UY",
        "-Iinc",
        "-O2",
        "-std=c++20",
        "-maxrregcount 64",
        "--use_fast_math",
        "-ftz true",
    ]
    more = ["-Xptxas -v,-dlcm=cg", "-Xcompiler -Wall", "-include own.h", "--expt-relaxed-constexpr", "-Werror reorder"]
    words = nvcc_options.split([*some, *more], bounded.folder)
    (bounded.folder / "own.h").write_text("#define OWN X\n", encoding="utf-8")
    unit = "__constant__ const char* s = S;\n__global__ void k(int* out) { *out = OWN; }\n"
    assert Toolchain().compile(unit, bounded.options(words, "here"), "sm_90", []).startswith(b"\x7fELF")


def test_everything_else_needs_trust(bounded: Checkout) -> None:
    trusting = Checkout(bounded.folder, trusted=True)
    expected = dict.fromkeys(BAD_FORMS, r"^Untrusted: here: .*needs your trust: it is not among the options")
    assert not unlike(expected, lambda form: refused(bounded.options, given(form, bounded), "here"))
    assert {
        form for form in BAD_FORMS if trusting.options(given(form, bounded), "here") != given(form, bounded)
    } == set()
    with pytest.raises(Untrusted) as untrusted:
        bounded.options(("-v",), "here")
    assert untrusted.value.hint == TRUST


def test_a_header_that_links_out_of_the_checkout_needs_trust(bounded: Checkout) -> None:
    with pytest.raises(Untrusted, match=r"link\.h"):
        bounded.options(given("-include link.h", bounded), "here")


def test_what_nvcc_would_hand_to_a_shell_is_refused_with_trust_too(bounded: Checkout) -> None:
    expected = dict.fromkeys(SHELL, "^UsageError: here: .*to a shell, which may execute it")
    for trusted in (True, False):
        checkout = Checkout(bounded.folder, trusted)
        assert not unlike(expected, lambda words, checkout=checkout: refused(checkout.options, words, "here"))


@pytest.mark.long
@NEEDS_NVCC
def test_nvcc_does_hand_it_to_a_shell(tmp_path: Path) -> None:
    """If this fails, NVIDIA has mended nvcc, and the refusals may be reconsidered."""
    (tmp_path / "k.cu").write_text("__global__ void k() {}\n", encoding="utf-8")
    for words in SHELL[:2] + SHELL[3:4] + SHELL[7:8] + SHELL[-2:-1]:
        command = [str(Toolchain().find(NVCC)), *words, "-arch=sm_90", "--cubin", "k.cu", "-o", "k.cubin"]
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        (tmp_path / "marker").unlink()


def test_the_list_has_each_option_once() -> None:
    assert not nvcc_options.FLAGS & nvcc_options.VALUES.keys()
    assert all(name.startswith("-") for name in (*nvcc_options.FLAGS, *nvcc_options.VALUES))
