"""A history on disk: a folder with one Parquet file per run, only ever added to.

A file is named after its content and appears whole, so that two who add at once disturb nobody, and a run that is added
again is there already. Folders of several machines are merged by copying files.
"""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pandas as pd

from ncu_swizzle.base import cache
from ncu_swizzle.base.errors import BadFile, DamagedFile, EnvironmentLacking, NcuSwizzleError, UsageError
from ncu_swizzle.base.files import brief, is_folder, read_bytes, write_atomically
from ncu_swizzle.base.texts import encodable, in_crosses, in_words
from ncu_swizzle.cubin.lines import Location
from ncu_swizzle.gate.judge import line_accesses
from ncu_swizzle.kernels import git
from ncu_swizzle.reports.counts import Total, added
from ncu_swizzle.reports.frames import COUNT, RATIO, TEXT, Column, counts, frame, ratios, texts
from ncu_swizzle.reports.model import Profile
from ncu_swizzle.reports.options import EMULATED
from ncu_swizzle.reports.remarks import why_unknown

# What a history keeps of a run: a row per launch, access kind and source line, with the documented columns.

FLAG = "boolean"
DIRTY = "-dirty"  # what a profile adds to the commit of sources that were changed
PROBLEM = re.compile(r"[^\s=]+=\d{1,18}( [^\s=]+=\d{1,18})*")  # n=1024 m=64
NOTHING, UNCOUNTED = Total(executed=0, wavefronts=0, ideal=0), Total(executed=None, wavefronts=None, ideal=None)


@dataclass(frozen=True)
class RunLabel:
    """What is said of a run that its profiles do not know: its commit and when that was made, and whether it is good.

    An empty commit is the profiles' own. `accepted`: its counts are intended, even where they grew.
    """

    commit: str = ""
    committed: str = ""
    accepted: bool = False


@dataclass(frozen=True, kw_only=True)
class KeptRow:
    """The counts of one access kind at one line of one launch; `why` they are unknown, if they are."""

    label: RunLabel
    launch: int
    profile: Profile
    access: str
    line: Location
    total: Total
    why: str

    @property
    def duration_ns(self) -> float | None:
        """The launch's duration; None if it was not measured in this run."""
        return None if self.profile.engine == EMULATED else self.profile.duration_ns


COLUMNS: tuple[Column[KeptRow], ...] = (
    texts("commit", "of the kernel's sources; empty: unknown", lambda r: r.label.commit or r.profile.commit),
    texts("committed", "when that commit was made; empty: unknown", lambda r: r.label.committed),
    Column(
        name="accepted", dtype=FLAG, unit="", meaning="its counts are intended, see --accept",
        get=lambda r: r.label.accepted,
    ),
    texts("when", "the day and time in UTC of the launch or its emulation", lambda r: r.profile.when),
    texts("engine", "ncu, recorded or emulated", lambda r: r.profile.engine),
    texts("gpu", "its name", lambda r: r.profile.machine.gpu),
    texts(
        "compute_capability", "of the GPU, or what it was computed for", lambda r: r.profile.machine.compute_capability
    ),
    texts("driver", "the GPU's driver", lambda r: r.profile.machine.driver),
    texts("cuda", "the CUDA version", lambda r: r.profile.machine.cuda),
    texts("ncu", "the ncu that measured", lambda r: r.profile.machine.ncu),
    texts("clocks", "ncu's clock control", lambda r: r.profile.machine.clock_control),
    texts("kernel", "its name in the catalogue, or the function's", lambda r: r.profile.kernel.name),
    texts("function", "the function's name", lambda r: r.profile.kernel.function),
    texts("problem", "sizes, as in n=1024 m=64; empty outside of a catalogue", lambda r: in_words(r.profile.problem)),
    Column(name="grid", dtype=TEXT, unit="blocks", meaning="64x16x4", get=lambda r: in_crosses(r.profile.grid)),
    Column(name="block", dtype=TEXT, unit="threads", meaning="128x1x1", get=lambda r: in_crosses(r.profile.block)),
    counts("launch", "number of the launch in this run", lambda r: r.launch),
    ratios("duration", "of the launch, in each of its rows; NA if computed", lambda r: r.duration_ns, "ns"),
    texts("access", "LDS, LDSM, STS …; empty: the kernel has none", lambda r: r.access),
    texts("file", "the source line to blame; empty: unknown", lambda r: r.line[0]),
    counts("line", "the line in that file", lambda r: r.line[1] or None),
    counts("executed", "warp-level executions", lambda r: r.total.executed, "warps"),
    counts("wavefronts", "actual", lambda r: r.total.wavefronts, "wavefronts"),
    counts("ideal", "the fewest possible", lambda r: r.total.ideal, "wavefronts"),
    texts("why", "why counts are unknown", lambda r: r.why),
)  # fmt: skip


def table(profiles: Sequence[Profile], label: RunLabel) -> pd.DataFrame:
    """Return a run as a table; a launch given twice, as a report and as a saved profile, counts once."""
    launches: list[Profile] = []
    for profile in (replace(profile, report="", command="") for profile in profiles):
        if profile not in launches:
            launches.append(profile)
    kept = frame(COLUMNS, [row for number, profile in enumerate(launches) for row in _rows(profile, number, label)])
    for name, column in kept.items():
        if column.dtype == TEXT:
            kept[name] = column.map(encodable)
    return kept


def identity(kept: pd.DataFrame) -> str:
    """Return what names a run: the same run has the same name.

    What is computed of a commit does not depend on the day, and git may not know everywhere when a commit was made.
    """
    content = kept.drop(columns="committed").astype(object)
    content = content.where(kept.drop(columns="committed").notna(), None)
    of_commit = (content["commit"] != "") & ~content["commit"].str.endswith(DIRTY)
    content.loc[(content["engine"] == EMULATED) & of_commit, "when"] = ""
    return cache.sha256_of_json(content.to_dict("records")).removeprefix("sha256:")[:32]


def mismatch(kept: pd.DataFrame) -> str:
    """Return what a table cannot hold: an unknown text, launch or flag, a negative count, sizes that are none."""
    for column in COLUMNS:
        values = kept[column.name]
        if values.isna().any() and (column.dtype in (TEXT, FLAG) or column.name == "launch"):
            return f"{column.name} is unknown"
        if column.dtype in (COUNT, RATIO) and (values.dropna() < 0).any():
            return f"{column.name} is negative"
    wrong = [problem for problem in kept["problem"] if problem and not PROBLEM.fullmatch(problem)]
    return f"problem is {wrong[0]!r}" if wrong else ""


def _rows(profile: Profile, launch: int, label: RunLabel) -> Iterator[KeptRow]:
    lines = line_accesses(profile)
    row = partial(KeptRow, label=label, launch=launch, profile=profile)
    if not lines:
        why = why_unknown(profile, "")
        yield row(access="", line=("", 0), total=UNCOUNTED if why else NOTHING, why=why)
    doubts = {line.access: why_unknown(profile, line.access) for line in lines}
    for line in lines:
        why = doubts[line.access]
        total = UNCOUNTED if why and profile.engine != EMULATED else added(line.instructions)
        place = (line.place.file, line.place.line) if line.place else ("", 0)  # of a report that names none
        yield row(access=line.access, line=place, total=total, why=why if total.excessive is None else "")


FOLDER = Path("ncu-swizzle-history")
INSTALL = "pip install 'ncu-swizzle[fleet]'"
ADD = "ncu-swizzle history add PROFILE…"
GIT_S = 120.0  # for an answer of git's
OBJECT_NAME = re.compile(r"[0-9a-f]{7,64}")
RUN = "run"  # the column of the file's name, which the file itself lacks


def add(profiles: list[Profile], folder: Path, label: RunLabel) -> tuple[Path, bool]:
    """Add a run; return its file, and whether it is new. Raises EnvironmentLacking without pyarrow."""
    need_pyarrow()
    if not profiles:
        raise UsageError("no launch was given, so nothing can be added", ADD)
    run = table(profiles, label)
    file = folder / f"{identity(run)}.parquet"
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
        run = content[[column.name for column in COLUMNS]]
        run = run.astype({column.name: column.dtype for column in COLUMNS})
        same = identity(run) == file.stem
        if wrong := mismatch(run):
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
    top, full_name = None, ""
    why: NcuSwizzleError
    if not shutil.which("git"):
        why = EnvironmentLacking("git is not installed", "apt-get install git")
    elif not (top := git.top(here)):
        why = UsageError(f"{here} is not in a git repository", "cd to the repository of the kernel")
    elif not (full_name := git.commit_named(top, name.removesuffix(DIRTY), GIT_S)):
        why = UsageError(f"git knows no commit {name!r}", "git log shows the commits")
    if top is None or not full_name:
        if commit and not OBJECT_NAME.fullmatch(commit):
            raise why
        return RunLabel(name, accepted=accepted)
    dirty = DIRTY if name.endswith(DIRTY) else ""
    when = git.said(top, "log", "--no-walk", "--format=%cI", full_name, timeout_s=GIT_S).decode(errors="replace")
    return RunLabel(f"{full_name}{dirty}", in_utc(when.strip()), accepted)


def in_utc(text: str) -> str:
    """Return an ISO 8601 time in UTC, by the second; empty if the text is not a time. Without a zone it is UTC."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return ""
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="seconds")
