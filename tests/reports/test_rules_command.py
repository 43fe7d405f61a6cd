"""`ncu-swizzle rules`: copies of the pack, what ncu lists of it, and findings of finished reports."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ncu_swizzle.base.errors import DamagedFile, EnvironmentLacking, NcuSwizzleError, NotWritable
from ncu_swizzle.cli import app
from ncu_swizzle.reports import pack
from tests.support.recordings import Recorded


def rules(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["rules", *map(str, arguments)])


def everything_in(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_copy_is_whole_replaces_an_older_one_and_goes_without_a_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "SpeedOfLight.section").write_text("NVIDIA's")
    before = everything_in(tmp_path)
    older = {**pack.contents(), "StallShift.py": b"older", "Dropped.py": b"since dropped"}
    with monkeypatch.context() as patch:
        patch.setattr(pack, "contents", lambda: older)
        pack.install(tmp_path)
    for _ in range(2):
        assert rules("install", "--dest", tmp_path).exit_code == 0
        copied = everything_in(tmp_path)
        del copied[pack.MANIFEST]
        assert copied == {**before, **pack.contents()}
    assert "swizzle_pack/cost.py" in copied
    compiled = tmp_path / "swizzle_pack" / "__pycache__" / "cost.cpython-312.pyc"
    compiled.parent.mkdir()
    compiled.write_bytes(b"made by ncu's Python")
    assert rules("uninstall", "--dest", tmp_path).exit_code == 0
    assert everything_in(tmp_path) == before
    assert not (tmp_path / "swizzle_pack").exists()


def test_a_file_of_another_origin_is_never_replaced_nor_written_through(tmp_path: Path) -> None:
    for name in ("StallShift.py", "swizzle_pack/facts.py"):
        folder = tmp_path / Path(name).stem
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("somebody's own")
        with pytest.raises(NotWritable, match=name):
            pack.install(folder)
        assert everything_in(folder) == {name: b"somebody's own"}
    elsewhere, linked = tmp_path / "elsewhere.py", tmp_path / "Sections"
    elsewhere.write_bytes(pack.contents()["StallShift.py"])
    linked.mkdir()
    (linked / "StallShift.py").symlink_to(elsewhere)
    with pytest.raises(NotWritable):
        pack.install(linked)
    with pytest.raises(NcuSwizzleError) as caught:
        pack.install(elsewhere / "Sections")
    assert caught.value.exit_code == 2


def test_without_a_section_folder_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(EnvironmentLacking, match="no section folder"):
        pack.destinations(None)


def test_a_damaged_manifest_removes_nothing(tmp_path: Path) -> None:
    for content in ("{", "[]", '{"files": 3}', '{"files": {"../../etc/passwd": "0"}}'):
        (tmp_path / pack.MANIFEST).write_text(content)
        with pytest.raises(DamagedFile):
            pack.uninstall(tmp_path)
        assert everything_in(tmp_path).keys() == {pack.MANIFEST}


def test_apply_prints_what_the_pack_says_of_a_profile(recorded: Recorded, tmp_path: Path) -> None:
    saved, profile = tmp_path / "kernel1.json", recorded("kernel1")
    profile.save(saved)
    expected = pack.findings(profile)
    printed = rules("apply", saved).output
    assert [finding.title for finding in expected if finding.title not in printed] == []
    content = json.loads(rules("apply", saved, "--json", "-").output)["findings"]
    assert [one["rule"] for one in content] == [one.rule for one in expected]
    assert next(one["saving"] for one in content if one["rule"] == "ConflictCost") > 70
