"""`ncu-swizzle rules`: copies of the pack, what ncu lists of it, and findings of finished reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ncu_swizzle.base import paths
from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking, NcuSwizzleError, NotWritable
from ncu_swizzle.cli import app
from ncu_swizzle.reports import pack
from ncu_swizzle.reports.model import Profile
from tests.support.places import PROGRAMS


def rules(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["rules", *map(str, arguments)])


def everything_in(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_path_and_list() -> None:
    assert rules("path").output.strip() == str(paths.rules())
    listed = rules("list").output
    for rule in pack.rules():
        assert rule.name in listed


def test_a_copy_is_whole_and_goes_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "SpeedOfLight.section").write_text("NVIDIA's")
    before = everything_in(tmp_path)
    assert rules("install", "--dest", tmp_path).exit_code == 0
    there = everything_in(tmp_path)
    assert {name: there[name] for name in pack.contents()} == pack.contents()
    assert "swizzle_pack/cost.py" in there
    compiled = tmp_path / "swizzle_pack" / "__pycache__" / "cost.cpython-312.pyc"
    compiled.parent.mkdir()
    compiled.write_bytes(b"made by ncu's Python")
    assert rules("uninstall", "--dest", tmp_path).exit_code == 0
    assert everything_in(tmp_path) == before
    assert not (tmp_path / "swizzle_pack").exists()


def test_installing_twice_and_over_an_older_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = {**pack.contents(), "StallShift.py": b"older", "Dropped.py": b"since dropped"}
    with monkeypatch.context() as patch:
        patch.setattr(pack, "contents", lambda: older)
        pack.install(tmp_path)
    pack.install(tmp_path)
    pack.install(tmp_path)
    assert everything_in(tmp_path).keys() - {pack.MANIFEST} == pack.contents().keys()
    assert (tmp_path / "StallShift.py").read_bytes() == pack.contents()["StallShift.py"]


@pytest.mark.parametrize("name", ["StallShift.py", "swizzle_pack/facts.py"])
def test_a_file_of_another_origin_is_never_replaced(name: str, tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("somebody's own")
    with pytest.raises(NotWritable, match=name):
        pack.install(tmp_path)
    assert everything_in(tmp_path) == {name: b"somebody's own"}


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.write_bytes(pack.contents()["StallShift.py"])
    folder = tmp_path / "Sections"
    folder.mkdir()
    (folder / "StallShift.py").symlink_to(elsewhere)
    with pytest.raises(NotWritable):
        pack.install(folder)


def test_what_was_changed_is_kept(tmp_path: Path) -> None:
    pack.install(tmp_path)
    (tmp_path / "StallShift.py").write_text("my own thresholds")
    with pytest.raises(NotWritable, match=r"StallShift\.py"):
        pack.install(tmp_path)
    result = rules("uninstall", "--dest", tmp_path)
    assert result.exit_code == 0
    assert "kept because it was changed: StallShift.py" in result.output
    assert everything_in(tmp_path) == {"StallShift.py": b"my own thresholds"}


@pytest.mark.parametrize("content", ["{", "[]", '{"files": 3}', '{"files": {"../../etc/passwd": "0"}}'])
def test_a_damaged_manifest_removes_nothing(content: str, tmp_path: Path) -> None:
    (tmp_path / pack.MANIFEST).write_text(content)
    with pytest.raises(DamagedFile):
        pack.uninstall(tmp_path)
    assert everything_in(tmp_path).keys() == {pack.MANIFEST}


def test_every_version_of_ncu_gets_its_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(EnvironmentLacking, match="no section folder"):
        pack.destinations(None)
    versions = [tmp_path / "Documents" / "NVIDIA Nsight Compute" / v / "Sections" for v in ("2025.3.1", "2026.1.0")]
    for folder in versions:
        folder.mkdir(parents=True)
    assert rules("install").output.count("files written to") == 2
    assert pack.destinations(None) == versions
    assert rules("uninstall").output.count("files removed from") == 2
    last = CliRunner().invoke(app, ["rules", "uninstall"])
    assert isinstance(last.exception, BadFile)


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NcuSwizzleError) as caught:
        pack.install(tmp_path / "file" / "Sections")
    assert caught.value.exit_code == 2


# ------------------------------------------------------------------------------------------------- check


def stand_in(folder: Path, names: list[str], status: int = 0) -> Path:
    """Write an ncu that lists these sections and rules."""
    program = folder / "ncu"
    heads = "Identifier Display Name Enabled Filename"
    listing = "\n".join([heads, *(f"{name}   A name  no  .../{name}.section" for name in names)])
    program.write_text(f"#!/usr/bin/env python3\nprint({listing!r})\nexit({status})\n")
    program.chmod(0o755)
    return program


def everything_listed() -> list[str]:
    return [*pack.sections(), *(rule.name for rule in pack.rules())]


def test_check_passes_where_ncu_lists_the_pack(tmp_path: Path) -> None:
    result = rules("check", "--ncu", stand_in(tmp_path, everything_listed()))
    assert result.exit_code == 0
    assert result.output.count("✓") == len(everything_listed())


def test_check_fails_where_a_rule_is_not_listed(tmp_path: Path) -> None:
    result = rules("check", "--ncu", stand_in(tmp_path, everything_listed()[:-1]))
    assert isinstance(result.exception, NcuSwizzleError)
    assert result.exception.exit_code == 4
    assert f"not listed: rule {everything_listed()[-1]}" in result.output


def test_check_says_what_ncu_said_when_it_fails(tmp_path: Path) -> None:
    result = rules("check", "--ncu", stand_in(tmp_path, ["oh"], status=1))
    assert isinstance(result.exception, NcuSwizzleError)
    assert "exited with code 1" in str(result.exception)


# ------------------------------------------------------------------------------------------------- apply


def test_apply_prints_what_the_pack_says(recorded: Callable[[str], Profile], tmp_path: Path) -> None:
    saved = tmp_path / "kernel1.json"
    recorded("kernel1").save(saved)
    result = rules("apply", saved)
    assert result.exit_code == 0
    for finding in pack.findings(recorded("kernel1")):
        assert finding.title in result.output
    content = json.loads(rules("apply", saved, "--json", "-").output)["findings"]
    assert [one["rule"] for one in content] == [one.rule for one in pack.findings(recorded("kernel1"))]
    assert next(one["saving"] for one in content if one["rule"] == "ConflictCost") > 70


def test_apply_takes_a_report(report_file: Path, tmp_path: Path) -> None:
    result = rules("apply", report_file, "--json", tmp_path / "out.json")
    assert result.exit_code == 0
    assert {one["label"] for one in json.loads((tmp_path / "out.json").read_text())["findings"]} == {"kernel2"}
    assert "Phantom Bank Conflicts" in result.output


def test_apply_speaks_of_every_kernel_of_a_report() -> None:
    report = PROGRAMS / "several.ncu-rep"
    content = json.loads(rules("apply", report, "--json", "-").output)["findings"]
    assert len({one["label"] for one in content}) == 5
    assert any(one["label"] == "rowsum" for one in content)


def test_apply_of_nothing(tmp_path: Path) -> None:
    result = rules("apply", tmp_path / "missing.ncu-rep")
    assert isinstance(result.exception, BadFile)
