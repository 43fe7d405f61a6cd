"""A history on disk: a folder with one Parquet file per run, only ever added to.

A file is named after its content and appears whole, so that two who add at once disturb nobody, and a run that is added
again is there already. Folders of several machines are merged by copying files.
"""

from __future__ import annotations

import importlib.util
import io
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from ncu_swizzle.errors import BadFile, DamagedFile, EnvironmentLacking, UsageError
from ncu_swizzle.files import brief, is_folder, read_bytes, write_atomically
from ncu_swizzle.history import commits, kept
from ncu_swizzle.history.kept import DIRTY, RunLabel
from ncu_swizzle.profiles.model import Profile

FOLDER = Path("ncu-swizzle-history")
INSTALL = "pip install 'ncu-swizzle[fleet]'"
ADD = "ncu-swizzle history add PROFILE…"
OBJECT_NAME = re.compile(r"[0-9a-f]{7,64}")
RUN = "run"  # the column of the file's name, which the file itself lacks


def add(profiles: list[Profile], folder: Path, label: RunLabel) -> tuple[Path, bool]:
    """Add a run; return its file, and whether it is new. Raises EnvironmentLacking without pyarrow."""
    need_pyarrow()
    if not profiles:
        raise UsageError("no launch was given, so nothing can be added", ADD)
    run = kept.table(profiles, label)
    file = folder / f"{kept.identity(run)}.parquet"
    if file.exists():
        return file, False
    content = io.BytesIO()
    run.to_parquet(content, engine="pyarrow", index=False)
    write_atomically(file, content.getvalue())
    return file, True


def load(folder: Path) -> pd.DataFrame:
    """Return all rows of a history: the columns of `kept.COLUMNS`, and `run`, the name of the file.

    Raises BadFile, DamagedFile, and EnvironmentLacking without pyarrow.
    """
    need_pyarrow()
    if not is_folder(folder):
        raise BadFile(f"{folder} is not a folder with a history", ADD)
    files = sorted(file for file in folder.glob("*.parquet") if not file.name.startswith("."))
    if not files:
        raise BadFile(f"{folder} has no runs", ADD)
    return pd.concat([_read(file).assign(**{RUN: file.stem}) for file in files], ignore_index=True)


def _read(file: Path) -> pd.DataFrame:
    data = read_bytes(file)
    damaged = "remove it, and add its run again"
    try:
        content = pd.read_parquet(io.BytesIO(data), engine="pyarrow")
        run = content[[column.name for column in kept.COLUMNS]]
        run = run.astype({column.name: column.dtype for column in kept.COLUMNS})
        same = kept.identity(run) == file.stem
        if wrong := kept.mismatch(run):
            raise ValueError(wrong)
    except Exception as error:  # pyarrow's own, and whatever a damaged file leads to
        raise DamagedFile(f"{file} is damaged: {brief(error)}", damaged) from error
    if not same:
        raise DamagedFile(f"{file} was changed after it was written: its content does not fit its name", damaged)
    return run


def need_pyarrow() -> None:
    """Raise EnvironmentLacking without pyarrow."""
    if importlib.util.find_spec("pyarrow") is None:
        raise EnvironmentLacking("pyarrow is not installed, which reads and writes Parquet", INSTALL)


def label_of(commit: str, accepted: bool, profiles: list[Profile], here: Path) -> RunLabel:
    """Return the label of a run: the named commit, else the one that all its profiles name; with its time if git knows.

    Raises UsageError for a name that git does not know, unless it is the hexadecimal name of a commit.
    """
    own = {profile.commit for profile in profiles}
    name = commit or (own.pop() if len(own) == 1 else "")
    if not name:
        return RunLabel(accepted=accepted)
    try:
        root = commits.root_of(here)
        found = commits.find(root, name.removesuffix(DIRTY))
    except (UsageError, EnvironmentLacking):
        if commit and not OBJECT_NAME.fullmatch(commit):
            raise
        return RunLabel(name, accepted=accepted)
    dirty = DIRTY if name.endswith(DIRTY) else ""
    return replace(RunLabel(f"{found}{dirty}", accepted=accepted), committed=in_utc(commits.time_of(root, found)))


def in_utc(text: str) -> str:
    """Return an ISO 8601 time in UTC, by the second; empty if the text is none. Without a zone it is UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return ""
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="seconds")
