"""What a client may have read and run, and what not."""

from __future__ import annotations

from pathlib import Path

import pytest

from ncu_swizzle.base.errors import Untrusted, UsageError
from ncu_swizzle.servers.folders import ALLOW_RUN, Folders, LaunchGiven
from tests.support.planted import ENTRY, LAUNCH

OUTSIDE = "outside of the folders"


def test_what_is_inside_may_be_read(folder: Path) -> None:
    here = Folders((folder,))
    assert here.path("t.cu") == Path("t.cu")
    assert here.kernel("t.cu", LaunchGiven()) == "none"
    assert here.kernel("kernel2", LaunchGiven()) == "none"


@pytest.mark.parametrize("way", ["absolute", "dots", "link", "folder link"])
def test_nothing_outside_is_read(folder: Path, outside: Path, way: str) -> None:
    (folder / "link.cu").symlink_to(outside / "t.cu")
    (folder / "there").symlink_to(outside)
    names = {
        "absolute": str(outside / "t.cu"), "dots": f"{'../' * 20}{outside}/t.cu", "link": "link.cu",
        "folder link": "there/t.cu",
    }  # fmt: skip
    with pytest.raises(Untrusted, match=OUTSIDE) as error:
        Folders((folder,)).kernel(names[way], LaunchGiven())
    assert str(folder) in error.value.hint


@pytest.mark.parametrize(
    "given",
    [
        {"args": ["in={}/data.npy"]},
        {"args": ["in=float32[4]:{}/data.npy"]},
        {"args": ["p=bytes:{}/data.npy"]},
        {"include": ["{}"]},
    ],
)
def test_a_launch_names_nothing_outside(folder: Path, outside: Path, given: dict[str, list[str]]) -> None:
    launch = LaunchGiven.of_json({name: [text.format(outside) for text in texts] for name, texts in given.items()})
    with pytest.raises(Untrusted, match=OUTSIDE):
        Folders((folder,)).kernel("t.cu", launch)


def test_a_projects_file_inside_names_nothing_outside(folder: Path, outside: Path) -> None:
    (folder / ".git").mkdir()
    text = ENTRY.replace('"t.cu"', '"../../t.cu"')
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "sub" / "deep" / "ncu-swizzle.toml").write_text(text, encoding="utf-8")
    only = Folders((folder / "sub",))
    assert outside.exists()
    with pytest.MonkeyPatch.context() as there:
        there.chdir(folder / "sub" / "deep")
        with pytest.raises(Untrusted, match=OUTSIDE):
            only.kernel("mine", LaunchGiven())


def test_a_projects_file_outside_does_not_exist(folder: Path) -> None:
    (folder / "ncu-swizzle.toml").write_text(ENTRY, encoding="utf-8")
    (folder / "sub").mkdir()
    assert Folders((folder,)).config(folder / "sub") == str(folder / "ncu-swizzle.toml")
    assert Folders((folder / "sub",)).config(folder / "sub") == "none"


def test_nothing_runs_unless_allowed(folder: Path) -> None:
    (folder / "k.py").write_text("raise SystemExit(7)\n", encoding="utf-8")
    safe, trusting = Folders((folder,)), Folders((folder,), allow_run=True)
    with pytest.raises(Untrusted, match="imports that file") as error:
        safe.kernel("k.py::fn", LaunchGiven())
    assert error.value.hint == ALLOW_RUN
    with pytest.raises(Untrusted, match="launches the kernel"):
        safe.engine("ncu")
    assert [safe.engine(name) for name in ("auto", "recorded", "emulated")] == ["emulated", "recorded", "emulated"]
    assert [trusting.engine(name) for name in ("auto", "ncu")] == ["auto", "ncu"]
    trusting.kernel("k.py::fn", LaunchGiven())


def test_a_name_that_is_no_path_is_an_error(folder: Path) -> None:
    with pytest.raises(UsageError, match="not a path"):
        Folders((folder,)).path("a\0b")


def test_a_launch_has_only_the_fields_that_it_has() -> None:
    with pytest.raises(UsageError, match="no field 'gird'") as error:
        LaunchGiven.of_json({**LAUNCH, "gird": 1})
    assert "grid" in error.value.hint
