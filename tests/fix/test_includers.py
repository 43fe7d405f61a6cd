"""Which files of a checkout a patch must do for: small projects that hide an include; nothing is compiled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ncu_swizzle.fix import includers
from ncu_swizzle.fix.includers import CheckoutFiles, included
from tests.support.repositories import git

H = "include/turned.cuh"
CU = "src/my.cu"
USE = '#include "turned.cuh"\n'
COMPUTED = "what that names is not followed"
UNITS = ("cu", "cpp", "cxx", "cc", "c", "C", "CPP", "c++", "cppm", "cu.in", "cu.j2", "strange", "m")
HEADERS = ("h", "hpp", "tcc", "inl", "inc", "txt", "h.in", "py", "md", "cuh")


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
    found = CheckoutFiles(project).including([project / changed], project / CU)
    return found.unknown or {os.path.relpath(file, project) for file in found.files}


REACHED: dict[str, tuple[dict[str, str], set[str]]] = {
    "alone": ({}, set()),
    **{f"a unit {suffix}": ({f"src/other.{suffix}": USE}, {f"src/other.{suffix}"}) for suffix in UNITS},
    **{
        f"a chain by {suffix}": ({f"a/b.{suffix}": USE, "x.cpp": f'#include "b.{suffix}"\n'}, {"x.cpp"})
        for suffix in HEADERS
    },
    "a header that nobody includes": ({"include/all.h": USE}, {"include/all.h"}),
    "a header without a suffix": ({"include/all": USE, "x.cpp": "#include <all>\n"}, {"x.cpp"}),
    "a hidden folder": ({".gen/x.cpp": USE}, {".gen/x.cpp"}),
    "a hidden file": ({"src/.x.cu": USE}, {"src/.x.cu"}),
    "a sibling folder": ({"../x/y/../../PROJECT/tools/x.cu": USE}, {"tools/x.cu"}),
    "a folder named": ({"x.cu": "#include <lib/turned.cuh>\n"}, {"x.cu"}),
    "a way up": ({"src/x.cu": '#include "../include/turned.cuh"\n'}, {"src/x.cu"}),
    "a way through a missing folder": ({"x.cu": '#include "no/../include/turned.cuh"\n'}, {"x.cu"}),
    "another folder's separator": ({"x.cu": '#include "include\\turned.cuh"\n'}, {"x.cu"}),
    "another case": ({"x.cu": '#include "Turned.CUH"\n'}, {"x.cu"}),
    "an absolute path": ({"x.cu": '#include "/opt/src/include/turned.cuh"\n'}, {"x.cu"}),
    "the next one": ({"a/turned.cuh": "#include_next <turned.cuh>\n", "a/x.cu": USE}, {"a/x.cu"}),
    "the next one in quotes": ({"a/turned.cuh": '#include_next "turned.cuh"\n', "a/x.cu": USE}, {"a/x.cu"}),
    "an import": ({"x.m": '#import "turned.cuh"\n'}, {"x.m"}),
    "data": ({"x.cpp": 'const char text[] = {\n#embed "turned.cuh"\n};\n'}, {"x.cpp"}),
    "a comment": ({"x.cu": '/* c */ # /* c\n */ include /**/ "turned.cuh"\n'}, {"x.cu"}),
    "many comments": ({"x.cu": "#" + "/**/" * 99 + 'include "turned.cuh"\n'}, {"x.cu"}),
    "in a comment": ({"x.cu": '// #include "turned.cuh"\n'}, {"x.cu"}),
    "in a raw string": ({"x.cu": 'auto s = R"(\n#include "turned.cuh"\n)";\n'}, {"x.cu"}),
    "after what looks like a comment": ({"x.cu": 'auto s = "/*";\n#include "turned.cuh"\n'}, {"x.cu"}),
    "a branch not taken": ({"x.cu": "#if 0\n" + USE + "#endif\n"}, {"x.cu"}),
    "a line that goes on": ({"x.cu": '#inc\\\nlude "tur\\\nned.cuh"\n'}, {"x.cu"}),
    "a line that goes on after spaces": ({"x.cu": '#inc\\ \t\nlude "turned.cuh"\n'}, {"x.cu"}),
    "a line that goes on by a trigraph": ({"x.cu": '#inc??/\nlude "turned.cuh"\n'}, {"x.cu"}),
    "line ends of Windows": ({"x.cu": '#include \\\r\n"turned.cuh"\r\n'}, {"x.cu"}),
    "a digraph": ({"x.cu": '%: include "turned.cuh"\n'}, {"x.cu"}),
    "a trigraph": ({"x.cu": '??=include "turned.cuh"\n'}, {"x.cu"}),
    "a mark of the byte order": ({"x.cu": "\ufeff" + USE}, {"x.cu"}),
    "bytes that are not UTF-8": ({"x.cu": "// \udcff\n" + USE}, {"x.cu"}),
    "no space": ({"x.cu": '#include"turned.cuh"\n'}, {"x.cu"}),
    "a form feed": ({"x.cu": '#\finclude\v"turned.cuh"\n'}, {"x.cu"}),
    "a link to the header": ({"lib/t.h": "->../include/turned.cuh", "x.cpp": "#include <t.h>\n"}, {"x.cpp"}),
    "a link to its folder": ({"inc": "->include", "x.cpp": '#include "inc/turned.cuh"\n'}, {"x.cpp"}),
    "a link to a unit": ({"a.cpp": USE, "b.cpp": "->a.cpp"}, {"a.cpp", "b.cpp"}),
    "a unit that another one includes": ({"a.cu": USE, "all.cpp": '#include "a.cu"\n'}, {"a.cu", "all.cpp"}),
    "headers in a circle": (
        {"a.h": '#include "b.h"\n' + USE, "b.h": '#include "a.h"\n'}, {"a.h", "b.h"},
    ),
    "itself": ({"x.cu": '#include "x.cu"\n' + USE}, {"x.cu"}),
    "another header of that name": ({"a/turned.cuh": "", "a/x.cu": USE}, set()),  # it is beside
    "prose": ({"README.md": USE, "x.py": f"text = '''{USE}'''", "x.cu~": USE, "my.cu.orig": USE}, set()),
    "a test whether it is there": ({"x.cu": '#if __has_include("turned.cuh")\n#endif\n'}, set()),
    "a longer word": ({"x.cu": '#includes "turned.cuh"\n'}, set()),
}  # fmt: skip


def test_what_may_include_the_header_is_judged(tmp_path: Path) -> None:
    reached = {}
    for number, (name, (files, _)) in enumerate(REACHED.items()):
        folder = tmp_path / str(number)
        (folder / "x" / "y").mkdir(parents=True)
        reached[name] = judged(made(folder / "PROJECT", files))
    assert reached == {name: expected for name, (_, expected) in REACHED.items()}


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
    assert judged(made(tmp_path, files), CU) == {file for file in files if "all" in file}


MACROS = [
    "#include HEADER\n", "#include NAME(turned)\n",
    "#define H <turned.cuh>\n#include H\n", "/* c */ #include /* c */ H\n",
    "/* a\nb */ #include H\n", "#inc\\\nlude H\n", "// what??/\n#include H\n", "// path C:\\ \n#include H\n",
    "??=include H\n", "%:include_next H\n", "#import H\n", "\r#include H\r", "\ufeff#include H\n", "#\0include H\n",
    "#" + "/**/" * 200 + "include <a>\n", "#include \\\nH\n", "#include $h\n",
    "#include \u00e4\n", "#include \\u00e4\n",
    " " * 20_000 + "#include H\n", "#include __FILE__\n",
]  # fmt: skip


@pytest.mark.parametrize("file", ["x.cpp", "a/x.inl", ".x/y.cu"])
def test_what_a_macro_includes_makes_it_unknown(file: str, tmp_path: Path) -> None:
    reasons = {text: judged(made(tmp_path / str(number), {file: text})) for number, text in enumerate(MACROS)}
    known = {text: reason for text, reason in reasons.items() if not isinstance(reason, str)}
    assert known == {}
    assert all(COMPUTED in reason and file in reason for reason in reasons.values()), reasons


def test_prose_and_scripts_have_no_includes_unless_they_are_included(tmp_path: Path) -> None:
    project = made(tmp_path, {"x.py": "#include files\n", "CMakeLists.txt": "# include all\n", "y.rb": "# import it\n"})
    assert judged(project) == set()
    assert COMPUTED in str(judged(made(project / "a", {"t.txt": "#include H\n", "x.cu": '#include "t.txt"\n'})))
    prose = ("// see #include H\n", "// #includes\n", "#include\n", "x #include H\n", "#include 7\n", " * #include H\n")
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
    assert included("#/*" * 20_000 + "*/" + "/**/" * 20_000 + "include <a>").computed
    assert included("#include H " * 10_000).computed
    assert included("x" * 20_000 + " #include H").computed, "the line is too long to tell"
    assert included('#include "' * 10_000).names == {("#include ", True)}
    assert included("#" * 50_000 + "include <a>").names == {("a", False)}
