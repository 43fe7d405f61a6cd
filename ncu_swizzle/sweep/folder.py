"""The folder of a sweep: a folder per finished point, and ``sweep.json``, which lists all points.

A point is built in a hidden folder and renamed once it is complete, so an interrupt costs at most one point.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ncu_swizzle.base.errors import BadFile, DamagedFile, NcuSwizzleError, NotWritable
from ncu_swizzle.base.files import not_writable, parse_json, read_bytes, replace_file, slug, write_json
from ncu_swizzle.base.texts import in_json
from ncu_swizzle.reports import run_folder
from ncu_swizzle.reports.counts import Total
from ncu_swizzle.reports.model import MachineInfo, Profile, UnknownCounts
from ncu_swizzle.reports.options import Destination
from ncu_swizzle.reports.origins import Origin, origin_of
from ncu_swizzle.sweep.plan import Fingerprint, Plan, Point
from ncu_swizzle.sweep.worker import HERE, Whereabouts

# The results of a sweep: for each point a profile, or why there is none.


@dataclass(frozen=True, kw_only=True)
class PointValues:
    """The values of a point's profile in tables and the page; the profile itself stays in the point's folder."""

    engine: str
    machine: MachineInfo
    when: str
    beside: str
    duration_ns: float | None
    total: Total
    where: Whereabouts = HERE
    unknowns: tuple[UnknownCounts, ...] = ()

    @classmethod
    def of(cls, profile: Profile, where: Whereabouts = HERE) -> PointValues:
        """Return the values of a profile that are kept in memory."""
        return cls(
            engine=profile.engine,
            machine=profile.machine,
            when=profile.when,
            beside=profile.beside,
            duration_ns=profile.duration_ns,
            total=profile.total,
            where=where,
            unknowns=profile.unknowns,
        )

    @property
    def conditions(self) -> tuple[str, ...]:
        """What has to match before two durations can be compared: the GPU, its driver, ncu and the clocks."""
        machine = self.machine
        return (machine.gpu, machine.driver, machine.ncu, machine.clock_control, self.where.uuid)


@dataclass(frozen=True)
class PointOutcome:
    """One point: its values, or the error that it ended with; neither if it was not reached."""

    point: Point
    values: PointValues | None = None
    error: NcuSwizzleError | None = None
    kept: bool = False  # reused from an earlier run of the sweep
    where: Whereabouts = HERE

    @property
    def state(self) -> str:
        if self.values:
            return "done"
        return "failed" if self.error else "open"


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """All points of a plan, in its order; `notes` say which points were reused, and why others were not."""

    plan: Plan
    engine: str
    outcomes: tuple[PointOutcome, ...]
    reason: str = ""  # why "auto" did not measure
    notes: tuple[str, ...] = ()
    folder: Path | None = None

    @property
    def origin(self) -> Origin:
        """Where the counts come from."""
        return origin_of(self.engine)

    @property
    def failed(self) -> tuple[PointOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.error)

    @property
    def done(self) -> tuple[PointOutcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.values)


MANIFEST, POINT, POINTS, PROFILE = "sweep.json", "point.json", "points", "profile.json"
SCHEMA = 1
AGAIN = "start the sweep over with -f"


def choose(family: str, destination: Destination, resume: bool) -> Path:
    """Return the sweep's folder: the one named, else swizzle-out/sweep-FAMILY or the first free of -2, -3, ….

    With `resume` or `force_overwrite`, return the last of these that exists. Raises NotWritable if the named folder
    holds a sweep.
    """
    export = destination.export
    if export is not None:
        if (export / MANIFEST).exists() and not (resume or destination.force_overwrite):
            raise NotWritable(
                f"{export} already holds {MANIFEST}",
                "--resume continues it, -f starts over, -o names another folder",
            )
        return export
    number, last = 1, None
    while (folder := run_folder.DEFAULT / f"sweep-{slug(family)}{f'-{number}' if number > 1 else ''}").exists():
        number, last = number + 1, folder
    return last if last and (resume or destination.force_overwrite) else folder


def is_unfinished(plan: Plan, destination: Destination) -> bool:
    """Return whether the last sweep in the folder was of the same points, and ended before it had tried all of them."""
    if destination.force_overwrite:
        return False
    with contextlib.suppress(NcuSwizzleError, LookupError, TypeError):
        points = _read(choose(plan.family.name, destination, resume=True) / MANIFEST)["points"]
        same = [(point["kernel"], point["problem"]) for point in points] == [(p.kernel, p.sizes) for p in plan.points]
        return same and any(point["state"] == "open" for point in points)
    return False


def clear(folder: Path) -> None:
    """Remove the points of an earlier sweep, if the folder holds one."""
    if (folder / MANIFEST).exists():
        shutil.rmtree(folder / POINTS, ignore_errors=True)


def save_point(staged: Path, folder: Path, point: Point, fingerprint: Fingerprint, where: Whereabouts) -> None:
    """Complete the staging folder of a finished point, whose profile it holds, and rename it to its final path.

    Raises NotWritable.
    """
    content = {"schema": SCHEMA, "fingerprint": fingerprint, "profile": PROFILE, "where": asdict(where)}
    replace_file(staged / POINT, in_json(content).encode())
    path = folder / POINTS / point.folder
    try:
        staged.chmod(0o755)
        if path.exists():  # stale
            shutil.rmtree(path)
        staged.rename(path)
    except OSError as error:
        raise not_writable(path, error) from error


def load_point(folder: Path, point: Point) -> tuple[PointValues, Mapping[str, str]] | None:
    """Return a saved point and its fingerprint, or None. Raises BadFile or DamagedFile."""
    path = folder / POINTS / point.folder
    if not (path / POINT).exists():
        return None
    content = _read(path / POINT)
    try:
        where = Whereabouts(**content.get("where", {}))
        return PointValues.of(run_folder.load_profile(path / PROFILE), where), dict(content["fingerprint"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{path / POINT} is damaged: {error!r}", "it is measured again") from error


def save(sweep: Sweep, fingerprint: Fingerprint) -> None:
    """Write ``sweep.json``: the sweep's points and the state of each."""
    assert sweep.folder is not None
    content = {
        "schema": SCHEMA,
        "family": sweep.plan.family.name,
        "engine": sweep.engine,
        "fingerprint": fingerprint,
        "points": [
            {
                "kernel": outcome.point.kernel,
                "problem": outcome.point.sizes,
                "state": outcome.state,
                **({"profile": f"{POINTS}/{outcome.point.folder}/{PROFILE}"} if outcome.values else {}),
                **({"worker": outcome.where.worker, "host": outcome.where.host} if outcome.where.worker else {}),
                **({"error": _told(outcome.error)} if outcome.error else {}),
            }
            for outcome in sweep.outcomes
        ],
    }
    write_json(sweep.folder / MANIFEST, content)


def refuse_another(folder: Path, family: str) -> None:
    """Raise BadFile if the folder to resume holds the sweep of another family."""
    if (folder / MANIFEST).exists():
        other = _read(folder / MANIFEST).get("family")
        if other != family:
            raise BadFile(f"{folder} holds a sweep of {other}, not of {family}", "name another folder with -o")


def _read(file: Path) -> dict[str, Any]:
    content = parse_json(read_bytes(file, AGAIN), str(file), AGAIN)
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise BadFile(f"{file} is not from a sweep that this ncu-swizzle can read", AGAIN)
    return content


def _told(error: NcuSwizzleError) -> dict[str, Any]:
    return {"type": type(error).__name__, "message": str(error), "hint": error.hint}
