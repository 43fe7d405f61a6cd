"""Which headers are a kernel's own, and which files of a checkout a patch must do for; nothing is compiled."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from ncu_swizzle.base.errors import NotWritable, UsageError
from ncu_swizzle.base.files import replacing
from ncu_swizzle.certify import includers
from ncu_swizzle.certify.includers import CheckoutFiles, included
from ncu_swizzle.fix import edits, sources
from ncu_swizzle.fix.sources import ChangedFile, FixQuery, fix_all
from ncu_swizzle.kernels import naming
from tests.support import places
from tests.support.fixes import Projects
from tests.support.marks import NEEDS_ALL
from tests.support.repositories import git

H = "include/turned.cuh"
CU = "src/my.cu"
USE = '#include "turned.cuh"\n'
FACTS = json.loads(places.text("facts/includers.json"))
COMPUTED = "a macro names what it includes:"


def made(folder: Path, files: dict[str, str]) -> Path:
    """Write a project; a text that starts with -> is a link."""
    for name, text in {H: "#pragma once\n", CU: USE, **files}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith("->"):
            file.symlink_to(text.removeprefix("->"))
        else:
            file.write_bytes(text.encode("utf-8", "surrogateescape"))
    return folder


def judged(project: Path, changed: str = H) -> set[str] | str:
    checkout = CheckoutFiles(project)
    found = checkout.including([project / changed]) - {project / CU}
    computed = {f"{COMPUTED} {os.path.relpath(file, project)}" for file in checkout.computed}
    return checkout.unknown or min(computed, default="") or {os.path.relpath(file, project) for file in found}


def test_what_may_include_the_header_is_judged(tmp_path: Path) -> None:
    """The names of cases, the files of a project, and which of them are judged: tests/data/facts/includers.json."""
    reached = {}
    for number, (name, (files, _)) in enumerate(FACTS["reached"].items()):
        folder = tmp_path / str(number)
        (folder / "x" / "y").mkdir(parents=True)
        reached[name] = judged(made(folder / "PROJECT", files))
    assert reached == {name: set(expected) for name, (_, expected) in FACTS["reached"].items()}


@pytest.mark.parametrize(
    "files",
    [
        {"all.cu": '#include "src/my.cu"\n'},
        {"build/all.cpp": "#include <my.cu>\n"},
        {"a.h": '#include "my.cu"\n', "all.cpp": '#include "a.h"\n'},
    ],
    ids=["a unity build", "elsewhere", "by a header"],
)
def test_what_includes_the_source_is_judged(files: dict[str, str], tmp_path: Path) -> None:
    assert judged(made(tmp_path, files), CU) == set(files)


MACROS = [*FACTS["macros"], " " * 20_000 + "#include H\n"]


@pytest.mark.parametrize("file", ["x.cpp", ".x/y.cu"])
def test_what_a_macro_includes_makes_it_unknown(file: str, tmp_path: Path) -> None:
    reasons = {text: judged(made(tmp_path / str(number), {file: text})) for number, text in enumerate(MACROS)}
    known = {text: reason for text, reason in reasons.items() if not isinstance(reason, str)}
    assert known == {}
    assert all(COMPUTED in reason and file in reason for reason in reasons.values()), reasons


def test_prose_and_scripts_have_no_includes_unless_they_are_included(tmp_path: Path) -> None:
    project = made(tmp_path, {"x.py": "#include files\n", "CMakeLists.txt": "# include all\n", "y.rb": "# import it\n"})
    assert judged(project) == set()
    assert COMPUTED in str(judged(made(project / "a", {"t.txt": "#include H\n", "x.cu": '#include "t.txt"\n'})))
    prose = ("// #includes\n", "#include\n", "#include 7\n")
    assert [text for text in prose if included(text).computed] == []


def test_with_git_what_it_ignores_does_not_count_and_submodules_do(tmp_path: Path) -> None:
    project = made(
        tmp_path / "p",
        {".gitignore": "build/\n", "build/x.cu": USE, ".hidden/x.cu": USE, "new.cpp": USE, "sub/x.cc": USE},
    )
    assert isinstance(judged(project), set)
    git(project / "sub", "init", "-q")
    git(project / "sub", "add", "-A")
    git(project / "sub", "commit", "-q", "-m", "x")
    git(project, "init", "-q")
    git(project, "add", ".gitignore", "include", "src", ".hidden", "sub")
    git(project, "config", "core.fsmonitor", f"touch {tmp_path / 'ran'}")
    assert judged(project) == {".hidden/x.cu", "new.cpp", "sub/x.cc"}
    assert not (tmp_path / "ran").exists()
    (project / ".git" / "HEAD").unlink()  # then everything below counts
    assert judged(project) == {".hidden/x.cu", "new.cpp", "sub/x.cc", "build/x.cu"}


def test_too_many_files_or_bytes_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = made(tmp_path, {f"{number}.cu": " " * 100 for number in range(10)})
    assert judged(project) == set()
    monkeypatch.setattr(includers, "MOST_BYTES", 900)
    assert "have more than" in str(judged(project))
    monkeypatch.setattr(includers, "MOST_FILES", 11)
    assert "has more than 11 files" in str(judged(project))


def test_hostile_texts_are_read_once() -> None:
    """Ten times as long they take ten times as long: what is looked at from each # has an end."""
    assert included("#/*" * 20_000 + "*/" + "/**/" * 20_000 + "include <a>").names == {("a", False)}
    assert included("#include H " * 10_000).computed
    assert included("*/ " * 20_000 + "#include H").computed
    assert included('#include "' * 10_000).names == {("#include ", True)}
    assert included("#" * 50_000 + "include <a>").names == {("a", False)}


@pytest.fixture
def headers(project: Projects) -> Path:
    """Return a project whose kernels hand tiles to functions, or take types, of headers in another folder."""
    return project("headers")


def test_libraries_headers_and_links_to_elsewhere_are_not_ones_own(
    headers: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = naming.catalogue().target("floats")
    include = headers / "include"
    assert b"void turned" in edits.source_of(edits.with_headers(target, headers))
    (include / "cute").mkdir()
    (include / "cute" / "tile.hpp").write_text("int of_cute;\n")
    other = tmp_path_factory.mktemp("other") / "turned.cuh"
    (include / "turned.cuh").rename(other)
    (include / "linked.cuh").symlink_to(other)
    target.source.write_text('#include "cute/tile.hpp"\n#include "linked.cuh"\n')
    assert edits.source_of(edits.with_headers(target, headers)) == target.source.read_bytes()


@pytest.mark.long
@NEEDS_ALL
def test_a_header_out_of_what_may_be_written_stays(headers: Path) -> None:
    fix = fix_all("src/floats.cu", FixQuery(within=lambda folder: folder == headers / "src"))
    assert not fix.changed
    (tile,) = fix.kernels[0].tiles
    assert (tile.reason_line, tile.reason_file) == (7, "")
    assert tile.reason.startswith("the access in this line is not followed back to the array")


def test_files_are_written_together_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / name for name in ("a.cu", "b.cuh", "c.cuh")]
    for path in paths:
        path.write_bytes(b"old")
    changes = [ChangedFile(path, b"old", b"new") for path in paths]

    @contextlib.contextmanager
    def failing(path: Path, like_before: bool) -> Iterator[BinaryIO]:
        with replacing(path, like_before=like_before) as file:
            yield file
            if path.name == "b.cuh":
                raise NotWritable("no space", "")

    with monkeypatch.context() as patched:
        patched.setattr(sources, "replacing", failing)
        with pytest.raises(NotWritable, match="no space"):
            sources.written_together(changes, "again")
    assert [path.read_bytes() for path in paths] == [b"old"] * 3
    paths[2].write_bytes(b"edited")
    with pytest.raises(UsageError, match=r"c\.cuh has changed since it was read"):
        sources.written_together(changes, "again")
    assert paths[0].read_bytes() == b"old"
    paths[2].write_bytes(b"old")
    sources.written_together(changes, "again")
    assert [path.read_bytes() for path in paths] == [b"new"] * 3


def test_a_source_keeps_its_mode_and_the_links_to_it(tmp_path: Path) -> None:
    real, link = tmp_path / "real.cu", tmp_path / "link.cu"
    real.write_bytes(b"old")
    link.symlink_to("real.cu")
    for number, mode in enumerate((0o640, 0o755, 0o600, 0o666)):
        real.chmod(mode)
        before, after = real.read_bytes(), f"new {number}".encode()
        sources.written_together([ChangedFile(link, before, after)], "again")
        assert (real.read_bytes(), real.stat().st_mode & 0o777) == (after, mode)
        assert link.is_symlink()
