"""The folder of a sweep: a folder per finished point, and ``sweep.json`` that says what belongs to it.

A point is built in a hidden folder and moved to its place when it is whole, so that an interrupt costs one point.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ncu_swizzle.errors import BadFile, DamagedFile, NcuSwizzleError, NotWritable
from ncu_swizzle.files import ELSEWHERE, write_json
from ncu_swizzle.profiles import run_folder
from ncu_swizzle.profiles.destination import Destination
from ncu_swizzle.profiles.model import Profile
from ncu_swizzle.sweep.fingerprint import Fingerprint
from ncu_swizzle.sweep.outcome import Sweep
from ncu_swizzle.sweep.plan import Point

MANIFEST, POINT, POINTS, PROFILE = "sweep.json", "point.json", "points", "profile.json"
SCHEMA = 1


def choose(family: str, destination: Destination, resume: bool) -> Path:
    """Return the sweep's folder: the one named, else swizzle-out/sweep-FAMILY or the first free of -2, -3, ….

    To resume is to take the last of these. Raises NotWritable where another sweep lies in the way.
    """
    export = destination.export
    if export is not None:
        if (export / MANIFEST).exists() and not (resume or destination.force_overwrite):
            raise NotWritable(
                f"{export} already holds {MANIFEST}",
                "--resume goes on with it, -f starts it again, -o names another place",
            )
        return export
    number, last = 1, None
    while (place := run_folder.DEFAULT / f"sweep-{family}{f'-{number}' if number > 1 else ''}").exists():
        number, last = number + 1, place
    return last if resume and last else place


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Make the folder, and hold it for one sweep at a time; raise NotWritable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise NotWritable(f"cannot write to {folder}: {error.strerror}", ELSEWHERE) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise NotWritable(f"another sweep is writing to {folder}", "wait for it, or name another place") from error
    try:
        yield
    finally:
        os.close(handle)


def clear(folder: Path) -> None:
    """Remove the points of an earlier sweep, if this is a sweep's folder."""
    if (folder / MANIFEST).exists():
        shutil.rmtree(folder / POINTS, ignore_errors=True)


def save_point(staged: Path, folder: Path, point: Point, profile: Profile, fingerprint: Fingerprint) -> None:
    """Write a finished point into its staging folder and move that to its place; raise NotWritable."""
    profile.save(staged / PROFILE)
    write_json(staged / POINT, {"schema": SCHEMA, "fingerprint": fingerprint, "profile": PROFILE})
    place = folder / POINTS / point.folder
    try:
        staged.chmod(0o755)
        if place.exists():  # stale
            shutil.rmtree(place)
        staged.rename(place)
    except OSError as error:
        raise NotWritable(f"cannot write {place}: {error.strerror}", ELSEWHERE) from error


def load_point(folder: Path, point: Point) -> tuple[Profile, Mapping[str, str]] | None:
    """Return a kept point and what it rests on; None where there is none. Raises BadFile or DamagedFile."""
    place = folder / POINTS / point.folder
    if not (place / POINT).exists():
        return None
    content = _read(place / POINT)
    try:
        return run_folder.load_profile(place / str(content["profile"])), dict(content["fingerprint"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{place / POINT} is damaged: {error!r}", "it is measured again") from error


def save(sweep: Sweep, fingerprint: Fingerprint) -> None:
    """Write what belongs to the sweep and how far it came."""
    assert sweep.folder is not None
    content = {
        "schema": SCHEMA,
        "family": sweep.plan.family.name,
        "engine": sweep.engine,
        "fingerprint": fingerprint,
        "points": [
            {
                "kernel": one.point.kernel,
                "problem": one.point.sizes,
                "state": one.state,
                **({"profile": f"{POINTS}/{one.point.folder}/{PROFILE}"} if one.profile else {}),
                **(_error(one.error) if one.error else {}),
            }
            for one in sweep.outcomes
        ],
    }
    write_json(sweep.folder / MANIFEST, content)


def refuse_another(folder: Path, family: str) -> None:
    """Raise BadFile where the folder that is to be gone on with holds the sweep of another family."""
    if (folder / MANIFEST).exists():
        held = _read(folder / MANIFEST).get("family")
        if held != family:
            raise BadFile(f"{folder} holds a sweep of {held}, not of {family}", "name another place with -o")


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{file} is not whole: {error}", "start the sweep again with -f") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise BadFile(f"{file} is not of a sweep that this ncu-swizzle reads", "start the sweep again with -f")
    return content


def _error(error: NcuSwizzleError) -> dict[str, Any]:
    return {"error": {"type": type(error).__name__, "message": str(error), "hint": error.hint}}
