"""Commits whose trees were made by hand: nothing is written outside of the folder that a commit is unpacked to."""

import os
import subprocess
from pathlib import Path

import pytest

from ncu_swizzle.base.errors import BadFile, NcuSwizzleError, ProgramFailed
from ncu_swizzle.kernels import git
from tests.support import process, repositories
from tests.support.marks import needs
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
