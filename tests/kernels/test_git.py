"""What a checkout and a commit's tree may do: nothing is written, named or run outside of what is trusted."""

import os
import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import BadFile, NcuSwizzleError, ProgramFailed, Untrusted
from ncu_swizzle.gate import checking
from ncu_swizzle.kernels import catalog, git, naming, nvcc_options, project, toolchain
from ncu_swizzle.kernels.nvcc_options import TRUST, Checkout
from ncu_swizzle.kernels.options import CatalogOptions
from ncu_swizzle.kernels.toolchain import NVCC, Toolchain
from tests.support import process, repositories
from tests.support.marks import NEEDS_NVCC, needs
from tests.support.own_kernel import FULL, KERNEL, description, own
from tests.support.places import table, text
from tests.support.refusals import refused, unlike
from tests.support.repositories import FILE, FOLDER, LINK, SUBMODULE, Hostile


def everything(folder: Path) -> dict[str, str]:
    found = {}
    for file in sorted(folder.rglob("*")):
        kind = f"-> {file.readlink()}" if file.is_symlink() else "folder" if file.is_dir() else file.read_text()
        found[str(file.relative_to(folder))] = kind
    return found


NAMES = [
    b".", b"..", b".git", b".GIT", b".Git", b"git~1", b"GIT~1", b"git~2", b".git ", b".git.", b".git . .", b"git~1. ",
    b".git::$INDEX_ALLOCATION", b".git:x", b"git~1::$DATA", ".g\u200cit".encode(), "\ufeff.git".encode(),
    ".gi\u206ft\u202e".encode(), b"../kept", b"../../kept", b"a/b", b"a//b", b"/etc/kept", b"a/", b"/", b"..\\kept",
    b"a\\..\\..\\kept", b"\\kept", b".git\\config", b"x" * 1025,
]  # fmt: skip


def test_no_name_leads_elsewhere(made: Hostile, inside: Path) -> None:
    blob = made.blob()
    folder = made.tree((FILE, b"kept", blob))
    trees = [(name, made.tree((FILE, name, blob))) for name in NAMES]
    for name in (b"..", b".GIT", b"../kept", b"a\\..\\..\\kept"):
        below = made.tree((LINK, name, blob))
        trees += [(name, made.tree((FOLDER, b"sub", below))), (name, made.tree((FOLDER, name, folder)))]
    for name, tree in trees:
        with pytest.raises(NcuSwizzleError, match=r"is not unpacked: its entry|git does not list"):
            git.unpack(made.folder, made.commit(tree), inside)
        assert everything(inside.parent) == {"inside": "folder", "kept": "mine\n"}, name
    for name in (b".git", b"../kept", b"..\\kept"):
        assert not git.blobs(made.folder, made.commit(made.tree((FILE, name, blob)))), "nor is it compared with files"


def test_no_entry_comes_twice_or_lies_behind_a_link(made: Hostile, inside: Path) -> None:
    blob, away = made.blob(), made.blob(b"..")
    below = made.tree((FILE, b"kept", blob))
    for entries in (
        [(LINK, b"a", away), (FOLDER, b"a", below)],
        [(FOLDER, b"a", below), (LINK, b"a", away)],
        [(FILE, b"a", blob), (FOLDER, b"a", below)],
        [(LINK, b"a", away), (LINK, b"a/kept", blob)],
        [(LINK, b"a", away), (FILE, b"a", blob)],
        [(FILE, b"a", blob), (FILE, b"a", blob)],
        [(FOLDER, b"a", below), (FOLDER, b"a", below)],
        [(LINK, b"a", away), (FILE, b"a/kept", blob)],
    ):
        with pytest.raises(BadFile, match=r"is there twice|with / in it"):
            git.unpack(made.folder, made.commit(made.tree(*entries)), inside)
        assert everything(inside.parent) == {"inside": "folder", "kept": "mine\n"}


def test_links_that_lead_out_and_submodules_are_left_out_and_odd_names_are_not(made: Hostile, inside: Path) -> None:
    def link(to: bytes) -> str:
        return made.blob(to)

    folder = made.tree((LINK, b"up", link(b"../file")), (LINK, b"out", link(b"../../kept")), (FILE, b"in", made.blob()))
    tree = made.tree(
        (LINK, b"absolute", link(b"/etc/passwd")),
        (LINK, b"behind", link(b"folder/../../kept")),
        (LINK, b"empty", link(b"")),
        (FILE, b"back\\slash", made.blob(b"")),
        (FILE, b".github", made.blob(b"1")),
        (FILE, b"\xff", made.blob(b"2")),
        (FILE, b"file", made.blob(b"3")),
        (FOLDER, b"folder", folder),
        (LINK, b"nul", link(b"a\0b")),
        (LINK, b"out", link(b"../kept")),
        (SUBMODULE, b"sub", "0" * 39 + "1"),
        (LINK, b"there", link(b"folder/in")),
    )  # fmt: skip
    left_out = git.unpack(made.folder, made.commit(tree), inside)
    assert set(map(str, left_out)) == {"absolute", "behind", "empty", "nul", "out", "sub", "folder/out"}
    assert everything(inside) == {
        "back\\slash": "", ".github": "1", "\udcff": "2", "file": "3", "there": "-> folder/in", "folder": "folder",
        "folder/in": "written by a stranger\n", "folder/up": "-> ../file",
    }  # fmt: skip


def test_a_folder_that_became_a_link_is_not_written_through(made: Hostile, inside: Path) -> None:
    (inside / "folder").symlink_to("..")
    tree = made.tree((FOLDER, b"folder", made.tree((FILE, b"kept", made.blob()))))
    with pytest.raises(NcuSwizzleError, match="cannot write"):
        git.unpack(made.folder, made.commit(tree), inside)
    assert (inside.parent / "kept").read_text() == "mine\n"


@pytest.mark.long
def test_trees_of_trees_of_trees_are_not_listed_forever(
    made: Hostile, inside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "MOST_PRINTED", 1 << 16)
    tree = made.tree((FILE, b"x", made.blob()))
    for _ in range(12):
        tree = made.tree(*((FOLDER, b"%d" % number, tree) for number in range(10)))
    with pytest.raises(ProgramFailed, match="too many"):
        git.unpack(made.folder, made.commit(tree), inside)
    assert not everything(inside)


def test_what_is_too_large_or_missing_is_left_out(made: Hostile, inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "LARGEST_FILE", 1000)
    monkeypatch.setattr(git, "AT_ONCE", (2, 1 << 20))
    blobs = [made.blob(b"%d" % number * 3) for number in range(5)]
    tree = made.tree(
        *((FILE, b"%d" % number, name) for number, name in enumerate(blobs)), (FILE, b"z", made.blob(b"z" * 1001))
    )
    git.unpack(made.folder, made.commit(tree), inside)
    assert everything(inside) == {str(number): str(number) * 3 for number in range(5)}
    monkeypatch.setattr(git, "MOST_BYTES", 14)
    with pytest.raises(BadFile, match="have more than"):
        git.unpack(made.folder, made.commit(tree), inside)


@pytest.mark.long
@needs("ptxas", "nvdisasm")
def test_a_clone_of_a_hostile_repository_writes_nothing_outside(made: Hostile, tmp_path: Path) -> None:
    """The whole way: git clones what it would not check out, and the command unpacks an older commit of it."""
    project, kernel = (
        made.blob(repositories.PROJECT.encode()),
        made.blob(repositories.KERNEL.format(remark="", shift=2).encode()),
    )
    kernels = (FOLDER, b"kernels", made.tree((FILE, b"turn.ptx", kernel)))
    described = (FILE, b"ncu-swizzle.toml", project)
    up = made.tree((FOLDER, b"..", made.tree((FOLDER, b"..", made.tree((FILE, b"overwritten", made.blob()))))))
    old = made.commit(made.tree(kernels, described, (FOLDER, b"x", up)), "topic")
    made.commit(made.tree(kernels, described), "main", [old])
    repositories.git(tmp_path, "clone", "-q", str(made.folder), "clone")
    subprocess.run(["git", "branch", "topic", "origin/topic"], cwd=tmp_path / "clone", check=True, capture_output=True)
    (tmp_path / "T" / "empty").mkdir(parents=True)
    (tmp_path / "T" / "overwritten").write_text("mine\n")
    environment = {**os.environ, "TMPDIR": str(tmp_path / "T"), "COLUMNS": "300"}
    done = process.run("lint", "turn", "--against", "topic", folder=tmp_path / "clone", env=environment)
    assert done.returncode == 2, done.stderr
    assert "is not unpacked: its entry 'x/..' leads elsewhere" in done.stderr
    assert everything(tmp_path / "T") == {"empty": "folder", "overwritten": "mine\n"}


def test_options_are_split_and_made_whole(tmp_path: Path) -> None:
    assert nvcc_options.split(["-DA=1 -DB='x y'", "-I inc", "-I../up", "-Xptxas -v"], tmp_path) == (
        *("-DA=1", "-DB=x y", f"-I{tmp_path}/inc", f"-I{tmp_path.parent}/up", "-Xptxas", "-v"),
    )
    assert nvcc_options.options(["A", "B=2"], ["inc"], [], "c++20", tmp_path) == (
        *("-DA", "-DB=2", f"-I{tmp_path}/inc", "-std=c++20"),
    )


def test_options_that_cannot_be_are_told(tmp_path: Path) -> None:
    forms = dict.fromkeys(("-arch=sm_80", "-gencode arch=compute_80,code=sm_80", "-o x", "-D'A"), "^UsageError")
    assert not unlike(forms, lambda form: refused(nvcc_options.split, [form], tmp_path))
    assert "-D '1A' is not NAME or NAME=VALUE" in refused(nvcc_options.options, ["1A"], [], [], "", tmp_path)


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
    assert refused(bounded.options, ("-v",), "here").endswith(f"try: {TRUST}")
    assert "link.h" in refused(bounded.options, given("-include link.h", bounded), "here"), (
        "it links out of the checkout"
    )


def test_what_nvcc_would_hand_to_a_shell_is_refused_with_trust_too(bounded: Checkout) -> None:
    expected = dict.fromkeys(SHELL, "^UsageError: here: .*to a shell, which may execute it")
    for trusted in (True, False):
        checkout = Checkout(bounded.folder, trusted)
        assert not unlike(expected, lambda words, checkout=checkout: refused(checkout.options, words, "here"))


def test_the_checkout_is_what_git_says_but_never_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / "home" / "work" / "kernels"
    deep.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Checkout(deep).root == deep
    (tmp_path / "home" / "work" / ".git").mkdir()
    assert Checkout(deep).root == tmp_path / "home" / "work"
    (tmp_path / "home" / "work" / ".git").rmdir()
    (tmp_path / "home" / ".git").mkdir()
    (tmp_path / ".git").mkdir()
    assert Checkout(deep).root == deep


OUTSIDE = table("kernels/descriptions.toml")["outside"]


def test_files_outside_the_checkout_need_trust(checkout: Path) -> None:
    (checkout / "link.cu").symlink_to("../my.cu")
    (checkout / "a=b").mkdir()
    for old, new in OUTSIDE:
        text = KERNEL.replace(old, new, 1)
        assert text != KERNEL
        (checkout / "ncu-swizzle.toml").write_text(text, encoding="utf-8")
        with pytest.raises(Untrusted, match=f"ncu-swizzle.toml.*needs your trust: it is outside {checkout}"):
            naming.catalogue(start=checkout)
        assert naming.catalogue(CatalogOptions(trust=True), checkout).named("tile"), new


def test_the_command_line_s_own_files_may_be_anywhere(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(checkout)
    described = description(args=("x=../x.npy", "y=float32[n,n]:out", "n"))
    (target,) = naming.resolve(["my.cu"], described)[0].targets
    assert target.family.arguments[0].fill.endswith("x.npy")


def test_a_baseline_outside_the_checkout_needs_trust(checkout: Path) -> None:
    (checkout / "ncu-swizzle.toml").write_text('[check]\nbaseline = "../private.json"\n', encoding="utf-8")
    with pytest.raises(Untrusted, match=r"\[check\]: baseline: \.\./private\.json needs your trust"):
        checking.settings("", checkout)
    assert checking.settings("", checkout, trust=True).baseline == checkout / "../private.json"


def test_links_to_private_files_are_not_shown(checkout: Path) -> None:
    (checkout / "secret.cuh").symlink_to("../secret.cuh")
    (checkout / "near.cuh").write_text("// near\n", encoding="utf-8")
    (checkout / "linked.cuh").symlink_to("near.cuh")
    includes = '#include "secret.cuh"\n#include "linked.cuh"\n#include "../secret.cuh"\n'
    source = checkout / "my.cu"
    source.write_text(includes + source.read_text(encoding="utf-8"), encoding="utf-8")
    texts = naming.catalogue(start=checkout).named("tile")[0].source_texts()
    assert {"my.cu", "linked.cuh"} == texts.keys()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_settings_file_of_another_user_is_not_picked_up(checkout: Path) -> None:
    """Anyone can leave one in /tmp."""
    below = checkout / "mine"
    below.mkdir()
    os.chown(checkout / "ncu-swizzle.toml", 12345, 12345)
    with pytest.raises(Untrusted, match="belongs to another user") as refused:
        project.nearest_project(below)
    assert refused.value.hint == f"--config {checkout / 'ncu-swizzle.toml'}, or --config none"
    assert project.project_file(str(checkout / "ncu-swizzle.toml"), below)
    os.chown(below, 12345, 12345)  # now it is that user's checkout, to which we went
    assert project.nearest_project(below)
