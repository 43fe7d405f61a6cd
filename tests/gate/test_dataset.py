"""A history on disk: only ever added to, also by several at once."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking, UsageError
from ncu_swizzle.gate import history
from ncu_swizzle.gate.history import RUN, RunLabel
from tests.support import process
from tests.support.fleets import needs_fleet
from tests.support.gate_profiles import COMMITS, HOSTILE, measured, named, run_of
from tests.support.marks import needs
from tests.support.recordings import Recorded
from tests.support.repositories import EXCESSIVE, git, repository


@needs_fleet
def test_what_was_added_is_read_back_and_a_run_is_kept_once(recorded: Recorded, tmp_path: Path) -> None:
    profiles = [measured(recorded("kernel1")), named(measured(recorded("kernel2")), f"{HOSTILE}\udcff")]
    label, _ = run_of(0)
    file, new = history.add(profiles, tmp_path / "h", label)
    before = file.read_bytes()
    assert (new, history.add(profiles, tmp_path / "h", label)) == (True, (file, False))
    assert file.read_bytes() == before
    rows = history.load(tmp_path / "h")
    pd.testing.assert_frame_equal(rows.drop(columns=RUN), history.table(profiles, label), check_column_type=False)
    assert set(rows[RUN]) == {file.stem}
    history.add(profiles[:1], tmp_path / "h", RunLabel(COMMITS[1]))
    assert len(history.load(tmp_path / "h")[RUN].unique()) == 2


@pytest.mark.long
@needs_fleet
def test_two_who_add_at_once_keep_both(recorded: Recorded, tmp_path: Path) -> None:
    for name in ("kernel1", "kernel2"):
        measured(recorded(name)).save(tmp_path / f"{name}.json")
    words = [sys.executable, "-m", "ncu_swizzle", "history", "add"]
    added = [[*words, f"{name}.json", "--commit", COMMITS[0]] for name in ("kernel1", "kernel2", "kernel1")]
    running = [subprocess.Popen(each, cwd=tmp_path, env=process.environment()) for each in added]
    assert [each.wait(120) for each in running] == [0, 0, 0]
    assert len(list((tmp_path / "ncu-swizzle-history").iterdir())) == 2
    assert set(history.load(tmp_path / "ncu-swizzle-history")["kernel"]) == {"kernel1", "kernel2"}


@needs_fleet
def test_a_damaged_or_changed_file_is_named(recorded: Recorded, tmp_path: Path) -> None:
    file, _ = history.add([measured(recorded("kernel1"))], tmp_path, RunLabel(COMMITS[0]))
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(DamagedFile, match=f"{file.name} is damaged"):
        history.load(tmp_path)
    file.write_bytes(content)
    changed = history.load(tmp_path).drop(columns=RUN).assign(ideal=1)
    changed.to_parquet(file, index=False)
    with pytest.raises(DamagedFile, match="was changed after it was written"):
        history.load(tmp_path)
    for column, value, said in (
        ("problem", "n", "problem is 'n'"),
        ("ideal", -1, "negative"),
        ("launch", None, "unknown"),
    ):
        wrong = changed.assign(**{column: pd.array([value] * len(changed), dtype=changed[column].dtype)})
        file.unlink()
        file = tmp_path / f"{history.identity(wrong)}.parquet"
        wrong.to_parquet(file, index=False)
        with pytest.raises(DamagedFile, match=said):
            history.load(tmp_path)


@needs_fleet
def test_a_folder_without_runs_is_no_history(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "gone"):
        with pytest.raises(BadFile, match=r"has no runs|is not a folder"):
            history.load(folder)
    with pytest.raises(UsageError, match="nothing can be added"):
        history.add([], tmp_path, RunLabel())


def test_without_pyarrow_the_command_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EnvironmentLacking, match="pyarrow is not installed"):
        history.load(tmp_path)


def test_the_commit_is_the_named_one_or_that_of_the_profiles(recorded: Recorded, tmp_path: Path) -> None:
    names = repository(tmp_path / "r", 2, planted=None)
    profile = measured(recorded("kernel1"))
    inside, outside = tmp_path / "r", tmp_path
    made = history.in_utc(git(inside, "log", "-1", "--format=%cI").strip())
    assert history.label_of("HEAD", False, [profile], inside) == RunLabel(names[1], made)
    assert history.label_of(names[0][:9], True, [profile], inside).commit == names[0]
    assert history.label_of("", False, [profile], outside) == RunLabel(profile.commit)
    assert history.label_of(names[0], False, [profile], outside) == RunLabel(names[0])
    for folder in (inside, outside):
        with pytest.raises(UsageError, match=r"git knows no commit|is not in a git repository"):
            history.label_of("no-such-branch", False, [profile], folder)


@pytest.mark.long
@needs_fleet
@needs("ptxas", "nvdisasm")
def test_a_kernel_over_commits_without_a_gpu(tmp_path: Path) -> None:
    """Each commit is emulated and added as CI would; the commit with the conflict fails the gate, and is shown."""
    folder = tmp_path / "r"
    names = repository(folder, 4, planted=2)
    codes = []
    for name in names:
        git(folder, "checkout", "-q", name)
        command = ("turn", "--engine", "emulated")
        if codes:
            codes.append(process.command("check", *command, "--history", "../h", folder=folder).returncode)
        else:
            codes.append(0)
        done = process.command("history", "add", *command, "--folder", "../h", "--commit", "HEAD", folder=folder)
        assert done.returncode == 0, done.stderr
    again = process.command("history", "add", *command, "--folder", "../h", "--commit", "HEAD", folder=folder)
    assert again.stdout.startswith("Already there:")
    assert codes == [0, 0, 1, 1]
    shown = process.command("history", "show", "turn", "--folder", "../h", "--html", "h.html", folder=folder)
    lines = {line.split()[0]: line for line in shown.stdout.splitlines() if line}
    assert ["→" in lines[name[:12]] for name in names] == [False, False, True, False]
    assert sum(int(each) for each in lines[names[2][:12]].split()[2:4]) == EXCESSIVE
    assert names[2][:12] in (folder / "h.html").read_text(encoding="utf-8")
