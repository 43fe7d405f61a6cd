"""The options that nvcc gets, which of them project files may pass, and that nvcc knows each."""

import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import Untrusted, UsageError
from ncu_swizzle.kernels import catalog, naming, nvcc_options, toolchain
from ncu_swizzle.kernels.nvcc_options import TRUST, Checkout
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain
from tests.support.marks import NEEDS_NVCC
from tests.support.own_kernel import FULL, description, own
from tests.support.places import text
from tests.support.refusals import refused, unlike


def test_options_are_split_and_made_whole(tmp_path: Path) -> None:
    assert nvcc_options.split(["-DA=1 -DB='x y'", "-I inc", "-I../up", "-Xptxas -v"], tmp_path) == (
        *("-DA=1", "-DB=x y", f"-I{tmp_path}/inc", f"-I{tmp_path.parent}/up", "-Xptxas", "-v"),
    )
    assert nvcc_options.options(["A", "B=2"], ["inc"], [], "c++20", tmp_path) == (
        *("-DA", "-DB=2", f"-I{tmp_path}/inc", "-std=c++20"),
    )


def test_options_that_cannot_be_are_told(tmp_path: Path) -> None:
    for option in ("-arch=sm_80", "-gencode arch=compute_80,code=sm_80", "-o x", "-D'A"):
        with pytest.raises(UsageError):
            nvcc_options.split([option], tmp_path)
    with pytest.raises(UsageError, match="-D '1A' is not NAME or NAME=VALUE"):
        nvcc_options.options(["1A"], [], [], "", tmp_path)


def test_a_language_standard_of_theirs_replaces_ours(tmp_path: Path) -> None:
    family = naming.family_of(own(tmp_path), description(FULL, options=("-std=c++20",)), ())
    assert toolchain.options(family, family.kernels[0]) == ("-lineinfo", "-O3", "-std=c++20")


def test_the_shipped_kernels_are_compiled_as_ever() -> None:
    for family, kernel in catalog.shipped():
        if kernel.library:
            continue
        assert toolchain.options(family, kernel) == toolchain.OPTIONS
        if not family.headers:
            assert toolchain.include_folders(family) == [paths.kernels() / "common", family.folder]
        assert toolchain.unit(family, kernel) == f'#include "{family.source(kernel)}"\n'


FORMS, BAD_FORMS = (
    [form.strip() for line in part.splitlines()[1:] for form in line.split(" | ")]
    for part in text("kernels/nvcc_options.txt").split("\n\n")
)
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
    some = ("-DX=1", "'-DS=\"a b\"'", "-UY", "-Iinc", "-O2", "-std=c++20", "-maxrregcount 64", "--use_fast_math")
    more = ("-ftz true", "-Xptxas -v,-dlcm=cg", "-Xcompiler -Wall", "-include own.h", "--expt-relaxed-constexpr")
    words = nvcc_options.split([*some, *more, "-Werror reorder"], bounded.folder)
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
